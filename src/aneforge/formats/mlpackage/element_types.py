"""A graph in the element types that Core ML has: wider types become narrower, types that it does not take are cast.

Core ML has no tensors of 64 bits, nor of unsigned 32-bit integers. Every converter to it takes integers as int32 and
fp64 as fp32, and so does this one, ports included; a warning says so. A constant that does not fit is an error. Ports
of booleans and of small integers, which Core ML does not have either, are int32 ports.

The public operations take few small integers and booleans (`aneforge.formats.mil.opsets`). Those that choose among
their operands, or compare them, do the same in int32: their operands are cast to it, and their results back. Sums and
products do not, because a small type wraps around where int32 does not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import NotSupportedError
from aneforge.formats.mil.opsets import ANY, OPSETS, parameters_at, public_operations
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import build
from aneforge.graph.precision import list_element_types, retype_graph, too_large
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.op import Trait
from aneforge.ops.types import value_range
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Output, Value

__all__ = ["Taken", "in_package_types", "with_casts"]

WHOLE = "int32"
NARROW: dict[str, str] = {**dict.fromkeys(("int64", "uint32", "uint64"), WHOLE), "fp64": "fp32"}
"""Element types that Core ML has no tensors of, and what they become."""
SMALL = frozenset({"bool", "int8", "int16", "uint8", "uint16"})
"""Element types whose every number int32 holds, and that Core ML casts to it and back."""
ANY_TYPE = frozenset({Trait.COMPARING, Trait.INDICES})
"""What operations do whose results are the same whatever element type holds the numbers."""
CHOOSING_MODES = ("update", "max", "min")
"""Modes of scattering that compute no new number."""
LISTED = 4
"""Ports that a warning names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A graph in element types that tensors and ports of Core ML have, and what a user should know of the change."""

    graph: Graph
    narrowed: str = ""
    """Which tensors became narrower, so that a number may be lost; nothing where only constants did."""
    ports: str = ""
    """Which ports take and give other element types, and lose nothing."""


def in_package_types(graph: Graph) -> Taken:
    """Return a graph without the element types that tensors or ports of Core ML do not have.

    >>> import aneforge as af
    >>> truth = af.input((2, 3), name="x").cast("bool")
    >>> taken = in_package_types(af.Graph({"y": truth}))
    >>> print(taken.graph.outputs["y"].type)
    int32[2, 3]
    >>> print(taken.ports)
    Core ML has no ports of bool, int16, int8, uint16, uint8: 'y' became int32

    Raises:
        NotSupportedError: A constant has no room in the narrower type.
    """
    narrowed = narrowing(graph)
    names = ports_of(graph, SMALL)
    if not names:
        return narrowed
    text = f"Core ML has no ports of {', '.join(sorted(SMALL))}: {list_ports(names)} became {WHOLE}"
    return replace(narrowed, graph=with_whole_ports(narrowed.graph), ports=text)


def narrowing(graph: Graph) -> Taken:
    """Return a graph without the element types that Core ML has no tensors of.

    Raises:
        NotSupportedError: A constant has no room in the narrower type.
    """
    if not list_element_types(graph) & NARROW.keys():
        return Taken(graph)
    for found in too_large(graph, NARROW):
        raise NotSupportedError(
            f"Core ML has no integers wider than {WHOLE}, and one does not fit",
            operation=found.node.op.name,
            location=found.node.location,
            seen=found.number,
            limit=" to ".join(map(str, value_range(WHOLE))),
        )
    changed = retype_graph(graph, NARROW)
    return Taken(changed.graph, "; ".join((*remarks(graph), *changed.faults)))


def remarks(graph: Graph) -> Iterator[str]:
    """Yield what a user should know of tensors that become narrower; nothing where there are only constants."""
    counts = Counter(kind.dtype for node in graph.nodes for kind in node.types if kind.dtype in NARROW)
    parts = [f"{count} of {dtype} as {NARROW[dtype]}" for dtype, count in sorted(counts.items())]
    ports = ports_of(graph, NARROW)
    among = f", among them the ports {list_ports(ports)}" if ports else ""
    if parts:
        yield f"Core ML has no tensors of {', '.join(sorted(NARROW))}: taken were {', '.join(parts)}{among}"


def ports_of(graph: Graph, dtypes: Container[str]) -> list[str]:
    """Return the names of the inputs and outputs that have one of some element types."""
    kinds = {name: node.types[0] for name, node in graph.inputs.items()}
    kinds |= {name: value.type for name, value in graph.outputs.items()}
    return [name for name, kind in kinds.items() if kind.dtype in dtypes]


def list_ports(ports: Sequence[str]) -> str:
    """Return the names of the first ports, and how many more there are.

    >>> list_ports(["a", "b"]), list_ports("abcdef")
    ("'a', 'b'", "'a', 'b', 'c', 'd' and 2 more")
    """
    more = f" and {len(ports) - LISTED} more" if len(ports) > LISTED else ""
    return ", ".join(map(repr, ports[:LISTED])) + more


def with_whole_ports(graph: Graph) -> Graph:
    """Return a graph whose ports are int32 where they were booleans or small integers."""
    inside = rewrite(graph, whole_input)
    outputs = {
        name: cast_to(value.node, value, WHOLE) if value.type.dtype in SMALL else tensor_of(value)
        for name, value in inside.outputs.items()
    }
    return Graph(outputs, {name: tensor_of(value) for name, value in inside.states.items()})


def whole_input(node: Node, _: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Rebuild an input as one of int32 that is cast; it keeps its place in the order of inputs."""
    if node.op.name != INPUT or node.types[0].dtype not in SMALL:
        return None
    port = build(node.op, {}, {**node.attributes, "dtype": WHOLE}, node.location)
    return [cast_to(node, Tensor(replace(port, created=node.created)), node.types[0].dtype)]


def cast_to(node: Node, value: Value, dtype: str) -> Tensor:
    """Return a value cast to an element type, in the place of a node."""
    return Tensor(build("cast", {"x": value}, {"dtype": dtype}, node.location))


def tensor_of(value: Output) -> Tensor:
    """Return a value as a tensor."""
    return Tensor(value.node, value.index)


def with_casts(graph: Graph) -> Graph:
    """Return a graph whose operations read small integers and booleans as int32, where Core ML asks for it.

    >>> import aneforge as af
    >>> truth = af.input((2, 3), name="x").cast("bool")
    >>> taken = Tensor(build("gather", {"x": truth, "indices": Dense(np.int32([1]))}, {"axis": 0}))
    >>> [f"{node.op.name} {node.types[0].dtype}" for node in with_casts(af.Graph({"y": taken})).nodes]
    ['input fp16', 'cast bool', 'cast int32', 'gather int32', 'cast bool']
    """
    return rewrite(graph, in_whole_numbers) if any(map(refuse_operands, graph.nodes)) else graph


def in_whole_numbers(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Rebuild an operation with operands in int32, and its results in their own types."""
    names = refuse_operands(node)
    if not names:
        return None
    given: dict[str, Argument | None] = {
        name: as_whole(node, argument) if name in names else argument for name, argument in operands.items()
    }
    rebuilt = build(node.op, given, node.attributes, node.location)
    results = (Tensor(rebuilt, index) for index in range(len(rebuilt.types)))
    return [
        result if result.type == kind else cast_to(node, result, kind.dtype)
        for result, kind in zip(results, node.types, strict=True)
    ]


def refuse_operands(node: Node) -> frozenset[str]:
    """Return the operands that Core ML takes as int32 and not as they are, where that gives the same."""
    if not is_same_in_whole(node):
        return frozenset()
    taken = parameters_at(public_operations().get(str(node.op.mil_name), {}), OPSETS[-1]) or {}
    return frozenset(
        name
        for name, value in node.values()
        if value.type.dtype in SMALL and is_refused(value.type.dtype, taken.get(name, ANY))
    )


def is_same_in_whole(node: Node) -> bool:
    """Return whether a node compares numbers, chooses among them, moves them or takes them for places.

    >>> import aneforge as af
    >>> x = af.input((2, 3))
    >>> [is_same_in_whole(y.node) for y in (x.greater(x), x.amax(axis=1), x.transpose((1, 0)), x.sum(axis=1))]
    [True, True, True, False]
    """
    if Trait.SCATTERING in node.op.traits:
        return node.attributes["mode"] in CHOOSING_MODES
    return node.op.movement is not None or bool(node.op.traits & ANY_TYPE)


def is_refused(dtype: str, taken: str) -> bool:
    """Return whether a parameter takes int32 and not another element type.

    >>> is_refused("bool", "fp16 fp32 int32"), is_refused("bool", "bool"), is_refused("bool", ANY)
    (True, False, False)
    """
    return taken != ANY and dtype not in taken.split() and WHOLE in taken.split()


def as_whole(node: Node, argument: Argument) -> Argument:
    """Return an operand in int32."""
    if isinstance(argument, tuple):
        return tuple(cast("Value", as_whole(node, one)) for one in argument)
    if isinstance(argument, Constant):
        return Dense.owning(argument.dense().astype(np.int32))
    return cast_to(node, argument, WHOLE)

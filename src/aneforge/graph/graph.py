"""A graph: named outputs, what they reach, the inputs in their order, and the states that are read and written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError, replace
from functools import cached_property
from types import MappingProxyType
from typing import NoReturn, Self, cast

from aneforge.display import as_html, number_of
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import Node, Output
from aneforge.graph.printing import graph_text
from aneforge.ops.constant import Constant
from aneforge.ops.declared import GIVE_VALUES, Declared
from aneforge.ops.op import Work
from aneforge.records import dataclass

__all__ = ["INPUT", "STATE", "Graph", "GraphLike", "as_graph", "expect_values", "read_promises"]

INPUT, STATE = "input", "state"
PLACEHOLDERS = {INPUT, STATE}


class Graph:
    """An immutable graph of operations: the mathematical description of a model.

    A state is read at the start of a run, through the value of its placeholder, and written at the end, with the value
    that `states` gives for its name. A copy of a graph is the graph itself; it is pickled as its text and its
    constants.

    >>> import aneforge as af
    >>> x = af.input((1, 4))
    >>> graph = af.Graph({"y": x.relu()})
    >>> [node.op.name for node in graph.nodes]
    ['input', 'relu']
    """

    outputs: Mapping[str, Output]
    states: Mapping[str, Output]

    def __init__(self, outputs: Mapping[str, Output], states: Mapping[str, Output] | None = None) -> None:
        object.__setattr__(self, "outputs", check_ports("output", outputs))
        object.__setattr__(self, "states", check_ports("state", {} if states is None else states))
        if not self.outputs and not self.states:
            raise GraphError("a graph needs an output")
        check_placeholders(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"a graph never changes: cannot assign to {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"a graph never changes: cannot delete {name!r}")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, each after those that it reads; placeholders first, in the order of their making."""
        ordered = topological_order([*self.outputs.values(), *self.states.values()])
        placeholders = sorted((node for node in ordered if node.op.name in PLACEHOLDERS), key=lambda node: node.created)
        return (*placeholders, *(node for node in ordered if node.op.name not in PLACEHOLDERS))

    @cached_property
    def placeholders(self) -> tuple[Node, ...]:
        """The inputs and the states that are read, in the order of their making."""
        return tuple(itertools.takewhile(lambda node: node.op.name in PLACEHOLDERS, self.nodes))

    @cached_property
    def inputs(self) -> Mapping[str, Node]:
        """The input placeholders by name, in the order in which values are fed.

        One without a name is called x and its place among the inputs; where that is taken, the next number is tried.
        """
        nodes = [node for node in self.placeholders if node.op.name == INPUT]
        taken = {*(get_given_name(node) for node in nodes), *self.state_placeholders}
        names: dict[str, Node] = {}
        for place, node in enumerate(nodes):
            name = get_given_name(node) or next(f"x{n}" for n in itertools.count(place) if f"x{n}" not in taken)
            taken.add(name)
            names[name] = node
        return MappingProxyType(names)

    @cached_property
    def state_placeholders(self) -> Mapping[str, Node]:
        """The placeholders through which states are read, by name."""
        return MappingProxyType({get_given_name(node): node for node in self.placeholders if node.op.name == STATE})

    @cached_property
    def constants(self) -> Mapping[str, Constant]:
        """Every constant by its symbol, in the order of first use; equal constants share one symbol."""
        symbols: dict[Constant, str] = {}
        for node in self.nodes:
            for constant in node.constants():
                symbols.setdefault(constant, f"c{len(symbols)}")
        return MappingProxyType({symbol: constant for constant, symbol in symbols.items()})

    @cached_property
    def consumers(self) -> Mapping[Node, tuple[Node, ...]]:
        """The nodes that read each node."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(value.node for value in node.sources()):
                readers[source].append(node)
        return MappingProxyType({node: tuple(found) for node, found in readers.items()})

    def work(self) -> Work:
        """Return what one run costs, whatever the target."""
        works = [work_of(node) for node in self.nodes]
        return Work(
            macs=sum(work.macs for work in works),
            bytes_in=sum(work.bytes_in for work in works),
            bytes_out=sum(work.bytes_out for work in works),
            bytes_weights=sum(constant.nbytes for constant in self.constants.values()),
        )

    def summary(self) -> Summary:
        """Return the graph in figures."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        return Summary(
            nodes=len(self.nodes),
            operations=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
            constants=len(self.constants),
            work=self.work(),
        )

    @cached_property
    def text(self) -> str:
        """The graph as text, which `parse` reads back exactly."""
        return graph_text(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        return as_html(f"{self!r}\n{self}")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[str, dict[str, Constant]]]:
        return unpickle, (self.text, dict(self.constants))

    @classmethod
    def parse(cls, text: str, constants: Mapping[str, Constant] | None = None) -> Graph:
        """Read a graph back from its text; `constants` gives the value of every symbol in it.

        Raises:
            GraphError: The text is not a graph, or a constant is missing or not the one that was meant.
        """
        from aneforge.graph.parsing import parse_graph  # noqa: PLC0415 - it makes graphs, so it imports this module

        return parse_graph(text, {} if constants is None else constants)


GraphLike = Graph | Output | Sequence[Output] | Mapping[str, Output]


def as_graph(out: GraphLike) -> Graph:
    """Return a graph with the given outputs; unnamed ones are called y, or y0, y1, ….

    Raises:
        GraphTypeError: It is not a tensor, nor several.
    """
    match out:
        case Graph():
            return out
        case Output():
            return Graph({"y": out})
        case Mapping():
            return Graph(out)
        case list() | tuple():
            return Graph({f"y{number}": value for number, value in enumerate(out)})
        case _:
            raise GraphTypeError(
                "a graph is made of tensors",
                seen=type(out).__name__,
                remedy="af.from_torch(module, (example,)) reads a module of PyTorch, af.load_model a file"
                if callable(out)
                else None,
            )


def expect_values(graph: Graph, purpose: str) -> None:
    """Check that every constant of a graph has values, which something needs.

    Raises:
        GraphError: A weight has none; the error names it, and the operation that reads it.
    """
    for node in graph.nodes:
        for name, value in node.values():
            if isinstance(value, Declared):
                raise GraphError(
                    f"operand {name!r} is a {value} without values, and {purpose} needs them",
                    operation=node.op.name,
                    location=node.location,
                    remedy=GIVE_VALUES,
                )
        if node.body is not None:
            from aneforge.graph.bodies import graph_of  # noqa: PLC0415 - it makes graphs, so it imports this module

            expect_values(graph_of(node.body), purpose)


def read_promises(graph: Graph) -> Mapping[str, float]:
    """Return the magnitudes that inputs of a graph are promised not to pass.

    >>> import aneforge as af
    >>> x, y = af.input((1, 4), max_abs=2, name="x"), af.input((1, 4), name="y")
    >>> read_promises(af.Graph({"z": x + y}))
    {'x': 2.0}
    """
    found = {name: node.attributes["max_abs"] for name, node in graph.inputs.items()}
    return {name: float(most) for name, most in found.items() if isinstance(most, int | float)}


def check_ports(what: str, given: object) -> Mapping[str, Output]:
    """Return outputs or states, which must be tensors by name, in a mapping that nobody can change.

    Raises:
        GraphTypeError: It is not a mapping, a name is not text, or a value is not a tensor.
        GraphError: A name cannot be written down.
    """
    if not isinstance(given, Mapping):
        raise GraphTypeError(
            f"the {what}s of a graph are not tensors by name",
            seen=type(given).__name__,
            remedy=f'give a dict, such as {{"{"y" if what == "output" else "total"}": tensor}}',
        )
    ports = dict(cast("Mapping[object, object]", given))
    for name, value in ports.items():
        check_name(what, name)
        if not isinstance(value, Output):
            raise GraphTypeError(f"{what} {name!r} is not a tensor", seen=type(value).__name__)
    return MappingProxyType(cast("dict[str, Output]", ports))


def check_name(what: str, name: object) -> None:
    """Check that the text of a graph can hold a name and give it back.

    Raises:
        GraphTypeError: It is not text.
        GraphError: It has half a character: two such halves would come back as a whole one.
    """
    if not isinstance(name, str):
        raise GraphTypeError(f"the name of {what} {name!r} is not text", seen=type(name).__name__)
    if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
        raise GraphError(f"{what} {name!r} has half of a surrogate pair in its name", remedy="rename it")


def check_placeholders(graph: Graph) -> None:
    """Check that inputs and states are distinguished by their names, and that states are read and keep their types.

    Raises:
        GraphError: They are not.
    """
    named: dict[str, Node] = {}
    for node in graph.placeholders:
        if node.op.name == STATE or get_given_name(node):
            check_name(node.op.name, get_given_name(node))
            check_distinct(named.setdefault(get_given_name(node), node), node)
    for name, value in graph.states.items():
        placeholder = graph.state_placeholders.get(name)
        if placeholder is None:
            raise GraphError(f"state {name!r} is written and never read", remedy="read it, or make it an output")
        if placeholder.types[0] != value.type:
            raise GraphError(f"state {name!r} changes its type", seen=value.type, limit=placeholder.types[0])


def check_distinct(first: Node, node: Node) -> None:
    """Check that two placeholders of one name are one node.

    Raises:
        GraphError: They are two.
    """
    if first is node:
        return
    kinds = {first.op.name, node.op.name}
    what = "an input and a state" if len(kinds) > 1 else f"two {node.op.name}s"
    remedy = "read the state once and use the tensor again" if kinds == {STATE} else "give them different names"
    raise GraphError(f"{what} are called {get_given_name(node)!r}", location=node.location, remedy=remedy)


def get_given_name(node: Node) -> str:
    """Return the name that the user gave a placeholder; it is empty where none was given."""
    return node.optional_text("name") or ""


def unpickle(text: str, constants: Mapping[str, Constant]) -> Graph:
    """Return the graph of a pickle; NumPy forgets that the constants' arrays are read-only, so it is said again."""
    for constant in constants.values():
        if not isinstance(constant, Declared):
            for part in constant.parts.values():
                part.flags.writeable = False
    return Graph.parse(text, constants)


@dataclass(frozen=True, slots=True)
class Summary:
    """A graph in figures."""

    nodes: int
    operations: Mapping[str, int]
    constants: int
    work: Work

    def __str__(self) -> str:
        most = ", ".join(f"{count} {name}" for name, count in list(self.operations.items())[:8])
        return (
            f"{number_of(self.nodes, 'node')} ({most}); {number_of(self.constants, 'constant')}, "
            f"{self.work.bytes_weights:,} bytes; {self.work.macs:,} multiply-accumulates"
        )


def work_of(node: Node) -> Work:
    """Return what one run of a node costs."""
    types = {
        name: tuple(one.type for one in argument) if isinstance(argument, tuple) else argument.type
        for name, argument in node.operands.items()
    }
    constants = {name: argument.nbytes for name, argument in node.operands.items() if isinstance(argument, Constant)}
    work = node.op.work(types, node.attributes, constants, node.types)
    listed = [
        value
        for argument in node.operands.values()
        if isinstance(argument, tuple)
        for value in argument
        if isinstance(value, Constant)
    ]
    if not listed:
        return work
    return replace(
        work,
        bytes_in=work.bytes_in - sum(constant.type.nbytes for constant in listed),
        bytes_weights=work.bytes_weights + sum(constant.nbytes for constant in listed),
    )


def topological_order(outputs: Iterable[Output]) -> list[Node]:
    """Return every node that outputs reach, each after those that it reads, without recursion."""
    ordered: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(output.node, False) for output in reversed(list(outputs))]
    while stack:
        node, ready = stack.pop()
        if node in ordered:
            continue
        if ready:
            ordered[node] = None
            continue
        stack.append((node, True))
        stack.extend((source.node, False) for source in reversed(node.sources()) if source.node not in ordered)
    return list(ordered)

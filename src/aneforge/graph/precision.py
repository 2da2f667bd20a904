"""A graph in the precision of the engine: floating-point tensors become fp16, as every converter to it makes them.

Model files mostly hold fp32, which no engine takes. What is lost by the change is said: constants that are infinite in
fp16 are named with the operation that reads them. Encoded weights keep their encoding, with scales in fp16. Whole
numbers of 64 bits, which files use for indices, become those of 32 bits, if nothing computes with them and all
constants fit; other whole numbers stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.graph import PLACEHOLDERS, Graph, as_graph
from aneforge.graph.node import Node, Output, new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.composed import Composed
from aneforge.ops.constant import Constant, Dense, dtype_name
from aneforge.ops.op import Category, Trait
from aneforge.ops.types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.types import Array

__all__ = ["Halved", "to_fp16"]

NARROWED: dict[str, str] = dict.fromkeys(("fp32", "fp64", "bf16"), "fp16")
SHORTENED: dict[str, str] = dict.fromkeys(("int64", "uint64"), "int32")
WHOLE = np.iinfo(np.int32)
LARGEST = float(np.finfo(np.float16).max)
CAST = "cast"
SHOWN = 8
"""Infinite constants that are named; the rest are counted."""
TAKEN = "the model's floating-point tensors were taken as fp16, the engine's own precision"
SHORT = "the model's whole numbers of 64 bits were taken as 32 bits wide"


@dataclass(frozen=True, slots=True)
class Halved:
    """A graph in fp16, and what a reader should know of the change."""

    graph: Graph
    infinite: tuple[str, ...] = ()
    """Constants that are finite as they were given and infinite in fp16; the first ones are named, the rest counted."""
    notes: tuple[str, ...] = ()
    """That tensors were changed, and the above; nothing for a graph that was in fp16."""
    before: Mapping[Node, Node] = field(default_factory=dict["Node", "Node"])
    """What nodes were that were made again."""


def to_fp16(graph: GraphLike) -> Halved:
    """Return a graph whose floating-point tensors and constants are fp16; one that is so already is kept as it is.

    Whole numbers of 64 bits become those of 32. What compiles a graph or predicts its program does this first, and says
    so.

    >>> import aneforge as af
    >>> made = to_fp16(af.cast(af.input((1, 4), name="x"), "fp32"))
    >>> print(made.graph.outputs["y"].type)
    fp16[1, 4]
    >>> print(made.notes[0])
    the model's floating-point tensors were taken as fp16, the engine's own precision

    Raises:
        GraphError: An operation cannot take fp16.
        GraphTypeError: It is no graph.
    """
    whole = as_graph(graph)
    held = {kind.dtype for node in whole.nodes for kind in node.types}
    narrowed = NARROWED if held & NARROWED.keys() else {}
    shortened = SHORTENED if held & SHORTENED.keys() and can_be_shorter(whole) else {}
    if not narrowed and not shortened:
        return Halved(whole)
    halving = Halving(narrowed | shortened)
    for node in whole.nodes:
        halving.take(node)
    ports = (
        {name: halving.output(value) for name, value in values.items()} for values in (whole.outputs, whole.states)
    )
    infinite = halving.infinite[:SHOWN]
    more = len(halving.infinite) - SHOWN
    if more > 0:
        infinite.append(f"{more} more constants are infinite in fp16")
    notes = [text for text, changed in ((TAKEN, narrowed), (SHORT, shortened)) if changed]
    if halving.decoded:
        notes.append(f"{halving.decoded} encoded weights became dense, for fp16 does not hold what they are stored as")
    return Halved(Graph(*ports), tuple(infinite), (*notes, *infinite), halving.before)


def can_be_shorter(graph: Graph) -> bool:
    """Tell whether whole numbers of 64 bits are places and constants alone, all of which have room in 32 bits."""
    for node in graph.nodes:
        moves = node.op.category is Category.STRUCTURAL or node.op.name in (CAST, *PLACEHOLDERS)
        if any(kind.dtype in SHORTENED for kind in node.types) and not moves and Trait.INDICES not in node.op.traits:
            return False
        for _, value in node.values():
            if isinstance(value, Constant) and value.type.dtype in SHORTENED and not fits(value.dense()):
                return False
    return True


def fits(array: Array) -> bool:
    """Tell whether whole numbers have room in 32 bits."""
    return not array.size or bool(WHOLE.min <= array.min() <= array.max() <= WHOLE.max)


class Halving:
    """The values made so far, the constants that became infinite, and what each element type becomes."""

    def __init__(self, becomes: Mapping[str, str]) -> None:
        self.becomes = becomes
        self.now: dict[tuple[Node, int], Tensor] = {}
        self.before: dict[Node, Node] = {}
        self.constants: dict[int, Constant] = {}
        self.infinite: list[str] = []
        self.decoded = 0

    def take(self, node: Node) -> None:
        """Make a node again; a cast that changes nothing any more is left out."""
        operands = {name: self.argument(argument, node) for name, argument in node.operands.items()}
        types = [one.name for one in node.op.attributes if one.choices and set(one.choices) <= DTYPES.keys()]
        changed = {name: self.becomes.get(str(node.attributes[name])) for name in types if name in node.attributes}
        attributes = {**node.attributes, **{name: dtype for name, dtype in changed.items() if dtype is not None}}
        source = operands.get("x")
        if node.op.name == CAST and isinstance(source, Tensor) and is_idle(source, attributes["dtype"]):
            self.now[node, 0] = source
            return
        made = new_node(node.op, operands, attributes, node.location)
        self.before[made] = node
        self.now.update({(node, index): Tensor(made, index) for index in range(len(node.types))})

    def output(self, value: Output) -> Tensor:
        """Return a value as it is now."""
        return self.now[value.node, value.index]

    def argument(self, argument: Argument, node: Node) -> Argument:
        """Return an operand as it is now."""
        if isinstance(argument, tuple):
            return tuple(self.value(one, node) for one in argument)
        return self.value(argument, node)

    def value(self, value: Value, node: Node) -> Value:
        """Return a value as it is now; a constant that several read is made once."""
        if isinstance(value, Output):
            return self.output(value)
        if value.type.dtype not in self.becomes:
            return value
        if id(value) not in self.constants:
            self.constants[id(value)] = self.constant(value, node)
        return self.constants[id(value)]

    def constant(self, constant: Constant, node: Node) -> Constant:
        """Return a constant as it is now."""
        encoded = narrowed_parts(constant)
        if encoded is not None:
            return encoded
        dense = constant.dense()
        if constant.type.dtype in SHORTENED:
            return Dense.owning(dense.astype(np.int32))
        self.decoded += not isinstance(constant, Dense)
        with np.errstate(over="ignore"):
            half = dense.astype(np.float16)
        if not within_half(dense):
            lost = np.isinf(half)
            finite = dense[lost & np.isfinite(dense)]
            if finite.size:
                largest = float(finite.flat[np.argmax(np.abs(finite.astype(np.float64)))])
                where = f" at {node.location}" if node.location else ""
                self.infinite.append(
                    f"a constant of {node.op.name}{where} holds {largest:g}, which is infinite in fp16"
                )
        return Dense.owning(half)


def narrowed_parts(constant: Constant) -> Constant | None:
    """Return an encoded weight with fp16 in the place of wider numbers; None for others, and where one is infinite."""
    parts = {
        name: part
        for name, part in constant.parts.items()
        if not isinstance(constant, Dense | Composed) and dtype_name(part) in NARROWED
    }
    if not parts or not all(map(within_half, parts.values())):
        return None
    return replace(constant, **{name: part.astype(np.float16) for name, part in parts.items()})  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType] - every encoding is a dataclass of its parts


def is_idle(source: Tensor, dtype: object) -> bool:
    """Tell whether a cast changes nothing, and is not needed to tell an output from an input."""
    return source.type.dtype == dtype and source.node.op.name not in PLACEHOLDERS


def within_half(array: Array) -> bool:
    """Tell whether every number is finite in fp16; two passes over an array are faster than a look at each of its bits.

    >>> within_half(np.float32([65504.0, -1.0])), within_half(np.float32([1e9])), within_half(np.float32([np.nan]))
    (True, False, False)
    """
    return not array.size or bool(array.max() <= LARGEST and array.min() >= -LARGEST)

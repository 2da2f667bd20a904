"""A graph in other element types: the engine's fp16, as every converter to it makes it, or those that a format has.

Model files mostly hold fp32, which no engine takes. What the change loses is reported: constants that are infinite in
fp16 are named with the operation that reads them. Encoded weights keep their encoding, with scales in fp16. 64-bit
integers, which files use for indices and masks, become 32-bit ones, and so do operations on them; sums and products
beyond 32 bits then wrap around, as with every converter that does so. A constant that does not fit 32 bits shows that
the model needs 64: then all integers keep their type, and a note names the constant.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.graph.convert import unroll
from aneforge.graph.graph import PLACEHOLDERS, Graph, as_graph
from aneforge.graph.node import Node, Output, new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.composed import Composed
from aneforge.ops.constant import Constant, Dense, Palette, dtype_name
from aneforge.ops.declared import Declared
from aneforge.ops.signature import AttributeKind
from aneforge.ops.types import DTYPES, TensorType, is_float, numpy_dtype, value_range
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.types import Array

__all__ = ["NARROWED", "Halved", "Retyped", "TooLarge", "list_element_types", "retype_graph", "to_fp16", "too_large"]

NARROWED: dict[str, str] = dict.fromkeys(("fp32", "fp64", "bf16"), "fp16")
SHORTENED: dict[str, str] = dict.fromkeys(("int64", "uint64"), "int32")
CAST, HALF = "cast", "fp16"
UNBOUNDED = {("minimum", True), ("maximum", False)}
"""Operations for which a constant above a range, or below it, means "no bound": it becomes the end of the range."""
SHOWN = 8
"""Infinite constants that are named; the rest are counted."""
TAKEN = "the model's floating-point tensors were taken as fp16, the engine's own precision"
SHORT = "the model's integers of 64 bits were taken as 32 bits wide"


@dataclass(frozen=True, slots=True)
class Halved:
    """A graph in fp16, and what a reader should know of the change."""

    graph: Graph
    faults: tuple[str, ...] = ()
    """Constants that hold NaN, or are finite as they were given and infinite in fp16; the first ones are named, the
    rest counted."""
    notes: tuple[str, ...] = ()
    """That tensors were changed, and the above; nothing for a graph that was in fp16."""
    before: Mapping[Node, Node] = field(default_factory=dict["Node", "Node"])
    """What nodes were that were made again."""


def to_fp16(graph: GraphLike) -> Halved:
    """Return a graph whose floating-point tensors and constants are fp16; a graph that already is fp16 is not changed.

    64-bit integers become 32-bit ones, and loops are unrolled. All functions that compile a graph or predict its
    program do this first, and say so.

    >>> import aneforge as af
    >>> made = to_fp16(af.cast(af.input((1, 4), name="x"), "fp32"))
    >>> print(made.graph.outputs["y"].type)
    fp16[1, 4]
    >>> print(made.notes[0])
    the model's floating-point tensors were taken as fp16, the engine's own precision

    Raises:
        GraphError: An operation cannot take fp16.
        GraphTypeError: It is not a graph.
    """
    whole = unroll(as_graph(graph)).graph
    held = {kind.dtype for node in whole.nodes for kind in node.types}
    narrowed = NARROWED if held & NARROWED.keys() else {}
    wide = SHORTENED if held & SHORTENED.keys() else {}
    kept = next(too_large(whole, wide), None)
    shortened = wide if kept is None else {}
    left = () if kept is None else (f"the model's integers of 64 bits were kept: {kept}",)
    undefined = tuple(undefined_halves(whole))
    if not narrowed and not shortened:
        return Halved(whole, undefined, (*left, *undefined))
    made = retype_graph(whole, narrowed | shortened)
    faults = (*undefined, *made.faults)
    notes = [text for text, changed in ((TAKEN, narrowed), (SHORT, shortened)) if changed]
    if made.decoded:
        notes.append(f"{made.decoded} encoded weights became dense, for fp16 does not hold what they are stored as")
    return Halved(made.graph, faults, (*notes, *left, *faults), made.before)


def undefined_halves(graph: Graph) -> Iterator[str]:
    """Yield the constants that are fp16 as they were given and hold NaN; the first ones are named, the rest counted."""
    looked, found = set[int](), 0
    for node in graph.nodes:
        for constant in node.constants():
            if not isinstance(constant, Dense) or constant.type.dtype != HALF or id(constant) in looked:
                continue
            looked.add(id(constant))
            count = constant.undefined
            found += bool(count)
            if count and found <= SHOWN:
                yield nan_text(node, count, constant.values.size)
    if found > SHOWN:
        yield f"{found - SHOWN} more constants hold NaN"


def nan_text(node: Node, count: int, elements: int) -> str:
    """Return that a constant of a node holds NaN, in how many of its elements."""
    where = f" at {node.location}" if node.location else ""
    return f"a constant of {node.op.name}{where} holds NaN in {count} of {elements} elements"


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A number that has no room in the element type that is to hold it, and what reads it."""

    node: Node
    number: int | float
    dtype: str

    def __str__(self) -> str:
        where = f" at {self.node.location}" if self.node.location else ""
        return f"{self.node.op.name}{where} has the number {self.number}, which does not fit in {self.dtype}"


def too_large(graph: Graph, becomes: Mapping[str, str]) -> Iterator[TooLarge]:
    """Yield the integers that have no room in what their element types become; a bound that never holds has."""
    for node in graph.nodes if becomes else ():
        for _, value in node.values():
            dtype = becomes.get(value.type.dtype)
            if dtype is None or is_float(dtype) or not isinstance(value, Constant) or isinstance(value, Declared):
                continue
            numbers = value.dense()
            ends = (int(numbers.min()), int(numbers.max())) if numbers.size else ()
            lost = [number for number in dict.fromkeys(ends) if not has_room(number, dtype)]
            yield from (TooLarge(node, one, dtype) for one in lost if (node.op.name, one > 0) not in UNBOUNDED)
        dtype = becomes.get(node.types[0].dtype)
        if dtype is not None and not is_float(dtype):
            given = (node.attributes[one.name] for one in node.op.attributes if one.kind is AttributeKind.NUMBER)
            numbers = [one for one in given if isinstance(one, int | float) and np.isfinite(one)]
            yield from (TooLarge(node, number, dtype) for number in numbers if not has_room(number, dtype))


def has_room(number: float, dtype: str) -> bool:
    """Return whether a number is in the range of a type of integers."""
    least, most = value_range(dtype)
    return least <= number <= most


@dataclass(frozen=True, slots=True)
class Retyped:
    """A graph in other element types, and what was lost."""

    graph: Graph
    faults: tuple[str, ...]
    """Constants that hold NaN, or are finite as they were given and infinite now; the first ones are named, the rest
    counted."""
    decoded: int
    """Encoded weights that became dense."""
    before: Mapping[Node, Node]
    """What nodes were that were made again."""


def retype_graph(graph: Graph, becomes: Mapping[str, str]) -> Retyped:
    """Return a graph whose tensors and constants of some element types are of others.

    Integers are expected to have room: `too_large` names those that do not fit.

    Raises:
        GraphError: An operation cannot take what an element type becomes.
    """
    graph = unroll(graph).graph
    retyping = Retyping(becomes)
    for node in graph.nodes:
        retyping.take(node)
    ports = (
        {name: retyping.output(value) for name, value in values.items()} for values in (graph.outputs, graph.states)
    )
    faults = retyping.faults[:SHOWN]
    more = len(retyping.faults) - SHOWN
    if more > 0:
        faults.append(f"{more} more constants hold NaN or are infinite in {retyping.lost_in}")
    return Retyped(Graph(*ports), tuple(faults), retyping.decoded, retyping.before)


def list_element_types(graph: Graph) -> frozenset[str]:
    """Return the element types of all tensors and constants of a graph."""
    tensors = {kind.dtype for node in graph.nodes for kind in node.types}
    return frozenset(tensors | {constant.type.dtype for node in graph.nodes for constant in node.constants()})


class Retyping:
    """The values made so far, what is wrong with constants, and what each element type becomes."""

    def __init__(self, becomes: Mapping[str, str]) -> None:
        self.becomes = becomes
        self.now: dict[tuple[Node, int], Tensor] = {}
        self.before: dict[Node, Node] = {}
        self.constants: dict[int, Constant] = {}
        self.faults: list[str] = []
        """What is wrong with constants that became infinite, or hold NaN."""
        self.lost_in = ""
        """The element type of these."""
        self.decoded = 0

    def take(self, node: Node) -> None:
        """Make a node again; a cast that changes nothing any more is left out."""
        operands = {name: self.argument(argument, node) for name, argument in node.operands.items()}
        types = [one.name for one in node.op.attributes if one.choices and set(one.choices) <= DTYPES.keys()]
        stated = {name: value for name in types if isinstance(value := node.attributes.get(name), str)}
        changed = {name: self.becomes.get(value) for name, value in stated.items()}
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
        dtype = self.becomes[constant.type.dtype]
        if isinstance(constant, Declared):
            return replace(constant, kind=TensorType(constant.kind.shape, dtype))
        encoded = encode_as(constant, self.becomes)
        if encoded is not None:
            return encoded
        dense = constant.dense()
        if not is_float(dtype):
            return Dense.owning(np.asarray(np.clip(dense, *room_in(dense.dtype, dtype)), numpy_dtype(dtype)))
        self.decoded += not isinstance(constant, Dense)
        with np.errstate(over="ignore"):
            narrow = dense.astype(numpy_dtype(dtype))
        if not within(dense, dtype):
            lost = np.isinf(narrow)
            finite = dense[lost & np.isfinite(dense)]
            where = f" at {node.location}" if node.location else ""
            if finite.size:
                largest = float(finite.flat[np.argmax(np.abs(finite.astype(np.float64)))])
                self.faults.append(
                    f"a constant of {node.op.name}{where} holds {largest:g}, which is infinite in {dtype}"
                )
            if undefined := int(np.count_nonzero(np.isnan(dense))):
                self.faults.append(nan_text(node, undefined, dense.size))
            self.lost_in = dtype
        return Dense.owning(narrow)


def room_in(source: np.dtype[Any], dtype: str) -> tuple[int, int]:
    """Return the integers that an array of one type can hold and another type too."""
    least, most = value_range(dtype)
    held = np.iinfo(source)
    return max(least, int(held.min)), min(most, int(held.max))


def encode_as(constant: Constant, becomes: Mapping[str, str]) -> Constant | None:
    """Return an encoded weight whose parts are of other floating types; None for others, and where one is infinite."""
    parts = {
        name: (part, becomes[dtype_name(part)])
        for name, part in constant.parts.items()
        if not isinstance(constant, Dense | Composed) and is_float(becomes.get(dtype_name(part), ""))
    }
    if not parts or not all(within(part, dtype) for part, dtype in parts.values()):
        return None
    made = {name: part.astype(numpy_dtype(dtype)) for name, (part, dtype) in parts.items()}
    if isinstance(constant, Palette):
        return constant.with_table(made["table"])
    return replace(constant, **made)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType] - every other encoding is a dataclass of its parts


def is_idle(source: Tensor, dtype: object) -> bool:
    """Return whether a cast changes nothing, and is not needed to distinguish an output from an input."""
    return source.type.dtype == dtype and source.node.op.name not in PLACEHOLDERS


def within(array: Array, dtype: str) -> bool:
    """Return whether every number is finite in a type; two passes over an array are faster than a look at all its bits.

    >>> [within(np.float32([number]), "fp16") for number in (65504.0, 1e9, np.nan)]
    [True, False, False]
    """
    largest = float(np.finfo(numpy_dtype(dtype)).max)
    return not array.size or bool(array.max() <= largest and array.min() >= -largest)

"""A node of a graph and the values it gives: SSA, immutable, made once and never changed.

A node is made by `build`, which looks the operation up in the op table, checks what it is given, infers the types of
its results and remembers where the user made it. A node belongs to no one graph: a graph is what its outputs
reach.
"""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Never, NoReturn, Self

from aneforge.callsite import users_frame
from aneforge.errors import AneforgeError, GraphError, GraphTypeError, Location
from aneforge.ops.attributed import Attributed
from aneforge.ops.body import Body
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared
from aneforge.ops.op import Op
from aneforge.ops.shapes import expect_within
from aneforge.ops.signature import AttributeValue, Operand, OperandKind
from aneforge.ops.table import find_op
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import TensorType

__all__ = ["Argument", "Node", "Output", "Value", "all_types", "build", "new_node", "users_location"]

CREATION = itertools.count()
"""Stamps nodes in the order of their making, the documented order of a program's inputs. Nothing else reads it."""

NOTHING: MappingProxyType[str, Never] = MappingProxyType({})
"""The operands or attributes of a node that has none: one for all, for large graphs hold many."""


class Output:
    """One value that a node gives. Operands of other nodes refer to it.

    A copy of it is itself. Pickle the graph, not single outputs: two that share a node would come back sharing nothing.
    """

    __slots__ = ("index", "node")

    node: Node
    index: int

    def __init__(self, node: Node, index: int = 0) -> None:
        if not isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("a tensor is a result of a node", seen=type(node).__name__)
        if type(index) is not int:
            raise GraphTypeError("the number of a result is not an integer", seen=repr(index))
        if not 0 <= index < len(node.types):
            raise GraphError(
                f"it has no result {index}", operation=node.op.name, seen=index, limit=f"0 to {len(node.types) - 1}"
            )
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"a tensor never changes: cannot assign to {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"a tensor never changes: cannot delete {name!r}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise build_pickle_error("a tensor")

    @property
    def type(self) -> TensorType:
        """Shape and element type."""
        return self.node.types[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Element type, as MIL spells it."""
        return self.type.dtype


Value = Output | Constant
Argument = Value | tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Node(Attributed):
    """One operation with its operands and attributes. A copy of it is itself; it is pickled as part of a graph."""

    op: Op
    operands: Mapping[str, Argument]
    """Operands by name; an optional one that is not given is not there."""
    attributes: Mapping[str, AttributeValue]
    """All attributes, defaults filled in."""
    types: tuple[TensorType, ...]
    location: Location | None
    created: int

    def __post_init__(self) -> None:
        if type(self.operands) is not MappingProxyType:
            object.__setattr__(self, "operands", MappingProxyType(dict(self.operands)))
        if type(self.attributes) is not MappingProxyType:
            object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise build_pickle_error("a node")

    def values(self) -> tuple[tuple[str, Value], ...]:
        """Return every operand value with the name of its operand, lists taken apart."""
        return tuple(
            (name, value)
            for name, argument in self.operands.items()
            for value in (argument if isinstance(argument, tuple) else (argument,))
        )

    def sources(self) -> tuple[Output, ...]:
        """Return the values of other nodes that it reads."""
        return tuple(value for _, value in self.values() if isinstance(value, Output))

    def constants(self) -> tuple[Constant, ...]:
        """Return the constants that it reads, and those of its body."""
        own = tuple(value for _, value in self.values() if isinstance(value, Constant))
        return own if self.body is None else (*own, *self.body.constants())

    @property
    def body(self) -> Body | None:
        """What it repeats; None for all operations but loops."""
        name = self.op.body_attribute
        value = None if name is None else self.attributes[name]
        return value if isinstance(value, Body) else None


def build(
    op: str | Op,
    operands: Mapping[str, Argument | None],
    attributes: Mapping[str, object] | None = None,
    location: Location | None = None,
) -> Node:
    """Return a new node.

    Raises:
        UnknownNameError: There is no such operation.
        GraphError: The operands or attributes do not fit it; the error names the place in the user's file.
    """
    place = location or users_location()
    try:
        if isinstance(op, Op):
            return new_node(op, operands, attributes or {}, place)
        entry = find_op(op)
        return new_node(entry, operands, entry.attributes_by_name(op, attributes or {}), place)
    except AneforgeError as error:
        error.location = error.location or place
        raise


def new_node(
    op: Op, operands: Mapping[str, Argument | None], attributes: Mapping[str, object], place: Location | None
) -> Node:
    """Return a new node at a place, which may be unknown.

    Raises:
        GraphError: The operands or attributes do not fit the operation.
    """
    given = {name: argument for name, argument in operands.items() if argument is not None}
    try:
        completed = op.complete(attributes)
        for operand in op.operands:
            if operand.name in given:
                check_argument(operand, given[operand.name])
        types = op.types({name: type_of(argument) for name, argument in given.items()}, completed)
        check_indices(op, given, completed)
    except GraphError as error:
        error.operation = error.operation or op.name
        raise
    return Node(
        op,
        MappingProxyType(given) if given else NOTHING,
        MappingProxyType(completed) if completed else NOTHING,
        types,
        place,
        next(CREATION),
    )


def check_indices(op: Op, given: Mapping[str, Argument], attributes: Mapping[str, AttributeValue]) -> None:
    """Check that indices that are constants are within their axes, as far as an operation says which these are.

    Raises:
        GraphError: One is past its axis.
    """
    indices = given.get("indices")
    if op.indexed is None or not isinstance(indices, Constant) or isinstance(indices, Declared):
        return
    extents = op.indexed(type_of(given[op.operands[0].name]), indices.type, **attributes)
    values = indices.dense()
    for axis, extent in enumerate(extents):
        counted = values if len(extents) == 1 else values[..., axis]
        expect_within(counted, -extent, extent - 1, "an index is past the axis")


def check_argument(operand: Operand, argument: Argument) -> None:
    """Check that an operand is of the sort that the operation takes.

    Raises:
        GraphTypeError: It is not.
    """
    if operand.variadic != isinstance(argument, tuple):
        wanted = "a list of tensors" if operand.variadic else "one tensor"
        raise GraphTypeError(f"operand {operand.name!r} is not {wanted}", seen=type(argument).__name__)
    for value in argument if isinstance(argument, tuple) else (argument,):
        if not isinstance(value, Output | Constant):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(f"operand {operand.name!r} is not a tensor", seen=type(value).__name__)
        if operand.kind is OperandKind.CONSTANT and not isinstance(value, Constant):
            raise GraphTypeError(f"operand {operand.name!r} must be a constant", seen="a tensor computed at run time")
        if operand.kind is OperandKind.TENSOR and isinstance(value, Constant):
            raise GraphTypeError(f"operand {operand.name!r} must be a tensor computed at run time", seen="a constant")


def type_of(argument: Argument) -> TensorType | tuple[TensorType, ...]:
    """Return the type of an operand, or of each one of a list."""
    return tuple(value.type for value in argument) if isinstance(argument, tuple) else argument.type


def all_types(node: Node) -> tuple[TensorType, ...]:
    """Return the types of the results of a node, and of what the iterations of a loop make on the way."""
    return node.types if node.body is None else (*node.types, *node.body.made_types())


def users_location() -> Location | None:
    """Return the nearest place on the call stack that is not in this package."""
    frame = users_frame()
    return location_at(frame.f_code.co_filename, frame.f_lineno) if frame else None


@lru_cache(1024)
def location_at(file: str, line: int) -> Location:
    """Return a place; a loop that makes many nodes in one line makes one."""
    return Location(file, line)


def build_pickle_error(what: str) -> GraphTypeError:
    """Return the error for a part of a graph that is to be pickled without the graph."""
    return GraphTypeError(f"{what} is pickled only as part of its graph", remedy='pickle af.Graph({"y": tensor})')

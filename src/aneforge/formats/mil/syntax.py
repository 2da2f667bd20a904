"""A MIL program as it is written: types, literals, statements, functions.

Nothing here is looked up or computed; a literal keeps its own text, so that a program prints as it was read. `at` is
always a place in the program, for errors: a character of its text, or the number of an operation in a package. Values
that a package's message holds, and blocks of statements, are only in packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array, TensorType

__all__ = [
    "Argument",
    "Blob",
    "Block",
    "Function",
    "Immediate",
    "ListType",
    "Literal",
    "NamedType",
    "Program",
    "RawAttribute",
    "Reference",
    "StateType",
    "Statement",
    "Tuple",
    "Type",
    "Value",
    "ValueType",
]


HELD_AS = {"uint1": "bool", "uint2": "uint8", "uint3": "uint8", "uint6": "uint8"}
"""Element types of only constants, and those that a graph holds them in."""
LONGEST_SHOWN = 8
"""Elements of an immediate value that errors show."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a tensor, or of one number or text where `extents` is None.

    >>> print(ValueType("fp16", (1, None)), ValueType("int32"))
    tensor<fp16, [1, ?]> int32
    """

    dtype: str
    extents: tuple[int | None, ...] | None = None
    """Length of every axis; None for one that is not known when the program is compiled."""

    def __str__(self) -> str:
        if self.extents is None:
            return self.dtype
        return f"tensor<{self.dtype}, [{', '.join('?' if one is None else str(one) for one in self.extents)}]>"

    @classmethod
    def of(cls, kind: TensorType) -> ValueType:
        """Return the type of a tensor of a graph; one without axes is a number."""
        return cls(kind.dtype, kind.shape or None)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return 0 if self.extents is None else len(self.extents)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis, where all are known; -1 stands for one that is not."""
        return tuple(-1 if one is None else one for one in self.extents or ())

    @property
    def known(self) -> bool:
        """True if the length of every axis is known."""
        return None not in (self.extents or ())

    def fits(self, kind: TensorType) -> bool:
        """Return whether a tensor is of this type; an unknown length fits every one, and a bit is a boolean."""
        return (
            kind.dtype == HELD_AS.get(self.dtype, self.dtype)
            and len(kind.shape) == self.rank
            and all(wanted in (-1, extent) for wanted, extent in zip(self.shape, kind.shape, strict=True))
        )


@dataclass(frozen=True, slots=True)
class StateType:
    """The type of a state that a function is given to read and write."""

    held: ValueType

    def __str__(self) -> str:
        return f"state<{self.held}>"


@dataclass(frozen=True, slots=True)
class ListType:
    """The type of a list; in a graph it is a tensor of its elements, stacked."""

    element: ValueType
    length: int | None

    def __str__(self) -> str:
        return f"list<{self.element}, {'?' if self.length is None else self.length}>"

    @property
    def stacked(self) -> ValueType:
        """The type of the elements stacked along a first axis."""
        return ValueType(self.element.dtype, (self.length, *(self.element.extents or ())))


Type = ValueType | StateType | ListType


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is in the text."""

    type: ValueType
    text: str
    """What is between the parentheses: a number, a quoted text, or a list in brackets."""
    at: int = 0
    text_at: int = 0

    def __str__(self) -> str:
        return f"{self.type}({self.text})"


@dataclass(frozen=True, slots=True, eq=False)
class Immediate:
    """A value that a message of a package holds, decoded already."""

    type: ValueType
    values: Array | tuple[str, ...]
    """An array in the shape of the type, or texts."""
    at: int = 0

    def __str__(self) -> str:
        shown = self.values if isinstance(self.values, tuple) else self.values.reshape(-1)[:LONGEST_SHOWN].tolist()
        return f"{self.type}({', '.join(map(str, shown[:LONGEST_SHOWN]))})"


@dataclass(frozen=True, slots=True)
class Blob:
    """A value that is in a weights blob."""

    type: ValueType
    path: Literal
    offset: Literal
    at: int = 0

    def __str__(self) -> str:
        return f"{self.type}(BLOBFILE(path = {self.path}, offset = {self.offset}))"


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a value that a statement before gave, or of an input."""

    name: str
    at: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several values in one place, as concat's `values`."""

    items: tuple[Value, ...]
    at: int = 0

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Value = Literal | Immediate | Blob | Reference | Tuple


@dataclass(frozen=True, slots=True)
class Argument:
    """A value by the name of its parameter."""

    name: str
    value: Value
    at: int = 0

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True, slots=True)
class NamedType:
    """A result of a statement, or an input of a function."""

    type: Type
    name: str
    at: int = 0
    name_at: int = 0

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True, slots=True)
class Statement:
    """One operation: results, parameters in parentheses, attributes in brackets."""

    results: tuple[NamedType, ...]
    op: str
    arguments: tuple[Argument, ...]
    attributes: tuple[Argument, ...]
    at: int = 0
    op_at: int = 0
    blocks: tuple[Block, ...] = ()

    def __str__(self) -> str:
        results = f"{', '.join(map(str, self.results))} = " if self.results else ""
        attributes = f"[{', '.join(map(str, self.attributes))}]" if self.attributes else ""
        return f"{results}{self.op}({', '.join(map(str, self.arguments))}){attributes};"


@dataclass(frozen=True, slots=True)
class Block:
    """Statements inside of a statement: a branch of a condition, or the condition and the body of a loop."""

    inputs: tuple[NamedType, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Reference, ...]
    at: int = 0


@dataclass(frozen=True, slots=True)
class RawAttribute:
    """An attribute of a program or a function, kept as its text."""

    name: str
    text: str
    at: int = 0

    def __str__(self) -> str:
        return f"{self.name} = {self.text}"


@dataclass(frozen=True, slots=True)
class Function:
    """A function: inputs, statements, and the names of the values that it returns."""

    name: str
    opset: str
    inputs: tuple[NamedType, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Reference, ...]
    attributes: tuple[RawAttribute, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program."""

    version: str
    attributes: tuple[RawAttribute, ...]
    functions: Mapping[str, Function]

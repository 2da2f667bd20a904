"""What a rule looks at: one operation with its tensors, whatever stage of the compiler it comes from.

Graph nodes, program layers and validators implement `Subject`; a rule never sees more of them than this.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from aneforge.ops.types import TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.ops.constant import Constant
    from aneforge.ops.signature import AttributeValue

__all__ = [
    "EMISSION",
    "PORT",
    "TASK",
    "Held",
    "Operation",
    "Subject",
    "TensorType",
    "arguments_of",
    "constants_of",
    "tensors_read",
]

PORT = "output"
"""The name under which an output of a graph is a subject; rules look at it only where they name it."""
TASK = "task"
"""The name under which a task of a compiled program is a subject."""
EMISSION = "emission"
"""The name under which a layer that is emitted as tasks is a subject."""
ENGINE_INDEX = "uint16"
"""How the engine holds places of elements, which MIL spells in 32 bits."""
Held: TypeAlias = "Mapping[str, Sequence[TensorType | Constant]]"
"""Operands by name: the type of one that is live, the constant of one that is not."""


class Subject(Protocol):
    """One operation, as rules see it.

    Names of operations and attributes are MIL's. A program's ports are subjects too, as `input` and `output`. A
    convolution's kernel is in the attribute `kernel_sizes`, height before width, as a pooling's does.

    >>> def largest(subject: Subject) -> int:
    ...     return max(extent for result in subject.results for extent in result.shape)
    >>> largest(Operation("relu", results=(TensorType((1, 64, 32, 32)),)))
    64
    """

    @property
    def op(self) -> str:
        """Name of the operation."""
        ...

    @property
    def operands(self) -> Sequence[TensorType]:
        """Types of the tensors that it reads at run time; constants are none of them."""
        ...

    @property
    def results(self) -> Sequence[TensorType]:
        """Types of the tensors it makes."""
        ...

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Its attributes by name."""
        ...

    @property
    def consumers(self) -> frozenset[str]:
        """Names of the operations that read its results."""
        ...

    @property
    def location(self) -> Location | None:
        """Where the user made it."""
        ...

    @property
    def arguments(self) -> Mapping[str, Sequence[TensorType]]:
        """Types of the operands that it is given, by name, constants among them; a list has several."""
        ...

    @property
    def constants(self) -> Mapping[str, Sequence[Constant]]:
        """The operands that are constants, by name; a rule looks only at their types and encodings."""
        ...

    @property
    def known(self) -> frozenset[str]:
        """Names of the operands that are not constants yet and will be: encoded weights, constants that are moved."""
        ...


@dataclass(frozen=True, slots=True)
class Operation:
    """The plainest subject: an operation written down by hand, for a question without a graph.

    >>> Operation("relu", results=(TensorType((1, 64, 32, 32)),)).op
    'relu'
    """

    op: str
    operands: tuple[TensorType, ...] = ()
    results: tuple[TensorType, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])
    consumers: frozenset[str] = frozenset()
    location: Location | None = None
    arguments: Mapping[str, Sequence[TensorType]] = field(default_factory=dict[str, "Sequence[TensorType]"])
    constants: Mapping[str, Sequence[Constant]] = field(default_factory=dict[str, "Sequence[Constant]"])
    known: frozenset[str] = frozenset()


def arguments_of(held: Held) -> dict[str, tuple[TensorType, ...]]:
    """Return the types of all operands."""
    return {
        name: tuple(value if isinstance(value, TensorType) else value.type for value in values)
        for name, values in held.items()
    }


def constants_of(held: Held) -> dict[str, tuple[Constant, ...]]:
    """Return the operands that are constants."""
    found = {
        name: tuple(value for value in values if not isinstance(value, TensorType)) for name, values in held.items()
    }
    return {name: constants for name, constants in found.items() if constants}


def tensors_read(
    held: Held, indices: frozenset[str] = frozenset(), known: frozenset[str] = frozenset()
) -> tuple[TensorType, ...]:
    """Return the types in which tensors are read at run time; `indices` are the operands that are places of elements.

    A constant is none of them, nor is what becomes one: it is written in the form in which the engine reads it,
    whatever it was stored in.
    """
    return tuple(
        value.with_dtype(ENGINE_INDEX) if name in indices else value
        for name, values in held.items()
        for value in values
        if isinstance(value, TensorType) and name not in known
    )

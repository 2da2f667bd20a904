"""What a rule looks at: one operation with its tensors, whatever stage of the compiler it comes from.

Graph nodes, program layers and validators implement `Subject`; a rule never sees more of them than this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aneforge.ops.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.ops.constant import Constant
    from aneforge.ops.signature import AttributeValue

__all__ = ["PORT", "Operation", "Subject", "TensorType"]

PORT = "output"
"""The name under which an output of a graph is a subject; rules look at it only where they name it."""


class Subject(Protocol):
    """One operation, as rules see it.

    Names of operations and attributes are MIL's. A program's ports are subjects too, as `input` and `output`. A
    convolution's kernel stands in the attribute `kernel_sizes`, height before width, as a pooling's does.
    """

    @property
    def op(self) -> str:
        """Name of the operation."""
        ...

    @property
    def operands(self) -> Sequence[TensorType]:
        """Types of the tensors it reads."""
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
        """The operands that are constants, by name."""
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

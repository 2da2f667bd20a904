"""What is known of an operation when the range of its results is asked for, and what is found of layers and programs.

A situation is an operation of the op table on a target, the ranges and types of its operands, and constants' values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.errors import GraphError
from aneforge.ops.attributed import Attributed
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.analysis.ranges.interval import Range
    from aneforge.analysis.ranges.product_ranges import Total
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["Flow", "Found", "Known", "Situation"]


@dataclass(frozen=True, slots=True)
class Known:
    """One operand: its type, its range, and its values where it is a constant."""

    type: TensorType
    range: Range
    values: Array | None = None
    shares_along: int | None = None
    """The axis along which its elements are shares of a whole, as softmax gives them."""
    name: str | None = None
    """The value that it is, where it is one of the program."""


@dataclass(frozen=True, slots=True)
class Situation(Attributed):
    """An operation with what is known of its operands."""

    op: str
    attributes: Mapping[str, AttributeValue]
    operands: Mapping[str, Known | tuple[Known, ...]]
    """By the names that the op table has for them; one that is left out is not there."""
    results: tuple[TensorType, ...]
    target: Target

    def look_up(self, name: str) -> Known:
        """Return an operand that is one tensor.

        Raises:
            GraphError: There is none of that name.
        """
        found = self.operands.get(name)
        if found is None or isinstance(found, tuple):
            raise GraphError(f"operand {name!r} is not one tensor", operation=self.op)
        return found

    def range(self, name: str) -> Range:
        """Return the range of an operand."""
        return self.look_up(name).range

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an operand."""
        return self.look_up(name).type.shape

    def same(self, first: str, second: str) -> bool:
        """Return whether two operands are one value."""
        return self.look_up(first).name is not None and self.look_up(first).name == self.look_up(second).name

    def ranges(self, names: tuple[str, ...]) -> list[Range]:
        """Return the ranges of operands, lists taken apart."""
        found = [self.operands[name] for name in names if name in self.operands]
        return [one.range for many in found for one in (many if isinstance(many, tuple) else (many,))]


@dataclass(frozen=True, slots=True)
class Found:
    """The ranges of a layer's results, and what was found on the way."""

    results: tuple[Range, ...]
    core: Range
    """What the operation gives before the slots after it."""
    total: Total | None = None
    """What the accumulator can hold, of a product."""
    flowing: tuple[Range, ...] = ()
    """What enters the last slots, those that round by themselves, one after the other."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The range of every value of a program, and what was found at every layer."""

    ranges: Mapping[str, Range]
    layers: Mapping[str, Found]

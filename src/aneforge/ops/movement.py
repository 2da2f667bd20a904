"""What an operation moves: its results are elements of operands, and nothing that was computed.

Analyses ask this where they follow values: what is moved keeps its range, its bits and its magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.signature import AttributeValue

__all__ = ["Movement", "Taking"]


class Taking(StrEnum):
    """How the elements of a result are taken from an operand."""

    PLACED = "placed"
    """Shapes, attributes and indices say which element goes where."""
    CHOSEN = "chosen"
    """The elements themselves decide: the largest, or all in order."""
    BETWEEN = "between"
    """A result may lie between elements: what is interpolated is no larger than the largest and no smaller than the
    smallest."""


@dataclass(frozen=True, slots=True)
class Movement:
    """Results that are elements of operands, all types but those of numbers in between left as they are."""

    operands: tuple[str, ...] = ("x",)
    """Whose elements are moved; other operands say where to."""
    adds: tuple[float | str, ...] = ()
    """What else may be among the results: numbers, and names of attributes that hold one."""
    taking: Taking = Taking.PLACED

    def added(self, attributes: Mapping[str, AttributeValue]) -> tuple[float, ...]:
        """Return the numbers that may be among the results of a call, beside elements.

        >>> Movement(adds=(0.0, "pad_value")).added({"pad_value": 2.5})
        (0.0, 2.5)
        """
        given = (attributes.get(one) if isinstance(one, str) else one for one in self.adds)
        return tuple(float(one) for one in given if isinstance(one, int | float))

"""What is known of results, whatever goes in: their interval, and what they are made of.

A codomain is that of the mathematics on real numbers: integers that wrap around in their type are not counted, nor
is NaN, which stands for no result. The engine keeps to it, the ends rounded to fp16, except as `margin` says: a test
asks every function of one element for every fp16 number. An end at zero is one on the engine as well.

Results are made of elements of operands that are moved, or are sums of products of two operands. What is moved keeps
its range, its bits and its magnitude; what is a sum of products, and of nothing else but an offset, scales with either
operand.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.signature import AttributeValue

__all__ = [
    "EVERYTHING",
    "FROM_ZERO",
    "UNIT",
    "WITHIN_ONE",
    "Codomain",
    "Movement",
    "Product",
    "Taking",
    "around_zero",
]


@dataclass(frozen=True, slots=True)
class Codomain:
    """An interval, both ends included, that holds every result."""

    low: float = -math.inf
    high: float = math.inf
    minus_zero: bool = True
    """−0 may be among the results on the engine."""

    @property
    def is_never_negative(self) -> bool:
        """True if no result is below zero."""
        return self.low >= 0

    @property
    def magnitude(self) -> float:
        """The largest magnitude of a result; infinity where nothing bounds it.

        >>> Codomain(-2, 1).magnitude
        2
        """
        return max(abs(self.low), abs(self.high))


EVERYTHING = Codomain()
FROM_ZERO = Codomain(low=0.0, minus_zero=False)
UNIT = Codomain(0.0, 1.0, minus_zero=False)
WITHIN_ONE = Codomain(-1.0, 1.0)


def around_zero(reach: float) -> Codomain:
    """Return the numbers whose magnitude is no larger than this one.

    >>> around_zero(-2.0)
    Codomain(low=-2.0, high=2.0, minus_zero=True)
    """
    return Codomain(-abs(reach), abs(reach))


class Taking(StrEnum):
    """How the elements of a result are taken from an operand."""

    PLACED = "placed"
    """Shapes, attributes and indices say which element goes where."""
    CHOSEN = "chosen"
    """The elements themselves decide: the largest, or all in order."""
    BETWEEN = "between"
    """A result may be between elements: what is interpolated is no larger than the largest and no smaller than the
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
        """Return the numbers that may be among the results of a call, other than elements.

        >>> Movement(adds=(0.0, "pad_value")).added({"pad_value": 2.5})
        (0.0, 2.5)
        """
        given = (attributes.get(one) if isinstance(one, str) else one for one in self.adds)
        return tuple(float(one) for one in given if isinstance(one, int | float))


@dataclass(frozen=True, slots=True)
class Product:
    """The two operands whose products are summed."""

    data: str
    """What flows in."""
    weight: str
    """What it is multiplied by: the weights, where one of the two is constant."""

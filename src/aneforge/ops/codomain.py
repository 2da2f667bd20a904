"""Where the results of an operation lie, whatever goes in: what "never negative" and "bounded" follow from.

A codomain is that of the mathematics on real numbers: integers that wrap around in their type are not counted, nor
is NaN, which stands for no result. The engine keeps to it, the ends rounded to fp16, but for what `margin` says: a test
asks every function of one element for every fp16 number. An end at zero is one on the engine as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EVERYTHING", "FROM_ZERO", "UNIT", "WITHIN_ONE", "Codomain", "around_zero"]


@dataclass(frozen=True, slots=True)
class Codomain:
    """An interval, both ends included, that holds every result."""

    low: float = -math.inf
    high: float = math.inf
    minus_zero: bool = True
    """−0 may be among the results on the engine."""
    margin: float = 0.0
    """How much farther than the ends results of the engine lie at most, as a share."""

    @property
    def is_never_negative(self) -> bool:
        """Tell whether no result is below zero."""
        return self.low >= 0

    @property
    def magnitude(self) -> float:
        """The largest magnitude of a result; infinity where nothing bounds it.

        >>> Codomain(-2, 1).magnitude
        2
        """
        return max(abs(self.low), abs(self.high))

    @property
    def engine_magnitude(self) -> float:
        """The largest magnitude of a result on the engine, before it is rounded to fp16."""
        return self.magnitude * (1 + self.margin)


EVERYTHING = Codomain()
FROM_ZERO = Codomain(low=0.0, minus_zero=False)
UNIT = Codomain(0.0, 1.0, minus_zero=False)
WITHIN_ONE = Codomain(-1.0, 1.0)


def around_zero(reach: float) -> Codomain:
    """Return the numbers whose magnitude is no larger than this one.

    >>> around_zero(-2.0)
    Codomain(low=-2.0, high=2.0, minus_zero=True, margin=0.0)
    """
    return Codomain(-abs(reach), abs(reach))

"""Values for which a result is less sure than its operation: infinities, erf beyond its table, zeros of both signs.

For a function of one number the doubtful numbers are a table over all 65,536 of them (`Doubtful`), so that a chain of
such functions, joined to one table, knows which numbers at its start lead to a doubt further on. Looking at values
costs one pass that finds their largest magnitude; only where that reaches a doubtful one are all values looked at.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.activations import MODELLED_ERF_FROM
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.planar import number
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.numbers import FP16_PATTERNS
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]
    Attributes = Mapping[str, AttributeValue]

__all__ = [
    "CHOICES_AMONG_ZEROS",
    "EVERY",
    "LABELS",
    "SPECIAL",
    "ZEROS_OF_BOTH_SIGNS",
    "Doubtful",
    "doubtful_numbers",
    "has_special",
]

SPECIAL_VALUES = "an operand is infinite or NaN: exponent 31 is read as an ordinary one, which few figures confirm"
ERF_BEYOND_ITS_TABLE = "erf from 2 on is assumed to be 1: its table ends there and no source gives its tail"
ZEROS_OF_BOTH_SIGNS = "the larger or smaller of zeros of both signs: no source says which of them comes out"
REASONS = (SPECIAL_VALUES, ERF_BEYOND_ITS_TABLE, ZEROS_OF_BOTH_SIGNS)
LABELS = tuple(Label(Exactness.MODELLED, reason) for reason in REASONS)
SPECIAL = LABELS[REASONS.index(SPECIAL_VALUES)]
EVERY = np.arange(FP16_PATTERNS, dtype=np.uint16).view(np.float16)
"""Every fp16 number, in the order of their bits."""
ZERO, NEGATIVE_ZERO = 0x0000, 0x8000


@dataclass(frozen=True, slots=True, eq=False)
class Doubtful:
    """The fp16 numbers for which a function of one number is less sure than its operation."""

    flags: npt.NDArray[np.uint8]
    """For every number one bit for each of `REASONS` that holds."""
    least: float
    """The least magnitude above 0 of a doubtful number as the engine reads it; infinite where there is none."""
    zeros: tuple[int, ...]
    """The bits of the zeros that are doubtful."""

    @classmethod
    def of(cls, flags: npt.NDArray[np.uint8]) -> Doubtful:
        """Return the numbers that are flagged."""
        bits = np.flatnonzero(flags)
        magnitudes = np.sort(bits[(bits & 0x7FFF) > 0] & 0x7FFF).astype(np.uint16)
        least = np.inf if not magnitudes.size else magnitude(int(magnitudes[0]))
        return cls(flags, least, tuple(int(zero) for zero in (ZERO, NEGATIVE_ZERO) if flags[zero]))

    def after(self, table: npt.NDArray[np.uint16], first: Doubtful) -> Doubtful:
        """Return the numbers that are doubtful in a function with this table, or whose results are doubtful here."""
        return Doubtful.of(first.flags | self.flags[table])

    def labels(self, x: Array, largest: float) -> tuple[Label, ...]:
        """Return the doubts that the values of an array raise, given their largest magnitude.

        >>> doubtful = doubtful_numbers("relu", ())
        >>> [len(doubtful.labels(np.array(x, np.float16), 1.0)) for x in ([1.0, 0.0], [1.0, -0.0])]
        [0, 1]
        """
        if x.dtype != np.float16:
            return ()
        found = 0
        if largest >= self.least:
            found = int(np.bitwise_or.reduce(self.flags[x.view(np.uint16)], axis=None))
        else:
            for zero in self.zeros:
                found |= int(self.flags[zero]) if has_bits(x, zero) else 0
        return tuple(label for place, label in enumerate(LABELS) if found >> place & 1)

    def labels_of_seen(self, largest: float, zeros: Collection[int]) -> tuple[Label, ...] | None:
        """Return the doubts that values raise of which the largest magnitude and the zeros are known.

        None where that does not say it: some value is as large as a doubtful one.

        >>> doubtful = doubtful_numbers("relu", ())
        >>> doubtful.labels_of_seen(1.0, {0x0000}), doubtful.labels_of_seen(70000.0, ())
        ((), None)
        """
        if largest >= self.least:
            return None
        if not zeros:
            return ()
        found = 0
        for zero in self.zeros:
            found |= int(self.flags[zero]) if zero in zeros else 0
        return tuple(label for place, label in enumerate(LABELS) if found >> place & 1)


def magnitude(bits: int) -> float:
    """Return the magnitude of a number as the engine reads it: exponent 31 is an ordinary one."""
    return 65536.0 * (1 + (bits & 0x3FF) / 1024) if bits >= 0x7C00 else float(np.uint16(bits).view(np.float16))


def has_bits(x: Array, bits: int) -> bool:
    """Return whether an array of fp16 holds a number."""
    return bool((x.view(np.uint16) == bits).any())


@cache
def doubtful_numbers(op: str, attributes: tuple[tuple[str, AttributeValue], ...]) -> Doubtful:
    """Return the numbers for which an operation on one number is less sure than it is elsewhere."""
    flags = np.where(np.isfinite(EVERY), 0, 1 << REASONS.index(SPECIAL_VALUES))
    if op == "erf":
        flags |= np.where(np.abs(EVERY) >= MODELLED_ERF_FROM, 1 << REASONS.index(ERF_BEYOND_ITS_TABLE), 0)
    for bound in ZERO_BOUNDS.get(op, no_bounds)(dict(attributes)):
        if bound == 0:
            flags[ZERO if np.signbit(bound) else NEGATIVE_ZERO] |= 1 << REASONS.index(ZEROS_OF_BOTH_SIGNS)
    return Doubtful.of(flags.astype(np.uint8))


def no_bounds(_: Attributes) -> tuple[float, ...]:
    """Return the bounds of an operation that has none."""
    return ()


def bounds_of(*names: str) -> Callable[[Attributes], tuple[float, ...]]:
    """Return what reads the bounds of an operation off its attributes, as the program holds them."""

    def bounds(attributes: Attributes) -> tuple[float, ...]:
        return tuple(number(AttributeReader(attributes).number(name)) for name in names)

    return bounds


ZERO_BOUNDS: Mapping[str, Callable[[Attributes], tuple[float, ...]]] = {
    "clip": bounds_of("alpha", "beta"),
    "relu": lambda _: (0.0,),
    "relu6": lambda _: (0.0,),
    "threshold": bounds_of("alpha"),
    "thresholded_relu": bounds_of("alpha"),
}
"""Bounds with which an operation compares a number; a zero meets one of the other sign there."""


# Several numbers: infinities anywhere, and zeros of both signs that are compared.


def has_special(x: Array) -> bool:
    """Return whether an array of real numbers holds one that is infinite or NaN."""
    return not np.isfinite(x).all()


def unlike_zeros_of_pairs(x: Array, y: Array, *, mode: str = "max", **_: object) -> Iterator[Label]:
    """Doubt the larger or smaller of pairs of which some are zeros of both signs."""
    if mode not in {"max", "min"}:
        return
    if not any(one.dtype == np.float16 and has_bits(one, NEGATIVE_ZERO) for one in (x, y)):
        return
    if ((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))).any():
        yield Label(Exactness.MODELLED, ZEROS_OF_BOTH_SIGNS)


def unlike_zeros_of_one(x: Array, **_: object) -> Iterator[Label]:
    """Doubt the largest or smallest of numbers among which are zeros of both signs."""
    if x.dtype == np.float16 and has_bits(x, NEGATIVE_ZERO) and has_bits(x, ZERO):
        yield Label(Exactness.MODELLED, ZEROS_OF_BOTH_SIGNS)


CHOICES_AMONG_ZEROS: Mapping[str, Callable[..., Iterator[Label]]] = {
    "max_pool": unlike_zeros_of_one,
    "maximum": unlike_zeros_of_pairs,
    "minimum": unlike_zeros_of_pairs,
    "pe_elementwise": unlike_zeros_of_pairs,
    "reduce_max": unlike_zeros_of_one,
    "reduce_min": unlike_zeros_of_one,
}
"""Operations that choose among several numbers: functions of the operands in order and the attributes."""

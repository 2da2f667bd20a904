"""Intervals of what a tensor can hold on the engine, in the numbers that the engine reads.

The engine reads exponent 31 as an ordinary one: infinity is the number 2^16, NaN a number up to 131,008. So an interval
is two finite numbers. Where it reaches beyond 65,504 the tensor can be infinite; where it reaches beyond 65,536, NaN.
Rounding is monotonic, so the rounded ends of an exact interval bound all rounded results.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.planar import host_fp16, read
from aneforge.engine.rounding import to_fp16
from aneforge.ops.numbers import FP16_INFINITY, FP16_MAX
from aneforge.ops.types import is_float, value_range
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = [
    "ANYTHING",
    "FINITE",
    "RESULTS",
    "Range",
    "as_read",
    "hull",
    "of_type",
    "of_values",
    "products",
    "round_interval",
]

MOST_READ = 131008.0
"""What the largest NaN is read as."""
SIGN_BIT, INFINITY_BITS = 0x8000, 0x7C00
"""Of fp16."""


@dataclass(frozen=True, slots=True)
class Range:
    """Everything between two numbers, both included.

    >>> Range(-2.0, 1.0).magnitude, Range(-2.0, 1.0) | Range(0.0, 3.0)
    (2.0, Range(low=-2.0, high=3.0))
    """

    low: float
    high: float

    @property
    def magnitude(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def finite(self) -> bool:
        """It holds no infinity."""
        return self.magnitude <= FP16_MAX

    def __or__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return f"[{end_text(self.low)}, {end_text(self.high)}]"


ANYTHING = Range(-MOST_READ, MOST_READ)
"""Whatever fp16 can hold, NaN included."""
RESULTS = Range(-FP16_INFINITY, FP16_INFINITY)
"""Whatever an operation that computes can give: NaN never comes out."""
FINITE = Range(-FP16_MAX, FP16_MAX)


def end_text(number: float) -> str:
    """Return an end of an interval as a reader wants it.

    >>> end_text(65536.0), end_text(0.25)
    ('inf', '0.25')
    """
    if abs(number) > FP16_MAX and abs(number) <= MOST_READ:
        return "inf" if number > 0 else "-inf"
    return f"{number:.6g}"


def hull(ranges: Iterable[Range]) -> Range:
    """Return the smallest interval that holds several; that of none is zero."""
    found = list(ranges)
    if not found:
        return Range(0.0, 0.0)
    return Range(min(one.low for one in found), max(one.high for one in found))


def round_interval(low: float, high: float) -> Range:
    """Return the interval of exact results, rounded to fp16 and read again; what overflows is infinity.

    >>> round_interval(-70000.0, 2049.0)
    Range(low=-65536.0, high=2050.0)
    """
    ends = read(to_fp16(np.array([low, high], np.float64)))
    return Range(float(ends[0]), float(ends[1]))


def products(first: Range, second: Range) -> Range:
    """Return the interval of exact products.

    >>> products(Range(-2.0, 3.0), Range(-1.0, 4.0))
    Range(low=-8.0, high=12.0)
    """
    pairs = itertools.product((first.low, first.high), (second.low, second.high))
    corners = [0.0 if math.isnan(one * other) else one * other for one, other in pairs]
    return Range(min(corners), max(corners))


def of_type(dtype: str) -> Range:
    """Return everything that an element type holds; that of floating types is what fp16 holds.

    >>> of_type("uint8"), of_type("bool")
    (Range(low=0.0, high=255.0), Range(low=0.0, high=1.0))
    """
    if is_float(dtype):
        return ANYTHING
    low, high = value_range(dtype)
    return Range(float(low), float(high))


def as_read(values: Array) -> Array:
    """Return real numbers as the engine reads them, by way of fp16; of finite ones that is what NumPy makes of them.

    >>> as_read(np.array([2049.0, np.inf])).tolist(), as_read(np.array([2.0**-24], np.float16)).tolist()
    ([2048.0, 65536.0], [5.960464477539063e-08])
    """
    halves = values if values.dtype == np.float16 else host_fp16(values.astype(np.float64))
    numbers = halves.astype(np.float64)
    return numbers if np.isfinite(numbers).all() else read(halves)


def of_values(values: Array) -> Range:
    """Return the interval of an array as the engine reads it: real numbers by way of fp16.

    >>> of_values(np.array([1.0, np.inf]))
    Range(low=1.0, high=65536.0)
    """
    if not values.size:
        return Range(0.0, 0.0)
    if values.dtype == np.float16 and (found := ends_by_bits(values)) is not None:
        return found
    real = values.dtype.kind in "fV"
    numbers = as_read(values) if real else values.astype(np.float64)
    return Range(float(numbers.min()), float(numbers.max()))


def ends_by_bits(values: Array) -> Range | None:
    """Return the interval of finite fp16 numbers, None where some are not: as integers their bits are ordered, too.

    Those of positive numbers grow with the number, those of negative ones with its magnitude, above all positive ones.

    >>> ends_by_bits(np.array([0.5, -2.0, 1.0], np.float16)), ends_by_bits(np.array([-3.0, -4.0], np.float16))
    (Range(low=-2.0, high=1.0), Range(low=-4.0, high=-3.0))
    """
    unsigned, signed = values.view(np.uint16), values.view(np.int16)
    lowest, highest = int(unsigned.max()), int(signed.max())
    if lowest < SIGN_BIT:
        lowest = int(signed.min())
    if highest < 0:
        highest = int(unsigned.min())
    if max(lowest & ~SIGN_BIT, highest & ~SIGN_BIT) >= INFINITY_BITS:
        return None
    low, high = np.array([lowest, highest], np.uint16).view(np.float16).astype(np.float64) + 0.0
    return Range(float(low), float(high))

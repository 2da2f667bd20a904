"""A few values that stand for many: quantiles to begin with, then Lloyd's algorithm, in one dimension.

In one dimension the elements that are nearest to one value are between two bounds. So elements are ordered once, with
their running sums, and an iteration looks up fifteen bounds, whatever the size of the weight. The elements of an fp16
weight are counted instead of ordered: there are only 63,488 finite ones.
"""

from __future__ import annotations

import bisect
import itertools
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array

__all__ = ["nearest_entries", "palette_of"]

ITERATIONS = 20
AT_ONCE = 1 << 15
"""Elements that are compared with all bounds while they are in the cache: six times as fast as a search for each."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The elements of a weight in ascending order, equal ones perhaps as one value with a count."""

    values: Array
    ends: Sequence[int]
    """How many elements there are before each value, and at the end how many in all."""
    sums: Array
    """What the elements before each value add up to."""

    def element(self, place: int) -> float:
        """Return the element at a place of the order."""
        return float(self.values[bisect.bisect_right(self.ends, place) - 1])

    def quantiles(self, count: int) -> Array:
        """Return the ends of so many bins that hold equally many elements, between elements on a straight line."""
        last = self.ends[len(self.ends) - 1] - 1
        found: list[float] = []
        for bound in range(count + 1):
            place, rest = divmod(last * bound, count)
            low = self.element(place)
            found.append(low + rest / count * (self.element(min(place + 1, last)) - low))
        return np.array(found)


def palette_of(weight: Array, entries: int) -> Array:
    """Return so many values for the elements of a weight, in ascending order and float64.

    They begin as the midpoints of as many quantile bins. In each of twenty iterations every element goes to the value
    that is nearest, the lower of two, and every value becomes the mean of its elements; one without any stays. Of
    values that are equal one takes the elements. A weight of no more distinct values than that has them as they are,
    the largest repeated.

    >>> palette_of(np.array([0.0, 0.0, 4.0, 5.0]), 2).tolist(), palette_of(np.array([0.0, 4.0, 4.0]), 3).tolist()
    ([0.0, 4.5], [0.0, 4.0, 4.0])
    """
    ordered = in_order(weight)
    few = distinct_values(ordered, entries)
    if few is not None:
        return few
    bounds = ordered.quantiles(entries)
    palette = (bounds[:-1] + bounds[1:]) / 2
    for _ in range(ITERATIONS):
        moved = means(ordered, palette)
        if np.array_equal(moved, palette):  # every further iteration would give the same
            break
        palette = moved
    return palette


def distinct_values(ordered: Ordered, entries: int) -> Array | None:
    """Return the values of a weight that has at most so many, in float64, the largest repeated; None for more."""
    found: list[float] = []
    end = 0
    while end < ordered.values.size:
        if len(found) == entries:
            return None
        rise: Array = np.searchsorted(ordered.values, ordered.values[end : end + 1], side="right")
        end = int(rise[0])
        found.append(float(ordered.values[end - 1]))
    return np.array(found + found[-1:] * (entries - len(found)))


def means(ordered: Ordered, palette: Array) -> Array:
    """Return the means of the elements that are nearest to each value of a palette; one without any stays."""
    distinct, counts = np.unique(palette, return_counts=True)
    bounds = round_down(between(distinct), ordered.values.dtype)
    inner = np.searchsorted(ordered.values, bounds, side="right")
    places = [0, *(int(place) for place in inner), len(ordered.values)]
    moved = distinct.copy()
    for entry, (start, stop) in enumerate(itertools.pairwise(places)):
        count = ordered.ends[stop] - ordered.ends[start]
        if count <= 0:
            continue
        mean = (ordered.sums[stop] - ordered.sums[start]) / count
        # A difference of long sums is rounded; a mean is never outside its elements.
        moved[entry] = np.clip(mean, ordered.values[start], ordered.values[stop - 1])
    return np.sort(np.concatenate([moved, np.repeat(distinct, counts - 1)]))


def between(palette: Array) -> Array:
    """Return the bounds between ascending values; an element on a bound belongs to the lower value."""
    wide = palette.astype(np.float64)
    return (wide[:-1] + wide[1:]) / 2


def nearest_entries(weight: Array, palette: Array) -> Array:
    """Return for every element the place of the value that is nearest in an ascending palette, the first of several.

    >>> nearest_entries(np.array([0.0, 0.5, 0.6]), np.array([0.0, 1.0, 1.0])).tolist()
    [0, 0, 1]
    """
    distinct, places = np.unique(palette, return_index=True)
    bounds, places = between(distinct), places.astype(np.uint8)
    if weight.dtype == np.float16:
        # Every fp16 number once, then a look-up by the number's bits.
        return places[np.searchsorted(bounds, every_half(), side="left")][bits_of(weight)]
    found = bounds_passed(weight, round_down(bounds, weight.dtype))
    return found if distinct.size == palette.size else places[found]


def bounds_passed(weight: Array, bounds: Array) -> Array:
    """Return for every element how many of a few bounds are below it."""
    found = np.zeros(weight.shape, np.uint8)
    elements, counts = np.ascontiguousarray(weight).reshape(-1), found.reshape(-1)
    for start in range(0, elements.size, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for bound in bounds:
            counts[part] += elements[part] > bound
    return found


def round_down(bounds: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return the largest numbers of an element type that are not above bounds: elements compare with both alike."""
    with np.errstate(over="ignore"):
        near = bounds.astype(dtype)
    return np.where(near.astype(np.float64) > bounds, np.nextafter(near, dtype.type(-np.inf)), near)


def in_order(weight: Array) -> Ordered:
    """Return the elements of a weight in order."""
    if weight.dtype != np.float16:
        values = np.sort(weight, axis=None)
        return Ordered(values, range(values.size + 1), running(values, np.float64))
    order = half_order()
    counts = np.bincount(bits_of(weight).reshape(-1), minlength=1 << 16)[order]
    there = counts > 0
    values, counts = every_half()[order[there]], counts[there]
    return Ordered(values, [int(end) for end in running(counts, np.int64)], running(values * counts, np.float64))


def running(values: Array, dtype: type[np.float64 | np.int64]) -> Array:
    """Return the sums of what is before each place, and of all."""
    sums = np.zeros(values.size + 1, dtype)
    np.cumsum(values, dtype=dtype, out=sums[1:])
    return sums


def bits_of(weight: Array) -> Array:
    """Return the bits of fp16 numbers."""
    return np.ascontiguousarray(weight).view(np.uint16)


@lru_cache(1)
def every_half() -> Array:
    """Return the fp16 number of every pattern of bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)


@lru_cache(1)
def half_order() -> Array:
    """Return the patterns of bits of the finite fp16 numbers in the order of the numbers."""
    patterns = np.flatnonzero(np.isfinite(every_half()))
    return patterns[np.argsort(every_half()[patterns], kind="stable")]

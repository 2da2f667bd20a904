"""Ranges of products: what the accumulator can reach, and what leaves it.

Every product is rounded to the grid of 2^-16 or dropped, so a sum of K products is off by less than K · 2^-15. A sum
passes the edge of the accumulator only if its positive or its negative terms alone can (`reach`): the order in which
terms are added is not known, and the bound holds for every order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aneforge.analysis.ranges.constant_facts import compute_once
from aneforge.analysis.ranges.interval import Range, as_read, products, round_interval
from aneforge.analysis.ranges.sums import shares_total
from aneforge.engine.golden import EDGE, kernel_transform
from aneforge.engine.planar import host_fp16, read
from aneforge.engine.rounding import to_fp16
from aneforge.ops.numbers import FP16_INFINITY, FP16_MAX, FP16_SMALLEST
from aneforge.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.analysis.ranges.situation import Known, Situation

    Array = npt.NDArray[Any]

__all__ = ["LOST", "ROUNDS_TO_EDGE", "Total", "leaving", "total_of", "undo_weights"]

LOST = 2.0**-15
"""What a product loses at most: one that is dropped is below it, one that is rounded moves by a quarter of it."""
HALF_ULP = 2.0**-11
AT_ONCE = 2**14
"""Elements of weights that are read together."""
ROUNDS_TO_EDGE = EDGE * (1 - HALF_ULP / 2)
"""A sum from here on, 32,760, is rounded to the edge where it leaves, and infinite."""


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of a product before they leave the accumulator, one of each for every output channel."""

    low: Array
    high: Array
    """±infinity where the edge can be passed."""
    reach: float
    """The largest magnitude that partial sums can have in any order, were there no edge."""
    terms: int
    """How many products a sum has at most."""
    largest: float
    """The largest magnitude of a single product."""
    axis: int
    """The axis of the result along which channels are."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of sums, not yet added: bounds of the exact sum, of only its positive and only its negative terms."""

    low: Array
    high: Array
    above: Array
    below: Array
    terms: int
    largest: float
    axis: int
    lost: float
    """What all products together lose on the grid."""
    scaling: bool = False
    """It is not a sum: a product over the full range of fp16, rounded."""

    def start_at(self, start: Array | None, *, by_channel: bool) -> Terms:
        """Return the terms with an offset as the first: one for every channel, or any of several for all."""
        if start is None:
            return self
        least, most = (start, start) if by_channel else (start.min(), start.max())
        return replace(
            self,
            low=self.low + least,
            high=self.high + most,
            above=self.above + np.maximum(most, 0.0),
            below=self.below + np.maximum(-least, 0.0),
            lost=self.lost + LOST,
        )

    def total(self) -> Total:
        """Return the sums: less what products lose, infinite where the edge can be passed."""
        reach = float(max(self.above.max(initial=0.0), self.below.max(initial=0.0)))
        if self.scaling:
            # What overflowed is infinite for a gain after it, not the number that the engine reads.
            low, high = (
                np.where(np.abs(end) > FP16_MAX, np.copysign(np.inf, end), end)
                for end in round_ends(self.low, self.high)
            )
            return Total(low, high, 0.0, 1, self.largest, self.axis)
        low, high = self.low - self.lost, self.high + self.lost
        low = np.where(self.below == 0, np.maximum(low, 0.0), low)
        high = np.where(self.above == 0, np.minimum(high, 0.0), high)
        return Total(
            np.where(self.below + self.lost >= EDGE, -np.inf, low),
            np.where(self.above + self.lost >= EDGE, np.inf, high),
            reach,
            self.terms,
            self.largest,
            self.axis,
        )


def total_of(situation: Situation, form: str, start: Array | None = None, axis: int = 0) -> Total:
    """Return what the accumulator of a product can hold, started at `start`: one number, or a row along an axis."""
    weight = situation.look_up("weight" if "weight" in situation.operands else "y")
    x = situation.look_up("x")
    match situation.op:
        case "conv" | "conv_transpose":
            found = windows(situation, x, weight, form)
        case "linear":
            found = weigh(x.range, sums_of(weight, 0), weight, axis=-1, terms=weight.type.shape[1])
        case _:
            found = matrices(situation, x, weight)
    along = (axis - found.axis) % situation.results[0].rank == 0 if situation.results[0].rank else True
    return found.start_at(start, by_channel=along and start is not None and start.size == found.low.size).total()


class WeightSums(NamedTuple):
    """Sums of the positive and of the negative weights of every channel, and the largest magnitude of any weight."""

    positive: Array
    negative: Array
    largest: float


def sums_of(weight: Known, channel: int) -> WeightSums | None:
    """Return the sums of constant weights as the engine reads them; None for weights computed at run time."""
    if weight.values is None:
        return None
    return compute_once(weight.values, ("sums of channels", channel), partial(sums_along, channel))


def sums_along(channel: int, values: Array) -> WeightSums:
    """Return the sums of weights whose channels are along an axis; some channels at a time, which caches hold.

    fp16 numbers are multiples of 2^-24, so float64 sums are exact below 2^29, in any order of their terms.
    """
    channels = np.moveaxis(values, channel, 0)
    count = len(channels)
    positive, negative, largest = np.zeros(count), np.zeros(count), 0.0
    step = max(1, AT_ONCE * count // max(values.size, 1))
    for first in range(0, count, step):
        some = slice(first, first + step)
        rows = as_read(channels[some]).reshape(len(positive[some]), -1)
        above, below = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
        positive[some], negative[some] = above.sum(axis=1), 0.0 - below.sum(axis=1)
        largest = max(largest, float(above.max(initial=0.0)), -float(below.min(initial=0.0)))
    return WeightSums(positive, negative, largest)


def windows(situation: Situation, x: Known, weight: Known, form: str) -> Terms:
    """Return the terms of a convolution or of a transposed one, which sees zeros between elements."""
    transposed = situation.op == "conv_transpose"
    channel = 1 if transposed else 0
    sums = sums_of(weight, channel)
    terms = math.prod(weight.type.shape) // max(weight.type.shape[channel], 1)
    if transposed and sums is not None:
        # A sum has the terms of one group; those of all groups bound it.
        groups = int(situation.number("groups"))
        sums = sums._replace(positive=np.tile(sums.positive, groups), negative=np.tile(sums.negative, groups))
    padded = transposed or any(situation.integers("pad"))
    found = weigh(x.range, sums, weight, axis=1, terms=terms, padded=padded)
    if form == "winograd":
        return transform(found, x.range, weight)
    return scale(found) if form == "scaling" else found


def scale(found: Terms) -> Terms:
    """Return the results of a convolution that runs as a scaling: rounded, and rounded again after an offset."""
    low, high = round_ends(found.low, found.high)
    return replace(found, low=low, high=high, scaling=True)


def round_ends(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of intervals, rounded to fp16 and read again."""
    return read(host_fp16(to_fp16(low))), read(host_fp16(to_fp16(high)))


def matrices(situation: Situation, x: Known, y: Known) -> Terms:
    """Return the terms of a matrix product, either factor constant or none."""
    summed = x.type.rank - (2 if situation.flag("transpose_x") and x.type.rank > 1 else 1)
    sums = sums_of(y, 0 if situation.flag("transpose_y") else 1) if y.type.rank == 2 else None
    found = weigh(x.range, sums, y, axis=-1, terms=x.type.shape[summed])
    return average(found, y.range) if x.shares_along == summed and sums is None else found


def average(found: Terms, y: Range) -> Terms:
    """Return the terms of sums of numbers that are weighed by shares: they add up to little more than one number."""
    exact = products(Range(0.0, shares_total(found.terms)), y)
    low, high = np.array([exact.low]), np.array([exact.high])
    return replace(found, low=low, high=high, above=np.maximum(high, 0.0), below=np.maximum(-low, 0.0))


def weigh(x: Range, sums: WeightSums | None, weight: Known, *, axis: int, terms: int, padded: bool = False) -> Terms:
    """Return the terms of sums of numbers of an interval, weighed; with padding zeros are among them."""
    if sums is None:
        found = undo_weights(x, weight.range, terms, axis=axis)
    else:
        positive, negative = sums.positive, sums.negative
        low, high = positive * x.low - negative * x.high, positive * x.high - negative * x.low
        above = positive * max(x.high, 0.0) + negative * max(-x.low, 0.0)
        below = positive * max(-x.low, 0.0) + negative * max(x.high, 0.0)
        largest = x.magnitude * sums.largest
        found = Terms(low, high, above, below, terms, largest, axis, terms * LOST)
    if not padded:
        return found
    return replace(found, low=np.minimum(found.low, -found.below), high=np.maximum(found.high, found.above))


def undo_weights(x: Range, y: Range, terms: int, *, axis: int) -> Terms:
    """Return the terms of sums of products of two intervals."""
    exact = products(x, y)
    low, high = np.array([terms * exact.low]), np.array([terms * exact.high])
    above, below = np.maximum(high, 0.0), np.maximum(-low, 0.0)
    return Terms(low, high, above, below, terms, max(-exact.low, exact.high), axis, terms * LOST)


def transform(found: Terms, x: Range, weight: Known) -> Terms:
    """Return the terms of a Winograd convolution: both factors are transformed and rounded to fp16 before.

    Data are differences and sums of two columns, kernels sums of up to three; each is moved by half a unit of fp16. A
    column that overflows goes on as 2^16.
    """
    if weight.values is None:
        everything = np.full_like(found.low, np.inf)
        return replace(found, low=-everything, high=everything, above=everything, below=everything)
    numbers = as_read(weight.values)
    parts = np.stack([np.abs(part) for part in kernel_transform(numbers)])
    sums = parts.sum(axis=(2, 3))
    held = np.maximum(sums[0] + sums[1] + sums[2], sums[1] + sums[2] + sums[3])
    data, largest = 2 * x.magnitude, float(parts.max(initial=0.0))
    share = 2 * HALF_ULP + HALF_ULP**2 if data <= FP16_MAX else 2.0
    off = data * held * share + found.terms * (data + largest) * FP16_SMALLEST
    return replace(
        found,
        low=found.low - off,
        high=found.high + off,
        above=np.maximum(found.above, data * held),
        below=np.maximum(found.below, data * held),
        largest=max(found.largest, data * largest),
        lost=found.lost * 4 / 3,
    )


def leaving(total: Total) -> Range:
    """Return what leaves: rounded to fp16, infinite from the edge on."""
    low, high = float(total.low.min(initial=math.inf)), float(total.high.max(initial=-math.inf))
    if low > high:  # no channels
        return Range(0.0, 0.0)
    found = round_interval(low, high)
    return Range(
        -FP16_INFINITY if found.low <= -EDGE else found.low, FP16_INFINITY if found.high >= EDGE else found.high
    )

"""Ranges of reductions, pooling, softmax, norms and attention.

The engine adds in groups and trees of fp16 and cuts small terms off, so a sum is not the exact one: by the data of its
adder it is off by no more than a share of the sum of magnitudes (`slack`). Softmax and norms have bounds of their own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.ranges.interval import RESULTS, Range, hull, products, round_interval
from aneforge.analysis.ranges.pointwise import Attributes, table
from aneforge.engine.normalisation import find_added_epsilon
from aneforge.engine.reductions import adder_of
from aneforge.ops.groups.pooling import PoolAttributes, pool_slides
from aneforge.ops.numbers import FP16_INFINITY, FP16_SMALLEST
from aneforge.ops.shapes import normalise_axes, reduced_axes
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.analysis.ranges.situation import Situation
    from aneforge.engine.choices import AdderChoice
    from aneforge.ops.windows import Slide
    from aneforge.targets import Target

__all__ = ["SUMS", "add_up", "ends_of", "shares_total", "slack_of", "weigh"]

HALF_ULP = 2.0**-11
"""The share of a number by which a rounding to fp16 moves it at most."""
TABLE_SLACK = 2.0**-7
"""Read off a table, a root, a reciprocal or a power is off by less than this share; the tests look."""


def slack(adder: AdderChoice) -> float:
    """Return the share of the sum of magnitudes by which a sum can be off.

    A group of neighbours is cut at a window's last bit, each by less than 2^(1 − window) of the largest, and rounded
    once; then come the levels of the tree, of two terms each, and what is after them is exact except for one rounding.
    """
    if adder.chain:
        return (1 + 2.0**-adder.bits) ** ((adder.chain - 1) * adder.times) - 1
    cut = 2.0 ** (1 - adder.window) if adder.window else 0.0
    share = (1 + adder.group * cut + HALF_ULP) * (1 + 2 * cut + HALF_ULP) ** math.log2(adder.tree)
    return share * (1 + HALF_ULP) - 1


def slack_of(target: Target) -> float:
    """Return the share by which a sum can be off on a target."""
    return slack(adder_of(target))


def add_up(x: Range, count: int, adder: AdderChoice) -> Range:
    """Return the interval of a sum of a number of values of an interval, before its last rounding.

    A partial sum that overflows goes on as 2^16, which is less than the exact one; so an end keeps its sign, and what
    overflows on the way can come out as anything between.
    """
    reach = count * x.magnitude
    off = slack(adder) * reach + count * FP16_SMALLEST
    low, high = count * x.low - off, count * x.high + off
    if (1 + slack(adder)) * reach > FP16_INFINITY * (1 - HALF_ULP):
        low, high = min(low, -off), max(high, off)
    return Range(max(low, 0.0) if x.low >= 0 else low, min(high, 0.0) if x.high <= 0 else high)


def from_table(name: str, x: Range) -> Range:
    """Return the range of a function of the tables at numbers that need not be fp16: a little wider than at fp16."""
    attributes = no_epsilon(name)
    operands, results = table(name, "fp16", tuple((one, "0.0") for one in attributes.values), attributes)
    first = max(int(np.searchsorted(operands, x.low, "left")) - 1, 0)
    last = min(int(np.searchsorted(operands, x.high, "right")) + 1, len(operands))
    low, high = float(results[first:last].min()), float(results[first:last].max())
    return Range(low - abs(low) * TABLE_SLACK, high + abs(high) * TABLE_SLACK)


def no_epsilon(name: str) -> Attributes:
    """Return the attributes of a function of the tables that is to add nothing."""
    return Attributes({one.name: 0.0 for one in find_op(name).attributes if one.name == "epsilon"})


# Reductions.


def count_of(situation: Situation) -> int:
    """Return how many numbers a reduction adds."""
    shape = situation.shape("x")
    axes = reduced_axes(len(shape), situation.optional_integers("axes"))
    return math.prod(shape[axis] for axis in axes)


def total(situation: Situation) -> Range:
    """Return the range of a sum."""
    found = add_up(situation.range("x"), count_of(situation), adder_of(situation.target))
    return round_interval(found.low, found.high)


def mean(situation: Situation) -> Range:
    """Return the range of a mean."""
    count = count_of(situation)
    return scale_down(add_up(situation.range("x"), count, adder_of(situation.target)), count)


def scale_down(found: Range, count: int) -> Range:
    """Return a sum times 1 / n, which is held in fp32."""
    factor = float(np.float32(1.0) / np.float32(max(count, 1)))
    return round_interval(found.low * factor, found.high * factor)


def squares_of(x: Range) -> Range:
    """Return the range of squares in fp16."""
    least = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return round_interval(least * least, x.magnitude * x.magnitude)


def total_of_squares(situation: Situation) -> Range:
    """Return the range of a sum of squares."""
    found = add_up(squares_of(situation.range("x")), count_of(situation), adder_of(situation.target))
    return round_interval(found.low, found.high)


def total_of_magnitudes(situation: Situation) -> Range:
    """Return the range of a sum of magnitudes."""
    x = situation.range("x")
    least = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    found = add_up(Range(least, x.magnitude), count_of(situation), adder_of(situation.target))
    return round_interval(found.low, found.high)


def length(situation: Situation) -> Range:
    """Return the range of the root of a sum of squares."""
    return from_table("sqrt", total_of_squares(situation))


def log_of_total(situation: Situation) -> Range:
    """Return the range of the logarithm of a sum."""
    return from_table("log", total(situation))


def log_of_powers(situation: Situation) -> Range:
    """Return the range of log Σ eˣ: the largest x, and the logarithm of a sum of at least one and at most n."""
    x, count = situation.range("x"), count_of(situation)
    logs = from_table("log", round_interval(0.0, count * (1 + slack_of(situation.target))))
    least = from_table("log", round_interval(1 - slack_of(situation.target), count * 2.0))
    low = least.low if x.finite else logs.low
    return round_interval(x.low + low, x.high + max(least.high, logs.high))


def square_of_total(situation: Situation) -> Range:
    """Return the range of the square of a sum that was not rounded before."""
    found = add_up(situation.range("x"), count_of(situation), adder_of(situation.target))
    least = 0.0 if found.low <= 0 <= found.high else min(abs(found.low), abs(found.high))
    return round_interval(least * least, found.magnitude * found.magnitude)


# Pooling.


def count_pooled(situation: Situation) -> tuple[int, bool]:
    """Return how many numbers a window adds, and whether it can see padding."""
    attributes = situation.attributes_as(PoolAttributes)
    along = pool_slides(situation.shape("x")[2:], attributes)
    padded = any(
        slide.before or slide.after or (slide.places - 1) * slide.stride + slide.window > slide.extent
        for slide in along
    )
    return math.prod(slide.window for slide in along), padded


def average(situation: Situation) -> Range:
    """Return the range of averages of windows; excluded padding makes the count smaller, never the average larger."""
    count, padded = count_pooled(situation)
    x = situation.range("x")
    found = scale_down(add_up(x, count, adder_of(situation.target)), count)
    off = slack_of(situation.target) * x.magnitude
    part = round_interval(x.low - off, x.high + off)
    return hull([found, part, Range(0.0, 0.0)]) if padded else found


def ends_of(slide: Slide) -> tuple[int, int]:
    """Return how many elements a window sees along an axis at most, and how many places it has.

    >>> from aneforge.ops.windows import Slide
    >>> ends_of(Slide(extent=3, window=3, stride=2, dilation=1, before=1, after=0, places=1))
    (2, 3)
    """
    begins = np.arange(slide.places) * slide.stride - slide.before
    seen = begins[:, None] + np.arange(slide.window) * slide.dilation
    return int(((seen >= 0) & (seen < slide.extent)).sum(axis=1).max(initial=0)), slide.window


def euclidean(situation: Situation) -> Range:
    """Return the range of the root of sums of squares of windows; padding adds nothing."""
    _, padded = count_pooled(situation)
    along = pool_slides(situation.shape("x")[2:], situation.attributes_as(PoolAttributes))
    count = math.prod(ends_of(slide)[0] for slide in along)
    squares = squares_of(situation.range("x"))
    seen = hull([squares, Range(0.0, 0.0)]) if padded else squares
    found = add_up(seen, count, adder_of(situation.target))
    return from_table("sqrt", round_interval(found.low, found.high))


# Softmax, norms, attention.


def softmax(_: Situation) -> Range:
    """Return the range of softmax: its sum holds the power of the largest, which is 1, so no share passes 1 by much."""
    return round_interval(0.0, 1.0 + 8 * TABLE_SLACK)


def standardise(x: Range, count: int, epsilon: float, off: float) -> Range:
    """Return the range of (x − μ) · rsqrt(σ² + epsilon).

    A distance d from the mean adds d² to the variance, so the result is at most √n; below 2^-7 a square loses its bits
    and epsilon alone holds the root, from 256 on it is infinite and read as 2^16. `off` is the slack of the sums.
    """
    distance = 2 * x.magnitude * (1 + off) + FP16_SMALLEST
    root = 1 / math.sqrt(max(epsilon, 2.0**-126))
    lost = min(distance, 2.0**-7) * min(root, FP16_INFINITY)
    held = math.sqrt(max(count, 1) * (1 + 4 * off)) * max(1.0, distance / 255.0)
    most = max(held, lost) * (1 + 2 * TABLE_SLACK) * (1 + off)
    return round_interval(-most, most)


def affine(found: Range, situation: Situation) -> Range:
    """Return the range after gamma and beta, each an operation of its own."""
    if "gamma" in situation.operands:
        exact = products(found, situation.range("gamma"))
        found = round_interval(exact.low, exact.high)
    if "beta" in situation.operands:
        beta = situation.range("beta")
        found = round_interval(found.low + beta.low, found.high + beta.high)
    return found


def layer_norm(situation: Situation) -> Range:
    """Return the range of a layer norm."""
    off = slack_of(situation.target)
    epsilon = find_added_epsilon(situation.target, situation.number("epsilon"))
    found = standardise(situation.range("x"), count_of(situation), epsilon, off)
    return affine(found, situation)


def instance_norm(situation: Situation) -> Range:
    """Return the range of an instance norm."""
    count = math.prod(situation.shape("x")[2:])
    off = slack_of(situation.target)
    epsilon = find_added_epsilon(situation.target, situation.number("epsilon"))
    return affine(standardise(situation.range("x"), count, epsilon, off), situation)


def l2_norm(situation: Situation) -> Range:
    """Return the range of x times the reciprocal root of Σ x², which is at least epsilon.

    As for `standardise`, but nothing is divided by a count: a number is no larger than the length that holds it. From
    2^-10 on a square, and a sum that it is alone in, are off by a sixteenth at most.
    """
    x, epsilon = situation.range("x"), float(np.float32(situation.number("epsilon")))
    off = slack_of(situation.target)
    root = min(1 / math.sqrt(max(epsilon, 2.0**-126)), FP16_INFINITY)
    lost = min(x.magnitude, 2.0**-10) * root
    held = (1 + 4 * off) * max(1.0, x.magnitude / 255.0) / math.sqrt(1 - 2.0**-4)
    most = max(held, lost) * (1 + 2 * TABLE_SLACK)
    return round_interval(-most if x.low < 0 else 0.0, most if x.high > 0 else 0.0)


def shares_total(count: int) -> float:
    """Return what so many shares add up to at most, little more than 1: powers times the reciprocal of their sum."""
    return min((1.0 + 8 * TABLE_SLACK) * count, 1.0 + 16 * TABLE_SLACK + count * HALF_ULP)


def weigh(magnitude: float, count: int) -> float:
    """Return how large sums of so many values get that are weighed by shares, each product rounded to the grid."""
    return magnitude * shares_total(count) + count * 2.0**-15


def attention(situation: Situation) -> Range:
    """Return the range of attention: values weighed by shares, added on the multiply-accumulate path."""
    value = situation.range("value")
    most = weigh(value.magnitude, situation.shape("value")[-2])
    high = most if most < 2.0**15 * (1 - HALF_ULP) else FP16_INFINITY
    return Range(-high if value.low < 0 else 0.0, high if value.high > 0 else 0.0)


def cumulate(situation: Situation) -> Range:
    """Return the range of running sums, exact and rounded once."""
    x = situation.range("x")
    if not x.finite:
        return RESULTS
    axis = normalise_axes((int(situation.number("axis")),), len(situation.shape("x")))[0]
    count = situation.shape("x")[axis]
    return round_interval(min(x.low, count * x.low, 0.0), max(x.high, count * x.high, 0.0))


def response(situation: Situation) -> Range:
    """Return the range of a response norm: no larger than x / k^beta where nothing makes the base smaller."""
    x, k = situation.range("x"), situation.number("k")
    alpha, beta = situation.number("alpha"), situation.number("beta")
    if k <= 0 or alpha < 0 or beta < 0 or not x.finite:
        return RESULTS
    factor = k**-beta
    return round_interval(min(x.low, 0.0) * factor, max(x.high, 0.0) * factor)


SUMS: Mapping[str, Callable[[Situation], Range]] = {
    "avg_pool": average,
    "cumsum": cumulate,
    "instance_norm": instance_norm,
    "l2_norm": l2_norm,
    "l2_pool": euclidean,
    "layer_norm": layer_norm,
    "local_response_norm": response,
    "lrn": response,
    "reduce_l1_norm": total_of_magnitudes,
    "reduce_l2_norm": length,
    "reduce_log_sum": log_of_total,
    "reduce_log_sum_exp": log_of_powers,
    "reduce_mean": mean,
    "reduce_sum": total,
    "reduce_sum_square": total_of_squares,
    "sdpa": attention,
    "softmax": softmax,
    "sq_after_reduce": square_of_total,
}
"""Ranges of operations of the table by their names."""

"""The largest values inside an operation: what is rounded to fp16 on the way to a result that can be far smaller.

A mean adds before it divides, softplus takes a logarithm of an exponential, a quotient is a product with a reciprocal.
Where such a value overflows it goes on as 2^16, and the result is finite and wrong: an interval of results does not
show it. The order of sums, and what is rounded in them, are the engine's own: its adder is asked for a row of terms as
large as they can be, of which no other row of such terms has a larger partial sum. Where the values of an operand are
known (constants, and what sample inputs showed) they are looked at instead.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.interval import Range, as_read, products, round_interval
from aneforge.analysis.ranges.pointwise import reciprocals
from aneforge.analysis.ranges.product_ranges import ROUNDS_TO_EDGE
from aneforge.analysis.ranges.sums import count_of, ends_of, slack
from aneforge.engine.choices import choices
from aneforge.engine.golden import EDGE, PRODUCT_GRID
from aneforge.engine.neuron import table
from aneforge.engine.planar import add, host_fp16, number, read
from aneforge.engine.reductions import accumulate, adder_of, by_row, mean, split_rows, squares
from aneforge.engine.rounding import to_fp16
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.groups.pooling import PoolAttributes, pool_slides
from aneforge.ops.numbers import FP16_INFINITY, FP16_MAX
from aneforge.ops.shapes import reduced_axes
from aneforge.ops.windows import windows_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.analysis.ranges.situation import Known, Situation
    from aneforge.compiler.affine import Affine
    from aneforge.engine.choices import AdderChoice
    from aneforge.ops.windows import Slide

    Array = npt.NDArray[Any]
    Axes = tuple[int, ...]
    Terms = Callable[[Array], Array]
    Inside = Callable[[Situation], Iterator["Inner"]]

__all__ = ["INNER", "Inner", "inner_of_affine", "nearest"]

ELEMENTS_AT_A_TIME = 2**20
"""Windows are looked at in parts of about this many elements, because a window repeats what its neighbours see."""

BEFORE_THE_SUM = "scale the operands down by a power of two, and the result up again after it"
BEFORE_THE_LOGARITHM = "scale the operands down by 2^-k, and add k times log 2 to the result"
ONE_AXIS = "take one axis after the other"
BEFORE_THE_NORM = "scale what the norm reads down by a power of two, and epsilon by its square"
BEFORE_THE_POWER = "use softplus(min(x, 10)) + relu(x - 10), or promise a smaller range (max_abs of the input, clip)"
BEFORE_THE_DIVISION = "keep the divisor from 2^-15 on, or scale both operands up by the same power of two"
BEFORE_THE_OFFSET = "make the gain smaller by a power of two, and the offset, and scale the result up after them"
BEFORE_THE_SCORES = "scale the queries down by a power of two, and give scale= its inverse times what it was"


@dataclass(frozen=True, slots=True)
class Inner:
    """The largest magnitude of a value inside an operation, as it is before it overflows."""

    value: float
    what: str
    remedy: str | None = None
    """What helps; None for what helps against any overflow."""
    limit: float = FP16_MAX
    """The largest magnitude that stays finite."""


def nearest(found: Iterable[Inner]) -> Inner | None:
    """Return the one that comes nearest to its limit, if there is any.

    Of those that pass it, one of which nothing is known but that it is infinite says less than one with a number.
    """
    everything = list(found)
    numbered = [one for one in everything if one.limit < one.value < math.inf]
    return max(numbered or everything, key=nearness, default=None)


def nearness(inner: Inner) -> float:
    """Return how much of its limit a value takes."""
    return inner.value / inner.limit


def take_magnitude(in_engine: float, exact: float) -> float:
    """Return a magnitude in the engine; of one that overflows there, how large it should have been."""
    return in_engine if in_engine <= FP16_MAX else max(in_engine, exact)


def most(values: Array) -> float:
    """Return the largest magnitude; that of nothing is 0."""
    return float(np.abs(values).max(initial=0.0))


# Sums.


def same(numbers: Array) -> Array:
    """Return numbers that are added as they are."""
    return numbers


EXACTLY: Mapping[Terms, Terms] = {same: same, np.abs: np.abs, squares: np.square}
"""What is added, as the engine has it, and the same without its roundings."""


def of_rows(rows: Array, terms: Terms, adder: AdderChoice, *, whole: bool) -> float:
    """Return the largest partial sum of rows that the engine rounds; `whole` where it rounds the sum of all, too.

    Groups are sums of their own, and so is every node of the tree above them: what is after the tree is exact.
    """
    if not rows.size:
        return 0.0
    inside, exact, found = terms(rows), EXACTLY[terms](rows), 0.0
    for level in range(adder.tree.bit_length()):
        length = adder.group << level
        found = max(found, of_parts(split_rows(inside, length), split_rows(exact, length), adder))
    return max(found, of_parts(inside, exact, adder)) if whole else found


def of_parts(parts: Array, exact: Array, adder: AdderChoice) -> float:
    """Return the largest of some sums that the engine rounds; it is asked only for those that may overflow."""
    sums = np.abs(exact.sum(axis=-1))
    near = np.abs(parts).sum(axis=-1) * (1 + slack(adder)) > FP16_MAX
    if not near.any():
        return most(sums)
    in_engine = most(read(to_fp16(accumulate(parts[near], (1,), adder))))
    return max(most(sums[~near]), take_magnitude(in_engine, most(sums[near])))


@lru_cache(maxsize=4096)
def of_equal_terms(x: float, terms: Terms, count: int, adder: AdderChoice, *, whole: bool) -> float:
    """Return the largest partial sum of `count` terms that are made of one number; what is after the tree is exact."""
    at_once = adder.group * adder.tree
    found = of_rows(np.full((1, min(count, at_once)), x), terms, adder, whole=False)
    if not whole:
        return found
    last = np.where(np.arange(at_once) < count % at_once, x, 0.0)
    full_sum, last_sum = accumulate(terms(np.stack([np.full(at_once, x), last])), (1,), adder)[:, 0]
    total = read(to_fp16(np.array([count // at_once * full_sum + last_sum])))
    return max(found, take_magnitude(most(total), count * most(EXACTLY[terms](np.array([x])))))


def axes_of(situation: Situation) -> Axes:
    """Return the axes that go in a reduction or norm."""
    given = situation.optional_integers("axes")
    return reduced_axes(len(situation.shape("x")), given)


def reduction(terms: Terms, remedy: str, *, whole: bool) -> Inside:
    """Return what is inside a sum along axes; `whole` where the sum is rounded to fp16 before it goes on."""

    def inside(situation: Situation) -> Iterator[Inner]:
        adder, x = adder_of(situation.target), situation.look_up("x")
        if x.values is None:
            found = of_equal_terms(x.range.magnitude, terms, count_of(situation), adder, whole=whole)
        else:
            found = of_rows(by_row(as_read(x.values), axes_of(situation)), terms, adder, whole=whole)
        yield Inner(found, "sums inside", remedy)

    return inside


def pool(terms: Terms, remedy: str, *, whole: bool) -> Inside:
    """Return what is inside a sum over windows; padding adds zeros."""

    def inside(situation: Situation) -> Iterator[Inner]:
        adder, x = adder_of(situation.target), situation.look_up("x")
        along = pool_slides(situation.shape("x")[2:], situation.attributes_as(PoolAttributes))
        if x.values is None:
            found = of_windows(x.range.magnitude, terms, along, adder, whole=whole)
        else:
            planes = as_read(x.values).reshape(-1, *x.type.shape[2:])
            parts = (of_rows(rows, terms, adder, whole=whole) for rows in window_rows(planes, along))
            found = max(parts, default=0.0)
        yield Inner(found, "sums inside", remedy)

    return inside


def of_windows(x: float, terms: Terms, along: tuple[Slide, ...], adder: AdderChoice, *, whole: bool) -> float:
    """Return the largest partial sum of windows of equal terms.

    Where all windows see padding, which of their places hold zeros shows how sums round: that is at most the slack of
    the adder.
    """
    seen, places = (math.prod(extents) for extents in zip(*(ends_of(slide) for slide in along), strict=True))
    found = of_equal_terms(x, terms, seen, adder, whole=whole)
    return found if seen == places else found * (1 + slack(adder))


def window_rows(planes: Array, along: tuple[Slide, ...]) -> Iterator[Array]:
    """Yield what windows see as rows, a part of the planes at a time."""
    repeated = math.prod(slide.places * slide.window for slide in along)
    step = max(1, ELEMENTS_AT_A_TIME // max(1, repeated))
    for begin in range(0, len(planes), step):
        windows = windows_of(planes[begin : begin + step, None], along)
        yield by_row(windows, tuple(range(windows.ndim - len(along), windows.ndim)))


def bound_summed_powers(situation: Situation) -> Iterator[Inner]:
    """Yield the sum of a logarithm of powers: the largest is taken off first, so none is more than 1."""
    adder, x = adder_of(situation.target), situation.look_up("x")
    if x.values is None:
        found = of_equal_terms(1.0, same, count_of(situation), adder, whole=True)
    else:
        rows = by_row(as_read(x.values), axes_of(situation))
        distances = to_fp16(rows - rows.max(axis=-1, keepdims=True, initial=-FP16_INFINITY))
        found = of_rows(read(table("exp", distances)), same, adder, whole=True)
    yield Inner(found, "sums inside", ONE_AXIS)


# Norms.


def standardise(situation: Situation, axes: Axes) -> Iterator[Inner]:
    """Yield the sums of a mean, and those of squared distances from it."""
    adder, x = adder_of(situation.target), situation.look_up("x")
    if x.values is not None:
        numbers = as_read(x.values)
        distances = numbers - read(mean(host_fp16(x.values), axes, adder))
        added = of_rows(by_row(numbers, axes), same, adder, whole=False)
        squared = of_rows(by_row(distances, axes), squares, adder, whole=False)
    else:
        count = math.prod(x.type.shape[axis] for axis in axes)
        added = of_equal_terms(x.range.magnitude, same, count, adder, whole=False)
        squared = bound_squared_distances(x.range, count, adder)
    yield Inner(added, "sums of the mean", BEFORE_THE_NORM)
    yield Inner(squared, "sums of squares", BEFORE_THE_NORM)


def bound_squared_distances(x: Range, count: int, adder: AdderChoice) -> float:
    """Return the largest partial sum of squared distances from a mean of `count` numbers of an interval.

    None is farther from the mean than the others leave it, and the root of their mean square is no more than half of
    the interval; the mean itself is off by the slack of its sum.
    """
    width, off = x.high - x.low, slack(adder)
    missed = off * x.magnitude
    farthest = width * (1 - 1 / max(count, 1)) + missed
    together = count * (width**2 / 4 + missed**2) * (1 + off)
    return max(farthest**2, min(of_equal_terms(farthest, squares, count, adder, whole=False), together))


def layer_norm(situation: Situation) -> Iterator[Inner]:
    """Yield the sums of a layer norm."""
    yield from standardise(situation, axes_of(situation))


def instance_norm(situation: Situation) -> Iterator[Inner]:
    """Yield the sums of an instance norm."""
    yield from standardise(situation, tuple(range(2, len(situation.shape("x")))))


# Functions of one element.


def softplus(situation: Situation) -> Iterator[Inner]:
    """Yield the exponential inside log(1 + eˣ)."""
    yield one_plus_power(situation.range("x").high)


def softplus_parametric(situation: Situation) -> Iterator[Inner]:
    """Yield the exponential inside alpha · log(1 + e^(beta · x))."""
    x, beta = situation.look_up("x"), situation.look_up("beta")
    if x.values is None or beta.values is None:
        exact = products(x.range, beta.range)
        yield one_plus_power(round_interval(exact.low, exact.high).high)
        return
    along = reshape_along(as_read(beta.values), x.values.ndim)
    yield one_plus_power(float(read(to_fp16(along * as_read(x.values))).max(initial=-FP16_INFINITY)))


def one_plus_power(x: float) -> Inner:
    """Return 1 + eˣ, which is the largest for the largest x."""
    held_as = host_fp16(np.array([x]))
    in_engine = float(read(add(np.ones(1), table("exp", held_as)))[0])
    with np.errstate(over="ignore"):
        exact = float(np.exp(np.float64(x)) + 1)
    return Inner(take_magnitude(in_engine, exact), "the exponential", BEFORE_THE_POWER)


# Pairs, gain and offset.


def division(situation: Situation) -> Iterator[Inner]:
    """Yield the reciprocal of the divisor."""
    y = situation.look_up("y")
    if y.values is None:
        found, least = reciprocals(y.range).magnitude, 0.0
        if y.range.low > 0 or y.range.high < 0:
            least = min(abs(y.range.low), abs(y.range.high))
    else:
        found = most(read(table("inverse", host_fp16(y.values))))
        least = float(np.abs(as_read(y.values)).min(initial=FP16_INFINITY))
    yield Inner(take_magnitude(found, 1 / least if least else math.inf), "the reciprocal", BEFORE_THE_DIVISION)


def find_computed_gain(situation: Situation) -> Iterator[Inner]:
    """Yield the product with a gain that is computed at run time, where an offset is added to it."""
    if "gain" not in situation.operands or "offset" not in situation.operands:
        return
    x, gain = situation.look_up("x"), situation.look_up("gain")
    if x.values is None or gain.values is None:
        yield from before_an_offset(products(x.range, gain.range))
        return
    exact = as_read(x.values) * reshape_along(as_read(gain.values), x.values.ndim)
    yield from before_an_offset(Range(0.0, most(exact)))


def inner_of_affine(x: Known, affine: Affine) -> Iterator[Inner]:
    """Yield the product of gain · x + offset with constants: it is rounded before an offset is added to it."""
    if affine.gain is None or affine.offset is None:
        return
    gain = read(host_fp16(affine.gain))
    if x.values is None or gain.ndim == 0:
        yield from before_an_offset(Range(0.0, most(gain) * x.range.magnitude))
        return
    exact = as_read(x.values) * reshape_along(gain, x.values.ndim, affine.axis)
    yield from before_an_offset(Range(0.0, most(exact)))


def before_an_offset(exact: Range) -> Iterator[Inner]:
    """Yield exact products that an offset is added to, if they are rounded before."""
    if choices().gain_offset.product_is_rounded:
        found = round_interval(exact.low, exact.high).magnitude
        yield Inner(take_magnitude(found, exact.magnitude), "the product with the gain", BEFORE_THE_OFFSET)


# Attention.


def attention(situation: Situation) -> Iterator[Inner]:
    """Yield the scores of attention on the multiply-accumulate path, and what they are with scale and mask.

    A mask hides by large negative numbers, whose overflow does no harm.
    """
    query, key = situation.look_up("query"), situation.look_up("key")
    extent = query.type.shape[-1]
    if query.values is None or key.values is None:
        reach = extent * (query.range.magnitude * key.range.magnitude + PRODUCT_GRID / 2)
    else:
        reach = reach_of(as_read(query.values), as_read(key.values))
    # A sum that reaches the edge or rounds to it is infinite, so the limit is the largest number below.
    yield Inner(reach, "the scores", BEFORE_THE_SCORES, math.nextafter(ROUNDS_TO_EDGE, 0.0))
    given = situation.attributes.get("scale")
    scale = abs(number(1 / math.sqrt(extent) if given is None else situation.number("scale")))
    above = max(situation.range("attn_mask").high, 0.0) if "attn_mask" in situation.operands else 0.0
    exact = min(reach, EDGE) * scale
    found = round_interval(0.0, round_interval(0.0, exact).high + above).high
    yield Inner(take_magnitude(found, exact + above), "the scores", BEFORE_THE_SCORES)


def reach_of(query: Array, key: Array) -> float:
    """Return the largest partial sum of scores, in the order of their terms."""
    total = np.zeros(np.broadcast_shapes((*query.shape[:-1], 1), (*key.shape[:-2], 1, key.shape[-2])))
    found = 0.0
    for place in range(query.shape[-1]):
        total += query[..., :, None, place] * key[..., None, :, place]
        found = max(found, most(total))
    return found


INNER: Mapping[str, Inside] = {
    "avg_pool": pool(same, BEFORE_THE_SUM, whole=False),
    "dynamic_goc": find_computed_gain,
    "floor_div": division,
    "instance_norm": instance_norm,
    "l2_norm": reduction(squares, BEFORE_THE_NORM, whole=False),
    "l2_pool": pool(squares, BEFORE_THE_SUM, whole=True),
    "layer_norm": layer_norm,
    "real_div": division,
    "reduce_l1_norm": reduction(np.abs, BEFORE_THE_SUM, whole=True),
    "reduce_l2_norm": reduction(squares, BEFORE_THE_SUM, whole=True),
    "reduce_log_sum": reduction(same, BEFORE_THE_LOGARITHM, whole=True),
    "reduce_log_sum_exp": bound_summed_powers,
    "reduce_mean": reduction(same, BEFORE_THE_SUM, whole=False),
    "reduce_sum": reduction(same, BEFORE_THE_SUM, whole=True),
    "reduce_sum_square": reduction(squares, BEFORE_THE_SUM, whole=True),
    "sdpa": attention,
    "softplus": softplus,
    "softplus_parametric": softplus_parametric,
    "sq_after_reduce": reduction(same, BEFORE_THE_SUM, whole=False),
}
"""What is inside operations of the table, by their names, where it can overflow before the result does.

Not here: an epsilon, which is an offset of its own by then; what the engine models by one rounding of the mathematics;
products, whose sums have an edge of their own; and values that may overflow without harm, such as the distances from
the largest of a softmax, or what tanh is read at.
"""

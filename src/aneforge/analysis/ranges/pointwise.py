"""Ranges of operations on single elements and pairs of them.

An operation on one fp16 number has 65,536 possible operands, so its range over an interval is found by computing it for
all of them, once: cliffs, tables and values at infinity are the engine's own. Pairs go by interval arithmetic, and the
ends are rounded as the engine rounds.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.interval import RESULTS, Range, hull, of_type, products, round_interval
from aneforge.engine.choices import choices
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.planar import gain_offset, host_fp16, number, read
from aneforge.engine.rounding import to_fp16, to_grid
from aneforge.ops.groups.quantisation import per_channel
from aneforge.ops.numbers import FP16_INFINITY, FP16_MAX
from aneforge.ops.types import is_float, numpy_dtype, value_range
from aneforge.targets import Family, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.analysis.ranges.situation import Situation
    from aneforge.ops.signature import AttributeValue

    Array = npt.NDArray[Any]

__all__ = ["PAIRS", "affine_range", "multiply_ranges", "reciprocals", "single"]

SMALL_TYPES = ("int8", "uint8", "bool", "int4", "uint4", "int16", "uint16")
"""Element types whose values are few enough to be tried, in addition to fp16."""


def single(situation: Situation) -> Range:
    """Return the range of an operation on one element: that of its results for every operand of the interval."""
    x = situation.look_up("x")
    dtype = "fp16" if is_float(x.type.dtype) else x.type.dtype
    if dtype != "fp16" and dtype not in SMALL_TYPES:
        return cast_ends(situation, dtype) if situation.op == "cast" else of_type(situation.results[0].dtype)
    key = tuple(sorted((name, repr(value)) for name, value in situation.attributes.items()))
    operands, results = table(situation.op, dtype, key, Attributes(situation.attributes))
    first = int(np.searchsorted(operands, x.range.low, "left"))
    last = int(np.searchsorted(operands, x.range.high, "right"))
    if first >= last:  # an interval between two neighbours of fp16 holds no operand
        return Range(0.0, 0.0)
    return Range(float(results[first:last].min()), float(results[first:last].max()))


def cast_ends(situation: Situation, dtype: str) -> Range:
    """Return the range of integers that are too many to be tried, cast to another type: that of their ends.

    A cast to real numbers keeps their order; one to integers may wrap around.
    """
    if not is_float(situation.results[0].dtype):
        return of_type(situation.results[0].dtype)
    x = situation.range("x")
    ends = np.array([int(x.low), int(x.high)]).astype(numpy_dtype(dtype))
    (results,) = arithmetic("cast", situation.target).compute({"x": ends}, situation.attributes)
    numbers = read(host_fp16(results.astype(np.float64)))
    return Range(float(numbers[0]), float(numbers[1]))


class Attributes:
    """Attributes with a key that names them: a cache looks only at the key."""

    def __init__(self, values: Mapping[str, AttributeValue]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes)

    def __hash__(self) -> int:
        return 0


@cache
def table(op: str, dtype: str, key: tuple[tuple[str, str], ...], attributes: Attributes) -> tuple[Array, Array]:
    """Return every operand that the engine can read, in order, and what the operation gives for each.

    The arithmetic of single elements is one for all targets (a test looks that no target has its own).
    """
    del key
    operands = every_value(dtype)
    found = arithmetic(op, resolve(Family.A16))
    (results,) = found.compute({"x": operands.reshape(1, 1, 1, -1)}, attributes.values)
    flat = results.reshape(-1)
    numbers = read(host_fp16(flat.astype(np.float64))) if flat.dtype.kind in "fV" else flat.astype(np.float64)
    return in_numbers(operands), numbers


@cache
def every_value(dtype: str) -> Array:
    """Return every value of an element type, in the order of the numbers that the engine reads."""
    if dtype == "fp16":
        values = np.arange(2**16, dtype=np.uint16).view(np.float16)
        return values[np.argsort(read(values), kind="stable")]
    low, high = value_range(dtype)
    return np.arange(low, high + 1).astype(numpy_dtype(dtype))


def in_numbers(values: Array) -> Array:
    """Return values as the numbers that the engine reads."""
    return read(values) if values.dtype == np.float16 else values.astype(np.float64)


# Pairs.


def sums(situation: Situation) -> Range:
    """Return the range of x + y."""
    x, y = situation.range("x"), situation.range("y")
    return round_interval(x.low + y.low, x.high + y.high)


def differences(situation: Situation) -> Range:
    """Return the range of x − y."""
    x, y = situation.range("x"), situation.range("y")
    return round_interval(x.low - y.high, x.high - y.low)


def multiples(situation: Situation) -> Range:
    """Return the range of x · y; that of a tensor with itself is no wider than its square."""
    exact = multiply_ranges(situation)
    return round_interval(exact.low, exact.high)


def multiply_ranges(situation: Situation) -> Range:
    """Return the exact range of x · y."""
    x = situation.range("x")
    if not situation.same("x", "y"):
        return products(x, situation.range("y"))
    least = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return Range(least * least, x.magnitude * x.magnitude)


def larger(situation: Situation) -> Range:
    """Return the range of the larger of x and y."""
    x, y = situation.range("x"), situation.range("y")
    return round_interval(max(x.low, y.low), max(x.high, y.high))


def smaller(situation: Situation) -> Range:
    """Return the range of the smaller of x and y."""
    x, y = situation.range("x"), situation.range("y")
    return round_interval(min(x.low, y.low), min(x.high, y.high))


def quotients(situation: Situation) -> Range:
    """Return the range of x times the reciprocal of y, read off its table."""
    exact = products(situation.range("x"), reciprocals(situation.range("y")))
    return round_interval(exact.low, exact.high)


def floor_quotients(situation: Situation) -> Range:
    """Return the range of a quotient that is rounded down."""
    found = quotients(situation)
    return round_interval(np.floor(found.low), np.floor(found.high))


def reciprocals(y: Range) -> Range:
    """Return the range of the table of reciprocals, without an epsilon."""
    operands, results = reciprocal_table()
    first, last = np.searchsorted(operands, y.low, "left"), np.searchsorted(operands, y.high, "right")
    return Range(float(results[first:last].min()), float(results[first:last].max())) if first < last else RESULTS


@cache
def reciprocal_table() -> tuple[Array, Array]:
    """Return every operand and its reciprocal."""
    return table("inverse", "fp16", (("epsilon", "0.0"),), Attributes({"epsilon": 0.0}))


def powers(situation: Situation) -> Range:
    """Return the range of x to the power y: |x| to it is bounded by its corners, and what is not a number is 0.

    A negative x has only a power that is an integer, of either sign unless all powers are known to be even.
    """
    x, y = situation.range("x"), situation.range("y")
    least = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    if not (x.finite and y.finite) or (least == 0 and y.low < 0):
        return RESULTS
    with np.errstate(over="ignore", under="ignore"):
        corners = [float(np.power(base, end)) for base, end in itertools.product((least, x.magnitude), (y.low, y.high))]
    if x.low >= 0:
        return round_interval(min(corners), max(corners))
    given = situation.look_up("y").values
    even = given is not None and bool((read(host_fp16(given)) % 2 == 0).all())
    return round_interval(0.0 if even else -max(corners), max(corners))


def scaled(situation: Situation) -> Range:
    """Return the range of pairs that are combined by a mode and scaled; products are not scaled."""
    by_mode = {"add": sums, "max": larger, "min": smaller, "mult": multiples}
    mode = situation.text("mode")
    if mode == "mult":
        return multiples(situation)
    x, y = situation.range("x"), situation.range("y")
    exact = Range(x.low + y.low, x.high + y.high) if mode == "add" else by_mode[mode](situation)
    factor = number(situation.number("scale"))
    found = products(exact, Range(factor, factor))
    return round_interval(found.low, found.high)


def choose(situation: Situation) -> Range:
    """Return the range of a choice between a and b."""
    return hull([situation.range("a"), situation.range("b")])


def slopes(situation: Situation) -> Range:
    """Return the range of x with a slope for every channel where it is negative."""
    x, alpha = situation.range("x"), situation.range("alpha")
    below = products(Range(min(x.low, 0.0), min(x.high, 0.0)), alpha)
    above = Range(max(x.low, 0.0), max(x.high, 0.0))
    exact = hull(part for part, there in ((below, x.low < 0), (above, x.high >= 0)) if there)
    return round_interval(exact.low, exact.high)


def gains(situation: Situation) -> Range:
    """Return the range of gain · x + offset, both computed at run time: the product is rounded first."""
    gain = situation.range("gain") if "gain" in situation.operands else Range(1.0, 1.0)
    offset = situation.range("offset") if "offset" in situation.operands else Range(0.0, 0.0)
    exact = products(situation.range("x"), gain)
    product = round_interval(exact.low, exact.high)
    total = Range(product.low + offset.low, product.high + offset.high)
    both = total if "offset" in situation.operands else product
    return round_interval(both.low, both.high)


def affine_range(x: Range, gain: Array | None, offset: Array | None) -> Range:
    """Return the range of gain · x + offset with constants: the engine's own results at both ends, all channels."""
    factors = (np.ones(1) if gain is None else read(host_fp16(gain))).reshape(-1, 1)
    shifts = None if offset is None else read(host_fp16(offset)).reshape(-1, 1)
    ends = np.array([[x.low, x.high]])
    # An end is the number that the engine reads: infinity comes in as one.
    held = np.where(np.abs(ends) > FP16_MAX, np.copysign(np.inf, ends), ends)
    results = read(host_fp16(gain_offset(held, factors, shifts)))
    if x.magnitude <= FP16_INFINITY:
        return Range(float(results.min()), float(results.max()))
    # Beyond infinity are numbers that are not one, which no float64 stands for: the same steps for them.
    product = factors * ends
    first = read(to_fp16(product)) if shifts is not None and choices().gain_offset.product_is_rounded else product
    total = first + (0.0 if shifts is None else shifts)
    return hull(
        [round_interval(float(total.min()), float(total.max())), Range(float(results.min()), float(results.max()))]
    )


def softplus_parametric(situation: Situation) -> Range:
    """Return the range of alpha · softplus(beta · x), each product rounded by itself."""
    exact = products(situation.range("x"), situation.range("beta"))
    inner = round_interval(exact.low, exact.high)
    operands, results = table("softplus", "fp16", (), Attributes({}))
    first, last = np.searchsorted(operands, inner.low, "left"), np.searchsorted(operands, inner.high, "right")
    found = products(
        Range(float(results[first:last].min()), float(results[first:last].max())), situation.range("alpha")
    )
    return round_interval(found.low, found.high)


def quantise(situation: Situation) -> Range:
    """Return the range of x / scale in integers, plus the zero point, within the type."""
    x, axis = situation.range("x" if "x" in situation.operands else "input"), None
    scale, zero = parameters(situation, axis)
    low, high = value_range(situation.text("output_dtype"))
    with np.errstate(all="ignore"):
        steps = np.stack([to_grid(end / scale, 1.0) + zero for end in (x.low, x.high)])
    found = np.clip(np.where(np.isnan(steps), 0.0, steps), low, high)
    return Range(float(found.min()), float(found.max()))


def dequantise(situation: Situation) -> Range:
    """Return the range of scale · (q − zero point)."""
    x, axis = situation.range("x" if "x" in situation.operands else "input"), None
    scale, zero = parameters(situation, axis)
    exact = np.stack([(end - zero) * scale for end in (x.low, x.high)])
    return round_interval(float(exact.min()), float(exact.max()))


def parameters(situation: Situation, axis: int | None) -> tuple[Array, Array]:
    """Return scales and zero points as rows of numbers; the engine gets the scales in fp16."""
    scale = situation.look_up("scale").values
    zero = situation.look_up("zero_point").values if "zero_point" in situation.operands else None
    held = np.ones(()) if scale is None else host_fp16(scale.astype(np.float64)).astype(np.float64)
    return held.reshape(-1), per_channel(zero, 1, axis).reshape(-1)


PAIRS: Mapping[str, Callable[[Situation], Range]] = {
    "add": sums,
    "dequantize": dequantise,
    "dynamic_goc": gains,
    "floor_div": floor_quotients,
    "maximum": larger,
    "minimum": smaller,
    "mul": multiples,
    "pe_goc": gains,
    "pow": powers,
    "prelu": slopes,
    "quantize": quantise,
    "real_div": quotients,
    "scaled_elementwise": scaled,
    "select": choose,
    "softplus_parametric": softplus_parametric,
    "sub": differences,
}
"""Ranges of operations of the table by their names."""

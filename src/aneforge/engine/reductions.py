"""Reductions on the planar engine: sums in an order that is not known bit for bit, extremes that round nothing.

Decoded: a reduction is one task over the plane of each channel; no intermediate fp16 tensor is written, a mean is
scaled once at the end by 1 / n in fp32. Seen in figures: the partial sums are rounded to fp16 somewhere on the way,
ties away from zero, in one order on early chips and another on late ones. The models are the best that fit, and data
(`data/arithmetic.toml`, which says what else was tried), chosen by the target's `reduction_order`. Early: `group`
neighbours are added and rounded to fp16, `tree` of those are added two by two in fp16, and the rest is added exactly
and rounded once; before each addition but the last the terms are cut towards zero to the `window` bits that begin with
the leading one of the largest. Late: `chain` neighbours are added one after another, `times` over, every addition
rounded to `bits` significant ones, and the rest exactly. They give the published errors of sums within some per cent
and are labelled modelled. Measured: a row of eight integers is exact to 2,048, and 2,049 reads 2,050.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.choices import AdderChoice, choices, switch
from aneforge.engine.neuron import table
from aneforge.engine.planar import add, read
from aneforge.engine.rounding import LEAST_EXPONENT, exponents, to_bits, to_fp16
from aneforge.ops.shapes import reduced_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Axes = tuple[int, ...]
    Reduction = Callable[[Array, Axes, AdderChoice], Array]

__all__ = ["FOR_TARGET", "FUNCTIONS", "accumulate", "adder_of", "as_operation", "extreme", "mean", "total"]


def adder_of(target: Target) -> AdderChoice:
    """Return how a target adds."""
    return choices().reduction.orders[str(switch(target, "reduction_order"))]


def accumulate(numbers: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return sums of numbers along axes, which stay with length 1, before the last rounding.

    >>> early = choices().reduction.orders["early"]
    >>> accumulate(np.ones((1, 2049)), (1,), early).item()
    2049.0
    """
    return np.expand_dims(add_rows(by_row(numbers, axes), adder), tuple(sorted(axes)))


def by_row(numbers: Array, axes: Axes) -> Array:
    """Return numbers with some axes as one, the last."""
    kept = tuple(axis for axis in range(numbers.ndim) if axis not in axes)
    return numbers.transpose(*kept, *sorted(axes)).reshape(*(numbers.shape[axis] for axis in kept), -1)


def add_rows(rows: Array, adder: AdderChoice) -> Array:
    """Return the sums of rows of numbers, before the last rounding."""
    if adder.chain:
        return chain(rows, adder)
    terms = to_fp16(align(split_rows(rows, adder.group), adder.window).sum(axis=-1))
    nodes = split_rows(terms, adder.tree)
    while nodes.shape[-1] > 1:
        pairs = nodes.reshape(*nodes.shape[:-1], -1, 2)
        nodes = to_fp16(align(read(pairs), adder.window).sum(axis=-1))
    return read(nodes[..., 0]).sum(axis=-1)


def chain(rows: Array, adder: AdderChoice) -> Array:
    """Return the sums of rows of numbers in chains of chains, every addition rounded; the last ones are exact."""
    for _ in range(adder.times):
        first, *others = np.ascontiguousarray(np.moveaxis(split_rows(rows, adder.chain), -1, 0))
        rows = first
        for term in others:
            rows = to_bits(rows + term, adder.bits)
    return rows.sum(axis=-1)


def split_rows(rows: Array, length: int) -> Array:
    """Return rows in parts of one length, zeros after the last."""
    missing = -rows.shape[-1] % length
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])
    return padded.reshape(*rows.shape[:-1], -1, length)


def align(terms: Array, window: int) -> Array:
    """Return terms cut towards zero at the last bit of a window that starts at the largest of them."""
    if not window:
        return terms
    largest = exponents(np.abs(terms).max(axis=-1, keepdims=True, initial=0.0))
    steps = np.ldexp(1.0, np.maximum(largest, LEAST_EXPONENT) - (window - 1))
    return np.trunc(terms / steps) * steps


# Sums and what is made of them. Every function takes the values, the axes that go, and how to add.


def total(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return Σ x, rounded once at the end."""
    return to_fp16(accumulate(read(x), axes, adder))


def mean(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return Σ x · (1 / n): the factor is fp32 and the sum not rounded before (decoded from task descriptors)."""
    return to_fp16(accumulate(read(x), axes, adder) * reciprocal_count(x, axes))


def reciprocal_count(x: Array, axes: Axes) -> float:
    """Return 1 / n in fp32."""
    return float(np.float32(1.0) / np.float32(math.prod(x.shape[axis] for axis in axes)))


def squares(numbers: Array) -> Array:
    """Return squares as a reduction adds them; the choice `squares_are_rounded` says whether they are fp16 by then."""
    exact = np.square(numbers)
    return read(to_fp16(exact)) if choices().reduction.squares_are_rounded else exact


def total_of_squares(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return Σ x²."""
    return to_fp16(accumulate(squares(read(x)), axes, adder))


def total_of_magnitudes(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return Σ |x|."""
    return to_fp16(accumulate(np.abs(read(x)), axes, adder))


def length(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return the root of Σ x², read off its table."""
    return table("sqrt", total_of_squares(x, axes, adder))


def log_of_total(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return log Σ x, read off its table."""
    return table("log", total(x, axes, adder))


def log_of_total_of_powers(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return log Σ eˣ, the largest x taken off first and added again."""
    largest = np.max(read(x), axis=axes, keepdims=True)
    powers = table("exp", to_fp16(read(x) - largest))
    return add(log_of_total(powers, axes, adder), to_fp16(largest))


def square_of_total(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return (Σ x)², rounded once: the fused form skips a rounding."""
    return to_fp16(np.square(accumulate(read(x), axes, adder)))


# Extremes round nothing. Of equal ones the first is taken, which matters for zeros of both signs.


def extreme(numbers: Array, axes: Axes, find: Callable[..., Array], *, keep_dims: bool) -> Array:
    """Return the first of the largest or smallest numbers along axes.

    >>> extreme(np.array([-0.0, 0.0, -1.0]), (0,), np.argmax, keep_dims=False).item()
    -0.0
    """
    rows = by_row(numbers, axes)
    found = np.take_along_axis(rows, find(rows, axis=-1)[..., None], -1)[..., 0]
    return np.expand_dims(found, tuple(sorted(axes))) if keep_dims else found


def largest(x: Array, *, axes: Axes | None, keep_dims: bool) -> Array:
    """Return the largest x along axes."""
    return to_fp16(extreme(read(x), reduced_axes(x.ndim, axes), np.argmax, keep_dims=keep_dims))


def smallest(x: Array, *, axes: Axes | None, keep_dims: bool) -> Array:
    """Return the smallest x along axes."""
    return to_fp16(extreme(read(x), reduced_axes(x.ndim, axes), np.argmin, keep_dims=keep_dims))


def place_of(find: Callable[..., Array]) -> Callable[..., Array]:
    """Return an operation that finds the place of an extreme; the first of equal ones."""

    def function(x: Array, *, axis: int, keep_dims: bool, output_dtype: str) -> Array:
        return find(read(x), axis=axis, keepdims=keep_dims).astype(output_dtype)

    return function


def as_operation(reduction: Reduction) -> Callable[[Target], Callable[..., Array]]:
    """Return a reduction as an operation of the table, with the order of a target."""

    def on_target(target: Target) -> Callable[..., Array]:
        adder = adder_of(target)

        def function(x: Array, *, axes: Axes | None, keep_dims: bool) -> Array:
            found = reduced_axes(x.ndim, axes)
            kept = reduction(x, found, adder)
            return kept if keep_dims else np.squeeze(kept, axis=found)

        return function

    return on_target


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "reduce_argmax": place_of(np.argmax),
    "reduce_argmin": place_of(np.argmin),
    "reduce_max": largest,
    "reduce_min": smallest,
}
FOR_TARGET: Mapping[str, Callable[[Target], Callable[..., Array]]] = {
    "reduce_l1_norm": as_operation(total_of_magnitudes),
    "reduce_l2_norm": as_operation(length),
    "reduce_log_sum": as_operation(log_of_total),
    "reduce_log_sum_exp": as_operation(log_of_total_of_powers),
    "reduce_mean": as_operation(mean),
    "reduce_sum": as_operation(total),
    "reduce_sum_square": as_operation(total_of_squares),
    "sq_after_reduce": as_operation(square_of_total),
}
"""Operations whose sums depend on the order of the target."""

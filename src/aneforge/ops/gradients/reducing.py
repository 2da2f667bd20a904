"""Gradients of reductions, running sums and choices along axes.

Equal extremes share what comes back, as torch shares it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.looking_up import rows_of
from aneforge.ops.gradients.shifting import axes_of, keep_where, level, reshape_to, spread, with_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.gradient import GradientSite, Passed

SMALLEST = 2.0**-24
"""The smallest number of fp16: a length of 0 divides by it, and zeros stay zeros."""


def with_reduced_axes(g: Term, x: Term, axes: Sequence[int] | None) -> Term:
    """Return what comes back to a reduction, or its result, with the axes of x."""
    return with_axes(g, x, axes_of(len(x.shape), axes))


def count_of(x: Term, axes: Sequence[int] | None) -> int:
    """Return how many elements a reduction takes together."""
    return math.prod(x.shape[axis] for axis in axes_of(len(x.shape), axes))


def total(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return g, repeated."""
    return spread(with_reduced_axes(g, x, axes), x.shape)


def mean(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return g / n, repeated."""
    return spread(with_reduced_axes(g, x, axes) * (1 / count_of(x, axes)), x.shape)


def extreme(to: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **_: object) -> Term:
    """Return g where x is the extreme, in equal parts where several are."""
    return share_among_equals(
        to, x, with_reduced_axes(to.outputs[0], x, axes), with_reduced_axes(g, x, axes), axes_of(len(x.shape), axes)
    )


def share_among_equals(to: Site, x: Term, extreme: Term, g: Term, axes: tuple[int, ...]) -> Term:
    """Return g at the elements of x that equal an extreme of their axes, in equal parts."""
    equal = x.equal(extreme)
    share = g / equal.cast(dtype=x.dtype).reduce_sum(axes=axes, keep_dims=True)
    return keep_where(to, equal, spread(share, x.shape))


def absolute_sum(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return sign(x) · g."""
    return x.sign() * with_reduced_axes(g, x, axes)


def length(to: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **_: object) -> Term:
    """Return x / y · g."""
    return x / with_reduced_axes(to.outputs[0], x, axes).threshold(alpha=SMALLEST) * with_reduced_axes(g, x, axes)


def logarithm_of_sum(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return g / Σ x, repeated."""
    places = axes_of(len(x.shape), axes)
    return spread(with_reduced_axes(g, x, axes) / x.reduce_sum(axes=places, keep_dims=True), x.shape)


def logarithm_of_exponentials(to: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **_: object) -> Term:
    """Return g · e^(x − y)."""
    return (x - with_reduced_axes(to.outputs[0], x, axes)).exp() * with_reduced_axes(g, x, axes)


def sum_of_squares(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return 2 · x · g."""
    return x * with_reduced_axes(g, x, axes) * 2.0


def square_of_sum(_: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **__: object) -> Term:
    """Return 2 · Σ x · g, repeated."""
    summed = x.reduce_sum(axes=axes_of(len(x.shape), axes), keep_dims=True)
    return spread(with_reduced_axes(g, x, axes) * summed * 2.0, x.shape)


def product(to: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...] | None, **_: object) -> Term:
    """Return g times the product of the other elements, which stays right where elements are 0."""
    places = axes_of(len(x.shape), axes)
    others = tuple(axis for axis in range(len(x.shape)) if axis not in places)
    order = (*others, *places)
    moved = x.transpose(perm=order)
    rows, count = math.prod(x.shape[axis] for axis in others), count_of(x, axes)
    square = moved.reshape(shape=(rows, 1, count)).tile(reps=(1, count, 1))
    own = to.constant(np.eye(count, dtype=np.bool_)[None], "bool")
    ones = to.constant(np.ones((rows, count, count)), x.dtype)
    rest = own.select(ones, square).reduce_prod(axes=(2,), keep_dims=False)
    back = rest.reshape(shape=moved.shape).transpose(perm=tuple(order.index(axis) for axis in range(len(order))))
    return back * with_reduced_axes(g, x, axes)


def running_sum(_: GradientSite, g: Term, __: Term, *, axis: int, exclusive: bool, reverse: bool) -> Term:
    """Return the running sum from the other end."""
    return g.cumsum(axis=axis, exclusive=exclusive, reverse=not reverse)


def between_extremes(to: GradientSite, g: Term, x: Term, *, dimension: str, epsilon: float) -> Term:
    """Return the gradient of (x − min) / (max − min + epsilon), that of both extremes included."""
    axes = (len(x.shape) - 1 if dimension.lower().startswith("w") else len(x.shape) - 2,)
    least, most = x.reduce_min(axes=axes, keep_dims=True), x.reduce_max(axes=axes, keep_dims=True)
    span = (most - least) + epsilon
    scaled = g / span
    moved = (g * to.outputs[0]).reduce_sum(axes=axes, keep_dims=True) / span
    to_least = moved - scaled.reduce_sum(axes=axes, keep_dims=True)
    ends = share_among_equals(to, x, most, -moved, axes) + share_among_equals(to, x, least, to_least, axes)
    return scaled + ends


# Order


def ranks(x: Term, axis: int, *, ascending: bool) -> Term:
    """Return at which place of the ordered axis every element is."""
    return x.argsort(axis=axis, ascending=ascending).argsort(axis=axis, ascending=True)


def sorted_elements(_: GradientSite, g: Term, x: Term, *, axis: int, descending: bool) -> Term:
    """Return g at the places from which the elements came."""
    return g.gather_along_axis(ranks(x, axis, ascending=not descending), axis=axis)


def chosen_elements(
    _: GradientSite, g: Sequence[Passed], x: Term, *, k: int, axis: int, ascending: bool, **__: object
) -> Passed:
    """Return g at the places from which the chosen elements came, 0 at the others."""
    back = g[0]
    if back is None:
        return None
    along = axis % len(x.shape)
    missing = x.shape[along] - k
    sides = tuple(missing if place == along and side else 0 for place in range(len(x.shape)) for side in (0, 1))
    whole = back.pad(pad=sides, mode="constant", constant_val=0.0) if missing else back
    return whole.gather_along_axis(ranks(x, along, ascending=ascending), axis=along)


def kept_boxes(to: GradientSite, g: Sequence[Passed], boxes: Term, _: Term, **__: object) -> Sequence[Passed]:
    """Return what comes back to the boxes and scores that are kept, at the places from which they came."""
    chosen = rows_of(to, to.outputs[2], boxes.shape[2], boxes.dtype, from_end=False)
    return [None if one is None else one.matmul(chosen) for one in g[:2]]


def farthest_points(to: GradientSite, g: Term, points: Term, **_: object) -> Term:
    """Return what comes back to the chosen points, which are found by their coordinates; equal points share it."""
    (chosen,) = to.outputs
    count = points.shape[0]
    apart = chosen.reshape(shape=(chosen.shape[0], 1, 3)) - points.reshape(shape=(1, count, 3))
    distance = apart.abs().reduce_sum(axes=(2,), keep_dims=False)
    same = distance.equal(level(to, 0.0, points)).cast(dtype=points.dtype)
    share = same / same.reduce_sum(axes=(1,), keep_dims=True)
    return reshape_to(share.matmul(g, transpose_x=True), points.shape)


SUM = Gradient("g, repeated", total)
MEAN = Gradient("g / n, repeated", mean)
EXTREME = Gradient("g where x = y, in equal parts where several are", extreme)
L1_NORM = Gradient("sign(x) · g", absolute_sum)
L2_NORM = Gradient("x / y · g, 0 where y = 0", length)
LOG_SUM = Gradient("g / Σ x", logarithm_of_sum)
LOG_SUM_EXP = Gradient("g · e^(x − y)", logarithm_of_exponentials)
SUM_SQUARE = Gradient("2 · x · g", sum_of_squares)
SQUARE_OF_SUM = Gradient("2 · Σ x · g", square_of_sum)
PRODUCT = Gradient("g times the product of the others", product)
CUMSUM = Gradient("the running sum of g from the other end", running_sum)
MINMAX = Gradient("g / (max − min + epsilon), and what both extremes get", between_extremes)
SORT = Gradient("g at the places from which the elements came", sorted_elements)
TOPK = Gradient("g at the places from which the values came; nothing for places", chosen_elements, several=True)
KEPT_BOXES = Gradient("g at the boxes and scores that are kept", kept_boxes, several=True)
FARTHEST = Gradient("g at the points that are chosen", farthest_points)

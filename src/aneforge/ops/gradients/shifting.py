"""What rules have in common: sums back to a shape, spreading, elements put back to their places.

No step has more than four axes where the operation has not: axes are merged into the second one, which may be longest.
Nothing here multiplies by zero or by one: products of small numbers vanish on the engine, and gradients are small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

__all__ = [
    "LONGEST_AXIS",
    "axes_of",
    "contract",
    "cut",
    "keep_where",
    "level",
    "place",
    "repeat",
    "reshape_to",
    "split_axis",
    "spread",
    "sum_blocks",
    "together",
    "unspread",
    "with_axes",
    "zeros",
]


LONGEST_AXIS = 16384
"""The longest axis of a tensor that every family takes (`max_tensor_dim`); what is joined for a product stays below."""


def together(count: int, length: int) -> int:
    """Return how many of `count` parts are joined to one axis that is not too long; it divides the count.

    >>> together(100, 676), together(7, 20000)
    (20, 1)
    """
    return max(one for one in range(1, count + 1) if count % one == 0 and (one == 1 or one * length <= LONGEST_AXIS))


def level(to: Site, number: float, like: Term) -> Term:
    """Return a number as a constant of a tensor's element type."""
    return to.constant(np.array(number), like.dtype)


def zeros(to: Site, shape: Sequence[int], dtype: str) -> Term:
    """Return zeros of a shape."""
    return to.constant(np.zeros(tuple(shape)), dtype)


def keep_where(to: Site, condition: Term, g: Term) -> Term:
    """Return g where a condition holds, and 0 elsewhere."""
    return condition.select(g, level(to, 0.0, g))


def reshape_to(x: Term, shape: Sequence[int]) -> Term:
    """Return a tensor in another shape, or itself if it has that."""
    return x if x.shape == tuple(shape) else x.reshape(shape=tuple(shape))


def unspread(g: Term, shape: Sequence[int]) -> Term:
    """Return g summed over the axes along which an operand of the shape was repeated."""
    missing = len(g.shape) - len(shape)
    own = (*(1,) * missing, *shape)
    axes = tuple(axis for axis, (extent, one) in enumerate(zip(g.shape, own, strict=True)) if one == 1 and extent != 1)
    summed = g.reduce_sum(axes=axes, keep_dims=True) if axes else g
    return reshape_to(summed, shape)


def spread(g: Term, shape: Sequence[int]) -> Term:
    """Return g repeated along the axes in which it has one element, to a shape of the same rank."""
    reps = tuple(extent // one for extent, one in zip(shape, g.shape, strict=True))
    return g if set(reps) <= {1} else g.tile(reps=reps)


def axes_of(rank: int, axes: Sequence[int] | None) -> tuple[int, ...]:
    """Return axes counted from the front, all of them where none is named."""
    return tuple(range(rank)) if axes is None else tuple(sorted(axis % rank for axis in axes))


def with_axes(g: Term, x: Term, axes: Sequence[int]) -> Term:
    """Return a reduced tensor with the axes of x, those that were reduced of length 1."""
    return reshape_to(g, [1 if axis in axes else extent for axis, extent in enumerate(x.shape)])


def split_axis(shape: Sequence[int], axis: int, inner: int) -> tuple[tuple[int, ...], int]:
    """Return a shape of four axes that parts an axis into rows of `inner` elements, and which axis those are."""
    first = shape[0] if axis else 1
    rows, after = shape[axis] // inner, math.prod(shape[axis + 1 :])
    before = math.prod(shape[:axis]) // first
    return ((first, before, rows, inner), 3) if after == 1 else ((first, before * rows, inner, after), 2)


def cut(x: Term, axis: int, part: range) -> Term:
    """Return the elements of a rising range along an axis.

    One that begins inside of the last axis is cut between transposes: older families multiply such a slice by 16 on its
    way (`width_slice_crop_x16`), and a gradient times its loss scale overflows there.
    """
    if part == range(x.shape[axis]):
        return x
    rank = len(x.shape)
    if part.start and axis == rank - 1 and rank > 1:
        order = (*range(rank - 2), rank - 1, rank - 2)
        return cut(x.transpose(perm=order), rank - 2, part).transpose(perm=order)
    begin, size = [0] * rank, list(x.shape)
    begin[axis], size[axis] = part.start, len(part)
    if part.step == 1 or len(part) == 1:
        return x.slice_by_size(begin=tuple(begin), size=tuple(size))
    end, stride = list(x.shape), [1] * rank
    end[axis], stride[axis] = part[-1] + 1, part.step
    return x.slice_by_index(begin=tuple(begin), end=tuple(end), stride=tuple(stride))


def place(g: Term, axis: int, extent: int, part: range) -> Term:
    """Return g with its elements at the places of a rising range of an axis that is `extent` long, zeros elsewhere."""
    if part == range(extent):
        return g
    result = spaced(g, axis, part.step) if g.shape[axis] > 1 and part.step > 1 else g
    sides = (part.start, extent - part.start - result.shape[axis])
    after = (0, 0) * (len(g.shape) - axis - 1)
    return result.pad(pad=(*sides, *after), mode="constant", constant_val=0.0) if any(sides) else result


def spaced(g: Term, axis: int, step: int) -> Term:
    """Return g with step − 1 zeros between its elements along an axis."""
    count = g.shape[axis]
    shape, inner = split_axis(g.shape, axis, 1)
    sides = (0, step - 1) if inner == 3 else (0, step - 1, 0, 0)
    apart = g.reshape(shape=shape).pad(pad=sides, mode="constant", constant_val=0.0)
    longer = apart.reshape(shape=(*g.shape[:axis], count * step, *g.shape[axis + 1 :]))
    return cut(longer, axis, range((count - 1) * step + 1))


def repeat(x: Term, axis: int, count: int) -> Term:
    """Return every element of an axis so many times, one after the other."""
    if count == 1:
        return x
    shape, inner = split_axis(x.shape, axis, 1)
    several = x.reshape(shape=shape).tile(reps=tuple(count if place == inner else 1 for place in range(4)))
    return several.reshape(shape=(*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


def sum_blocks(g: Term, axis: int, count: int) -> Term:
    """Return the sums of so many elements in a row along an axis."""
    if count == 1:
        return g
    shape, inner = split_axis(g.shape, axis, count)
    blocks = g.reshape(shape=shape).reduce_sum(axes=(inner,), keep_dims=True)
    return blocks.reshape(shape=(*g.shape[:axis], g.shape[axis] // count, *g.shape[axis + 1 :]))


def contract(to: Site, g: Term, axis: int, matrix: Array) -> Term:
    """Return g with an axis of `matrix.shape[0]` elements taken to one of `matrix.shape[1]`, by a product."""
    if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
        return g
    rank = len(g.shape)
    if rank > 1 and axis == rank - 2:
        return to.op("matmul", to.constant(matrix.T, g.dtype, "weights of places"), g)
    weights = to.constant(matrix, g.dtype, "weights of places")
    if axis == rank - 1:
        shape = g.shape if rank > 1 else (1, *g.shape)
        product = reshape_to(g, shape).matmul(weights)
        return reshape_to(product, (*g.shape[:-1], matrix.shape[1]))
    order = (*(place for place in range(rank) if place != axis), axis)
    product = g.transpose(perm=order).matmul(weights)
    return product.transpose(perm=tuple(order.index(place) for place in range(rank)))

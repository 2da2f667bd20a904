"""Gradients of gathering, scattering and lists: products with rows that hold a 1 at the place of an index.

Indices that are known make such rows beforehand; others make them at run time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import reshape_to, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.gradient import GradientSite, Passed, PassedOn


EXACT_HALVES = 2048
"""Integers up to this are exact in fp16, which engines compare; wider ones few do."""


def rows_of(to: Site, indices: Term, extent: int, dtype: str, *, from_end: bool = True) -> Term:
    """Return a row for every index, in a further axis, with a 1 at its place; a negative index counts from the end."""
    places = np.arange(extent)
    if indices.known is not None:
        column = indices.known.astype(np.int64)[..., None]
        here = (column == places) | (from_end & (column == places - extent))
        return to.constant(here.astype(np.float64), dtype)
    kind = "fp16" if extent <= EXACT_HALVES else "int32"
    compared = indices if indices.dtype == kind else indices.cast(dtype=kind)
    column = compared.reshape(shape=(*indices.shape, 1))
    rows = column.equal(to.constant(places, kind)).cast(dtype=dtype)
    if not from_end or indices.dtype.startswith("u"):
        return rows
    return rows + column.equal(to.constant(places - extent, kind)).cast(dtype=dtype)


def gathered(
    to: GradientSite, g: Term, x: Term, indices: Term, *, axis: int, batch_dims: int, **_: object
) -> Sequence[Passed]:
    """Return g, summed where an index names one slice several times."""
    along = axis % len(x.shape)
    extent = x.shape[along]
    batch, before = math.prod(x.shape[:batch_dims]), math.prod(x.shape[batch_dims:along])
    after, count = math.prod(x.shape[along + 1 :]), math.prod(indices.shape[batch_dims:])
    rows = rows_of(to, indices, extent, g.dtype).reshape(shape=(batch, 1, count, extent))
    back = g.reshape(shape=(batch, before, count, after))
    return to.op("matmul", rows, back, transpose_x=True).reshape(shape=x.shape), None


def gathered_along(to: GradientSite, g: Term, x: Term, indices: Term, *, axis: int, **_: object) -> Sequence[Passed]:
    """Return g, summed where indices of a row name one element several times."""
    along = axis % len(x.shape)
    extent, count = x.shape[along], indices.shape[along]
    order = (*(place for place in range(len(x.shape)) if place != along), along)
    lead = tuple(x.shape[place] for place in order[:-1])
    lines = math.prod(lead)
    rows = rows_of(to, indices.transpose(perm=order), extent, g.dtype).reshape(shape=(lines, count, extent))
    back = g.transpose(perm=order).reshape(shape=(lines, 1, count))
    product = back.matmul(rows).reshape(shape=(*lead, extent))
    return product.transpose(perm=tuple(order.index(place) for place in range(len(order)))), None


def flat_indices(to: Site, indices: Term, extents: Sequence[int]) -> Term:
    """Return coordinates of the last axis as one index in row-major order; negative ones count from the end."""
    if indices.known is not None:
        places = indices.known.astype(np.int64) % np.array(extents)
        flat = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), tuple(extents))
        return to.constant(np.asarray(flat, np.int32), "int32")
    lead = indices.shape[:-1]
    total: Term | None = None
    for number, extent in enumerate(extents):
        one = indices.slice_by_size(begin=(*(0,) * len(lead), number), size=(*lead, 1)).reshape(shape=lead)
        shifted = one + to.constant(np.array(extent), one.dtype)
        inside = one.less(to.constant(np.array(0), one.dtype)).select(shifted, one)
        step = math.prod(extents[number + 1 :])
        part = inside if step == 1 else inside * to.constant(np.array(step), one.dtype)
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - coordinates name an axis or more
    return total


def gathered_by_coordinates(
    to: GradientSite, g: Term, x: Term, indices: Term, *, batch_dims: int, **_: object
) -> Sequence[Passed]:
    """Return g, summed where coordinates name one part several times."""
    number = indices.shape[-1]
    named = x.shape[batch_dims : batch_dims + number]
    batch, extent = math.prod(x.shape[:batch_dims]), math.prod(named)
    count, after = math.prod(indices.shape[batch_dims:-1]), math.prod(x.shape[batch_dims + number :])
    rows = rows_of(to, flat_indices(to, indices, named), extent, g.dtype).reshape(shape=(batch, count, extent))
    back = g.reshape(shape=(batch, count, after))
    return to.op("matmul", rows, back, transpose_x=True).reshape(shape=x.shape), None


def gathered_pixels(to: GradientSite, g: Term, x: Term, indices: Term) -> Sequence[Passed]:
    """Return g, summed where pairs name one element several times."""
    lines, extent = math.prod(x.shape[:-2]), math.prod(x.shape[-2:])
    rows = rows_of(to, flat_indices(to, indices, x.shape[-2:]), extent, g.dtype)
    return g.reshape(shape=(lines, indices.shape[0])).matmul(rows).reshape(shape=x.shape), None


def scattered(
    to: GradientSite, g: Term, _: Term, indices: Term, updates: Term, *, axis: int, mode: str, **__: object
) -> PassedOn:
    """Return g for data and its slices for updates, where they are added; else through what scattering is made of."""
    if mode not in SIGNS:
        return to.through("gather")
    taken = g.gather(indices, axis=axis) if to.wants("updates") else None
    return g, None, signed(taken, mode, updates)


def scattered_along(
    to: GradientSite, g: Term, _: Term, indices: Term, updates: Term, *, axis: int, mode: str, **__: object
) -> PassedOn:
    """Return g for data and its elements for updates, where they are added; else as above."""
    if mode not in SIGNS:
        return to.through("gather")
    taken = g.gather_along_axis(indices, axis=axis) if to.wants("updates") else None
    return g, None, signed(taken, mode, updates)


def scattered_by_coordinates(
    to: GradientSite, g: Term, _: Term, indices: Term, updates: Term, *, mode: str, **__: object
) -> PassedOn:
    """Return g for data and its parts for updates, where they are added; else as above."""
    if mode not in SIGNS:
        return to.through("gather")
    taken = g.gather_nd(indices) if to.wants("updates") else None
    return g, None, signed(taken, mode, updates)


SIGNS = {"add": 1, "sub": -1}


def signed(taken: Term | None, mode: str, like: Term) -> Passed:
    """Return what updates get, with the sign that they were added with."""
    if taken is None:
        return None
    shaped = reshape_to(taken, like.shape)
    return shaped if SIGNS[mode] > 0 else -shaped


def sliced_from(to: GradientSite, g: Term, x: Term, begin: Term, *, size: int, **_: object) -> Sequence[Passed]:
    """Return g at the elements of the slice; what was outside of x has none."""
    extent, lines = x.shape[-1], math.prod(x.shape[:-1])
    first = begin.reshape(shape=(1,))
    if first.known is None and extent + size <= EXACT_HALVES:
        first = first.cast(dtype="fp16")
    rows = rows_of(to, first + to.constant(np.arange(size), first.dtype), extent, g.dtype, from_end=False)
    return g.reshape(shape=(lines, size)).matmul(rows).reshape(shape=x.shape), None


# Lists


def read_element(to: GradientSite, g: Term, ls: Term, index: Term) -> Sequence[Passed]:
    """Return g at the element that was read."""
    row = rows_of(to, index, ls.shape[0], g.dtype).reshape(shape=(ls.shape[0], 1))
    return (row * g.reshape(shape=(1, math.prod(ls.shape[1:])))).reshape(shape=ls.shape), None


def gathered_elements(to: GradientSite, g: Term, ls: Term, indices: Term) -> Sequence[Passed]:
    """Return g at the elements that were read."""
    count, size = indices.shape[0], math.prod(ls.shape[1:])
    if not count:
        return None, None
    rows = rows_of(to, indices, ls.shape[0], g.dtype)
    return rows.matmul(g.reshape(shape=(count, size)), transpose_x=True).reshape(shape=ls.shape), None


def written_element(to: GradientSite, g: Term, _: Term, index: Term, value: Term) -> Sequence[Passed]:
    """Return g without the element that was written, and that element."""
    rest = g.list_write(index, zeros(to, value.shape, value.dtype)) if to.wants("ls") else None
    return rest, None, g.list_read(index) if to.wants("value") else None


def scattered_elements(to: GradientSite, g: Term, _: Term, indices: Term, value: Term) -> Sequence[Passed]:
    """Return g without the elements that were written, and those; of one written twice, the last."""
    rest = g.list_scatter(indices, zeros(to, value.shape, value.dtype)) if to.wants("ls") else None
    count = indices.shape[0]
    if not to.wants("value") or not count:
        return rest, None, None
    later = np.triu(np.ones((count, count)), 1)
    column, row = indices.reshape(shape=(count, 1)), indices.reshape(shape=(1, count))
    same = column.equal(row).cast(dtype=value.dtype)
    overwritten = (same * to.constant(later, value.dtype)).reduce_sum(axes=(1,), keep_dims=False)
    last = overwritten.less(to.constant(np.array(0.5), value.dtype)).reshape(
        shape=(count, *(1,) * (len(value.shape) - 1))
    )
    return rest, None, last.select(g.list_gather(indices), to.constant(np.zeros(()), value.dtype))


GATHERED = Gradient("g added at the slices that indices name", gathered)
GATHERED_ALONG = Gradient("g added at the elements that indices name", gathered_along)
GATHERED_BY_COORDINATES = Gradient("g added at the parts that coordinates name", gathered_by_coordinates)
GATHERED_PIXELS = Gradient("g added at the elements that pairs name", gathered_pixels)
SCATTERED = Gradient("g; its slices at indices. Modes other than add and sub need known indices", scattered)
SCATTERED_ALONG = Gradient(
    "g; its elements at indices. Modes other than add and sub need known indices", scattered_along
)
SCATTERED_BY_COORDINATES = Gradient(
    "g; its parts at indices. Modes other than add and sub need known indices", scattered_by_coordinates
)
SLICED_FROM = Gradient("g at the slice, zeros elsewhere", sliced_from)
READ_ELEMENT = Gradient("g at the element that was read", read_element)
GATHERED_ELEMENTS = Gradient("g at the elements that were read", gathered_elements)
WRITTEN_ELEMENT = Gradient("g without the element; that element of g", written_element)
SCATTERED_ELEMENTS = Gradient(
    "g without the elements; those elements of g, of one written twice the last", scattered_elements
)

"""Reductions along axes, places of extremes, and what is summed up on the way along an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = [
    "extreme_place",
    "fill_reduction",
    "norm",
    "reduce",
    "seen_so_far",
    "softmax",
    "sort_extremes",
    "triangle",
]

REAL = {"reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp", "reduce_mean"}
"""Reductions that the op table has only of real numbers."""
KEEPING = {"reduce_log_sum_exp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"}
"""Reductions that leave a single element as it is."""
OF_NOTHING = {
    "reduce_l1_norm": 0.0,
    "reduce_l2_norm": 0.0,
    "reduce_log_sum": -math.inf,
    "reduce_log_sum_exp": -math.inf,
    "reduce_max": -math.inf,
    "reduce_mean": math.nan,
    "reduce_min": math.inf,
    "reduce_prod": 1.0,
    "reduce_sum": 0.0,
    "reduce_sum_square": 0.0,
}
"""What a reduction over no elements gives."""


def reduce(emit: Emitter, op: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Return a reduction along axes in the element type of x.

    Booleans go through numbers, and integers through real ones where the op table asks for these. Over no axis
    nothing is added up, but squares and logarithms are taken nevertheless.
    """
    dtype = x.type.dtype
    if any(x.type.shape[axis] == 0 for axis in axes):
        return fill_reduction(emit, x, axes, nothing(op, dtype), keep=keep)
    if dtype == "bool":
        return emit.cast(reduce(emit, op, emit.cast(x, "uint8"), axes, keep=keep), "bool")
    if op in REAL and not is_float(dtype):
        return emit.cast(reduce(emit, op, emit.cast(x, "fp64"), axes, keep=keep), dtype)
    if axes or op in KEEPING:
        return emit.reduce(op, x, axes, keep=keep)
    return emit.reduce(op, emit.expand(x, -1), (-1,), keep=False)


def nothing(op: str, dtype: str) -> float:
    """Return what a reduction over no elements gives, within the range of an element type."""
    value = OF_NOTHING[op]
    if is_float(dtype) or math.isfinite(value):
        return value
    low, high = value_range(dtype)
    return high if value > 0 else low


def fill_reduction(emit: Emitter, x: Value, axes: Sequence[int], value: float, *, keep: bool) -> Value:
    """Return one value in the shape of a reduction."""
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.type.shape) if keep or axis not in axes]
    return emit.filled(shape, value, x.type.dtype)


def norm(emit: Emitter, x: Value, order: float, axes: Sequence[int], *, keep: bool) -> Value:
    """Return the norm of an order along axes; that of no elements is 0."""
    if any(x.type.shape[axis] == 0 for axis in axes):
        return fill_reduction(emit, x, axes, 0, keep=keep)
    if order == 0:
        counts = emit.cast(emit.binary("not_equal", x, 0.0), x.type.dtype)
        return emit.reduce("reduce_sum", counts, axes, keep=keep)
    if not axes:
        return emit.unary("abs", x)
    if math.isinf(order):
        return emit.reduce("reduce_max" if order > 0 else "reduce_min", emit.unary("abs", x), axes, keep=keep)
    if order in (1, 2):
        return emit.reduce("reduce_l1_norm" if order == 1 else "reduce_l2_norm", x, axes, keep=keep)
    powers = emit.binary("pow", emit.unary("abs", x), float(order))
    return emit.binary("pow", emit.reduce("reduce_sum", powers, axes, keep=keep), 1 / order)


def softmax(emit: Emitter, x: Value, axis: int, *, logarithm: bool) -> Value:
    """Return softmax or its logarithm along an axis."""
    if not logarithm or not x.type.size:
        return emit.unary("softmax", x, axis=axis)
    return emit.sub(x, emit.reduce("reduce_log_sum_exp", x, (axis,)))


def extreme_place(emit: Emitter, x: Value, axis: int, *, largest: bool, keep: bool, last: bool = False) -> Value:
    """Return the place of the largest or smallest along an axis: the first, or the last, of equal ones."""
    numbers = emit.cast(x, "uint8") if x.type.dtype == "bool" else x
    searched = emit.unary("reverse", numbers, axes=(axis,)) if last else numbers
    op = "reduce_argmax" if largest else "reduce_argmin"
    place = emit.apply(op, {"x": searched}, axis=axis, keep_dims=keep, output_dtype="int32")
    if last:
        place = emit.binary("sub", emit.constant(x.type.shape[axis] - 1, "int32"), place)
    return emit.cast(place, "int64")


def sort_extremes(emit: Emitter, x: Value, count: int, axis: int, *, largest: bool) -> tuple[Value, Value]:
    """Return the so many largest or smallest along an axis, in order, and their places."""
    shape = [count if one == axis else extent for one, extent in enumerate(x.type.shape)]
    if 0 in shape:
        return emit.empty(shape, x.type.dtype), emit.empty(shape, "int64")
    attributes = {"k": count, "axis": axis, "ascending": not largest, "output_indices_dtype": "int32"}
    values, places = emit.apply_all("topk", {"x": x}, **attributes)
    return values, emit.cast(places, "int64")


def triangle(
    emit: Emitter, rows: int, columns: int, diagonal: int, *, upper: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which elements of a matrix are on a diagonal, or above or below it."""
    emit.room(rows, columns)
    right = np.arange(columns) - np.arange(rows)[:, None]
    return right >= diagonal if upper else right <= diagonal


def seen_so_far(
    emit: Emitter, x: Value, axis: int, otherwise: float, *, reverse: bool = False, exclusive: bool = False
) -> Value:
    """Return all elements along an axis once for each of its places, those that do not count there replaced.

    The result is […, places, elements]; at a place count the elements up to it, or from it on.
    """
    extent = x.type.shape[axis]
    diagonal = int(exclusive) if reverse else -int(exclusive)
    counts = triangle(emit, extent, extent, diagonal, upper=reverse)
    return emit.select(emit.constant(counts, "bool"), emit.expand(emit.moved(x, axis, -1), -2), otherwise)

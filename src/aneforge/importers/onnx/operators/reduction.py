"""Reductions along axes, places of extremes, sums and products on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.importers.onnx.registry import operator
from aneforge.ops.shapes import normalised_axes, normalised_axis
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value

REDUCTIONS = {
    "ReduceL1": "reduce_l1_norm",
    "ReduceL2": "reduce_l2_norm",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}
REAL = {"reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp", "reduce_mean"}
"""Reductions that the op table has of real numbers alone."""
KEEPING = {"reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"}
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


@operator(*REDUCTIONS)
def reduction(call: Call) -> Value:
    """Convert a reduction along axes, all of them by default."""
    x, emit = call.value(0), call.emit
    op, dtype = REDUCTIONS[call.operator], x.type.dtype
    axes = reduced_axes(call, x)
    keep = call.flag("keepdims")
    if any(x.type.shape[axis] == 0 for axis in axes):
        return of_nothing(call, op, x, axes, keep=keep)
    if dtype == "bool":
        return emit.cast(reduced(call, op, emit.cast(x, "uint8"), axes, keep=keep), "bool")
    if op in REAL and not is_float(dtype):
        return emit.cast(reduced(call, op, emit.cast(x, "fp64"), axes, keep=keep), dtype)
    return reduced(call, op, x, axes, keep=keep)


def reduced_axes(call: Call, x: Value) -> tuple[int, ...]:
    """Return the axes to reduce; none where every element is to be reduced by itself."""
    by_attribute = "axes" in call.rules.attributes
    axes = call.integers("axes") if by_attribute else call.known_integers(1, "the list of axes")
    if axes:
        return normalised_axes(axes, x.type.rank)
    if not by_attribute and call.flag("noop_with_empty_axes"):
        return ()
    return tuple(range(x.type.rank))


def reduced(call: Call, op: str, x: Value, axes: tuple[int, ...], *, keep: bool) -> Value:
    """Return a reduction; over no axis nothing is added up, but squares and logarithms are taken nevertheless."""
    if axes or op in KEEPING:
        return call.emit.reduce(op, x, axes, keep=keep)
    return call.emit.reduce(op, call.emit.expand(x, -1), (-1,), keep=False)


def of_nothing(call: Call, op: str, x: Value, axes: tuple[int, ...], *, keep: bool) -> Value:
    """Return a reduction over an axis without elements."""
    dtype, value = x.type.dtype, OF_NOTHING[op]
    if not is_float(dtype) and not math.isfinite(value):
        low, high = value_range(dtype)
        value = high if value > 0 else low
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.type.shape) if keep or axis not in axes]
    return call.emit.filled(shape, value, dtype)


@operator("ArgMax", "ArgMin")
def extreme(call: Call) -> Value:
    """Convert the place of the largest or smallest, the first or the last of equal ones."""
    x, emit = call.value(0), call.emit
    axis, keep = call.axis(x.type.rank), call.flag("keepdims")
    op = "reduce_argmax" if call.operator == "ArgMax" else "reduce_argmin"
    last = "select_last_index" in call.rules.attributes and call.flag("select_last_index")
    searched = emit.unary("reverse", x, axes=(axis,)) if last else x
    place = emit.apply(op, {"x": searched}, axis=axis, keep_dims=keep, output_dtype="int32")
    if last:
        place = emit.binary("sub", emit.constant(x.type.shape[axis] - 1, "int32"), place)
    return emit.cast(place, "int64")


@operator("CumSum")
def cumulative_sum(call: Call) -> Value:
    """Convert sums up to every place."""
    x = call.value(0)
    axis = normalised_axis(call.known_integer(1, "the axis"), x.type.rank)
    return call.emit.unary("cumsum", x, axis=axis, exclusive=call.flag("exclusive"), reverse=call.flag("reverse"))


@operator("CumProd")
def cumulative_product(call: Call) -> Value:
    """Convert products up to every place: at each, the elements that do not count are replaced by 1."""
    x, emit = call.value(0), call.emit
    axis = normalised_axis(call.known_integer(1, "the axis"), x.type.rank)
    extent = x.type.shape[axis]
    emit.room(extent, extent)
    place, element = np.arange(extent)[:, None], np.arange(extent)[None, :]
    counts = element >= place if call.flag("reverse") else element <= place
    if call.flag("exclusive"):
        counts &= element != place
    rows = emit.expand(emit.moved(x, axis, -1), -2)
    factors = emit.select(emit.constant(counts, "bool"), rows, 1)
    return emit.moved(emit.reduce("reduce_prod", factors, (-1,), keep=False), -1, axis)


@operator("Hardmax", until=12)
def hardmax_flattened(call: Call) -> Value:
    """Convert 1 at the first largest element and 0 elsewhere, over all axes from one on."""
    x, emit = call.value(0), call.emit
    axis = call.axis(x.type.rank)
    rows = math.prod(x.type.shape[:axis])
    flat = emit.reshape(x, (rows, math.prod(x.type.shape[axis:])))
    return emit.reshape(first_largest(call, flat, 1), x.type.shape)


@operator("Hardmax", since=13)
def hardmax(call: Call) -> Value:
    """Convert 1 at the first largest element along an axis and 0 elsewhere."""
    x = call.value(0)
    return first_largest(call, x, call.axis(x.type.rank))


def first_largest(call: Call, x: Value, axis: int) -> Value:
    """Return 1 at the first largest element along an axis and 0 elsewhere."""
    emit = call.emit
    place = emit.apply("reduce_argmax", {"x": x}, axis=axis, keep_dims=True)
    extent = x.type.shape[axis]
    emit.room(extent)
    counted = np.arange(extent).reshape([extent if one == axis else 1 for one in range(x.type.rank)])
    return emit.cast(emit.binary("equal", place, emit.constant(counted, "int32")), x.type.dtype)


@operator("Softmax", "LogSoftmax", until=12)
def softmax_flattened(call: Call) -> Value:
    """Convert softmax over all axes from one on, as it was before version 13."""
    x, emit = call.value(0), call.emit
    axis = call.axis(x.type.rank)
    flat = emit.reshape(x, (math.prod(x.type.shape[:axis]), math.prod(x.type.shape[axis:])))
    return emit.reshape(softmax_along(call, flat, 1), x.type.shape)


@operator("Softmax", "LogSoftmax", since=13)
def softmax(call: Call) -> Value:
    """Convert softmax along one axis."""
    x = call.value(0)
    return softmax_along(call, x, call.axis(x.type.rank))


def softmax_along(call: Call, x: Value, axis: int) -> Value:
    """Return softmax or its logarithm along an axis."""
    emit = call.emit
    if call.operator == "Softmax" or not x.type.size:
        return emit.unary("softmax", x, axis=axis)
    return emit.sub(x, emit.reduce("reduce_log_sum_exp", x, (axis,)))

"""Reductions along axes, places of extremes, sums and products on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared import reducing
from aneforge.ops.shapes import normalise_axes, normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value

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


@operator(*REDUCTIONS)
def reduction(call: Call) -> Value:
    """Convert a reduction along axes, all of them by default."""
    x = call.value(0)
    return reducing.reduce(call.emit, REDUCTIONS[call.operator], x, reduced_axes(call, x), keep=call.flag("keepdims"))


def reduced_axes(call: Call, x: Value) -> tuple[int, ...]:
    """Return the axes to reduce; none where every element is to be reduced by itself."""
    by_attribute = "axes" in call.rules.attributes
    axes = call.integers("axes") if by_attribute else call.known_integers(1, "the list of axes")
    if axes:
        return normalise_axes(axes, x.type.rank)
    if not by_attribute and call.flag("noop_with_empty_axes"):
        return ()
    return tuple(range(x.type.rank))


@operator("ArgMax", "ArgMin")
def extreme(call: Call) -> Value:
    """Convert the place of the largest or smallest, the first or the last of equal ones."""
    x = call.value(0)
    last = "select_last_index" in call.rules.attributes and call.flag("select_last_index")
    largest, keep = call.operator == "ArgMax", call.flag("keepdims")
    return reducing.extreme_place(call.emit, x, call.axis(x.type.rank), largest=largest, keep=keep, last=last)


@operator("CumSum")
def cumulative_sum(call: Call) -> Value:
    """Convert sums up to every place."""
    x = call.value(0)
    axis = normalise_axis(call.known_integer(1, "the axis"), x.type.rank)
    return call.emit.unary("cumsum", x, axis=axis, exclusive=call.flag("exclusive"), reverse=call.flag("reverse"))


@operator("CumProd")
def cumulative_product(call: Call) -> Value:
    """Convert products up to every place: at each, the elements that do not count are replaced by 1."""
    x, emit = call.value(0), call.emit
    axis = normalise_axis(call.known_integer(1, "the axis"), x.type.rank)
    factors = reducing.seen_so_far(emit, x, axis, 1, reverse=call.flag("reverse"), exclusive=call.flag("exclusive"))
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
    return emit.reshape(reducing.softmax(emit, flat, 1, logarithm=call.operator == "LogSoftmax"), x.type.shape)


@operator("Softmax", "LogSoftmax", since=13)
def softmax(call: Call) -> Value:
    """Convert softmax along one axis."""
    x = call.value(0)
    return reducing.softmax(call.emit, x, call.axis(x.type.rank), logarithm=call.operator == "LogSoftmax")

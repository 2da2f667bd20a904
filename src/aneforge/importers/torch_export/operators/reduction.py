"""Reductions along axes, places of extremes, sums and products on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.importers.torch_export.registry import operator
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.torch_export.call import Call

OF_NOTHING = {"reduce_sum": 0.0, "reduce_prod": 1.0, "reduce_mean": math.nan}
"""What a reduction over no elements gives; PyTorch refuses the others."""


def kept_shape(x: Value, axes: Sequence[int], *, keep: bool) -> tuple[int, ...]:
    """Return the shape of a reduction."""
    shape = x.type.shape
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes)


def reduced(emit: Emitter, op: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Return a reduction along axes; one over no elements is what PyTorch says it is."""
    if any(x.type.shape[axis] == 0 for axis in axes):
        return emit.filled(kept_shape(x, axes, keep=keep), OF_NOTHING[op], x.type.dtype)
    return emit.reduce(op, x, axes, keep=keep)


def keeps(call: Call) -> bool:
    """Tell whether the reduced axes stay, with a length of 1."""
    return call.has("keepdim") and call.flag("keepdim")


def axes_of(call: Call, x: Value, name: str = "dim") -> tuple[int, ...]:
    """Return the axes that are reduced, all by default."""
    return call.axes(name, x.type.rank)


@operator("sum", "mean", "prod")
def arithmetic(call: Call) -> Value:
    """Convert a sum, a mean or a product."""
    dtype = call.dtype()
    x = call.operand("self", "uint8" if dtype == "bool" else dtype)
    result = reduced(call.emit, f"reduce_{call.operator}", x, axes_of(call, x), keep=keeps(call))
    return call.emit.cast(result, dtype)


@operator("amax", "amin")
def extreme(call: Call) -> Value:
    """Convert the largest or smallest along axes."""
    x = call.value("self")
    return extreme_of(call.emit, call.operator == "amax", x, axes_of(call, x), keep=keeps(call))


def extreme_of(emit: Emitter, largest: bool, x: Value, axes: Sequence[int], *, keep: bool) -> Value:  # noqa: FBT001 - which of two
    """Return the largest or smallest along axes; of truth values through numbers."""
    op = "reduce_max" if largest else "reduce_min"
    if x.type.dtype == "bool":
        return emit.cast(emit.reduce(op, emit.cast(x, "uint8"), axes, keep=keep), "bool")
    return emit.reduce(op, x, axes, keep=keep)


@operator("max", "min")
def extreme_of_all(call: Call) -> Value:
    """Convert the largest or smallest element."""
    x = call.value("self")
    return extreme_of(call.emit, call.operator == "max", x, range(x.type.rank), keep=False)


@operator("max.dim", "min.dim")
def extreme_with_place(call: Call) -> tuple[Value, Value]:
    """Convert the largest or smallest along an axis, and its place."""
    x, emit, largest = call.value("self"), call.emit, call.operator == "max"
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis = call.axis("dim", x.type.rank)
    values = extreme_of(emit, largest, x, (axis,), keep=keeps(call))
    return values, place_of(emit, x, axis, largest=largest, keep=keeps(call))


def place_of(emit: Emitter, x: Value, axis: int, *, largest: bool, keep: bool) -> Value:
    """Return the first place of the largest or smallest along an axis."""
    op = "reduce_argmax" if largest else "reduce_argmin"
    numbers = emit.cast(x, "uint8") if x.type.dtype == "bool" else x
    return emit.cast(emit.apply(op, {"x": numbers}, axis=axis, keep_dims=keep, output_dtype="int32"), "int64")


@operator("argmax", "argmin")
def place(call: Call) -> Value:
    """Convert the first place of the largest or smallest, along an axis or of all elements in a row."""
    x, emit = call.value("self"), call.emit
    largest = call.operator == "argmax"
    if not x.type.rank:
        return emit.constant(0, "int64")
    if call.has("dim"):
        return place_of(emit, x, call.axis("dim", x.type.rank), largest=largest, keep=keeps(call))
    flat = place_of(emit, emit.reshape(x, (x.type.size,)), 0, largest=largest, keep=False)
    return emit.reshape(flat, (1,) * x.type.rank) if keeps(call) else flat


@operator("any", "all")
def logic(call: Call) -> Value:
    """Convert whether some, or all, elements are not 0."""
    x, emit = call.operand("self", "bool"), call.emit
    axes = axes_of(call, x)
    empty = any(x.type.shape[axis] == 0 for axis in axes)
    if empty:
        value = emit.filled(kept_shape(x, axes, keep=keeps(call)), float(call.operator == "all"), "bool")
    else:
        value = extreme_of(emit, call.operator == "any", x, axes, keep=keeps(call))
    return emit.cast(value, call.dtype())


@operator("var", "std")
def spread(call: Call) -> Value:
    """Convert the variance or its root; the sum of squares is divided by the number of elements less a correction."""
    variance = variance_of(call)
    return call.emit.unary("sqrt", variance) if call.operator == "std" else variance


def variance_of(call: Call) -> Value:
    """Return the variance along axes."""
    x, emit = call.value("self"), call.emit
    axes = axes_of(call, x)
    count = math.prod(x.type.shape[axis] for axis in axes)
    correction = 1.0
    if call.has("correction"):
        correction = float(call.number("correction"))
    elif "unbiased" in call.arguments:
        correction = float(call.flag("unbiased"))
    freedom = max(count - correction, 0.0)
    if not count:
        return emit.filled(kept_shape(x, axes, keep=keeps(call)), math.nan, x.type.dtype)
    centred = emit.sub(x, reduced(emit, "reduce_mean", x, axes, keep=True))
    total = emit.reduce("reduce_sum", emit.unary("square", centred), axes, keep=keeps(call))
    return emit.div(total, freedom)


@operator("var_mean", "std_mean")
def spread_and_mean(call: Call) -> tuple[Value, Value]:
    """Convert the variance or its root, and the mean."""
    x, emit = call.value("self"), call.emit
    variance = variance_of(call)
    mean = reduced(emit, "reduce_mean", x, axes_of(call, x), keep=keeps(call))
    return (emit.unary("sqrt", variance) if call.operator == "std_mean" else variance), mean


@operator("logsumexp")
def log_sum_exp(call: Call) -> Value:
    """Convert log Σ eˣ along axes."""
    x, emit = call.operand("self", call.dtype()), call.emit
    axes = axes_of(call, x)
    if any(x.type.shape[axis] == 0 for axis in axes):
        return emit.filled(kept_shape(x, axes, keep=keeps(call)), -math.inf, x.type.dtype)
    if not axes:
        return x
    return emit.reduce("reduce_log_sum_exp", x, axes, keep=keeps(call))


@operator("linalg_vector_norm")
def vector_norm(call: Call) -> Value:
    """Convert the norm of all elements along axes, of any order."""
    x = call.operand("self", call.dtype())
    return norm(call.emit, x, float(call.number("ord")), axes_of(call, x), keep=keeps(call))


@operator("dist")
def distance(call: Call) -> Value:
    """Convert the norm of a difference, over all of its elements."""
    emit, dtype = call.emit, call.dtype()
    x = emit.sub(call.operand("self", dtype), call.operand("other", dtype))
    return norm(emit, x, float(call.number("p")), range(x.type.rank), keep=False)


def norm(emit: Emitter, x: Value, order: float, axes: Sequence[int], *, keep: bool) -> Value:
    """Return the norm of an order along axes; that of no elements is 0."""
    if any(x.type.shape[axis] == 0 for axis in axes):
        return emit.filled(kept_shape(x, axes, keep=keep), 0, x.type.dtype)
    if order == 0:
        counts = emit.cast(emit.binary("not_equal", x, 0.0), x.type.dtype)
        return emit.reduce("reduce_sum", counts, axes, keep=keep)
    size = emit.unary("abs", x)
    if not axes:
        return size
    if math.isinf(order):
        return emit.reduce("reduce_max" if order > 0 else "reduce_min", size, axes, keep=keep)
    if order in (1.0, 2.0):
        return emit.reduce("reduce_l1_norm" if order == 1 else "reduce_l2_norm", x, axes, keep=keep)
    powers = emit.reduce("reduce_sum", emit.binary("pow", size, order), axes, keep=keep)
    return emit.binary("pow", powers, 1 / order)


@operator("cumsum")
def cumulative_sum(call: Call) -> Value:
    """Convert sums up to every place."""
    x = call.operand("self", call.dtype())
    return x if not x.type.rank else call.emit.unary("cumsum", x, axis=call.axis("dim", x.type.rank))


@operator("cumprod")
def cumulative_product(call: Call) -> Value:
    """Convert products up to every place: at each, the elements behind it are replaced by 1."""
    x, emit = call.operand("self", call.dtype()), call.emit
    if not x.type.rank or not x.type.size:
        return x
    axis = call.axis("dim", x.type.rank)
    factors = emit.select(counted(emit, x.type.shape[axis]), windows(emit, x, axis), 1)
    return emit.moved(emit.reduce("reduce_prod", factors, (-1,), keep=False), -1, axis)


def counted(emit: Emitter, extent: int) -> Value:
    """Return which elements come at or before each place: [places, elements]."""
    emit.room(extent, extent)
    return emit.constant(np.tri(extent, dtype=np.bool_), "bool")


def windows(emit: Emitter, x: Value, axis: int) -> Value:
    """Return all elements along an axis once for each of its places: […, places, elements], to be masked."""
    rows = emit.expand(emit.moved(x, axis, -1), -2)
    extent = x.type.shape[axis]
    return emit.spread(rows, (*rows.type.shape[:-2], extent, extent))


@operator("cummax", "cummin")
def cumulative_extreme(call: Call) -> tuple[Value, Value]:
    """Convert the largest or smallest up to every place, and the last of the places where it is."""
    x, emit, largest = call.value("self"), call.emit, call.operator == "cummax"
    if not x.type.rank or not x.type.size:
        return x, emit.filled(x.type.shape, 0, "int64")
    axis = call.axis("dim", x.type.rank)
    numbers = emit.cast(x, "uint8") if x.type.dtype == "bool" else x
    worst = -math.inf if largest else math.inf
    if not is_float(numbers.type.dtype):
        worst = value_range(numbers.type.dtype)[0 if largest else 1]
    seen = emit.select(counted(emit, x.type.shape[axis]), windows(emit, numbers, axis), worst)
    values = emit.reduce("reduce_max" if largest else "reduce_min", seen, (-1,), keep=False)
    back = emit.unary("reverse", seen, axes=(-1,))
    first = place_of(emit, back, seen.type.rank - 1, largest=largest, keep=False)
    places = emit.binary("sub", emit.constant(x.type.shape[axis] - 1, "int64"), first)
    return emit.cast(emit.moved(values, -1, axis), x.type.dtype), emit.moved(places, -1, axis)


@operator("logcumsumexp")
def cumulative_log_sum(call: Call) -> Value:
    """Convert log Σ eˣ up to every place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank or not x.type.size:
        return x
    axis = call.axis("dim", x.type.rank)
    seen = emit.select(counted(emit, x.type.shape[axis]), windows(emit, x, axis), -math.inf)
    return emit.moved(emit.reduce("reduce_log_sum_exp", seen, (-1,), keep=False), -1, axis)


@operator("_softmax", "softmax", "_log_softmax", "log_softmax")
def softmax(call: Call) -> Value:
    """Convert softmax along an axis, or its logarithm."""
    x, emit = call.operand("self", call.dtype()), call.emit
    logarithm = "log" in call.operator
    if not x.type.rank or not x.type.size:
        return emit.sub(x, x) if logarithm else emit.filled(x.type.shape, 1, x.type.dtype)
    axis = call.axis("dim", x.type.rank)
    if not logarithm:
        return emit.unary("softmax", x, axis=axis)
    return emit.sub(x, emit.reduce("reduce_log_sum_exp", x, (axis,)))

"""Reductions along axes, places of extremes, sums and products on the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.shared import reducing
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


def keeps(call: Call) -> bool:
    """Return whether the reduced axes stay, with a length of 1."""
    return call.has("keepdim") and call.flag("keepdim")


def axes_of(call: Call, x: Value, name: str = "dim") -> tuple[int, ...]:
    """Return the axes that are reduced, all by default."""
    return call.axes(name, x.type.rank)


@operator("sum", "mean", "prod")
def arithmetic(call: Call) -> Value:
    """Convert a sum, a mean or a product."""
    dtype = call.dtype()
    x = call.operand("self", dtype)
    return reducing.reduce(call.emit, f"reduce_{call.operator}", x, axes_of(call, x), keep=keeps(call))


@operator("amax", "amin")
def extreme(call: Call) -> Value:
    """Convert the largest or smallest along axes."""
    x = call.value("self")
    return reducing.reduce(call.emit, extreme_op(call), x, axes_of(call, x), keep=keeps(call))


def extreme_op(call: Call) -> str:
    """Return the reduction of an operator whose name says which extreme it takes."""
    return "reduce_max" if "max" in call.operator else "reduce_min"


@operator("max", "min")
def extreme_of_all(call: Call) -> Value:
    """Convert the largest or smallest element."""
    x = call.value("self")
    return reducing.reduce(call.emit, extreme_op(call), x, range(x.type.rank), keep=False)


@operator("max.dim", "min.dim")
def extreme_with_place(call: Call) -> tuple[Value, Value]:
    """Convert the largest or smallest along an axis, and its place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis, keep = call.axis("dim", x.type.rank), keeps(call)
    values = reducing.reduce(emit, extreme_op(call), x, (axis,), keep=keep)
    return values, reducing.extreme_place(emit, x, axis, largest=call.operator == "max", keep=keep)


@operator("argmax", "argmin")
def place(call: Call) -> Value:
    """Convert the first place of the largest or smallest, along an axis or of all elements in a row."""
    x, emit = call.value("self"), call.emit
    largest = call.operator == "argmax"
    if not x.type.rank:
        return emit.constant(0, "int64")
    if call.has("dim"):
        return reducing.extreme_place(emit, x, call.axis("dim", x.type.rank), largest=largest, keep=keeps(call))
    flat = reducing.extreme_place(emit, emit.reshape(x, (x.type.size,)), 0, largest=largest, keep=False)
    return emit.reshape(flat, (1,) * x.type.rank) if keeps(call) else flat


@operator("any", "all")
def logic(call: Call) -> Value:
    """Convert whether some, or all, elements are not 0."""
    x, emit = call.operand("self", "bool"), call.emit
    op = "reduce_max" if call.operator == "any" else "reduce_min"
    return emit.cast(reducing.reduce(emit, op, x, axes_of(call, x), keep=keeps(call)), call.dtype())


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
        return reducing.fill_reduction(emit, x, axes, math.nan, keep=keeps(call))
    centred = emit.sub(x, reducing.reduce(emit, "reduce_mean", x, axes, keep=True))
    total = emit.reduce("reduce_sum", emit.unary("square", centred), axes, keep=keeps(call))
    return emit.div(total, freedom)


@operator("var_mean", "std_mean")
def spread_and_mean(call: Call) -> tuple[Value, Value]:
    """Convert the variance or its root, and the mean."""
    x, emit = call.value("self"), call.emit
    variance = variance_of(call)
    mean = reducing.reduce(emit, "reduce_mean", x, axes_of(call, x), keep=keeps(call))
    return (emit.unary("sqrt", variance) if call.operator == "std_mean" else variance), mean


@operator("logsumexp")
def log_sum_exp(call: Call) -> Value:
    """Convert log Σ eˣ along axes."""
    x = call.operand("self", call.dtype())
    return reducing.reduce(call.emit, "reduce_log_sum_exp", x, axes_of(call, x), keep=keeps(call))


@operator("linalg_vector_norm")
def vector_norm(call: Call) -> Value:
    """Convert the norm of all elements along axes, of any order."""
    x = call.operand("self", call.dtype())
    return reducing.norm(call.emit, x, float(call.number("ord")), axes_of(call, x), keep=keeps(call))


@operator("dist")
def distance(call: Call) -> Value:
    """Convert the norm of a difference, over all of its elements."""
    emit, dtype = call.emit, call.dtype()
    x = emit.sub(call.operand("self", dtype), call.operand("other", dtype))
    return reducing.norm(emit, x, float(call.number("p")), range(x.type.rank), keep=False)


@operator("cumsum")
def cumulative_sum(call: Call) -> Value:
    """Convert sums up to every place."""
    x = call.operand("self", call.dtype())
    return x if not x.type.rank else call.emit.unary("cumsum", x, axis=call.axis("dim", x.type.rank))


@operator("cumprod")
def cumulative_product(call: Call) -> Value:
    """Convert products up to every place: at each, the elements after it are replaced by 1."""
    x, emit = call.operand("self", call.dtype()), call.emit
    if not x.type.rank or not x.type.size:
        return x
    axis = call.axis("dim", x.type.rank)
    factors = reducing.seen_so_far(emit, x, axis, 1)
    return emit.moved(emit.reduce("reduce_prod", factors, (-1,), keep=False), -1, axis)


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
    seen = reducing.seen_so_far(emit, numbers, axis, worst)
    values = emit.reduce(extreme_op(call), seen, (-1,), keep=False)
    places = reducing.extreme_place(emit, seen, seen.type.rank - 1, largest=largest, keep=False, last=True)
    return emit.cast(emit.moved(values, -1, axis), x.type.dtype), emit.moved(places, -1, axis)


@operator("logcumsumexp")
def cumulative_log_sum(call: Call) -> Value:
    """Convert log Σ eˣ up to every place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank or not x.type.size:
        return x
    axis = call.axis("dim", x.type.rank)
    seen = reducing.seen_so_far(emit, x, axis, -math.inf)
    return emit.moved(emit.reduce("reduce_log_sum_exp", seen, (-1,), keep=False), -1, axis)


@operator("_softmax", "softmax", "_log_softmax", "log_softmax")
def softmax(call: Call) -> Value:
    """Convert softmax along an axis, or its logarithm."""
    x, emit = call.operand("self", call.dtype()), call.emit
    logarithm = "log" in call.operator
    if not x.type.rank or not x.type.size:
        return emit.sub(x, x) if logarithm else emit.filled(x.type.shape, 1, x.type.dtype)
    return reducing.softmax(emit, x, call.axis("dim", x.type.rank), logarithm=logarithm)

"""Pooling: the op table's own where it has the form, else windows gathered by their places."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.extents import checked_extents
from aneforge.importers.onnx.operators.convolution import AUTO_PADS, windows_of
from aneforge.importers.onnx.registry import operator
from aneforge.importers.windows import (
    Window,
    element_places,
    elements_seen,
    gathered,
    is_plain,
    lowest,
    plain,
    reaching,
    reduced,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value


def pool_windows(call: Call, x: Value) -> tuple[list[Window], list[int]]:
    """Return how the window goes along every spatial axis, and how many places it takes.

    Raises:
        GraphError: The window does not fit.
    """
    lengths = call.integers("kernel_shape") or ()
    if x.type.rank != len(lengths) + 2:
        raise GraphError(
            "kernel_shape has not one length for each spatial axis", seen=list(lengths), limit=x.type.rank - 2
        )
    windows = windows_of(call, x.type.shape[2:], lengths)
    return windows, [places_of(call, window) for window in windows]


def places_of(call: Call, window: Window) -> int:
    """Return how many places a window takes along an axis.

    Rounding up adds a place for what is left over, unless the window would begin behind the axis and its padding, or
    there is to be no padding at all.
    """
    mode = call.choice("auto_pad", *AUTO_PADS)
    if mode.startswith("SAME"):
        return -(-window.extent // window.stride)
    room = window.extent + window.before + window.after - window.span
    if room < 0:
        raise GraphError("the window is longer than the padded axis", seen=window.span, limit=room + window.span)
    ceil = mode == "NOTSET" and "ceil_mode" in call.rules.attributes and call.flag("ceil_mode")
    places = (-(-room // window.stride) if ceil else room // window.stride) + 1
    return places - 1 if ceil and (places - 1) * window.stride >= window.extent + window.before else places


@operator("MaxPool")
def max_pool(call: Call) -> Value | tuple[Value, Value]:
    """Convert the largest value of every window, and its place if asked."""
    x, emit = call.value(0), call.emit
    windows, places = pool_windows(call, x)
    if not call.wants(1):
        wide = reaching(windows, places)
        if is_plain(x, wide, places):
            return plain(emit, "max_pool", x, wide)
        return reduced(emit, "reduce_max", x, windows, places, lowest(x.type.dtype))
    seen = gathered(emit, x, windows, places, lowest(x.type.dtype))
    emit.room(seen.type.size)
    chosen = emit.apply("reduce_argmax", {"x": seen}, axis=-1, keep_dims=True)
    columns = "storage_order" in call.rules.attributes and call.flag("storage_order")
    table = emit.constant(
        np.broadcast_to(element_places(x, windows, places, columns=columns), seen.type.shape), "int64"
    )
    place = emit.apply("gather_along_axis", {"x": table, "indices": chosen}, axis=-1)
    return emit.reduce("reduce_max", seen, (-1,), keep=False), emit.reshape(place, place.type.shape[:-1])


@operator("AveragePool")
def average_pool(call: Call) -> Value:
    """Convert the average of every window, padding counted or not."""
    x, emit = call.value(0), call.emit
    windows, places = pool_windows(call, x)
    counted = "count_include_pad" in call.rules.attributes and call.flag("count_include_pad")
    uncounted = not counted or not any(one.before or one.after for one in windows)
    wide = reaching(windows, places) if uncounted else windows
    if is_plain(x, wide, places):
        return plain(emit, "avg_pool", x, wide, exclude_padding_from_average=not counted or wide != windows)
    emit.room(*places)
    total = reduced(emit, "reduce_sum", x, windows, places, 0.0)
    counts = reduce(
        np.multiply.outer,
        [elements_seen(one, count, counted=counted) for one, count in zip(windows, places, strict=True)],
    )
    return emit.div(total, emit.constant(counts, x.type.dtype))


@operator("LpPool")
def power_pool(call: Call) -> Value:
    """Convert the p-norm of every window."""
    x, emit = call.value(0), call.emit
    windows, places = pool_windows(call, x)
    exponent = call.integer("p") if call.rules.since >= 2 else call.number("p")
    wide = reaching(windows, places)
    if exponent == 2 and is_plain(x, wide, places):
        return plain(emit, "l2_pool", x, wide)
    seen = gathered(emit, x, windows, places, 0.0)
    return power_norm(call, seen, (-1,), exponent, keep=False)


def power_norm(call: Call, x: Value, axes: Sequence[int], exponent: float, *, keep: bool) -> Value:
    """Return the p-norm along axes."""
    emit = call.emit
    if not exponent >= 1:
        raise GraphError("p is not a norm's", seen=exponent, limit="1 or more")
    if exponent == 1:
        return emit.reduce("reduce_l1_norm", x, axes, keep=keep)
    if exponent == 2:
        return emit.reduce("reduce_l2_norm", x, axes, keep=keep)
    powers = emit.binary("pow", emit.unary("abs", x), float(exponent))
    return emit.binary("pow", emit.reduce("reduce_sum", powers, axes, keep=keep), 1 / exponent)


def spatial_axes(x: Value) -> tuple[int, ...]:
    """Return the axes behind batch and channels.

    Raises:
        GraphError: There are none.
    """
    if x.type.rank < 3:
        raise GraphError("there is no spatial axis", seen=list(x.type.shape), limit="[N, C, …]")
    return tuple(range(2, x.type.rank))


@operator("GlobalAveragePool")
def global_average(call: Call) -> Value:
    """Convert the average of every channel."""
    return call.emit.reduce("reduce_mean", call.value(0), spatial_axes(call.value(0)))


@operator("GlobalMaxPool")
def global_max(call: Call) -> Value:
    """Convert the largest value of every channel."""
    return call.emit.reduce("reduce_max", call.value(0), spatial_axes(call.value(0)))


@operator("GlobalLpPool")
def global_power(call: Call) -> Value:
    """Convert the p-norm of every channel."""
    x = call.value(0)
    exponent = call.integer("p") if call.rules.since >= 2 else call.number("p")
    return power_norm(call, x, spatial_axes(x), exponent, keep=True)


@operator("MaxUnpool")
def max_unpool(call: Call) -> Value:
    """Convert pooled values put back to their places, 0 elsewhere; a larger size adds zeros at the ends."""
    x, indices, emit = call.value(0), call.value(1), call.emit
    lengths = call.integers("kernel_shape") or ()
    windows = windows_of(call, x.type.shape[2:], lengths)
    inferred = [(one.extent - 1) * one.stride + one.length - one.before - one.after for one in windows]
    shape = (*x.type.shape[:2], *checked_extents("the result", inferred))
    zeros = emit.filled((math.prod(shape),), 0, x.type.dtype)
    flat = {"data": zeros, "indices": emit.reshape(indices, (x.type.size,)), "updates": emit.reshape(x, (x.type.size,))}
    result = emit.reshape(emit.apply("scatter", flat, axis=0, mode="update"), shape)
    wanted = call.known_integers(2, "the shape of the result")
    if wanted is None:
        return result
    if len(wanted) != len(shape):
        raise GraphError("the shape of the result has another rank", seen=list(wanted), limit=list(shape))
    widths = [(0, new - old) for new, old in zip(wanted, shape, strict=True)]
    if min(after for _, after in widths) < 0:
        raise GraphError("the result is smaller than what is put into it", seen=list(wanted), limit=list(shape))
    checked_extents("the result", wanted)
    return emit.apply("pad", {"x": result}, pad=[one for pair in widths for one in pair], mode="constant")

"""Pooling: the op table's own where it has the form, else windows gathered by their places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.operators.onnx_convolution import AUTO_PADS, windows_of
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.reducing import norm
from aneforge.formats.shared.windows import (
    Window,
    average,
    gather_windows,
    is_plain,
    largest,
    largest_with_places,
    place_count,
    plain,
    reaching,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value


def pool_windows(call: Call, x: Value) -> tuple[list[Window], list[int]]:
    """Return how the window goes along every spatial axis, and how many places it takes.

    Raises:
        GraphError: The window does not fit.
    """
    lengths = call.integers("kernel_shape") or ()
    if x.type.rank != len(lengths) + 2:
        raise GraphError(
            "kernel_shape must have one length for each spatial axis", seen=list(lengths), limit=x.type.rank - 2
        )
    windows = windows_of(call, x.type.shape[2:], lengths)
    return windows, [places_of(call, window) for window in windows]


def places_of(call: Call, window: Window) -> int:
    """Return how many places a window takes along an axis; they are rounded up only where padding is given.

    Raises:
        GraphError: The window does not fit.
    """
    mode = call.choice("auto_pad", *AUTO_PADS)
    if mode.startswith("SAME"):
        return -(-window.extent // window.stride)
    room = window.extent + window.before + window.after
    if room < window.span:
        raise GraphError("the window is longer than the padded axis", seen=window.span, limit=room)
    ceil = mode == "NOTSET" and "ceil_mode" in call.rules.attributes and call.flag("ceil_mode")
    return place_count(window, ceil=ceil)


@operator("MaxPool")
def max_pool(call: Call) -> Value | tuple[Value, Value]:
    """Convert the largest value of every window, and its place if asked."""
    x, emit = call.value(0), call.emit
    windows, places = pool_windows(call, x)
    if not call.wants(1):
        return largest(emit, x, windows, places)
    columns = "storage_order" in call.rules.attributes and call.flag("storage_order")
    return largest_with_places(emit, x, windows, places, columns=columns, within_image=False)


@operator("AveragePool")
def average_pool(call: Call) -> Value:
    """Convert the average of every window, padding counted or not."""
    x = call.value(0)
    windows, places = pool_windows(call, x)
    counted = "count_include_pad" in call.rules.attributes and call.flag("count_include_pad")
    return average(call.emit, x, windows, places, counted=counted)


@operator("LpPool")
def power_pool(call: Call) -> Value:
    """Convert the p-norm of every window."""
    x, emit = call.value(0), call.emit
    windows, places = pool_windows(call, x)
    exponent = call.integer("p") if call.rules.since >= 2 else call.number("p")
    wide = reaching(windows, places)
    if exponent == 2 and is_plain(x, wide, places):
        return plain(emit, "l2_pool", x, wide)
    seen = gather_windows(emit, x, windows, places, 0.0)
    return power_norm(call, seen, (-1,), exponent, keep=False)


def power_norm(call: Call, x: Value, axes: Sequence[int], exponent: float, *, keep: bool) -> Value:
    """Return the p-norm along axes.

    Raises:
        GraphError: It is none.
    """
    if not exponent >= 1:
        raise GraphError("p must be 1 or more", seen=exponent, limit="1 or more")
    return norm(call.emit, x, exponent, axes, keep=keep)


def spatial_axes(x: Value) -> tuple[int, ...]:
    """Return the axes after batch and channels.

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
    shape = (*x.type.shape[:2], *check_extents("the result", inferred))
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
        raise GraphError("the result is smaller than its input", seen=list(wanted), limit=list(shape))
    check_extents("the result", wanted)
    return emit.apply("pad", {"x": result}, pad=[one for pair in widths for one in pair], mode="constant")

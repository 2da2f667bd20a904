"""Convolutions, columns of images, and pooling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.shared.windows import (
    Window,
    add_columns,
    average,
    convolve,
    convolve_transposed,
    gather_windows,
    largest,
    largest_with_places,
    place_count,
    plain,
)
from aneforge.formats.torch.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array


@operator("convolution")
def convolution(call: Call) -> Value:
    """Convert a convolution, or its transpose; a tensor without a batch has one of 1."""
    emit = call.emit
    x, weight, bias = call.value("input"), call.value("weight"), call.optional("bias")
    count = weight.type.rank - 2
    whole = x.type.rank == weight.type.rank
    batch = x if whole else emit.expand(x, 0)
    if call.flag("transposed"):
        result = convolve_back(call, batch, weight, bias, count)
    else:
        windows = windows_of(call, batch, weight.type.shape[-count:])
        result = convolve(emit, batch, weight, bias, windows, call.integer("groups"))
    return result if whole else emit.reshape(result, result.type.shape[1:])


def windows_of(call: Call, x: Value, lengths: Sequence[int]) -> list[Window]:
    """Return how a window goes along every spatial axis."""
    count = len(lengths)
    strides, dilations = call.per_axis("stride", count), call.per_axis("dilation", count)
    pads = call.per_axis("padding", count, 0)
    return [
        Window(extent, length, stride, dilation, width, width)
        for extent, length, stride, dilation, width in zip(
            x.type.shape[-count:], lengths, strides, dilations, pads, strict=True
        )
    ]


def convolve_back(call: Call, x: Value, weight: Value, bias: Value | None, count: int) -> Value:
    """Return a transposed convolution."""
    extra = call.per_axis("output_padding", count, 0)
    windows: list[Window] = []
    lengths: list[int] = []
    for one, more in zip(windows_of(call, x, weight.type.shape[-count:]), extra, strict=True):
        reach = (one.extent - 1) * one.stride + one.span
        wanted = reach + more - 2 * one.before
        windows.append(replace(one, after=reach - one.before - wanted))
        lengths.append(wanted)
    return convolve_transposed(call.emit, x, weight, bias, windows, lengths, call.integer("groups"))


# Pooling.


def pooled_windows(call: Call, x: Value, count: int) -> tuple[list[Window], list[int]]:
    """Return how the window of a pooling goes along each axis, and how many places it takes."""
    lengths = call.per_axis("kernel_size", count)
    strides = call.per_axis("stride", count) if call.integers("stride") else lengths
    dilations, pads = call.per_axis("dilation", count), call.per_axis("padding", count, 0)
    windows = [
        Window(x.type.shape[axis - count], length, strides[axis], dilations[axis], pads[axis], pads[axis])
        for axis, length in enumerate(lengths)
    ]
    return windows, [place_count(one, ceil=call.flag("ceil_mode")) for one in windows]


def batched(emit: Emitter, x: Value, count: int) -> Value:
    """Return a tensor as [N, C, spatial axes…]."""
    shape = x.type.shape
    return x if x.type.rank == count + 2 else emit.reshape(x, (*[1] * (count + 2 - len(shape)), *shape))


def unbatch(emit: Emitter, result: Value, x: Value, count: int) -> Value:
    """Return a result with as many axes as the operand has."""
    return emit.reshape(result, (*x.type.shape[:-count], *result.type.shape[-count:]))


AXES = {"1d": 1, "2d": 2, "3d": 3}


def axes_of(call: Call) -> int:
    """Return the number of spatial axes that an operator's name states."""
    return next(count for name, count in AXES.items() if name in call.operator)


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(call: Call) -> Value:
    """Convert the average of every window, padding counted or not, or the sum over a given number."""
    x, emit, count = call.value("self"), call.emit, axes_of(call)
    full = batched(emit, x, count)
    windows, places = pooled_windows(call, full, count)
    if not full.type.size:
        return emit.empty((*x.type.shape[:-count], *places), x.type.dtype)
    divisor = call.integer("divisor_override") if call.has("divisor_override") else None
    result = average(emit, full, windows, places, counted=call.flag("count_include_pad"), divisor=divisor)
    return unbatch(emit, result, x, count)


@operator("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(call: Call) -> Value:
    """Convert the largest value of every window."""
    x, emit, count = call.value("self"), call.emit, axes_of(call)
    if not x.type.size:
        return emit.empty(call.shape() or (), x.type.dtype)
    full = batched(emit, x, count)
    return unbatch(emit, largest(emit, full, *pooled_windows(call, full, count)), x, count)


@operator("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_places(call: Call) -> tuple[Value, Value]:
    """Convert the largest value of every window and its place in its image; a place that nobody reads is left out."""
    x, emit, count = call.value("self"), call.emit, axes_of(call)
    if not x.type.size:
        shape = call.shape() or ()
        return emit.empty(shape, x.type.dtype), emit.empty(shape, "int64")
    full = batched(emit, x, count)
    windows, places = pooled_windows(call, full, count)
    values, at = largest_with_places(emit, full, windows, places, columns=False, within_image=True)
    return unbatch(emit, values, x, count), unbatch(emit, at, x, count)


def adaptive_bounds(emit: Emitter, extent: int, count: int) -> tuple[Array, Array]:
    """Return where the parts of an axis begin and end that become a number of places.

    Raises:
        UnsupportedNodeError: There are too many.
    """
    emit.room(count)
    place = np.arange(count, dtype=np.int64)
    return place * extent // count, -(-(place + 1) * extent // count)


def adaptive_parts(emit: Emitter, extent: int, count: int) -> Array:
    """Return what each element counts in the average of each part of an axis: [elements, parts].

    Raises:
        UnsupportedNodeError: The table would take the machine's memory.
    """
    emit.room(extent, count)
    begins, ends = adaptive_bounds(emit, extent, count)
    element = np.arange(extent, dtype=np.int64)[:, None]
    return ((element >= begins) & (element < ends)) / (ends - begins)


@operator(
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"
)
def adaptive_average(call: Call) -> Value:
    """Convert averages over parts that make up each axis: a plain pooling where they are equal, else a product."""
    x, emit, count = call.value("self"), call.emit, axes_of(call)
    wished = call.integers("output_size") or ()
    sizes = [x.type.shape[axis - count] if size == -1 else size for axis, size in enumerate(wished)]
    extents = x.type.shape[-count:]
    if not x.type.size or 0 in sizes:
        return emit.empty((*x.type.shape[:-count], *sizes), x.type.dtype)
    if set(sizes) == {1}:
        return emit.reduce("reduce_mean", x, range(x.type.rank - count, x.type.rank))
    if all(extent % size == 0 for extent, size in zip(extents, sizes, strict=True)):
        lengths = [extent // size for extent, size in zip(extents, sizes, strict=True)]
        windows = [Window(extent, length, length, 1, 0, 0) for extent, length in zip(extents, lengths, strict=True)]
        return unbatch(emit, plain(emit, "avg_pool", batched(emit, x, count), windows), x, count)
    result = x
    for number, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        weights = adaptive_parts(emit, extent, size)
        axis = x.type.rank - count + number
        product = emit.matmul(emit.moved(as_rows(emit, result), axis, -1), emit.constant(weights, x.type.dtype))
        result = emit.moved(product, -1, axis)
    return result


def as_rows(emit: Emitter, x: Value) -> Value:
    """Return a tensor with at least two axes, so that it can be multiplied by a matrix."""
    return x if x.type.rank > 1 else emit.expand(x, 0)


@operator("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_largest(call: Call) -> tuple[Value, Value]:
    """Convert the largest value of parts that make up each axis, and its place in its image."""
    x, emit, count = call.value("self"), call.emit, axes_of(call)
    sizes, extents = call.integers("output_size") or (), x.type.shape[-count:]
    if not x.type.size or 0 in sizes:
        shape = (*x.type.shape[:-count], *sizes)
        return emit.empty(shape, x.type.dtype), emit.empty(shape, "int64")
    full = batched(emit, x, count)
    bounds = [adaptive_bounds(emit, extent, size) for extent, size in zip(extents, sizes, strict=True)]
    width = [int(np.max(ends - begins)) for begins, ends in bounds]
    emit.room(*full.type.shape[:2], *sizes, *width)
    # Parts that are shorter see their last element twice: it changes neither the largest nor its first place.
    places = [
        np.minimum(begins[:, None] + np.arange(most), ends[:, None] - 1)
        for (begins, ends), most in zip(bounds, width, strict=True)
    ]
    at = np.zeros((*sizes, *width), np.int64)
    for axis, one in enumerate(places):
        shape = [1] * (2 * count)
        shape[axis], shape[axis + count] = one.shape
        at = at * extents[axis] + one.reshape(shape)
    table = at.reshape(*sizes, -1)
    flat = emit.reshape(full, (*full.type.shape[:2], math.prod(extents)))
    values = emit.reduce("reduce_max", emit.take(flat, table.reshape(-1, table.shape[-1]), 2), (-1,), keep=False)
    values = emit.reshape(values, (*full.type.shape[:2], *sizes))
    seen = emit.take(flat, table, 2)
    chosen = emit.apply("reduce_argmax", {"x": seen}, axis=-1, keep_dims=True)
    known = emit.constant(np.broadcast_to(table, seen.type.shape), "int64")
    found = emit.apply("gather_along_axis", {"x": known, "indices": chosen}, axis=-1)
    return unbatch(emit, values, x, count), unbatch(emit, emit.reshape(found, found.type.shape[:-1]), x, count)


@operator("im2col")
def image_to_columns(call: Call) -> Value:
    """Convert an image to the columns of its windows: [N, C · elements, places]."""
    x, emit = call.value("self"), call.emit
    full = batched(emit, x, 2)
    windows = windows_of(call, full, call.per_axis("kernel_size", 2))
    places = [place_count(one) for one in windows]
    elements = math.prod(one.length for one in windows)
    batch, channels = full.type.shape[:2]
    shape = (batch, channels * elements, math.prod(places))
    if not full.type.size:
        result = emit.empty(shape, x.type.dtype)
    else:
        seen = gather_windows(emit, full, windows, places, 0.0)
        result = emit.reshape(emit.transpose(seen, (0, 1, 4, 2, 3)), shape)
    return result if x.type.rank == 4 else emit.reshape(result, shape[1:])


@operator("col2im")
def columns_to_image(call: Call) -> Value:
    """Convert columns of windows added up to an image."""
    x, emit = call.value("self"), call.emit
    image, block = call.per_axis("output_size", 2), call.per_axis("kernel_size", 2)
    full = emit.expand(x, 0) if x.type.rank == 2 else x
    strides, dilations = call.per_axis("stride", 2), call.per_axis("dilation", 2)
    pads = call.per_axis("padding", 2, 0)
    windows = [
        Window(extent, block[axis], strides[axis], dilations[axis], pads[axis], pads[axis])
        for axis, extent in enumerate(image)
    ]
    result = add_columns(emit, full, windows)
    return result if x.type.rank == 3 else emit.reshape(result, result.type.shape[1:])

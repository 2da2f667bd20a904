"""Convolutions: plain, transposed, and with places that are computed. Those of integers are with the quantised ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.windows import Window, add_columns, convolve, convolve_transposed, place_count
from aneforge.ops.shapes import divisible
from aneforge.ops.windows import same_padding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def windows_of(call: Call, extents: Sequence[int], lengths: Sequence[int]) -> list[Window]:
    """Return how a window goes along every spatial axis, padding by itself worked out.

    Raises:
        GraphError: A list does not have one entry for every axis.
    """
    if len(lengths) != len(extents) or not extents:
        raise GraphError(
            "the window must have one length for each spatial axis", seen=list(lengths), limit=list(extents)
        )
    strides, dilations = per_axis(call, "strides", len(extents)), per_axis(call, "dilations", len(extents))
    expect_lengths(call, lengths)
    mode = call.choice("auto_pad", *AUTO_PADS) if "auto_pad" in call.rules.attributes else "NOTSET"
    pads = call.integers("pads") or (0,) * (2 * len(extents))
    if mode != "NOTSET":
        pads = (0,) * (2 * len(extents))
    if len(pads) != 2 * len(extents) or min(pads) < 0:
        raise GraphError("pads must have two widths, 0 or more, for each axis", seen=list(pads), limit=2 * len(extents))
    found: list[Window] = []
    for axis, (extent, length) in enumerate(zip(extents, lengths, strict=True)):
        stride, dilation = strides[axis], dilations[axis]
        pair = pads[axis], pads[axis + len(extents)]
        if mode.startswith("SAME"):
            kind = "same" if mode == "SAME_UPPER" else "same_lower"
            pair = same_padding(-(-extent // stride), extent, stride, dilation * (length - 1) + 1, kind)
        found.append(Window(extent, length, stride, dilation, *pair))
    return found


def per_axis(call: Call, name: str, count: int) -> tuple[int, ...]:
    """Return an attribute with one entry for each spatial axis, all 1 by default.

    Raises:
        GraphError: It has more or fewer, or one below 1.
    """
    found = (call.integers(name) if name in call.rules.attributes else None) or (1,) * count
    if len(found) != count or min(found) < 1:
        raise GraphError(
            f"{name} must have one entry for each spatial axis, 1 or more", seen=list(found), limit=f"entries: {count}"
        )
    return found


def expect_lengths(call: Call, lengths: Sequence[int]) -> None:
    """Check the lengths of a window, and that an attribute does not contradict them.

    Raises:
        GraphError: One is below 1, or the attribute differs.
    """
    given = call.integers("kernel_shape") if "kernel_shape" in call.rules.attributes else None
    if min(lengths, default=1) < 1 or (given is not None and given != tuple(lengths)):
        raise GraphError("kernel_shape is not that of the weights", seen=list(given or lengths), limit=list(lengths))


def convolution(call: Call, x: Value, weight: Value, bias: Value | None) -> Value:
    """Return a convolution with the attributes of the node."""
    if x.type.rank < 3 or weight.type.rank != x.type.rank:
        raise GraphError("data and weights must have the same spatial axes", seen=f"{x.type} and {weight.type}")
    windows = windows_of(call, x.type.shape[2:], weight.type.shape[2:])
    return convolve(call.emit, x, weight, bias, windows, call.integer("group"))


@operator("Conv")
def conv(call: Call) -> Value:
    """Convert a convolution."""
    return convolution(call, call.value(0), call.value(1), call.optional(2))


@operator("ConvTranspose")
def conv_transpose(call: Call) -> Value:
    """Convert a convolution backwards."""
    x, weight, emit = call.value(0), call.value(1), call.emit
    if x.type.rank < 3 or weight.type.rank != x.type.rank:
        raise GraphError("data and weights must have the same spatial axes", seen=f"{x.type} and {weight.type}")
    windows, lengths = transposed_windows(call, x, weight)
    return convolve_transposed(emit, x, weight, call.optional(2), windows, lengths, call.integer("group"))


def widths(call: Call, name: str, count: int) -> tuple[int, ...]:
    """Return an attribute of widths, all 0 by default.

    Raises:
        GraphError: It has more or fewer, or a negative one.
    """
    found = call.integers(name) or (0,) * count
    if len(found) != count or min(found) < 0:
        raise GraphError(f"{name} must have {count} widths of 0 or more", seen=list(found), limit=count)
    return found


def transposed_windows(call: Call, x: Value, weight: Value) -> tuple[list[Window], list[int]]:
    """Return how the window of a transposed convolution goes along each axis, and how long the result's axes are.

    Padding after an axis may come out negative: then zeros are put there.
    """
    count = x.type.rank - 2
    strides, dilations = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    extra, pads = widths(call, "output_padding", count), widths(call, "pads", 2 * count)
    expect_lengths(call, weight.type.shape[2:])
    mode = call.choice("auto_pad", *AUTO_PADS)
    given = call.integers("output_shape")
    if given is not None and (len(given) not in (count, count + 2) or min(given) < 1):
        raise GraphError("output_shape must have one length for each spatial axis", seen=list(given), limit=count)
    windows: list[Window] = []
    lengths: list[int] = []
    for axis, (extent, length) in enumerate(zip(x.type.shape[2:], weight.type.shape[2:], strict=True)):
        stride, dilation = strides[axis], dilations[axis]
        reach = (extent - 1) * stride + dilation * (length - 1) + 1
        before, after = (pads[axis], pads[axis + count]) if mode == "NOTSET" else (0, 0)
        wanted = extent * stride if mode.startswith("SAME") else reach + extra[axis] - before - after
        if given is not None:
            wanted = given[-count:][axis]
        if given is not None or mode.startswith("SAME"):  # what is too long is cut at both ends
            total = max(reach + extra[axis] - wanted, 0)
            before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        windows.append(Window(extent, length, stride, dilation, before, reach - before - wanted))
        lengths.append(wanted)
    return windows, list(check_extents("the result", lengths))


@operator("Col2Im")
def columns_to_image(call: Call) -> Value:
    """Convert columns of windows added up to an image."""
    x = call.value(0)
    image = call.known_integers(1, "the shape of the image") or ()
    block = call.known_integers(2, "the shape of the block") or ()
    windows = windows_of_columns(call, image, block)
    places, taps = math.prod(map(place_count, windows)), math.prod(block)
    if x.type.rank != 3 or x.type.shape[2] != places or x.type.shape[1] % taps:
        raise GraphError("the columns are not those of the image", seen=list(x.type.shape), limit=[taps, places])
    return add_columns(call.emit, x, windows)


def windows_of_columns(call: Call, image: tuple[int, ...], block: tuple[int, ...]) -> list[Window]:
    """Return how the block goes over the image.

    Raises:
        GraphError: The lists do not fit one another, or the block does not fit the padded image.
    """
    count = len(image)
    check_extents("the image", image)
    check_extents("the block", block)
    pads = call.integers("pads") or (0,) * (2 * count)
    if len(block) != count or len(pads) != 2 * count or min((*block, *image), default=0) < 1 or min(pads) < 0:
        raise GraphError("image, block and pads do not match", seen=f"{image}, {block}, {pads}"[:200])
    strides, dilations = per_axis(call, "strides", count), per_axis(call, "dilations", count)
    found = [
        Window(image[axis], block[axis], strides[axis], dilations[axis], pads[axis], pads[axis + count])
        for axis in range(count)
    ]
    if any(one.extent + one.before + one.after < one.span for one in found):
        raise GraphError("the block is larger than the padded image", seen=list(block), limit=list(image))
    return found


@operator("DeformConv")
def deformable_conv(call: Call) -> Value:
    """Convert a convolution whose taps are read at places moved by computed offsets, between elements bilinearly.

    For each group of offsets the image is read at all taps at once, [N, C, taps · rows, columns]; the weighted sum is a
    convolution over taps as channels.
    """
    x, weight, offset, emit = call.value(0), call.value(1), call.value(2), call.emit
    if x.type.rank != 4 or weight.type.rank != 4:
        raise GraphError("only images [N, C, H, W] are read between elements", seen=f"{x.type} and {weight.type}")
    windows = [deformable_window(call, axis, x, weight) for axis in (0, 1)]
    batch, channels = x.type.shape[:2]
    taps, parts = weight.type.shape[2] * weight.type.shape[3], call.integer("offset_group")
    if parts < 1 or any(one.extent + one.before + one.after < one.span for one in windows):
        raise GraphError("the window does not fit the image, or there is no group of offsets", seen=str(x.type))
    rows, columns = map(place_count, windows)
    emit.room(taps, rows, columns)
    moved = emit.reshape(offset, (batch, parts, taps, 2, rows, columns))
    tap_rows, tap_columns = np.divmod(np.arange(taps), weight.type.shape[3])
    at_row = starts(windows[0], rows)[None, :, None] + tap_rows[:, None, None] * windows[0].dilation
    at_column = starts(windows[1], columns)[None, None, :] + tap_columns[:, None, None] * windows[1].dilation
    mask = call.optional(4)
    each = divisible("the number of channels by offset_group", channels, parts)
    read: list[Value] = []
    for part in range(parts):
        own = emit.at(moved, 1, part)  # [batch, taps, 2, rows, columns]
        y = emit.add(emit.at(own, 2, 0), emit.constant(np.broadcast_to(at_row, (taps, rows, columns)), x.type.dtype))
        z = emit.add(emit.at(own, 2, 1), emit.constant(np.broadcast_to(at_column, (taps, rows, columns)), x.type.dtype))
        places = emit.reshape(emit.apply("stack", {"values": (z, y)}, axis=-1), (batch, taps * rows, columns, 2))
        seen = emit.apply(
            "resample",
            {"x": emit.part(x, 1, part * each, (part + 1) * each), "coordinates": places},
            sampling_mode="bilinear",
            padding_mode="constant",
            coordinates_mode="unnormalized",
            align_corners=True,
        )
        values = emit.reshape(seen, (batch, each, taps, rows, columns))
        if mask is not None:
            weights = emit.reshape(mask, (batch, parts, 1, taps, rows, columns))
            values = emit.mul(values, emit.at(weights, 1, part))
        read.append(values)
    stacked = emit.reshape(emit.concat(read, 1), (batch, channels * taps, rows, columns))
    kernels = emit.reshape(weight, (weight.type.shape[0], weight.type.shape[1] * taps, 1, 1))
    return emit.apply("conv", {"x": stacked, "weight": kernels, "bias": call.optional(3)}, groups=call.integer("group"))


def deformable_window(call: Call, axis: int, x: Value, weight: Value) -> Window:
    """Return how the window of a deformable convolution goes along rows or columns."""
    pads = call.integers("pads") or (0,) * 4
    if len(pads) != 4 or min(pads) < 0:
        raise GraphError("pads must have two widths, 0 or more, for each axis", seen=list(pads), limit=4)
    expect_lengths(call, weight.type.shape[2:])
    return Window(
        x.type.shape[2 + axis],
        weight.type.shape[2 + axis],
        per_axis(call, "strides", 2)[axis],
        per_axis(call, "dilations", 2)[axis],
        pads[axis],
        pads[axis + 2],
    )


def starts(window: Window, places: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where a window begins at every place."""
    return np.arange(places, dtype=np.int64) * window.stride - window.before

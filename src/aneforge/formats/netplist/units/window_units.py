"""Layers that slide a window: convolution, upsampling, pooling, cross-correlation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.netplist.layer import dims_of
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.rows import row_of_unit
from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.window import SPATIAL, Window
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["WINDOWS"]


def windowed(layer: Layer) -> tuple[Window, Value]:
    """Return the window of a unit and the tensor that it slides over, both with depth or both without."""
    window = Window.of(layer.params)
    if layer.dims.depth == 1 and len(window.kernel) < len(SPATIAL):
        return window, layer.x
    return window.in_depth(), layer.five(layer.x)


def convolution(layer: Layer) -> Value:
    """Return a convolution, or an upsampling by a kernel of ones."""
    window, x = windowed(layer)
    if layer.unit.output_channels is None:
        raise layer.error("a convolution needs OutputChannels")
    if layer.params.text("Type") == "ChannelWiseDeConv":
        return layer.settled(upsampling(layer, window, x))
    groups, channels = layer.unit.groups or 1, layer.unit.output_channels
    if layer.dims.channel % groups or channels % groups:
        raise layer.error(
            "input/output channels should be divisible by num group",
            seen=f"{layer.dims.channel} and {channels} channels",
            limit=f"multiples of {groups}",
        )
    shape = (channels, layer.dims.channel // groups, *window.kernel)
    weight = Dense(kernel_values(layer, shape, groups))
    result = layer.build(
        "conv",
        {"x": x, "weight": weight},
        strides=window.steps,
        pad_type="custom",
        pad=window.pads,
        groups=groups,
    )
    return layer.settled(result)


def kernel_values(layer: Layer, shape: tuple[int, ...], groups: int) -> Array:
    """Return the kernel of a convolution.

    Raises:
        GraphError: A kernel of ones is too large to be made, or a dense one is not in its file.
        NotSupportedError: Several groups share a kernel.
    """
    if layer.params.text("KernelMode") == "Unity":
        return ones(layer, shape)
    if layer.params.flag("KernelGroupReuse") and groups > 1:
        raise layer.without_meaning(
            "no source says how groups share one dense kernel", seen=f"{groups} groups", limit="1 group"
        )
    return layer.kernel(shape)


def ones(layer: Layer, shape: tuple[int, ...]) -> Array:
    """Return a kernel of ones, which no file holds.

    Raises:
        GraphError: It is too large to be made.
    """
    nbytes = math.prod(shape) * np.dtype(np.float16).itemsize
    layer.weights.make_room(nbytes, f"the kernel of {quote_value(layer.unit.name)}", layer.unit.location)
    return np.ones(shape, np.float16)


def upsampling(layer: Layer, window: Window, x: Value) -> Value:
    """Return the transposed convolution of every channel with ones.

    The layer puts Step - 1 zeros after every element, pads, and convolves. A transposed convolution drops what reaches
    over the padded result, so its padding is what is left of the kernel.

    Raises:
        NotSupportedError: The kernel is not of ones, or the padding is longer than a transposed convolution's can be.
    """
    if layer.params.text("KernelMode") != "Unity":
        raise layer.without_meaning(
            "no source says whether a transposed kernel is reversed", seen="KernelMode Dense", limit="Unity"
        )
    channels = layer.dims.channel
    if layer.unit.output_channels != channels or layer.unit.groups not in (1, channels):
        raise layer.error(
            "a ChannelWiseDeConv has the channels of its tensor",
            seen=f"{layer.unit.output_channels} channels, {layer.unit.groups} groups",
            limit=f"{channels} channels, and 1 or {channels} groups",
        )
    before = [kernel - 1 - pad for kernel, pad in zip(window.kernel, window.pads[::2], strict=True)]
    after = [
        kernel - step - pad for kernel, step, pad in zip(window.kernel, window.steps, window.pads[1::2], strict=True)
    ]
    if min(before) < 0:
        raise layer.without_meaning(
            "no operation of the table expresses a padding before that is not smaller than the kernel",
            seen=list(window.pads[::2]),
            limit=f"less than the kernel's {list(window.kernel)}",
        )
    if window.kernel == window.steps and not any(before) and len(window.kernel) == 2:
        height, width = map(float, window.steps)
        op = "upsample_nearest_neighbor"
        return layer.build(op, {"x": x}, scale_factor_height=height, scale_factor_width=width)
    weight = Dense(ones(layer, (channels, 1, *window.kernel)))
    pad = tuple(side for pair in zip(before, (max(side, 0) for side in after), strict=True) for side in pair)
    # A result that is longer than what the kernels reach is asked for by its shape.
    longer = None
    if min(after) < 0:
        sides = zip(x.type.shape[2:], window.kernel, window.steps, window.pads[::2], window.pads[1::2], strict=True)
        lengths = [extent * step + front + back - kernel + 1 for extent, kernel, step, front, back in sides]
        longer = (layer.dims.batch, channels, *lengths)
    return layer.build(
        "conv_transpose",
        {"x": x, "weight": weight},
        strides=window.steps,
        pad_type="custom",
        pad=pad,
        output_shape=longer,
        groups=channels,
    )


def pooling(layer: Layer) -> Value:
    """Return pooling; zeros around a tensor of which the largest are taken are put there first."""
    (window, x), kind = windowed(layer), layer.params.text("Type")
    mode = layer.params.text("PaddingMode") if layer.params.has("PaddingMode") else None
    if kind == "Avg" and mode == "Negative":
        raise layer.error("an average has no Negative padding", seen=mode, limit="Zero")
    pads = window.pads
    if kind == "Max" and mode != "Negative" and any(pads):
        if mode is None:
            raise layer.error("padding of a Max pooling needs PaddingMode", limit="Zero or Negative")
        x, pads = padded(layer, x, pads), (0,) * len(pads)
    row = row_of_unit("Pooling", layer.unit.params)
    result = layer.build(
        row.op,
        {"x": x},
        kernel_sizes=window.kernel,
        strides=window.steps,
        pad_type="custom",
        pad=pads,
        **row.attributes_of(layer.unit.params),
    )
    return layer.settled(result)


def padded(layer: Layer, x: Value, pads: tuple[int, ...]) -> Value:
    """Return a tensor with zeros around its last axes."""
    others = 2 * len(x.type.shape) - len(pads)
    return layer.build("pad", {"x": x}, pad=(0,) * others + pads, mode="constant", constant_val=0.0)


def cross_correlation(layer: Layer) -> Value:
    """Return the sums of products of a template, which is in one row, with every window of one channel."""
    x, template = layer.bottoms
    height, width = layer.params.integer("TemplateHeight"), layer.params.integer("TemplateWidth")
    layer.expect_one(Dim.BATCH, Dim.CHANNEL, Dim.DEPTH, what="the image")
    given = dims_of(template)
    layer.expect_one(Dim.BATCH, Dim.CHANNEL, Dim.DEPTH, Dim.HEIGHT, value=template, what="the template")
    if given.width != height * width:
        raise layer.error(
            "the template has another number of elements", seen=given.width, limit=f"{height} · {width}, in one row"
        )
    image = layer.reshaped(x, (layer.dims.height, layer.dims.width))
    pads = layer.params.pads("Top", "Bot", "Left", "Right")
    if any(pads):
        image = layer.build("pad", {"x": image}, pad=pads, mode="constant", constant_val=0.0)
    laid = layer.reshaped(template, (height, width))
    result = layer.build("cross_correlation", {"x": image, "template": laid})
    return layer.reshaped(result, (1, 1, *result.shape))


def rasterise(layer: Layer) -> Value:
    """Return the tensor itself: windows of one element become no further channels."""
    return layer.build("identity", {"x": layer.x})


WINDOWS: dict[str, LayerReader] = {
    "Conv": convolution,
    "CrossCorrelation": cross_correlation,
    "KernelRasterizer": rasterise,
    "Pooling": pooling,
}

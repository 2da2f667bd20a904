"""Operations that slide a window: convolution, upsampling, pooling, cross-correlation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.netplist.emit.write_row import row_of
from aneforge.formats.netplist.netplist_values import Held, Known, Placed, canonical
from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.window import SPATIAL, Window
from aneforge.ops.decompositions.products import transposed_padding
from aneforge.ops.windows import slides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.document import Parameter
    from aneforge.ops.windows import Slide, WindowAttributes

__all__ = ["WINDOWS"]


def image_axes(rank: int) -> tuple[Dim, ...]:
    """Return the dimensions of the axes of images: batch, channels, then the last of depth, height and width."""
    return Dim.BATCH, Dim.CHANNEL, *SPATIAL[len(SPATIAL) - (rank - 2) :]


def window_attributes(call: Call) -> WindowAttributes:
    """Return the attributes that say how a window goes."""
    found: WindowAttributes = {
        "strides": call.node.optional_integers("strides"),
        "pad_type": call.node.text("pad_type"),
        "pad": call.node.optional_integers("pad"),
    }
    if "dilations" in call.node.attributes:
        found["dilations"] = call.node.optional_integers("dilations")
    if "ceil_mode" in call.node.attributes:
        found["ceil_mode"] = call.node.flag("ceil_mode")
    return found


def window(kernel: Sequence[int], steps: Sequence[int], pads: Sequence[tuple[int, int]]) -> Window:
    """Return a window along the last axes."""
    return Window(tuple(kernel), tuple(steps), tuple(side for pair in pads for side in pair))


def padding_of(slide: Slide) -> tuple[int, int]:
    """Return the padding of an axis that gives its places, which a layer counts by rounding down.

    In ceil mode a window may reach after the padding, and one that begins after it is left out.
    """
    rounded_down = (slide.extent + slide.before + slide.after - slide.span) // slide.stride + 1
    if rounded_down == slide.places:
        return slide.before, slide.after
    return slide.before, max(slide.reach - slide.before - slide.extent, 0)


# Convolution


def convolution(call: Call) -> Held:
    """Write a convolution with a constant kernel; its bias was taken off before.

    Raises:
        NotSupportedError: The kernel is computed at run time, or has gaps.
    """
    to, weight = call.to, call.operand("weight")
    if not isinstance(weight, Known):
        raise to.refuse(
            "a Conv unit has a constant kernel",
            seen="a kernel computed at run time",
            nearest="conv with a constant kernel, or cross_correlation of one channel",
        )
    x = to.floats(call.x)  # and the kernel with it
    along = slides(call.x.shape[2:], weight.shape[2:], window_attributes(call))
    if any(slide.dilation != 1 for slide in along):
        raise to.refuse(
            "a Conv unit has no key for gaps in its kernel",
            seen=f"dilations {[slide.dilation for slide in along]}",
            limit=1,
            nearest="a larger kernel with zeros in the gaps",
        )
    axes = image_axes(len(call.shape))
    x = to.place(x, axes)
    steps = [slide.stride for slide in along]
    pads = [padding_of(slide) for slide in along]
    unity = bool(np.all(weight.values == 1))
    params: dict[str, Parameter] = {
        "Type": "Conv",
        "KernelMode": "Unity" if unity else "Dense",
        **window(weight.shape[2:], steps, pads).params(),
    }
    kernel = None if unity else weight.values
    return to.unit("Conv", [x], params, to.result(call.shape, axes), groups=call.node.integer("groups"), kernel=kernel)


def write_transposed_convolution(call: Call) -> Held:
    """Write the transposed convolution of every channel with ones; any other was built from it before."""
    weight = call.operand("weight")
    along = slides(call.shape[2:], weight.shape[2:], window_attributes(call))
    pads = [transposed_padding(slide, extent) for slide, extent in zip(along, call.x.shape[2:], strict=True)]
    steps = [slide.stride for slide in along]
    return upsample(call, image_axes(len(call.shape)), weight.shape[2:], steps, pads)


def upsample(
    call: Call, axes: Sequence[Dim], kernel: Sequence[int], steps: Sequence[int], pads: Sequence[tuple[int, int]]
) -> Placed:
    """Write the layer that spreads every element with a kernel of ones."""
    to = call.to
    placed = to.place(to.floats(call.x), axes)
    params: dict[str, Parameter] = {
        "Type": "ChannelWiseDeConv",
        "KernelMode": "Unity",
        "KernelGroupReuse": True,
        **window(kernel, steps, pads).params(),
    }
    return to.unit("Conv", [placed], params, to.result(call.shape, axes), groups=1)


def upsample_nearest(call: Call) -> Held:
    """Write an upsampling by whole factors: a kernel of ones as long as the step.

    Raises:
        NotSupportedError: A factor is not an integer.
    """
    factors = [call.node.number(f"scale_factor_{side}") for side in ("height", "width")]
    if any(factor != int(factor) for factor in factors):
        raise call.to.refuse("an upsampling has integer factors", seen=factors, nearest="an integer factor")
    steps = [int(factor) for factor in factors]
    if steps == [1, 1]:
        return call.x
    return upsample(call, canonical(call.shape), steps, steps, [(step - 1, 0) for step in steps])


# Pooling


def pooling(call: Call) -> Held:
    """Write pooling.

    Raises:
        NotSupportedError: An average counts padding, and reaches after it.
    """
    to, op = call.to, call.node.op.name
    row, attributes = row_of(call)
    along = slides(call.x.shape[2:], call.node.integers("kernel_sizes"), window_attributes(call))
    pads = [padding_of(slide) for slide in along]
    excluding = op == "avg_pool" and call.node.flag("exclude_padding_from_average")
    over = [pad[1] - slide.after for slide, pad in zip(along, pads, strict=True)]
    if op == "avg_pool" and not excluding and max(over) > 0:
        raise to.refuse(
            "a Pooling unit counts all padding or none, and in ceil mode the last window reaches after what counts",
            seen=f"{max(over)} elements after the padding",
            nearest="exclude_padding_from_average=True, or ceil_mode=False",
        )
    axes = image_axes(len(call.shape))
    x = to.place(to.floats(call.x), axes)
    params: dict[str, Parameter] = {
        **row.params_of(attributes, to.number),
        "PaddingMode": "Negative" if op == "max_pool" else "Zero",
        **window([slide.window for slide in along], [slide.stride for slide in along], pads).params(),
    }
    return to.unit(row.kind, [x], params, to.result(call.shape, axes))


# Cross-correlation


def cross_correlation(call: Call) -> Held:
    """Write the sums of products of a template, laid out in one row, with every window."""
    to, template = call.to, call.operand("template")
    height, width = template.shape
    to.expect_floats(call.x, template)
    axes = (Dim.HEIGHT, Dim.WIDTH)
    x = to.place(call.x, axes)
    row = to.place(template.reshaped((height * width,)), (Dim.WIDTH,))
    params: dict[str, Parameter] = {"TemplateHeight": height, "TemplateWidth": width}
    return to.unit("CrossCorrelation", [x, row], params, to.result(call.shape, axes))


WINDOWS: dict[str, Writer] = {
    "avg_pool": pooling,
    "conv": convolution,
    "conv_transpose": write_transposed_convolution,
    "cross_correlation": cross_correlation,
    "max_pool": pooling,
    "upsample_nearest_neighbor": upsample_nearest,
}

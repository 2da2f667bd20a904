"""Convolutions of fp16, as `golden.convolution` and `golden.winograd_convolution` have them, and of int8.

They are the sums of `matmul`, with the kernels as left operand. Images are not unfolded into columns: a tap of the
kernel is an offset into the images, and a stride takes them apart into one plane for each remainder (native/plan.h).
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine import golden, quantised
from aneforge.engine.kernels.arrays import (
    BEHIND_FIELDS,
    MOST_INT8_DEPTH,
    Element,
    as_given,
    bits_of,
    expect_int8,
    from_golden,
)
from aneforge.engine.kernels.elements import to_fp16
from aneforge.engine.kernels.library import address, available, call
from aneforge.errors import GraphError
from aneforge.ops.arithmetic import reshape_along
from aneforge.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.engine.golden import Padding, Slides, Window

    Array = npt.NDArray[Any]
    Results = type[np.uint16 | np.float64]

__all__ = [
    "apply_gain_to_convolution",
    "apply_gain_to_winograd",
    "convolution",
    "convolution_total",
    "int8_convolution",
    "winograd_convolution",
    "winograd_total",
]


LONGEST_AXIS = 2**31 - 1
"""The kernels count along an axis in 32 bits."""


class Convolution(ctypes.Structure):
    """`struct aneforge_convolution` of kernels.h."""

    _fields_ = (
        ("element", ctypes.c_int64),
        ("unrounded", ctypes.c_int64),
        ("winograd", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("groups", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("channels", ctypes.c_int64),
        ("height", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("kernel_height", ctypes.c_int64),
        ("kernel_width", ctypes.c_int64),
        ("stride_height", ctypes.c_int64),
        ("stride_width", ctypes.c_int64),
        ("dilation_height", ctypes.c_int64),
        ("dilation_width", ctypes.c_int64),
        ("pad_top", ctypes.c_int64),
        ("pad_left", ctypes.c_int64),
        ("out_height", ctypes.c_int64),
        ("out_width", ctypes.c_int64),
        ("images", ctypes.c_void_p),
        ("kernels", ctypes.c_void_p),
        ("codes", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        *BEHIND_FIELDS,
        ("out", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution over two axes, all its numbers known."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    out: tuple[int, int]
    groups: int
    winograd: bool = False


@dataclass(frozen=True, slots=True)
class Channels:
    """Float64 numbers for every output channel: where sums start, and what is after them before they are rounded."""

    bias: Array | None = None
    gain: Array | None = None
    offset: Array | None = None

    @classmethod
    def behind(cls, gain: Array, offset: Array | None, channels: int) -> Channels:
        """Return gains and offsets, checked.

        Raises:
            GraphError: There are more or fewer than output channels.
        """
        return cls(None, channel_numbers("a gain", gain, channels), channel_numbers("an offset", offset, channels))


def convolution(x: Array, weight: Array, bias: Array | None = None, **window: Unpack[Window]) -> Array:
    """Return the direct convolution of images [N, C, …] with kernels [Cout, C / groups, …] over one to three axes.

    >>> images, kernels = np.ones((1, 1, 3), np.float16), np.ones((1, 1, 2), np.float16)
    >>> convolution(images, kernels, stride=2, pad=[(1, 0)]).ravel().tolist()
    [1.0, 2.0]

    Raises:
        GraphError: Images and kernels have different channels, the groups do not divide them, the window does not fit
            the padded images, or the bias does not have one number for every output channel.
        GraphTypeError: An operand is not fp16.
    """
    if not available():
        return from_golden(golden_sum(x, weight, bias, window).result(), x)
    return as_given(convolved(x, weight, Channels(channel_bias(bias, weight.shape[0])), window, np.uint16), x)


def apply_gain_to_convolution(
    x: Array, weight: Array, gain: Array, offset: Array | None, **window: Unpack[Window]
) -> Array:
    """Return gain · sum + offset of a convolution, rounded once: one of each for every output channel.

    >>> images, kernels = np.full((1, 1, 1), 2049.0, np.float16), np.ones((1, 1, 1), np.float16)
    >>> apply_gain_to_convolution(images, kernels, np.array([2.0]), np.array([3.0])).item()
    4100.0

    Raises:
        GraphError: As `convolution`, or there is not one gain and offset for every output channel.
        GraphTypeError: An operand is not fp16.
    """
    channels = Channels.behind(gain, offset, weight.shape[0])
    if not available():
        return apply_golden_gain(golden_sum(x, weight, None, window).total(), channels, x)
    return as_given(convolved(x, weight, channels, window, np.uint16), x)


def apply_golden_gain(total: Array, channels: Channels, like: Array) -> Array:
    """Return sums with what is after them as the golden model does it."""
    numbers = (channels.gain, channels.offset)
    gain, offset = (None if one is None else reshape_along(one, total.ndim) for one in numbers)
    return from_golden(golden.apply_gain(total, 1.0 if gain is None else gain, offset), like)


def convolution_total(x: Array, weight: Array, bias: Array | None = None, **window: Unpack[Window]) -> Array:
    """Return the sums of `convolution` in float64, before they are rounded on their way out.

    >>> images, kernels = np.full((1, 1, 1), 2049.0, np.float16), np.ones((1, 1, 1), np.float16)
    >>> convolution_total(images, kernels, np.array([0.5])).item()
    2048.5

    Raises:
        GraphError: As `convolution`.
        GraphTypeError: An operand is not fp16.
    """
    if not available():
        return golden_sum(x, weight, bias, window).total()
    return convolved(x, weight, Channels(channel_bias(bias, weight.shape[0])), window, np.float64)


def golden_sum(x: Array, weight: Array, bias: Array | None, window: Window) -> golden.Sum:
    """Return a convolution of fp16 as the golden model does it, its operands checked."""
    images, kernels = (bits_of("conv", operand).view(np.float16) for operand in (x, weight))
    convolved_places(x, weight, golden.Slides.of(weight.ndim - 2, **window))
    return golden.convolution_sum(images, kernels, channel_bias(bias, weight.shape[0]), **window)


def convolved(x: Array, weight: Array, channels: Channels, window: Window, dtype: Results) -> Array:
    """Return a convolution of fp16: rounded, as bits, or unrounded in float64."""
    images, kernels = bits_of("conv", x), bits_of("conv", weight)
    slides = golden.Slides.of(weight.ndim - 2, **window)
    out = np.empty((x.shape[0], weight.shape[0], *convolved_places(x, weight, slides)), dtype)
    convolve(images, kernels, channels, slides, out)
    return out


def winograd_convolution(x: Array, weight: Array, bias: Array | None = None, *, pad: Padding = 1) -> Array:
    """Return a 3×3 convolution of stride 1 as one-dimensional Winograd F(2,3) along the width.

    >>> winograd_convolution(np.ones((1, 1, 2, 2), np.float16), np.ones((1, 1, 3, 3), np.float16)).ravel().tolist()
    [4.0, 4.0, 4.0, 4.0]

    Raises:
        GraphError: The kernels are not 3×3, images and kernels have different channels, or the window does not fit.
        GraphTypeError: An operand is not fp16.
    """
    if not available():
        return from_golden(golden.round_out(golden_winograd(x, weight, bias, pad)), x)
    return as_given(winograd_convolved(x, weight, Channels(channel_bias(bias, weight.shape[0])), pad, np.uint16), x)


def apply_gain_to_winograd(x: Array, weight: Array, gain: Array, offset: Array | None, *, pad: Padding = 1) -> Array:
    """Return gain · sum + offset of a Winograd convolution, rounded once: one of each for every output channel.

    >>> images, kernels = np.ones((1, 1, 1, 2), np.float16), np.ones((1, 1, 3, 3), np.float16)
    >>> apply_gain_to_winograd(images, kernels, np.array([2.0]), np.array([3.0])).ravel().tolist()
    [7.0, 7.0]

    Raises:
        GraphError: As `winograd_convolution`, or there is not one gain and offset for every output channel.
        GraphTypeError: An operand is not fp16.
    """
    channels = Channels.behind(gain, offset, weight.shape[0])
    if not available():
        return apply_golden_gain(golden_winograd(x, weight, None, pad), channels, x)
    return as_given(winograd_convolved(x, weight, channels, pad, np.uint16), x)


def winograd_total(x: Array, weight: Array, bias: Array | None = None, *, pad: Padding = 1) -> Array:
    """Return the combined sums of `winograd_convolution` in float64, before they are rounded on their way out.

    >>> winograd_total(np.ones((1, 1, 1, 2), np.float16), np.ones((1, 1, 3, 3), np.float16)).ravel().tolist()
    [2.0, 2.0]

    Raises:
        GraphError: As `winograd_convolution`.
        GraphTypeError: An operand is not fp16.
    """
    if not available():
        return golden_winograd(x, weight, bias, pad)
    return winograd_convolved(x, weight, Channels(channel_bias(bias, weight.shape[0])), pad, np.float64)


def golden_winograd(x: Array, weight: Array, bias: Array | None, pad: Padding) -> Array:
    """Return the combined sums of a Winograd convolution as the golden model does them, its operands checked."""
    images, kernels = (bits_of("conv", operand).view(np.float16) for operand in (x, weight))
    places = winograd_places(x, weight, golden.Slides.of(2, pad=pad))
    if 0 in x.shape or 0 in weight.shape:
        return np.zeros((x.shape[0], weight.shape[0], *places))
    return golden.winograd_total(images, kernels, channel_bias(bias, weight.shape[0]), pad=pad)


def winograd_convolved(x: Array, weight: Array, channels: Channels, pad: Padding, dtype: Results) -> Array:
    """Return a Winograd convolution: rounded, as bits, or unrounded in float64."""
    images, kernels = bits_of("conv", x), bits_of("conv", weight)
    slides = golden.Slides.of(2, pad=pad)
    height, width = winograd_places(x, weight, slides)
    out = np.empty((x.shape[0], weight.shape[0], height, width), dtype)
    before = (slides.pads[0][0], slides.pads[1][0])
    geometry = Geometry((1, 1), (1, 1), before, (height, width), 1, winograd=True)
    run_convolution(images, kernels, channels, out, geometry)
    return out


def winograd_places(x: Array, weight: Array, slides: Slides) -> tuple[int, int]:
    """Return height and width of a Winograd convolution.

    Raises:
        GraphError: The kernels are not 3×3, images and kernels do not go together, or the window does not fit.
    """
    if weight.shape[2:] != (3, 3):
        raise GraphError("Winograd takes 3×3 kernels", operation="conv", seen=weight.shape[2:], limit=(3, 3))
    height, width = convolved_places(x, weight, slides)
    return height, width


def int8_convolution(x: Array, weight: Array, scale: Array | float = 1.0, **window: Unpack[Window]) -> Array:
    """Return a convolution of int8 images with int8 kernels: an exact sum in 32 bits, times a scale, rounded to fp16.

    A scale for every output channel comes in the shape of a channel: [Cout, 1, …].

    >>> int8_convolution(np.full((1, 4, 1), 127, np.int8), np.full((1, 4, 1), 127, np.int8)).item()
    64512.0

    Raises:
        GraphError: Images and kernels have different channels, the groups do not divide them, or the window does not
            fit the padded images.
        GraphTypeError: An operand is not int8.
    """
    expect_int8("conv", x, weight)
    slides = golden.Slides.of(weight.ndim - 2, **window)
    out = np.empty((x.shape[0], weight.shape[0], *convolved_places(x, weight, slides)), np.int32)
    if not available() or math.prod(weight.shape[1:]) > MOST_INT8_DEPTH:
        return quantised.int8_convolution(
            x,
            weight,
            scale,
            strides=tuple(slides.strides),
            dilations=tuple(slides.dilations),
            pad_type="custom",
            pad=tuple(side for pair in slides.pads for side in pair),
            groups=slides.groups,
        ).astype(np.float16)
    convolve(x, weight, Channels(), slides, out)
    return to_fp16(out * np.asarray(scale, np.float64))


def convolved_places(x: Array, weight: Array, slides: Slides) -> tuple[int, ...]:
    """Return the lengths of a convolution's axes.

    Raises:
        GraphError: Images and kernels do not go together, or the window does not fit the padded images.
    """
    seen = f"{x.shape} and {weight.shape}"
    if x.ndim != weight.ndim or not 3 <= x.ndim <= 5:
        raise GraphError(
            "images and kernels must have one to three spatial axes, and two others", operation="conv", seen=seen
        )
    check_slides(slides, x.ndim - 2)
    if 0 in weight.shape[1:]:
        raise GraphError("the kernels are empty", operation="conv", seen=seen)
    if x.shape[1] != weight.shape[1] * slides.groups or weight.shape[0] % slides.groups:
        raise GraphError(
            f"images and kernels have different channels in {slides.groups} groups", operation="conv", seen=seen
        )
    longest = max(extent + sum(pad) for extent, pad in zip(x.shape[2:], slides.pads, strict=True))
    if longest > LONGEST_AXIS:
        raise GraphError("a padded axis is too long", operation="conv", seen=longest, limit=LONGEST_AXIS)
    places = tuple(
        (extent + sum(pad) - dilation * (length - 1) - 1) // stride + 1
        for extent, pad, dilation, length, stride in zip(
            x.shape[2:], slides.pads, slides.dilations, weight.shape[2:], slides.strides, strict=True
        )
    )
    if min(places) < 1:
        raise GraphError("the kernel is longer than the padded images", operation="conv", seen=seen)
    return places


def check_slides(slides: Slides, axes: int) -> None:
    """Stop unless a window has integers that make sense for every axis.

    Raises:
        GraphError: It does not.
    """
    if not len(slides.strides) == len(slides.dilations) == len(slides.pads) == axes:
        raise GraphError(
            "a window has one stride, dilation and pair of padding for every axis", seen=slides, limit=axes
        )
    if min(*slides.strides, *slides.dilations, slides.groups) < 1 or min(map(min, slides.pads)) < 0:
        raise GraphError("strides, dilations and groups are positive, padding is not negative", seen=slides)


def channel_bias(bias: Array | None, channels: int) -> Array | None:
    """Return a bias as the engine reads it, in float64, one number for each output channel.

    Raises:
        GraphError: There are more or fewer.
    """
    return None if bias is None else channel_numbers("a bias", golden.bias_operand(bias), channels)


def channel_numbers(name: str, values: Array | None, channels: int) -> Array | None:
    """Return numbers in float64, one for each output channel.

    Raises:
        GraphError: There are more or fewer.
    """
    if values is None:
        return None
    flat = np.ascontiguousarray(values, np.float64).ravel()
    if flat.size != channels:
        raise GraphError(
            f"{name} has one number for every output channel", operation="conv", seen=flat.size, limit=channels
        )
    return flat


def convolve(x: Array, weight: Array, channels: Channels, slides: Slides, out: Array) -> None:
    """Convolve over one to three axes into `out`."""
    if weight.ndim == 5:
        convolve_volumes(x, weight, channels, slides, out)
        return
    missing = 4 - weight.ndim  # one axis is the width of images of height 1
    geometry = Geometry(
        strides=(1, slides.strides[0]) if missing else (slides.strides[0], slides.strides[1]),
        dilations=(1, slides.dilations[0]) if missing else (slides.dilations[0], slides.dilations[1]),
        before=(0, slides.pads[0][0]) if missing else (slides.pads[0][0], slides.pads[1][0]),
        out=(1, out.shape[2]) if missing else (out.shape[2], out.shape[3]),
        groups=slides.groups,
    )
    if missing:
        x, weight, out = x[:, :, None], weight[:, :, None], out[:, :, None]
    run_convolution(x, weight, channels, out, geometry)


def convolve_volumes(x: Array, weight: Array, channels: Channels, slides: Slides, out: Array) -> None:
    """Convolve over three axes: for each place along the first, what it sees there are channels, in the same order."""
    stride, dilation, (before, _) = slides.strides[0], slides.dilations[0], slides.pads[0]
    inner, taps = x.shape[1], weight.shape[2]
    kernels = weight.reshape(weight.shape[0], -1, *weight.shape[3:])
    flat = golden.Slides(slides.strides[1:], slides.pads[1:], slides.dilations[1:], slides.groups)
    for place in range(out.shape[2]):
        seen = np.zeros((x.shape[0], inner, taps, *x.shape[3:]), x.dtype)
        for tap in range(taps):
            depth = place * stride + tap * dilation - before
            if 0 <= depth < x.shape[2]:
                seen[:, :, tap] = x[:, :, depth]
        plane = np.empty((*out.shape[:2], *out.shape[3:]), out.dtype)
        convolve(seen.reshape(x.shape[0], inner * taps, *x.shape[3:]), kernels, channels, flat, plane)
        out[:, :, place] = plane


def run_convolution(x: Array, weight: Array, channels: Channels, out: Array, geometry: Geometry) -> None:
    """Convolve over two axes into `out`, which is contiguous."""
    if out.size == 0:
        return
    images, kernels = np.ascontiguousarray(x), np.ascontiguousarray(weight)
    bias, gain, offset = (
        None if one is None else address(one) for one in (channels.bias, channels.gain, channels.offset)
    )
    given = Convolution(
        element=Element.of(images),
        unrounded=out.dtype == np.float64,
        winograd=geometry.winograd,
        batch=images.shape[0],
        groups=geometry.groups,
        rows=kernels.shape[0] // geometry.groups,
        channels=kernels.shape[1],
        height=images.shape[2],
        width=images.shape[3],
        kernel_height=kernels.shape[2],
        kernel_width=kernels.shape[3],
        stride_height=geometry.strides[0],
        stride_width=geometry.strides[1],
        dilation_height=geometry.dilations[0],
        dilation_width=geometry.dilations[1],
        pad_top=geometry.before[0],
        pad_left=geometry.before[1],
        out_height=geometry.out[0],
        out_width=geometry.out[1],
        images=address(images),
        kernels=address(kernels),
        bias=bias,
        gain=gain,
        offset=offset,
        gain_row=1,
        out=address(out),
    )
    call("aneforge_run_convolution", ctypes.byref(given))

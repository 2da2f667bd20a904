"""Independent implementations of convolution: torch; the transpose as torch's derivative of the convolution."""

from itertools import count
from typing import TypedDict, Unpack

import numpy as np
import torch
from torch.nn import functional

from oracle_tools import Array, Oracle, array, tensor

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class Options(TypedDict):
    """The attributes of a convolution."""

    strides: tuple[int, ...] | None
    pad_type: str
    pad: tuple[int, ...] | None
    dilations: tuple[int, ...] | None
    groups: int


def padding(extents: list[int], reaches: list[int], strides: list[int], options: Options) -> list[int]:
    """Return before and after for every axis; for same, the first total that is enough, found by trying."""
    if options["pad_type"] == "custom":
        return list(options["pad"] or [0] * (2 * len(extents)))
    flat: list[int] = []
    for extent, reach, stride in zip(extents, reaches, strides, strict=True):
        wanted = len(range(0, extent, stride))
        totals = [0] if options["pad_type"] == "valid" else count()
        enough = (total for total in totals if len(range(0, extent + total - reach + 1, stride)) >= wanted)
        total = next(enough, 0)
        small = total // 2
        flat += [total - small, small] if options["pad_type"] == "same_lower" else [small, total - small]
    return flat


def forward(x: torch.Tensor, weight: torch.Tensor, options: Options) -> torch.Tensor:
    axes = x.ndim - 2
    strides, dilations = list(options["strides"] or [1] * axes), list(options["dilations"] or [1] * axes)
    reaches = [gap * (length - 1) + 1 for gap, length in zip(dilations, weight.shape[2:], strict=True)]
    flat = padding(list(x.shape[2:]), reaches, strides, options)
    last_first = [value for axis in reversed(range(axes)) for value in flat[2 * axis : 2 * axis + 2]]
    return CONVOLUTIONS[axes](
        functional.pad(x, last_first), weight, stride=strides, dilation=dilations, groups=options["groups"]
    )


def real(values: Array) -> torch.Tensor:
    """Return an array in double precision, in which integers of a sample add up exactly."""
    return tensor(values.astype(np.float64))


def finished(result: torch.Tensor, bias: Array | None, dtype: np.dtype[np.generic]) -> Array:
    """Add the bias, and wrap integers into their own type."""
    values = array(result)
    if bias is not None:
        values = values + array(real(bias)).reshape(1, -1, *[1] * (values.ndim - 2))
    if dtype == np.float64:
        return values
    half = 1 << (8 * dtype.itemsize - 1)
    wrapped = [(round(value) + half) % (2 * half) - half for value in values.ravel().tolist()]
    return np.array(wrapped, dtype).reshape(values.shape)


def conv(x: Array, weight: Array, bias: Array | None, **options: Unpack[Options]) -> Array:
    return finished(forward(real(x), real(weight), options), bias, x.dtype)


def conv_transpose(
    x: Array, weight: Array, bias: Array | None, *, output_shape: tuple[int, ...] | None, **options: Unpack[Options]
) -> Array:
    spatial = [usual_extent(axis, x, weight, options) for axis in range(x.ndim - 2)]
    start = torch.zeros(
        output_shape or (x.shape[0], weight.shape[1] * options["groups"], *spatial),
        dtype=torch.float64,
        requires_grad=True,
    )
    image = forward(start, real(weight), options)
    (result,) = torch.autograd.grad(image, start, real(x))
    return finished(result, bias, x.dtype)


def usual_extent(axis: int, x: Array, weight: Array, options: Options) -> int:
    stride = options["strides"][axis] if options["strides"] else 1
    dilation = options["dilations"][axis] if options["dilations"] else 1
    if options["pad_type"].startswith("same"):
        return x.shape[2 + axis] * stride
    taken = sum(options["pad"][2 * axis : 2 * axis + 2]) if options["pad"] else 0
    return (x.shape[2 + axis] - 1) * stride - taken + dilation * (weight.shape[2 + axis] - 1) + 1


ORACLES: dict[str, Oracle] = {
    "conv": conv,
    "ne_conv": conv,
    "dynamic_conv": conv,
    "conv_transpose": conv_transpose,
}

"""Transposed convolutions of fp16, as `golden.deconvolution` has them: a convolution for every remainder by the stride.

The golden model sets zeros between the elements of images. A result at a place sees only the taps whose distance to it
is a multiple of the stride, so results of one remainder are a convolution of the images themselves with those taps,
in the same order; what is left out are products with zero, which add nothing.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine import golden
from aneforge.engine.kernels.arrays import from_golden
from aneforge.engine.kernels.convolution import convolution, convolution_total
from aneforge.engine.kernels.elements import to_fp16
from aneforge.engine.kernels.library import available
from aneforge.engine.rounding import to_grid
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from aneforge.engine.golden import Window

    Array = npt.NDArray[Any]

__all__ = ["deconvolution", "deconvolution_total"]


@dataclass(frozen=True, slots=True)
class Remainder:
    """Results of one remainder along one axis: where they are, which taps they see, and how those go over images."""

    places: slice
    taps: list[int]
    """In the order of the golden model, the last tap first."""
    dilation: int
    first: int
    """Where the first result's first tap falls on the images; negative in front of them."""
    count: int

    @classmethod
    def of(cls, number: int, length: int, extent: int, stride: int, dilation: int, before: int) -> Remainder:
        """Return the results whose place plus the padding leaves a remainder by the stride."""
        begin = (number - before) % stride
        count = max(-(-(extent - begin) // stride), 0)
        taps = [tap for tap in reversed(range(length)) if tap * dilation % stride == number]
        reach = (taps[0] * dilation - number) // stride if taps else 0
        first = (begin + before - number) // stride - reach
        return cls(slice(begin, extent, stride), taps, dilation // math.gcd(dilation, stride), first, count)

    def padding(self, extent: int) -> tuple[int, int]:
        """Return what to put around images of an extent; negative numbers cut them."""
        span = self.dilation * (len(self.taps) - 1)
        return -self.first, self.first + self.count + span - extent


def deconvolution(
    x: Array, weight: Array, bias: Array | None = None, *, extents: Sequence[int], **window: Unpack[Window]
) -> Array:
    """Return the transpose of a convolution: images [N, C, …] and kernels [C, Cout / groups, …].

    `extents` are the lengths of the result's axes.

    >>> images, kernels = np.array([[[1.0, 2.0]]], np.float16), np.array([[[1.0, 10.0]]], np.float16)
    >>> deconvolution(images, kernels, stride=2, extents=[4]).ravel().tolist()
    [1.0, 10.0, 2.0, 20.0]

    Raises:
        GraphError: The groups do not divide the channels, or the bias is not one number for every output channel.
        GraphTypeError: An operand is not fp16.
    """
    if not available() or begins_below_zero(bias):
        total = golden.deconvolution_sum(x, weight, bias, extents=extents, **window)
        return from_golden(total.result(), x)
    return by_remainders(x, weight, bias, extents, window, convolution, np.float16)


def deconvolution_total(
    x: Array, weight: Array, bias: Array | None = None, *, extents: Sequence[int], **window: Unpack[Window]
) -> Array:
    """Return the sums of `deconvolution` in float64, before they are rounded on their way out.

    >>> images, kernels = np.full((1, 1, 1), 2049.0, np.float16), np.ones((1, 1, 1), np.float16)
    >>> deconvolution_total(images, kernels, np.array([0.5]), extents=[1]).item()
    2048.5

    Raises:
        GraphError: As `deconvolution`.
        GraphTypeError: An operand is not fp16.
    """
    if not available() or begins_below_zero(bias):
        return golden.deconvolution_sum(x, weight, bias, extents=extents, **window).total()
    return by_remainders(x, weight, bias, extents, window, convolution_total, np.float64)


def begins_below_zero(bias: Array | None) -> bool:
    """Return whether a sum begins at −0: then the zeros that the golden model adds decide about its sign."""
    return bias is not None and bool((np.signbit(bias) & (to_grid(bias, golden.PRODUCT_GRID) == 0)).any())


def by_remainders(
    x: Array,
    weight: Array,
    bias: Array | None,
    extents: Sequence[int],
    window: Window,
    convolve: Callable[..., Array],
    dtype: type[np.float16 | np.float64],
) -> Array:
    """Convolve for every remainder along every axis, and put the results in their places."""
    slides = golden.Slides.of(weight.ndim - 2, **window)
    channels, outer, *kernel = weight.shape
    groups = slides.groups
    by_group = weight.reshape(groups, channels // groups, outer, *kernel)
    kernels = np.swapaxes(by_group, 1, 2).reshape(groups * outer, channels // groups, *kernel)
    out = np.empty((x.shape[0], groups * outer, *extents), dtype)
    along = [
        [Remainder.of(number, length, extent, stride, dilation, before) for number in range(stride)]
        for length, extent, stride, dilation, (before, _) in zip(
            kernel, extents, slides.strides, slides.dilations, slides.pads, strict=True
        )
    ]
    empty = partial(np.full, dtype=dtype)
    for parts in itertools.product(*along):
        if not all(part.count for part in parts):
            continue
        index = (..., *(part.places for part in parts))
        if not all(part.taps for part in parts):
            out[index] = empty(out[index].shape, 0) if bias is None else alone(bias, out[index], dtype)
            continue
        seen = kernels[np.ix_(range(len(kernels)), range(kernels.shape[1]), *(part.taps for part in parts))]
        pads = [part.padding(extent) for part, extent in zip(parts, x.shape[2:], strict=True)]
        cut = [slice(max(-front, 0), min(behind, 0) or None) for front, behind in pads]
        grown = [(max(front, 0), max(behind, 0)) for front, behind in pads]
        out[index] = convolve(
            x[(..., *cut)], seen, bias, pad=grown, dilation=[part.dilation for part in parts], groups=groups
        )
    return out


def alone(bias: Array, like: Array, dtype: type[np.float16 | np.float64]) -> Array:
    """Return results that no tap reaches: the bias as a sum that ends where it starts."""
    start = np.broadcast_to(golden.bias_operand(bias).reshape(-1, *(1,) * (like.ndim - 2)), like.shape)
    total = golden.accumulate((), start)
    return total if dtype is np.float64 else to_fp16(golden.round_out(total))

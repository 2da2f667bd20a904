"""Operations on integers whose meanings move elements as the launches of meanings cannot: convolutions and einsum.

Their sums wrap, so what is computed in another order has the bits of the meaning (`ops.groups.convolution`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from aneforge.engine.cuda.integer_products import convolve, multiply_labels
from aneforge.engine.cuda.meanings import Meant, as_meant, moved
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.groups.convolution import conv_transpose_type
from aneforge.ops.types import TensorType
from aneforge.ops.windows import slides, window_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.cuda.primitives import Builder
    from aneforge.engine.cuda.tensors import Tensor
    from aneforge.ops.windows import ConvAttributes, Slide, TransposeAttributes

    Array = npt.NDArray[Any]
    Value = Tensor | Array

__all__ = ["OF_INTEGERS"]


def with_bias(found: Tensor, bias: Value | None) -> Tensor:
    """Return a result with the bias of every channel added."""
    if bias is None:
        return found
    return cast("Meant", Meant(found) + reshape_along(cast("Any", as_meant(found.builder, bias)), found.ndim)).tensor


def convolution(
    builder: Builder, x: Value, weight: Value, bias: Value | None, **attributes: Unpack[ConvAttributes]
) -> Tensor:
    """Lay out a convolution."""
    along = slides(x.shape[2:], weight.shape[2:], window_attributes(attributes))
    around = [(slide.before, max(slide.reach - slide.before - slide.extent, 0)) for slide in along]

    def with_borders(places: Array) -> Array:
        return np.pad(places, [(0, 0), (0, 0), *around])

    images, kernels = as_meant(builder, x), as_meant(builder, weight)
    padded = moved(with_borders, images) if np.any(around) else images
    return with_bias(convolve(padded.tensor, kernels.tensor, along, attributes["groups"]), bias)


def transposed_convolution(
    builder: Builder, x: Value, weight: Value, bias: Value | None, **attributes: Unpack[TransposeAttributes]
) -> Tensor:
    """Lay out a convolution backwards: of images that are set apart with kernels turned round."""
    groups = attributes["groups"]
    channels, outer, *kernel = weight.shape
    kinds = [TensorType(one.shape, "fp64") for one in (x, weight)]
    extents = conv_transpose_type(kinds[0], kinds[1], None, **attributes).shape[2:]
    along = slides(extents, kernel, window_attributes(attributes))

    def flip_kernels(places: Array) -> Array:
        by_group = np.swapaxes(places.reshape(groups, channels // groups, outer, *kernel), 1, 2)
        return np.flip(by_group, tuple(range(3, by_group.ndim))).reshape(groups * outer, channels // groups, *kernel)

    images = moved(partial(set_apart, along=along), as_meant(builder, x))
    plain = slides(
        images.shape[2:],
        kernel,
        {"strides": None, "dilations": attributes.get("dilations"), "pad_type": "valid", "pad": None},
    )
    kernels = moved(flip_kernels, as_meant(builder, weight))
    return with_bias(convolve(images.tensor, kernels.tensor, plain, groups), bias)


def set_apart(x: Array, along: Sequence[Slide]) -> Array:
    """Return images whose elements are a stride apart, with what their kernels reach around those of a result."""
    spans = [slide.span - 1 for slide in along]
    room = [
        max(slide.before + slide.extent + span, span + (extent - 1) * slide.stride + 1)
        for slide, span, extent in zip(along, spans, x.shape[2:], strict=True)
    ]
    spread = np.zeros((*x.shape[:2], *room), x.dtype)
    ends = [
        span + (extent - 1) * slide.stride + 1 for slide, span, extent in zip(along, spans, x.shape[2:], strict=True)
    ]
    spread[(..., *(slice(span, end, one.stride) for span, end, one in zip(spans, ends, along, strict=True)))] = x
    kept = (slice(one.before, one.before + one.extent + span) for one, span in zip(along, spans, strict=True))
    return spread[(..., *kept)]


def einsum(builder: Builder, values: Sequence[Value], *, equation: str) -> Tensor:
    """Lay out a sum of products by labels."""
    first, second = (as_meant(builder, value).tensor for value in values)
    return multiply_labels(first, second, equation, first.dtype)


OF_INTEGERS: Mapping[str, Callable[..., Tensor]] = {
    **dict.fromkeys(("conv", "dynamic_conv", "ne_conv"), convolution),
    "conv_transpose": transposed_convolution,
    "einsum": einsum,
}
"""Operations by their names: functions of a builder, operands in order and all attributes."""

"""Convolution and its transpose, over one to three spatial axes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import reshape_along, wide
from aneforge.ops.attributed import plain_attributes
from aneforge.ops.common import LIKELY_F0
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import Product
from aneforge.ops.sampling import NUMBERS_AND_INT8, Chooser, Fill, Sample
from aneforge.ops.shapes import common_dtype, expect_number, expect_one_each, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind
from aneforge.ops.types import Array, TensorType
from aneforge.ops.windows import (
    DILATIONS,
    PAD,
    PAD_TYPE,
    STRIDES,
    ConvAttributes,
    TransposeAttributes,
    draw_windows,
    one_each,
    pad_pairs,
    slides,
    window_attributes,
    windows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.ops.forms import Details

CATEGORY = Category.LAYER
GROUPS = Attribute("groups", AttributeKind.INTEGER, 1, least=1)
OUTPUT_SHAPE = Attribute("output_shape", AttributeKind.INTEGERS, None, least=1)
TRANSPOSE_PAD_TYPE = replace(PAD_TYPE, choices=("valid", "same", "custom"))
CONVOLUTION = frozenset({Trait.CONVOLUTION})
WEIGHTED = Product("x", "weight")
SUMMARY = "y[n, o, p] = bias[o] + Σ weight[o, c, k] · x[n, c, p · strides + k · dilations − pad]"


def expect_groups(x: TensorType, weight: TensorType, groups: int) -> None:
    """Check the ranks, and that the groups share out the input channels.

    Raises:
        GraphError: A rank is wrong, or channels are left over.
    """
    expect_rank(x, 3, 4, 5)
    expect_rank(weight, x.rank, what="weight")
    if x.shape[1] % groups:
        raise GraphError(
            "groups do not divide the input channels", seen=f"{x.shape[1]} channels", limit=f"a multiple of {groups}"
        )


def conv_type(
    x: TensorType, weight: TensorType, bias: TensorType | None, **attributes: Unpack[ConvAttributes]
) -> TensorType:
    """Return the type of a convolution's result."""
    groups = attributes["groups"]
    dtype = common_dtype(x, weight, bias)
    expect_number(x)
    expect_groups(x, weight, groups)
    channels, kernel_channels, *kernel = weight.shape
    if kernel_channels != x.shape[1] // groups:
        raise GraphError(
            f"KernelChannels ({kernel_channels}) != InputChannels ({x.shape[1]}) / groups ({groups})",
            remedy=f"give a weight of shape [output channels, {x.shape[1] // groups}, *kernel]",
        )
    if channels % groups:
        raise GraphError(
            "groups do not divide the output channels", seen=f"{channels} channels", limit=f"a multiple of {groups}"
        )
    expect_one_each(bias, channels, "output channel", "bias")
    expect_kernel(kernel)
    along = slides(x.shape[2:], kernel, window_attributes(attributes))
    return TensorType((x.shape[0], channels, *(slide.places for slide in along)), dtype)


def expect_kernel(kernel: Sequence[int]) -> None:
    """Check that a kernel has elements.

    Raises:
        GraphError: It has none.
    """
    if 0 in kernel:
        raise GraphError("the kernel has no elements", seen=list(kernel), limit="at least 1 along every axis")


def with_bias(result: Array, bias: Array | None, dtype: np.dtype[np.generic]) -> Array:
    """Return a result with the bias of every channel added, in the element type of the operation."""
    if bias is not None:
        result = result + reshape_along(wide(bias), result.ndim)
    return result.astype(dtype, copy=False)


def convolved(x: Array, weight: Array, bias: Array | None, **attributes: Unpack[ConvAttributes]) -> Array:
    """Convolve, as one matrix product for every image and group: what the windows see, gathered into columns."""
    groups = attributes["groups"]
    channels, inner, *kernel = weight.shape
    along = slides(x.shape[2:], kernel, window_attributes(attributes))
    places = [slide.places for slide in along]
    seen = windows_of(wide(x), along)  # [batch, channel, *places, *kernel]
    spatial = len(kernel)
    images = np.moveaxis(seen, range(2, 2 + spatial), range(-spatial, 0))
    matrices = wide(weight).reshape(groups, channels // groups, inner * math.prod(kernel))
    result = np.empty((x.shape[0], channels, *places), seen.dtype)
    for image, into in zip(images, result, strict=True):
        columns = image.reshape(groups, inner * math.prod(kernel), math.prod(places))
        into[...] = np.matmul(matrices, columns).reshape(into.shape)
    return with_bias(result, bias, x.dtype)


def conv_macs(x: TensorType, weight: TensorType, bias: TensorType | None, **attributes: Unpack[ConvAttributes]) -> int:
    """Return the multiply-accumulates of a convolution, those on padding counted."""
    return conv_type(x, weight, bias, **attributes).size * math.prod(weight.shape[1:])


def sample_conv(chooser: Chooser) -> Sample:
    """Draw a convolution: dense, grouped or of single channels."""
    windows = draw_windows(chooser, dilated=True, pad_below_window=False)
    groups, inner, outer = chooser.integer(1, 3), chooser.integer(1, 3), chooser.integer(1, 2)
    dtype = chooser.choose(NUMBERS_AND_INT8)
    bias = chooser.choose([None, Fill(TensorType((groups * outer,), dtype))])
    return Sample(
        {
            "x": Fill(TensorType((chooser.integer(1, 2), groups * inner, *windows.extents), dtype)),
            "weight": Fill(TensorType((groups * outer, inner, *windows.window), dtype)),
            "bias": bias,
        },
        {**plain_attributes(windows.attributes), "groups": groups},
    )


def transposed_extents(x: TensorType, kernel: list[int], attributes: TransposeAttributes) -> Iterator[tuple[int, int]]:
    """Return the least and the largest length of every spatial axis that a convolution would take back to x."""
    count = x.rank - 2
    strides = one_each("strides", attributes["strides"], count)
    dilations = one_each("dilations", attributes.get("dilations"), count)
    pads = pad_pairs(attributes["pad_type"], attributes["pad"], count)
    for extent, length, stride, dilation, pad in zip(x.shape[2:], kernel, strides, dilations, pads, strict=True):
        if pad is None:
            yield (extent - 1) * stride + 1, extent * stride
        else:
            least = (extent - 1) * stride + dilation * (length - 1) + 1 - sum(pad)
            yield least, least + stride - 1


def conv_transpose_type(
    x: TensorType, weight: TensorType, bias: TensorType | None, **attributes: Unpack[TransposeAttributes]
) -> TensorType:
    """Return the type of a transposed convolution's result."""
    groups = attributes["groups"]
    dtype = common_dtype(x, weight, bias)
    expect_number(x)
    expect_groups(x, weight, groups)
    kernel_channels, outer, *kernel = weight.shape
    if kernel_channels != x.shape[1]:
        raise GraphError(
            f"KernelChannels ({kernel_channels}) != InputChannels ({x.shape[1]})",
            remedy=f"give a weight of shape [{x.shape[1]}, output channels / groups, *kernel]",
        )
    expect_one_each(bias, outer * groups, "output channel", "bias")
    expect_kernel(kernel)
    ranges = list(transposed_extents(x, kernel, attributes))
    same = attributes["pad_type"] == "same"
    usual = (x.shape[0], outer * groups, *(most if same else least for least, most in ranges))
    asked = usual if attributes["output_shape"] is None else attributes["output_shape"]
    if asked is usual and min(usual[2:]) < 1:
        raise GraphError("the padding leaves nothing of the result", seen=list(usual), limit="at least 1 along an axis")
    allowed = [(x.shape[0],) * 2, (outer * groups,) * 2, *ranges]
    if len(asked) != x.rank or any(not low <= one <= high for one, (low, high) in zip(asked, allowed, strict=True)):
        shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in allowed)
        raise GraphError("no convolution takes output_shape back to x", seen=list(asked), limit=f"[{shown}]")
    return TensorType(asked, dtype)


def conv_transposed(x: Array, weight: Array, bias: Array | None, **attributes: Unpack[TransposeAttributes]) -> Array:
    """Convolve backwards: each element of x spreads the kernel, and what overlaps is added.

    The product with all taps is one matrix product for every image; each tap is then added at its places.
    """
    groups = attributes["groups"]
    channels, outer, *kernel = weight.shape
    kinds = [TensorType(array.shape, "fp64") for array in (x, weight)]
    result_shape = conv_transpose_type(kinds[0], kinds[1], None, **attributes).shape
    along = slides(result_shape[2:], kernel, window_attributes(attributes))
    matrices = np.swapaxes(
        wide(weight).reshape(groups, channels // groups, outer * math.prod(kernel)), 1, 2
    )  # [group, output channel and tap, input channel]
    columns = wide(x).reshape(x.shape[0], groups, channels // groups, math.prod(x.shape[2:]))
    taps = np.matmul(matrices, columns).reshape(x.shape[0], groups * outer, *kernel, *x.shape[2:])
    room = [max(slide.reach, slide.before + slide.extent) for slide in along]
    spread = np.zeros((x.shape[0], groups * outer, *room), taps.dtype)
    for tap in np.ndindex(*kernel):
        starts = [offset * slide.dilation for offset, slide in zip(tap, along, strict=True)]
        places = [
            slice(start, start + (slide.places - 1) * slide.stride + 1, slide.stride)
            for start, slide in zip(starts, along, strict=True)
        ]
        spread[(..., *places)] += taps[(slice(None), slice(None), *tap)]
    kept = spread[(..., *(slice(slide.before, slide.before + slide.extent) for slide in along))]
    return with_bias(kept, bias, x.dtype)


def conv_transpose_macs(
    x: TensorType, weight: TensorType, _bias: TensorType | None, **_attributes: Unpack[TransposeAttributes]
) -> int:
    """Return the multiply-accumulates of a transposed convolution: each element of x times the kernels it meets."""
    return x.size * math.prod(weight.shape[1:])


def sample_conv_transpose(chooser: Chooser) -> Sample:
    """Draw a transposed convolution, with every result shape that it may have."""
    windows = draw_windows(chooser, dilated=True, pad_below_window=False, pad_type_attribute=TRANSPOSE_PAD_TYPE)
    groups, inner, outer = chooser.integer(1, 2), chooser.integer(1, 3), chooser.integer(1, 2)
    dtype = chooser.choose(NUMBERS_AND_INT8)
    batch = chooser.integer(1, 2)
    # The drawn lengths are those of the result; leaving output_shape out then asks for the usual length, which may be
    # another one, and which is nothing where the padding takes all.
    along = slides(windows.extents, windows.window, windows.attributes)
    usual_exists = all(slide.reach > slide.before + slide.after for slide in along)
    given = not usual_exists or chooser.choose([True, False])
    output_shape = (batch, groups * outer, *windows.extents) if given else None
    bias = chooser.choose([None, Fill(TensorType((groups * outer,), dtype))])
    return Sample(
        {
            "x": Fill(TensorType((batch, groups * inner, *(slide.places for slide in along)), dtype)),
            "weight": Fill(TensorType((groups * inner, outer, *windows.window), dtype)),
            "bias": bias,
        },
        {**plain_attributes(windows.attributes), "groups": groups, "output_shape": output_shape},
    )


def convolution(name: str, weight: OperandKind = OperandKind.EITHER, **details: Unpack[Details]) -> Op:
    """Return a convolution; its forms differ in where the kernel comes from."""
    details["traits"] = CONVOLUTION | {Trait.FORWARD_CONVOLUTION}
    details["product"] = WEIGHTED
    details["gradient"] = lambda: gradients.multiplying.CONVOLUTION
    return Op(
        name=name,
        category=CATEGORY,
        summary=SUMMARY,
        operands=(Operand("x"), Operand("weight", weight), Operand("bias", optional=True)),
        attributes=(STRIDES, PAD_TYPE, PAD, DILATIONS, GROUPS),
        infer=conv_type,
        meaning=convolved,
        macs=conv_macs,
        sample=sample_conv,
        **details,
    )


CONV = convolution(
    "conv",
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.products.BIAS_ADDED, decompositions.strides.BLOCKS),
    in_mil=True,
)
NE_CONV = convolution(
    "ne_conv",
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.products.PLAIN_CONVOLUTION, decompositions.strides.BLOCKS),
    in_mil=True,
)
DYNAMIC_CONV = convolution(
    "dynamic_conv",
    OperandKind.TENSOR,
    surface=Surface.FUSED,
    mil="conv",
    catalogued=False,
    decompositions=lambda: (decompositions.products.BIAS_ADDED, decompositions.strides.BLOCKS),
    in_mil=True,
)
CONV_TRANSPOSE = Op(
    name="conv_transpose",
    category=CATEGORY,
    summary="the transpose of conv: y[n, o, p · strides + k · dilations − pad] += weight[c, o, k] · x[n, c, p]",
    operands=(Operand("x"), Operand("weight"), Operand("bias", optional=True)),
    attributes=(STRIDES, TRANSPOSE_PAD_TYPE, PAD, OUTPUT_SHAPE, DILATIONS, GROUPS),
    infer=conv_transpose_type,
    meaning=conv_transposed,
    macs=conv_transpose_macs,
    sample=sample_conv_transpose,
    surface=Surface.FUSED,
    traits=CONVOLUTION,
    product=WEIGHTED,
    decompositions=lambda: (decompositions.products.CONVOLUTION_OF_ZEROS, decompositions.products.BIAS_ADDED),
    in_mil=True,
    gradient=lambda: gradients.multiplying.CONV_TRANSPOSE,
)

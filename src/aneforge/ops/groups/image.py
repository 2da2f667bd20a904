"""Images: resizing, transfer functions, and the way in and out of a pixel buffer.

An image is the last two axes, height and width; only `resize` takes any number of last axes. The sampling modes are
defined in `aneforge.ops.interpolation`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import LIKELY_BRIDGE_F0, LIKELY_BRIDGE_F2, SHAPE
from aneforge.ops.forms import Domain, unary
from aneforge.ops.interpolation import (
    SAMPLING_MODES,
    bilinear,
    grid_points,
    linear_along,
    nearest_indices,
    upsampling_points,
)
from aneforge.ops.op import Category, MilStatus, Op, Support, Surface, Trait
from aneforge.ops.results import Codomain, Movement, Taking
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_shape, draw_type
from aneforge.ops.shapes import expect_elements, expect_float, expect_least_rank, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = Category.IMAGE

RESIZE = Support(floor=2, mil_since=3, mil_otherwise=MilStatus.SOFTWARE)

TARGET_SIZE = (
    Attribute("target_size_height", AttributeKind.INTEGER, least=1),
    Attribute("target_size_width", AttributeKind.INTEGER, least=1),
)
TARGET_SIZE_OR_ONE = tuple(replace(attribute, default=1) for attribute in TARGET_SIZE)
SCALE_FACTORS = (
    Attribute("scale_factor_height", AttributeKind.NUMBER, 1.0, finite=True),
    Attribute("scale_factor_width", AttributeKind.NUMBER, 1.0, finite=True),
)
SAMPLING_MODE = Attribute("sampling_mode", AttributeKind.TEXT, "DEFAULT", choices=SAMPLING_MODES)


# Shape rules.


def expect_image(x: TensorType) -> None:
    """Check that a tensor has an axis before height and width, and that the image is not empty.

    Raises:
        GraphError: It has not, or it is.
    """
    expect_least_rank(x, 3, "[..., channels, height, width]")
    expect_elements(x, (-2, -1), "sampled")


def resized_shape(old: tuple[int, ...], shape: tuple[int, ...], resized_dims: int) -> tuple[int, ...]:
    """Return a shape whose last axes are taken from the end of another; a 0 there stands for the axis' own length.

    >>> resized_shape((2, 3, 4, 5), (9, 0, 8), 2)
    (2, 3, 4, 8)

    Raises:
        GraphError: There are fewer axes, or fewer lengths, than are to be resized.
    """
    if resized_dims > len(old):
        raise GraphError("x has fewer axes than must be resized", seen=resized_dims, limit=len(old))
    if resized_dims > len(shape):
        raise GraphError("shape has fewer lengths than axes to resize", seen=len(shape), limit=resized_dims)
    wished = zip(old[-resized_dims:], shape[-resized_dims:], strict=True)
    return (*old[:-resized_dims], *(new or extent for extent, new in wished))


def resize_type(
    x: TensorType, *, shape: tuple[int, ...], resized_dims: int, interpolation_mode: str, **_: object
) -> TensorType:
    """Return the type of a tensor whose last axes are brought to other lengths."""
    result = x.with_shape(*resized_shape(x.shape, shape, resized_dims))
    expect_elements(x, range(-resized_dims, 0), "sampled")
    if interpolation_mode == "LINEAR":
        expect_float(x)
    return result


def nearest_type(x: TensorType, target_size_height: int, target_size_width: int) -> TensorType:
    """Return the type of an image brought to a size by repeating elements."""
    expect_image(x)
    return x.with_shape(*x.shape[:-2], target_size_height, target_size_width)


def bilinear_type(x: TensorType, target_size_height: int, target_size_width: int, **_: object) -> TensorType:
    """Return the type of an image brought to a size bilinearly."""
    expect_image(x)
    expect_float(x)
    return x.with_shape(*x.shape[:-2], target_size_height, target_size_width)


def scaled_extent(what: str, extent: int, factor: float) -> int:
    """Return an extent times a factor, the product taken in single precision, as MIL does it, and rounded down.

    Raises:
        GraphError: Nothing is left, or more than there are numbers.
    """
    with np.errstate(over="ignore"):
        product = float(np.float32(extent) * np.float32(factor))
    if product == math.inf:
        raise GraphError(f"the scale factor makes the {what} too large", seen=factor)
    scaled = math.floor(product)
    if scaled < 1:
        raise GraphError(
            f"the scale factor leaves no {what}",
            seen=factor,
            limit=f"{extent} times it is 1 or more in single precision",
        )
    return scaled


def upsampled_type(x: TensorType, scale_factor_height: float, scale_factor_width: float, **_: object) -> TensorType:
    """Return the type of an image whose height and width are multiplied, rounded down."""
    expect_image(x)
    height = scaled_extent("height", x.shape[-2], scale_factor_height)
    width = scaled_extent("width", x.shape[-1], scale_factor_width)
    return x.with_shape(*x.shape[:-2], height, width)


def bilinear_upsampled_type(x: TensorType, **attributes: Unpack[Upsampling]) -> TensorType:
    """Return the type of an image upsampled bilinearly."""
    expect_float(x)
    return upsampled_type(x, attributes["scale_factor_height"], attributes["scale_factor_width"])


def repeated_type(x: TensorType, scale: int) -> TensorType:
    """Return the type of an image of which every element is repeated."""
    expect_image(x)
    return x.with_shape(*x.shape[:-2], x.shape[-2] * scale, x.shape[-1] * scale)


class Upsampling(TypedDict):
    """The attributes of upsample_bilinear."""

    scale_factor_height: float
    scale_factor_width: float
    align_corners: bool
    half_pixel_centers: bool | None


def buffer_tensor_type(x: TensorType) -> TensorType:
    """Return the type of the tensor in a pixel buffer."""
    expect_rank(x, 4)
    if x.dtype != "uint8":
        raise GraphError("a pixel buffer holds bytes", seen=x.dtype, limit="uint8")
    return x.with_dtype("fp16")


def pixel_buffer_type(x: TensorType) -> TensorType:
    """Return the type of the pixel buffer that a tensor goes into."""
    expect_rank(x, 4)
    expect_float(x)
    return x.with_dtype("uint8")


# Meanings.


def resize(x: Array, shape: tuple[int, ...], resized_dims: int, interpolation_mode: str, sampling_mode: str) -> Array:
    """Read the last axes at `grid_points` of each, between elements or at the nearest.

    An axis that keeps its length is read so too, which changes it in the mode OFFSET_CORNERS.
    """
    wished = resized_shape(x.shape, shape, resized_dims)
    result = x
    for axis in range(-resized_dims, 0):
        if interpolation_mode == "LINEAR":
            result = linear_along(result, axis, grid_points(x.shape[axis], wished[axis], sampling_mode))
        else:
            result = np.take(result, nearest_indices(x.shape[axis], wished[axis], sampling_mode), axis)
    return result


def resize_bilinear(x: Array, target_size_height: int, target_size_width: int, sampling_mode: str) -> Array:
    """Read an image at `grid_points` of rows and columns."""
    rows = grid_points(x.shape[-2], target_size_height, sampling_mode)
    return bilinear(x, rows, grid_points(x.shape[-1], target_size_width, sampling_mode))


def resize_nearest(x: Array, target_size_height: int, target_size_width: int) -> Array:
    """Take element ⌊i · extent / count⌋ of rows and of columns."""
    return resize(x, (target_size_height, target_size_width), 2, "NEAREST_NEIGHBOR", "DEFAULT")


def upsample_bilinear(x: Array, **attributes: Unpack[Upsampling]) -> Array:
    """Read an image at `upsampling_points` of rows and columns."""
    factors = attributes["scale_factor_height"], attributes["scale_factor_width"]
    rows, columns = (
        upsampling_points(
            extent,
            scaled_extent("size", extent, factor),
            align_corners=attributes["align_corners"],
            half_pixel_centers=attributes["half_pixel_centers"],
        )
        for extent, factor in zip(x.shape[-2:], factors, strict=True)
    )
    return bilinear(x, rows, columns)


def upsample_nearest(x: Array, scale_factor_height: float, scale_factor_width: float) -> Array:
    """Take element ⌊i · extent / count⌋ of rows and of columns."""
    height = scaled_extent("height", x.shape[-2], scale_factor_height)
    return resize_nearest(x, height, scaled_extent("width", x.shape[-1], scale_factor_width))


def upsample(x: Array, scale: int) -> Array:
    """Repeat every element along both axes."""
    return np.repeat(np.repeat(x, scale, -2), scale, -1)


def encoded(x: Array) -> Array:
    """Return linear light as sRGB encodes it: a straight line near 0, then a power."""
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 0) ** (1 / 2.4) - 0.055)


def decoded(x: Array) -> Array:
    """Return the linear light that sRGB encodes as x."""
    return np.where(x <= 0.04045, x / 12.92, ((np.maximum(x, 0) + 0.055) / 1.055) ** 2.4)


def from_buffer(x: Array) -> Array:
    """Return bytes as the numbers that they are."""
    return x.astype(np.float64)


def to_buffer(x: Array) -> Array:
    """Return numbers as the nearest bytes, a half up; what is out of range becomes 0 or 255, and NaN becomes 0."""
    whole = np.floor(x)
    return np.nan_to_num(np.clip(whole + (x - whole >= 0.5), 0, 255)).astype(np.uint8)


# Samples.


def draw_image(chooser: Chooser, dtypes: tuple[str, ...] = FLOATS) -> TensorType:
    """Draw the type of an image, with one to three axes before height and width."""
    return TensorType(
        (*draw_shape(chooser, 1, 3, longest=2), *draw_shape(chooser, 2, 2, longest=6)), chooser.choose(dtypes)
    )


def draw_target_size(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a size to resize to."""
    return {"target_size_height": chooser.integer(1, 8), "target_size_width": chooser.integer(1, 8)}


def sample_resize(chooser: Chooser) -> Sample:
    """Draw a call of resize: one to three last axes, of which some keep their length, and a longer shape."""
    mode = chooser.choose(["LINEAR", "NEAREST_NEIGHBOR"])
    dtypes = FLOATS if mode == "LINEAR" else ("fp16", "int32", "uint8")
    x = draw_type(chooser, dtypes)
    resized_dims = chooser.integer(1, min(3, x.rank))
    attributes: dict[str, AttributeValue] = {
        "shape": tuple(chooser.integer(0, 8) for _ in range(resized_dims + chooser.integer(0, 2))),
        "resized_dims": resized_dims,
        "interpolation_mode": mode,
        "sampling_mode": chooser.choose(SAMPLING_MODES),
    }
    return Sample({"x": Fill(x, 0, 9)}, attributes)


def sample_resize_bilinear(chooser: Chooser) -> Sample:
    """Draw a call of resize_bilinear."""
    mode: dict[str, AttributeValue] = {"sampling_mode": chooser.choose(SAMPLING_MODES)}
    return Sample({"x": Fill(draw_image(chooser))}, draw_target_size(chooser) | mode)


def sample_resize_nearest(chooser: Chooser) -> Sample:
    """Draw a call of resize_nearest_neighbor."""
    return Sample({"x": Fill(draw_image(chooser, NUMBERS))}, draw_target_size(chooser))


def draw_scale_factors(chooser: Chooser, extents: tuple[int, ...]) -> dict[str, AttributeValue]:
    """Draw factors, whole and fractional, that leave something of two extents."""
    names = ("scale_factor_height", "scale_factor_width")
    return {
        name: chooser.choose([factor for factor in (1.0, 2.0, 3.0, 1.5, 2.25, 0.5) if factor * extent >= 1])
        for name, extent in zip(names, extents, strict=True)
    }


def sample_upsample_bilinear(chooser: Chooser) -> Sample:
    """Draw a call of upsample_bilinear."""
    x = draw_image(chooser)
    modes: dict[str, AttributeValue] = {
        "align_corners": chooser.choose([True, False]),
        "half_pixel_centers": chooser.choose([None, True, False]),
    }
    return Sample({"x": Fill(x)}, draw_scale_factors(chooser, x.shape[-2:]) | modes)


def sample_upsample_nearest(chooser: Chooser) -> Sample:
    """Draw a call of upsample_nearest_neighbor."""
    x = draw_image(chooser, NUMBERS)
    return Sample({"x": Fill(x)}, draw_scale_factors(chooser, x.shape[-2:]))


def sample_upsample(chooser: Chooser) -> Sample:
    """Draw a call of upsample."""
    return Sample({"x": Fill(draw_image(chooser))}, {"scale": chooser.integer(1, 4)})


def buffer_sampler(dtype: str, low: float, high: float) -> Callable[[Chooser], Sample]:
    """Return what draws an image of four axes."""

    def sample(chooser: Chooser) -> Sample:
        return Sample({"x": Fill(TensorType(draw_shape(chooser, 4, 4), dtype), low, high)})

    return sample


# Entries.

RESIZE_OP = Op(
    name="resize",
    category=CATEGORY,
    summary="the last resized_dims axes of x brought to the last lengths of shape, 0 for their own, linearly or by the "
    "nearest element",
    operands=(Operand("x"),),
    attributes=(
        SHAPE,
        Attribute("resized_dims", AttributeKind.INTEGER, least=1),
        Attribute("interpolation_mode", AttributeKind.TEXT, "LINEAR", choices=("LINEAR", "NEAREST_NEIGHBOR")),
        SAMPLING_MODE,
    ),
    infer=resize_type,
    meaning=resize,
    sample=sample_resize,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    opset="ios17",
    support=RESIZE,
    decompositions=lambda: (decompositions.movement.NEAREST_BY_GATHER,),
    in_mil=True,
    gradient=lambda: gradients.sizing.RESIZED,
)
RESIZE_BILINEAR = Op(
    name="resize_bilinear",
    category=CATEGORY,
    summary="x brought to a height and a width bilinearly, read where sampling_mode says",
    operands=(Operand("x"),),
    attributes=(*TARGET_SIZE_OR_ONE, SAMPLING_MODE),
    infer=bilinear_type,
    meaning=resize_bilinear,
    sample=sample_resize_bilinear,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    surface=Surface.FUSED,
    support=RESIZE,
    in_mil=True,
    gradient=lambda: gradients.sizing.RESIZED_LINEARLY,
)
RESIZE_NEAREST_NEIGHBOR = Op(
    name="resize_nearest_neighbor",
    category=CATEGORY,
    summary="x brought to a height and a width: element ⌊i · extent / count⌋ of rows and of columns",
    operands=(Operand("x"),),
    attributes=TARGET_SIZE,
    infer=nearest_type,
    meaning=resize_nearest,
    sample=sample_resize_nearest,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    surface=Surface.FUSED,
    support=RESIZE,
    in_mil=True,
    gradient=lambda: gradients.sizing.NEAREST,
)
UPSAMPLE_BILINEAR = Op(
    name="upsample_bilinear",
    category=CATEGORY,
    summary="height and width of x times a factor each, rounded down, bilinearly",
    operands=(Operand("x"),),
    attributes=(
        *SCALE_FACTORS,
        Attribute("align_corners", AttributeKind.FLAG, default=True),
        Attribute("half_pixel_centers", AttributeKind.FLAG, None),
    ),
    infer=bilinear_upsampled_type,
    meaning=upsample_bilinear,
    sample=sample_upsample_bilinear,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    surface=Surface.FUSED,
    support=RESIZE,
    in_mil=True,
    gradient=lambda: gradients.sizing.UPSAMPLED_LINEARLY,
)
UPSAMPLE_NEAREST_NEIGHBOR = Op(
    name="upsample_nearest_neighbor",
    category=CATEGORY,
    summary="height and width of x times a factor each, rounded down: element ⌊i · extent / count⌋ of each axis",
    operands=(Operand("x"),),
    attributes=SCALE_FACTORS,
    infer=upsampled_type,
    meaning=upsample_nearest,
    sample=sample_upsample_nearest,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    support=RESIZE,
    in_mil=True,
    gradient=lambda: gradients.sizing.NEAREST,
)
UPSAMPLE = Op(
    name="upsample",
    category=CATEGORY,
    summary="every element of x repeated along height and width",
    operands=(Operand("x"),),
    attributes=(Attribute("scale", AttributeKind.INTEGER, 2, least=1),),
    infer=repeated_type,
    meaning=upsample,
    sample=sample_upsample,
    movement=Movement(taking=Taking.BETWEEN),
    traits=frozenset({Trait.RESIZING}),
    surface=Surface.FUSED,
    mil="upsample_nearest_neighbor",
    support=RESIZE,
    catalogued=False,
    decompositions=lambda: (decompositions.movement.UPSAMPLED_BY_FACTORS,),
    in_mil=True,
    gradient=lambda: gradients.moving.UPSAMPLED,
)
GAMMA = unary(
    "gamma",
    CATEGORY,
    "12.92 · x up to 0.0031308, then 1.055 · x^(1 / 2.4) − 0.055: light as sRGB encodes it; the curve is inferred",
    encoded,
    domain=Domain(-0.1, 1.2),
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.GAMMA,
)
DEGAMMA = unary(
    "degamma",
    CATEGORY,
    "x / 12.92 up to 0.04045, then ((x + 0.055) / 1.055)^2.4: light that sRGB encodes as x; the curve is inferred",
    decoded,
    domain=Domain(-0.1, 1.2),
    support=LIKELY_BRIDGE_F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.DEGAMMA,
)
BYTES = Codomain(0.0, 255.0, minus_zero=False)
PIXEL_BUFFER_TO_TENSOR = Op(
    name="pixel_buffer_to_tensor",
    category=CATEGORY,
    summary="the bytes of x as numbers, unscaled",
    operands=(Operand("x"),),
    infer=buffer_tensor_type,
    meaning=from_buffer,
    sample=buffer_sampler("uint8", 0, 255),
    traits=frozenset({Trait.ELEMENTWISE}),
    codomain=BYTES,
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_BYTES,
)
TENSOR_TO_PIXEL_BUFFER = Op(
    name="tensor_to_pixel_buffer",
    category=CATEGORY,
    summary="x as bytes: to the nearest integer, a half up, within 0 … 255; the rounding is inferred",
    operands=(Operand("x"),),
    infer=pixel_buffer_type,
    meaning=to_buffer,
    sample=buffer_sampler("fp16", -60, 320),
    traits=frozenset({Trait.ELEMENTWISE}),
    codomain=BYTES,
    support=LIKELY_BRIDGE_F0,
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)

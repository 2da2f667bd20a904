"""Slices and resizing in the compiler's form: explicit begins, lengths and steps; one layer for every way to resize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.compiler.ir.kind import LayerForm
from aneforge.errors import GraphError
from aneforge.ops.interpolation import (
    SAMPLING_MODES,
    grid_points,
    linear_along,
    nearest_indices,
    upsampling_points,
)
from aneforge.ops.shapes import expect_elements, expect_entries, expect_float
from aneforge.ops.signature import Attribute, AttributeKind, Operand

if TYPE_CHECKING:
    from aneforge.ops.types import Array, TensorType

__all__ = ["ALIGNED_HALF_PIXELS", "FORMS"]

ALIGNED_HALF_PIXELS = "ALIGN_CORNERS_HALF_PIXELS"
"""Aligned corners with half-pixel centers: the one spacing of upsample_bilinear that is not a sampling mode of MIL."""


def slice_type(
    x: TensorType, *, begin: tuple[int, ...], size: tuple[int, ...], step: tuple[int, ...] | None = None
) -> TensorType:
    """Return the type of a region, which must be within the tensor."""
    steps = step or (1,) * x.rank
    for name, given in (("begin", begin), ("size", size), ("step", steps)):
        expect_entries(name, given, x.rank, "axis")
    for axis, (extent, first, count, by) in enumerate(zip(x.shape, begin, size, steps, strict=True)):
        if count and first + (count - 1) * by >= extent:
            raise GraphError(
                f"the slice passes the end of axis {axis}", seen=first + (count - 1) * by + 1, limit=extent
            )
    return x.with_shape(*size)


def slice_values(
    x: Array, *, begin: tuple[int, ...], size: tuple[int, ...], step: tuple[int, ...] | None = None
) -> Array:
    """Return the region."""
    steps = step or (1,) * x.ndim
    return x[
        tuple(
            slice(first, first + (count - 1) * by + 1 if count else first, by)
            for first, count, by in zip(begin, size, steps, strict=True)
        )
    ]


def resize_type(x: TensorType, *, size: tuple[int, ...], mode: str, sampling: str) -> TensorType:
    """Return the type of a tensor whose last axes are brought to other lengths."""
    if len(size) > x.rank:
        raise GraphError("there are more lengths than axes", seen=len(size), limit=x.rank)
    expect_elements(x, range(-len(size), 0), "sampled")
    if mode == "LINEAR":
        expect_float(x)
    elif sampling == ALIGNED_HALF_PIXELS:
        raise GraphError("the nearest element has no such sampling", seen=sampling, limit=", ".join(SAMPLING_MODES))
    return x.with_shape(*x.shape[: x.rank - len(size)], *size)


def resize(x: Array, *, size: tuple[int, ...], mode: str, sampling: str) -> Array:
    """Read the last axes at the sampling's places, between elements or at the nearest."""
    result = x
    for axis, count in zip(range(-len(size), 0), size, strict=True):
        if mode == "LINEAR":
            result = linear_along(result, axis, points(x.shape[axis], count, sampling))
        else:
            result = np.take(result, nearest_indices(x.shape[axis], count, sampling), axis)
    return result


def points(extent: int, count: int, sampling: str) -> Array:
    """Return the places from which results are read."""
    if sampling == ALIGNED_HALF_PIXELS:
        return upsampling_points(extent, count, align_corners=True, half_pixel_centers=True)
    return grid_points(extent, count, sampling)


BEGIN = Attribute("begin", AttributeKind.INTEGERS, least=0)
SIZE = Attribute("size", AttributeKind.INTEGERS, least=0)
STEP = Attribute("step", AttributeKind.INTEGERS, least=1)
FORMS = {
    "slice": LayerForm(operands=(Operand("input"),), attributes=(BEGIN, SIZE), infer=slice_type, meaning=slice_values),
    "strided_slice": LayerForm(
        operands=(Operand("input"),), attributes=(BEGIN, SIZE, STEP), infer=slice_type, meaning=slice_values
    ),
    "resize": LayerForm(
        operands=(Operand("input"),),
        attributes=(
            Attribute("size", AttributeKind.INTEGERS, least=1),
            Attribute("mode", AttributeKind.TEXT, "LINEAR", choices=("LINEAR", "NEAREST")),
            Attribute("sampling", AttributeKind.TEXT, "DEFAULT", choices=(*SAMPLING_MODES, ALIGNED_HALF_PIXELS)),
        ),
        infer=resize_type,
        meaning=resize,
    ),
}

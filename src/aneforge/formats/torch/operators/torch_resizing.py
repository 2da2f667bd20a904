"""Images resized, or read at places that are computed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.resizing import Along, Reading, resize_axes
from aneforge.formats.shared.sampling import sample_image
from aneforge.formats.torch.registry import operator
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa")
CUBIC = ("upsample_bicubic2d", "_upsample_bicubic2d_aa")
NEAREST = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
EXACT = ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
CUBIC_SHARP, CUBIC_SMOOTH = -0.75, -0.5
"""The number of the cubic kernel, and the one that PyTorch has for reading without aliases."""
SMALL_IMAGE = 128
"""Rows and columns together, up to which PyTorch reads the nearest elements of an image by another kernel, as its
results show: those of 127 and 128 are its, those of 129 are not."""
WIDEST_STEP = 2.0**64
"""Elements for each result that are more than any tensor has, and yet a product with them is finite."""


@dataclass(frozen=True, slots=True)
class Nearest(Reading):
    """The nearest elements as PyTorch finds them, which differs by roundings between its kernels.

    All of them multiply by the elements for each result, and round the place to single precision. The kernel of small
    images takes a length that stays or doubles as such, whatever the factor; the other one takes half an element off
    before it rounds, and adds it after that. This is what results of PyTorch 2.13 show for tensors of plain layout, on
    processors that multiply and add in one step. With their channels last, larger ones are read as small images are.
    """

    small: bool = False
    """Whether the kernel is that of small images."""
    double: bool = False
    """Whether elements are in double precision, in which the other kernel then has its spacing."""

    def nearest_places(self, along: Along) -> Array:
        """Return the element that stands for every result."""
        index = np.arange(along.count, dtype=np.float64)
        middles = self.transform == "half_pixel"
        if self.small and not middles and along.count in (along.extent, 2 * along.extent):
            return (index * along.extent // along.count).astype(np.int64)
        step = min(1 / along.scale, WIDEST_STEP)
        if self.small or not self.double:
            step = float(np.float32(step))
        if not middles:
            places = (index * step).astype(np.float32)
        elif self.small:
            places = ((index + 0.5) * step).astype(np.float32)
        else:
            places = ((index + 0.5) * step - 0.5).astype(np.float32) + np.float32(0.5)
        return np.clip(np.floor(places), 0, along.extent - 1).astype(np.int64)


@operator(*LINEAR, *CUBIC, *NEAREST, *EXACT)
def upsample(call: Call) -> Value:
    """Convert resizing of the last axes to sizes, or by factors."""
    x = call.value("self") if call.has("self") else call.value("input")
    factors = read_given_factors(call, x.type.rank - 2)
    sizes = call.integers("output_size")
    if sizes is None:
        sizes = tuple(
            math.floor(extent * (factor or 1.0)) for extent, factor in zip(x.type.shape[2:], factors, strict=True)
        )
    reading = reading_of(call, x, sizes)
    if call.operator == "_upsample_bilinear2d_aa" and sizes[1] == 1 and sizes[0] > 1:
        raise UnsupportedNodeError(
            Reason.FORM,
            "PyTorch repeats the first row where one column is left, which its documented formula does not give",
            workaround="resize to two columns, and keep the first",
        )
    corners = reading.antialias and call.flag("align_corners")
    stays = reading.mode == "linear" or reading.antialias  # an axis whose length stays, whatever the factor
    alongs: dict[int, Along] = {}
    for axis, (extent, size, factor) in enumerate(zip(x.type.shape[2:], sizes, factors, strict=True), 2):
        exact = size / max(extent, 1)
        by_size = reading.transform == "align_corners" or (stays and size == extent)
        scale = exact if factor is None or by_size else factor
        alongs[axis] = Along(extent, size, between_corners(extent, size) if corners else scale)
    return resize_axes(call.emit, x, alongs, reading)


def reading_of(call: Call, x: Value, sizes: tuple[int, ...]) -> Reading:
    """Return how an operator reads its source.

    Without aliases PyTorch counts from half an element on even where corners are aligned, which changes only the
    spacing; as its own results show.
    """
    if call.operator in (*NEAREST, *EXACT):
        transform = "half_pixel" if call.operator in EXACT else "asymmetric"
        small = len(sizes) == 2 and sum(sizes) <= SMALL_IMAGE
        return Nearest("nearest", transform, small=small, double=x.type.dtype == "fp64")
    mode = "cubic" if call.operator in CUBIC else "linear"
    if call.operator.endswith("_aa"):
        return Reading(mode, "half_pixel", cubic=CUBIC_SMOOTH, antialias=True, exclude_outside=True)
    transform = "align_corners" if call.flag("align_corners") else "half_pixel"
    return Reading(mode, transform, cubic=CUBIC_SHARP)


def between_corners(extent: int, size: int) -> float:
    """Return results for each element where corners are aligned; a single result, or element, is read at the start."""
    return (size - 1) / (extent - 1) if size > 1 and extent > 1 else math.inf


def read_given_factors(call: Call, count: int) -> list[float | None]:
    """Return the factor of every axis, where factors are given; one that is not above 0 is none, as in PyTorch."""
    found = call.arguments.get("scale_factors")
    if isinstance(found, tuple):
        return [float(one) if isinstance(one, int | float) and one > 0 else None for one in found]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[count]
    listed = [call.arguments.get(name) for name in names]
    return [float(one) if isinstance(one, int | float) and one > 0 else None for one in listed]


MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
TABLE_PADDINGS = ("constant", "border", "reflection")


@operator("grid_sampler_2d", "grid_sampler_3d")
def grid_sample(call: Call) -> Value:
    """Convert reading at a grid of places, each given from −1 to 1."""
    x, grid, emit = call.value("input"), call.value("grid"), call.emit
    mode, padding = MODES[call.integer("interpolation_mode")], call.integer("padding_mode")
    align = call.flag("align_corners")
    if not x.type.size or not grid.type.size:
        return emit.empty((*x.type.shape[:2], *grid.type.shape[1:-1]), x.type.dtype)
    plain = x.type.rank == 4 and mode != "cubic" and (mode, padding, align) != ("nearest", 2, False)
    if not plain:
        return sample_image(emit, x, grid, mode, PADDINGS[padding], align=align)
    return emit.apply(
        "resample",
        {"x": x, "coordinates": grid},
        sampling_mode="bilinear" if mode == "linear" else "nearest",
        padding_mode="symmetric" if padding == 2 and not align else TABLE_PADDINGS[padding],
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=align,
    )

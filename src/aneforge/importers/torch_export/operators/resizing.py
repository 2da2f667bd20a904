"""Images resized, or read at places that are computed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.resizing import Along, Reading, resized
from aneforge.importers.sampling import sampled
from aneforge.importers.torch_export.registry import operator

if TYPE_CHECKING:
    from aneforge.graph.node import Value
    from aneforge.importers.torch_export.call import Call

LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa")
CUBIC = ("upsample_bicubic2d", "_upsample_bicubic2d_aa")
NEAREST = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
EXACT = ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
CUBIC_SHARP, CUBIC_SMOOTH = -0.75, -0.5
"""The number of the cubic kernel, and the one that PyTorch has for reading without aliases."""


@operator(*LINEAR, *CUBIC, *NEAREST, *EXACT)
def upsample(call: Call) -> Value:
    """Convert resizing of the last axes to sizes, or by factors."""
    x, emit = call.value("self") if call.has("self") else call.value("input"), call.emit
    count = x.type.rank - 2
    sizes, factors = call.integers("output_size"), given_factors(call, count)
    if sizes is None:
        sizes = tuple(
            math.floor(extent * (factor or 1.0)) for extent, factor in zip(x.type.shape[2:], factors, strict=True)
        )
    smooth = call.operator.endswith("_aa")
    if call.operator in NEAREST:
        reading = Reading("nearest", "asymmetric", "floor")
    elif call.operator in EXACT:
        reading = Reading("nearest", "half_pixel", "round_prefer_ceil")
    else:
        corners = call.flag("align_corners")
        if smooth and (corners or any(factor is not None for factor in factors)):
            raise UnsupportedNodeError(
                Reason.FORM,
                "reading without aliases is known here for sizes alone, and not with corners aligned",
                workaround="give the size, and align_corners=False",
            )
        mode = "cubic" if call.operator in CUBIC else "linear"
        reading = Reading(
            mode,
            "align_corners" if corners else "half_pixel",
            cubic=CUBIC_SMOOTH if smooth else CUBIC_SHARP,
            antialias=smooth,
            exclude_outside=smooth,
        )
    alongs: dict[int, Along] = {}
    for axis, (extent, size) in enumerate(zip(x.type.shape[2:], sizes, strict=True)):
        exact = size / max(extent, 1)
        factor = factors[axis]
        scale = exact if factor is None or reading.transform == "align_corners" else factor
        alongs[axis + 2] = Along(extent, size, scale)
    return resized(emit, x, alongs, reading)


def given_factors(call: Call, count: int) -> list[float | None]:
    """Return the factor of every axis, where factors are given."""
    found = call.arguments.get("scale_factors")
    if isinstance(found, tuple):
        return [float(one) if isinstance(one, int | float) else None for one in found]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[count]
    listed = [call.arguments.get(name) for name in names]
    return [float(one) if isinstance(one, int | float) else None for one in listed]


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
        return sampled(emit, x, grid, mode, PADDINGS[padding], align=align)
    return emit.apply(
        "resample",
        {"x": x, "coordinates": grid},
        sampling_mode="bilinear" if mode == "linear" else "nearest",
        padding_mode="symmetric" if padding == 2 and not align else TABLE_PADDINGS[padding],
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=align,
    )

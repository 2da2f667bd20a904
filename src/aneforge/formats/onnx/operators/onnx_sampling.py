"""Images read at places that are computed: grids, and regions of interest."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.sampling import Tap, gather_taps, sample_image
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.ops.types import Array

Pair = tuple[int, int]
"""Of rows and of columns."""
PADDINGS = {"zeros": "constant", "border": "border", "reflection": "reflection"}


@operator("GridSample")
def grid_sample(call: Call) -> Value:
    """Convert reading at a grid of places, each given from −1 to 1."""
    x, grid = call.value(0), call.value(1)
    names = {"bilinear": "linear", "linear": "linear", "bicubic": "cubic", "cubic": "cubic", "nearest": "nearest"}
    mode = names[call.choice("mode", *names)]
    padding = call.choice("padding_mode", *PADDINGS)
    align = call.flag("align_corners")
    count = x.type.rank - 2
    if (
        count < 1
        or grid.type.rank != x.type.rank
        or grid.type.shape[-1] != count
        or grid.type.shape[0] != x.type.shape[0]
    ):
        raise GraphError("the grid does not fit the images", seen=f"{grid.type} for {x.type}")
    if (
        count == 2
        and mode != "cubic"
        and grid.type.dtype == x.type.dtype
        and (mode, padding, align) != ("nearest", "reflection", False)
    ):
        return call.emit.apply(
            "resample",
            {"x": x, "coordinates": grid},
            sampling_mode="bilinear" if mode == "linear" else "nearest",
            padding_mode="symmetric" if padding == "reflection" and not align else PADDINGS[padding],
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=align,
        )
    return sample_image(call.emit, x, grid, mode, padding, align=align)


@operator("AffineGrid")
def affine_grid(call: Call) -> Value:
    """Convert places of a regular grid under an affine transform for every image: the grid times the transform."""
    theta, emit = call.value(0), call.emit
    align = call.flag("align_corners")
    size = call.known_integers(1, "the size of the grid") or ()
    batch, extents = size[:1], size[2:]
    axes = len(extents)
    if axes not in (2, 3) or theta.type.shape != (*batch, axes, axes + 1) or min(extents) < 1:
        raise GraphError(
            "the transforms do not fit the size",
            seen=f"{theta.type} for {list(size)}",
            limit="[N, 2, 3] for [N, C, H, W], or [N, 3, 4] for [N, C, D, H, W], each 1 or more",
        )
    if align and min(extents) == 1:
        warn(
            f"AffineGrid at {emit.location} aligns corners and has one place along an axis: it is read at 1, as "
            "in onnxruntime; onnx's own evaluator reads it at −1, PyTorch at 0"
        )
    emit.room(axes + 1, *extents)
    along = np.meshgrid(*(grid_places(extent, align=align) for extent in extents), indexing="ij")
    # The last axis of the images comes first in a place; a one at its end takes up the transform's offset.
    places = np.stack([*along[::-1], np.ones(extents)], axis=-1).reshape(-1, axes + 1)
    moved = emit.matmul(emit.constant(places, theta.type.dtype), theta, transpose_y=True)
    return emit.reshape(moved, (*batch, *extents, axes))


def grid_places(extent: int, *, align: bool) -> Array:
    """Return places along an axis that goes from −1 to 1: from end to end, or in the middles of equal parts."""
    if not align:
        return (2 * np.arange(extent) + 1) / extent - 1
    return np.linspace(-1.0, 1.0, extent) if extent > 1 else np.ones(1)


@operator("RoiAlign")
def region_align(call: Call) -> Value:
    """Convert regions read between elements, several places for each result, averaged or the largest taken."""
    x, regions, images, emit = call.value(0), call.value(1), call.value(2), call.emit
    ratio = call.integer("sampling_ratio")
    size = call.integer("output_height"), call.integer("output_width")
    if (
        x.type.rank != 4
        or images.type.rank != 1
        or regions.type.rank != 2
        or regions.type.shape[1] != 4
        or min(size) < 1
    ):
        raise GraphError("images or regions are not [N, C, H, W] and [R, 4]", seen=f"{x.type} and {regions.type}")
    if ratio < 0:
        raise GraphError("sampling_ratio is negative", seen=ratio)
    half = "coordinate_transformation_mode" in call.rules.attributes and (
        call.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel"
    )
    least = 0.0 if half else 1.0
    scaled = emit.mul(regions, call.number("spatial_scale"))
    bounds = emit.add(scaled, -0.5) if half else scaled
    if ratio:
        return aligned(call, bounds, images, size, (ratio, ratio), least)
    groups = adaptive_ratios(bounds, size, least)
    parts = [
        aligned(call, emit.take(bounds, rows, 0), emit.take(images, rows, 0), size, ratios, least)
        for ratios, rows in groups.items()
    ]
    if not parts:
        return emit.empty((0, x.type.shape[1], *size), x.type.dtype)
    order = np.argsort(np.concatenate(list(groups.values())))
    return parts[0] if len(parts) == 1 else emit.take(emit.concat(parts, 0), order, 0)


def adaptive_ratios(bounds: Value, size: Pair, least: float) -> dict[Pair, list[int]]:
    """Return how many rows and columns of places are read for a result: one for each started element of its part.

    Regions that read alike are together; the numbers are those of fp32, in which runtimes compute them.

    Raises:
        UnsupportedNodeError: The regions are computed.
        GraphError: They are not finite.
    """
    if not isinstance(bounds, Constant):
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE,
            "how many places are read for a result depends on the size of its region",
            workaround="export it with a sampling_ratio of 1 or more",
        )
    known = bounds.dense().astype(np.float32)
    if not np.isfinite(known).all():
        raise GraphError("regions are not finite")
    lengths = known[:, 3:1:-1] - known[:, 1::-1]  # bounds are x, y of one corner and x, y of the other
    if least:
        lengths = np.maximum(lengths, np.float32(least))
    groups: dict[Pair, list[int]] = {}
    for row, (height, width) in enumerate(np.ceil(lengths / np.array(size, np.float32)).tolist()):
        groups.setdefault((int(height), int(width)), []).append(row)
    return groups


def aligned(call: Call, bounds: Value, images: Value, size: Pair, ratios: Pair, least: float) -> Value:
    """Return what is read in regions, so many rows and columns of places for each result; without any it is zero."""
    x, emit = call.value(0), call.emit
    count, channels = bounds.type.shape[0], x.type.shape[1]
    mode = call.choice("mode", "avg", "max")
    if min(ratios) < 1:
        return emit.filled((count, channels, *size), 0, x.type.dtype)
    chosen = emit.apply("gather", {"x": x, "indices": images}, axis=0)
    rows, columns = (
        region_taps(emit, bounds, axis, size[axis], ratios[axis], x.type.shape[2 + axis], least=least)
        for axis in (0, 1)
    )
    # [R, height · ratio, 1] and [R, 1, width · ratio] broadcast to all places.
    grid = (count, size[0] * ratios[0], size[1] * ratios[1])
    taps = [
        [
            (emit.spread(emit.expand(one, axis_at), grid), emit.spread(emit.expand(weight, axis_at), grid))
            for one, weight in axis_taps
        ]
        for axis_taps, axis_at in ((rows, -1), (columns, 1))
    ]
    cells = (count, channels, size[0], ratios[0], size[1], ratios[1])
    if mode == "avg":
        return emit.reduce("reduce_mean", emit.reshape(gather_taps(emit, chosen, taps), cells), (3, 5), keep=False)
    # The largest is that of the weighted neighbours, not of what is between them: so ONNX's cases have it.
    terms = [gather_taps(emit, chosen, [[row], [column]]) for row, column in product(*taps)]
    largest = reduce(lambda one, other: emit.binary("maximum", one, other), terms)
    return emit.reduce("reduce_max", emit.reshape(largest, cells), (3, 5), keep=False)


def region_taps(
    emit: Emitter, bounds: Value, axis: int, count: int, ratio: int, extent: int, *, least: float
) -> list[Tap]:
    """Return the two neighbours of every place that is read along rows or columns: [R, count · ratio]."""
    start = emit.part(bounds, 1, 1 - axis, 2 - axis)
    length = emit.sub(emit.part(bounds, 1, 3 - axis, 4 - axis), start)
    if least:
        length = emit.binary("maximum", length, least)
    emit.room(count, ratio)
    fractions = (np.arange(count * ratio) + 0.5) / (count * ratio)
    place = emit.add(start, emit.mul(length, emit.constant(fractions, bounds.type.dtype)))
    inside = emit.binary(
        "logical_and", emit.binary("greater_equal", place, -1.0), emit.binary("less_equal", place, float(extent))
    )
    moved = emit.unary("clip", place, alpha=0.0, beta=extent - 1.0)
    first = emit.unary("floor", moved)
    rest = emit.sub(moved, first)
    second = emit.unary("clip", emit.add(first, 1.0), alpha=0.0, beta=extent - 1.0)
    weights = (emit.binary("sub", emit.number(1, rest), rest), rest)
    return [
        (emit.cast(whole, "int32"), emit.select(inside, weight, emit.number(0, weight)))
        for whole, weight in zip((first, second), weights, strict=True)
    ]


@operator("MaxRoiPool")
def region_pool(call: Call) -> Value:
    """Convert the largest element of every cell of regions that are known."""
    x, emit = call.value(0), call.emit
    regions = call.expect_known(1, "the list of regions")
    shape = call.integers("pooled_shape") or ()
    if len(shape) != 2:
        raise GraphError("pooled_shape is not a height and a width", seen=list(shape))
    height, width = shape
    if x.type.rank != 4 or regions.ndim != 2 or regions.shape[1] != 5 or min(height, width) < 1:
        raise GraphError("images or regions are not [N, C, H, W] and [R, 5]", seen=f"{x.type} and {regions.shape}")
    emit.budget.take_nodes(len(regions) * height * width)
    bounds = np.floor(regions[:, 1:].astype(np.float64) * call.number("spatial_scale") + 0.5).astype(np.int64)
    rows: list[Value] = []
    for image, (left, top, right, bottom) in zip(regions[:, 0].astype(np.int64), bounds, strict=True):
        own = emit.part(x, 0, int(image), int(image) + 1)
        cells = [
            emit.reduce("reduce_max", cell, (2, 3))
            if cell.type.size
            else emit.filled((1, x.type.shape[1], 1, 1), 0, x.type.dtype)
            for y, z in product(
                cell_bounds(int(top), int(bottom), height, x.type.shape[2]),
                cell_bounds(int(left), int(right), width, x.type.shape[3]),
            )
            for cell in [emit.part(emit.part(own, 2, *y), 3, *z)]
        ]
        rows.append(emit.reshape(emit.concat(cells, 2), (1, x.type.shape[1], height, width)))
    return emit.concat(rows, 0)


def cell_bounds(first: int, last: int, count: int, extent: int) -> list[tuple[int, int]]:
    """Return where the cells of a region begin and end along an axis, both ends of the region included."""
    length = max(last - first + 1, 1) / count
    found: list[tuple[int, int]] = []
    for cell in range(count):
        begin = min(max(math.floor(cell * length) + first, 0), extent)
        found.append((begin, max(min(max(math.ceil((cell + 1) * length) + first, 0), extent), begin)))
    return found

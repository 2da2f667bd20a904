"""Images read at places that are computed: grids, and regions of interest."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.onnx.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.emitter import Emitter
    from aneforge.importers.onnx.values import Value

CUBIC = -0.75
"""The number of the cubic kernel that grids are read with."""
PADDINGS = {"zeros": "constant", "border": "border", "reflection": "reflection"}
Tap = tuple["Value", "Value"]
"""A whole place along an axis, and what it counts."""


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
    return sampled(call.emit, x, grid, mode, padding, align=align)


def sampled(emit: Emitter, x: Value, grid: Value, mode: str, padding: str, *, align: bool) -> Value:
    """Return images read at a grid, by gathering the elements around every place."""
    extents = x.type.shape[2:]
    taps: list[list[Tap]] = []
    for axis, extent in enumerate(extents):
        at = emit.part(grid, -1, len(extents) - 1 - axis, len(extents) - axis)  # the last axis comes first in a grid
        unit = emit.mul(emit.add(emit.reshape(at, grid.type.shape[:-1]), 1.0), 0.5)
        place = emit.mul(unit, extent - 1.0) if align else emit.add(emit.mul(unit, float(extent)), -0.5)
        if mode != "cubic":
            place = within(emit, place, extent, padding, align=align)
        taps.append(taps_around(emit, place, extent, mode, padding, align=align))
    return gathered(emit, x, taps)


def within(emit: Emitter, place: Value, extent: int, padding: str, *, align: bool) -> Value:
    """Return places moved or mirrored into an axis; zeros beyond it leave them where they are."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        place = mirrored(emit, place, extent, align=align)
    return emit.unary("clip", place, alpha=0.0, beta=extent - 1.0)


def mirrored(emit: Emitter, place: Value, extent: int, *, align: bool) -> Value:
    """Return places mirrored at the middles of the end elements, or at their outer edges."""
    low, span = (0.0, extent - 1.0) if align else (-0.5, float(extent))
    if not span:
        return emit.mul(place, 0.0)
    folded = emit.binary("mod", emit.sub(place, low), 2 * span)
    back = emit.binary("sub", emit.number(2 * span, folded), folded)
    return emit.add(emit.binary("minimum", folded, back), low)


def taps_around(emit: Emitter, place: Value, extent: int, mode: str, padding: str, *, align: bool) -> list[Tap]:
    """Return the whole places around a place, and what each counts."""
    if mode == "nearest":
        return [tap(emit, emit.unary("round", place), None, extent, padding)]
    first = emit.unary("floor", place)
    rest = emit.sub(place, first)
    if mode == "linear":
        weights = [emit.binary("sub", emit.number(1, rest), rest), rest]
        return [tap(emit, emit.add(first, float(step)), weights[step], extent, padding) for step in (0, 1)]
    found: list[Tap] = []
    for step in (-1, 0, 1, 2):
        whole = emit.add(first, float(step))
        inside = within(emit, whole, extent, padding, align=align)
        if padding == "reflection" and not align:
            inside = emit.unary("round", inside)
        found.append(tap(emit, inside, cubic_weight(emit, rest, step), extent, padding))
    return found


def cubic_weight(emit: Emitter, rest: Value, step: int) -> Value:
    """Return what an element counts that is `step` places from the one before a place."""
    distance = emit.unary("abs", emit.sub(rest, float(step)))
    near, far = (CUBIC + 2, -(CUBIC + 3), 0.0, 1.0), (CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC)
    factors = near if step in (0, 1) else far
    result = emit.mul(distance, factors[0])
    for factor in factors[1:3]:
        result = emit.mul(emit.add(result, factor), distance)
    return emit.add(result, factors[3])


def tap(emit: Emitter, whole: Value, weight: Value | None, extent: int, padding: str) -> Tap:
    """Return a whole place that is inside the axis, and what it counts: nothing where it was outside, with zeros."""
    counts = emit.filled(whole.type.shape, 1, whole.type.dtype) if weight is None else weight
    inside = emit.unary("clip", whole, alpha=0.0, beta=extent - 1.0)
    if padding == "zeros":
        counts = emit.select(emit.binary("equal", inside, whole), counts, emit.number(0, counts))
    return emit.cast(inside, "int32"), counts


def gathered(emit: Emitter, x: Value, taps: Sequence[Sequence[Tap]]) -> Value:
    """Return the weighted sum of the elements that the taps of all axes name: x[n, :, taps…]."""
    batch, channels, *extents = x.type.shape
    flat = emit.reshape(x, (batch, channels, math.prod(extents)))
    shape = taps[0][0][0].type.shape
    terms: list[Value] = []
    for chosen in product(*taps):
        place = chosen[0][0]
        for (index, _), extent in zip(chosen[1:], extents[1:], strict=True):
            place = emit.add(emit.mul(place, extent), index)
        weight = reduce(emit.mul, [one for _, one in chosen])
        rows = emit.reshape(place, (batch, math.prod(shape[1:])))
        values = emit.apply("gather", {"x": flat, "indices": rows}, axis=2, batch_dims=1)
        terms.append(
            emit.mul(
                emit.reshape(values, (batch, channels, *shape[1:])), emit.expand(emit.cast(weight, x.type.dtype), 1)
            )
        )
    return reduce(emit.add, terms)


@operator("RoiAlign")
def region_align(call: Call) -> Value:
    """Convert regions read between elements, several places for each result, averaged or the largest taken."""
    x, regions, images, emit = call.value(0), call.value(1), call.value(2), call.emit
    ratio = call.integer("sampling_ratio")
    if ratio < 1:
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE,
            "how many places are read for a result depends on the size of its region",
            workaround="export it with a sampling_ratio of 1 or more",
        )
    size = call.integer("output_height"), call.integer("output_width")
    if (
        x.type.rank != 4
        or images.type.rank != 1
        or regions.type.rank != 2
        or regions.type.shape[1] != 4
        or min(size) < 1
    ):
        raise GraphError("images or regions are not [N, C, H, W] and [R, 4]", seen=f"{x.type} and {regions.type}")
    half = "coordinate_transformation_mode" in call.rules.attributes and (
        call.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel") == "half_pixel"
    )
    scaled = emit.mul(regions, call.number("spatial_scale"))
    bounds = emit.add(scaled, -0.5) if half else scaled
    chosen = emit.apply("gather", {"x": x, "indices": images}, axis=0)
    rows, columns = (
        region_taps(emit, bounds, axis, size[axis], ratio, x.type.shape[2 + axis], least=0.0 if half else 1.0)
        for axis in (0, 1)
    )
    count, channels = regions.type.shape[0], x.type.shape[1]
    # [R, height · ratio, 1] and [R, 1, width · ratio] broadcast to all places.
    grid = (count, size[0] * ratio, size[1] * ratio)
    taps = [
        [
            (emit.spread(emit.expand(one, axis_at), grid), emit.spread(emit.expand(weight, axis_at), grid))
            for one, weight in axis_taps
        ]
        for axis_taps, axis_at in ((rows, -1), (columns, 1))
    ]
    if call.choice("mode", "avg", "max") == "avg":
        read = gathered(emit, chosen, taps)
        cells = emit.reshape(read, (count, channels, size[0], ratio, size[1], ratio))
        return emit.reduce("reduce_mean", cells, (3, 5), keep=False)
    # The largest is that of the weighted neighbours, not of what lies between them: so ONNX's cases have it.
    terms = [gathered(emit, chosen, [[row], [column]]) for row, column in product(*taps)]
    largest = reduce(lambda one, other: emit.binary("maximum", one, other), terms)
    return emit.reduce(
        "reduce_max", emit.reshape(largest, (count, channels, size[0], ratio, size[1], ratio)), (3, 5), keep=False
    )


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
    regions = call.known(1, "the list of regions")
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
            else emit.constant(np.zeros((1, x.type.shape[1], 1, 1)), x.type.dtype)
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

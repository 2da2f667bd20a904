"""Images read at places that are computed: the elements around every place gathered and weighted.

The op table's own `resample` reads two spatial axes linearly or at the nearest element; this is for the other forms.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = ["Tap", "gather_taps", "sample_image", "tap", "taps_around"]

CUBIC = -0.75
"""The number of the cubic kernel that grids are read with."""
Tap = tuple["Value", "Value"]
"""A whole place along an axis, and what it counts."""


def sample_image(emit: Emitter, x: Value, grid: Value, mode: str, padding: str, *, align: bool) -> Value:
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
    return gather_taps(emit, x, taps)


def within(emit: Emitter, place: Value, extent: int, padding: str, *, align: bool) -> Value:
    """Return places moved or mirrored into an axis; zeros beyond it leave them where they are."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        place = mirror(emit, place, extent, align=align)
    return emit.unary("clip", place, alpha=0.0, beta=extent - 1.0)


def mirror(emit: Emitter, place: Value, extent: int, *, align: bool) -> Value:
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


def gather_taps(emit: Emitter, x: Value, taps: Sequence[Sequence[Tap]]) -> Value:
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

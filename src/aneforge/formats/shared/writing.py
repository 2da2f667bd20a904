"""Elements written at coordinates.

No engine writes by coordinates. Where they are known when the model is read, the same result is rows of the updates
taken by their places and chosen where something is written, which every engine does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["broadcast_places", "coordinates", "write_updates"]

TIMES_MOST = 8
"""How often the updates of one element may be combined one after another; past it the operation stays whole."""
COMBINED = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
"""The operation on pairs of elements for each way to combine."""


def broadcast_places(extent: int, axis: int, rank: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the places along one axis, in a shape that broadcasts along it."""
    return np.arange(extent, dtype=np.int64).reshape([extent if one == axis else 1 for one in range(rank)])


def coordinates(emit: Emitter, indices: Value, axis: int) -> Value:
    """Return the coordinates of elements that are written along an axis: the other axes keep their places."""
    shape = indices.type.shape
    emit.room(len(shape), *shape)
    own = [
        emit.constant(np.broadcast_to(broadcast_places(extent, one, len(shape)), shape), "int32")
        if one != axis
        else indices
        for one, extent in enumerate(shape)
    ]
    return emit.apply("stack", {"values": tuple(own)}, axis=-1)


def write_updates(emit: Emitter, x: Value, at: Value, updates: Value, mode: str) -> Value:
    """Return a tensor with updates written or combined at coordinates, which lie along the last axis."""
    rounds = rounds_of(emit, x, at, mode) if isinstance(at, Constant) and fits(x, at, updates, mode) else None
    if rounds is None:
        return emit.apply("scatter_nd", {"data": x, "indices": at, "updates": updates}, mode=mode)
    depth = at.type.shape[-1]
    lead, rest = x.type.shape[:depth], x.type.shape[depth:]
    rows = emit.reshape(updates, (math.prod(at.type.shape[:-1]), math.prod(rest)))
    result = x
    for sources in rounds:
        taken = emit.reshape(emit.take(rows, np.maximum(sources, 0), 0), x.type.shape)
        value = taken if mode == "update" else emit.binary(COMBINED[mode], result, taken)
        chosen = emit.constant((sources >= 0).reshape(*lead, *[1] * len(rest)), "bool")
        result = value if np.all(sources >= 0) else emit.select(chosen, value, result)
    return result


def fits(x: Value, at: Constant, updates: Value, mode: str) -> bool:
    """Tell whether coordinates and updates go with a tensor; else the operation itself says what is wrong."""
    if not at.type.rank or not 0 < at.type.shape[-1] <= x.type.rank or (x.type.dtype == "bool" and mode != "update"):
        return False
    shape = (*at.type.shape[:-1], *x.type.shape[at.type.shape[-1] :])
    folds = isinstance(x, Constant) and isinstance(updates, Constant)
    return not folds and updates.type == x.type.with_shape(*shape)


def rounds_of(emit: Emitter, x: Value, at: Constant, mode: str) -> list[Array] | None:
    """Return which update each row of a tensor gets, −1 for none, in each of the rounds that known coordinates need.

    There are none where a coordinate lies outside of the tensor, nothing is written, or they would be many.
    """
    depth = at.type.shape[-1]
    lead = np.array(x.type.shape[:depth], np.int64)
    places = at.dense().astype(np.int64).reshape(-1, depth)
    places = np.where(places < 0, places + lead, places)
    if not places.size or not x.type.size or np.any((places < 0) | (places >= lead)):
        return None
    size = math.prod(x.type.shape[:depth])
    emit.room(size)
    steps = [math.prod(x.type.shape[axis + 1 : depth]) for axis in range(depth)]
    flat = places @ np.array(steps, np.int64)
    if mode == "update":
        return [sources_of(size, flat, np.arange(flat.size))]
    found = list(occurrences(flat))
    return [sources_of(size, flat[one], one) for one in found] if len(found) <= TIMES_MOST else None


def sources_of(size: int, flat: Array, updates: Array) -> Array:
    """Return the update of every row, −1 for none; the last one holds where several are for one row."""
    sources = np.full(size, -1, np.int64)
    sources[flat] = updates
    return sources


def occurrences(flat: Array) -> Iterator[Array]:
    """Yield the updates that are the first for their row, then those that are the second, and so on."""
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.arange(flat.size) - np.repeat(starts, np.diff(starts, append=flat.size))
    for number in range(min(int(rank.max()) + 1, TIMES_MOST + 1)):
        yield order[rank == number]

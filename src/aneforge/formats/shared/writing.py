"""Elements written at places: slices of an axis, elements along one, or parts by coordinates.

All are operations of the op table. No engine writes by places that are computed; where they are known, `convert`
gathers the updates to their places, and other formats take the operations as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["broadcast_places", "coordinates", "write_along", "write_updates"]


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
    """Return a tensor with updates written or combined at coordinates, which are along the last axis."""
    return emit.apply("scatter_nd", {"data": x, "indices": at, "updates": updates}, mode=mode)


def write_along(emit: Emitter, x: Value, indices: Value, updates: Value, axis: int, mode: str) -> Value:
    """Return a tensor with elements written or combined along an axis, in every row at its own places.

    Slices are written where all rows have the same places; where indices leave rows out, elements by coordinates.
    """
    lines = [shape[:axis] + shape[axis + 1 :] for shape in (x.type.shape, indices.type.shape)]
    if lines[0] != lines[1]:
        return write_updates(emit, x, coordinates(emit, indices, axis), updates, mode)
    places = same_places(indices, axis)
    if places is not None:
        operands = {"data": x, "indices": emit.constant(places, "int32"), "updates": updates}
        return emit.apply("scatter", operands, axis=axis, mode=mode)
    operands = {"data": x, "indices": indices, "updates": updates}
    return emit.apply("scatter_along_axis", operands, axis=axis, mode=mode)


def same_places(indices: Value, axis: int) -> Array | None:
    """Return the places along an axis that all rows of known indices have; None where they differ."""
    if not isinstance(indices, Constant):
        return None
    rows = np.moveaxis(indices.dense(), axis, -1).reshape(-1, indices.type.shape[axis])
    return rows[0] if np.array_equal(rows, np.broadcast_to(rows[0], rows.shape)) else None

"""Resizing: along each axis by itself, results are read at places of the source that are known when the model is read.

Nearest elements are a gather, anything smoother is a product with a constant matrix of weights. Where the places are
those of one of the op table's own resizes, that is used.

Which element is the nearest is decided in single precision, as the frameworks do: 3 / 0.6 is 5 there, and a little less
in double precision, since 0.6 as a float32 is a little more. Smoother kernels change little with such a place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.interpolation import grid_points, nearest_indices
from aneforge.ops.types import is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["Along", "Reading", "resize_axes"]

Precision: TypeAlias = type[np.float32] | type[np.float64]

SAME_PLACES = 1e-9
"""Places that differ by less are one: two formulas of one spacing differ by a rounding."""
MATRIX_MOST = 2**26
"""Elements of a matrix of weights."""
TIE = 1e-6
"""What is as near to the middle between two elements is a tie: onnxruntime's distance (its issue 28291, and as its
results show: 2⁻²⁰ is a tie, 2⁻¹⁹ is none)."""
SCALE_ROUNDING = 2**-22
"""How much more than the integer that was meant a product may be, as a part of it: its scale is rounded to 24 bits
once, and the product once more."""


@dataclass(frozen=True, slots=True)
class Along:
    """How one axis is resized."""

    extent: int
    count: int
    scale: float
    """Results for each element; not quite count / extent where a scale was given."""
    region: tuple[float, float] = (0.0, 1.0)
    """What part of the source is read, in the mode that crops."""

    @property
    def length(self) -> float:
        """The length before it was rounded down to a count; the count, if only the scale's rounding is between them.

        >>> Along(30, 9, float(np.float32(0.3))).length, Along(7, 4, 0.6).length
        (9, 4.2)
        """
        length = self.scale * self.extent
        return self.count if math.isclose(length, self.count, rel_tol=SCALE_ROUNDING) else length


@dataclass(frozen=True, slots=True)
class Reading:
    """How results are read from the source."""

    mode: str
    transform: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def points(self, along: Along, precision: Precision = np.float64) -> Array:
        """Return the place in the source of every result, as it is computed in a precision."""
        index, scale = np.arange(along.count, dtype=precision), precision(along.scale)
        if self.transform == "tf_crop_and_resize":
            return list_cropped_points(along, index, precision)
        if self.transform == "align_corners":
            spaces = precision(along.length) - 1
            return index * precision(along.extent - 1) / spaces if spaces > 0 else np.zeros_like(index)
        if self.transform == "pytorch_half_pixel" and along.count == 1:
            return np.zeros_like(index)
        if self.transform == "half_pixel_symmetric":
            return symmetric_points(along, precision)
        shift = 0.0 if self.transform == "asymmetric" else 0.5
        back = 0.0 if self.transform in ("asymmetric", "tf_half_pixel_for_nn") else 0.5
        return (index + precision(shift)) / scale - precision(back)

    def nearest_places(self, along: Along) -> Array:
        """Return the element that stands for every result."""
        points = self.points(along, np.float32).astype(np.float64)  # so that rounding adds no error of its own
        lower = np.floor(points)
        tie = np.abs(points - lower - 0.5) <= TIE
        match self.nearest:
            case "round_prefer_floor":
                rounded = np.where(tie, lower, np.floor(points + 0.5))
            case "round_prefer_ceil":
                rounded = np.where(tie, lower + 1, np.floor(points + 0.5))
            case "ceil":
                rounded = np.ceil(points)
            case "ceil_if_shrunk" if along.scale < 1:
                rounded = np.ceil(points)
            case _:
                rounded = lower
        return np.clip(rounded, 0, along.extent - 1).astype(np.int64)

    def narrowing(self, along: Along) -> float:
        """Return by what distances are multiplied before they are weighted: without aliases a kernel gets wider."""
        return min(along.scale, 1.0) if self.antialias else 1.0

    def reach(self, along: Along) -> int:
        """Return how many elements on either side of a place count."""
        return math.ceil((1.0 if self.mode == "linear" else 2.0) / self.narrowing(along))

    def weights(self, along: Along) -> Array:
        """Return the matrix [results, elements] of what each element counts for each result.

        Elements beyond the ends are those at the ends, or count nothing where they are to be left out.
        """
        kernel = triangle if self.mode == "linear" else self.bicubic
        points, narrow, reach = self.points(along), self.narrowing(along), self.reach(along)
        first = np.floor(points).astype(np.int64)
        taps = first[:, None] + np.arange(1 - reach, reach + 1)
        values = kernel((taps - points[:, None]) * narrow)
        if self.exclude_outside:
            values = np.where((taps >= 0) & (taps < along.extent), values, 0.0)
        if self.exclude_outside or self.antialias:
            values = values / values.sum(axis=1, keepdims=True)
        matrix = np.zeros((along.count, along.extent))
        rows = np.broadcast_to(np.arange(along.count)[:, None], taps.shape)
        np.add.at(matrix, (rows, np.clip(taps, 0, along.extent - 1)), values)
        return matrix

    def bicubic(self, distance: Array) -> Array:
        """Return Keys' cubic kernel."""
        a, t = self.cubic, np.abs(distance)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = (((t - 5) * t + 8) * t - 4) * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def triangle(distance: Array) -> Array:
    """Return the kernel of linear interpolation."""
    return np.clip(1 - np.abs(distance), 0, None)


def list_cropped_points(along: Along, index: Array, precision: Precision) -> Array:
    """Return the places of results that are spread over a part of the source."""
    start, end = (precision(bound) for bound in along.region)
    last = precision(along.extent - 1)
    if along.count > 1:
        return start * last + index * (end - start) * last / precision(along.count - 1)
    return np.full_like(index, precision(0.5) * (start + end) * last)


def symmetric_points(along: Along, precision: Precision) -> Array:
    """Return the places of results where what rounding the length cut off is shared by both ends.

    The share has the precision, and so has the sum; the terms of the sum have more, as onnxruntime's results show.
    """
    scale, extent = precision(along.scale), precision(along.extent)
    share = extent / 2 * (1 - precision(along.count) / (scale * extent))
    middles = (np.arange(along.count, dtype=np.float64) + 0.5) / float(scale)
    return (float(share) + middles - 0.5).astype(precision)


def resize_axes(emit: Emitter, x: Value, alongs: dict[int, Along], reading: Reading) -> Value:
    """Return a tensor resized along axes."""
    if any(along.extent == 0 or along.count == 0 for along in alongs.values()):
        shape = [alongs[axis].count if axis in alongs else extent for axis, extent in enumerate(x.type.shape)]
        return emit.empty(shape, x.type.dtype)
    for along in alongs.values():
        emit.room(max(along.count, along.extent))
    own = by_table(emit, x, alongs, reading)
    if own is not None:
        return own
    result = x if reading.mode == "nearest" or is_float(x.type.dtype) else emit.cast(x, "fp32")
    for axis, along in alongs.items():
        if reading.mode == "nearest":
            places = reading.nearest_places(along)
            if not np.array_equal(places, np.arange(along.extent)):
                result = emit.take(result, places, axis)
        else:
            result = weight(emit, result, axis, along, reading)
    return emit.cast(result, x.type.dtype)


def weight(emit: Emitter, x: Value, axis: int, along: Along, reading: Reading) -> Value:
    """Return a tensor with one axis multiplied by a matrix of weights.

    Raises:
        GraphError: The matrix would be too large.
    """
    if along.count * along.extent > MATRIX_MOST:
        raise GraphError("the axis is too long to be resized by a matrix", seen=f"{along.extent} to {along.count}")
    emit.room(along.count, 2 * reading.reach(along))
    matrix = reading.weights(along)
    if along.count == along.extent and np.array_equal(matrix, np.eye(along.extent)):
        return x
    if axis == x.type.rank - 2:
        return emit.apply("matmul", {"x": emit.constant(matrix, x.type.dtype), "y": x})
    turned = emit.moved(x, axis, -1)
    if turned.type.rank == 1:
        turned = emit.expand(turned, 0)
    result = emit.matmul(turned, emit.constant(matrix.T, x.type.dtype))
    return emit.moved(emit.reshape(result, (along.count,)) if x.type.rank == 1 else result, -1, axis)


def by_table(emit: Emitter, x: Value, alongs: dict[int, Along], reading: Reading) -> Value | None:
    """Return one of the op table's own resizes of height and width, if it reads at the same places."""
    rank = x.type.rank
    spatial = [alongs.get(axis) for axis in (rank - 2, rank - 1)]
    others = [along for axis, along in alongs.items() if axis < rank - 2]
    rows, columns = spatial if len(spatial) == 2 else (None, None)
    if rank < 3 or rows is None or columns is None or reading.transform == "tf_crop_and_resize":
        return None
    if any(along.count != along.extent or along.scale != 1 for along in others):
        return None
    pair = (rows, columns)
    if reading.mode == "nearest":
        same = all(
            np.array_equal(reading.nearest_places(one), nearest_indices(one.extent, one.count, "DEFAULT"))
            for one in pair
        )
        size = {"target_size_height": rows.count, "target_size_width": columns.count}
        return emit.apply("resize_nearest_neighbor", {"x": x}, **size) if same else None
    if reading.mode != "linear" or reading.antialias or reading.exclude_outside or not is_float(x.type.dtype):
        return None
    for sampling in ("UNALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "DEFAULT"):
        if all(same_points(reading, one, sampling) for one in pair):
            size = {"target_size_height": rows.count, "target_size_width": columns.count}
            return emit.apply("resize_bilinear", {"x": x}, sampling_mode=sampling, **size)
    return None


def same_points(reading: Reading, along: Along, sampling: str) -> bool:
    """Return whether an axis is read at the places of a sampling mode of the op table."""
    points = np.clip(reading.points(along), 0, along.extent - 1)
    return bool(np.allclose(points, grid_points(along.extent, along.count, sampling), rtol=0, atol=SAME_PLACES))

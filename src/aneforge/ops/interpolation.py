"""Reading images between their elements: where results of resizing and warping are in the source, and what is there.

The sampling modes have MIL's names and the formulas that Apple documents for BNNSLinearSamplingMode. For ALIGN_CORNERS
that page repeats the spacing of the default mode; here it is spaced as results of Core ML show (apple/coremltools
issue 644). What no source says, such as which neighbour is the nearest on a tie, is said below as what is taken here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.arithmetic import reshape_along

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = [
    "SAMPLING_MODES",
    "bilinear",
    "extended",
    "folded",
    "grid_points",
    "linear_along",
    "nearest_indices",
    "normalised",
    "pixels",
    "places",
    "sampled",
    "upsampling_points",
]

SAMPLING_MODES = ("DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "UNALIGN_CORNERS", "OFFSET_CORNERS")


def grid_points(extent: float | Array, count: int, mode: str) -> Array:
    """Return the places, in a source of `extent` elements, from which `count` results are read.

    Result i is read at the following place, moved into 0 … extent − 1:

    - DEFAULT: i · extent / count;
    - STRICT_ALIGN_CORNERS: i · (extent − 1) / (count − 1), so that both ends meet; 0 if there is one result;
    - ALIGN_CORNERS: the same, but the middle, (extent − 1) / 2, if there is one result;
    - UNALIGN_CORNERS: (i + ½) · extent / count − ½, so that the outer edges of the end elements meet;
    - OFFSET_CORNERS: (i + ½) · max(1, extent − 1) / count, the middles of equal parts of the source.

    Several extents give a row of places each. An extent need not be whole; one below 1 is of a source that is read
    backwards, and places are moved into extent − 1 … 0.

    >>> grid_points(2, 4, "DEFAULT"), grid_points(2, 4, "UNALIGN_CORNERS")
    (array([0. , 0.5, 1. , 1. ]), array([0.  , 0.25, 0.75, 1.  ]))
    """
    size = np.expand_dims(extent, -1)
    index = np.arange(count, dtype=np.float64)
    match mode:
        case "DEFAULT":
            points = index * size / count
        case "UNALIGN_CORNERS":
            points = (index + 0.5) * size / count - 0.5
        case "OFFSET_CORNERS":
            points = (index + 0.5) * np.maximum(1, size - 1) / count
        case "ALIGN_CORNERS" if count == 1:
            points = (size - 1) / 2
        case _:
            points = index * (size - 1) / max(count - 1, 1)
    return np.clip(points, np.minimum(size - 1, 0), np.maximum(size - 1, 0))


def upsampling_points(extent: int, count: int, *, align_corners: bool, half_pixel_centers: bool | None) -> Array:
    """Return the places, in a source of `extent` elements, from which upsample_bilinear reads `count` results.

    They are spaced (extent − 1) / (count − 1) apart if corners are aligned, else extent / count. With half-pixel
    centers, the default if corners are not aligned, the middles of elements correspond rather than their starts: half
    an element is added before the spacing is applied, and taken off after it.
    """
    half = not align_corners if half_pixel_centers is None else half_pixel_centers
    offset = 0.5 if half else 0.0
    spacing = (extent - 1) / max(count - 1, 1) if align_corners else extent / count
    return np.clip((np.arange(count) + offset) * spacing - offset, 0, extent - 1)


def nearest_indices(extent: int, count: int, mode: str) -> Array:
    """Return the element that is nearest to each place of a sampling mode.

    In the mode DEFAULT a place is the start of an element's reach, so it rounds down; in the others it rounds to the
    nearest, a half up. No source states either; they are what the frameworks do whose resizing MIL stands for.
    """
    places = grid_points(extent, count, mode)
    rounded = np.floor(places if mode == "DEFAULT" else places + 0.5)
    return np.minimum(rounded, extent - 1).astype(np.intp)


def mixed(first: Array, second: Array, weight: Array) -> Array:
    """Return what is between two values; the second counts for nothing, even if infinite, where its weight is 0."""
    return np.where(weight == 0, first, first * (1 - weight) + second * weight)


def linear_along(x: Array, axis: int, points: Array) -> Array:
    """Read an array at fractional places along an axis: the two neighbours, weighted."""
    lower, upper = np.floor(points).astype(np.intp), np.ceil(points).astype(np.intp)
    weight = reshape_along(points - lower, x.ndim, axis)
    return mixed(np.take(x, lower, axis), np.take(x, upper, axis), weight)


def bilinear(x: Array, rows: Array, columns: Array) -> Array:
    """Read images at the crossings of fractional rows and columns."""
    return linear_along(linear_along(x, -2, rows), -1, columns)


def extended(index: Array, extent: int, padding_mode: str) -> Array:
    """Return which element stands for each index, inside an axis or beyond its ends.

    >>> beyond = np.arange(-3, 6)
    >>> [list(map(int, extended(beyond, 3, mode))) for mode in ("border", "reflection", "symmetric")]
    [[0, 0, 0, 0, 1, 2, 2, 2, 2], [1, 2, 1, 0, 1, 2, 1, 0, 1], [2, 1, 0, 0, 1, 2, 2, 1, 0]]
    """
    if padding_mode == "reflection":
        period = 2 * (extent - 1)
        folded = index % max(period, 1)
        return np.minimum(folded, period - folded)
    if padding_mode == "symmetric":
        folded = index % (2 * extent)
        return np.minimum(folded, 2 * extent - 1 - folded)
    return np.clip(index, 0, extent - 1)


def folded(place: Array, extent: int, padding_mode: str) -> Array:
    """Return fractional places with those beyond an axis mirrored into it; other padding modes leave them.

    >>> [folded(np.array([-1.0, -0.5, 2.2, 3.5]), 3, mode).round(3).tolist() for mode in ("reflection", "symmetric")]
    [[1.0, 0.5, 1.8, 0.5], [0.0, 0.0, 2.0, 1.5]]
    """
    if padding_mode == "reflection":
        period = 2 * (extent - 1)
        within = place % max(period, 1)
        return np.minimum(within, period - within) if period else np.zeros_like(place)
    if padding_mode == "symmetric":
        from_edge = (place + 0.5) % (2 * extent)
        return np.clip(np.minimum(from_edge, 2 * extent - from_edge) - 0.5, 0, extent - 1)
    return place


def pixels(x: Array, rows: Array, columns: Array, padding_mode: str, padding_value: float) -> Array:
    """Return x[n, :, rows[n], columns[n]] for whole rows and columns, which may be outside the image."""
    height, width = x.shape[2:]
    image = np.arange(len(x))[:, None, None]
    inner = extended(rows, height, padding_mode), extended(columns, width, padding_mode)
    values = np.moveaxis(np.moveaxis(x, 1, -1)[image, *inner], -1, 1)
    if padding_mode != "constant":
        return values
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return np.where(inside[:, None], values, padding_value)


def sampled(x: Array, rows: Array, columns: Array, padding_mode: str, padding_value: float) -> Array:
    """Return images of `x` [N, C, H, W] read at fractional places [N, Hout, Wout], bilinearly.

    The neighbours of a place beyond the image are what the padding mode puts there.
    """
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[:, None], (columns - left)[:, None]
    y, z = top.astype(np.intp), left.astype(np.intp)
    corner = [pixels(x, y + i, z + j, padding_mode, padding_value) for i in (0, 1) for j in (0, 1)]
    return mixed(mixed(corner[0], corner[1], right), mixed(corner[2], corner[3], right), down)


def places(coordinates: Array, extent: int, coordinates_mode: str, *, align_corners: bool) -> Array:
    """Return coordinates as places of elements, the middle of the first being 0.

    A normalised range reaches over the middles of the end elements if corners are aligned, and over their outer edges
    if not. Coordinates that are not normalised are places already.
    """
    if coordinates_mode == "unnormalized":
        return coordinates.astype(np.float64)
    unit = (coordinates + 1) / 2 if coordinates_mode == "normalized_minus_one_to_one" else coordinates
    return unit * (extent - 1) if align_corners else unit * extent - 0.5


def normalised(count: int, *, align_corners: bool) -> Array:
    """Return the places of `count` elements in the range −1 … 1; a single one is in its middle."""
    index = np.arange(count, dtype=np.float64)
    if align_corners:
        return 2 * index / (count - 1) - 1 if count > 1 else np.zeros(1)
    return (2 * index + 1) / count - 1

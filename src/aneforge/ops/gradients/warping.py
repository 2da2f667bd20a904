"""Gradients of reading images between their elements: of the image and of the places that are read.

The reading is written as products with weights, which are 1 − |distance| between a place and an element, or 0; what is
linear in the image and piecewise linear in the places is differentiated by the rules of those operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import through
from aneforge.ops.gradients.shifting import level
from aneforge.ops.interpolation import normalised

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term
    from aneforge.ops.types import Array

EDGE = 1e-3
"""How far beyond the edge a place of a box may be that is meant to be on it; fp16 holds it for small places."""


def weights(to: Site, places: Term, extent: int) -> Term:
    """Return how much every element of an axis counts at places [N, P]: [N, P, extent]."""
    index = to.constant(np.arange(extent, dtype=np.float64), places.dtype)
    distance = places.reshape(shape=(*places.shape, 1)) - index
    return (distance.abs() * -1.0 + 1.0).relu()


def read(to: Site, x: Term, rows: Term, columns: Term, background: float) -> Term:
    """Return images [N, C, H, W] read at places [N, P], [N, C, P]; outside of the image is the background."""
    images, channels, height, width = x.shape
    count = rows.shape[1]
    down = weights(to, rows, height).reshape(shape=(images, count, height, 1))
    across = weights(to, columns, width).reshape(shape=(images, count, 1, width))
    parts = (down * across).reshape(shape=(images, count, height * width))
    result = x.reshape(shape=(images, channels, height * width)).matmul(parts, transpose_y=True)
    if not background:
        return result
    rest = parts.reduce_sum(axes=(2,), keep_dims=False) * -background + background
    return result + rest.reshape(shape=(images, 1, count))


def folded(to: Site, place: Term, extent: int, padding_mode: str) -> Term:
    """Return places with those beyond an axis moved into it, as the padding mode does; a constant leaves them."""
    last = float(extent - 1)
    if padding_mode == "reflection" and extent > 1:
        within = place.mod(level(to, 2 * last, place))
        return (within - last).abs() * -1.0 + last
    if padding_mode == "symmetric":
        from_edge = (place + 0.5).mod(level(to, 2.0 * extent, place))
        place = (from_edge - float(extent)).abs() * -1.0 + (extent - 0.5)
    if padding_mode == "constant":
        return place
    return place.clip(alpha=0.0, beta=last)


def place_of(coordinate: Term, extent: int, mode: str, *, align_corners: bool) -> Term:
    """Return coordinates as places of elements."""
    if mode == "unnormalized":
        return coordinate
    unit = coordinate * 0.5 + 0.5 if mode == "normalized_minus_one_to_one" else coordinate
    return unit * float(extent - 1) if align_corners else unit * float(extent) + -0.5


def resampled(  # noqa: PLR0913 - the attributes of the operation
    to: Site,
    x: Term,
    coordinates: Term,
    *,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Term:
    """Return images read at coordinates (column, row)."""
    images, high, wide, _ = coordinates.shape
    found: list[Term] = []
    for number, extent in ((1, x.shape[2]), (0, x.shape[3])):
        one = coordinates.slice_by_size(begin=(0, 0, 0, number), size=(images, high, wide, 1))
        flat = one.reshape(shape=(images, high * wide))
        typed = flat if flat.dtype == x.dtype else flat.cast(dtype=x.dtype)
        place = place_of(typed, extent, coordinates_mode, align_corners=align_corners)
        inside = folded(to, place, extent, padding_mode)
        found.append(inside if sampling_mode == "bilinear" else inside.round())
    background = padding_value if padding_mode == "constant" else 0.0
    return read(to, x, found[0], found[1], background).reshape(shape=(*x.shape[:2], high, wide))


def transformed(  # noqa: PLR0913 - the attributes of the operation
    to: Site,
    x: Term,
    transform_matrix: Term,
    *,
    output_height: int,
    output_width: int,
    align_corners: bool,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
) -> Term:
    """Return images read at transformed places: the six numbers times (column, row, 1)."""
    u = normalised(output_width, align_corners=align_corners)
    v = normalised(output_height, align_corners=align_corners)
    grid = np.stack([*np.meshgrid(u, v), np.ones((len(v), len(u)))]).reshape(3, -1)
    count = transform_matrix.shape[0]
    typed = transform_matrix if transform_matrix.dtype == x.dtype else transform_matrix.cast(dtype=x.dtype)
    pairs = typed.reshape(shape=(count, 2, 3)).matmul(to.constant(grid, x.dtype, "places of the result"))
    coordinates = pairs.transpose(perm=(0, 2, 1)).reshape(shape=(count, output_height, output_width, 2))
    if count < x.shape[0]:
        coordinates = coordinates.tile(reps=(x.shape[0], 1, 1, 1))
    return resampled(
        to,
        x,
        coordinates,
        sampling_mode=sampling_mode,
        padding_mode=padding_mode,
        padding_value=padding_value,
        coordinates_mode=coordinates_mode,
        align_corners=align_corners,
    )


def grid_places(to: Site, size: Term, count: int, mode: str) -> Term:
    """Return the places [boxes, count] that a sampling mode reads of sources of some lengths [boxes, 1]."""
    index = np.arange(count, dtype=np.float64)[None]

    def times(values: Array, term: Term) -> Term:
        return term * to.constant(values, size.dtype, "steps of a sampling mode")

    less = size + -1.0
    if mode == "DEFAULT":
        points = times(index / count, size)
    elif mode == "UNALIGN_CORNERS":
        points = times((index + 0.5) / count, size) + -0.5
    elif mode == "OFFSET_CORNERS":
        points = times((index + 0.5) / count, less.maximum(level(to, 1.0, size)))
    elif mode == "ALIGN_CORNERS" and count == 1:
        points = less * 0.5
    else:
        points = times(index / max(count - 1, 1), less)
    zero = level(to, 0.0, size)
    return points.maximum(less.minimum(zero)).minimum(less.maximum(zero))


def box_ends(boxes: Term, mode: str) -> tuple[list[Term], list[Term]]:
    """Return the first and the last row and column of boxes, each [boxes, 1]."""
    count = boxes.shape[0]
    order = (1, 0, 3, 2) if mode.endswith("WIDTH_FIRST") else (0, 1, 2, 3)
    parts = [boxes.slice_by_size(begin=(0, number), size=(count, 1)) for number in order]
    if mode.startswith("CORNERS"):
        return parts[:2], parts[2:]
    halves = [size * 0.5 for size in parts[2:]]
    pairs = list(zip(parts[:2], halves, strict=True))
    return [centre - half for centre, half in pairs], [centre + half for centre, half in pairs]


def cropped(  # noqa: PLR0913 - the operands and attributes of the operation
    to: Site,
    x: Term,
    boxes: Term,
    box_indices: Term | None,
    *,
    target_height: int,
    target_width: int,
    normalized_coordinates: bool,
    spatial_scale: float,
    box_coordinate_mode: str,
    sampling_mode: str,
    pad_value: float,
) -> Term:
    """Return what is in each box, read at the places of a grid; a place beyond the image is the padding."""
    count, extents = boxes.shape[0], x.shape[2:]
    own = np.arange(count) if x.shape[0] > 1 else np.zeros(count)
    images = x.gather(to.constant(own, "int32") if box_indices is None else box_indices, axis=0)
    typed = boxes if boxes.dtype == x.dtype else boxes.cast(dtype=x.dtype)
    axes: list[Term] = []
    outside: list[Term] = []
    for first, last, extent, target in zip(
        *box_ends(typed, box_coordinate_mode), extents, (target_height, target_width), strict=True
    ):
        factor = spatial_scale * (extent - 1 if normalized_coordinates else 1)
        start = first * factor
        size = (last * factor - start) + 1.0
        place = start + grid_places(to, size, target, sampling_mode)
        beyond = place.clip(alpha=-EDGE, beta=extent - 1 + EDGE).equal(place)
        axes.append(place.clip(alpha=0.0, beta=float(extent - 1)))
        outside.append(beyond)
    places = [
        one.reshape(shape=shape).tile(reps=reps).reshape(shape=(count, target_height * target_width))
        for one, shape, reps in zip(
            axes,
            ((count, target_height, 1), (count, 1, target_width)),
            ((1, 1, target_width), (1, target_height, 1)),
            strict=True,
        )
    ]
    result = read(to, images, places[0], places[1], 0.0)
    shape = (count, x.shape[1], target_height, target_width)
    inside_rows = outside[0].reshape(shape=(count, 1, target_height, 1))
    inside_columns = outside[1].reshape(shape=(count, 1, 1, target_width))
    padding = level(to, pad_value, x)
    return inside_rows.select(inside_columns.select(result.reshape(shape=shape), padding), padding)


RESAMPLED = through(resampled, "through products with the weights of every place, of x and of the coordinates")
TRANSFORMED = through(transformed, "through products with the weights of every place, of x and of the transform")
CROPPED = through(cropped, "through products with the weights of every place, of x and of the boxes")

"""Independent warps: torch's grid sampling, and plain loops over boxes."""

from __future__ import annotations

import math
import warnings
from typing import TypedDict, Unpack, cast

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor

TORCH_PADDING = {"constant": "zeros", "border": "border", "reflection": "reflection", "symmetric": "reflection"}


def spread(count: int, extent: float, mode: str) -> list[float]:
    """Return the places of `count` results in a box that holds `extent` elements."""
    last = extent - 1
    if mode == "OFFSET_CORNERS":
        at = [max(1.0, last) * (2 * i + 1) / (2 * count) for i in range(count)]
    elif mode == "UNALIGN_CORNERS":
        at = [extent / count * i + (extent / count - 1) / 2 for i in range(count)]
    elif mode == "DEFAULT":
        at = [extent / count * i for i in range(count)]
    elif count > 1:
        at = [last / (count - 1) * i for i in range(count)]
    else:
        at = [last / 2 if mode == "ALIGN_CORNERS" else 0.0]
    return [min(max(last, 0.0), max(min(last, 0.0), one)) for one in at]


def ends(box: list[float], mode: str) -> tuple[float, float, float, float]:
    a, b, c, d = box
    if mode == "CORNERS_HEIGHT_FIRST":
        return a, b, c, d
    if mode == "CORNERS_WIDTH_FIRST":
        return b, a, d, c
    if mode == "CENTER_SIZE_HEIGHT_FIRST":
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return b - d / 2, a - c / 2, b + d / 2, a + c / 2


def tent(image: Array, row: float, column: float, outside: float) -> Array:
    """Return an image [C, H, W] at a place: all pixels within 1 of it, weighted by how near they are."""
    for place, extent in ((round(row, 9), image.shape[1]), (round(column, 9), image.shape[2])):
        if place < 0 or place > extent - 1:
            return np.zeros(image.shape[0]) + outside
    total = np.zeros(image.shape[0])
    for i in range(math.floor(row) - 1, math.floor(row) + 3):
        for j in range(math.floor(column) - 1, math.floor(column) + 3):
            weight = max(0.0, 1 - abs(row - i)) * max(0.0, 1 - abs(column - j))
            if 0 <= i < image.shape[1] and 0 <= j < image.shape[2]:  # others are of no weight, but for rounding
                total += weight * image[:, i, j]
    return total


class Cropping(TypedDict):
    """The attributes of crop_resize."""

    target_height: int
    target_width: int
    normalized_coordinates: bool
    spatial_scale: float
    box_coordinate_mode: str
    sampling_mode: str
    pad_value: float


def crop_resize(x: Array, boxes: Array, box_indices: Array | None, **given: Unpack[Cropping]) -> Array:
    size, mode = (given["target_height"], given["target_width"]), given["sampling_mode"]
    result = np.zeros((len(boxes), x.shape[1], *size))
    high, wide = (x.shape[2] - 1, x.shape[3] - 1) if given["normalized_coordinates"] else (1, 1)
    for number, box in enumerate(cast("list[list[float]]", boxes.tolist())):
        top, left, bottom, right = ends([given["spatial_scale"] * one for one in box], given["box_coordinate_mode"])
        index = number if x.shape[0] > 1 else 0
        image = x[index if box_indices is None else int(box_indices[number])]
        rows = spread(size[0], (bottom - top) * high + 1, mode)
        columns = spread(size[1], (right - left) * wide + 1, mode)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                result[number, :, i, j] = tent(image, top * high + row, left * wide + column, given["pad_value"])
    return result


def torch_coordinates(given: Array, extent: int, coordinates_mode: str, *, align: bool, as_aligned: bool) -> Array:
    """Return coordinates as torch wants them, by two straight lines: given to pixels, pixels to −1 … 1."""
    pixel_ends = (0.0, extent - 1.0) if align else (-0.5, extent - 0.5)
    low, high = {"normalized_minus_one_to_one": (-1.0, 1.0), "normalized_zero_to_one": (0.0, 1.0)}.get(
        coordinates_mode, pixel_ends
    )
    if coordinates_mode == "unnormalized":
        pixel = given.astype(np.float64)
    else:
        pixel = pixel_ends[0] + (given - low) / (high - low) * (pixel_ends[1] - pixel_ends[0])
    if as_aligned:
        return np.zeros_like(pixel) if extent == 1 else pixel / (extent - 1) * 2 - 1
    return (pixel + 0.5) / extent * 2 - 1


def resample(
    x: Array,
    coordinates: Array,
    *,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Array:
    as_aligned = padding_mode == "reflection"  # torch mirrors at the middles of pixels only with aligned corners
    grid = np.stack(
        [
            torch_coordinates(
                coordinates[..., axis], extent, coordinates_mode, align=align_corners, as_aligned=as_aligned
            )
            for axis, extent in enumerate((x.shape[3], x.shape[2]))
        ],
        axis=-1,
    )
    shift = padding_value if padding_mode == "constant" else 0.0
    sampled = torch.nn.functional.grid_sample(
        tensor(x) - shift,
        tensor(grid),
        mode=sampling_mode,
        padding_mode=TORCH_PADDING[padding_mode],
        align_corners=as_aligned,
    )
    return array(sampled + shift)


def affine(
    x: Array,
    transform_matrix: Array,
    *,
    output_height: int,
    output_width: int,
    padding_value: float,
    align_corners: bool,
    **_: str,
) -> Array:
    theta = tensor(transform_matrix).reshape(-1, 2, 3).expand(x.shape[0], 2, 3)
    with warnings.catch_warnings():  # torch warns that it once did a result of one element otherwise
        warnings.simplefilter("ignore")
        grid = torch.nn.functional.affine_grid(
            theta, [*x.shape[:2], output_height, output_width], align_corners=align_corners
        )
    sampled = torch.nn.functional.grid_sample(tensor(x) - padding_value, grid, align_corners=align_corners)
    return array(sampled + padding_value)


ORACLES: dict[str, Oracle] = {"crop_resize": crop_resize, "resample": resample, "affine": affine}

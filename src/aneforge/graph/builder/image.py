"""Rearranging, cropping and resampling images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.builder.arguments import expect_image
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.methods.method_arguments import flag, number, text, whole, whole_list
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "affine",
    "crop",
    "crop_resize",
    "depth_to_space",
    "pixel_shuffle",
    "pixel_unshuffle",
    "resample",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "space_to_depth",
    "upsample_bilinear",
]


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Move blocks of pixels into channels, the position in the block varying slowest.

    >>> import aneforge as af
    >>> af.space_to_depth(af.input((1, 3, 8, 8)), 2).shape
    (1, 12, 4, 4)
    """
    op = "space_to_depth"
    return image_op(op, x, block_size=whole(block, op, "block", least=1))


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Move channels into blocks of pixels, the position in the block varying slowest.

    >>> import aneforge as af
    >>> af.depth_to_space(af.input((1, 12, 4, 4)), 2).shape
    (1, 3, 8, 8)
    """
    op = "depth_to_space"
    return image_op(op, x, block_size=whole(block, op, "block", least=1))


def pixel_shuffle(x: Tensor, r: int) -> Tensor:
    """Move channels into blocks of pixels, the position in the block varying fastest.

    >>> import aneforge as af
    >>> af.pixel_shuffle(af.input((1, 12, 4, 4)), 2).shape
    (1, 3, 8, 8)
    """
    op = "pixel_shuffle"
    return image_op(op, x, upscale_factor=whole(r, op, "r", least=1))


def pixel_unshuffle(x: Tensor, r: int) -> Tensor:
    """Move blocks of pixels into channels, the position in the block varying fastest.

    >>> import aneforge as af
    >>> af.pixel_unshuffle(af.input((1, 3, 8, 8)), 2).shape
    (1, 12, 4, 4)
    """
    op = "pixel_unshuffle"
    return image_op(op, x, downscale_factor=whole(r, op, "r", least=1))


def crop(x: Tensor, t: int, b: int, l: int, r: int) -> Tensor:  # noqa: E741 - the documented names
    """Cut rows off the top and bottom, and columns off the left and right.

    >>> import aneforge as af
    >>> af.crop(af.input((1, 3, 8, 8)), t=1, b=2, l=0, r=3).shape
    (1, 3, 5, 5)
    """
    top, bottom, left, right = (
        whole(value, "crop", name, least=0) for name, value in (("t", t), ("b", b), ("l", l), ("r", r))
    )
    return image_op("crop", x, crop_height=(top, bottom), crop_width=(left, right))


def resize_nearest_neighbor(x: Tensor, h: int, w: int) -> Tensor:
    """Resample an image to a size, every pixel from its nearest one.

    >>> import aneforge as af
    >>> af.resize_nearest_neighbor(af.input((1, 3, 8, 8)), 16, 12).shape
    (1, 3, 16, 12)
    """
    op = "resize_nearest_neighbor"
    height, width = size(op, h, w)
    return image_op(op, x, target_size_height=height, target_size_width=width)


def resize_bilinear(x: Tensor, h: int, w: int, align_corners: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Resample an image to a size, every pixel from its four neighbours.

    >>> import aneforge as af
    >>> af.resize_bilinear(af.input((1, 3, 8, 8)), 16, 12).shape
    (1, 3, 16, 12)
    """
    op = "resize_bilinear"
    height, width = size(op, h, w)
    mode = "ALIGN_CORNERS" if flag(align_corners, op, "align_corners") else "DEFAULT"
    return image_op(op, x, target_size_height=height, target_size_width=width, sampling_mode=mode)


def upsample_bilinear(x: Tensor, scale: float = 2, align: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Enlarge an image, every pixel from its four neighbours.

    >>> import aneforge as af
    >>> af.upsample_bilinear(af.input((1, 3, 8, 8)), 2).shape
    (1, 3, 16, 16)
    """
    op = "upsample_bilinear"
    factor = number(scale, op, "scale")
    return image_op(
        op,
        x,
        scale_factor_height=factor,
        scale_factor_width=factor,
        align_corners=flag(align, op, "align"),
    )


def affine(x: Tensor, transform: object, oh: int, ow: int, align: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Sample an image along an affine map [N, 6] of the output's coordinates, zero outside.

    The map is a tensor or an array.

    >>> import numpy as np
    >>> import aneforge as af
    >>> unchanged = np.array([[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
    >>> af.affine(af.input((1, 3, 8, 8)), unchanged, 4, 4).shape
    (1, 3, 4, 4)
    """
    tensor = expect_image(x, "affine")
    height, width = size("affine", oh, ow)
    matrix = tensor_or_weight(transform, "affine", "transform")
    node = build_checked(
        "affine",
        {"x": tensor, "transform_matrix": matrix},
        output_height=height,
        output_width=width,
        sampling_mode="bilinear",
        padding_mode="constant",
        padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=flag(align, "affine", "align"),
    )
    return Tensor(node)


def crop_resize(  # noqa: PLR0913 - the arguments of MIL
    x: Tensor,
    boxes: object,
    target_height: int,
    target_width: int,
    *,
    box_indices: Sequence[int] | None = None,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Tensor:
    """Cut boxes [boxes, 4] out of images, each brought to one height and width bilinearly.

    The boxes are a tensor or an array; `box_indices` says which image each is cut from.

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.crop_resize(af.input((1, 3, 8, 8)), np.array([[0.0, 0.0, 3.0, 3.0], [2.0, 2.0, 7.0, 7.0]]), 4, 4).shape
    (2, 3, 4, 4)
    """
    op = "crop_resize"
    node = build_checked(
        op,
        {
            "x": expect_image(x, op),
            "boxes": tensor_or_weight(boxes, op, "boxes"),
            "box_indices": None if box_indices is None else image_numbers(box_indices, op),
        },
        target_height=whole(target_height, op, "target_height", least=1),
        target_width=whole(target_width, op, "target_width", least=1),
        normalized_coordinates=flag(normalized_coordinates, op, "normalized_coordinates"),
        spatial_scale=number(spatial_scale, op, "spatial_scale"),
        box_coordinate_mode=text(box_coordinate_mode, op, "box_coordinate_mode"),
        sampling_mode=text(sampling_mode, op, "sampling_mode"),
        pad_value=number(pad_value, op, "pad_value"),
    )
    return Tensor(node)


def resample(
    x: Tensor,
    coordinates: object,
    *,
    sampling_mode: str = "bilinear",
    padding_mode: str = "constant",
    padding_value: float = 0.0,
    coordinates_mode: str = "normalized_minus_one_to_one",
    align_corners: bool = False,
) -> Tensor:
    """Sample an image at coordinates [N, height, width, 2]: the column and the row of every result.

    The coordinates are a tensor or an array.

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.resample(af.input((1, 3, 8, 8)), np.zeros((1, 4, 5, 2))).shape
    (1, 3, 4, 5)
    """
    op = "resample"
    node = build_checked(
        op,
        {"x": expect_image(x, op), "coordinates": tensor_or_weight(coordinates, op, "coordinates")},
        sampling_mode=text(sampling_mode, op, "sampling_mode"),
        padding_mode=text(padding_mode, op, "padding_mode"),
        padding_value=number(padding_value, op, "padding_value"),
        coordinates_mode=text(coordinates_mode, op, "coordinates_mode"),
        align_corners=flag(align_corners, op, "align_corners"),
    )
    return Tensor(node)


def tensor_or_weight(value: object, op: str, what: str) -> Output | Constant:
    """Return an operand that may be computed or known."""
    return value if isinstance(value, Output) else weight(value, op, what)


def image_numbers(values: object, op: str) -> Constant:
    """Return the number of the image that each box is cut from."""
    return Dense(np.array(whole_list(values, op, "box_indices"), np.int32))


def size(op: str, height: object, width: object) -> tuple[int, int]:
    """Return the size of an image."""
    return whole(height, op, "the height", least=1), whole(width, op, "the width", least=1)


def image_op(op: str, x: Tensor, **attributes: object) -> Tensor:
    """Return an operation on an image [N, C, H, W]."""
    return Tensor(build_checked(op, {"x": expect_image(x, op)}, **attributes))

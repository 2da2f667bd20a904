"""Rearranging, cropping and resampling images."""

from __future__ import annotations

from aneforge.graph.builder.arguments import expect_image
from aneforge.graph.methods.arguments import flag, number, whole
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor

__all__ = [
    "affine",
    "crop",
    "depth_to_space",
    "pixel_shuffle",
    "pixel_unshuffle",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "space_to_depth",
    "upsample_bilinear",
]


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Move blocks of pixels into channels, the place in the block varying slowest.

    >>> import aneforge as af
    >>> af.space_to_depth(af.input((1, 3, 8, 8)), 2).shape
    (1, 12, 4, 4)
    """
    op = "space_to_depth"
    return image_op(op, x, block_size=whole(block, op, "block", least=1))


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Move channels into blocks of pixels, the place in the block varying slowest.

    >>> import aneforge as af
    >>> af.depth_to_space(af.input((1, 12, 4, 4)), 2).shape
    (1, 3, 8, 8)
    """
    op = "depth_to_space"
    return image_op(op, x, block_size=whole(block, op, "block", least=1))


def pixel_shuffle(x: Tensor, r: int) -> Tensor:
    """Move channels into blocks of pixels, the place in the block varying fastest.

    >>> import aneforge as af
    >>> af.pixel_shuffle(af.input((1, 12, 4, 4)), 2).shape
    (1, 3, 8, 8)
    """
    op = "pixel_shuffle"
    return image_op(op, x, upscale_factor=whole(r, op, "r", least=1))


def pixel_unshuffle(x: Tensor, r: int) -> Tensor:
    """Move blocks of pixels into channels, the place in the block varying fastest.

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
    matrix = transform if isinstance(transform, Output) else weight(transform, "affine", "transform")
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


def size(op: str, height: object, width: object) -> tuple[int, int]:
    """Return the size of an image."""
    return whole(height, op, "the height", least=1), whole(width, op, "the width", least=1)


def image_op(op: str, x: Tensor, **attributes: object) -> Tensor:
    """Return an operation on an image [N, C, H, W]."""
    return Tensor(build_checked(op, {"x": expect_image(x, op)}, **attributes))

"""Rearranging, cropping and resampling images."""

from __future__ import annotations

from aneforge.graph.builder.normalisation import expect_image
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
    """Move blocks of pixels into channels, the place in the block varying slowest."""
    return image_op("space_to_depth", x, block_size=block)


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Move channels into blocks of pixels, the place in the block varying slowest."""
    return image_op("depth_to_space", x, block_size=block)


def pixel_shuffle(x: Tensor, r: int) -> Tensor:
    """Move channels into blocks of pixels, the place in the block varying fastest."""
    return image_op("pixel_shuffle", x, upscale_factor=r)


def pixel_unshuffle(x: Tensor, r: int) -> Tensor:
    """Move blocks of pixels into channels, the place in the block varying fastest."""
    return image_op("pixel_unshuffle", x, downscale_factor=r)


def crop(x: Tensor, top: int, bottom: int, left: int, right: int) -> Tensor:
    """Cut rows and columns off the borders."""
    return image_op("crop", x, crop_height=(top, bottom), crop_width=(left, right))


def resize_nearest_neighbor(x: Tensor, h: int, w: int) -> Tensor:
    """Resample an image to a size, every pixel from its nearest one."""
    return image_op("resize_nearest_neighbor", x, target_size_height=h, target_size_width=w)


def resize_bilinear(x: Tensor, h: int, w: int, align_corners: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Resample an image to a size, every pixel from its four neighbours."""
    mode = "ALIGN_CORNERS" if align_corners else "DEFAULT"
    return image_op("resize_bilinear", x, target_size_height=h, target_size_width=w, sampling_mode=mode)


def upsample_bilinear(x: Tensor, scale: float = 2, align: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Enlarge an image, every pixel from its four neighbours."""
    return image_op("upsample_bilinear", x, scale_factor_height=scale, scale_factor_width=scale, align_corners=align)


def affine(x: Tensor, transform: object, oh: int, ow: int, align: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - the documented signature
    """Sample an image along an affine map [N, 6] of the output's coordinates, zero outside."""
    expect_image(x, "affine")
    matrix = transform if isinstance(transform, Output) else weight(transform, "transform")
    node = build_checked(
        "affine",
        {"x": x, "transform_matrix": matrix},
        output_height=oh,
        output_width=ow,
        sampling_mode="bilinear",
        padding_mode="constant",
        padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=align,
    )
    return Tensor(node)


def image_op(op: str, x: Tensor, **attributes: object) -> Tensor:
    """Return an operation on an image [N, C, H, W]."""
    expect_image(x, op)
    return Tensor(build_checked(op, {"x": x}, **attributes))

"""Operations that move elements between the channels or the batch of an image and its rows and columns.

They differ in the order in which a block of b × b places becomes channels. Block-major: channel (i·b + j)·C + c holds
place (i, j) of channel c. Channel-major: channel (c·b + i)·b + j does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Op, Support, Surface
from aneforge.ops.sampling import Chooser, Sample
from aneforge.ops.shapes import divisible, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.structural import CATEGORY, LIKELY_F0, LIKELY_F2, any_tensor, expect_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.types import Array, TensorType

X = (Operand("x"),)
BLOCK_SIZE = Attribute("block_size", AttributeKind.INTEGER, least=1)
NO_BORDER = (0, 0, 0, 0)


# space_to_depth, depth_to_space, pixel_shuffle, pixel_unshuffle, space_to_channel, channel_to_space


def infer_to_channels(x: TensorType, block: int) -> TensorType:
    """Return the type of images whose blocks have become channels."""
    expect_rank("x", x, 4)
    batch, channels, height, width = x.shape
    rows, columns = divisible("the height", height, block), divisible("the width", width, block)
    return x.with_shape(batch, channels * block * block, rows, columns)


def infer_to_blocks(x: TensorType, block: int) -> TensorType:
    """Return the type of images whose channels have become blocks."""
    expect_rank("x", x, 4)
    batch, channels, height, width = x.shape
    kept = divisible("the number of channels", channels, block * block)
    return x.with_shape(batch, kept, height * block, width * block)


def to_channels(x: Array, block: int, *, block_major: bool) -> Array:
    """Make channels of the blocks of images."""
    batch, channels, height, width = x.shape
    parted = x.reshape(batch, channels, height // block, block, width // block, block)
    ordered = parted.transpose(0, 3, 5, 1, 2, 4) if block_major else parted.transpose(0, 1, 3, 5, 2, 4)
    return ordered.reshape(batch, channels * block * block, height // block, width // block)


def to_blocks(x: Array, block: int, *, block_major: bool) -> Array:
    """Make blocks of the channels of images."""
    batch, channels, height, width = x.shape
    kept = channels // (block * block)
    if block_major:
        ordered = x.reshape(batch, block, block, kept, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        ordered = x.reshape(batch, kept, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return ordered.reshape(batch, kept, height * block, width * block)


def infer_space_to_depth(x: TensorType, *, block_size: int) -> TensorType:
    """Return the type of images whose blocks have become channels."""
    return infer_to_channels(x, block_size)


def space_to_depth(x: Array, *, block_size: int) -> Array:
    """Make channels of blocks, block-major."""
    return to_channels(x, block_size, block_major=True)


def infer_depth_to_space(x: TensorType, *, block_size: int) -> TensorType:
    """Return the type of images whose channels have become blocks."""
    return infer_to_blocks(x, block_size)


def depth_to_space(x: Array, *, block_size: int) -> Array:
    """Make blocks of channels, block-major."""
    return to_blocks(x, block_size, block_major=True)


def infer_pixel_shuffle(x: TensorType, *, upscale_factor: int) -> TensorType:
    """Return the type of images whose channels have become blocks."""
    return infer_to_blocks(x, upscale_factor)


def pixel_shuffle(x: Array, *, upscale_factor: int) -> Array:
    """Make blocks of channels, channel-major."""
    return to_blocks(x, upscale_factor, block_major=False)


def infer_pixel_unshuffle(x: TensorType, *, downscale_factor: int) -> TensorType:
    """Return the type of images whose blocks have become channels."""
    return infer_to_channels(x, downscale_factor)


def pixel_unshuffle(x: Array, *, downscale_factor: int) -> Array:
    """Make channels of blocks, channel-major."""
    return to_channels(x, downscale_factor, block_major=False)


def expect_one_image(x: TensorType, instead: str) -> None:
    """Check that a batch holds one image.

    Raises:
        GraphError: It holds several, or is no batch of images.
    """
    expect_rank("x", x, 4)
    if x.shape[0] != 1:
        raise GraphError("the batch holds several images", seen=x.shape[0], limit=1, remedy=f"use {instead}")


def infer_space_to_channel(x: TensorType, *, block_size: int) -> TensorType:
    """Return the type of one image whose blocks have become channels."""
    expect_one_image(x, "space_to_depth")
    return infer_to_channels(x, block_size)


def infer_channel_to_space(x: TensorType, *, block_size: int) -> TensorType:
    """Return the type of one image whose channels have become blocks."""
    expect_one_image(x, "depth_to_space")
    return infer_to_blocks(x, block_size)


def sample_to_channels(name: str, most_images: int = 3) -> Callable[[Chooser], Sample]:
    """Return what draws images that blocks divide."""

    def sample(chooser: Chooser) -> Sample:
        block = chooser.integer(1, 3)
        images, channels = chooser.integer(1, most_images), chooser.integer(1, 3)
        shape = (images, channels, block * chooser.integer(1, 3), block * chooser.integer(1, 3))
        return Sample({"x": any_tensor(chooser, shape)}, {name: block})

    return sample


def sample_to_blocks(name: str, most_images: int = 3) -> Callable[[Chooser], Sample]:
    """Return what draws images whose channels make blocks."""

    def sample(chooser: Chooser) -> Sample:
        block = chooser.integer(1, 3)
        images, channels = chooser.integer(1, most_images), block * block * chooser.integer(1, 3)
        shape = (images, channels, chooser.integer(1, 3), chooser.integer(1, 3))
        return Sample({"x": any_tensor(chooser, shape)}, {name: block})

    return sample


SPACE_TO_DEPTH = Op(
    name="space_to_depth",
    category=CATEGORY,
    summary="place (i, j) of every b × b block of channel c becomes channel (i·b + j)·C + c",
    operands=X,
    attributes=(BLOCK_SIZE,),
    infer=infer_space_to_depth,
    meaning=space_to_depth,
    sample=sample_to_channels("block_size"),
    surface=Surface.FUSED,
    support=LIKELY_F2,
)
DEPTH_TO_SPACE = Op(
    name="depth_to_space",
    category=CATEGORY,
    summary="channel (i·b + j)·C + c becomes place (i, j) of every b × b block of channel c",
    operands=X,
    attributes=(BLOCK_SIZE,),
    infer=infer_depth_to_space,
    meaning=depth_to_space,
    sample=sample_to_blocks("block_size"),
    surface=Surface.FUSED,
    support=LIKELY_F2,
)
PIXEL_SHUFFLE = Op(
    name="pixel_shuffle",
    category=CATEGORY,
    summary="channel (c·r + i)·r + j becomes place (i, j) of every r × r block of channel c",
    operands=X,
    attributes=(Attribute("upscale_factor", AttributeKind.INTEGER, least=1),),
    infer=infer_pixel_shuffle,
    meaning=pixel_shuffle,
    sample=sample_to_blocks("upscale_factor"),
    surface=Surface.FUSED,
    support=Support(floor=0, basis=Basis.SYMBOL),
)
PIXEL_UNSHUFFLE = Op(
    name="pixel_unshuffle",
    category=CATEGORY,
    summary="place (i, j) of every r × r block of channel c becomes channel (c·r + i)·r + j",
    operands=X,
    attributes=(Attribute("downscale_factor", AttributeKind.INTEGER, least=1),),
    infer=infer_pixel_unshuffle,
    meaning=pixel_unshuffle,
    sample=sample_to_channels("downscale_factor"),
    surface=Surface.FUSED,
    opset="ios16",
    support=LIKELY_F0,
)
SPACE_TO_CHANNEL = Op(
    name="space_to_channel",
    category=CATEGORY,
    summary="space_to_depth of one image",
    operands=X,
    attributes=(BLOCK_SIZE,),
    infer=infer_space_to_channel,
    meaning=space_to_depth,
    sample=sample_to_channels("block_size", 1),
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=2, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
)
CHANNEL_TO_SPACE = Op(
    name="channel_to_space",
    category=CATEGORY,
    summary="depth_to_space of one image",
    operands=X,
    attributes=(BLOCK_SIZE,),
    infer=infer_channel_to_space,
    meaning=depth_to_space,
    sample=sample_to_blocks("block_size", 1),
    surface=Surface.NATIVE_LAYER,
    support=Support(floor=2, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
)


# space_to_batch, batch_to_space: image n gives the images (n·bh + i)·bw + j, one after another. This is the order of
# the layer; TensorFlow's is (i·bw + j)·N + n. The two agree for one image.


def expect_blocks(x: TensorType, block_shape: tuple[int, ...], name: str, border: tuple[int, ...]) -> None:
    """Check that there are images, a block of two axes, and a border of four sides.

    Raises:
        GraphError: One is not so.
    """
    expect_rank("x", x, 4)
    expect_entries("block_shape", block_shape, 2, "axis of a block")
    expect_entries(name, border, 4, "side: top, bottom, left, right")


def infer_space_to_batch(x: TensorType, *, block_shape: tuple[int, ...], paddings: tuple[int, ...]) -> TensorType:
    """Return the type of images parted into images of every bh-th row and bw-th column."""
    expect_blocks(x, block_shape, "paddings", paddings)
    images, channels, height, width = x.shape
    rows = divisible("the padded height", height + sum(paddings[:2]), block_shape[0])
    columns = divisible("the padded width", width + sum(paddings[2:]), block_shape[1])
    return x.with_shape(images * block_shape[0] * block_shape[1], channels, rows, columns)


def space_to_batch(x: Array, *, block_shape: tuple[int, ...], paddings: tuple[int, ...]) -> Array:
    """Part every image, with 0 around it, into images of every bh-th row and bw-th column."""
    high, wide = block_shape
    padded = np.pad(x, ((0, 0), (0, 0), tuple(paddings[:2]), tuple(paddings[2:])))
    images, channels, height, width = padded.shape
    parted = padded.reshape(images, channels, height // high, high, width // wide, wide)
    return parted.transpose(0, 3, 5, 1, 2, 4).reshape(-1, channels, height // high, width // wide)


def sample_space_to_batch(chooser: Chooser) -> Sample:
    """Draw images that blocks divide once they are padded."""
    block = (chooser.integer(1, 3), chooser.integer(1, 3))
    extents: list[int] = []
    paddings: list[int] = []
    for one in block:
        total = one * chooser.integer(1, 3)
        before = chooser.integer(0, min(2, total - 1))
        after = chooser.integer(0, min(2, total - 1 - before))
        extents.append(total - before - after)
        paddings += [before, after]
    shape = (chooser.integer(1, 3), chooser.integer(1, 3), *extents)
    return Sample({"x": any_tensor(chooser, shape)}, {"block_shape": block, "paddings": tuple(paddings)})


def infer_batch_to_space(x: TensorType, *, block_shape: tuple[int, ...], crops: tuple[int, ...]) -> TensorType:
    """Return the type of images put together again."""
    expect_blocks(x, block_shape, "crops", crops)
    images, channels, height, width = x.shape
    kept = divisible("the number of images", images, block_shape[0] * block_shape[1])
    rows, columns = height * block_shape[0] - sum(crops[:2]), width * block_shape[1] - sum(crops[2:])
    if rows < 1 or columns < 1:
        whole = [height * block_shape[0], width * block_shape[1]]
        raise GraphError(f"crops leave nothing of an image of {whole}", seen=list(crops))
    return x.with_shape(kept, channels, rows, columns)


def batch_to_space(x: Array, *, block_shape: tuple[int, ...], crops: tuple[int, ...]) -> Array:
    """Put images together of those that hold every bh-th row and bw-th column, and cut their borders."""
    high, wide = block_shape
    _, channels, height, width = x.shape
    parted = x.reshape(-1, high, wide, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
    whole = parted.reshape(-1, channels, height * high, width * wide)
    top, bottom, left, right = crops
    return whole[:, :, top : height * high - bottom, left : width * wide - right]


def sample_batch_to_space(chooser: Chooser) -> Sample:
    """Draw images that make up whole ones."""
    block = (chooser.integer(1, 3), chooser.integer(1, 3))
    extents = (chooser.integer(1, 3), chooser.integer(1, 3))
    crops: list[int] = []
    for one, extent in zip(block, extents, strict=True):
        before = chooser.integer(0, min(2, one * extent - 1))
        crops += [before, chooser.integer(0, min(2, one * extent - 1 - before))]
    shape = (block[0] * block[1] * chooser.integer(1, 2), chooser.integer(1, 3), *extents)
    return Sample({"x": any_tensor(chooser, shape)}, {"block_shape": block, "crops": tuple(crops)})


SPACE_TO_BATCH = Op(
    name="space_to_batch",
    category=CATEGORY,
    summary="image (n·bh + i)·bw + j of the result is x[n, :, i::bh, j::bw], 0 around x first",
    operands=X,
    attributes=(
        Attribute("block_shape", AttributeKind.INTEGERS, least=1),
        Attribute("paddings", AttributeKind.INTEGERS, NO_BORDER, least=0),
    ),
    infer=infer_space_to_batch,
    meaning=space_to_batch,
    sample=sample_space_to_batch,
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_F2,
)
BATCH_TO_SPACE = Op(
    name="batch_to_space",
    category=CATEGORY,
    summary="image (n·bh + i)·bw + j of x is [n, :, i::bh, j::bw] of the result, borders cut last",
    operands=X,
    attributes=(
        Attribute("block_shape", AttributeKind.INTEGERS, least=1),
        Attribute("crops", AttributeKind.INTEGERS, NO_BORDER, least=0),
    ),
    infer=infer_batch_to_space,
    meaning=batch_to_space,
    sample=sample_batch_to_space,
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_F2,
)

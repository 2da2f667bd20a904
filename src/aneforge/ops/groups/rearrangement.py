"""Operations that move elements between the channels or the batch of an image and its rows and columns.

They differ in the order in which a block of b × b places becomes channels. Block-major: channel (i·b + j)·C + c holds
place (i, j) of channel c. Channel-major: channel (c·b + i)·b + j does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import LIKELY_BRIDGE_F2, LIKELY_F0, LIKELY_F2
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Surface
from aneforge.ops.results import Movement
from aneforge.ops.sampling import Chooser, Sample, draw_any
from aneforge.ops.shapes import divisible, expect_entries, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand

if TYPE_CHECKING:
    from aneforge.ops.forms import Details
    from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STRUCTURAL
NO_BORDER = (0, 0, 0, 0)


# space_to_depth, depth_to_space, pixel_shuffle, pixel_unshuffle, space_to_channel, channel_to_space


def to_channels_type(x: TensorType, block: int) -> TensorType:
    """Return the type of images whose blocks have become channels."""
    expect_rank(x, 4)
    batch, channels, height, width = x.shape
    rows, columns = divisible("the height", height, block), divisible("the width", width, block)
    return x.with_shape(batch, channels * block * block, rows, columns)


def to_blocks_type(x: TensorType, block: int) -> TensorType:
    """Return the type of images whose channels have become blocks."""
    expect_rank(x, 4)
    batch, channels, height, width = x.shape
    kept = divisible("the number of channels", channels, block * block)
    return x.with_shape(batch, kept, height * block, width * block)


def to_channels(x: Array, block: int, *, block_major: bool) -> Array:
    """Make channels of the blocks of images."""
    batch, channels, height, width = x.shape
    blocks = x.reshape(batch, channels, height // block, block, width // block, block)
    ordered = blocks.transpose(0, 3, 5, 1, 2, 4) if block_major else blocks.transpose(0, 1, 3, 5, 2, 4)
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


def expect_one_image(x: TensorType, instead: str) -> None:
    """Check that a batch holds one image.

    Raises:
        GraphError: It holds several, or is not a batch of images.
    """
    expect_rank(x, 4)
    if x.shape[0] != 1:
        raise GraphError("the batch holds several images", seen=x.shape[0], limit=1, remedy=f"use {instead}")


def exchange(
    name: str,
    summary: str,
    block: str = "block_size",
    *,
    into_channels: bool,
    block_major: bool = True,
    one_image_of: str | None = None,
    **details: Unpack[Details],
) -> Op:
    """Return an operation between blocks and channels; `block` is the attribute that gives the block's extent.

    An operation that takes only one image names the one that takes several, as `one_image_of`.
    """
    details["movement"] = Movement()
    type_of, values_of = (to_channels_type, to_channels) if into_channels else (to_blocks_type, to_blocks)

    def infer(x: TensorType, **attributes: int) -> TensorType:
        if one_image_of is not None:
            expect_one_image(x, one_image_of)
        return type_of(x, attributes[block])

    def evaluate(x: Array, **attributes: int) -> Array:
        return values_of(x, attributes[block], block_major=block_major)

    def sample(chooser: Chooser) -> Sample:
        extent = chooser.integer(1, 3)
        images = chooser.integer(1, 3 if one_image_of is None else 1)
        channels, rows, columns = (chooser.integer(1, 3) for _ in range(3))
        if into_channels:
            shape = (images, channels, extent * rows, extent * columns)
        else:
            shape = (images, extent * extent * channels, rows, columns)
        return Sample({"x": draw_any(chooser, shape)}, {block: extent})

    return Op(
        name=name,
        category=CATEGORY,
        summary=summary,
        operands=(Operand("x"),),
        attributes=(Attribute(block, AttributeKind.INTEGER, least=1),),
        infer=infer,
        meaning=evaluate,
        sample=sample,
        **details,
    )


SPACE_TO_DEPTH = exchange(
    "space_to_depth",
    "place (i, j) of every b × b block of channel c becomes channel (i·b + j)·C + c",
    into_channels=True,
    surface=Surface.FUSED,
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.moving.SPACE_TO_DEPTH,
)
DEPTH_TO_SPACE = exchange(
    "depth_to_space",
    "channel (i·b + j)·C + c becomes place (i, j) of every b × b block of channel c",
    into_channels=False,
    surface=Surface.FUSED,
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.moving.DEPTH_TO_SPACE,
)
PIXEL_SHUFFLE = exchange(
    "pixel_shuffle",
    "channel (c·r + i)·r + j becomes place (i, j) of every r × r block of channel c",
    "upscale_factor",
    into_channels=False,
    block_major=False,
    surface=Surface.FUSED,
    support=Support(floor=0, basis=Basis.SYMBOL),
    in_mil=True,
    gradient=lambda: gradients.moving.SHUFFLED,
)
PIXEL_UNSHUFFLE = exchange(
    "pixel_unshuffle",
    "place (i, j) of every r × r block of channel c becomes channel (c·r + i)·r + j",
    "downscale_factor",
    into_channels=True,
    block_major=False,
    surface=Surface.FUSED,
    opset="ios16",
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.moving.UNSHUFFLED,
)
SPACE_TO_CHANNEL = exchange(
    "space_to_channel",
    "space_to_depth of one image",
    into_channels=True,
    one_image_of="space_to_depth",
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=Support(floor=2, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
    gradient=lambda: gradients.moving.SPACE_TO_CHANNEL,
)
CHANNEL_TO_SPACE = exchange(
    "channel_to_space",
    "depth_to_space of one image",
    into_channels=False,
    one_image_of="depth_to_space",
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=LIKELY_BRIDGE_F2,
    catalogued=False,
    gradient=lambda: gradients.moving.CHANNEL_TO_SPACE,
)


# space_to_batch, batch_to_space: image n gives the images (n·bh + i)·bw + j, one after another. This is the order of
# the layer; TensorFlow's is (i·bw + j)·N + n. The two agree for one image.


def expect_blocks(x: TensorType, block_shape: tuple[int, ...], name: str, border: tuple[int, ...]) -> None:
    """Check that there are images, a block of two axes, and a border of four sides.

    Raises:
        GraphError: One is not so.
    """
    expect_rank(x, 4)
    expect_entries("block_shape", block_shape, 2, "axis of a block")
    expect_entries(name, border, 4, "side: top, bottom, left, right")


def space_to_batch_type(x: TensorType, *, block_shape: tuple[int, ...], paddings: tuple[int, ...]) -> TensorType:
    """Return the type of images split into images of every bh-th row and bw-th column."""
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
    blocks = padded.reshape(images, channels, height // high, high, width // wide, wide)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(-1, channels, height // high, width // wide)


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
    return Sample({"x": draw_any(chooser, shape)}, {"block_shape": block, "paddings": tuple(paddings)})


def batch_to_space_type(x: TensorType, *, block_shape: tuple[int, ...], crops: tuple[int, ...]) -> TensorType:
    """Return the type of images put together again."""
    expect_blocks(x, block_shape, "crops", crops)
    images, channels, height, width = x.shape
    kept = divisible("the number of images", images, block_shape[0] * block_shape[1])
    rows, columns = height * block_shape[0] - sum(crops[:2]), width * block_shape[1] - sum(crops[2:])
    if rows < 1 or columns < 1:
        whole = [height * block_shape[0], width * block_shape[1]]
        raise GraphError(f"the crops remove all of an image of {whole}", seen=list(crops))
    return x.with_shape(kept, channels, rows, columns)


def batch_to_space(x: Array, *, block_shape: tuple[int, ...], crops: tuple[int, ...]) -> Array:
    """Put images together of those that hold every bh-th row and bw-th column, and cut their borders."""
    high, wide = block_shape
    _, channels, height, width = x.shape
    blocks = x.reshape(-1, high, wide, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
    whole = blocks.reshape(-1, channels, height * high, width * wide)
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
    return Sample({"x": draw_any(chooser, shape)}, {"block_shape": block, "crops": tuple(crops)})


SPACE_TO_BATCH = Op(
    name="space_to_batch",
    category=CATEGORY,
    summary="image (n·bh + i)·bw + j of the result is x[n, :, i::bh, j::bw], 0 around x first",
    operands=(Operand("x"),),
    attributes=(
        Attribute("block_shape", AttributeKind.INTEGERS, least=1),
        Attribute("paddings", AttributeKind.INTEGERS, NO_BORDER, least=0),
    ),
    infer=space_to_batch_type,
    meaning=space_to_batch,
    sample=sample_space_to_batch,
    movement=Movement(adds=(0.0,)),
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.SPACE_TO_BATCH, decompositions.movement.SPACE_TO_BATCH_AFTER_PAD),
    in_mil=True,
    gradient=lambda: gradients.moving.SPACE_TO_BATCH,
)
BATCH_TO_SPACE = Op(
    name="batch_to_space",
    category=CATEGORY,
    summary="image (n·bh + i)·bw + j of x is [n, :, i::bh, j::bw] of the result, borders cut last",
    operands=(Operand("x"),),
    attributes=(
        Attribute("block_shape", AttributeKind.INTEGERS, least=1),
        Attribute("crops", AttributeKind.INTEGERS, NO_BORDER, least=0),
    ),
    infer=batch_to_space_type,
    meaning=batch_to_space,
    sample=sample_batch_to_space,
    movement=Movement(),
    surface=Surface.NATIVE_LAYER,
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.BATCH_TO_SPACE, decompositions.movement.BATCH_TO_SPACE_THEN_CROP),
    in_mil=True,
    gradient=lambda: gradients.moving.BATCH_TO_SPACE,
)

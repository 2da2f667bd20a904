"""Independent implementations of rearrangement: torch's pixel shuffle, and loops over every place of a block."""

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor


def space_to_depth(x: Array, *, block_size: int) -> Array:
    """Join every b-th row and column, one offset after another."""
    parts = [tensor(x[:, :, row::block_size, column::block_size]) for row, column in offsets(block_size, block_size)]
    return array(torch.cat(parts, 1))


def depth_to_space(x: Array, *, block_size: int) -> Array:
    images, channels, height, width = x.shape
    kept = channels // block_size**2
    result = np.empty((images, kept, height * block_size, width * block_size), x.dtype)
    for place, (row, column) in enumerate(offsets(block_size, block_size)):
        result[:, :, row::block_size, column::block_size] = x[:, place * kept : (place + 1) * kept]
    return result


def offsets(high: int, wide: int) -> list[tuple[int, int]]:
    return [(row, column) for row in range(high) for column in range(wide)]


def pixel_shuffle(x: Array, *, upscale_factor: int) -> Array:
    return array(torch.pixel_shuffle(tensor(x), upscale_factor))


def pixel_unshuffle(x: Array, *, downscale_factor: int) -> Array:
    return array(torch.pixel_unshuffle(tensor(x), downscale_factor))


def space_to_batch(x: Array, *, block_shape: tuple[int, int], paddings: tuple[int, int, int, int]) -> Array:
    top, bottom, left, right = paddings
    padded = torch.nn.functional.pad(tensor(x), [left, right, top, bottom])
    high, wide = block_shape
    return array(torch.stack([image[:, i::high, j::wide] for image in padded for i, j in offsets(high, wide)]))


def batch_to_space(x: Array, *, block_shape: tuple[int, int], crops: tuple[int, int, int, int]) -> Array:
    high, wide = block_shape
    parts, channels, height, width = x.shape
    whole = np.empty((parts // (high * wide), channels, height * high, width * wide), x.dtype)
    for image in range(parts // (high * wide)):
        for i, j in offsets(high, wide):
            whole[image, :, i::high, j::wide] = x[(image * high + i) * wide + j]
    top, bottom, left, right = crops
    return array(torch.nn.functional.pad(tensor(whole), [-left, -right, -top, -bottom]))


ORACLES: dict[str, Oracle] = {
    "space_to_depth": space_to_depth,
    "depth_to_space": depth_to_space,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "space_to_channel": space_to_depth,
    "channel_to_space": depth_to_space,
    "space_to_batch": space_to_batch,
    "batch_to_space": batch_to_space,
}

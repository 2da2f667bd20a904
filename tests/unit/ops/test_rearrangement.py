"""Blocks, channels and batches: the order of every operation, that pairs undo one another, and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

CHANNELS = np.arange(8.0).reshape(1, 8, 1, 1)
"""Eight channels of one place each, that make two channels of one block of 2 × 2."""


@pytest.mark.parametrize(
    ("name", "attribute", "result"),
    [
        ("depth_to_space", "block_size", [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]),
        ("channel_to_space", "block_size", [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]),
        ("pixel_shuffle", "upscale_factor", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
    ],
)
def test_the_order_in_which_channels_become_a_block(name: str, attribute: str, result: list[object]) -> None:
    assert evaluated(name, CHANNELS, **{attribute: 2}) == [result]


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (("space_to_depth", {"block_size": 3}), ("depth_to_space", {"block_size": 3})),
        (("space_to_channel", {"block_size": 3}), ("channel_to_space", {"block_size": 3})),
        (("pixel_unshuffle", {"downscale_factor": 3}), ("pixel_shuffle", {"upscale_factor": 3})),
        (("space_to_batch", {"block_shape": (2, 3)}), ("batch_to_space", {"block_shape": (2, 3)})),
    ],
)
def test_pairs_undo_one_another(there: tuple[str, dict[str, object]], back: tuple[str, dict[str, object]]) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 6, 9))
    moved = evaluated(there[0], x, **there[1])
    assert evaluated(back[0], moved, **back[1]) == x.tolist()


def test_space_to_batch_keeps_the_parts_of_an_image_together() -> None:
    x = np.arange(8).reshape(2, 1, 2, 2)
    assert np.ravel(evaluated("space_to_batch", x, block_shape=(2, 2))).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert np.ravel(evaluated("space_to_batch", x, block_shape=(1, 2))).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert evaluated("batch_to_space", np.arange(8).reshape(8, 1, 1, 1), block_shape=(2, 2)) == x.tolist()


def test_space_to_batch_pads_with_zeros_and_batch_to_space_crops() -> None:
    x = np.array([[[[1, 2, 3]]]])
    parted = evaluated("space_to_batch", x, block_shape=(1, 2), paddings=(0, 0, 1, 0))
    assert parted == [[[[0, 2]]], [[[1, 3]]]]
    assert evaluated("batch_to_space", parted, block_shape=(1, 2), crops=(0, 0, 1, 0)) == x.tolist()


def test_shapes() -> None:
    x = TensorType((2, 36, 6, 12), "int8")
    assert inferred("space_to_depth", x, block_size=3) == "int8[2, 324, 2, 4]"
    assert inferred("depth_to_space", x, block_size=3) == "int8[2, 4, 18, 36]"
    assert inferred("space_to_batch", x, block_shape=(2, 7), paddings=(0, 0, 1, 1)) == "int8[28, 36, 3, 2]"
    assert inferred("batch_to_space", x, block_shape=(2, 1), crops=(1, 2, 3, 4)) == "int8[1, 36, 9, 5]"


@pytest.mark.parametrize(
    ("name", "shape", "attributes", "message"),
    [
        (
            "space_to_depth",
            (1, 1, 5, 4),
            {"block_size": 2},
            "the height is not divisible (got 5, expected a multiple of 2)",
        ),
        (
            "space_to_depth",
            (1, 1, 4, 5),
            {"block_size": 2},
            "the width is not divisible (got 5, expected a multiple of 2)",
        ),
        ("pixel_unshuffle", (1, 1, 4, 5), {"downscale_factor": 2}, "the width is not divisible (got 5"),
        (
            "depth_to_space",
            (1, 6, 1, 1),
            {"block_size": 2},
            "the number of channels is not divisible (got 6, expected a multi",
        ),
        ("pixel_shuffle", (1, 6, 1, 1), {"upscale_factor": 2}, "the number of channels is not divisible (got 6"),
        (
            "pixel_shuffle",
            (4, 1, 1),
            {"upscale_factor": 2},
            "x of shape [4, 1, 1] has the wrong rank (got 3, limit 4)",
        ),
        (
            "space_to_channel",
            (2, 1, 2, 2),
            {"block_size": 2},
            "several images (got 2, limit 1). Remedy: use space_to_depth",
        ),
        (
            "channel_to_space",
            (2, 4, 1, 1),
            {"block_size": 2},
            "several images (got 2, limit 1). Remedy: use depth_to_space",
        ),
        ("space_to_channel", (2, 2, 2), {"block_size": 2}, "x of shape [2, 2, 2] has the wrong rank (got 3, limit 4)"),
        (
            "space_to_depth",
            (1, 1, 2, 2),
            {"block_size": 0},
            "attribute 'block_size' is too small (got 0, expected at least 1)",
        ),
        (
            "space_to_batch",
            (1, 1, 2, 2),
            {"block_shape": (2,)},
            "block_shape does not have one entry for each axis of a block",
        ),
        ("space_to_batch", (1, 1, 3, 2), {"block_shape": (2, 2)}, "the padded height is not divisible (got 3"),
        ("space_to_batch", (1, 1, 2, 3), {"block_shape": (2, 2)}, "the padded width is not divisible (got 3"),
        (
            "space_to_batch",
            (1, 1, 2, 2),
            {"block_shape": (2, 2), "paddings": (1, 1)},
            "paddings does not have one entry for each side: top, bottom, left, right (got 2, limit 4)",
        ),
        (
            "batch_to_space",
            (6, 1, 2, 2),
            {"block_shape": (2, 2)},
            "the number of images is not divisible (got 6, expected a multiple of 4)",
        ),
        (
            "batch_to_space",
            (4, 1, 2, 2),
            {"block_shape": (2, 2), "crops": (0, 0, 2, 2)},
            "the crops remove all of an image of [4, 4] (got [0, 0, 2, 2])",
        ),
    ],
)
def test_errors(name: str, shape: tuple[int, ...], attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred(name, TensorType(shape), **attributes)

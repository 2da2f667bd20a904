"""Coefficient blocks: each weight of each core is where the layout says."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import HwxError, UnknownNameError
from aneforge.formats.hwx.emission.activation_tables import line_bytes, line_table, table_bytes, tables
from aneforge.formats.hwx.emission.coefficients import Convolution, kernel_plans, pack_kernel
from aneforge.formats.hwx.emission.surfaces import Extent

if TYPE_CHECKING:
    from numpy.typing import NDArray


def convolution(cin: int, cout: int, side: int = 16, **changes: object) -> Convolution:
    values: dict[str, object] = {
        "source": Extent(cin, side, side),
        "result": Extent(cout, side, side),
        "kernel": (3, 3),
        "pads": (1, 1),
    }
    return Convolution(**{**values, **changes})  # pyright: ignore[reportArgumentType]


def numbered(*shape: int) -> NDArray[np.float16]:
    return (1 + np.arange(np.prod(shape)) % 2000).astype(np.float16).reshape(shape)


def test_lanes_of_a_tile_lie_side_by_side_after_their_biases() -> None:
    one = convolution(8, 128, bias=True)
    weights, biases = numbered(128, 8, 3, 3), -numbered(128)
    (blocks,) = pack_kernel(one, weights, biases)
    (plan,) = kernel_plans(one)
    assert (plan.lanes, len(plan.tiles), plan.cores, len(blocks)) == (8, 1, 16, 16)
    for core, block in enumerate(blocks):
        halves = np.frombuffer(block, np.float16)
        outputs = slice(8 * core, 8 * core + 8)
        assert halves[:8].tolist() == biases[outputs].tolist()
        expected = weights[outputs].reshape(8, -1).T.reshape(-1)
        assert halves[8 : 8 + len(expected)].tolist() == expected.tolist()
        assert len(block) == plan.core_sizes[core]


def test_outputs_that_do_not_fill_the_last_tile_are_zeros() -> None:
    one = convolution(4, 24, kernel=(1, 1), pads=(0, 0))
    weights = numbered(24, 4, 1, 1)
    (blocks,) = pack_kernel(one, weights)
    halves = np.frombuffer(blocks[9], np.float16)
    assert halves[:4].tolist() == weights[9].reshape(-1).tolist()
    assert not halves[4:].any()
    assert np.frombuffer(blocks[3], np.float16)[4:8].tolist() == weights[19].reshape(-1).tolist()


def test_few_outputs_take_as_many_cores() -> None:
    (blocks,) = pack_kernel(convolution(4, 3), numbered(3, 4, 3, 3))
    assert [len(block) for block in blocks] == [128, 128, 128]


def test_every_group_is_a_block_of_its_own() -> None:
    one = convolution(16, 64, groups=2)
    weights = numbered(64, 8, 3, 3)
    (blocks,) = pack_kernel(one, weights)
    halves = np.frombuffer(blocks[5], np.float16).reshape(2, -1)
    for group in range(2):
        outputs = weights[32 * group + 10 : 32 * group + 12].reshape(2, -1)
        assert halves[group, : 2 * 72].tolist() == outputs.T.reshape(-1).tolist()


def test_channels_of_a_depthwise_convolution_go_round_the_cores() -> None:
    one = convolution(32, 32, groups=32)
    weights = numbered(32, 1, 3, 3)
    (blocks,) = pack_kernel(one, weights)
    halves = np.frombuffer(blocks[2], np.float16)
    assert halves[:18].tolist() == [*weights[2].reshape(-1), *weights[18].reshape(-1)]


def test_the_last_outputs_are_computed_first() -> None:
    one = convolution(1024, 64)
    weights = np.zeros((64, 1024, 3, 3), np.float16)
    weights[48] = 5
    parts = pack_kernel(one, weights)
    assert len(parts) == 2
    assert np.frombuffer(parts[0][8], np.float16).max() == 5
    assert not any(np.frombuffer(block, np.float16).any() for block in parts[1])


def test_zeros_of_a_strided_kernel_are_left_out() -> None:
    one = convolution(2, 64, kernel=(1, 1), pads=(0, 0), stride=(2, 2), bias=True)
    weights = numbered(64, 2, 1, 1)
    weights[1, 0] = 0
    (blocks,) = pack_kernel(one, weights, numbered(64))
    body = blocks[0]
    assert np.frombuffer(body[:8], np.float16).tolist() == [1, 2, 3, 4]
    assert int.from_bytes(body[8:10], "little") == 2 + 6 + 2 + 8
    assert body[10] == 0
    assert body[11] == 0b1101
    assert np.frombuffer(body[12:18], np.float16).tolist() == [float(weights[lane, 0, 0, 0]) for lane in (0, 2, 3)]
    assert body[18:20] == bytes([0, 0b1111])
    assert len(body) % 64 == 0


def test_a_strided_kernel_is_one_tile_of_each_task() -> None:
    shared = {256: [(128, 8), (128, 8)], 48: [(16, 1)] * 3, 64: [(64, 4)], 8: [(8, 1)], 24: [(8, 1), (16, 1)]}
    for outputs, expected in shared.items():
        plans = kernel_plans(convolution(2, outputs, kernel=(1, 1), pads=(0, 0), stride=(2, 2)))
        assert [(plan.outputs, plan.lanes) for plan in plans] == expected
        assert {len(plan.tiles) for plan in plans} == {1}


def test_outputs_that_do_not_fill_a_tile_take_half_the_lanes() -> None:
    one = convolution(4, 48, kernel=(1, 1), pads=(0, 0))
    assert [(tile.first, tile.lanes) for tile in kernel_plans(one)[0].tiles] == [(0, 2), (32, 1)]
    weights = numbered(48, 4, 1, 1)
    halves = np.frombuffer(pack_kernel(one, weights)[0][3], np.float16)
    assert halves[:12].tolist() == [*weights[6:8, :, 0, 0].T.reshape(-1), *weights[35].reshape(-1)]


def test_small_maps_take_more_lanes_whatever_is_left_over() -> None:
    for side, expected in ((8, [(0, 32), (512, 16)]), (9, [(0, 16), (256, 16), (512, 16)])):
        (plan,) = kernel_plans(convolution(4, 768, side, kernel=(1, 1), pads=(0, 0)))
        assert [(tile.first, tile.lanes) for tile in plan.tiles] == expected


def test_the_body_of_a_strided_kernel_is_bounded() -> None:
    one = convolution(8192, 16, kernel=(1, 1), pads=(0, 0), stride=(2, 2))
    with pytest.raises(HwxError, match="ANE-EMIT-004"):
        pack_kernel(convolution(16384, 32, kernel=(1, 1), pads=(0, 0), stride=(2, 2)), np.ones((32, 16384, 1, 1)))
    assert len(pack_kernel(one, np.ones((16, 8192, 1, 1)))[0]) == 16


def test_tables_have_the_hash_that_was_transcribed() -> None:
    for name, one in tables().items():
        assert hashlib.sha256(table_bytes(name)).hexdigest() == one.sha256
    with pytest.raises(UnknownNameError, match="unknown activation table 'sin'"):
        table_bytes("sin")


def test_tables_of_two_lines() -> None:
    halves = np.frombuffer(line_bytes(line_table("leaky_relu", 0.125)), np.float16)
    assert halves[[37, 39]].tolist() == [0.125, 1.0]
    assert np.frombuffer(line_bytes(line_table("maximum", 0.5)), np.float16)[[0, 2]].tolist() == [0.5, 0.5]
    assert np.frombuffer(line_bytes(line_table("minimum", 0.5)), np.float16)[[1, 3]].tolist() == [0.5, 0.5]
    with pytest.raises(HwxError, match="ANE-EMIT-001: no table of this operation is known"):
        line_table("sin", 1.0)

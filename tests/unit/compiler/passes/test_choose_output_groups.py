"""Lanes, tiles and cores: the rule that fits compiled programs, and unknown where it was not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.compiler.passes.choose_output_groups import ChooseOutputGroups, tiles_of
from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.ops.constant import Palette
from legalisation_tools import changed, constant, convolution, layer, program_of, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import TargetLike


def chosen(one: Layer, target: TargetLike = "h13") -> Mapping[str, AttributeValue]:
    """Return what is chosen for a layer."""
    return ChooseOutputGroups()(program_of(target, one)).program.layers[0].choices


def pointwise(outer: int, inner: int, side: int) -> Layer:
    """Return a 1×1 convolution."""
    return convolution(value("x", 1, inner, side, side), constant(outer, inner, 1, 1))


@pytest.mark.parametrize(
    ("one", "lanes", "tiles", "cores"),
    [
        # Real programs (hwx-programs): three outputs on three cores; 64 and 512 outputs; 3×3 over 64; 768 outputs.
        (pointwise(3, 3, 77), (1,), (1,), 3),
        (pointwise(64, 64, 1), (4,), (1,), 16),
        (pointwise(512, 512, 1), (32,), (1,), 16),
        (convolution(value("x", 1, 64, 8, 8), constant(64, 64, 3, 3)), (4,), (1,), 16),
        (pointwise(768, 64, 8), (32, 16), (1, 1), 16),
        (pointwise(768, 64, 9), (16,), (3,), 16),
    ],
)
def test_real_programs(one: Layer, lanes: tuple[int, ...], tiles: tuple[int, ...], cores: int) -> None:
    found = chosen(one)
    assert (found["lanes"], found["tiles"], found["active_cores"]) == (lanes, tiles, cores)
    assert found["passes"] == sum(tiles)


def test_constant_matrices_take_fewer_lanes_for_long_contractions() -> None:
    def lanes(rows: int, inner: int) -> object:
        return chosen(layer("linear", {"x": value("x", 1, inner), "weight": constant(rows, inner)}, "y"))["lanes"]

    assert lanes(512, 512) == (16,)
    assert lanes(768, 3072) == (8,)
    assert lanes(1000, 512) == (16, 8, 4, 2, 1)


def test_single_channels_are_shared_out_over_the_cores() -> None:
    one = convolution(value("x", 1, 96, 8, 8), constant(96, 1, 3, 3), groups=96)
    found = chosen(one)
    assert (found["lanes"], found["tiles"], found["active_cores"]) == ((1,), (6,), 16)


def test_what_was_not_seen_is_unknown() -> None:
    grouped = convolution(value("x", 1, 8, 8, 8), constant(8, 4, 3, 3), groups=2)
    assert chosen(grouped) == {"lanes": "unknown"}
    assert chosen(pointwise(64, 64, 1), changed("h13", nes_per_ane=None)) == {"lanes": "unknown"}
    weights = Palette(np.zeros((64, 4, 1, 1), np.uint8), np.zeros(16, np.float16), 4)
    encoded = ChooseWeightStream()(program_of("h13", convolution(value("x", 1, 4, 1, 1), weights))).program
    assert ChooseOutputGroups()(encoded).program.layers[0].choices["lanes"] == "unknown"


def test_cores_and_memory_are_the_targets() -> None:
    one = pointwise(64, 64, 1)
    assert chosen(one, "h12")["active_cores"] == 8
    assert chosen(one, changed("h13", nes_per_ane=4))["lanes"] == (16,)
    assert chosen(one, changed("h13", dense_kernel_memory=256))["lanes"] == (2,)
    assert chosen(one, changed("h13", dense_kernel_memory=None))["lanes"] == (4,)


def test_only_products_have_output_groups_and_once() -> None:
    assert not ChooseOutputGroups()(program_of("h13", layer("relu", {"x": value("x", 1, 4)}, "y"))).modified
    made = ChooseOutputGroups()(program_of("h13", pointwise(3, 3, 4))).program
    assert not ChooseOutputGroups()(made).modified


@given(channels=st.integers(1, 5000), cores=st.sampled_from([1, 8, 16]), most=st.sampled_from([1, 16, 32]))
def test_tiles_hold_every_channel_once(channels: int, cores: int, most: int) -> None:
    tiles = tiles_of(channels, cores, most)
    assert sum(held for _, held in tiles) == channels
    assert all(lanes <= most and held <= lanes * cores for lanes, held in tiles)
    assert [lanes for lanes, _ in tiles] == sorted((lanes for lanes, _ in tiles), reverse=True)

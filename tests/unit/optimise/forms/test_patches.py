"""Patches whose kernel a target refuses become channels: fit, the same bits, and nothing else is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.optimise.forms.patches import patches_as_blocks

if TYPE_CHECKING:
    from aneforge.ops.types import Array

RANDOM = np.random.default_rng(7)


def patches(side: int, extent: int, **attributes: object) -> af.Graph:
    groups = attributes.get("groups", 1)
    assert isinstance(groups, int)
    kernel = (RANDOM.standard_normal((8, 4 // groups, side, side)) / side).astype(np.float16)
    x = af.input((1, 4, extent, extent), name="x")
    given = {"strides": (side, side), **attributes}
    return af.Graph({"y": af.Tensor(build("conv", {"x": x, "weight": Dense.owning(kernel)}, given)).relu()})


def bits(graph: af.Graph, target: str, x: Array) -> Array:
    return np.asarray(af.run(af.build_program(graph, target), {"x": x}).outputs["y"], np.float16).view(np.uint16)


@pytest.mark.parametrize("target", ["h13", "h14", "h16g", "h17s"])
@pytest.mark.parametrize(("side", "groups"), [(16, 1), (16, 2), (32, 1)])
def test_patches_fit_and_keep_their_bits(target: str, side: int, groups: int) -> None:
    graph = patches(side, 2 * side, groups=groups)
    made, lines = patches_as_blocks(graph, af.targets.resolve(target))
    assert [node.op.name for node in made.nodes].count("pixel_unshuffle") == 2
    assert len(lines) == 1
    found = [one.rule for one in af.preflight(graph, target).findings]
    assert "ANE-KERNEL-001" in found
    assert not af.preflight(made, target).findings
    x = (RANDOM.standard_normal((1, 4, 2 * side, 2 * side)) * 30).astype(np.float16)
    np.testing.assert_array_equal(bits(made, target, x), bits(graph, target, x))


@pytest.mark.parametrize(
    "graph",
    [
        patches(8, 32),
        patches(16, 40),
        patches(16, 32, strides=(8, 8)),
        patches(16, 32, pad_type="custom", pad=(4, 4, 4, 4)),
        patches(22, 44),
    ],
    ids=["fits", "rest", "overlap", "padded", "factor of 11"],
)
def test_other_convolutions_stay(graph: af.Graph) -> None:
    made, lines = patches_as_blocks(graph, af.targets.resolve("h16g"))
    assert (made.text, lines) == (graph.text, ())


def test_the_first_level_makes_patches_fit() -> None:
    graph = patches(16, 32)
    with pytest.warns(af.errors.OversizeWarning):  # the graph as it was written
        model = af.compile(graph, target="h16g", opt=1)
    assert any("16x16 are channels" in line for line in model.remarks)

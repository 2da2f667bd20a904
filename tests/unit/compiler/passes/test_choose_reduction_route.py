"""Reductions: direct, or through a transpose from the target's threshold on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.compiler.passes.choose_reduction_route import ChooseReductionRoute
from legalisation_tools import changed, layer, program_of, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import TargetLike


def chosen(
    target: TargetLike, *shape: int, axes: tuple[int, ...] = (-1,), kind: str = "reduce_sum"
) -> Mapping[str, AttributeValue]:
    """Return what is chosen for a reduction."""
    one = layer(kind, {"x": value("x", *shape)}, "y", axes=axes, keep_dims=True)
    return ChooseReductionRoute()(program_of(target, one)).program.layers[0].choices


@pytest.mark.parametrize(
    ("target", "threshold"), [("h13", 192), ("h14", 192), ("h15", 384), ("h16g", 384), ("h17s", 384)]
)
def test_the_threshold_is_the_targets(target: str, threshold: int) -> None:
    assert chosen(target, 4, threshold - 1)["route"] == "direct"
    assert chosen(target, 4, threshold)["route"] == "transpose"


def test_the_field_alone_decides() -> None:
    assert chosen(changed("h13", reduction_transpose_extent=384), 4, 192)["route"] == "direct"
    assert chosen(changed("h13", reduction_transpose_extent="none"), 4, 4096) == {"route": "direct"}
    assert chosen(changed("h13", reduction_transpose_extent=None), 4, 4096) == {"route": "unknown"}
    assert chosen("h12", 4, 4096)["route"] == "direct"


def test_rows_of_the_last_axis_become_channels_in_parts() -> None:
    found = chosen("h13", 256, 512)
    assert (found["rows"], found["row_parts"], found["last_rows"]) == (256, 2, 64)
    assert "rows" not in chosen("h13", 1, 4, 16, 16, axes=(2, 3))


def test_the_longest_reduced_axis_counts() -> None:
    assert chosen("h13", 200, 4, 4, axes=(1, 2))["route"] == "direct"
    assert chosen("h13", 4, 200, 4, axes=(1, 2))["route"] == "transpose"


@pytest.mark.parametrize("kind", ["reduce_avg", "reduce_max", "reduce_l2_norm", "square_after_reduction"])
def test_every_reduction_has_a_route(kind: str) -> None:
    assert chosen("h14", 4, 512, kind=kind)["route"] == "transpose"


def test_other_layers_have_none_and_a_route_is_chosen_once() -> None:
    assert not ChooseReductionRoute()(program_of("h13", layer("softmax", {"x": value("x", 4, 512)}, "y"))).modified
    one = layer("reduce_sum", {"x": value("x", 4, 5)}, "y", axes=None)
    made = ChooseReductionRoute()(program_of("h13", one)).program
    assert not ChooseReductionRoute()(made).modified

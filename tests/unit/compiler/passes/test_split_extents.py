"""Long axes: layers are cut into parts and joined, windows read beyond their part, and the rest is the rule's error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler import moving
from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.split_extents import SplitExtents, two_factors
from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.testing.graphs import DrawnGraph, graphs
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    decide,
    inputs_of,
    layer,
    legalised,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of, lowered

if TYPE_CHECKING:
    from aneforge.targets import Target

TIGHT = changed("h13", max_tensor_dim=3, channel_extent=4)
CLEAN = changed("h17s", max_tensor_dim=3, channel_extent=4)


def test_the_extent_is_the_targets() -> None:
    one = layer("relu", {"x": value("x", 1, 8, 1, 17_000)}, "y")
    assert SplitExtents()(program_of("h13", one)).modified
    assert not SplitExtents()(program_of("h16g", one)).modified
    assert not SplitExtents()(program_of(changed("h13", max_tensor_dim=17_000), one)).modified
    wide = layer("relu", {"x": value("x", 1, 70_000, 1, 1)}, "y")
    assert SplitExtents()(program_of("h16g", wide)).modified
    assert not SplitExtents()(program_of(changed("h16g", channel_extent=70_000), wide)).modified


def test_unknown_extents_are_said_once() -> None:
    one = layer("relu", {"x": value("x", 1, 8, 1, 17_000)}, "y")
    made = SplitExtents()(program_of(changed("h13", max_tensor_dim=None), one)).program
    assert [note.text for note in made.notes] == ["no source gives max_tensor_dim of h13: not checked"]
    assert len(made.layers) == 1
    assert not SplitExtents()(made).modified


def test_what_only_moves_data_may_be_longer() -> None:
    x, y = value("x", 1, 10_000), value("z", 1, 10_000)
    joined = layer("concat", {"values": (x, y)}, "y", axis=1)
    assert not SplitExtents()(program_of("h13", joined)).modified


def test_what_a_transpose_reads_may_be_longer() -> None:
    one = layer("relu", {"x": value("x", 17_000, 8)}, "y")
    turned = layer("transpose", {"x": one.result}, "z", perm=(1, 0))
    assert not SplitExtents()(program_of("h13", one, turned)).modified
    fused = layer(
        "relu", {"x": value("x", 17_000, 8)}, "y", epilogue=Epilogue(transpose=stage("transpose", perm=(1, 0)))
    )
    assert not SplitExtents()(program_of("h13", fused)).modified


def test_a_sum_along_a_long_axis_is_one_along_two() -> None:
    before = program_of("h13", layer("reduce_avg", {"x": value("x", 2, 20_000)}, "y", axes=(-1,), keep_dims=False))
    after = SplitExtents()(before).program
    assert kinds_of(after) == ["reshape", "reduce_avg"]
    assert_same_meaning(before, after, inputs_of(before))


def test_a_sum_over_more_channels_than_there_are_is_one_along_two_axes_that_are_none() -> None:
    """Both axes must be as short as any other: the second was as long as channels may be, and refused after that."""
    before = program_of("h13", layer("reduce_sum", {"x": value("x", 1, 70_000, 1, 2)}, "y", axes=(1,)))
    after = SplitExtents()(before).program
    assert [one.shape for one in after.layers[1].bottoms] == [(1, 5, 14_000, 1, 2)]
    assert [note.text for note in after.notes] == [
        "became one reduce_sum of 2 shorter axes, with 1 layer around it (280000 bytes)"
    ]
    assert_same_meaning(before, after, inputs_of(before))


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (layer("softmax", {"x": value("x", 2, 17_000)}, "y", axis=-1), "ANE-EXTENT-001"),
        (layer("softmax", {"x": value("x", 1, 70_000, 2, 2)}, "y", axis=1), "ANE-EXTENT-002"),
        (layer("cumulative_sum", {"x": value("x", 17_000, 2)}, "y", axis=0), "ANE-EXTENT-001"),
    ],
)
def test_what_works_along_the_axis_as_a_whole_is_the_rules_error(one: object, rule: str) -> None:
    with pytest.raises(IllegalGraphError, match=rf"{rule} oversize: .* works along its axis of \d+ as a whole"):
        SplitExtents()(program_of("h13", one))  # pyright: ignore[reportArgumentType] - a layer


def test_an_operand_that_no_result_shows_is_named_with_its_rule() -> None:
    total = layer("reduce_sum", {"x": value("x", 2, 16_411)}, "y", axes=(-1,), keep_dims=True)
    with pytest.raises(NotSupportedError, match=r"ANE-EXTENT-001: an operand is too large") as caught:
        SplitExtents()(program_of("h13", total))
    assert (caught.value.operation, caught.value.seen, caught.value.limit) == (
        "reduce_sum",
        "fp16[2, 16411]",
        "16384 (max_tensor_dim)",
    )


@pytest.mark.parametrize("keep_dims", [True, False])
def test_a_folded_sum_has_the_shape_of_the_old_one(*, keep_dims: bool) -> None:
    before = program_of("h13", layer("reduce_sum", {"x": value("x", 2, 20_000)}, "y", axes=(1,), keep_dims=keep_dims))
    after = SplitExtents()(before).program
    assert kinds_of(after) == ["reshape", "reduce_sum", "reshape"][: 2 + keep_dims]
    assert_same_meaning(before, after, inputs_of(before))


def test_a_sum_over_all_axes_that_there_are_cannot_be_folded() -> None:
    total = layer("reduce_sum", {"x": value("x", 1, 1, 1, 2, 20_000)}, "y", axes=(4,), keep_dims=True)
    with pytest.raises(NotSupportedError, match="ANE-EXTENT-001"):
        SplitExtents()(program_of("h13", total))


def test_a_window_longer_than_the_target_computes_on_is_the_rules_error() -> None:
    one = convolution(value("x", 1, 1, 1, 9), constant(1, 1, 1, 2), dilation_rates=(1, 4))
    with pytest.raises(IllegalGraphError, match="ANE-EXTENT-001"):
        SplitExtents()(program_of(CLEAN, one))


def test_an_epilogue_that_mixes_the_long_axis_becomes_layers() -> None:
    remap = Epilogue(texture=stage("resize", size=(3,), mode="NEAREST"))
    before = program_of(CLEAN, convolution(value("x", 1, 2, 1, 9), constant(2, 2, 1, 1), epilogue=remap))
    with pytest.raises(NotSupportedError, match="ANE-EXTENT-001: an operand is too large"):
        SplitExtents()(before)
    batch = Epilogue(texture=stage("resize", size=(2, 3, 1, 3), mode="NEAREST"))
    many = program_of(CLEAN, convolution(value("x", 9, 2, 1, 3), constant(2, 2, 1, 1), epilogue=batch))
    with pytest.raises(NotSupportedError, match="ANE-EXTENT-001"):
        SplitExtents()(many)


def test_what_moves_data_is_refused_where_it_is_decided_so(monkeypatch: pytest.MonkeyPatch) -> None:
    decide(monkeypatch, moving, oversize_tensors="refused")
    joined = layer("concat", {"values": (value("x", 1, 10_000), value("z", 1, 10_000))}, "y", axis=1)
    with pytest.raises(IllegalGraphError, match="ANE-EXTENT-001"):
        SplitExtents()(program_of("h13", joined))


def test_windows_in_padding_alone_are_not_cut() -> None:
    one = convolution(value("x", 1, 1, 1, 2), constant(1, 1, 1, 1), explicit_padding=(0, 0, 9, 0))
    with pytest.raises(IllegalGraphError, match="ANE-EXTENT-001"):
        SplitExtents()(program_of(CLEAN, one))


def test_an_epilogue_that_makes_it_long_becomes_layers() -> None:
    spread = Epilogue(broadcast=stage("broadcast", shape=(1, 2, 3, 9)), post_activation=stage("tanh"))
    before = program_of(
        CLEAN,
        layer("relu", {"x": value("x", 1, 2, 3, 3)}, "z"),
        layer("max", {"x": value("z", 1, 2, 3, 3), "y": constant(1, 1, 1, 1)}, "y", epilogue=None),
    )
    assert not SplitExtents()(before).modified
    one = convolution(value("x", 1, 2, 3, 1), constant(2, 2, 1, 1), epilogue=spread)
    before = program_of(CLEAN, one)
    after = SplitExtents()(before).program
    assert_same_meaning(before, after, inputs_of(before), 1e-12)
    assert [note.text for note in after.notes] == [
        "became 4 layers, with 5 layers that cut and join (324 bytes)",
        "a fusion is undone: stages of its epilogue became layers",
    ]
    assert max(extent for made in after.layers if made.kind.name == "tanh" for extent in made.result.shape) == 3


@pytest.mark.parametrize("target", [TIGHT, CLEAN])
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=graphs(most=4))
def test_random_graphs_mean_the_same(target: Target, drawn: DrawnGraph) -> None:
    try:
        before = lowered(drawn.graph, target)
    except NotSupportedError:
        return  # an operation that no layer makes
    if any(one.kind.meaning is None for one in before.layers):
        return
    after = legalised(before, [SplitExtents()])
    if after is not None:
        assert_same_meaning(before, after, drawn.inputs)
        assert not SplitExtents()(after).modified


@given(extent=st.integers(1, 500), most=st.integers(1, 40))
def test_two_factors_multiply_to_the_length(extent: int, most: int) -> None:
    found = two_factors(extent, most)
    possible = any(extent % one == 0 and extent // one <= most for one in range(1, most + 1))
    assert (found is not None) == possible
    if found is not None:
        assert found[0] * found[1] == extent
        assert max(found) <= most


def test_the_builders_own_example_compiles() -> None:
    program = lowered(af.input((1, 8, 1, 17_000)).relu(), "h13")
    assert SplitExtents()(program).program.layers[-1].result.shape == (1, 8, 1, 17_000)

"""Compiling for other targets: the documented check, and the matrix of families."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.errors import (
    CrossChipFP16Warning,
    GraphTypeError,
    NoDataError,
    NotSupportedError,
    UnknownNameError,
    UnknownTargetError,
)
from aneforge.targets import MIN_FAMILY, Family
from divergence_tools import SLOW

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHTS = np.ones((4, 3, 3, 3), np.float16)


def network() -> af.Tensor:
    return af.conv(af.input((1, 3, 32, 32)), WEIGHTS, pad=1).relu()


@pytest.mark.parametrize("target", ["h13", "h14", "h15", "h16s", Family.A16, "m1", "m5"])
def test_a_network_compiles_everywhere(target: str) -> None:
    assert cross_compile_check(network(), target, host=target) is True


def test_what_the_host_draws_compiles_below_the_floor_of_random_numbers() -> None:
    assert cross_compile_check(af.dropout(af.input((1, 8)), 0.5), "h13", host="h13") is True


def test_what_cannot_run_is_false() -> None:
    matrix = np.tile(np.array([1, 0, 0, 0, 1, 0], np.float16), (1, 1))
    texture = af.affine(af.input((1, 3, 8, 8)), matrix, 8, 8)
    assert cross_compile_check(texture, "h13", host="h13") is False
    assert cross_compile_check(texture, "h14", host="h14") is True


def test_what_must_be_split_compiles() -> None:
    wide = af.conv(af.input((1, 3, 32, 32)), np.ones((4, 3, 3, 15), np.float16))
    with pytest.warns(af.OversizeWarning, match=r"conv becomes a kernel over phases"):
        assert cross_compile_check(wide, "h13", host="h13") is False


def test_the_oldest_families_are_unreachable() -> None:
    assert cross_compile_check(network(), "h11", host="h13") is False


@pytest.mark.parametrize("name", ["zzz", "h99", ""])
def test_a_typo_raises(name: str) -> None:
    with pytest.raises(UnknownTargetError):
        cross_compile_check(network(), name, host="h13")


def test_a_name_without_data_raises() -> None:
    with pytest.raises(NoDataError, match="no source describes"):
        cross_compile_check(network(), "h21", host="h13")


def test_a_bridge_raises() -> None:
    with pytest.raises(NotSupportedError, match="cut into several programs") as caught:
        cross_compile_check(af.sort(af.input((1, 8)).relu()), "h16s", host="h13")
    assert caught.value.operation == "sort"


def test_what_does_not_compile_has_no_numbers_to_differ() -> None:
    x = af.affine(af.input((1, 3, 8, 8)), np.tile(np.array([1, 0, 0, 0, 1, 0], np.float16), (1, 1)), 8, 8)
    assert cross_compile_check(x.slice_by_size((0, 0, 0, 2), (1, 3, 8, 4)), "h13", host="h16s") is False


def test_winograd_and_resizes_are_warned_of() -> None:
    """More than half of the elements of a 3×3 convolution differ between M1 and M5, and some of a resize."""
    with pytest.warns(CrossChipFP16Warning, match="conv at .* may differ between h13 and h17s: roundings, Winograd"):
        assert cross_compile_check(network(), "h17s", host="h13") is True
    up = af.resize_bilinear(af.input((1, 3, 8, 8)), 16, 16)
    with pytest.warns(CrossChipFP16Warning, match="resize_bilinear at .* may differ between h13 and h14"):
        assert cross_compile_check(up, "h14", host="h13") is True


def test_every_operation_with_a_verdict_is_named_once() -> None:
    x = af.input((1, 512))
    with pytest.warns(CrossChipFP16Warning) as caught:
        cross_compile_check(x.softmax(-1).sum(-1).square(), "h13", host="h16s")
    messages = [str(one.message) for one in caught]
    told = [(message.split(" at ")[0], message.split(": ")[1].split(",")[0]) for message in messages]
    assert {strength for _, strength in told} == {"round1", "ulp1"}
    assert ("softmax", "ulp1") in told
    assert len(set(messages)) == len(messages)


def test_it_points_to_the_callers_line() -> None:
    with pytest.warns(CrossChipFP16Warning) as caught:
        cross_compile_check(af.input((1, 512)).softmax(-1), "h13", host="h16s")
    assert caught[0].filename == __file__


def test_it_can_be_silenced_by_its_public_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=af.CrossChipFP16Warning)
        assert cross_compile_check(af.input((1, 512)).softmax(-1), "h13", host="h16s")


def test_a_promise_silences_the_crop() -> None:
    x = af.input((1, 8), max_abs=4094.0)
    assert cross_compile_check(x.slice_by_size((0, 2), (1, 4)), "h13", host="h16s")


def warned(out: af.Tensor | af.Graph, target: str = "h13", host: str = "h16s") -> list[tuple[str, str]]:
    """Return what the check warns of: operations and verdicts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_compile_check(out, target, host=host)
    messages = [str(one.message) for one in caught if one.category is CrossChipFP16Warning]
    return [
        (message.split(" at ")[0], message.split(f"{host} and {target}: ")[1].split(",")[0]) for message in messages
    ]


def test_a_square_counts_beside_a_sum_alone() -> None:
    x = af.input((4, 300))
    assert warned(x.square(), "h13", "h14") == []
    assert warned(x.relu().square().relu(), "h13", "h14") == []
    for beside in (x.square().mean(-1), (x - x.mean(-1)).square().sum(-1), x.sum(-1).square()):
        assert "round1" in {strength for _, strength in warned(beside, "h13", "h14")}


def test_a_norm_by_constants_adds_nothing_up() -> None:
    ones = np.ones(3, np.float16)
    assert warned(af.batch_norm(af.input((1, 3, 8, 8)), ones, ones, ones, ones)) == []
    assert warned(af.instance_norm(af.input((1, 3, 8, 8)))) == [("instance_norm", "ulp1")]


def test_parts_of_a_split_begin_inside_the_width() -> None:
    x = af.input((1, 4, 8, 16))
    first, second = af.split(x, 2, 3)
    assert warned(second) == [("split", "saturation")]
    assert warned(first * second) == [("split", "saturation")]
    assert warned(first * second.sigmoid()) == [], "a sigmoid gives the same for all that the crop changes"
    assert warned(first) == []
    assert warned(af.split(x, 2, 2)[1]) == []


def test_slices_that_are_joined_give_wrong_elements_however_small_they_are() -> None:
    parts = af.split(af.input((1, 4, 8, 16)), 4, 3)
    assert warned(af.concat(parts[::-1], axis=3)) == [("concat", "elements"), ("split", "saturation")]
    assert warned(af.concat(parts[:2], axis=3)) == [("split", "saturation")]
    small = af.input((1, 16), max_abs=1.0)
    joined = af.concat([small.slice_by_size((0, begin), (1, 4)) for begin in (2, 5)], axis=1)
    assert warned(joined) == warned(joined, "h13", "h14") == [("concat", "elements")]
    assert warned(joined, "h13", "h13g") == warned(joined, "h15", "h16s") == []


def test_what_the_graph_keeps_small_is_no_saturation() -> None:
    x, promised = af.input((1, 16)), af.input((1, 16), max_abs=4.0)
    for small in (promised.relu(), x.clip(-1.0, 1.0), x.tanh() * 4000.0, promised + x.sigmoid()):
        assert warned(small.slice_by_size((0, 2), (1, 4))) == []
    for large in (x.relu(), x.clip(-1.0, 5000.0), promised * 2000.0, promised + x):
        assert warned(large.slice_by_size((0, 2), (1, 4))) == [("slice_by_size", "saturation")]


def test_crops_and_states_count_and_whole_numbers_do_not() -> None:
    assert warned(af.crop(af.input((1, 4, 8, 16)), 0, 0, 2, 2)) == [("crop", "saturation")]
    assert warned(af.crop(af.input((1, 4, 8, 16)), 2, 2, 0, 0)) == []
    held = af.state("held", (1, 32))
    assert warned(af.Graph({"y": held.slice_by_size((0, 2), (1, 4))})) == [("slice_by_size", "saturation")]
    assert warned(af.input((1, 16), dtype="uint8").slice_by_size((0, 2), (1, 4)).cast("fp16")) == []


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(st.data(), st.sampled_from([("h13", "h16s"), ("h17", "h14"), ("h13", "h14")]))
def test_it_warns_of_the_crop_where_the_proof_finds_it(data: st.DataObject, pair: tuple[str, str]) -> None:
    steps: list[Callable[[af.Tensor], af.Tensor]] = [
        lambda x: x.slice_by_size((0, 1), (1, x.shape[1] - 1)) if x.shape[1] > 1 else x,
        lambda x: af.split(x, x.shape[1], 1)[-1],
        lambda x: af.concat(af.split(x, x.shape[1], 1)[::-1], axis=1),
        lambda x: x.clip(-2.0, 3.0),
        lambda x: x * 40.0,
        lambda x: x.relu(),
        lambda x: x + x.sigmoid(),
    ]
    out = af.input((1, 16), max_abs=data.draw(st.sampled_from([None, 2.0, 4094.0])))
    for step in data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=5)):
        out = step(out)
    found = {str(one.strength) for one in af.divergence(out, *pair).findings}
    assert {verdict for _, verdict in warned(out, pair[1], pair[0])} == found


def test_names_are_checked_before_the_graph() -> None:
    no_graph = cast("af.Tensor", "a")
    with pytest.raises(UnknownTargetError, match="zzz"):
        cross_compile_check(no_graph, "zzz", host="h13")
    with pytest.raises(UnknownTargetError, match="zzz"):
        cross_compile_check(no_graph, "h13", host="zzz")
    with pytest.raises(NoDataError, match="no source describes"):
        cross_compile_check(no_graph, "h21", host="h13")
    with pytest.raises(GraphTypeError, match="made of tensors"):
        cross_compile_check(no_graph, "h13", host="h13")


def test_the_host_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANEFORGE_TARGET", "h16s")
    with pytest.warns(CrossChipFP16Warning, match="between h16s and h13"):
        cross_compile_check(af.input((1, 512)).softmax(-1), "h13")


def test_every_family_that_runs_mil() -> None:
    found = af.compile_matrix(network())
    assert found.ok
    assert [entry.family for entry in found.entries] == [one.name for one in Family if one >= MIN_FAMILY]
    assert found["h13"] is found["A13"]


def test_the_matrix_as_text() -> None:
    lines = str(af.compile_matrix(network())).splitlines()
    assert lines[0] == "A13 (h13): 1 layer in 1 program"
    assert str(af.compile_matrix(af.input((1, 8)))).startswith("A13 (h13): nothing to run")
    assert "2 layers in 2 programs" in str(af.compile_matrix(af.topk(af.input((1, 8)), 2)))


def test_reasons_are_those_of_the_rules() -> None:
    found = af.compile_matrix(af.topk(af.input((1, 8)), 2))
    assert [entry.ok for entry in found.entries] == [False, True, True, True]
    assert any("topk" in reason for reason in found["A13"].reasons)
    assert found["A14"].segments >= 1
    assert "does not compile" in str(found)


def test_what_was_rebuilt_is_named() -> None:
    found = af.compile_matrix(af.input((1, 8)).cos())
    assert [len(entry.rebuilt) for entry in found.entries] == [1, 1, 0, 0]
    assert found["A13"].rebuilt[0].startswith("cos became")
    assert "rebuilt: cos" in str(found)


def test_all_targets() -> None:
    found = af.compile_matrix(network(), "all")
    assert len(found.entries) > 20
    assert [entry.target for entry in found.entries if not entry.ok][:1] in ([], ["h11"])


def test_names_without_data_have_that_as_their_reason() -> None:
    found = af.compile_matrix(af.input((1, 8)).relu(), "known")
    assert found["h21"].reasons == ("the compiler knows this name, and no source describes the target",)
    assert "belongs to no documented family" in found["u1"].reasons[0]
    assert found["h13"].ok
    assert not found.ok


def test_a_name_that_the_matrix_does_not_have() -> None:
    found = af.compile_matrix(af.input((1, 8)).relu())
    with pytest.raises(UnknownNameError, match="unknown target of this matrix 'h13x'; nearest: h13"):
        found["h13x"]


def test_an_unknown_group() -> None:
    with pytest.raises(UnknownTargetError, match="target group"):
        af.compile_matrix(network(), "everything")


def test_the_documented_form() -> None:
    x, y = af.input((4, 1024), name="x"), af.input((4, 1024), name="y")
    found = af.precision_risk((x - y).sum(-1))
    assert list(found) == ["graph_error", "nodes", "hotspots"]
    assert [node["op"] for node in found["nodes"]] == ["sub", "reduce_sum"]
    assert [node["op"] for node in found["hotspots"]] == ["reduce_sum"]
    assert found["graph_error"] == pytest.approx(1e-3 * 32)
    assert found["hotspots"][0]["location"] is not None


def test_short_or_unsigned_sums_are_none() -> None:
    assert af.precision_risk(af.input((4, 255)).sum(-1)) == {"graph_error": 0.0, "nodes": [], "hotspots": []}
    assert af.precision_risk(af.input((4, 1024)).relu().sum(-1))["nodes"] == []


def test_the_error_is_at_most_one() -> None:
    assert af.precision_risk(af.input((2, 2_000_000)).sum(-1))["graph_error"] == 1.0


def test_small_differences_are_not_named() -> None:
    x = af.input((1, 63))
    assert af.precision_risk(x - x.relu())["nodes"] == []


def test_the_worst_is_first() -> None:
    x = af.input((4, 256, 4096))
    found = af.precision_risk(x.sum(1).sum(-1))
    assert [round(node["error"], 3) for node in found["hotspots"]] == [0.064, 0.016]


def test_magnitudes_that_are_known_count_as_a_risk() -> None:
    x = af.input((4, 8), name="x")
    assert af.precision_risk(x.exp())["nodes"] == []
    promised = af.precision_risk(af.input((4, 8), name="x", max_abs=100.0).exp(), target="m4")
    given = af.precision_risk(x.exp(), ranges={"x": 100.0}, target="m4")
    for found in (promised, given):
        assert found["graph_error"] == 1.0
        assert [(node["op"], node["shape"]) for node in found["hotspots"]] == [("exp", (4, 8))]
        assert found["hotspots"][0]["reason"].startswith("fp16 overflow")
    assert af.precision_risk(x.exp(), ranges={"x": 2.0}, target="m4")["graph_error"] == 0.0
    cut = x.slice_by_size((0, 2), (4, 4))
    assert [af.precision_risk(cut, ranges={"x": 5000.0}, target=one)["graph_error"] for one in ("m1", "m4")] == [
        1.0,
        0.0,
    ]


def test_what_only_hands_an_infinite_value_on_is_no_hotspot() -> None:
    x = af.input((4, 8), max_abs=300.0)
    found = af.precision_risk(x.square().transpose(1, 0).relu(), target="h16")
    assert [node["op"] for node in found["hotspots"]] == ["square"]


def test_operations_of_one_line_have_their_own_shapes() -> None:
    x = af.input((4, 8), max_abs=300.0)
    found = af.precision_risk((x * x).sum(-1), target="m4")["nodes"]
    assert [(node["op"], node["shape"]) for node in found] == [("mul", (4, 8)), ("reduce_sum", (4, 1))]

"""Divergence of whole graphs: sound against the engine, tight over a corpus, and explained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.analysis.divergence.arithmetic import IN_ORDER
from aneforge.analysis.divergence.graphs import Cause, Divergence, Strength, divergence
from aneforge.analysis.divergence.numbering import Numbering
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.compiler.compile import build_program
from aneforge.compiler.pipeline import PIPELINE
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.dispatch import FOR_TARGET
from aneforge.engine.execution.run import run
from aneforge.engine.products import FOR_TARGET as CONVOLUTIONS
from aneforge.errors import (
    IllegalGraphError,
    NotSupportedError,
    SaturationWarning,
    UnknownNameError,
    UnknownTargetError,
)
from aneforge.graph.node import build
from aneforge.ops.constant import Dense, Int8Affine
from aneforge.ops.table import find_op
from aneforge.testing.graphs import DrawnGraph
from aneforge.testing.networks import networks
from divergence_tools import PAIRS, SLOW, Tally, judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from golden_text import Golden

GENERATOR = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    return GENERATOR.standard_normal(shape).astype(np.float16)


def convolution(kernel: int = 3, width: int = 8) -> af.Tensor:
    return af.conv(af.input((1, 4, 8, width), name="x", max_abs=8.0), weights(4, 4, kernel, kernel), pad=kernel // 2)


def test_constants_have_one_name_where_their_bits_are_equal() -> None:
    values = np.zeros((64, 64), np.float16)
    other, negative = values.copy(), values.copy()
    other[0, 1], negative[0, 1] = 1.0, -0.0  # beside the elements that are sampled
    encoded = Int8Affine(np.zeros((64, 64), np.int8), np.ones(1, np.float16))
    held = [Dense(values), Dense(other), Dense(negative), Dense(values.copy()), encoded, Dense(values.reshape(32, 128))]
    numbering = Numbering()
    names = [numbering.name_constant(one) for one in held]
    assert len(set(names)) == 4
    assert names[0] == names[3] == names[4]


def test_whatever_differs_in_a_bit_was_not_none() -> None:
    tally = Tally()

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=SLOW)
    @given(networks(most=8), st.sampled_from(PAIRS))
    def fuzz(drawn: DrawnGraph, pair: tuple[str, str]) -> None:
        judged(drawn, pair, tally)

    for number in range(2):  # later graphs of one seed are often near copies of earlier ones
        seed(number)(fuzz)()
    print(tally)  # noqa: T201 - the figure that the issue asks for, shown by pytest -s
    assert tally.answers > 250
    # So few of 300 are other than none that the share of idle ones is chance here; tests/external holds that of
    # thousands of graphs to its bound.


def test_the_judge_sees_bits_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, x = Tally(), af.input((1, 4, 8, 16), name="x")
    cropped = af.Graph({"y": x.slice_by_size((0, 0, 0, 3), (1, 4, 8, 8))})
    drawn = DrawnGraph(cropped, {"x": np.full((1, 4, 8, 16), 5000.0)})
    judged(drawn, ("h13", "h15"), tally)
    assert (tally.flagged, tally.idle) == (1, 0)

    def nothing_differs(*_: object) -> Divergence:
        return divergence(cropped, "h13", "h13g")

    monkeypatch.setattr("divergence_tools.divergence", nothing_differs)
    with pytest.raises(AssertionError, match=r"bits differ between .* and the answer was none"):
        judged(drawn, ("h13", "h15"), tally)


@pytest.mark.parametrize("pair", [("h13", "h13g"), ("h16", "h16g"), ("h17", "h17s"), ("h13", "t1")])
def test_targets_of_one_datapath_are_equal(pair: tuple[str, str]) -> None:
    x = af.input((1, 4, 8, 8), name="x")
    y = af.conv(x, weights(4, 4, 3, 3), pad=1).softmax(1).slice_by_size((0, 0, 0, 3), (1, 4, 8, 4)).sum(-1).square()
    found = divergence(y, *pair)
    assert found.verdict is Strength.NONE
    assert found.findings == ()
    assert found.equal_on_engine


def test_every_arithmetic_that_asks_for_the_target_is_known() -> None:
    assert set(FOR_TARGET) == set(CROPS) | set(CONVOLUTIONS) | set(IN_ORDER)


def test_crop() -> None:
    cut = af.input((1, 8), name="x").slice_by_size((0, 2), (1, 4))
    found = divergence(cut, "h14", "h16")
    (finding,) = found.findings
    assert (found.verdict, finding.cause, finding.bound) == (Strength.SATURATION, Cause.CROP, float("inf"))
    assert finding.location is not None
    assert str(finding.location.file).endswith("test_divergence.py")
    assert found.outputs == ("output y",)


@pytest.mark.parametrize("most", [4094.0, 1.0])
def test_a_promise_rules_the_crop_out(most: float) -> None:
    cut = af.input((1, 8), name="x", max_abs=most).slice_by_size((0, 2), (1, 4))
    assert divergence(cut, "h13", "h16").verdict is Strength.NONE


def test_a_bounded_function_rules_the_crop_out() -> None:
    cut = af.input((1, 8)).tanh().slice_by_size((0, 2), (1, 4))
    assert divergence(cut, "h13", "h16").verdict is Strength.NONE


@pytest.mark.parametrize("most", [4096.0, 4095.0])
def test_a_promise_that_reaches_the_crop_does_not(most: float) -> None:
    cut = af.input((1, 8), name="x", max_abs=most).slice_by_size((0, 2), (1, 4))
    assert divergence(cut, "h13", "h16").verdict is Strength.SATURATION


def test_both_early_families_crop_alike() -> None:
    cut = af.input((1, 8)).slice_by_size((0, 2), (1, 4))
    assert divergence(cut, "h13", "h14").verdict is Strength.NONE


def joined_slices(*begins: int) -> af.Tensor:
    x = af.input((1, 4, 8, 16), name="x", max_abs=1.0)
    return af.concat([x.slice_by_size((0, 0, 0, begin), (1, 4, 8, 4)) for begin in begins], axis=3)


@pytest.mark.parametrize("pair", [("h13", "h14"), ("h13", "h15"), ("h14", "h16"), ("h17", "h14")])
def test_wrong_elements_of_joined_slices_are_no_proof_of_equality(pair: tuple[str, str]) -> None:
    found = divergence(joined_slices(2, 5).relu(), *pair)
    (finding,) = found.findings
    assert (found.verdict, finding.cause, finding.op) == (Strength.ELEMENTS, Cause.JOIN, "concat")
    assert np.isnan(finding.bound)
    assert "wrong elements come out on" in finding.detail
    assert found.outputs == ("output y",)


@pytest.mark.parametrize("pair", [("h13", "h13g"), ("h14", "h14g"), ("h13", "t1")])
def test_wrong_elements_of_one_family_are_the_same(pair: tuple[str, str]) -> None:
    assert divergence(joined_slices(2, 5), *pair).verdict is Strength.NONE


@pytest.mark.parametrize("begins", [(0, 5), (0, 0)])
def test_one_slice_that_begins_inside_is_joined_as_it_is(begins: tuple[int, int]) -> None:
    assert divergence(joined_slices(*begins), "h13", "h16").verdict is Strength.NONE


def test_wrong_elements_are_the_strongest() -> None:
    assert max(Strength, key=lambda one: one.rank) is Strength.ELEMENTS


def test_other_axes_and_the_start_are_copies() -> None:
    x = af.input((1, 4, 8, 8))
    cut = x.slice_by_size((0, 1, 1, 0), (1, 2, 2, 2))
    assert divergence(cut, "h13", "h16").verdict is Strength.NONE


def test_winograd() -> None:
    found = divergence(convolution(), "h16", "h17")
    (finding,) = found.findings
    assert (finding.cause, finding.strength, finding.on_engine) == (Cause.WINOGRAD, Strength.ROUNDINGS, True)
    assert np.isfinite(finding.bound)


@pytest.mark.parametrize("kernel", [1, 5])
def test_other_kernels_are_direct_on_both(kernel: int) -> None:
    assert divergence(convolution(kernel), "h16", "h17").verdict is Strength.NONE


def test_early_and_late_chips_add_in_different_orders() -> None:
    found = divergence(af.input((4, 512), name="x").softmax(-1), "h14", "h16")
    (finding,) = found.findings
    assert (found.verdict, found.on_silicon) == (Strength.ULP1, Strength.ULP1)
    assert (finding.cause, finding.on_engine) == (Cause.REDUCTION, True)
    assert divergence(af.input((4, 512), name="x").softmax(-1), "h13", "h14").verdict is Strength.NONE


def test_one_term_has_one_order() -> None:
    assert divergence(af.input((4, 1)).sum(-1), "h14", "h16").on_silicon is Strength.NONE


@pytest.mark.parametrize(
    ("terms", "verdict"), [(2, Strength.NONE), (3, Strength.NONE), (64, Strength.NONE), (65, Strength.ROUND1)]
)
def test_a_fused_square(terms: int, verdict: Strength) -> None:
    found = divergence(af.input((4, terms), max_abs=1.0).sum(-1).square(), "h13", "h14")
    assert found.verdict is verdict
    assert found.on_silicon is Strength.ROUND1
    assert found.findings[0].cause is Cause.SQUARE


def texture() -> af.Tensor:
    return af.affine(af.input((1, 3, 8, 8)), np.eye(2, 3, dtype=np.float16).reshape(1, 6), 8, 8)


def decomposed() -> af.Tensor:
    node = build(find_op("matrix_decomposition"), {"x": af.input((9,), name="x")}, {"type": "NonQRGivens"})
    return af.Tensor(node, 0)


def test_a_texture_unit_that_nobody_knows_is_modelled_alike() -> None:
    found = divergence(texture(), "h14", "h16s")
    assert (found.verdict, found.on_silicon) == (Strength.NONE, Strength.ROUNDINGS)
    assert found.findings[0].cause is Cause.UNKNOWN
    assert "no source says" in str(found)


def test_what_nobody_can_compute_is_no_proof_of_equality() -> None:
    found = divergence(decomposed(), "h13", "h15")
    assert (found.verdict, found.findings[0].cause) == (Strength.ROUNDINGS, Cause.UNKNOWN)
    with pytest.raises(NotSupportedError, match="no source gives the mathematics"):
        run(build_program(decomposed(), "h13"), {"x": np.ones(9)})


@pytest.mark.parametrize("made", [texture, decomposed])
def test_what_nobody_knows_is_alike_within_a_family(made: Callable[[], af.Tensor]) -> None:
    assert divergence(made(), "h16", "h16g").on_silicon is Strength.NONE


def test_decomposition() -> None:
    found = divergence(af.input((1, 8), max_abs=1.0).sin(), "h13", "h15")
    assert (found.verdict, found.findings[0].cause) == (Strength.APPROXIMATION, Cause.DECOMPOSITION)


def test_what_follows_a_decomposition_is_no_finding() -> None:
    x = af.input((1, 8), max_abs=1.0)
    found = divergence(x.sin().relu() * 2.0 + x.tanh(), "h13", "h15")
    assert {finding.cause for finding in found.findings} == {Cause.DECOMPOSITION}


def test_compression() -> None:
    quantised = GENERATOR.integers(-127, 128, (8, 4)).astype(np.int8)
    scale = np.full(8, 0.01, np.float16)
    weight = Int8Affine(quantised, scale, None, 0)
    y = af.Tensor(build("linear", {"x": af.input((1, 4), name="x"), "weight": weight}, {}))
    found = divergence(y, "h13", "h14")
    assert (found.verdict, found.findings[0].cause) == (Strength.SATURATION, Cause.FOLD), "int8 folds on one of them"
    outputs = [run(build_program(y, target), {"x": np.full((1, 4), 4096.0)}).outputs["y"] for target in ("h13", "h14")]
    assert np.isfinite(outputs[0]).all()
    assert np.isinf(outputs[1]).any()
    small = divergence(y, "h13", "h14", ranges={"x": 4094.0})
    assert (small.verdict, small.on_silicon) == (Strength.NONE, Strength.ROUNDINGS)
    outputs = [run(build_program(y, target), {"x": np.full((1, 4), 4094.0)}).outputs["y"] for target in ("h13", "h14")]
    assert outputs[0].tobytes() == outputs[1].tobytes()


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_winograd_keeps_its_bound(scale: float) -> None:
    y = convolution()
    (finding,) = divergence(y, "h16", "h17").findings
    x = GENERATOR.uniform(-scale, scale, (1, 4, 8, 8))
    first, second = (run(build_program(y, target), {"x": x}).outputs["y"] for target in ("h16", "h17"))
    largest = np.abs(first.astype(np.float64) - second.astype(np.float64)).max()
    assert 0 < largest <= finding.bound


def test_a_tighter_promise_is_a_tighter_bound() -> None:
    bounds = [divergence(convolution(), "h16", "h17", ranges={"x": most}).findings[0].bound for most in (0.5, 1.0, 8.0)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


def test_an_unknown_target() -> None:
    with pytest.raises(UnknownTargetError, match="zzz"):
        divergence(af.input((1, 8)).relu(), "zzz", "h16")


def test_a_graph_that_cannot_run() -> None:
    with pytest.raises(IllegalGraphError):
        divergence(af.topk(af.input((1, 8)), 2), "h13", "h16")


def test_a_range_of_no_input() -> None:
    with pytest.raises(UnknownNameError, match="unknown input 'z'"):
        divergence(af.input((1, 8), name="x").relu(), "h13", "h16", ranges={"z": 1.0})


def test_the_report_as_text(golden: Golden) -> None:
    x = af.input((1, 4, 8, 8), name="x", max_abs=60000.0)
    y = af.conv(x, np.ones((4, 4, 3, 3), np.float16), pad=1).slice_by_size((0, 0, 0, 1), (1, 4, 8, 6)).mean(1)
    text = "\n".join(str(divergence(y, "h13", target)) for target in ("h14", "h15", "h17"))
    golden(re.sub(r" at \S+\.py:\d+", "", text) + "\n")


def test_a_product_cut_along_its_channels_is_the_whole() -> None:
    x = af.input((128, 384), name="x", max_abs=4.0)
    y = x.linear(weights(1536, 384) / 20, bias=weights(1536)).gelu().linear(weights(384, 1536) / 40)
    first, second = (build_program(y, target) for target in ("h13", "h17"))
    assert len(first.layers) > len(second.layers)
    assert divergence(y, "h13", "h17").verdict is Strength.NONE
    inputs = {"x": GENERATOR.uniform(-4, 4, (128, 384))}
    one, other = (run(program, inputs).outputs["y"] for program in (first, second))
    assert one.tobytes() == other.tobytes()


def test_a_slot_is_a_layer_of_its_own() -> None:
    x = af.input((1, 4, 6, 6), name="x")
    fused = af.conv(x, np.ones((4, 4, 1, 1), np.float16)).relu()
    numbering = Numbering()
    whole = build_program(fused, "h16")
    apart = build_program(fused, "h16", pipeline=PIPELINE.without("fuse-epilogue"))
    assert len(apart.layers) > len(whole.layers)
    first, second = (numbering.program(one, flow(one, {}).ranges).leaving() for one in (whole, apart))
    assert first == second


def test_a_constant_that_is_resized() -> None:
    picture = Dense(weights(1, 1, 2, 3))
    scales = {"scale_factor_height": 2.0, "scale_factor_width": 2.0}
    node = build(
        find_op("upsample_bilinear"), {"x": picture}, {**scales, "align_corners": True, "half_pixel_centers": True}
    )
    total = af.Tensor(node, 0) + af.input((1, 1, 4, 6), name="x")
    inputs = {"x": np.zeros((1, 1, 4, 6))}
    one, other = (run(build_program(total, target), inputs).outputs["y"] for target in ("h13", "h14"))
    assert divergence(total, "h13", "h14").verdict is not Strength.NONE or one.tobytes() == other.tobytes()


def constant_total(op: str) -> af.Tensor:
    node = build(find_op(op), {"x": Dense(np.array([[3.0, 4.9, 2.5, 4.4]], np.float16))}, {"axes": [-1]})
    return af.Tensor(node, 0) + af.input((1,), name="x")


@pytest.mark.parametrize("op", ["reduce_log_sum_exp", "reduce_log_sum", "reduce_l2_norm"])
def test_numbers_of_a_constant_are_added_in_the_order_of_the_target(op: str) -> None:
    found = divergence(constant_total(op), "h14", "h17s")
    assert Cause.REDUCTION in {finding.cause for finding in found.findings}
    assert found.verdict is not Strength.NONE


def test_a_constant_beside_int8_weights_passes_their_encoding() -> None:
    weight = Int8Affine(np.ones((4, 8, 1, 1), np.int8), np.full(4, 0.01, np.float16))
    node = build(find_op("conv"), {"x": Dense(np.full((1, 8, 2, 2), 6000, np.float16)), "weight": weight})
    total = af.Tensor(node, 0) + af.input((1, 4, 2, 2), name="x")
    inputs = {"x": np.zeros((1, 4, 2, 2))}
    one, other = (run(build_program(total, target), inputs).outputs["y"] for target in ("h13", "h14"))
    assert np.isfinite(one).all()
    assert np.isinf(other).all()
    assert divergence(total, "h13", "h14").verdict is not Strength.NONE
    with pytest.warns(SaturationWarning, match=r"activations of a magnitude above 4094 .*they may reach 6000"):
        af.compile(total, target="h14")

"""Ranges: sound against the engine, exact at the edges, and reported with margins and remedies."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import aneforge as af
import fuzz_predictions
from aneforge.analysis.ranges.analysis import Edge, ranges
from aneforge.analysis.ranges.interval import ANYTHING, FINITE, Range, as_read, end_text, hull, of_values
from aneforge.analysis.ranges.program_ranges import flow
from aneforge.analysis.ranges.reached import find_reached
from aneforge.analysis.ranges.sums import TABLE_SLACK, add_up, slack
from aneforge.compiler.compile import build_program
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.choices import choices
from aneforge.engine.execution.run import run
from aneforge.engine.golden import winograd_reach
from aneforge.engine.planar import host_fp16, read
from aneforge.engine.reductions import accumulate
from aneforge.errors import GraphError, UnknownNameError
from aneforge.graph.node import build
from aneforge.ops.constant import Int8Affine
from aneforge.targets import resolve
from aneforge.testing.graphs import graphs
from aneforge.testing.networks import networks
from divergence_tools import SLOW, TARGETS, is_real

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.analysis.ranges.analysis import LayerRange
    from aneforge.compiler.ir.program import Program
    from aneforge.testing.graphs import DrawnGraph
    from divergence_tools import Array, Inputs
    from golden_text import Golden

GENERATOR = np.random.default_rng(11)
SCALES = (1.0, 1.0, 0.01, 30.0, 3000.0, 40000.0, 1e6)
FUZZ = settings(deadline=None, database=None, derandomize=True, suppress_health_check=SLOW)


def outside(program: Program, inputs: Inputs) -> str | None:
    """Run a program and return the first value that leaves its range."""
    ends = {port.name: of_values(run_input(inputs[port.name])) for port in program.inputs}
    found = flow(program, ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = run(program, inputs, keep=True).values
    for layer in program.layers:
        for result in layer.results:
            seen, bound = of_values(values[result.name]), found.ranges[result.name]
            if values[result.name].size and not (bound.low <= seen.low and seen.high <= bound.high):
                return f"{layer.kind.name} {result.name}: {seen} outside {bound}\n{program}"
    return None


def run_input(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16) if is_real(values) else values


def reciprocal_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


def check(drawn: DrawnGraph, target: str, scale: float) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = build_program(drawn.graph, target)
    except GraphError:
        return False
    if any(port.name not in drawn.inputs for port in program.inputs):
        return False
    inputs = {name: array * scale if is_real(array) else array for name, array in drawn.inputs.items()}
    try:
        left = outside(program, inputs)
    except GraphError:  # an operation whose mathematics no source gives
        return False
    assert left is None, left
    return True


@settings(FUZZ, max_examples=150)
@given(networks(most=8), st.sampled_from(TARGETS), st.sampled_from(SCALES))
def test_no_value_of_a_network_leaves_its_range(drawn: DrawnGraph, target: str, scale: float) -> None:
    check(drawn, target, scale)


@settings(FUZZ, max_examples=120)
@given(graphs(most=2), st.sampled_from(TARGETS), st.sampled_from(SCALES))
def test_no_value_of_any_operation_leaves_its_range(drawn: DrawnGraph, target: str, scale: float) -> None:
    check(drawn, target, scale)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", fuzz_predictions.KINDS)
def test_networks_of_other_kinds_stay_within_and_differ_only_where_told(kind: fuzz_predictions.Kind) -> None:
    tally: Counter[str] = Counter()
    with np.errstate(all="ignore"):
        for seed in range(9_000_000, 9_000_004):
            assert fuzz_predictions.judge(seed, kind, tally) == []
    assert tally["values in ranges"] > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", fuzz_predictions.KINDS)
def test_samples_come_no_nearer_to_an_edge_than_their_ranges_say(kind: fuzz_predictions.Kind) -> None:
    compared = 0
    for seed in range(9_100_000, 9_100_006):
        draw = fuzz_predictions.Draw(np.random.default_rng(seed))
        with np.errstate(all="ignore"):
            try:
                graph, target = kind(draw), str(draw.pick(*TARGETS))
                drawn = fuzz_predictions.inputs_of(graph, draw.random, 4)
                values = {name: np.nan_to_num(run_input(array)) for name, array in drawn.items()}
                ends = {name: of_values(array) for name, array in values.items()}
                declared = ranges(graph, {name: (one.low, one.high) for name, one in ends.items()}, target=target)
                observed = ranges(graph, inputs=values, target=target)
            except GraphError:
                continue
        compared += sum(map(assert_no_nearer, observed.layers, declared.layers))
    assert compared > 0


def assert_no_nearer(seen: LayerRange, proven: LayerRange) -> int:
    """Check that what was seen is within what is proven, edge by edge; what is passed in both has no order."""
    assert (seen.range | proven.range) == proven.range
    bounds = {concern.edge: concern for concern in proven.concerns}
    for concern in seen.concerns:
        bound = bounds[concern.edge]
        if concern.edge is Edge.GRID:
            assert concern.margin <= bound.margin + 0.05
        else:
            assert bound.passed or concern.margin >= bound.margin - 0.02, (seen, concern, bound)
    return len(seen.concerns)


def test_infinities_are_numbers() -> None:
    assert of_values(np.array([np.inf, -np.inf])) == Range(-65536.0, 65536.0)
    assert not Range(0.0, 65536.0).finite
    assert (end_text(-65536.0), end_text(1.5)) == ("-inf", "1.5")


def test_nothing_is_zero() -> None:
    assert hull([]) == Range(0.0, 0.0) == of_values(np.zeros(0))


def test_membership() -> None:
    assert 1.0 in Range(0.0, 1.0)
    assert 2.0 not in Range(0.0, 1.0)
    assert FINITE | Range(-70000.0, 0.0) == Range(-70000.0, 65504.0)
    assert str(ANYTHING) == "[-inf, inf]"


@pytest.mark.parametrize("order", ["early", "late"])
@pytest.mark.parametrize("count", [3, 64, 65, 1000])
def test_sums_stay_within(order: str, count: int) -> None:
    adder = choices().reduction.orders[order]
    exponents = GENERATOR.integers(-10, 4, (200, count))
    numbers = np.ldexp(GENERATOR.uniform(-1, 1, (200, count)), exponents).astype(np.float16).astype(np.float64)
    off = np.abs(accumulate(numbers, (1,), adder)[:, 0] - numbers.sum(axis=1))
    assert (off <= slack(adder) * np.abs(numbers).sum(axis=1) + count * 2.0**-24).all()


def test_a_sum_of_positive_numbers_is_not_negative() -> None:
    adder = choices().reduction.orders["early"]
    assert add_up(Range(0.0, 1.0), 8, adder).low == 0.0
    assert add_up(Range(-1.0, 0.0), 8, adder).high == 0.0


@pytest.mark.parametrize(
    ("name", "exact"), [("inverse", np.reciprocal), ("rsqrt", reciprocal_root), ("sqrt", np.sqrt), ("exp2", np.exp2)]
)
def test_tables_stay_within(name: str, exact: Callable[[Array], Array]) -> None:
    x = GENERATOR.uniform(0.01, 8.0, 20000)
    off = np.abs(ACTIVATIONS[name](x) / exact(x) - 1)
    assert off.max() < TABLE_SLACK


def test_overflow_names_the_first_operation() -> None:
    x = af.input((1, 4), name="x", max_abs=300.0)
    report = ranges((x + 1.0) * x.square(), target="h16")
    first = report.first(Edge.FP16)
    assert first is not None
    assert first.op == "square"
    assert first.location is not None
    assert first.passed[0].margin == pytest.approx(math.log2(65504 / 90000))
    assert "scale the operands" in first.passed[0].remedy


def test_a_margin_that_is_left() -> None:
    x = af.input((1, 4), name="x", max_abs=2.0)
    report = ranges(x * x, target="h16")
    assert report.first("fp16 overflow") is None
    assert report.margin("fp16 overflow") == pytest.approx(math.log2(65504 / 4))


@pytest.mark.parametrize(("most", "passes"), [(32000.0 / 64, False), (513.0, True)])
def test_the_accumulator(most: float, *, passes: bool) -> None:
    y = af.input((1, 64), name="x", max_abs=most).linear(np.ones((2, 64), np.float16))
    report = ranges(y, target="h13")
    assert (report.first(Edge.ACCUMULATOR) is not None) is passes
    inputs = {"x": np.full((1, 64), most)}
    (result,) = run(build_program(y, "h13"), inputs).outputs.values()
    assert np.isinf(result).any() == passes


@pytest.mark.parametrize("target", ["h13", "h17"])
@pytest.mark.parametrize("bias", [758, 759, 760, 764, 767])
def test_a_sum_that_rounds_to_the_edge_has_passed_it(target: str, bias: int) -> None:
    x = af.input((1, 64), name="x")
    y = x.linear(np.ones((2, 64), np.float16), bias=np.full(2, bias, np.float16))
    report = ranges(y, {"x": 500.0}, target=target)
    (result,) = run(build_program(y, target), {"x": np.full((1, 64), 500.0)}).outputs.values()
    assert (report.first(Edge.ACCUMULATOR) is not None) == bool(np.isinf(result).any()) == (bias >= 760)


def test_scores_that_round_to_the_edge_have_passed_it() -> None:
    q, k, v = (af.input((1, 1, 1, 9), name=name) for name in "qkv")
    for most, passes in ((69.9375, False), (70.0, True)):
        report = ranges(af.sdpa(q, k, v, native=True), {"q": 52.0, "k": most, "v": 1.0}, target="h16")
        assert [concern.what for concern in report.layers[-1].passed] == (["the scores"] if passes else [])


def test_the_bias_counts() -> None:
    x = af.input((1, 64), name="x", max_abs=500.0)
    y = x.linear(np.ones((2, 64), np.float16), bias=np.full(2, 800.0, np.float16))
    assert ranges(y, target="h13").first(Edge.ACCUMULATOR) is not None


@pytest.mark.parametrize(("target", "passes"), [("h13", True), ("h14", True), ("h16", False)])
def test_the_crop(target: str, *, passes: bool) -> None:
    cut = af.input((1, 8), name="x", max_abs=5000.0).slice_by_size((0, 2), (1, 4))
    report = ranges(cut, target=target)
    assert (report.first(Edge.CROP) is not None) is passes


def test_int8_activations() -> None:
    weight = Int8Affine(np.ones((8, 4), np.int8), np.full(8, 0.01, np.float16), None, 0)
    y = af.Tensor(build("linear", {"x": af.input((1, 4), name="x"), "weight": weight}, {}))
    found = ranges(y, {"x": 5000.0}, target="h16").first(Edge.INT8)
    assert found is not None
    assert ranges(y, {"x": 4094.0}, target="h16").first(Edge.INT8) is None


def test_activations_beyond_int8_leave_the_other_edges_as_they_are() -> None:
    weight = Int8Affine(np.ones((8, 4), np.int8), np.full(8, 0.01, np.float16), None, 0)
    y = af.Tensor(build("linear", {"x": af.input((1, 4), name="x"), "weight": weight}, {}))
    inside, beyond = (ranges(y, {"x": most}, target="h16") for most in (4000.0, 8000.0))
    assert beyond.margin(Edge.ACCUMULATOR) == pytest.approx(inside.margin(Edge.ACCUMULATOR) - 1, abs=1e-3)
    assert beyond.margin(Edge.GRID) == pytest.approx(inside.margin(Edge.GRID) + 1)


def test_a_sum_beyond_int8_activations_is_infinite_behind_a_gain_too() -> None:
    weight = Int8Affine(np.ones((8, 4, 1, 1), np.int8), np.full(8, 0.5, np.float16), None, 0)
    y = af.Tensor(build("conv", {"x": af.input((1, 4, 1, 8), name="x"), "weight": weight}, {})) * 0.25
    inputs = {"x": np.full((1, 4, 1, 8), 5000.0)}
    assert outside(build_program(y, "h16"), inputs) is None
    assert not ranges(y, {"x": 5000.0}, target="h16").layers[-1].range.finite


@pytest.mark.parametrize("offset", [0.5, -0.5])
@pytest.mark.parametrize("gain", [0.0, np.array([0.0, 0.0, 2.0, 0.0]).reshape(1, 4, 1, 1)])
def test_a_gain_of_zero_leaves_the_offset_of_finite_sums_and_nothing_of_infinite_ones(
    gain: float | Array, offset: float
) -> None:
    x = af.input((1, 4, 1, 2), name="x")
    graph = af.Graph({"y": af.conv(x, np.ones((4, 4, 1, 1), np.float16)) * gain + offset})
    program = build_program(graph, "h13")
    (name,) = [port.value.name for port in program.outputs]
    bound = flow(program, {"x": FINITE}).ranges[name]
    for value, seen in ((1.0, offset), (60000.0, 0.0)):
        result = run(program, {"x": np.full((1, 4, 1, 2), value)}, {}).outputs["y"]
        assert result[0, 0].tolist() == [[seen, seen]]
        assert all(float(one) in bound for one in read(result).reshape(-1))
    assert np.ndim(gain) or bound == Range(min(offset, 0.0), max(offset, 0.0))


@pytest.mark.parametrize("product", [False, True])
def test_an_offset_that_fp16_cannot_hold_is_read_as_a_number(*, product: bool) -> None:
    x = af.input((1, 4), name="x")
    y = x.linear(np.eye(4, dtype=np.float16)) if product else x
    program = build_program(y * 1000.0 + 60000.0 + 60000.0, "h15")
    assert outside(program, {"x": np.array([[-60.0, -3.0, 0.0, 60.0]])}) is None


@pytest.mark.parametrize("offset", [0.1, 2.0, -3.0])
def test_what_is_no_number_passes_a_gain_and_an_offset_in_two_roundings(offset: float) -> None:
    x = af.input((1, 1), name="x")
    for gain in np.arange(-0.1, 0.1, 0.001):
        program = build_program(x * float(gain) + offset, "h15")
        assert outside(program, {"x": np.array([[np.nan]])}) is None


def test_shares_of_a_softmax_bound_what_they_weigh() -> None:
    x, values = af.input((1, 1, 4, 512), name="x"), af.input((1, 1, 512, 8), name="v")
    report = ranges(x.softmax(-1) @ values, {"v": 1000.0}, target="h13")
    assert report.layers[-1].range.magnitude < 1500.0
    along_another_axis = ranges(x.softmax(-2) @ values, {"v": 1000.0}, target="h13")
    assert not along_another_axis.layers[-1].range.finite
    exact = {"x": np.full((1, 1, 4, 512), 65504.0), "v": np.full((1, 1, 512, 8), 1000.0)}
    assert outside(build_program(x.softmax(-1) @ values, "h13"), exact) is None


def test_products_lose_their_bits_under_the_grid() -> None:
    scale = 1 / math.sqrt(1024)
    weight = (GENERATOR.standard_normal((16, 1024)) * scale).astype(np.float16)
    y = af.input((1, 1024), name="x").linear(weight)
    declared = ranges(y, {"x": 2 * scale}, target="h13")
    observed = ranges(y, inputs={"x": GENERATOR.standard_normal((1, 1024)) * scale}, target="h13")
    assert declared.first(Edge.GRID) is not None
    assert observed.margin(Edge.GRID) == pytest.approx(math.log2(2.0**-10 / 2.0**-6), abs=0.2)
    rescaled = ranges(af.input((1, 1024), name="x").linear(weight * 256), {"x": 2 * scale}, target="h13")
    assert rescaled.margin(Edge.GRID) == pytest.approx(declared.margin(Edge.GRID) + 8, abs=1e-6)
    assert "rescale" in str(declared)


def test_an_unknown_edge() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        ranges(af.input((1, 8)).relu(), target="h13").first("nonsense")


def test_what_was_seen() -> None:
    y = af.input((1, 4), name="x").square()
    samples = [{"x": np.array([[1.0, 2.0, 3.0, -4.0]])}, {"x": np.array([[0.5, 0.5, 0.5, 0.5]])}]
    report = ranges(y, inputs=samples, target="h16")
    assert (report.source, report.inputs["x"]) == ("observed", Range(-4.0, 3.0))
    assert report.layers[0].range == Range(0.25, 16.0)
    assert report.first(Edge.FP16) is None


def test_sums_that_were_seen_reach_as_far_as_they_did() -> None:
    generator = np.random.default_rng(3)
    weight = generator.standard_normal((16, 512)).astype(np.float16)
    y = af.input((4, 512), name="x").linear(weight, bias=np.full(16, -30.0, np.float16))
    x = (generator.standard_normal((4, 512)) * 30).astype(np.float16)
    products = x.astype(np.float64)[:, None, :] * weight.astype(np.float64)
    apart = [np.maximum(sign * products, 0.0).sum(-1) + max(-30.0 * sign, 0.0) for sign in (1.0, -1.0)]
    observed = ranges(y, inputs=[{"x": x / 2}, {"x": x}], target="h13")
    expected = float(np.max(apart)) + 512 * 2.0**-15
    assert observed.margin(Edge.ACCUMULATOR) == pytest.approx(math.log2(32768 / expected))
    most = float(np.abs(x.astype(np.float64)).max())
    assert ranges(y, {"x": most}, target="h13").first(Edge.ACCUMULATOR) is not None
    assert observed.first(Edge.ACCUMULATOR) is None


@pytest.mark.parametrize("width", [7, 8])
def test_transformed_sums_that_were_seen_reach_as_far_as_they_did(width: int) -> None:
    generator = np.random.default_rng(5)
    weight = generator.standard_normal((4, 6, 3, 3)).astype(np.float16)
    x = (generator.standard_normal((2, 6, 5, width)) * 20).astype(np.float16)
    y = af.conv(af.input(x.shape, name="x"), weight, pad=1, bias=np.full(4, 3.0, np.float16))
    (layer,) = build_program(y, "h17").layers
    values = {layer.bottoms[0].name: x}
    expected = winograd_reach(x, weight, np.full(4, 3.0), pad=1)
    assert find_reached(layer, resolve("h17"), values) == pytest.approx(expected, rel=1e-4)
    assert ranges(y, inputs={"x": x}, target="h17").margin("accumulator edge") > ranges(
        y, {"x": float(np.abs(x).max())}, target="h17"
    ).margin("accumulator edge")


@pytest.mark.parametrize("observed", [False, True])
def test_an_overflow_between_a_gain_and_a_slot_is_told_though_the_slot_hides_it(*, observed: bool) -> None:
    y = (af.input((1, 4), name="x").linear(np.ones((2, 4), np.float16)) * 1000.0).inverse(eps=0.0)
    samples = {"x": np.full((1, 4), 50.0)}
    report = ranges(y, inputs=samples, target="h16") if observed else ranges(y, {"x": (50.0, 50.0)}, target="h16")
    first = report.first(Edge.FP16)
    assert first is not None
    assert (first.op, first.passed[0].what) == ("conv", "the input of a slot")
    (result,) = run(build_program(y, "h16"), samples).outputs.values()
    assert result[0, 0] == 0.0  # and not 1 / 200,000


def test_what_adds_no_products_reaches_nothing() -> None:
    scaling = af.conv(af.input((1, 1, 2, 4), name="x"), np.ones((1, 1, 1, 1), np.float16))
    for y in (af.input((1, 4), name="x").relu(), scaling):
        (layer,) = build_program(y, "h13").layers
        assert find_reached(layer, resolve("h13"), {layer.bottoms[0].name: np.ones(layer.bottoms[0].shape)}) is None


def test_shares_that_were_seen_weigh_no_more_than_they_did() -> None:
    x, values = af.input((1, 1, 4, 512), name="x"), af.input((1, 1, 512, 8), name="v")
    samples = {"x": np.zeros((1, 1, 4, 512)), "v": np.full((1, 1, 512, 8), 1000.0)}
    report = ranges(x.softmax(-1) @ values, inputs=samples, target="h13")
    assert report.margin(Edge.ACCUMULATOR) == pytest.approx(math.log2(32768 / 1000), abs=0.02)


def test_an_overflow_that_was_seen_is_as_large_as_it_should_have_been() -> None:
    y = af.input((1, 2), name="x").square().transpose(1, 0)
    report = ranges(y, inputs={"x": np.array([[1.0, 1000.0]])}, target="h16")
    (concern,) = report.layers[0].passed
    assert str(concern) == "fp16 overflow of the exact result: 1e+06 against 65504, margin -3.9 bits"
    (behind,) = report.layers[-1].passed
    assert behind.margin == -math.inf
    assert behind.remedy == "its inputs can be infinite already, so look at the layers before it"


def test_a_product_that_overflowed_is_as_large_as_its_sums_were() -> None:
    y = af.input((1, 64), name="x").linear(np.ones((2, 64), np.float16))
    for report in (
        ranges(y, {"x": 4000.0}, target="h13"),
        ranges(y, inputs={"x": np.full((1, 64), 4000.0)}, target="h13"),
    ):
        first = report.first(Edge.FP16)
        assert first is not None
        assert first.passed[0].margin == pytest.approx(math.log2(65504 / 256_000), abs=1e-3)


def layer_norm_of(x: af.Tensor) -> af.Tensor:
    return x.layer_norm(np.ones(384, np.float16), np.zeros(384, np.float16))


def l2_norm_of(x: af.Tensor) -> af.Tensor:
    return x.l2_norm(eps=1e-6)  # so that no reciprocal overflows


def instance_norm_of(x: af.Tensor) -> af.Tensor:
    return af.instance_norm(x.reshape(1, 8, 16, 24))


@pytest.mark.parametrize("norm", [layer_norm_of, l2_norm_of, instance_norm_of])
def test_squares_of_a_norm_overflow(norm: Callable[[af.Tensor], af.Tensor]) -> None:
    x = af.input((8, 384), name="x")
    for size, passes in ((1.0, False), (300.0, True)):
        samples = {"x": GENERATOR.standard_normal((8, 384)) * size}
        reports = [ranges(norm(x), {"x": 5 * size}, target="h13"), ranges(norm(x), inputs=samples, target="h13")]
        for report in reports:
            assert (report.first(Edge.FP16) is not None) is passes
        exact = af.reference(norm(x), samples)["y"]
        off = np.linalg.norm(run(build_program(norm(x), "h13"), samples).outputs["y"] - exact) / np.linalg.norm(exact)
        assert bool(off > 0.5) is passes


def test_a_large_mean_is_no_large_square() -> None:
    samples = {"x": 1000.0 + GENERATOR.standard_normal((8, 384))}
    report = ranges(layer_norm_of(af.input((8, 384), name="x")), inputs=samples, target="h13")
    assert report.first(Edge.FP16) is None


def test_an_overflow_that_was_seen() -> None:
    report = ranges(af.input((1, 1), name="x").square(), inputs={"x": np.array([[300.0]])}, target="h16")
    assert report.first(Edge.FP16) is not None


def test_both_are_given() -> None:
    with pytest.raises(GraphError, match="not both"):
        ranges(af.input((1, 1), name="x").relu(), {"x": 1.0}, inputs={"x": np.ones((1, 1))}, target="h16")


def test_no_samples() -> None:
    with pytest.raises(GraphError, match="no sample"):
        ranges(af.input((1, 1), name="x").relu(), inputs=[], target="h16")


def test_an_unknown_input() -> None:
    with pytest.raises(UnknownNameError, match="unknown input 'y'"):
        ranges(af.input((1, 1), name="x").relu(), {"y": 1.0}, target="h16")


@pytest.mark.parametrize("given", [(2.0, 1.0), (float("nan"), 1.0), -1.0])
def test_no_range(given: tuple[float, float] | float) -> None:
    with pytest.raises(GraphError, match="range of input 'x' is empty"):
        ranges(af.input((1, 1), name="x").relu(), {"x": given}, target="h16")


def test_ends_of_whole_numbers_stay_within_their_type() -> None:
    x = af.input((1, 4), dtype="uint8", name="x").cast("fp16")
    assert ranges(x, {"x": (-5.0, 300.0)}, target="h16").inputs["x"] == Range(0.0, 255.0)


def test_a_state_has_the_range_that_it_is_given() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total * 2.0}, states={"total": total})
    assert ranges(graph, {"total": 3.0}, target="h16").layers[0].range == Range(-6.0, 6.0)
    assert not ranges(graph, target="h16").layers[0].range.finite


def test_a_state_may_be_among_the_samples() -> None:
    total, x = af.state("total", (1, 32)), af.input((1, 32), name="x")
    graph = af.Graph({"y": total + x}, states={"total": total + x})
    sample = {"x": np.ones((1, 32))}
    assert ranges(graph, inputs=sample, target="h16").layers[0].range == Range(1.0, 1.0)
    report = ranges(graph, inputs=[sample, {**sample, "total": np.full((1, 32), 5.0)}], target="h16")
    assert report.layers[0].range == Range(1.0, 6.0)
    with pytest.raises(UnknownNameError, match="unknown input 'sum'; known: x, total"):
        ranges(graph, inputs={**sample, "sum": np.ones((1, 32))}, target="h16")


def test_the_report_as_text(golden: Golden) -> None:
    x = af.input((1, 4, 8, 8), name="x", max_abs=1000.0)
    y = af.conv(x, np.full((4, 4, 3, 3), 2.0, np.float16), pad=1).relu().slice_by_size((0, 0, 0, 1), (1, 4, 8, 6))
    lines = str(ranges(y.softmax(1), target="h13")).splitlines()
    golden(
        "\n".join(line.split(" at ")[0] + line.rpartition(":")[2] if ".py:" in line else line for line in lines) + "\n"
    )


@given(
    hnp.arrays(np.float16, 8, elements=st.floats(width=16)) | hnp.arrays(np.float32, 8, elements=st.floats(width=32))
)
def test_constants_are_read_as_the_engine_reads_them(values: Array) -> None:
    expected = read(host_fp16(values.astype(np.float64)))
    assert as_read(values).tobytes() == expected.tobytes()

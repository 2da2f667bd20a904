"""Rescaling: what counts as a gain, on which inputs, and what smaller inputs forbid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
import fuzz_rescaling
from aneforge.optimise.rescaling.engine_errors import GraphErrors, evaluate_exactly, measure_rounding
from aneforge.optimise.rescaling.error_changes import ErrorChange, Expected, Improvement, OtherSizes, compare_graph
from aneforge.optimise.rescaling.sample_inputs import redraw_samples
from aneforge.targets import resolve

Array = npt.NDArray[Any]


def drawn(*shape: int, seed: int = 7, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def test_a_set_of_inputs_without_a_gain_ends_the_comparison() -> None:
    graph = af.Graph({"y": af.input((8, 256), name="x").linear(drawn(32, 256, scale=0.0625))})
    inputs = {"x": drawn(8, 256, seed=8, scale=0.0625)}
    found = af.rescale(graph, inputs=inputs, target="h13")
    sets = [inputs, *redraw_samples([inputs], graph, 2, seed=5)]
    exact = [evaluate_exactly(graph, one) for one in sets]
    before = GraphErrors.measure(graph, resolve("h13"), sets, exact)
    expected = Expected(sets, exact)
    after = compare_graph(before, found.graph, resolve("h13"), expected)
    assert after.errors == GraphErrors.measure(found.graph, resolve("h13"), sets, exact)
    assert after.errors is not None
    assert 0.5 < after.moved < 1.0
    back = compare_graph(after.errors, graph, resolve("h13"), expected)
    assert (back.errors, back.worse) == (None, {"y"})
    assert compare_graph(before, graph, resolve("h13"), expected) == Improvement(None, 0.0)  # changes nothing, no gain


def test_fresh_inputs_keep_channels_that_are_larger() -> None:
    graph = af.Graph({"y": af.input((2, 8, 4, 16), name="x").relu()})
    for larger, turns in ((2.0, ([1], [2])), (100.0, ([0, 1, 2], [0, 1, 2]))):  # much larger channels are always kept
        last = np.where(np.arange(16) == 3, larger, 1.0) * np.ones((2, 8, 4, 16))
        second = np.where(np.arange(8) == 5, larger, 1.0)[:, None, None] * np.ones((2, 8, 4, 16))
        for sample, kept in zip((last, second), turns, strict=True):
            sets = redraw_samples([{"x": sample}], graph, 3, seed=5)
            assert [turn for turn, one in enumerate(sets) if np.array_equal(one["x"], sample)] == kept
    drawn_sets = redraw_samples([{"x": drawn(2, 8, 4, 16)}, {"x": drawn(2, 8, 4, 16, seed=8)}], graph, 3, seed=5)
    assert all(one["x"].shape == (2, 8, 4, 16) for one in drawn_sets)
    assert len({one["x"].tobytes() for one in drawn_sets}) == 3


def silu_network(seed: int) -> af.Graph:
    """Return a residual network in which errors cancel: products that round to zero hide what SiLU is off near zero."""
    random = np.random.default_rng(seed)
    x = af.input((1, 16, 12, 12), name="x")
    for _ in range(3):
        inner, outer = ((random.standard_normal((16, 16, 3, 3)) * size).astype(np.float16) for size in (0.02, 0.01))
        x = x + af.conv(af.conv(x, inner, pad=1).silu(), outer, pad=1)
    return af.Graph({"y": x})


@pytest.mark.parametrize("seed", [1, 3, 4])
@pytest.mark.parametrize("declared", [True, False])
def test_smaller_inputs_do_not_become_worse(seed: int, *, declared: bool) -> None:
    graph = silu_network(seed)
    sample = drawn(1, 16, 12, 12, scale=0.02)
    ranges, inputs = ({"x": 0.1}, None) if declared else (None, {"x": sample})
    found = af.rescale(graph, inputs=inputs, ranges=ranges, target="h13")
    sets = [{"x": (sample * part).astype(np.float16)} for part in (1.0, 0.3, 0.125, 1 / 64)]
    exact = [evaluate_exactly(graph, one) for one in sets]
    before, after = (GraphErrors.measure(one, resolve("h13"), sets, exact).errors["y"] for one in (graph, found.graph))
    assert all(now <= then for now, then in zip(after, before, strict=True))


def test_a_loss_on_smaller_inputs_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = af.rescale(silu_network(3), ranges={"x": 0.1}, target="h13")
    assert not found.applied
    assert {one.reason for one in found.products if one.error_before > 0.01} == {
        "with it an output of the whole graph was worse for smaller or larger inputs"
    }

    def nothing_forbidden(*_: object) -> frozenset[str]:
        return frozenset()

    monkeypatch.setattr(OtherSizes, "find_worse", nothing_forbidden)
    assert af.rescale(silu_network(3), ranges={"x": 0.1}, target="h13").applied


def test_a_gain_around_the_middle_of_ranges_is_taken() -> None:
    shapes = {"q": (1, 1, 16, 32), "k": (1, 1, 2048, 32), "v": (1, 1, 2048, 32)}
    q, k, v = (af.input(shape, name=name) for name, shape in shapes.items())
    graph = af.Graph({"y": ((q @ k.transpose(0, 1, 3, 2)) * 32**-0.5).softmax(-1) @ v})
    found = af.rescale(graph, ranges=dict.fromkeys(shapes, 5.0), target="h13")
    (report,) = found.applied
    assert (report.op, report.error_before > 0.005, report.error_after < 0.0005) == ("bmm", True, True)
    sample = {name: drawn(*shape, seed=place) for place, (name, shape) in enumerate(shapes.items())}
    exact = [evaluate_exactly(graph, sample)]
    before, after = (
        GraphErrors.measure(one, resolve("h13"), [sample], exact).errors["y"] for one in (graph, found.graph)
    )
    assert after[0] < before[0] / 3


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (12_000_219, fuzz_rescaling.kernels),  # zeros as it is, noise of GELU on samples of an eighth
        (13_000_302, fuzz_rescaling.live),
        (42_001_918, fuzz_rescaling.attention),  # one channel thirty times as large
        (62_002_764, fuzz_rescaling.attention),  # at the rounding of fp16: a gain of some sets, a loss of others
        (33_000_141, fuzz_rescaling.encoded),  # at the rounding of fp16: worse by a tenth at 2^-4 of declared ranges
    ],
)
def test_a_large_gain_does_not_pay_for_a_loss(seed: int, kind: fuzz_rescaling.Kind) -> None:
    verdict = fuzz_rescaling.judge(seed, kind)
    assert verdict is not None
    assert not verdict.is_worse


def test_numbers_below_the_normal_ones_lose_nothing_by_a_rounding() -> None:
    verdict = fuzz_rescaling.judge(
        41_002_514, fuzz_rescaling.shared
    )  # subnormal at 2^-16 of its ranges, and zero as it was
    assert verdict is not None
    assert verdict.rescaled
    assert verdict.worst < 0.2
    assert not verdict.is_worse
    assert ErrorChange(0.001, 0.01, measure_rounding(np.array([2.0**-20, 0.0]))).growth == 1.0
    assert ErrorChange(0.001, 0.01, measure_rounding(np.array([2.0**-10, 0.0]))).growth == 10.0


def test_what_leaves_little_of_errors_on_samples_is_not_forbidden() -> None:
    graph = af.Graph({"y": af.input((2, 2), name="x") * 0.25})
    worse = af.Graph({"y": af.input((2, 2), name="x") * 0.26})
    sets = [{"x": drawn(2, 2)}]
    for gained, paid, forbidden in ((0.05, np.inf, False), (0.5, np.inf, True), (0.05, 2.0, True), (0.0, 2.0, False)):
        assert bool(OtherSizes(resolve("h13"), sets, 0.1, paid).find_worse(graph, worse, gained)) is forbidden


def test_a_sum_that_overflows_within_its_ranges_is_mended_though_small_inputs_lose_bits() -> None:
    weight = (np.abs(np.random.default_rng(0).standard_normal((8, 1024))) * 8).astype(np.float16)
    product = af.input((1, 1024), name="x").linear(weight) * np.float16(2.0**-8)
    found = af.rescale(product, ranges={"x": (0.0, 16.0)}, target="h13")
    (output,) = found.outputs
    assert output.before == np.inf
    assert max(output.after, output.fresh_after) < 0.001

"""No finite number becomes infinite without a word, and what is said of two chips holds for the samples given.

Graphs are drawn with fixed seeds from operations that overflow in different ways, and fed large numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.hazards import find_hazards
from aneforge.analysis.safe_magnitudes import keeps_finite, largest_safe
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.comparing import compare
from aneforge.graph.node import build
from aneforge.rules.preflight import preflight
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = (1, 4, 6, 8)
KERNEL = np.random.default_rng(1).standard_normal((4, 4, 3, 3)) / 4
STEPS: list[Callable[[af.Tensor], af.Tensor]] = [
    lambda x: x.sin(),
    lambda x: af.conv(x, KERNEL, pad=1),
    lambda x: af.resize_nearest_neighbor(x, 12, 16).max_pool(2),
    lambda x: af.resize_bilinear(x, 12, 16).max_pool(2),
    lambda x: af.concat(
        [x.slice_by_size((0, 0, 0, 4), (1, 4, 6, 4)), x.slice_by_size((0, 0, 0, 0), (1, 4, 6, 4))], axis=3
    ),
    lambda x: x * 30.0,
    lambda x: x * 0.01 + 1.0,
    lambda x: x * x.tanh(),
    lambda x: x - x.mean(-1),
    lambda x: x.square(),
    lambda x: x.relu(),
    lambda x: x.softmax(-1),
    lambda x: x.sigmoid() * 5000.0,
    lambda x: x + x,
]


def drawn_graph(seed: int) -> tuple[af.Graph, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]]:
    """Return a chain of a few operations, with finite inputs of some large magnitude."""
    random = np.random.default_rng(seed)
    out = af.input(SHAPE, name="x")
    for _ in range(int(random.integers(1, 5))):
        out = STEPS[int(random.integers(0, len(STEPS)))](out)
    magnitude = 2.0 ** random.uniform(8, 15.9)
    return af.Graph({"y": out}), {"x": random.uniform(-magnitude, magnitude, SHAPE)}


@pytest.mark.parametrize("seed", range(24))
def test_nothing_becomes_infinite_without_a_hazard_in_the_verdict(seed: int) -> None:
    """Seen with samples, possible without any, and told by compare."""
    graph, samples = drawn_graph(seed)
    for target in ("m1", "m5"):
        ran = af.run(af.build_program(graph, target), samples).outputs["y"]
        report = check(graph, target, CheckOptions(samples=samples)).targets[0]
        found = {one.rule for one in report.findings} & {f"ANE-RANGE-00{number}" for number in (1, 2, 3, 4, 6)}
        compared = compare(graph, target, "reference", samples)
        if np.isinf(ran).any():
            assert found, "the verdict on samples names it"
            assert report.risk == "saturation"
            assert compared.hazards, "so does compare"
            possible = check(graph, target, CheckOptions(deep=True)).targets[0]
            assert possible.risk == "saturation", "and without samples it is possible"


@pytest.mark.parametrize("seed", range(100, 118))
def test_same_means_equal_bits_and_differs_means_other_bits(seed: int) -> None:
    graph, samples = drawn_graph(seed)
    targets = ["m1", "m2", "m4", "m5"]
    report = check(graph, targets, CheckOptions(samples=samples))
    outputs = [af.run(af.build_program(graph, target), samples).outputs["y"].view(np.uint16) for target in targets]
    assert [pair.second for pair in report.divergences] == [one.target for one in report.targets[1:]]
    for pair, other in zip(report.divergences, outputs[1:], strict=True):
        differing = int(np.count_nonzero(outputs[0] != other))
        assert pair.differing == differing
        assert (pair.word == "differs") == (differing > 0)
        assert (pair.strength == "none") == (pair.word == "same")
        assert not (pair.word == "same" and differing)


@pytest.mark.parametrize("target", ["m1", "m2", "m5"])
def test_a_check_without_ranges_names_what_becomes_infinite(target: str) -> None:
    x = af.input(SHAPE, name="x")
    outputs = {
        "a": af.resize_nearest_neighbor(x, 12, 16),
        "b": x.sin(),
        "c": x.slice_by_size((0, 0, 0, 2), (1, 4, 6, 4)),
    }
    graph = af.Graph(outputs)
    report = check(graph, target).targets[0]
    found = {(one.rule, one.op) for one in report.findings if one.rule.startswith("ANE-RANGE")}
    crop, resize, sine = (
        ("ANE-RANGE-003", "slice_by_size"),
        ("ANE-RANGE-006", "resize_nearest_neighbor"),
        ("ANE-RANGE-006", "sin"),
    )
    assert found == {"m1": {crop, resize, sine}, "m2": {crop, sine}, "m5": set()}[target]
    assert all(one.node is not None for one in report.findings if one.rule.startswith("ANE-RANGE"))
    told = find_hazards(graph, af.build_program(graph, target), preflight(graph, target))
    assert {one.op for one in told} == {op for _, op in found}


@pytest.mark.parametrize("target", ["m1", "m5"])
@pytest.mark.parametrize("step", [0, 2, 3], ids=["sin", "nearest", "bilinear"])
def test_the_limit_of_a_rebuilt_operation_is_the_last_that_is_finite(step: int, target: str) -> None:
    graph = af.Graph({"y": STEPS[step](af.input(SHAPE, name="x"))})
    node = next(node for node in graph.nodes[1:] if keeps_finite(node))
    limit = largest_safe(node, af.targets.resolve(target))
    program = af.build_program(graph, target)
    for most in {limit, min(limit * (1 + 2.0**-9), 65504.0)}:
        finite = np.isfinite(af.run(program, {"x": np.full(SHAPE, most)}).outputs["y"]).all()
        assert finite == (np.float16(most) <= limit)


@pytest.mark.parametrize("op", ["reduce_l2_norm", "l2_pool", "reduce_sum_square", "sq_after_reduce"])
def test_squares_under_a_root_overflow_before_the_root_does(op: str) -> None:
    """The length of (300, 400) is 500, and the sum of squares no fp16 number; a sum without a root just overflows."""
    x = af.input((1, 1, 2, 8), name="x")
    attributes = {"kernel_sizes": (1, 4), "pad_type": "valid"} if op == "l2_pool" else {"axes": (-1,)}
    graph = af.Graph({"y": af.Tensor(build(op, {"x": x}, attributes))})
    hazards = find_hazards(graph, af.build_program(graph, "m4"), preflight(graph, "m4"))
    rooted = op in ("reduce_l2_norm", "l2_pool")
    assert [str(one.route) for one in hazards] == (["fp16 overflow"] if rooted else [])
    for one in hazards:
        ran = [af.run(af.build_program(graph, "m4"), {"x": np.full((1, 1, 2, 8), most)}) for most in (one.limit, 400.0)]
        assert [bool(np.isfinite(each.outputs["y"]).all()) for each in ran] == [True, False]


def test_samples_of_a_graph_whose_masks_the_host_draws() -> None:
    graph = af.Graph({"y": af.dropout(af.input(SHAPE, name="x"), 0.5) * 2.0})
    large = {"x": np.full(SHAPE, 60_000.0)}
    report = check(graph, ["m1", "m5"], CheckOptions(samples=large))
    assert [one.risk for one in report.targets] == ["saturation", "saturation"]
    assert compare(graph, "m1", "m5", large).hazards
    assert af.ranges(graph, inputs=large, target="m1").first("fp16 overflow") is not None


def test_samples_that_nobody_can_follow_leave_the_risk_unknown() -> None:
    node = build("matrix_decomposition", {"x": af.input((9, 4), name="x")}, {"type": "NonQRGivens"})
    report = check(af.Tensor(node), ["h16", "h17"], CheckOptions(samples={"x": np.ones((9, 4))}))
    for one in report.targets:
        assert one.latency is not None
        assert one.risk == "unknown"
        assert "no source gives the mathematics" in one.risk_reason
    assert [pair.differing for pair in report.divergences] == [None]


@pytest.mark.parametrize(("target", "limit"), [("h13", 32752.0), ("h16g", 65504.0)])
def test_a_resize_of_a_large_image_is_asked_of_a_small_one(target: str, limit: float) -> None:
    image = af.input((1, 3, 2160, 3840))
    for resized in (af.resize_nearest_neighbor(image, 4320, 7680), image.upsample(2)):
        assert largest_safe(resized.node, resolve(target)) == limit

"""Routes by size: both tables of the chaining study with its own ratios, and what they are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aneforge.analysis.route_sizes import Pays, SizeComparison, production_answer, route_sizes
from aneforge.analysis.routes import route

if TYPE_CHECKING:
    from aneforge.analysis.routes import RouteFigure


def size(channels: int, columns: int) -> SizeComparison:
    (found,) = (one for one in route_sizes("m4-max") if f"of {channels} channels over {columns} " in one.what)
    return found


@pytest.mark.parametrize(
    ("shape", "real_time", "process_request"),
    [
        ((64, 32), (0.5, 0.6), 0.7),
        ((128, 64), (1.1, 1.1), 1.0),
        ((256, 64), (0.9, 1.3), 1.0),
        ((512, 64), (0.7, 0.8), 0.6),
        ((768, 256), (0.7, 0.8), 1.1),
    ],
)
def test_ratios_are_those_that_the_study_prints(
    shape: tuple[int, int], real_time: tuple[float, float], process_request: float
) -> None:
    """With several models loaded; of real time, called directly and by the repository's own function."""
    by_route = {one.route: one for one in size(*shape).routes}
    low, high = by_route["real_time"].ratios[-1]
    assert (low, high) == pytest.approx(real_time, abs=0.051)
    assert by_route["process_request"].ratios[-1][0] == pytest.approx(process_request, abs=0.051)
    assert by_route["real_time"].publications[-1] == "several models loaded"


def test_isolated_runs_of_the_smallest_kernel() -> None:
    by_route = {one.route: one for one in size(64, 32).routes}
    assert [round(low, 2) for low, _ in by_route["real_time"].ratios[:2]] == [1.88, 1.74]
    assert round(by_route["process_request"].ratios[0][0], 2) == 1.34
    assert round(by_route["direct"].ratios[0][0], 2) == 0.78


def test_verdicts_by_size() -> None:
    found = {
        one.what: {row.route: row.verdict.name for row in one.routes}
        for one in route_sizes()
        if one.baseline == "standard"
    }
    assert list(found.values()) == [
        {"direct": "NO", "process_request": "SOMETIMES", "real_time": "SOMETIMES"},
        {"process_request": "UNCONFIRMED", "real_time": "UNCONFIRMED"},
        {"process_request": "NO", "real_time": "SOMETIMES"},
        {"process_request": "NO", "real_time": "NO"},
        {"process_request": "WITHIN_SPREAD", "real_time": "NO"},
    ]


def test_core_ml_is_faster_than_its_engine_called_directly() -> None:
    found = [one for one in route_sizes() if one.baseline == "coreml"]
    assert [one.what for one in found] == ["a convolution of 256 channels", "a convolution of 2048 channels"]
    assert all(row.route == "mle5" and row.verdict is Pays.NO for one in found for row in one.routes)


def test_what_was_withdrawn_is_not_compared() -> None:
    assert "mle5_stream" not in {row.route for one in route_sizes() for row in one.routes}


def test_a_route_that_pays_would_be_named() -> None:
    small = size(64, 32)
    paying = replace(small, routes=tuple(replace(row, verdict=Pays.YES) for row in small.routes[:1]))
    assert production_answer([paying]) == f"Other routes that pay: direct at {small.what}."
    assert production_answer(route_sizes("m1")) == "Other routes that pay: none reliably at any size that was measured."


SEVERAL_LOADED = {
    (64, 32): (0.109, 0.233, 0.156, 0.195),
    (128, 64): (0.208, 0.184, 0.201, 0.185),
    (256, 64): (0.197, 0.212, 0.203, 0.157),
    (512, 64): (0.120, 0.147, 0.194, 0.179),
    (768, 256): (0.205, 0.246, 0.185, 0.291),
}
"""The study's table, in milliseconds: standard, real time, processRequest, ane_eval_rt."""
TWELVE_KERNELS = {
    (64, 32): (0.272, 0.158, 0.200),
    (256, 64): (0.191, 0.181, 0.176),
    (768, 256): (0.177, 0.226, 0.186),
}
"""Its other table: with copies, alone, on a serial queue."""


def published(source: str, route_name: str, shape: tuple[int, ...]) -> RouteFigure:
    (found,) = (one for one in route(route_name).figures if one.evidence.source.endswith(source) and one.shape == shape)
    return found


@pytest.mark.parametrize("shape", SEVERAL_LOADED)
def test_every_cell_of_the_comparison_of_evaluations(shape: tuple[int, int]) -> None:
    standard, real_time, process, own = (round(1000 * time, 3) for time in SEVERAL_LOADED[shape])
    assert published("test_bench_paths", "standard", shape).microseconds == (standard, standard)
    assert published("test_bench_paths", "process_request", shape).microseconds == (process, process)
    found = published("test_bench_paths", "real_time", shape)
    assert dict(found.variants) == {"evaluateRealTimeWithModel": real_time, "ane_eval_rt": own}
    assert found.microseconds == (min(real_time, own), max(real_time, own))


@pytest.mark.parametrize("shape", TWELVE_KERNELS)
def test_every_cell_of_twelve_kernels(shape: tuple[int, int]) -> None:
    times = [round(1000 * time, 3) for time in TWELVE_KERNELS[shape]]
    found = published("test_throughput_ceiling", "standard", shape)
    assert found.variants == tuple(zip(("with copies", "alone", "serial queue"), times, strict=True))
    assert f"alone {times[1]:g} µs" in str(found)


def test_every_cell_of_core_ml_and_its_engine() -> None:
    rows = [one for name in ("coreml", "mle5") for one in route(name).figures if one.evidence.source.endswith("W1")]
    assert [(one.microseconds, dict(one.variants)) for one in rows] == [
        ((35.0, 35.0), {}),
        ((217.0, 217.0), {}),
        ((74.0, 100.0), {"public": 74.0, "private": 100.0}),
        ((284.0, 332.0), {"public": 284.0, "private": 332.0}),
        ((8.0, 8.0), {}),
    ]


def test_withdrawn_gains_follow_from_their_figures() -> None:
    """What experiment U printed, of which conflict T13 names the ratios."""
    sequential = [one for one in route("coreml").figures if one.evidence.source.endswith("experiment U")]
    streamed = [one for one in route("mle5_stream").figures if one.evidence.source.endswith("experiment U")]
    ratios = [one.microseconds[0] / two.microseconds[0] for one, two in zip(sequential, streamed, strict=True)]
    assert [round(ratio, 2) for ratio in ratios] == [1.32, 1.53, 2.77, 4.87]
    assert all(one.withdrawn for one in streamed)

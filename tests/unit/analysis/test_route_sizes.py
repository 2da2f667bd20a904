"""Routes by size: both tables of the chaining study with its own ratios, and what they are worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aneforge.analysis.route_sizes import Pays, SizeComparison, production_answer, route_sizes


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

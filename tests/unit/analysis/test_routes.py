"""Routes: every figure has its evidence, corrections are data, and what predictions assume is one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge.analysis import routes as module
from aneforge.analysis.files import DATA
from aneforge.analysis.routes import (
    WORKLOADS,
    Measures,
    RouteFigure,
    RouteStatus,
    calls_on,
    figures_of,
    get_assumed_route,
    is_assumed,
    one_time,
    programs,
    standing_of,
)
from aneforge.errors import DataFileError, NoDataError, UnknownNameError
from aneforge.runtime.backends import list_known_backends
from aneforge.targets import database

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIGURES = [figure for known in af.routes() for figure in known.figures]


def times(name: str, measures: Measures, shape: tuple[int, ...] = ()) -> list[tuple[float, float]]:
    return [
        one.microseconds
        for one in af.route(name).figures
        if one.measures is measures and (not shape or one.shape == shape)
    ]


@pytest.mark.parametrize("figure", FIGURES, ids=str)
def test_every_figure_has_its_evidence(figure: RouteFigure) -> None:
    data = database()
    assert figure.evidence.source.split()[0].rstrip(",") in data.sources
    assert figure.evidence.conflict is None or figure.evidence.conflict in data.conflicts
    assert figure.chip is None or figure.chip in data.chips
    assert 0 < figure.microseconds[0] <= figure.microseconds[1]
    assert figure.what


def test_every_route_has_its_evidence() -> None:
    for known in af.routes():
        assert known.evidence.source.split()[0].rstrip(",") in database().sources
        assert known.evidence.conflict is None or known.evidence.conflict in database().conflicts
        assert known.title
        assert known.recommendation


def test_calls_are_in_the_file_that_predictions_read() -> None:
    assert {one.measures for one in figures_of("route_calls.toml")} == {Measures.CALL}
    assert Measures.CALL not in {one.measures for one in figures_of("route_figures.toml")}


def test_names_of_a_route() -> None:
    assert af.route("standard") is af.route("Path A") is af.route("in-memory model")
    assert af.route("X1").name == "mle5"
    with pytest.raises(UnknownNameError, match="unknown route 'realtme'; nearest: real_time"):
        af.route("realtme")


def test_no_two_routes_share_a_name() -> None:
    words = [module.squeeze(word) for known in af.routes() for word in (known.name, *known.also)]
    assert len(words) == len(set(words))


def test_what_making_a_program_ready_takes() -> None:
    assert one_time("e5rt", Measures.COLD_COMPILE) == "about 750 ms"
    assert one_time("e5rt", Measures.WARM_LOAD) == "about 30 ms"
    assert one_time("standard", Measures.COMPILE_AND_LOAD) == "about 38 ms"
    assert times("mle5", Measures.RESPECIALISATION) == [(10_000.0, 50_000.0)]
    with pytest.raises(NoDataError, match="no source says how long cold compile takes by the route direct"):
        one_time("direct", Measures.COLD_COMPILE)


def test_real_time_pays_in_isolated_runs_alone() -> None:
    small = (64, 32)
    assert times("real_time", Measures.CALL, small) == [(93.0, 93.0), (90.0, 90.0), (195.0, 233.0)]
    standard, real_time = times("standard", Measures.CALL, small), times("real_time", Measures.CALL, small)
    gains = [first[0] / second[0] for first, second in zip(standard, real_time, strict=True)]
    assert [round(gain, 2) for gain in gains] == [1.88, 1.74, 0.56]
    assert af.route("real_time").status is RouteStatus.WORKS
    assert af.route("real_time").evidence.conflict == "T12"


def test_production_sizes_converge() -> None:
    found = [
        end
        for name in ("standard", "real_time", "process_request")
        for bounds in times(name, Measures.PROGRAM, (768, 256))
        for end in bounds
    ]
    assert len(found) == 8
    assert 177 <= min(found) <= max(found) <= 291


def test_what_was_withdrawn_is_marked_and_counts_nowhere() -> None:
    withdrawn = [one for one in FIGURES if one.withdrawn]
    assert {one.route for one in withdrawn} == {"mle5_stream"}
    assert [one.microseconds[0] for one in withdrawn] == [27.2, 40.6, 57.8, 77.6]
    assert all("withdrawn" in str(one) and one.evidence.conflict == "T13" for one in withdrawn)
    assert not any(row.route == "mle5_stream" for row in programs())
    assert not any(one.withdrawn for one in calls_on(database().chips))


def test_predictions_assume_the_recommended_route_and_its_wrappers() -> None:
    assert af.route(get_assumed_route()).status is RouteStatus.RECOMMENDED
    assert [known.name for known in af.routes() if is_assumed(known.name)] == ["e5rt", "mle5", "mle5_stream"]
    assert af.cost(af.input((1, 8)).relu(), "m1").route == get_assumed_route()


def test_programs_are_those_on_the_engine_that_can_be_priced() -> None:
    rows = programs()
    assert {row.workload for row in rows} <= set(WORKLOADS)
    assert not {row.route for row in rows} & {"mpsgraph", "numpy_fp16", "coreml", "chaining"}


def test_every_backend_has_a_standing() -> None:
    found = {backend.name: standing_of(backend.name) for backend in list_known_backends()}
    assert all(one.status is not RouteStatus.UNLISTED for one in found.values())
    assert all(one.device and one.recommendation for one in found.values())
    latencies = {name: one.latency.microseconds for name, one in found.items() if one.latency}
    assert latencies == {"e5rt": (80.0, 110.0), "in_memory_model": (110.0, 110.0), "mpsgraph": (300.0, 300.0)}


def test_a_route_in_text_has_its_correction_and_its_figures() -> None:
    text = str(af.route("process_request"))
    assert text.startswith("process_request: a request to the program of an in-memory model; Neural Engine, works\n")
    assert "1.34 times as fast in one isolated run" in text
    assert "131 µs (call: 1×1 convolution of 64 channels over 32 columns; M4 Max, macOS 15)" in text


@pytest.mark.parametrize(
    ("file", "before", "after", "read", "message"),
    [
        ("routes.toml", 'assumed = "e5rt"', 'assumed = "e6rt"', module.routes_file, "no route called e6rt"),
        (
            "route_calls.toml",
            'route = "client"',
            'route = "cleint"',
            lambda: figures_of("route_calls.toml"),
            "route_calls.toml: there is no route called cleint",
        ),
        (
            "route_calls.toml",
            'what = "a tiny model", ',
            "",
            lambda: figures_of("route_calls.toml"),
            "a row of e5rt must have either a workload or what ran",
        ),
    ],
)
def test_a_file_that_contradicts_itself(
    file: str,
    before: str,
    after: str,
    read: Callable[[], object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("routes.toml", "route_calls.toml"):
        text = (DATA / name).read_text(encoding="utf-8")
        assert name != file or text.count(before) == 1
        (tmp_path / name).write_text(text.replace(before, after) if name == file else text, encoding="utf-8")
    monkeypatch.setattr(module, "DATA", tmp_path)
    module.routes_file.cache_clear()
    module.figures_of.cache_clear()
    try:
        with pytest.raises(DataFileError, match=message):
            read()
    finally:
        module.routes_file.cache_clear()
        module.figures_of.cache_clear()

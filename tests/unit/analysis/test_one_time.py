"""One model of time: every door gives one number, and every published figure is inside its interval or a conflict."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
import calibrate_cost as tool
from aneforge.analysis.cost import cost_of, price
from aneforge.analysis.files import checks, measurements
from aneforge.analysis.machine import Basis, machine_of
from aneforge.analysis.routes import calls_on, get_assumed_route, is_assumed, programs
from aneforge.commands.benching import bench
from aneforge.commands.checking import check
from aneforge.commands.measured_programs import build_measured_program
from aneforge.compiler.compile import compile_graph
from aneforge.errors import GraphError, GraphTypeError
from aneforge.evidence import EvidenceKind
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.targets import Family, database, place_of, resolve
from published_figures import figures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.routes import ProgramMeasurement

CHIPS = ("m1", "m2", "m2-pro", "h14g", "m3", "m4-max", "m5", "h17s")
FAR = 2.5
"""A factor of measured and predicted beyond which a row of the large tables must be a known miss."""
KNOWN_MISSES = {
    ("rms_norm", (256, 1024)): "the publication builds it of many operations; docs/cost.md",
}


def network() -> af.Tensor:
    x = af.input((1, 64, 32, 32), name="x")
    y = af.conv(x, np.full((64, 64, 3, 3), 0.01, np.float16), pad=1).relu()
    return (y.transpose(0, 1, 3, 2).transpose(0, 1, 3, 2) * 1.0).reshape(64, 1024).softmax(-1)


def attention() -> af.Tensor:
    q = af.input((1, 4, 32, 64), name="q")
    return af.sdpa(q.relu(), q, q, native=True).tanh()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("build", [network, attention])
def test_every_door_gives_one_number(build: Callable[[], af.Tensor], chip: str, tmp_path: Path) -> None:
    graph = build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = af.compile(graph, target=chip)
    loaded = af.load_program(model.save(tmp_path / "net.aneprg"))
    expected = af.cost(graph, chip)
    (reported,) = check(graph, chip).targets
    assert reported.latency is not None
    found = {
        "estimate": af.estimate(graph, target=chip),
        "estimate of a place": af.estimate(graph, target=place_of(chip)),
        "cost of a model": af.cost(model).microseconds,
        "estimate of a model": af.estimate(model),
        "cost of a loaded model": af.cost(loaded).microseconds,
        "cost of what was compiled": cost_of(compile_graph(graph, chip)).microseconds,
        "check": reported.latency.microseconds,
        "placement": sum(segment.microseconds or 0.0 for segment in af.placement(graph, chip).segments),
    }
    assert {name: round(value, 2) for name, value in found.items()} == dict.fromkeys(
        found, round(expected.microseconds, 2)
    )
    assert (reported.latency.low, reported.latency.high) == pytest.approx((expected.low, expected.high), abs=1e-3)
    assert reported.latency.route == expected.route == expected.machine.route
    planned = af.plan_chaining([model.program], chip) if place_of(chip).chip else None
    assert planned is None or planned.expected_us == expected.machine.dispatch
    assert planned is None or planned.route == expected.route


def test_bench_predicts_the_same() -> None:
    small = af.input((4, 16), name="x").relu()
    (found,) = bench(small, "m2", runs=1)
    assert found.predicted.microseconds == round(af.cost(small, "m2").microseconds, 3)


def test_the_choice_among_forms_says_the_same_number() -> None:
    q = af.input((1, 2, 16, 8), name="q")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = af.compile(af.sdpa(q, q, q, native=True), opt=1, target="m2")
    told = re.search(r"softmax: predicted (\d+) µs", model.remarks[-1])
    assert told is not None
    assert int(told[1]) == round(af.cost(model).microseconds)


def test_the_warning_about_a_dispatch_says_the_same_number() -> None:
    small = af.input((1, 8), name="x").relu()
    expected = af.cost(small, "m2")
    with pytest.warns(af.DispatchFloorWarning) as caught:
        af.compile(small, target="m2")
    numbers = re.findall(r"(\d+) µs", str(caught[0].message))
    assert numbers == [f"{expected.microseconds:.0f}", f"{expected.dispatch:.0f}"]


def test_a_chip_is_one_number_however_it_is_named() -> None:
    graph = network()
    found = {af.cost(graph, name).microseconds for name in ("a17-pro", "A17 Pro", "soc:a17", "h16", resolve("h16"))}
    assert len(found) == 1
    assert len({af.cost(graph, name).microseconds for name in ("m4", "M4", "h16g")}) == 1


def test_a_model_of_any_chip_has_a_time() -> None:
    graph = af.input((1, 8), name="x").relu()
    for key, chip in database().chips.items():
        if resolve(chip.target).limits.flag("mil_programs"):
            model = af.compile(graph, target=f"soc:{key}")
            assert af.cost(model).microseconds == af.cost(graph, f"soc:{key}").microseconds, key


def test_a_graph_of_constants_alone_is_refused_as_by_compile() -> None:
    alone = af.Tensor(build("relu", {"x": Dense.owning(np.ones((1, 4), np.float16))}, {}))
    with pytest.raises(GraphError, match=r"ANE-PORT-001 reject: .* The graph has no inputs"):
        af.compile(alone, target="m1")
    for door in (af.cost, af.estimate):
        with pytest.raises(GraphError, match=r"ANE-PORT-001 reject: .* The graph has no inputs"):
            door(alone, "m1")


def test_what_was_compiled_keeps_its_weights() -> None:
    model = compile_graph(network(), Family.A16)
    assert af.estimate(model) == af.cost(network(), Family.A16).microseconds
    with pytest.raises(GraphTypeError, match="keeps its weights"):
        af.estimate(model, int8=True)


@pytest.mark.parametrize("chip", ["m1", "m3", "m4-max", "h16", "m6", "m5-pro"])
@pytest.mark.parametrize("build", [network, attention])
def test_parts_add_up_and_say_how_they_are_known(build: Callable[[], af.Tensor], chip: str) -> None:
    found: Cost = af.cost(build(), chip)
    assert sum(part.microseconds for part in found.parts) == pytest.approx(found.microseconds)
    assert found.kind is EvidenceKind.INFERRED, "a prediction is no measurement"
    bases = {part.name: part.basis for part in found.parts}
    own = chip in {row.chip for row in measurements()}
    dispatch_fitted = own or chip in {"m4-max", "h16"}
    assert (bases["dispatch"] is Basis.FITTED) is dispatch_fitted
    assert (bases["host copies"] is Basis.FITTED) is own
    assert all(part.text for part in found.parts)
    assert all(str(part) in str(found) for part in found.parts)


def test_weights_are_measured_where_a_benchmark_saw_them() -> None:
    product = af.input((1, 2048)) @ np.zeros((2048, 2048), np.float16)
    known = {chip: next(part for part in af.cost(product, chip).parts if part.name == "weights") for chip in CHIPS}
    assert known["m2"].basis is Basis.MEASURED
    assert known["m2"].text == "on M2 (anemll-bench)"
    assert known["m2-pro"].basis is Basis.SCALED


@pytest.mark.parametrize("key", sorted({one.chip for one in calls_on(database().chips) if one.chip}))
def test_published_calls_are_inside_the_interval_of_the_dispatch(key: str) -> None:
    machine = machine_of(key)
    least, most = machine.dispatch_interval
    assert least <= machine.dispatch <= most
    for figure in calls_on([key]):
        if is_assumed(figure.route):
            assert least <= figure.microseconds[0] <= figure.microseconds[1] <= most, figure


@pytest.mark.parametrize("row", programs(), ids=str)
def test_published_programs_are_inside_the_interval_or_a_conflict(row: ProgramMeasurement) -> None:
    if row.conflict:
        assert row.conflict in database().conflicts
    if not row.chip:
        assert row.conflict
        return
    found = price(tool.works(row), tool.machine_by_route(row))
    inside = found.low <= row.high and row.low <= found.high
    assert inside is not bool(row.conflict), (found.low, found.high)


def test_every_published_figure_is_inside_its_interval_or_names_a_conflict() -> None:
    found = list(figures())
    assert [one.row for one in found if one.inside is bool(one.conflict)] == []
    assert {one.conflict for one in found if one.conflict} <= set(database().conflicts)


def test_the_figure_that_names_no_chip_is_in_no_interval() -> None:
    (row,) = (row for row in programs() if not row.chip and row.route == get_assumed_route())
    graph = build_measured_program(row.workload, row.shape)
    sure = [af.cost(graph, chip) for chip in ("m1", "m1-max", "m2-pro", "m4", "m5", "m5-pro")]
    assert all(row.high < found.low for found in sure), "then it could be that chip's, and T2 is settled"


def test_rows_of_the_large_tables_are_near_or_known_misses() -> None:
    rows, inside = (*measurements(), *checks()), 0
    for row in rows:
        found = price(tool.works(row), machine_of(row.chip))
        inside += found.low <= row.microseconds <= found.high
        far = max(found.microseconds / row.microseconds, row.microseconds / found.microseconds) > FAR
        assert far is ((row.workload, row.shape) in KNOWN_MISSES), row
    assert inside / len(rows) > 0.65


@pytest.mark.parametrize(("chip", "slow"), [("m4", True), ("m4-max", True), ("m5-pro", False), ("m1", False)])
def test_multiples_of_4096_channels_are_slow_where_that_was_seen(chip: str, *, slow: bool) -> None:
    times = {count: af.cost(build_measured_program("conv1x1", (count, 64)), chip) for count in (4096, 4608)}
    assert (times[4096].microseconds > times[4608].microseconds) is slow
    parts = {part.name: part for part in times[4096].parts}
    assert ("weights of slow channel counts" in parts) is slow
    assert not slow or parts["weights of slow channel counts"].basis is Basis.MEASURED
    noted = any("a multiple of 4096 input channels" in note for note in times[4096].notes)
    assert noted is slow
    assert not any("4096" in note for note in times[4608].notes)


def test_a_step_with_states_says_where_its_time_is_doubted() -> None:
    total = af.state("total", (1, 32))
    step = af.Graph({"y": total + af.input((1, 32), name="x")}, states={"total": total + 1.0})
    doubted = [any("conflict T17" in note for note in af.cost(step, chip).notes) for chip in ("m4", "m4-max", "m5")]
    assert doubted == [True, True, False]
    costs = {chip: af.cost(step, chip) for chip in ("m4", "m4-max", "m5")}
    assert [one.high > 1.99 * one.microseconds for one in costs.values()] == doubted
    assert all(one.low * one.high == pytest.approx(one.microseconds**2) for one in costs.values())
    assert not any("conflict T17" in note for note in af.cost(network(), "m4").notes)
    assert "twice" in af.targets.database().conflicts["T17"].rejected

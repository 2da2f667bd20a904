"""The planner: the dispatch of every prediction with its interval, and nothing that was withdrawn."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.machine import Basis, machine_of
from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.runtime.chaining.chaining_plan import count_fused, plan_chaining
from aneforge.runtime.chaining.chaining_ways import ways
from aneforge.targets import database

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from golden_text import Golden


def relu(target: str = "h14") -> Program:
    return af.build_program(af.input((1, 8)).relu(), target)


def test_fusing_saves_the_dispatches_of_all_but_one() -> None:
    plan = plan_chaining([relu()] * 4, "m2-pro")
    machine = machine_of("m2-pro")
    assert (plan.dispatches, plan.expected_us, plan.route) == (4, machine.dispatch, machine.route)
    assert plan.dispatch_us[0] == 100.0 < plan.expected_us < plan.dispatch_us[1]
    fuse, stream, chain = plan.options
    least, most = machine.dispatch_interval
    assert fuse.saving_us == (round(3 * least, 1), round(3 * most, 1))
    assert (fuse.dispatches, fuse.available) == (1, True)
    assert (stream.dispatches, stream.saving_us, stream.available) == (4, (0.0, 0.0), True)
    assert (chain.saving_us, chain.available) == (None, False)
    assert plan.best is fuse


def test_one_program_has_nothing_to_save() -> None:
    plan = plan_chaining([relu("h13")], "m1")
    assert plan.options[0].saving_us == (0.0, 0.0)
    assert plan.best is None


def test_a_chip_that_nobody_measured_says_that_its_figure_is_scaled() -> None:
    plan = plan_chaining([relu("h15")] * 2, "m3")
    assert plan.basis is Basis.SCALED
    assert plan.source == "as on M2 Pro and M4, of the nearest measured tiers"
    assert plan.dispatch_us[0] < 0.5 * plan.expected_us < 2 * plan.expected_us < plan.dispatch_us[1]


def test_routes_that_predictions_do_not_assume_are_listed() -> None:
    plan = plan_chaining([relu("m4-max")] * 2, "m4-max")
    assert plan.other_routes[1] == (
        "real_time 90 to 233 µs (maderix repository, evaluation paths; maderix repository, test_chaining_v2; "
        "maderix repository, test_bench_paths)"
    )
    assert plan.route == "e5rt" == af.cost(af.input((1, 8)).relu(), "m4-max").route
    assert "by e5rt" in str(plan).splitlines()[0]
    assert plan.expected_us == machine_of("m4-max").dispatch < 59
    assert plan.dispatch_us[1] < 95, "what other routes take is not in the interval"


def test_layers_with_a_program_of_their_own_stay_so() -> None:
    bridged = af.build_program(af.argmax(af.input((4, 64)).relu(), 1), "h14")
    assert any(segment.bridge for segment in bridged.segments)
    plan = plan_chaining([relu(), bridged], "m2-pro")
    bridges = [segment.bridge for program in (relu(), bridged) for segment in program.segments]
    assert plan.options[0].dispatches == count_fused(bridges) < plan.dispatches


@pytest.mark.parametrize("chip", ["m1", "m5"])
def test_a_layer_that_is_timed_as_a_whole_has_no_further_call(chip: str) -> None:
    """`af.cost` prices a bridged layer by its own measurements, so the planner counts no dispatch for it again."""
    graph = af.argmax(af.input((64, 128)).relu(), -1)
    expected, plan = af.cost(graph, chip), plan_chaining([af.build_program(graph, chip)] * 2, chip)
    own = next(one for one in expected.programs if one.bridge is not None)
    assumed, (least, most) = plan.times[0], expected.machine.dispatch_interval
    assert (plan.dispatches, plan.own_programs, assumed.calls) == (4, 2, 2)
    assert assumed.expected_us == pytest.approx(2 * expected.microseconds, abs=0.1)
    assert assumed.own_us[0] < 2 * own.dispatch < assumed.own_us[1]
    work = 2 * (expected.microseconds - expected.dispatch)
    assert assumed.sequential_us[0] == pytest.approx(work + assumed.own_us[0] + 2 * least, abs=0.2)
    assert assumed.sequential_us[1] == pytest.approx(work + assumed.own_us[1] + 2 * most, abs=0.2)
    assert assumed.chained_us == assumed.sequential_us, "no two programs that could be chained are neighbours"
    assert "timed as a whole: 2" in str(plan)


@pytest.mark.parametrize(
    ("bridges", "left"), [([], 0), ([True, True, True], 3), ([False, True, False, False, True], 4), ([False] * 9, 1)]
)
def test_neighbours_become_one(bridges: list[bool], left: int) -> None:
    assert count_fused(bridges) == left


@pytest.mark.parametrize(("weight_bytes", "left"), [(0, 1), (200, 1), (201, 2), (10**6, 9)])
def test_a_program_holds_so_many_weights(weight_bytes: int, left: int) -> None:
    assert count_fused([False] * 9, weight_bytes, 200) == left


def test_every_way_has_a_known_source() -> None:
    for way in ways().values():
        assert way.source.split()[0].rstrip(",") in database().sources


def test_the_gain_that_was_withdrawn_is_nowhere(repository: Path) -> None:
    """4.87 times was a call that computed nothing (experiment W1 of its own authors)."""
    for path in [
        *(repository / "src/aneforge/runtime").rglob("*.py"),
        *(repository / "src/aneforge/runtime").rglob("*.toml"),
    ]:
        assert "4.87" not in path.read_text(encoding="utf-8"), path
    gains = [
        option.saving_us for option in plan_chaining([relu("m4-max")] * 4, "m4-max").options if option.name != "fuse"
    ]
    assert gains == [(0.0, 0.0), None]


def test_twelve_layers_by_route_with_and_without_chaining() -> None:
    """The assumed route has the figure of `af.cost`; others have published calls; a chain has one call."""
    layer = af.conv(af.input((1, 768, 1, 256)), np.zeros((768, 768, 1, 1), np.float16))
    program = af.build_program(layer, "m4-max")
    plan = plan_chaining([program] * 12, "m4-max")
    assumed, *others = plan.times
    expected = af.cost(layer, "m4-max")
    assert (assumed.route, assumed.calls) == (expected.route, 12)
    assert assumed.expected_us == round(12 * expected.microseconds, 1)
    least, most = expected.machine.dispatch_interval
    work = 12 * (expected.microseconds - expected.dispatch)
    assert assumed.sequential_us == (round(work + 12 * least, 1), round(work + 12 * most, 1))
    assert assumed.chained_us == (round(work + least, 1), round(work + most, 1))
    assert [one.route for one in others] == ["standard", "real_time", "process_request", "direct", "mle5", "coreml"]
    assert [one.call_us for one in others[4:]] == [(0.0, 59.3), (0.0, 35.0)], "no call was published, only programs"
    for one in others:
        assert one.expected_us is None
        assert one.chained_us[0] - one.call_us[0] == pytest.approx(work, abs=0.2)
        assert one.sequential_us[1] == pytest.approx(work + 12 * one.call_us[1], abs=0.2)


def test_no_route_pays_at_production_size() -> None:
    plan = plan_chaining([relu("m4-max")], "m4-max")
    assert all(not one.paying for one in plan.sizes)
    assert [one.what for one in plan.sizes if one.production] == ["1×1 convolution of 768 channels over 256 columns"]
    assert plan.answer == (
        "Other routes that pay: none reliably at any size that was measured; at production size (1×1 convolution of "
        "768 channels over 256 columns; M4 Max, macOS 15): none."
    )
    assert plan_chaining([relu("h13")], "m1").answer == plan.answer, (
        "the chip was not compared; the one that was is named"
    )


def test_wrong_programs() -> None:
    with pytest.raises(GraphError, match="plan_chaining: there is no program to plan for"):
        plan_chaining([], "m1")
    with pytest.raises(GraphError, match=r"the programs are for different targets \(got h13, h14\)"):
        plan_chaining([relu("h13"), relu("h14")], "m1")
    with pytest.raises(
        GraphError, match=r"not for the family of M1 \(got h14, expected h13\)\. Remedy: compile them for m1"
    ):
        plan_chaining([relu("h14")], "m1")
    with pytest.raises(UnknownNameError, match="m77"):
        plan_chaining([relu()], "m77")


def test_what_is_not_a_list_of_programs() -> None:
    for wrong, message in (
        (af.input((1, 8)), r"programs must be a list \(got Tensor\)\. Remedy: af\.build_program\(graph, chip\)"),
        ([af.input((1, 8))], r"programs\[0\] must be of type Program \(got Tensor"),
        (relu(), r"programs must be a list \(got Program\)"),
        (None, r"programs must be a list \(got NoneType\)"),
    ):
        with pytest.raises(GraphTypeError, match=message):
            af.plan_chaining(wrong, "m1")  # pyright: ignore[reportArgumentType] - the subject of the test
    with pytest.raises(GraphTypeError, match=r"the chip must be of type str \(got int"):
        af.plan_chaining([relu()], 5)  # pyright: ignore[reportArgumentType] - the subject of the test


@pytest.mark.parametrize("chip", ["m1", "m2-pro", "m3", "m4", "m4-max", "m5", "a16"])
def test_one_dispatch_with_its_interval_and_its_route(chip: str) -> None:
    """The planner and `af.cost` say the same of a call, on every chip, and both name the route."""
    graph = af.input((1, 8)).relu()
    plan, cost = af.plan_chaining([af.build_program(graph, chip)] * 2, chip), af.cost(graph, chip)
    assert plan.expected_us == cost.machine.dispatch
    assert plan.dispatch_us == cost.machine.dispatch_interval
    assert plan.route == cost.route == plan.times[0].route
    assert plan.times[0].expected_us == round(2 * cost.microseconds, 1)
    call = r"([0-9]+) µs (?:each )?\(([0-9]+) to ([0-9]+)\) by e5rt"
    said, priced = (re.search(call, text) for text in (str(plan).splitlines()[0], str(cost)))
    assert said is not None
    assert priced is not None
    assert said.groups() == priced.groups()


def test_a_plan_reads_well(golden: Golden) -> None:
    golden(str(plan_chaining([relu("m4-max")] * 3, "m4-max")) + "\n")

"""The planner: measured dispatches alone, nothing for chips that nobody measured, nothing that was withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge.errors import GraphError, UnknownNameError
from aneforge.runtime.streams.chaining import figures, fused, plan_chaining
from aneforge.targets import database

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from golden_text import Golden


def relu(target: str = "h14") -> Program:
    return af.build_program(af.input((1, 8)).relu(), target)


def test_fusing_saves_the_dispatches_of_all_but_one() -> None:
    plan = plan_chaining([relu()] * 4, "m2-pro")
    assert (plan.dispatches, plan.dispatch_us) == (4, (100.0, 100.0))
    fuse, stream, chain = plan.options
    assert (fuse.dispatches, fuse.saving_us, fuse.available) == (1, (300.0, 300.0), True)
    assert (stream.dispatches, stream.saving_us, stream.available) == (4, (0.0, 0.0), True)
    assert (chain.saving_us, chain.available) == (None, False)
    assert plan.best is fuse


def test_one_program_has_nothing_to_save() -> None:
    plan = plan_chaining([relu("h13")], "m1")
    assert plan.options[0].saving_us == (0.0, 0.0)
    assert plan.best is None


def test_a_chip_that_nobody_measured_has_no_estimate() -> None:
    plan = plan_chaining([relu("h15")] * 2, "m3")
    assert plan.dispatch_us is None
    assert [option.saving_us for option in plan.options] == [None, (0.0, 0.0), None]
    assert plan.best is None
    assert str(plan).startswith("M3: 2 dispatches, no published measurement of a dispatch\n")


def test_layers_with_a_program_of_their_own_stay_so() -> None:
    bridged = af.build_program(af.argmax(af.input((4, 64)).relu(), 1), "h14")
    assert any(segment.bridge for segment in bridged.segments)
    plan = plan_chaining([relu(), bridged], "m2-pro")
    bridges = [segment.bridge for program in (relu(), bridged) for segment in program.segments]
    assert plan.options[0].dispatches == fused(bridges) < plan.dispatches


@pytest.mark.parametrize(
    ("bridges", "left"), [([], 0), ([True, True, True], 3), ([False, True, False, False, True], 4), ([False] * 9, 1)]
)
def test_neighbours_become_one(bridges: list[bool], left: int) -> None:
    assert fused(bridges) == left


@pytest.mark.parametrize(("weight_bytes", "left"), [(0, 1), (200, 1), (201, 2), (10**6, 9)])
def test_a_program_holds_so_many_weights(weight_bytes: int, left: int) -> None:
    assert fused([False] * 9, weight_bytes, 200) == left


def test_every_figure_is_of_a_chip_and_has_a_known_source() -> None:
    data = database()
    for key, dispatch in figures().dispatch.items():
        assert key in data.chips
        assert dispatch.source.split()[0] in data.sources
        assert 0 < dispatch.microseconds[0] <= dispatch.microseconds[1]
    for way in figures().ways.values():
        assert way.source.split()[0].rstrip(",") in data.sources


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


def test_wrong_programs() -> None:
    with pytest.raises(GraphError, match="plan_chaining: there is no program to plan for"):
        plan_chaining([], "m1")
    with pytest.raises(GraphError, match=r"the programs are for different targets \(seen h13, h14\)"):
        plan_chaining([relu("h13"), relu("h14")], "m1")
    with pytest.raises(
        GraphError, match=r"not for the family of M1 \(seen h14, limit h13\)\. Remedy: compile them for m1"
    ):
        plan_chaining([relu("h14")], "m1")
    with pytest.raises(UnknownNameError, match="m77"):
        plan_chaining([relu()], "m77")


def test_a_plan_reads_well(golden: Golden) -> None:
    golden(str(plan_chaining([relu("m4-max")] * 3, "m4-max")) + "\n")

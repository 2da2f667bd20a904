"""A mistake of the compiler's is no verdict on a model: it has a class, a stage, a reproducer and an exit code."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.analysis.matrix import compile_matrix
from aneforge.cli import main
from aneforge.compiler import compile as front_door
from aneforge.compiler import reproducer
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.pipeline import PIPELINE, Pipeline
from aneforge.errors import GraphError, InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.retarget import Retargeted
    from aneforge.targets import Target

GRAPH = af.Graph({"y": af.input((1, 8), name="x").relu().exp()})


@dataclass(frozen=True)
class Breaks(Pass):
    """Leave out the first layer, which others read."""

    name: ClassVar[str] = "breaks"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Return something that is not a program."""
        return replace(program, layers=program.layers[1:])


BROKEN = Pipeline((*PIPELINE.passes[:2], Breaks()))


@pytest.fixture(autouse=True)
def _reproducers_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def broken_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = front_door.lowered

    def broken(
        retargeted: Retargeted, target: Target, lower: Callable[[af.Graph, Target], Program] = front_door.lower
    ) -> Program:
        return BROKEN.run(lowered(retargeted, target, lower))

    monkeypatch.setattr(front_door, "lowered", broken)


def test_it_names_the_pass_and_a_file_that_shows_it() -> None:
    with pytest.raises(
        InternalError, match=r"breaks: .*before it is written\. This is a mistake of aneforge"
    ) as caught:
        compile_graph(GRAPH, af.targets.Family.A13, pipeline=BROKEN)
    assert not isinstance(caught.value, GraphError)
    held = Path(caught.value.reproducer or "").read_text(encoding="utf-8")
    assert str(GRAPH) in held
    assert "stage breaks" in held
    assert f"target {af.targets.resolve(af.targets.Family.A13).name}" in held
    assert str(caught.value.reproducer) in str(caught.value)


def test_a_reproducer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducer, "MOST_CHARACTERS", 20)
    with pytest.raises(InternalError) as caught:
        compile_graph(GRAPH, af.targets.Family.A13, pipeline=BROKEN)
    held = Path(caught.value.reproducer or "").read_text(encoding="utf-8")
    assert f"# {len(str(GRAPH)) - 20} characters are left out here" in held


def test_it_says_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(InternalError, match=r"no reproducer could be written \(No such file"):
        compile_graph(GRAPH, af.targets.Family.A13, pipeline=BROKEN)


@pytest.mark.usefixtures("broken_compiler")
def test_no_question_about_a_graph_takes_it_for_an_answer() -> None:
    with pytest.raises(InternalError):
        cross_compile_check(GRAPH, af.targets.Family.A13, host=af.targets.Family.A13)
    with pytest.raises(InternalError):
        compile_matrix(GRAPH)
    with pytest.raises(InternalError):
        af.compile(GRAPH, target=af.targets.Family.A13)


@pytest.mark.usefixtures("broken_compiler")
@pytest.mark.parametrize("command", [["check"], ["compile", "--target", "h13"]])
def test_the_command_line_ends_with_3(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.mil"
    model.write_text(af.to_mil(GRAPH).text, encoding="utf-8")
    assert main.run([command[0], str(model), *command[1:]]) == 3
    said = capsys.readouterr().err
    assert said.startswith("internal error: breaks: ")
    assert "mistake of aneforge" in said
    assert str(tmp_path) in said


def test_a_wrong_schedule_or_plan_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from aneforge.compiler.memory import planner  # noqa: PLC0415 - a module of which a function is replaced

    def wrong(*given: object) -> None:
        del given
        raise GraphError("the timeline is wrong")

    monkeypatch.setattr(planner, "verify_plan", wrong)
    with pytest.raises(InternalError, match=r"^memory-plan: the timeline is wrong\. .* please report it with"):
        _ = compile_graph(GRAPH, af.targets.Family.A13).plan

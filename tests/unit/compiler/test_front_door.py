"""Every way to compile is one function, which judges a graph for a target once."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.commands.benching import bench
from aneforge.commands.chaining_explained import explain_times
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.collecting import collect, full_plan
from aneforge.commands.comparing import compare_targets
from aneforge.commands.compiling import compile_model
from aneforge.commands.demonstration import tell_story
from aneforge.commands.diffing import diff
from aneforge.commands.evaluating import evaluate
from aneforge.commands.reducing import reduce_model
from aneforge.commands.running import run_model
from aneforge.commands.sharing import Compiler
from aneforge.rules import preflight as judging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from aneforge.rules.preflight import Observation, Preflight
    from aneforge.targets import Target

LOWERING = {
    "compiler/compile.py": "the front door",
    "commands/sharing.py": "hands it to the front door, to lower a graph once for many targets",
    "compiler/validators/module.py": "judges what is lowered before any pass, as the validator of that name does",
    "compiler/validators/examples.py": "makes the layer that a table of validators is tried on",
}
"""Who may lower a graph, and why."""
SEVERAL = ("m1", "m1-max", "m4")


def importing(source: Path, module: str, names: set[str]) -> Iterator[str]:
    """Yield the files of a folder that import one of some names from a module."""
    for path in source.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if f"from {module} import" in text else ():
            if isinstance(node, ast.ImportFrom) and node.module == module and names & {one.name for one in node.names}:
                yield path.relative_to(source).as_posix()


def test_nobody_else_lowers_a_graph(repository: Path) -> None:
    assert set(importing(repository / "src/aneforge", "aneforge.compiler.lower.lower", {"lower"})) == set(LOWERING)


def large() -> af.Graph:
    return af.Graph({"y": af.input((1, 8, 1, 17_000), name="x").relu()})


def masked() -> af.Graph:
    """Return a graph in fp32 whose mask is infinite in fp16, and that is decomposed on some targets."""
    scores = af.cast(af.input((1, 4, 8, 8), name="x"), "fp32")
    return af.Graph({"y": (scores + np.float32(-1e9)).softmax(-1).sin()})


def attention() -> af.Graph:
    x = af.input((1, 2, 16, 16), name="x")
    return af.Graph({"y": af.sdpa(x, x, x, native=True)})


def trained() -> None:
    weights = af.parameter(np.ones((4, 2), np.float16), name="weights")
    x, wanted = af.input((1, 4), name="x"), af.input((1, 2), name="wanted")
    af.Trainer(((x @ weights - wanted) ** 2).mean(), [weights], lr=0.1, target="m1")


def check_large(**options: object) -> object:
    return check(large(), SEVERAL, CheckOptions(**options))  # pyright: ignore[reportArgumentType] - options of any type


WAYS: dict[str, Callable[[Path], object]] = {
    "compile": lambda _: af.compile(large(), target="m1", opt=0),
    "compile, canonical": lambda _: af.compile(large(), target="m1"),
    "compile, to keep": lambda folder: af.compile(large(), target="m1", build_dir=folder),
    "compile, another form": lambda _: af.compile(attention(), target="m1", opt=2),
    "preflight": lambda _: af.preflight(large(), "m1"),
    "preflight_all": lambda _: af.preflight_all(large()),
    "build_program": lambda _: af.build_program(large(), "m1"),
    "cost": lambda _: af.cost(large(), "m1"),
    "placement": lambda _: af.placement(large(), "m1", path="direct"),
    "divergence": lambda _: af.divergence(large(), "m1", "m4"),
    "cross_compile_check": lambda _: cross_compile_check(large(), "m1", host="m1"),
    "train": lambda _: trained(),
    "aneforge bench": lambda _: bench(large(), SEVERAL, runs=1),
    "aneforge check": lambda _: check_large(),
    "aneforge check, through Core ML": lambda _: check_large(path="coreml"),
    "aneforge check, where it lands": lambda _: check_large(placement="direct"),
    "aneforge check, deep": lambda _: check_large(deep=True, tasks=True),
    "aneforge check, rescaled": lambda _: check_large(rescale=True),
    "aneforge check, prepared": lambda _: check_large(opt=2),
    "aneforge check, in fp32": lambda _: check(masked(), SEVERAL, CheckOptions(path="coreml")),
    "aneforge check, attention": lambda _: check(attention(), SEVERAL),
    "aneforge check, again": lambda _: [check(graph, SEVERAL) for graph in [large()] * 2],
    "aneforge collect": lambda _: collect(
        replace(full_plan(), figures=(), reductions=(), programs=full_plan().programs[:1])
    ),
    "aneforge compare": lambda _: compare_targets(large(), SEVERAL, seed=0, mark=True),
    "aneforge compile": lambda folder: compile_model(large(), "m1", output=folder / "large.mlpackage"),
    "aneforge demo": lambda _: tell_story(),
    "aneforge diff": lambda _: diff(check(large(), SEVERAL), check(attention(), SEVERAL)),
    "aneforge evaluate": lambda _: evaluate(af.input((1, 2), name="x") * 3.0, [(np.array([1.0, 2.0]), 1)], SEVERAL),
    "aneforge explain chaining times": lambda _: explain_times(),
    "aneforge reduce": lambda _: reduce_model(af.input((1, 8), name="x") * 60_000.0 * 2.0, "nan m1"),
    "aneforge run": lambda _: run_model(large(), SEVERAL, seed=0),
}
COMMANDS = {
    "benching.py": "aneforge bench",
    "chaining_explained.py": "aneforge explain chaining times",
    "changes.py": "aneforge check, attention",
    "checking.py": "aneforge check",
    "collecting.py": "aneforge collect",
    "compared_sides.py": "aneforge compare",
    "compiling.py": "aneforge compile",
    "demonstration.py": "aneforge demo",
    "evaluating.py": "aneforge evaluate",
    "preparing.py": "aneforge check, prepared",
    "reducing.py": "aneforge reduce",
    "risk.py": "aneforge check, rescaled",
    "running.py": "aneforge run",
    "sharing.py": "aneforge check",
}
"""The modules of commands that compile or judge, and the way that goes through each."""
JUDGES = {
    "aneforge.compiler.compile": {"build", "build_program", "compile_graph"},
    "aneforge.compiler.retarget": {"retarget"},
    "aneforge.compiler.verdict": {"preflight", "preflight_all"},
    "aneforge.rules.preflight": {"judge_once", "preflight", "preflight_all"},
    "aneforge.runtime.compile": {"compile"},
}
"""What compiles or judges, by its module."""


def test_every_command_that_compiles_is_among_the_ways(repository: Path) -> None:
    commands = repository / "src/aneforge/commands"
    assert {file for module, names in JUDGES.items() for file in importing(commands, module, names)} == set(COMMANDS)
    assert set(COMMANDS.values()) <= set(WAYS)


def test_nobody_judges_what_was_not_asked_for_once(repository: Path) -> None:
    assert not set(importing(repository / "src/aneforge", "aneforge.rules.preflight", {"verdicts"}))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_graph_is_judged_once_for_a_target(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged: Counter[tuple[object, str]] = Counter()
    graphs: dict[tuple[int, ...], af.Graph] = {}
    kept: list[Sequence[Observation]] = []
    observe, judge = judging.observe, judging.verdicts

    def observed(graph: af.Graph) -> list[Observation]:
        found = observe(graph)
        kept.append(found)
        graphs[known_by(found)] = graph
        return found

    def counted(observations: Sequence[Observation], targets: Sequence[Target]) -> list[Preflight]:
        graph = same_graph(graphs[known_by(observations)])
        judged.update((graph, one.name) for one in targets)
        return judge(observations, targets)

    monkeypatch.setattr(judging, "observe", observed)
    monkeypatch.setattr(judging, "verdicts", counted)
    WAYS[way](tmp_path)
    assert judged
    assert set(judged.values()) == {1}


def known_by(observations: Sequence[Observation]) -> tuple[int, ...]:
    """Return what observations have in common with others of the same graph."""
    return tuple(id(one.clean) for one in observations)


def same_graph(graph: af.Graph) -> object:
    """Return what two graphs of the same nodes have in common, whoever made them."""
    return (*((name, id(one.node), one.index) for name, one in graph.outputs.items()), *map(id, graph.nodes))


def test_what_targets_share_has_the_verdict_of_each() -> None:
    graph = large()
    compiler = Compiler(graph)
    made = [compiler.compile(af.targets.resolve(name)).compiled for name in SEVERAL[:2]]
    assert len(compiler.shared) == 1
    for name, one in zip(SEVERAL, made, strict=False):
        assert one is not None
        assert one.verdict is judging.preflight(graph, name)
        assert one.verdict.target == one.retargeted.target == one.program.target.name

"""Every way to compile is one function, which judges a graph for a target once."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.commands.compiling import compile_model
from aneforge.rules import preflight as judging

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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


def test_nobody_else_lowers_a_graph(repository: Path) -> None:
    source = repository / "src/aneforge"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "aneforge.compiler.lower.lower"
        and any(one.name == "lower" for one in node.names)
    }
    assert found == set(LOWERING)


def large() -> af.Graph:
    return af.Graph({"y": af.input((1, 8, 1, 17_000), name="x").relu()})


def trained() -> None:
    weights = af.parameter(np.ones((4, 2), np.float16), name="weights")
    x, wanted = af.input((1, 4), name="x"), af.input((1, 2), name="wanted")
    af.Trainer(((x @ weights - wanted) ** 2).mean(), [weights], lr=0.1, target="m1")


WAYS: dict[str, Callable[[Path], object]] = {
    "compile": lambda _: af.compile(large(), target="m1", opt=0),
    "compile, canonical": lambda _: af.compile(large(), target="m1"),
    "compile, to keep": lambda folder: af.compile(large(), target="m1", build_dir=folder),
    "preflight": lambda _: af.preflight(large(), "m1"),
    "build_program": lambda _: af.build_program(large(), "m1"),
    "cost": lambda _: af.cost(large(), "m1"),
    "placement": lambda _: af.placement(large(), "m1", path="direct"),
    "divergence": lambda _: af.divergence(large(), "m1", "m4"),
    "the command compile": lambda folder: compile_model(large(), "m1", output=folder / "large.mlpackage"),
    "cross_compile_check": lambda _: cross_compile_check(large(), "m1", host="m1"),
    "train": lambda _: trained(),
}


@pytest.mark.filterwarnings("ignore::aneforge.errors.OversizeWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_graph_is_judged_once_for_a_target(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged: Counter[tuple[int, str]] = Counter()
    kept: list[Sequence[Observation]] = []
    real = judging.verdicts

    def counted(observations: Sequence[Observation], targets: Sequence[Target]) -> list[Preflight]:
        kept.append(observations)
        judged.update((id(observations), one.name) for one in targets)
        return real(observations, targets)

    monkeypatch.setattr(judging, "verdicts", counted)
    WAYS[way](tmp_path)
    assert judged
    assert set(judged.values()) == {1}

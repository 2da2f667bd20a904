"""Ten thousand cases of the proof: graphs, samples and targets of which nothing that is said contradicts another.

The whole runs with `make test-external`, which writes the figures; `make test` reads them and judges the first three
hundred (tests/unit/test_the_proof.py).
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aneforge.commands.demo_networks import NETWORKS, network
from proof_cases import NAMES, Case
from proof_tools import MET
from verdict_batches import Tally, judge_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = Path(__file__).parent / "cases.md"
CASES, BATCHES = 10_000, 545
"""Batches have twenty cases, less those of graphs without inputs."""


def example_networks() -> Tally:
    """Judge the example networks, without samples, on a few targets each."""
    tally = Tally()
    for place, name in enumerate(NETWORKS):
        targets = tuple(NAMES[(7 * place + step) % len(NAMES)] for step in (0, 13, 29))
        tally.add(Case((-1, place), "example network", network(name), None, targets))
    return tally


def judge_all(numbers: Iterable[int]) -> Tally:
    """Judge the cases of many numbers and the example networks, on two cores."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # a process that has used the runtime is not forked
        return sum(pool.map(judge_batch, numbers), example_networks())


def test_nothing_that_is_said_contradicts_another(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("a sweep of many minutes: make test-external runs it, tests/unit/test_the_proof.py a small part")
    tally = judge_all(range(BATCHES))
    TABLE.write_text(str(tally), encoding="utf-8")
    assert tally.wrong == {}
    assert tally.origins.total() >= CASES


def test_the_recorded_figures() -> None:
    head, *rest = TABLE.read_text(encoding="utf-8").splitlines()
    assert " 0 classes of contradictions that are not known" in head
    cells = (line.split("|")[1:3] for line in rest if line.startswith("| "))
    counts = {name.strip(): count.strip() for name, count in cells}
    assert all(int(counts[name]) > 0 for name in MET)
    assert int(head.split()[0]) >= 300

"""Ten thousand cases of the proof: graphs, samples and targets of which nothing that is said contradicts another.

The whole runs with `make test-external`, which writes the figures; `make test` reads them and judges the first three
hundred (tests/unit/test_the_proof.py).
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tabulate import tabulate

from aneforge.commands.demo_networks import NETWORKS, network
from proof_cases import NAMES, Case, draw_batch
from proof_tools import KNOWN, MET, judge

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = Path(__file__).parent / "cases.md"
CASES, BATCHES = 10_000, 545
"""Batches have twenty cases, less those of graphs without inputs."""


@dataclass
class Tally:
    """What came of some cases."""

    origins: Counter[str] = field(default_factory=Counter[str])
    met: Counter[str] = field(default_factory=Counter[str])
    targets: Counter[str] = field(default_factory=Counter[str])
    wrong: dict[str, str] = field(default_factory=dict[str, str])
    """The classes of contradictions that are not known, each with the first case that has it."""

    def add(self, case: Case) -> None:
        """Judge one case."""
        try:
            found = judge(case)
        except Exception as error:  # noqa: BLE001 - the others are judged all the same
            self.wrong.setdefault(f"{type(error).__name__}: {str(error)[:200]}", str(case))
            return
        self.origins[case.origin] += 1
        self.targets.update(case.targets)
        self.met.update(found.met)
        for one in found.contradictions:
            if one.what not in KNOWN:
                self.wrong.setdefault(one.what, str(case))

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.origins + other.origins,
            self.met + other.met,
            self.targets + other.targets,
            {**other.wrong, **self.wrong},
        )

    def __str__(self) -> str:
        head = (
            f"{self.origins.total()} cases on {len(self.targets)} targets and chips: "
            f"{len(self.wrong)} classes of contradictions that are not known, {len(KNOWN)} that are"
        )
        origins = tabulate(sorted(self.origins.items()), ("graphs", "cases"), tablefmt="github")
        met = tabulate([(name, self.met[name]) for name in MET], ("what they have", "cases"), tablefmt="github")
        listed = "".join(f"- {what}: {case}\n" for what, case in sorted(self.wrong.items()))
        listed += "".join(f"- known: {what}: {reason}\n" for what, reason in sorted(KNOWN.items()))
        return f"{head}\n\n{origins}\n\n{met}\n" + (f"\n{listed}" if listed else "")


def judged(number: int) -> Tally:
    """Judge the cases of one number."""
    tally = Tally()
    for case in draw_batch(number):
        tally.add(case)
    return tally


def example_networks() -> Tally:
    """Judge the example networks, without samples, on a few targets each."""
    tally = Tally()
    for place, name in enumerate(NETWORKS):
        targets = tuple(NAMES[(7 * place + step) % len(NAMES)] for step in (0, 13, 29))
        tally.add(Case((-1, place), "example network", network(name), None, targets))
    return tally


def judge_all(numbers: Iterable[int]) -> Tally:
    """Judge the cases of many numbers and the example networks, on two cores."""
    with ProcessPoolExecutor(2) as pool:
        return sum(pool.map(judged, numbers), example_networks())


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

"""Ten thousand graphs for soundness, the share of idle answers, and every operation compiled for every family.

The whole runs with `make test-external`, which also writes the figures; `make test` reads them and draws a small part
(tests/unit/analysis).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from tabulate import tabulate

from aneforge.analysis.matrix import compile_matrix
from aneforge.ops.table import ops
from aneforge.testing.graphs import DrawnGraph, graphs, one_operation
from aneforge.testing.networks import networks
from divergence_tools import PAIRS, SLOW, Tally, fed, judged

if TYPE_CHECKING:
    from aneforge.ops.op import Op

FOLDER = Path(__file__).parent
MOST_IDLE = 0.4
WHOLE = {"networks": 9000, "operations of the table": 12000}
"""Drawn; of the second most do not run on both targets, so that ten thousand answers need more."""
AT_A_TIME = 250
"""Drawn with one seed: Hypothesis makes later graphs out of earlier ones, and thousands would be copies of few."""
OPERATION_SAMPLES = 6
FAMILIES = ("A13", "A14", "A15", "A16")
SWEEP = settings(deadline=None, database=None, derandomize=True, suppress_health_check=SLOW, phases=(Phase.generate,))


def whole(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("a sweep of many minutes: make test-external runs it, tests/unit/analysis a small part")


@pytest.mark.parametrize("corpus", WHOLE)
def test_whatever_differs_in_a_bit_was_not_none(corpus: str, request: pytest.FixtureRequest) -> None:
    whole(request)
    tally = Tally()
    for number in range(WHOLE[corpus] // AT_A_TIME):
        judge_some(networks() if corpus == "networks" else graphs(most=3), number, tally)
    rows = [(verdict, "yes" if shown else "no", count) for (verdict, shown), count in sorted(tally.counts.items())]
    table = tabulate(rows, ("verdict", "shows a difference", "graphs"), tablefmt="github")
    (FOLDER / f"{corpus.split(maxsplit=1)[0]}.md").write_text(f"{tally}\n\n{table}\n", encoding="utf-8")
    assert tally.idle <= MOST_IDLE * tally.flagged, tally


def judge_some(strategy: st.SearchStrategy[DrawnGraph], number: int, tally: Tally) -> None:
    """Judge graphs that are drawn with one seed."""

    @seed(number)
    @settings(SWEEP, derandomize=False, max_examples=AT_A_TIME)
    @given(strategy.map(fed), st.sampled_from(PAIRS))
    def sweep(drawn: DrawnGraph, pair: tuple[str, str]) -> None:
        judged(drawn, pair, tally)

    sweep()


@pytest.mark.parametrize("corpus", WHOLE)
def test_the_recorded_share_of_idle_answers(corpus: str) -> None:
    first = (FOLDER / f"{corpus.split(maxsplit=1)[0]}.md").read_text(encoding="utf-8").splitlines()[0]
    flagged, idle = (int(first.split(mark)[0].split()[-1]) for mark in (" other than none", " ("))
    assert idle <= MOST_IDLE * flagged


def verdicts_on(op: Op) -> Counter[tuple[str, bool]]:
    """Compile samples of one operation for every family: count those that compile, look at the reasons of others."""
    found: Counter[tuple[str, bool]] = Counter()

    @settings(SWEEP, max_examples=OPERATION_SAMPLES)
    @given(one_operation(op).map(fed))
    def sweep(drawn: DrawnGraph) -> None:
        for entry in compile_matrix(drawn.graph).entries:
            assert entry.ok or all(entry.reasons)
            found[entry.family, entry.ok] += 1

    sweep()
    return found


def test_every_operation_compiles_or_says_why_for_every_family(request: pytest.FixtureRequest) -> None:
    whole(request)
    verdicts = {name: verdicts_on(op) for name, op in ops().items() if name not in {"input", "state"}}
    rows = [
        (name, *(f"{found[family, True]} of {found[family, True] + found[family, False]}" for family in FAMILIES))
        for name, found in verdicts.items()
    ]
    text = tabulate(rows, ("operation", *FAMILIES), tablefmt="github") + "\n"
    (FOLDER / "families.md").write_text(text, encoding="utf-8")
    assert sum(1 for row in rows if not row[4].startswith("0 ")) > len(rows) / 2

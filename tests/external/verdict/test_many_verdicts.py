"""Ten thousand graphs, each asked about at every door: one row of one table comes out.

The whole runs with `make test-external`, which also writes the figures; `make test` reads them and draws the first
three hundred (tests/unit/test_one_verdict.py).
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tabulate import tabulate

from verdict_tools import ROWS, ask, disagreements, draw_graph, target_of

FOLDER = Path(__file__).parent
GRAPHS = 10_000
AT_A_TIME = 500


def judged(first: int) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
    """Ask about some graphs: count them by row and origin, and name the first graph of every disagreement."""
    rows: Counter[tuple[str, str]] = Counter()
    wrong: dict[str, int] = {}
    for seed in range(first, first + AT_A_TIME):
        origin, graph = draw_graph(seed)
        found = ask(graph, target_of(seed))
        rows[found.row, origin.split()[0]] += 1
        for one in disagreements(found):
            wrong.setdefault(one, seed)
    return rows, wrong


def test_every_door_gives_the_same_row(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("a sweep of many minutes: make test-external runs it, tests/unit/test_one_verdict.py a small part")
    rows: Counter[tuple[str, str]] = Counter()
    wrong: dict[str, int] = {}
    with ProcessPoolExecutor(2) as pool:
        for some, others in pool.map(judged, range(0, GRAPHS, AT_A_TIME)):
            rows += some
            wrong = {**others, **wrong}
    origins = sorted({origin for _, origin in rows})
    table = [(row, *(rows[row, origin] for origin in origins)) for row in ROWS]
    text = tabulate(table, ("row", *origins), tablefmt="github")
    head = f"{GRAPHS} graphs, each on one target at every door: {len(wrong)} classes of disagreement"
    listed = "".join(f"\n- {one} (graph {seed})" for one, seed in sorted(wrong.items()))
    (FOLDER / "rows.md").write_text(f"{head}\n\n{text}\n{listed}", encoding="utf-8")
    assert wrong == {}


def test_the_recorded_sweep_has_every_row() -> None:
    lines = (FOLDER / "rows.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"{GRAPHS} graphs, each on one target at every door: ")
    counts = {cells[1].strip(): cells[2:-1] for line in lines if (cells := line.split("|"))[1:]}
    assert all(sum(int(count) for count in counts[row]) for row in ROWS)

"""Ten thousand graphs, each asked about at every door: one row of one table comes out.

The whole runs with `make test-external`, which also writes the figures; `make test` reads them and draws the first
three hundred (tests/unit/test_one_verdict.py).
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from tabulate import tabulate

from verdict_batches import ask_batch
from verdict_tools import ROWS

FOLDER = Path(__file__).parent
GRAPHS = 10_000
AT_A_TIME = 500


def test_every_door_gives_the_same_row(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("a sweep of many minutes: make test-external runs it, tests/unit/test_one_verdict.py a small part")
    rows: Counter[tuple[str, str]] = Counter()
    wrong: dict[str, int] = {}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # a process that has used the runtime is not forked
        for some, others in pool.map(partial(ask_batch, count=AT_A_TIME), range(0, GRAPHS, AT_A_TIME)):
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

"""Sixty draws of every operation through every writer, on a target of every family: what is read back has the bits.

The whole runs with `make test-external`, which writes the figures; `make test` reads them and draws a small part
(tests/unit/formats/test_written_bits.py).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tabulate import tabulate

from aneforge.ops.table import ops
from written_tools import FAMILIES, WRITERS, Outcome, draw_call, outcome_of

FOLDER = Path(__file__).parent
DRAWS = 60
WRONG = (Outcome.DIFFERENT, Outcome.NOT_AGAIN)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format_name", WRITERS)
def test_every_operation_sixty_times(format_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--refresh-results"):
        pytest.skip("a sweep of many minutes: make test-external runs it, tests/unit/formats a small part")
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for name, op in ops().items():
        for seed in range(DRAWS if name not in ("input", "state") else 0):
            drawn = draw_call(op, seed)
            if not drawn.graph.inputs:
                continue
            target = FAMILIES[seed % len(FAMILIES)]
            found = outcome_of(drawn, WRITERS[format_name], target, tmp_path / name / str(seed))
            counts[found] += 1
            if found in WRONG:
                wrong.append(f"{name}, draw {seed}, {target}: {found}")
    table = tabulate([(one, counts[one]) for one in Outcome], ("outcome", "graphs"), tablefmt="github")
    listed = "".join(f"\n- {one}" for one in wrong) or "\nNone differs, and none is refused once it was read back."
    (FOLDER / f"{format_name.replace(' ', '-')}.md").write_text(f"{table}\n{listed}\n", encoding="utf-8")
    assert wrong == []


@pytest.mark.parametrize("format_name", WRITERS)
def test_the_recorded_figures(format_name: str) -> None:
    text = (FOLDER / f"{format_name.replace(' ', '-')}.md").read_text(encoding="utf-8")
    cells = (line.split("|")[1:3] for line in text.splitlines() if line.startswith("|"))
    rows = {name.strip(): count.strip() for name, count in cells}
    assert int(rows[Outcome.SAME]) > 1000
    assert [rows[one] for one in WRONG] == ["0", "0"]

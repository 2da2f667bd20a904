"""The page of PyTorch's operators, from the tables that the external tests commit and check.

`tools/reference_pages.py` asks for it. The tables are read, not judged again: `make test-external` rewrites them.
"""

from __future__ import annotations

import csv
from pathlib import Path

from tabulate import tabulate

__all__ = ["torch_page"]

RESULTS = Path(__file__).parent.parent / "tests" / "external" / "torch" / "results"
WAYS = {
    "whole": "as `from_torch` takes a module",
    "core": "brought to core ATen by PyTorch's own table first",
}
COUNTS = ("equal", "drawn", "unsupported", "wrong", "broken")
INTRODUCTION = (
    "PyTorch's own samples of its operators, run by the external tests in double precision (in whole numbers where an "
    "operator takes no others). *equal*: the reference meaning of the imported graph gives PyTorch's numbers within "
    "1e-7. *drawn*: PyTorch itself gives other numbers with another seed, so that element type and shape are compared. "
    "*unsupported*: the import says so, for the reason that is given. Operators that are not listed were not run."
)
Row = dict[str, str]


def torch_page() -> str:
    """Return the page."""
    tables = {way: read_rows(way) for way in WAYS}
    headings = ("how", "operators", "equal on all samples", "samples", *COUNTS)
    parts = [
        "# PyTorch operators",
        INTRODUCTION,
        tabulate([way_row(way, rows) for way, rows in tables.items()], headings, tablefmt="github"),
    ]
    for way, rows in tables.items():
        parts += [
            f"## {WAYS[way][0].upper()}{WAYS[way][1:]}",
            tabulate([operation_row(row) for row in rows], ("operator", *COUNTS[:3], "why"), tablefmt="github"),
        ]
    return "\n\n".join(parts)


def read_rows(way: str) -> list[Row]:
    """Return the lines of a table."""
    with (RESULTS / f"{way}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def way_row(way: str, rows: list[Row]) -> tuple[object, ...]:
    """Return what became of all samples."""
    totals = {name: sum(int(row[name]) for row in rows) for name in COUNTS}
    whole = sum(all(row[name] == "0" for name in COUNTS[1:]) and row["equal"] != "0" for row in rows)
    return WAYS[way], len(rows), whole, sum(totals.values()), *totals.values()


def operation_row(row: Row) -> tuple[object, ...]:
    """Return one line of the table of operators."""
    return f"`{row['operation']}`", *(int(row[name]) or "" for name in COUNTS[:3]), row["reasons"]

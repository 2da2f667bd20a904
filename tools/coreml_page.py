"""The page of coremltools' operator cases, from the table that the external tests commit and check.

`tools/reference_pages.py` asks for it. The table is read, not judged again: `make test-external` rewrites it.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tabulate import tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["coreml_page"]

RESULTS = Path(__file__).parent.parent / "tests" / "external" / "coreml" / "results" / "operators.csv"
EQUAL, FIXED = "equal", "equal with parameters fixed"
PLUMBING = {"cast"}
"""Operations that stand at ports, and are counted where they are alone."""
INTRODUCTION = (
    "Cases of the operator tests that coremltools ships: a program, inputs, and the numbers that Core ML is expected "
    "to give. *equal*: the reference meaning of the program that was read gives them within the case's tolerances; "
    "where a program holds half precision, four steps of it are allowed. *parameters fixed*: an input that decides a "
    "shape or a place was given by `values`. A case counts for every operation of its program."
)


def coreml_page() -> str:
    """Return the page."""
    with RESULTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    outcomes: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    operations: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        cases = int(row["cases"])
        outcomes[row["outcome"]] += cases
        if row["reason"]:
            reasons[row["outcome"], row["reason"]] += cases
        names = set(row["operators"].split())
        for name in names - PLUMBING or names:
            operations[name][row["outcome"]] += cases
    others = [
        (name, sum(counts.values()), counts[EQUAL], counts[FIXED], sum(counts.values()) - counts[EQUAL] - counts[FIXED])
        for name, counts in sorted(operations.items())
    ]
    return "\n\n".join([
        "# Core ML operators",
        INTRODUCTION,
        "## By outcome",
        markdown(("outcome", "cases"), list(outcomes.most_common())),
        "## Why cases are not equal",
        markdown(("outcome", "reason", "cases"), [(*key, count) for key, count in sorted(reasons.items())]),
        "## By operation",
        markdown(("operation", "cases", "equal", "parameters fixed", "other"), others),
    ]) + "\n"  # fmt: skip


def markdown(headings: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """Return a table."""
    return tabulate(rows, headings, tablefmt="github")

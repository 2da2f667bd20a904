"""The page of ONNX's conformance cases by operator, from the tables that the external tests commit and check.

`tools/reference_pages.py` asks for it. The tables are read, not judged again: `make test-external` rewrites them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tabulate import tabulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["onnx_page"]

RESULTS = Path(__file__).parent.parent / "tests" / "external" / "onnx" / "results"
KINDS = {
    "node": "one operator each, and the functions that define operators",
    "simple": "small models",
    "pytorch-operator": "single operators, exported by PyTorch",
    "pytorch-converted": "layers, exported by PyTorch",
    "real": "whole networks without their trained weights",
}
EQUAL = ("equal", "equal with parameters fixed", "equal and known when read")
EXPANDED = re.compile(r"_expanded(_\w+)?$")
INTRODUCTION = (
    "Every case that the onnx package ships, run by the external tests. *equal*: the reference meaning of the imported "
    "graph gives the expected numbers within the case's own tolerances. *parameters fixed*: an input that decides a "
    "shape (a list of axes, a target shape) was given by `values`. *known when read*: shapes and parameters alone "
    "decide the result. *as function*: how many of the cases are the function by which ONNX defines the operator. A "
    "case that is not equal is *unsupported* for one of eight reasons; none is wrong, and none breaks the importer."
)
NOTE = (
    "*Drawn* are cases whose expected numbers were drawn at random: element type, shape and range are compared. "
    "*Rounded* are cases whose expected numbers NumPy computed in single precision, further from the truth than their "
    "tolerance."
)
KIND_HEADINGS = ("kind", "what", "cases", "equal", "unsupported", "other")
OPERATOR_HEADINGS = (
    "operator", "cases", "as function", "equal", "parameters fixed", "known when read", "other", "unsupported",
)  # fmt: skip
Row = dict[str, str]


def onnx_page() -> str:
    """Return the page."""
    tables = {kind: read_rows(kind) for kind in KINDS}
    return "\n\n".join([
        "# ONNX operators",
        INTRODUCTION,
        "## By kind of case",
        markdown(KIND_HEADINGS, [kind_row(kind, tables[kind]) for kind in KINDS]),
        NOTE,
        "## Why cases are unsupported",
        markdown(("reason", "cases", "operators"), reason_rows([row for rows in tables.values() for row in rows])),
        "## By operator",
        markdown(OPERATOR_HEADINGS, operator_rows(tables["node"])),
    ])  # fmt: skip


def read_rows(kind: str) -> list[Row]:
    """Return the lines of a kind's table."""
    with (RESULTS / f"{kind}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kind_row(kind: str, rows: Sequence[Row]) -> tuple[object, ...]:
    """Return what became of all cases of a kind."""
    counts = Counter(row["outcome"] for row in rows)
    equal = sum(counts[outcome] for outcome in EQUAL)
    unsupported = counts["unsupported"]
    return kind, KINDS[kind], len(rows), equal, unsupported, len(rows) - equal - unsupported


def reason_rows(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Return how many cases each reason stops, and of which operators."""
    by_reason: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["reason"]:
            by_reason[row["reason"]].append(row)
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(reason, len(found), ", ".join(sorted({subject(row, {}) for row in found}))) for reason, found in ordered]


def operator_rows(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """Return what became of the cases of each operator."""
    plain = {row["case"]: row for row in rows if not EXPANDED.search(row["case"])}
    by_operator: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_operator[subject(row, plain)].append(row)
    return [operator_row(name, found) for name, found in sorted(by_operator.items())]


def subject(row: Row, plain: Mapping[str, Row]) -> str:
    """Return the operator that a case is about: a function's case is about the operator that it defines."""
    base = plain.get(EXPANDED.sub("", row["case"]), row)
    operators = base["operators"].split()
    return operators[0] if len(operators) == 1 or base is not row else "several together"


def operator_row(name: str, rows: Sequence[Row]) -> tuple[object, ...]:
    """Return one line of the table of operators."""
    counts = Counter(row["outcome"] for row in rows)
    known = [counts[outcome] or "" for outcome in EQUAL]
    others = [
        f"{count} {short(outcome)}" for outcome, count in counts.items() if outcome not in (*EQUAL, "unsupported")
    ]
    reasons = Counter(row["reason"] for row in rows if row["reason"])
    stopped = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    functions = sum(bool(EXPANDED.search(row["case"])) for row in rows)
    return f"`{name}`", len(rows), functions or "", *known, ", ".join(others), stopped


def short(outcome: str) -> str:
    """Return a rare outcome in a word."""
    return {"drawn at random": "drawn", "equal but for the expectation's own rounding": "rounded"}.get(outcome, outcome)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return tabulate(cells, headings, tablefmt="github", disable_numparse=True)

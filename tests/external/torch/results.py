"""The committed tables of what became of PyTorch's samples.

*whole* has the operators that a user calls, *core* the forms of core ATen that they come down to.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from external.torch.samples import core_forms, operation_names
from external.torch.yardstick import NOT_STATIC, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from external.torch.yardstick import Tally

__all__ = ["WAYS", "counts", "is_equal", "names_of", "read_results", "results_text", "table_of"]

WAYS = ("whole", "core")
RESULTS = Path(__file__).parent / "results"


def names_of(way: str) -> tuple[str, ...]:
    """Return what a table has lines of, in order."""
    return operation_names() if way == "whole" else tuple(core_forms())


def table_of(way: str) -> Path:
    """Return the file of a table."""
    return RESULTS / f"{way}.csv"


def results_text(tallies: Iterable[Tally]) -> str:
    """Return a table as it is committed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("operation", *Outcome, "reasons"))
    writer.writerows(one.row for one in tallies)
    return text.getvalue()


def read_results(way: str) -> dict[str, tuple[str, ...]]:
    """Return the lines that are committed, by operation."""
    with table_of(way).open(encoding="utf-8", newline="") as file:
        lines = [tuple(row) for row in csv.reader(file)][1:]
    return {line[0]: line for line in lines}


def counts(row: Sequence[str]) -> dict[Outcome, int]:
    """Return how many samples of a line had which outcome."""
    return dict(zip(Outcome, map(int, row[1 : 1 + len(Outcome)]), strict=True))


def is_equal(row: Sequence[str]) -> bool:
    """Return whether all static samples of a line are equal, and there are some."""
    found = counts(row)
    static = sum(found.values()) - count_of(row[-1], NOT_STATIC)
    return found[Outcome.EQUAL] == static > 0


def count_of(reasons: str, reason: str) -> int:
    """Return how often a reason is given in a line.

    >>> count_of("3 training; 12 data-dependent shapes", "data-dependent shapes")
    12
    """
    return sum(int(one.partition(" ")[0]) for one in reasons.split("; ") if one.partition(" ")[2] == reason)

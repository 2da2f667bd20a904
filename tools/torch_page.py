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
    "whole": "Operators as a user calls them",
    "core": "Forms of core ATen",
}
COUNTS = ("equal", "drawn", "unsupported", "wrong", "broken")
NOT_STATIC = "data-dependent shapes"
"""The reason of samples whose shapes are not known before they run."""
INTRODUCTION = (
    "PyTorch's own samples of its operators, run by the external tests in double precision (in integers where an "
    "operator takes no others). *equal*: the reference meaning of the imported graph gives PyTorch's numbers within "
    "1e-7. *drawn*: numbers are drawn at random, or never written, so that element type and shape are compared. "
    "*unsupported*: the import says so, for the reason that is given. Operators that are not listed were not run."
)
CORE = (
    "The samples of a form of core ATen are the calls of it that PyTorch makes when it runs the samples of all "
    "operators through its own decompositions, and those of the operator of its name that it takes as they are. Of a "
    "longer list 64 samples are taken, spread evenly. Forms that none of PyTorch's samples come down to have samples "
    "of our own, in tests/external/torch/own_samples.py, and are marked \\*. A form without a number is about lengths, "
    "which are numbers and no tensors. Complex numbers go into a graph and come out as pairs of real ones."
)
OWN_SAMPLED = (
    "aten._adaptive_avg_pool2d_backward.default",
    "aten._embedding_bag.default",
    "aten._native_batch_norm_legit_no_training.default",
    "aten.atan2.out",
    "aten.avg_pool2d_backward.default",
    "aten.col2im.default",
    "aten.convolution_backward.default",
    "aten.embedding_dense_backward.default",
    "aten.native_dropout.default",
    "aten.native_group_norm_backward.default",
    "aten.native_layer_norm_backward.default",
    "aten.randperm.default",
    "aten.upsample_bilinear2d.vec",
    "aten.upsample_nearest2d.vec",
)
"""Forms that are judged by samples of our own; a test compares the list with the samples."""
Row = dict[str, str]


def torch_page() -> str:
    """Return the page."""
    tables = {way: read_rows(way) for way in WAYS}
    headings = ("what", "listed", "equal on all static samples", "samples", *COUNTS)
    parts = [
        "# PyTorch operators",
        INTRODUCTION,
        CORE,
        tabulate([way_row(way, rows) for way, rows in tables.items()], headings, tablefmt="github"),
    ]
    for way, rows in tables.items():
        parts += [
            f"## {WAYS[way]}",
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
    return WAYS[way], len(rows), sum(map(is_equal, rows)), sum(totals.values()), *totals.values()


def is_equal(row: Row) -> bool:
    """Return whether all static samples of a line are equal, and there are some."""
    reasons = [one.partition(" ") for one in row["reasons"].split("; ")]
    moving = sum(int(count) for count, _, reason in reasons if reason == NOT_STATIC)
    return int(row["equal"]) == sum(int(row[name]) for name in COUNTS) - moving > 0


def operation_row(row: Row) -> tuple[object, ...]:
    """Return one line of the table of operators."""
    mark = " \\*" if row["operation"] in OWN_SAMPLED else ""
    return f"`{row['operation']}`{mark}", *(int(row[name]) or "" for name in COUNTS[:3]), row["reasons"]

"""Findings of several chips in the words of readers: chips by name, counted once, what holds for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge.report import check, outcome
from aneforge.report.finding_texts import chips_text, closing_line, evidence_by_chip, limit_text
from aneforge.report.grouping import count_findings, fold_results
from aneforge.report.headline import result_rows, shop_message

if TYPE_CHECKING:
    from aneforge.report.model import Report

OLD = ["h13", "h13g", "h14", "h14g", "h15", "h15g"]


@pytest.fixture(scope="module")
def report() -> Report:
    wide = af.input((1, 8, 1, 17_000), name="x").relu()
    return check(wide, [*OLD, "h16g"])


def test_chips_are_named_in_full(report: Report) -> None:
    assert chips_text(report, ["h13", "h13g"]) == "M1/Pro/Max/Ultra, A14"
    assert chips_text(report, OLD) == "all chips but M4/Pro/Max"
    assert chips_text(report, [*OLD, "h16g"]) == "all chips"


def test_what_holds_for_several_chips_is_said_of_the_engine(report: Report) -> None:
    folded = fold_results(report)[0]
    together = shop_message(report, folded.first.finding, folded.first.targets)
    assert together.startswith("Axis 3 of result 0 is 17000 long; the engine takes at most 16384 ")
    alone = shop_message(report, folded.first.finding)
    assert alone in {together.replace("the engine", one) for one in ("M1", "M2", "M3", "A15")}
    assert limit_text(folded.first.finding) == "", "the message has both numbers"


def test_a_finding_counts_once_however_it_is_known(report: Report) -> None:
    kinds = evidence_by_chip(report, fold_results(report)[0].first).split("; ")
    assert len(kinds) > 1, "it is measured on some chips and not on others"
    assert all(kind.partition(": ")[0] in {"M1/Pro/Max/Ultra, A14", "M2/Pro/Max/Ultra, A15", "others"} or
               kind.startswith("M3") for kind in kinds)  # fmt: skip
    shown = sum(1 + len(one.others) for one in fold_results(report))
    assert shown == count_findings(report) == 2
    assert closing_line(report, outcome(report)).startswith("failed: 2 of 2 findings (2 oversize)")


def test_a_row_has_the_interval_of_its_time_and_the_whole_of_a_reason() -> None:
    (row,) = result_rows(check(af.topk(af.input((1, 64), name="x"), 5)[0], ["h13", "h13g"]))
    assert row.chips == "all 5 chips"
    assert row.reason == "topk needs the A14 family or a later one; the engine is of the A13 family."
    fine = result_rows(check(af.input((1, 8), name="x").relu(), ["h13"]))[0]
    low, high = (float(text) for text in fine.time.partition("(")[2].rstrip(")").split("-"))
    assert low < float(fine.time.split()[0]) < high

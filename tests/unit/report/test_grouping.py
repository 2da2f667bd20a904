"""Findings that stand together, and the share of the time that they take together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.checking import CheckOptions, check
from aneforge.report.grouping import fold_results, fold_target
from aneforge.report.tables import markdown

if TYPE_CHECKING:
    from aneforge.report.model import Report

RULE = "ANE-FLOOR-003"


@pytest.fixture(scope="module", name="report")
def checked() -> Report:
    """Return the report of a network with the same finding three times, one of them in a layer of its own."""
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float16)
    x = af.input((1, 16, 64, 64), name="x")
    for _ in range(3):
        x = af.conv(x, weights).sin()
    return check(x, ["m1", "m2"])


def test_the_share_of_findings_that_stand_together_is_their_sum(report: Report) -> None:
    (together,) = [one for one in fold_results(report) if one.first.finding.rule == RULE]
    assert len(together.others) == 2
    for target, share in zip(report.targets, together.shares, strict=True):
        found = [one for one in target.findings if one.rule == RULE]
        nodes = {one.node for one in found}
        total = sum(one.duration for one in target.timeline)
        spent = sum(one.duration for one in target.timeline if nodes & set(one.nodes))
        assert share == round(spent / total, 2)
        assert max(one.share or 0.0 for one in found) < share <= 1


def test_the_page_and_markdown_say_the_same_share(report: Report) -> None:
    (together,) = [one for one in fold_results(report) if one.first.finding.rule == RULE]
    for target, share in zip(report.targets, together.shares, strict=True):
        groups = {target.findings[one.numbers[0]].rule: one for one in fold_target(target)}
        assert groups[RULE].share == share
        numbers = sorted(number for one in fold_target(target) for number in one.numbers)
        assert numbers == list(range(len(target.findings)))
    low, high = min(together.shares), max(together.shares)
    words = f"{high:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low * 100:.0f}-{high:.0%}"
    assert f"({RULE}, {words} of the time)" in markdown(report)


def test_what_differs_in_a_family_alone_is_one_finding() -> None:
    report = check(af.input((1, 8), name="x").sin(), ["m1", "m2"])
    limits = {one.limit for target in report.targets for one in target.findings if one.rule == RULE}
    (folded,) = [one for one in fold_results(report) if one.first.finding.rule == RULE]
    assert (len(limits), len(folded.first.targets)) == (2, 2)


def test_core_ml_has_another_time_than_a_direct_dispatch() -> None:
    graph = af.input((1, 8, 64, 64), name="x").sin()
    direct, other = (check(graph, "m1", CheckOptions(path=path)).targets[0] for path in ("direct", "coreml"))
    assert any(one.share is not None for one in direct.findings)
    assert not any(one.share is not None for one in other.findings)

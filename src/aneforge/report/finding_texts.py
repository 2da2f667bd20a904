"""The words of findings and of an outcome, as every form of a report says them: chips, evidence, what counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aneforge.report.grouping import group_findings
from aneforge.report.headline import counting, findings_text, shop_names
from aneforge.report.model import SPLIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.report.gate import Outcome
    from aneforge.report.grouping import Grouped
    from aneforge.report.model import Report

__all__ = ["chips_text", "closing_line", "evidence_by_chip", "listed", "names_once"]

SHOWN_NAMES = 6


def listed(names: Sequence[str]) -> str:
    """Return names, the first few of many.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def names_once(names: Iterable[str]) -> list[str]:
    """Return names, each once, with how often it comes: one node of a file can become many operations.

    >>> names_once(["a", "b", "a"])
    ['a (2)', 'b']
    """
    return [name if count == 1 else f"{name} ({count})" for name, count in Counter(names).items()]


def chips_text(report: Report, targets: Sequence[str]) -> str:
    """Return the chips that a finding is about, by their shop names."""
    everywhere = len(report.targets) > 1 and {target.target for target in report.targets} == set(targets)
    return "all chips" if everywhere else listed(shop_names(report, targets))


def evidence_by_chip(report: Report, group: Grouped, *, whole: bool = False) -> str:
    """Return how a finding is known; where that differs between targets, each with its chips."""
    found: dict[str, list[str]] = {}
    for target in report.targets:
        for one in target.findings if target.target in group.targets else ():
            if (one.rule, one.severity, one.node) == (group.finding.rule, group.finding.severity, group.finding.node):
                text = str(one.evidence) if whole and one.evidence is not None else one.evidence_text
                found.setdefault(text, []).append(target.target)
    if len(found) <= 1:
        return next(iter(found), group.finding.evidence_text)
    return "; ".join(f"{listed(shop_names(report, targets))}: {text}" for text, targets in found.items())


def closing_line(report: Report, result: Outcome) -> str:
    """Return whether a report passes, and if not, what counts, in the words of --fail-on.

    >>> import aneforge as af
    >>> from aneforge.report import check, outcome
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> closing_line(report, outcome(report))
    'failed: 2 of 2 findings (2 oversize); --fail-on reject lets splitting pass'
    """
    apart = [f"{result.known} known from the baseline"] if result.known else []
    apart += [f"{findings_text(result.doubted)} with weaker evidence than asked for"] if result.doubted else []
    known = f" ({', '.join(apart)})" if apart else ""
    if result.ok:
        return f"passed{known}"
    lets = "; --fail-on reject lets splitting pass" if splits_alone(report, result) else ""
    return f"failed: {counting(result, len(group_findings(report)))}{known}{lets}"


def splits_alone(report: Report, result: Outcome) -> bool:
    """Return whether nothing is against a model but that the compiler has to split something in it."""
    return set(result.counts) == {"oversize"} and any(one.runs == SPLIT for one in report.targets)

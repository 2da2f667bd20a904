"""The words of findings and of an outcome, as every form of a report says them: chips, evidence, what counts."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, cast

from aneforge.display import number_of
from aneforge.report.finding_keys import has_limit
from aneforge.report.grouping import count_findings
from aneforge.report.headline import SHORT, counting, named_chips
from aneforge.report.model import SPLIT
from aneforge.rules.rule import plain_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from aneforge.report.gate import Outcome
    from aneforge.report.grouping import Grouped
    from aneforge.report.model import Report
    from aneforge.rules.rule import Finding

__all__ = ["chips_text", "closing_line", "evidence_by_chip", "limit_text", "names_once", "shorten_names"]

SHOWN_NAMES = 6


def shorten_names(names: Sequence[str]) -> str:
    """Return names, the first few of many.

    >>> shorten_names(["a", "b"]), shorten_names(list("abcdefgh"))
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


def chips_text(report: Report, targets: Collection[str]) -> str:
    """Return the chips that a finding is about, by their shop names; of nearly all, those that do not have it."""
    others = [one.target for one in report.targets if one.target not in targets]
    if not others and len(report.targets) > 1:
        return "all chips"
    named, without = named_chips(report, targets), f"all chips but {named_chips(report, others)}"
    return named if len(named) <= len(without) else without


def evidence_by_chip(report: Report, group: Grouped, *, whole: bool = False) -> str:
    """Return how a finding is known; where that differs between targets, each with its chips, most of them last."""
    found: dict[str, list[str]] = {}
    for target in report.targets:
        for one in target.findings if target.target in group.targets else ():
            if (one.rule, one.severity, one.node) == (group.finding.rule, group.finding.severity, group.finding.node):
                text = str(one.evidence) if whole and one.evidence is not None else one.evidence_text
                found.setdefault(text, []).append(target.target)
    if len(found) <= 1:
        return next(iter(found), group.finding.evidence_text)
    named = sorted(((named_chips(report, targets), text) for text, targets in found.items()), key=name_length)
    *first, (most, last) = named
    return "; ".join(
        [*(f"{chips}: {text}" for chips, text in first), f"{most if len(most) <= SHORT else 'others'}: {last}"]
    )


def name_length(named: tuple[str, str]) -> int:
    """Return the length of names, by which texts about few chips come before those about many."""
    return len(named[0])


def limit_text(finding: Finding) -> str:
    """Return the value and its limit, where they are numbers and the message has not said both already."""
    if not has_limit(finding):
        return ""
    said = set(re.findall(r"[\d.]*\d(?:e[+-]\d+)?", finding.message))
    seen, limit = (plain_text(cast("float", one)) for one in (finding.seen, finding.limit))
    return "" if {seen, limit} <= said else f"got {seen}, limit {limit}"


def closing_line(report: Report, result: Outcome) -> str:
    """Return whether a report passes, and if not, what counts, in the words of --fail-on.

    >>> import aneforge as af
    >>> from aneforge.report import check, outcome
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> closing_line(report, outcome(report))
    'failed: 2 of 2 findings (2 oversize); --fail-on reject lets splitting pass'
    """
    apart = [f"{result.known} known from the baseline"] if result.known else []
    apart += [f"{number_of(result.doubted, 'finding')} with weaker evidence than asked for"] if result.doubted else []
    known = f" ({', '.join(apart)})" if apart else ""
    if result.ok:
        return f"passed{known}"
    return f"failed: {counting(result, count_findings(report))}{known}{way_out(report, result)}"


def way_out(report: Report, result: Outcome) -> str:
    """Return what lets a model pass that only splitting fails; an option that makes it fit comes first."""
    if not splits_alone(report, result):
        return ""
    split = [one for one in report.targets if one.runs == SPLIT]
    fitting = {next((change.option for change in one.changes if change.fits), "") for one in split}
    fits = f"{fitting.pop()} makes it fit, " if len(fitting) == 1 and "" not in fitting else ""
    return f"; {fits}--fail-on reject lets splitting pass"


def splits_alone(report: Report, result: Outcome) -> bool:
    """Return whether nothing is against a model but that the compiler has to split something in it."""
    return set(result.counts) == {"oversize"} and any(one.runs == SPLIT for one in report.targets)

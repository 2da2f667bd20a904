"""Findings that several targets share, reported once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.records import dataclass
from aneforge.report.finding_keys import counted_key, kind_of, shared_key
from aneforge.report.time_shares import time_share
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.report.model import Report, TargetReport
    from aneforge.rules.rule import Finding

__all__ = [
    "COSTLY",
    "Folded",
    "FoldedHere",
    "Grouped",
    "count_findings",
    "fold_results",
    "fold_target",
    "group_findings",
    "how_bad",
]

COSTLY = 0.05
"""From this share of the time on, a finding comes before those that are about less, whatever their severity."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """One finding, and all targets that have it."""

    finding: Finding
    targets: tuple[str, ...]
    node: str
    """The name of the node that it is about; empty for the whole."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A finding that several operations of one kind share, reported once."""

    first: Grouped
    others: tuple[str, ...]
    """Names of the other operations."""
    shares: tuple[float, ...] = ()
    """The share of the time that all of them take together, on every target where it is known."""


@dataclass(frozen=True, slots=True)
class FoldedHere:
    """Findings of one target that are reported as one."""

    numbers: tuple[int, ...]
    """Their places among the findings of the target, the worst first."""
    share: float | None
    """The share of the time that they take together."""


def group_findings(report: Report) -> tuple[Grouped, ...]:
    """Return the findings of all targets, worst first, each once with the targets that have it.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> wide = af.input((1, 8, 1, 17_000), name="x").relu()
    >>> [(one.finding.rule, len(one.targets), one.node) for one in group_findings(check(wide, af.targets.Family.A13))]
    [('ANE-EXTENT-001', 1, 'relu_1'), ('ANE-EXTENT-001', 1, 'x')]
    """
    found: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for target in report.targets:
        for one in target.findings:
            first, targets = found.setdefault(shared_key(one), (one, []))
            if (one.share or 0.0) > (first.share or 0.0):
                found[shared_key(one)] = (one, targets)
            targets.append(target.target)
    ranked = sorted(found.values(), key=lambda pair: how_bad(pair[0]))
    return tuple(
        Grouped(finding, tuple(targets), report.nodes[finding.node].name if finding.node is not None else "")
        for finding, targets in ranked
    )


def count_findings(report: Report) -> int:
    """Return the number of findings, as readers count them: an operation has one for each rule and limit.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> count_findings(check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15))
    2
    """
    return len({counted_key(one) for target in report.targets for one in target.findings})


def how_bad(finding: Finding, together: float | None = None) -> tuple[object, ...]:
    """Return what findings are sorted by, worst first: what cannot run, what costs most time, the severity.

    `together` is the share of the time of all findings that are reported with this one.

    >>> from aneforge.rules.rule import Finding
    >>> def found(severity, share):
    ...     return Finding(rule="", severity=severity, op="", location=None, message="", seen=None, limit=None,
    ...                    remedy="", evidence=None, share=share)
    >>> some = [found(Severity.OVERSIZE, 0.01), found(Severity.INFO, 0.8), found(Severity.REJECT, None)]
    >>> [str(one.severity) for one in sorted(some, key=how_bad)]
    ['reject', 'info', 'oversize']
    """
    share = together or finding.share or 0.0
    order = {str(severity): severity.rank for severity in Severity}
    costly = share if share >= COSTLY else 0.0
    return finding.severity != Severity.REJECT, -costly, order[finding.severity], finding.node or 0, finding.rule


def fold_results(report: Report) -> tuple[Folded, ...]:
    """Return the findings of all targets, worst first, those of one rule, severity and limit as one.

    The targets are all that have it for one of the operations, however it is known there.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> wide = af.input((1, 8, 1, 17_000), name="x").relu()
    >>> [(one.first.node, one.others) for one in fold_results(check(wide, af.targets.Family.A15))]
    [('relu_1', ('x',))]
    """
    found: dict[tuple[object, ...], list[Grouped]] = {}
    for one in group_findings(report):
        found.setdefault((*kind_of(one.finding), one.finding.op), []).append(one)
    folded = [folded_results(report, same) for same in join_operations(found.values())]
    return tuple(sorted(folded, key=lambda one: how_bad(one.first.finding, max(one.shares, default=None))))


def fold_target(target: TargetReport) -> tuple[FoldedHere, ...]:
    """Return the findings of one target, worst first, those of one kind together."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, finding in enumerate(target.findings):
        kinds.setdefault(kind_of(finding), []).append(number)
    found = [FoldedHere(tuple(numbers), share_of([target.findings[one] for one in numbers], target))
             for numbers in kinds.values()]  # fmt: skip
    return tuple(sorted(found, key=lambda one: how_bad(target.findings[one.numbers[0]], one.share)))


def share_of(findings: Sequence[Finding], target: TargetReport) -> float | None:
    """Return the share of the time of a target that findings of one rule are about together; None if unknown."""
    nodes = {one.node for one in findings if one.share is not None}
    return time_share(target.timeline, nodes, findings[0].rule) if nodes else None


def join_operations(groups: Iterable[list[Grouped]]) -> list[list[Grouped]]:
    """Return groups of findings, those of one rule, severity, limit and targets together, whatever their operations."""
    found: dict[tuple[object, ...], list[Grouped]] = {}
    for same in groups:
        finding = same[0].finding
        targets = frozenset(target for one in same for target in one.targets)
        found.setdefault((*kind_of(finding), targets), []).extend(same)
    return list(found.values())


def folded_results(report: Report, same: Sequence[Grouped]) -> Folded:
    """Return findings as one: the worst of them, its targets, and the names of the other operations."""
    first = same[0]
    having = {target for one in same for target in one.targets}
    targets = tuple(dict.fromkeys(one.target for one in report.targets if one.target in having))
    others = dict.fromkeys((one.finding.node, one.node or one.finding.op) for one in same)
    return Folded(
        Grouped(first.finding, targets, first.node),
        tuple(name for node, name in others if (node, name) != (first.finding.node, first.node or first.finding.op)),
        shares_of(report, same),
    )


def shares_of(report: Report, same: Sequence[Grouped]) -> tuple[float, ...]:
    """Return the share of the time that findings are about together, on every target where it is known."""
    kinds = {(kind_of(one.finding), one.finding.op) for one in same}
    found: list[float] = []
    for target in report.targets:
        here = [one for one in target.findings if (kind_of(one), one.op) in kinds]
        share = share_of(here, target) if here else None
        found += [] if share is None else [share]
    return tuple(found)

"""Findings that several targets share, reported once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.report.gate import shared_key
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from aneforge.report.model import Report
    from aneforge.rules.rule import Finding

__all__ = ["Folded", "Grouped", "fold_findings", "group_findings"]


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


def group_findings(report: Report) -> tuple[Grouped, ...]:
    """Return the findings of all targets, worst first, each once with the targets that have it.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> wide = af.input((1, 8, 1, 17_000), name="x").relu()
    >>> [(one.finding.rule, len(one.targets), one.node) for one in group_findings(check(wide, af.targets.Family.A13))]
    [('ANE-EXTENT-001', 1, 'x'), ('ANE-EXTENT-001', 1, 'relu_1')]
    """
    found: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for target in report.targets:
        for one in target.findings:
            found.setdefault(shared_key(one), (one, []))[1].append(target.target)
    order = {str(severity): severity.rank for severity in Severity}
    ranked = sorted(found.values(), key=lambda pair: (order[pair[0].severity], pair[0].node or 0, pair[0].rule))
    return tuple(
        Grouped(finding, tuple(targets), report.nodes[finding.node].name if finding.node is not None else "")
        for finding, targets in ranked
    )


def fold_findings(report: Report) -> tuple[Folded, ...]:
    """Return the findings of all targets, worst first.

    Those of one rule, limit and evidence on the same targets are one.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> wide = af.input((1, 8, 1, 17_000), name="x").relu().abs()
    >>> [(one.first.node, one.others) for one in fold_findings(check(wide, af.targets.Family.A15))]
    [('x', ('relu_1', 'abs_2'))]
    """
    found: dict[tuple[object, ...], tuple[Grouped, list[str]]] = {}
    for one in group_findings(report):
        key = (one.finding.rule, one.finding.severity, one.finding.limit, one.finding.evidence, one.targets)
        first, others = found.setdefault(key, (one, []))
        if first is not one:
            others.append(one.node or one.finding.op)
    return tuple(Folded(first, tuple(others)) for first, others in found.values())

"""`diff`: what changed between two reports of a model.

Operations of the two reports are matched by structure, then by name: `matching.py` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.records import dataclass
from aneforge.report.headline import shop_name
from aneforge.report.matching import match_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.report.model import Counts, Report, TargetReport
    from aneforge.rules.rule import Finding

__all__ = ["ReportDiff", "TargetDiff", "diff"]


@dataclass(frozen=True, slots=True)
class TargetDiff:
    """What changed on one target."""

    target: str
    chip: str
    """Its chip by the name that shops use."""
    before: Counts
    after: Counts
    new: tuple[Finding, ...]
    """Findings that only the second report has."""
    gone: tuple[Finding, ...]
    """Findings that only the first report has."""
    latency: tuple[float | None, float | None]
    """Microseconds, before and after."""
    segments: tuple[int, int]
    weight_bytes: tuple[int, int]
    peak: tuple[int, int]
    exactness: tuple[str, str]
    risk: tuple[str, str]

    @property
    def changed(self) -> bool:
        """Something is not as it was."""
        pairs = (self.latency, self.segments, self.weight_bytes, self.peak, self.exactness, self.risk)
        return bool(self.new or self.gone) or self.before != self.after or any(one != other for one, other in pairs)

    @property
    def worse(self) -> bool:
        """Something was found that was not there, or more operations are not native.

        A graph that became smaller has fewer of all, and is not worse for it.
        """
        return bool(self.new) or not_native(self.after) > not_native(self.before)


@dataclass(frozen=True, slots=True)
class ReportDiff:
    """What changed between two reports."""

    first: str
    second: str
    targets: tuple[TargetDiff, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    """Targets that one of the reports does not have."""
    nodes: tuple[int, int]
    """Operations of either report."""
    renamed: int = 0
    """Operations that are the same and have another name."""

    @property
    def changed(self) -> bool:
        """Something is not as it was; another name is not a change."""
        if self.nodes[0] != self.nodes[1]:
            return True
        return any(one.changed for one in self.targets) or bool(self.only_first or self.only_second)

    @property
    def worse(self) -> bool:
        """Something is worse on a target that both reports have."""
        return any(one.worse for one in self.targets)


def not_native(counts: Counts) -> int:
    """Return how many operations run as others, after splitting, or not at all."""
    return counts.decompose + counts.oversize + counts.reject


def diff(first: Report, second: Report) -> ReportDiff:
    """Return what changed from one report to another.

    >>> import aneforge as af
    >>> from aneforge.commands.checking import check
    >>> reports = [check(af.input((1, 8, 1, n), name="x").relu(), af.targets.Family.A15) for n in (16_384, 17_000)]
    >>> found = diff(*reports)
    >>> found.worse, [finding.rule for finding in found.targets[0].new]
    (True, ['ANE-EXTENT-001', 'ANE-EXTENT-001'])
    """
    left, right = by_name(first), by_name(second)
    same = match_nodes(first.nodes, second.nodes)
    return ReportDiff(
        first=first.model,
        second=second.model,
        targets=tuple(target_diff(left[name], right[name], same) for name in left if name in right),
        only_first=tuple(name for name in left if name not in right),
        only_second=tuple(name for name in right if name not in left),
        nodes=(first.operations, second.operations),
        renamed=sum(first.nodes[old].name != second.nodes[new].name for new, old in same.items()),
    )


def by_name(report: Report) -> Mapping[str, TargetReport]:
    """Return the targets of a report by name; the first of two of one name counts."""
    found: dict[str, TargetReport] = {}
    for one in report.targets:
        found.setdefault(one.target, one)
    return found


def target_diff(before: TargetReport, after: TargetReport, same: Mapping[int, int]) -> TargetDiff:
    """Return what changed on one target; `same` gives the operation of the first report for one of the second."""
    old = {finding_key(one, one.node): one for one in before.findings}
    new = {finding_key(one, None if one.node is None else same.get(one.node, -1)): one for one in after.findings}
    return TargetDiff(
        target=after.target,
        chip=shop_name(after),
        before=before.counts,
        after=after.counts,
        new=tuple(one for key, one in new.items() if key not in old),
        gone=tuple(one for key, one in old.items() if key not in new),
        latency=(microseconds(before), microseconds(after)),
        segments=(before.segments, after.segments),
        weight_bytes=(before.weight_bytes, after.weight_bytes),
        peak=(peak(before), peak(after)),
        exactness=(before.exactness, after.exactness),
        risk=(before.risk, after.risk),
    )


def finding_key(finding: Finding, node: int | None) -> tuple[object, ...]:
    """Return what identifies a finding in both reports; -1 is an operation that the first report does not have."""
    return finding.rule, finding.severity, finding.op, node, finding.seen


def microseconds(target: TargetReport) -> float | None:
    """Return the predicted time, where there is a program."""
    return None if target.latency is None else target.latency.microseconds


def peak(target: TargetReport) -> int:
    """Return the peak of on-chip memory."""
    return 0 if target.memory is None else target.memory.peak

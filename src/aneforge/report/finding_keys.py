"""What findings have in common: those that are reported once, folded into one, and counted as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aneforge.rules.rule import Finding

__all__ = ["counted_key", "has_limit", "kind_of", "shared_key"]


def shared_key(finding: Finding) -> tuple[object, ...]:
    """Return what findings of several targets that are reported once have in common.

    Their evidence is part of it: what was measured on one chip and inferred for another are two findings.
    """
    return finding.rule, finding.severity, finding.node, finding.seen, finding.limit, finding.evidence


def kind_of(finding: Finding) -> tuple[object, ...]:
    """Return what findings that are folded into one have in common: rule, severity, and a limit that is a number.

    What concerns a model as a whole has no operation to identify it by: there it is what was seen.
    """
    whole = finding.seen if finding.node is None else None
    return finding.rule, finding.severity, finding.limit if has_limit(finding) else None, whole


def counted_key(finding: Finding) -> tuple[object, ...]:
    """Return what findings that readers count as one have in common: their kind and the operation."""
    return *kind_of(finding), finding.op, finding.node


def has_limit(finding: Finding) -> bool:
    """Return whether what was seen and its limit are numbers, so that they say something."""
    return is_number(finding.seen) and is_number(finding.limit)


def is_number(value: object) -> bool:
    """Return whether a value is a number, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)

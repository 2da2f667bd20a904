"""Errors for what cannot be made legal: the rule that the layer breaks, in its own words, and why nothing helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.rules.catalogue import explain
from aneforge.rules.subject import Operation

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.rules.rule import Finding
    from aneforge.targets import Target

__all__ = ["finding", "operation_name", "refuse_layer"]


def operation_name(layer: Layer) -> str:
    """Return the name by which a user knows what a layer does."""
    return layer.kind.entry.name


def finding(layer: Layer, target: Target, rule: str) -> Finding | None:
    """Return what a rule finds in a layer, or nothing."""
    operation = Operation(
        operation_name(layer),
        operands=tuple(ref.type for _, ref in layer.refs()),
        results=layer.core_types,
        attributes=layer.attributes,
        location=layer.location,
    )
    return explain(rule).check(operation, target)


def refuse_layer(
    layer: Layer, target: Target, rule: str, reason: str, *, length: int | None = None
) -> NotSupportedError:
    """Return the error for a layer that breaks a rule and cannot be taken apart, with the reason why not.

    `length` is that of the axis that stops it, where it is an axis.
    """
    error = rule_error(layer, target, rule, reason)
    error.layer, error.obstacle, error.length = layer.name, reason, length
    return error


def rule_error(layer: Layer, target: Target, rule: str, reason: str) -> NotSupportedError:
    """Return the error of a rule about a layer."""
    found = finding(layer, target, rule)
    if found is None:  # the rule looks only at results, and an operand breaks it
        return NotSupportedError(
            f"{rule}: an operand is too large, and {reason}",
            operation=operation_name(layer),
            location=layer.location,
            seen=", ".join(str(ref.type) for _, ref in layer.refs()),
            limit=f"{target.fact(explain(rule).bound).value} ({explain(rule).bound})",
            target=target.name,
            remedy=explain(rule).advice(),
        )
    return IllegalGraphError.of(target.name, [f"{found} It cannot be split: {reason}"])

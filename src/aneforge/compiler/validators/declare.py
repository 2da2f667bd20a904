"""Declares a rule over layers: what it looks at is code; bound, operations and literal text are data.

A rule of a validator is a rule of the rule engine. Its subject has MIL's names, whether it was a node of a graph or a
layer of a program, so the same function judges both.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from aneforge.compiler.validators.data import validators_file
from aneforge.errors import DataFileError, UnknownNameError
from aneforge.rules.rule import Severity, rule
from aneforge.targets import Fact, Property
from aneforge.targets.database import plain, property_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.rules.rule import Look, Relation, Rule

__all__ = ["gate", "get_stated_limit", "layer_rule"]


def layer_rule(
    rule_id: str,
    relation: Relation,
    bound: str | Property | None = None,
    severity: Severity = Severity.REJECT,
) -> Callable[[Look], Rule]:
    """Declare a rule that the data names: it concerns the operations of the validators that apply it.

    The bound is a value of the target database, a gate of the data file, or, left out, the limit of the data's row.

    Raises:
        DataFileError: No row names the rule, or it has no bound.
    """
    ops = frozenset(op for _, concerned in validators_file().checks_of(rule_id) for op in concerned)
    if not ops:
        raise DataFileError(f"no validator applies the rule {rule_id}")
    return rule(
        rule_id, severity, bound=get_stated_limit(rule_id) if bound is None else bound, relation=relation, ops=ops
    )


def get_stated_limit(rule_id: str) -> Property:
    """Return the limit that the data gives for a rule, the same for all targets.

    Raises:
        DataFileError: It gives none.
    """
    default = validators_file().evidence
    for check, _ in validators_file().checks_of(rule_id):
        if check.limit is not None:
            fact = Fact(plain(check.limit), check.evidence(default))
            return Property(rule_id, "The limit that the validators' data give.", {"all": fact}, {})
    raise DataFileError(f"no row gives a limit for the rule {rule_id}")


@cache
def gates() -> dict[str, Property]:
    """Return the facts of the data file that differ between targets."""
    return {name: property_of(name, entry) for name, entry in validators_file().gates.items()}


def gate(name: str) -> Property:
    """Return a fact that differs between targets and is stored with the validators.

    >>> gate("compressible_kernel_bits").facts["all"].value
    8

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in gates():
        raise UnknownNameError.of("gate", name, gates())
    return gates()[name]

"""All rules, found by looking into the modules of `checks/`: a rule is registered by being declared there."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError, UnknownNameError
from aneforge.rules import checks
from aneforge.rules.rule import Finding, Rule
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from aneforge.rules.subject import Subject

__all__ = ["check", "explain", "rules", "rules_in", "rules_of"]


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by its id, in the order of ids.

    >>> print(rules()["ANE-EXTENT-001"].severity)
    oversize
    """
    return rules_of(checks)


def rules_of(package: ModuleType) -> Mapping[str, Rule]:
    """Return the rules that the modules of a package declare, by id and in the order of ids.

    Raises:
        ValueError: Two rules have one id.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return rules_in(importlib.import_module(f"{package.__name__}.{name}") for name in names)


def rules_in(modules: Iterable[ModuleType]) -> Mapping[str, Rule]:
    """Return the rules that modules declare, by id and in the order of ids.

    >>> from aneforge.rules.checks import port_rules
    >>> list(rules_in([port_rules]))
    ['ANE-PORT-001', 'ANE-PORT-002', 'ANE-STATE-001']

    Raises:
        ValueError: Two rules have one id.
    """
    found: dict[str, Rule] = {}
    for declared in (value for module in modules for value in vars(module).values()):
        if not isinstance(declared, Rule):
            continue
        if found.setdefault(declared.id, declared) is not declared:
            raise ValueError(f"two rules have the id {declared.id}")
    return dict(sorted(found.items()))


def check(subject: Subject, target: TargetLike = None) -> list[Finding]:
    """Return what every rule finds in an operation on a target, worst first.

    >>> from aneforge.rules import Operation, TensorType
    >>> from aneforge.targets import Family
    >>> wide = Operation("relu", results=(TensorType((1, 8, 1, 17000)),))
    >>> [finding.rule for finding in check(wide, Family.A15)], check(wide, Family.A16)
    (['ANE-EXTENT-001'], [])

    Raises:
        NoDataError: The target is a name without data.
    """
    resolved = resolve(target)
    if not resolved.has_data:
        raise NoDataError(
            "the compiler knows this name and no source gives data for it",
            operation=subject.op,
            location=subject.location,
            target=resolved.name,
            remedy="`aneforge targets` marks those with data",
        )
    findings = (known.check(subject, resolved) for known in rules().values())
    return sorted((found for found in findings if found), key=lambda found: (found.severity.rank, found.rule))


def explain(rule_id: str) -> Rule:
    """Return a rule by its id, in any case.

    >>> print(explain("ane-extent-001").remedy)
    split the tensor along that axis, or move the long axis to the channels (axis 1 of a rank-4 tensor).

    Raises:
        UnknownNameError: There is no such rule.
    """
    found = rules().get(str(rule_id).upper())
    if found is None:
        raise UnknownNameError.of("rule", rule_id, rules())
    return found

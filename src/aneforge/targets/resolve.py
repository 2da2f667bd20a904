"""From whatever names a target (`"h17s"`, `"M4 Pro"`, `Family.A13`, `None`) to the target and the named chip."""

from __future__ import annotations

import operator
from typing import SupportsIndex, cast

from aneforge.errors import UnknownTargetError
from aneforge.targets.database import database
from aneforge.targets.family import Family, supports_mil
from aneforge.targets.host import detect_target
from aneforge.targets.names import FAMILY_PREFIX, chip, find_target, slug
from aneforge.targets.target import Kind, Place, Target

__all__ = ["GROUPS", "TargetLike", "group", "place_of", "resolve"]

TargetLike = Target | Place | Family | int | str | None
"""Anything that names a target; None is the host."""

GROUPS = {
    "all": "every silicon target with data",
    "shipping": "every target of a chip that is sold",
    "families": "one target per family that runs MIL",
    "known": "every name that a compiler knows",
}


def resolve(target: TargetLike = None) -> Target:
    """Return the target that something names.

    Accepted are a compiler name in any case, a chip by its shop name or by a device that has it, a `Family` or its
    number (its representative target), a `Target`, a `Place`, and None for the host. A name that a chip and a family
    have is the chip's; `family:` before it asks for the family.

    >>> [resolve(name).name for name in ("H17s", "m4", "M4 Pro", "m4-pro", Family.A16, 2, "a14", "family:a14")]
    ['h17s', 'h16g', 'h16g', 'h16g', 'h16s', 'h13', 'h13', 'h14']

    Raises:
        UnknownTargetError: The target name is unknown; also a `ValueError` and a `KeyError`.
    """
    match target:
        case Target():
            return target
        case Place():
            return target.target
        case None:
            return detect_target()
        case str():
            return find_target(target)
        case _:
            return representative(target)


def representative(family: Family | int) -> Target:
    """Return the target that stands for a documented family.

    Raises:
        UnknownTargetError: There is no family of that number.
    """
    number = family_number(family)
    if number not in set(Family):
        numbers = ", ".join(f"{known.value} ({known.name})" for known in Family)
        raise UnknownTargetError(f"unknown target family {family!r}; the families are {numbers}")
    return database().targets[database().representatives[Family(number)]]


def family_number(family: object) -> int | None:
    """Return the number of a family, of NumPy's integers too; None for what is not an integer."""
    if isinstance(family, bool) or not hasattr(type(family), "__index__"):
        return None
    return operator.index(cast("SupportsIndex", family))


def group(name: str) -> tuple[Target, ...]:
    """Return the targets of a group: `all`, `shipping`, `families` or `known`.

    >>> [target.name for target in group("families")]
    ['h13', 'h14', 'h15', 'h16s']

    Raises:
        UnknownTargetError: There is no such group.
    """
    targets = database().targets
    match name:
        case "known":
            return tuple(targets.values())
        case "all":
            return tuple(target for target in targets.values() if target.kind is Kind.SILICON and target.has_data)
        case "shipping":
            sold = {chip.target for chip in database().chips.values()}
            return tuple(target for target in targets.values() if target.name in sold)
        case "families":
            representatives = database().representatives.items()
            return tuple(targets[target] for family, target in representatives if supports_mil(family))
        case _:
            raise UnknownTargetError.of(
                "target group",
                name,
                GROUPS,
                remedy="`aneforge explain NAME` prints what is known of one target or chip",
            )


def place_of(target: TargetLike) -> Place:
    """Return the chip that something names, where it names one, and its target.

    A name of the compiler and a family name no chip.

    >>> from aneforge.targets import Family
    >>> [place_of(name).name for name in ("M4 Pro", "h16g", Family.A13, "soc:a14")]
    ['m4-pro', 'h16g', 'h13', 'a14']
    """
    if isinstance(target, Place):
        return target
    resolved = resolve(target)
    if not isinstance(target, str):
        return Place(resolved, None)
    key = slug(target)
    if key in database().targets or key.startswith(FAMILY_PREFIX):
        return Place(resolved, None)
    try:
        return Place(resolved, chip(target))
    except UnknownTargetError:
        return Place(resolved, None)

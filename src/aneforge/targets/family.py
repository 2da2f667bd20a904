"""The two family enumerations: the documented one of five values, and the compiler's own of eight."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError, UnknownTargetError

if TYPE_CHECKING:
    from aneforge.targets.target import Target

__all__ = ["MIN_FAMILY", "Family", "LegalityFamily", "family_of", "supports_mil"]


class Family(IntEnum):
    """The five capability families of the documented API.

    >>> print(Family.A16)
    5
    """

    OLDER = 1
    A13 = 2
    A14 = 3
    A15 = 4
    A16 = 5


class LegalityFamily(IntEnum):
    """`mlir::anec::Family`: what the compiler compares an operation's floor with.

    It decides only legality; limits, routes and costs come from a target's own parameters. The M4's targets
    read A15 here and have the limits of A16.

    >>> from aneforge.targets import resolve
    >>> resolve("m4").legality, resolve("m4").family
    (<LegalityFamily.A15: 4>, <Family.A16: 5>)
    """

    A11Legacy = 0
    A12 = 1
    A13 = 2
    A14 = 3
    A15 = 4
    A16 = 5
    A17 = 6
    A18 = 7


MIN_FAMILY = Family.A13
"""The lowest family that runs MIL programs: "MIL is only supported for H13+ ANE architectures"."""


def supports_mil(family: Family | int) -> bool:
    """Return whether a family runs MIL programs at all.

    >>> supports_mil(Family.OLDER), supports_mil(2)
    (False, True)

    Raises:
        UnknownTargetError: It is not a family.
    """
    if not isinstance(family, int) or isinstance(family, bool) or family not in set(Family):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        numbers = ", ".join(f"{one.value} ({one.name})" for one in Family)
        raise UnknownTargetError(f"unknown target family {family!r}; the families are {numbers}")
    return Family(family) >= MIN_FAMILY


def family_of(target: Target) -> Family:
    """Return the documented family of a target.

    >>> from aneforge.targets import resolve
    >>> family_of(resolve("m4")).name
    'A16'

    Raises:
        NoDataError: The target belongs to no family, or nothing is known of it.
    """
    if target.family is not None:
        return target.family
    raise NoDataError(
        f"{target.name!r} belongs to no documented family, so that nothing is compiled for it: "
        f"{target.summary.rstrip('.').lower()}",
        target=target.name,
        remedy='choose a target of a family: aneforge.targets.group("all") lists them',
    )

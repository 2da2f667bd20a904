"""Names of targets, chips and families as users write them, looked up without asking which machine this is.

Nothing is guessed: an unknown name is an error with the nearest names. Where a chip and a family have one name, as with
A14, the name without a prefix is the chip, as shops call it; the family has `family:` before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import UnknownTargetError
from aneforge.targets.database import database
from aneforge.targets.family import LegalityFamily

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.targets.target import Chip, Target

__all__ = ["EXAMPLES", "best_known", "chip", "find_target", "known_as", "title_of"]

CHIP_PREFIX, FAMILY_PREFIX, FAMILY_ENDING = "soc:", "family:", "-family"
LONGEST_NAME = 1000
EXAMPLES = {
    "old": "m1",
    "new": "m5",
    "pro": "m4-pro",
    "target": "h17",
    "large": "h17s",
    "family": "family:a14",
    "device": "iphone15pro",
}
"""For help texts: an early chip, a late one, one of several with one target; a target, a larger one; a family; a device
that has a chip."""


def find_target(name: str) -> Target:
    """Return the target that a compiler name, a chip, a device or a family name stands for.

    >>> [find_target(one).name for one in ("a14", "family:a14", "A14 family", "iPhone 15 Pro", "m4pro")]
    ['h13', 'h14', 'h14', 'h16', 'h16g']

    Raises:
        UnknownTargetError: The target name is unknown.
    """
    key = slug(text(name, "target"))
    targets, families = database().targets, family_readings()
    if key.startswith(CHIP_PREFIX):
        return targets[chip(key).target]
    if key.startswith(FAMILY_PREFIX):
        return targets[family_representative(key)]
    if key.endswith(FAMILY_ENDING) and key.removesuffix(FAMILY_ENDING) in families:
        return targets[families[key.removesuffix(FAMILY_ENDING)]]
    if key in targets:
        return targets[key]
    known = chip_of_key(key)
    if known is not None:
        return targets[known.target]
    if key in families:
        return targets[families[key]]
    raise UnknownTargetError.of(
        "target",
        name,
        [*targets, *chip_readings(), *(FAMILY_PREFIX + one for one in families)],
        remedy="`aneforge targets` lists every target and chip",
    )


def chip(name: str) -> Chip:
    """Return a chip by its shop name or by a device that has it, with its reported and its rule-derived target names.

    >>> m4 = chip("M4")
    >>> m4.reported, m4.naming_rule
    ('h16g', 'h16')

    Raises:
        UnknownTargetError: No chip has that name.
    """
    found = chip_of_key(slug(text(name, "chip")).removeprefix(CHIP_PREFIX))
    if found is None:
        raise UnknownTargetError.of("chip", name, (known.name for known in database().chips.values()))
    return found


def chip_of_key(key: str) -> Chip | None:
    """Return the chip that a name stands for, with and without the hyphens between its words."""
    readings = chip_readings()
    if key in readings:
        return readings[key]
    joined = key.replace("-", "")
    return next((known for spelling, known in readings.items() if spelling.replace("-", "") == joined), None)


def text(name: object, what: str) -> str:
    """Return a name that is text and not absurdly long.

    Raises:
        UnknownTargetError: It is something else.
    """
    if isinstance(name, str) and len(name) <= LONGEST_NAME:
        return name
    seen = f"text of {len(name)} characters" if isinstance(name, str) else type(name).__name__
    raise UnknownTargetError(
        f"this is not the name of a {what}", seen=seen, limit="the name of a target, chip or family"
    )


def slug(name: str) -> str:
    """Return a name as keys are spelt: lower case, words joined by hyphens.

    >>> slug(" M4  Pro "), slug("m4_pro")
    ('m4-pro', 'm4-pro')
    """
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())


def chip_readings() -> Mapping[str, Chip]:
    """Return every spelling that stands for a chip: its own, and the names of the devices that have it."""
    chips = database().chips.values()
    return {
        spelling: known
        for known in chips
        for spelling in (known.key, *known.aliases, *(slug(device) for device in known.devices))
    }


def family_readings() -> Mapping[str, str]:
    """Return every family name, documented or of the compiler's enumeration, with a target that stands for it.

    A documented family has its representative; a family of only the compiler (A17, A18) has the first target of
    the tier of that name.
    """
    data = database()
    documented = {family.name.lower(): target for family, target in data.representatives.items()}
    first_of_tier: dict[str, str] = {}
    for target in data.targets.values():
        if target.tier:
            first_of_tier.setdefault(target.tier.name, target.name)
    names = (family.name.lower() for family in LegalityFamily)
    return {name: first_of_tier[name] for name in names if name in first_of_tier} | documented


def family_representative(key: str) -> str:
    """Return the name of the target that stands for `family:NAME`."""
    families = family_readings()
    name = key.removeprefix(FAMILY_PREFIX)
    if name not in families:
        raise UnknownTargetError.of("target family", key, (FAMILY_PREFIX + known for known in families))
    return families[name]


def title_of(target: Target) -> str:
    """Return the chips that have a target's engine, as users call them."""
    return ", ".join(one.name for one in database().chips.values() if one.target == target.name)


def known_as(target: Target) -> str:
    """Return the chip by which a target is known best; empty where no chip has its engine."""
    return best_known(title_of(target).split(", "))


def best_known(chips: Sequence[str]) -> str:
    """Return the best known of some chips, in the order of a title: the one with the shortest name.

    The chips of desktops come after those of phones in a title, and are the better known.

    >>> best_known(["P9", "P9 Pro", "D4"])
    'D4'
    """
    return min(reversed(chips), key=len)

"""From whatever names a chip or a target to both: the chip, where one was named, and the target that it is."""

from __future__ import annotations

from aneforge.errors import UnknownTargetError
from aneforge.targets.database import database
from aneforge.targets.names import FAMILY_PREFIX, chip, slug
from aneforge.targets.resolve import TargetLike, resolve
from aneforge.targets.target import Place

__all__ = ["place_of"]


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

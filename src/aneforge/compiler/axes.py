"""Which of the engine's axes an axis of a tensor is: batch, channel, depth, height or width."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from aneforge.compiler.decisions import decision
from aneforge.errors import NotSupportedError

__all__ = ["Axis", "axis_of", "roles", "unit_axis"]

MOST_AXES = 5


class Axis(StrEnum):
    """The engine's axes."""

    BATCH = "N"
    CHANNEL = "C"
    DEPTH = "D"
    HEIGHT = "H"
    WIDTH = "W"


@cache
def roles(rank: int) -> tuple[Axis, ...]:
    """Return what each axis of a tensor is on the engine.

    >>> [str(role) for role in roles(3)]
    ['N', 'C', 'W']

    Raises:
        NotSupportedError: The engine does not have as many axes.
    """
    if rank == 0:
        return ()
    if rank > MOST_AXES:
        raise NotSupportedError("the engine has five axes", seen=f"rank {rank}", limit=MOST_AXES)
    return tuple(Axis(word) for word in decision(f"axis_roles_rank_{rank}").words())


def axis_of(role: Axis, rank: int) -> int | None:
    """Return which axis of a tensor is the engine's, if any is."""
    found = roles(rank)
    return found.index(role) if role in found else None


def unit_axis(axis: int, before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """Return the axis of `before` that a reshape made an axis of `after`, if it only adds or removes axes of length 1.

    >>> unit_axis(0, (1, 4, 8), (4, 8)), unit_axis(0, (2, 4), (8,))
    (1, None)
    """
    kept = [place for place, extent in enumerate(before) if extent != 1]
    seen = [place for place, extent in enumerate(after) if extent != 1]
    if [before[place] for place in kept] != [after[place] for place in seen] or axis not in seen:
        return None
    return kept[seen.index(axis)]

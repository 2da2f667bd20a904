"""How long a layer takes that is a program of its own: a line between the points at which it was measured.

The points are those of the documented heuristic, which takes the nearest and scales it with the work. With one
point left out, that prediction is off by a factor of 2.8 in the median, because the host takes most of the time. A line
between the neighbours is off by a factor of 1.4 (tests/unit/analysis/test_bridged.py).
"""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from aneforge.analysis.heuristic import host
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.analysis.heuristic import PointEntry

__all__ = ["OwnProgram", "between_points", "own_program"]

SPREAD = 0.51
"""Standard deviation of the logarithm of the error, points left out one by one."""


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """The time of a layer that is a program of its own."""

    microseconds: float
    spread: float
    """Standard deviation of the logarithm of its error."""


def own_program(op: str, work: int, dispatch: float) -> OwnProgram | None:
    """Return the time of a layer where a program takes `dispatch` to start; None for one that was not measured.

    One chip was measured. How much of a time follows the dispatch of another is not known, so all of it is scaled, and
    half of the scaling counts as unsure. So does half of how far the work is beyond the last point.

    >>> found = own_program("argmax", 512, 63.3)
    >>> found.microseconds, found.spread
    (90.6, 0.51)
    """
    constants = host()
    points = constants.layers.get(op)
    if points is None:
        return None
    ratio = dispatch / constants.dispatch
    beyond = max(1.0, work / max(point.work for point in points))
    spread = math.hypot(SPREAD, math.log(ratio) / 2, math.log(beyond) / 2)
    return OwnProgram(ratio * between_points(points, work), spread)


def between_points(points: Sequence[PointEntry], work: int) -> float:
    """Return the microseconds of some work: on the lines between points, on the last line beyond them.

    >>> from aneforge.analysis.heuristic import PointEntry
    >>> points = [PointEntry(work=100, microseconds=50.0), PointEntry(work=300, microseconds=90.0)]
    >>> between_points(points, 10), between_points(points, 200), between_points(points, 400)
    (50.0, 70.0, 110.0)
    """
    by_work = groupby(sorted(points, key=lambda point: point.work), key=lambda point: point.work)
    known = [(at, fmean(point.microseconds for point in group)) for at, group in by_work]
    first, last = known[0], known[-1]
    if work <= first[0] or len(known) == 1:
        return first[1] * max(1.0, work / first[0])
    (left, low), (right, high) = next((pair for pair in pairwise(known) if work <= pair[1][0]), known[-2:])
    slope = (high - low) / (right - left)
    return low + slope * (work - left) if work <= right else last[1] + max(slope, 0.0) * (work - right)

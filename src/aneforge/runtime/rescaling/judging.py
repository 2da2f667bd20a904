"""Whether a rescaled graph is better: on inputs as they are expected, and never worse on smaller or larger ones.

Inputs come in populations: samples and fresh ones like them; or, with declared ranges, those that are drawn evenly from
them and those around their middle. An output gains where its error falls on the mean of a population, and no set may
lose: what some sets show and others deny is luck of rounding. Probabilities of inputs that fill their ranges are nearly
all zeros, and say nothing of the sums that flat ones make; so a gain need not show on every population.

Inputs of other sizes only forbid. Errors can cancel: a product that rounds small terms to zero hides what the table of
an activation is off near zero, and shows it once it is rescaled. Behind a gate operands grow by the square of inputs.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aneforge.compiler.pipeline import build_program
from aneforge.engine.execution.run import prepare
from aneforge.runtime.rescaling.choosing import RESULT_STEP
from aneforge.runtime.rescaling.measuring import Whole, errors_of, results_of, rounding_of
from aneforge.runtime.rescaling.policy import policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]

__all__ = ["Change", "Expected", "Improvement", "OtherSizes", "changes_of", "improved", "left_of", "mean_growth"]


@dataclass(frozen=True, slots=True)
class Change:
    """The error of an output on one set of inputs, before and after."""

    before: float
    after: float
    floor: float = RESULT_STEP
    """Errors below it are none."""

    @property
    def growth(self) -> float:
        """By how much the error grew; infinite ones are alike.

        >>> [Change(*one).growth for one in ((0.01, 0.02), (1e-5, 1e-4), (math.inf, math.inf), (1.0, math.inf))]
        [2.0, 1.0, 1.0, inf]
        """
        return 1.0 if self.after == self.before else max(self.after, self.floor) / max(self.before, self.floor)

    @property
    def moved(self) -> float:
        """By which part of it the error changed, for better or worse.

        >>> [Change(*one).moved for one in ((0.5, 0.5), (0.5, 0.25), (0.0, 1.0), (math.inf, 0.5))]
        [0.0, 0.5, inf, inf]
        """
        if self.after == self.before:
            return 0.0
        if not self.before or math.inf in (self.after, self.before):
            return math.inf
        return abs(self.after / self.before - 1)

    @property
    def overflows(self) -> bool:
        """The error is infinite, and was not."""
        return self.before < self.after == math.inf


@dataclass(frozen=True, slots=True)
class Expected:
    """Inputs that gains must show on, with what the mathematics gives for them."""

    sets: Sequence[Sample]
    exact: Sequence[Sample]
    populations: int = 1
    """So many distributions the sets are of, in turns."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """What a change did to a graph: its errors now, where it is better, and how far the farthest error moved."""

    whole: Whole | None
    moved: float
    worse: frozenset[str] = frozenset()
    """Outputs that are worse, of those that were looked at until one was."""


def improved(before: Whole, graph: Graph, target: Target, expected: Expected) -> Improvement:
    """Return the errors of a graph that is better than before: no output is worse, and one at least has gained."""
    ready = prepare(build_program(graph, target))
    found: list[Mapping[str, float]] = []
    changes: dict[str, list[Change]] = {name: [] for name in before.errors}
    moved = 0.0
    for place, (inputs, exact) in enumerate(zip(expected.sets, expected.exact, strict=True)):
        found.append(errors_of(ready, inputs, exact))
        for name, error in found[-1].items():
            floor = rounding_of(exact[name]) * policy().loss.quiet
            changes[name].append(Change(before.errors[name][place], error, floor))
        moved = max(moved, *(one[-1].moved for one in changes.values()))
        worse = frozenset(name for name, one in changes.items() if one[-1].growth > policy().loss.one)
        if worse:
            return Improvement(None, moved, worse)
    parts = [(name, part) for name, one in changes.items() for part in parted(one, expected.populations)]
    worse = frozenset(name for name, part in parts if loses(part))
    better = not worse and any(gains(part) for _, part in parts)
    return Improvement(Whole.joined(ready, found) if better else None, moved, worse)


def parted(changes: Sequence[Change], populations: int) -> list[Sequence[Change]]:
    """Return the sets of each population."""
    return [changes[number::populations] for number in range(populations)]


def mean_growth(changes: Sequence[Change]) -> float:
    """Return by how much errors grew on the mean of the logarithms: large errors count no more than small ones.

    >>> mean_growth([Change(1.0, 2.0), Change(0.1, 0.05)]), mean_growth([Change(math.inf, 1.0), Change(1.0, 2.0)])
    (1.0, 0.0)
    """
    grown = [one.growth for one in changes]
    if not grown:
        return 1.0
    if 0.0 in grown or math.inf in grown:
        return math.inf if math.inf in grown else 0.0
    return math.exp(math.fsum(map(math.log, grown)) / len(grown))


def gains(changes: Sequence[Change]) -> bool:
    """Tell whether an error falls by as much as counts, on the mean of some sets.

    It falls on half of them at least, or on one by more than luck: by half of what is above a rounding. Of errors near
    the rounding more must be gone.

    >>> luck, same = Change(6e-4, 4e-4), Change(1.0, 1.0)
    >>> gains([luck, same]), gains([luck, same, same]), gains([Change(1.0, 0.99)]), gains([Change(6e-4, 5.4e-4)])
    (True, False, False, False)
    >>> gains([Change(math.inf, 1.0), *(Change(1.0, 1.0) for _ in range(9))])
    True
    """
    fallen = [one for one in changes if one.after < one.before]
    sure = 2 * len(fallen) >= len(changes) or any(one.after < one.before / 2 > RESULT_STEP for one in fallen)
    chosen = policy().gain
    near = statistics.median(one.before for one in changes) < chosen.near * RESULT_STEP
    return sure and mean_growth(changes) <= (chosen.near_part if near else chosen.part)


def loses(changes: Sequence[Change]) -> bool:
    """Tell whether an error grew by more than luck on some set, or by a little on the mean of all.

    >>> little, none = Change(0.1, 0.101), Change(0.1, 0.1)
    >>> loses([little, Change(0.1, 0.09)]), loses([little, none]), loses([Change(0.1, 0.2), Change(0.1, 0.001)])
    (False, True, True)
    """
    chosen = policy().loss
    return any(one.growth > chosen.one for one in changes) or mean_growth(changes) > chosen.mean


def left_of(before: Whole, after: Whole) -> float:
    """Return the part that is left of the errors of that output, of those that changed, which gained least."""
    lengths = [
        (math.hypot(*errors), math.hypot(*before.errors[name]))
        for name, errors in after.errors.items()
        if errors != before.errors[name]
    ]
    return max((now / then if now < then else 1.0 for now, then in lengths), default=1.0)


def changes_of(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], exact: Sequence[Sample]
) -> dict[str, list[Change]]:
    """Return for every output what became of its errors on every set; what stays below a rounding is none."""
    return {
        name: [
            Change(first, second, rounding_of(one[name]))
            for first, second, one in zip(before[name], after[name], exact, strict=True)
        ]
        for name in before
    }


@dataclass(slots=True)
class OtherSizes:
    """Inputs smaller or larger than those that gains show on; a graph is run on them once it has gained elsewhere."""

    target: Target
    sets: Sequence[Sample]
    unless: float
    """What brings errors elsewhere down to so much pays for lost bits."""
    paid: float = math.inf
    """By so much errors may grow then. What mends an infinite error pays for any."""
    larger: int = 0
    """The last so many of the sets are larger, where errors are near the rounding: only their mean tells."""
    exact: list[Sample] = field(default_factory=list["Sample"])
    """What the mathematics gives for each, once it was asked for."""
    errors: Whole | None = None
    """Of the graph as it is now, once they were asked for."""

    def worse(self, graph: Graph, now: Graph, gained: float) -> frozenset[str]:
        """Return the outputs of a graph that are worse with rescalings on these sets; if none is, those are kept.

        `gained` is the part that is left of errors elsewhere. It pays for lost bits, and for no overflow.
        """
        if not self.sets:
            return frozenset()
        if self.errors is None:
            self.exact = [results_of(graph, one) for one in self.sets]
            self.errors = Whole.of(graph, self.target, self.sets, self.exact)
        after = Whole.of(now, self.target, self.sets, self.exact)
        changes = changes_of(self.errors.errors, after.errors, self.exact)
        found = frozenset(
            name for name, one in changes.items() if self.loses(one, gained) or any(change.overflows for change in one)
        )
        if not found:
            self.errors = after
        return found

    def loses(self, changes: Sequence[Change], gained: float) -> bool:
        """Tell whether an error grew by more than luck, or than is paid for, on smaller or on larger inputs."""
        if gained <= self.unless:
            return gained > 0 and any(one.growth > self.paid for one in changes)
        smaller = len(changes) - self.larger
        return loses(changes[:smaller]) or mean_growth(changes[smaller:]) > policy().loss.one

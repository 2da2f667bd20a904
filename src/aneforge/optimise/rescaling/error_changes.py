"""Whether a rescaled graph is better: on inputs as they are expected, and never worse on smaller or larger ones.

Inputs come in populations: samples and fresh ones like them; or, with declared ranges, those that are drawn evenly from
them and those around their middle. An output gains where its error falls on the mean of a population, and no set may
lose: what some sets show and others deny is luck of rounding. Probabilities of inputs that fill their ranges are nearly
all zeros, and say nothing of the sums that flat ones make; so a gain need not show on every population.

Inputs of other sizes only forbid. Errors can cancel: a product that rounds small terms to zero hides what the table of
an activation is off near zero, and shows it once it is rescaled. After a gate operands grow by the square of inputs.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import field
from typing import TYPE_CHECKING, Any

from aneforge.optimise.rescaling.engine_errors import (
    GraphErrors,
    Ready,
    evaluate_exactly,
    measure_errors,
    measure_rounding,
)
from aneforge.optimise.rescaling.power_exponents import RESULT_STEP
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]

__all__ = [
    "ErrorChange", "Expected", "Improvement", "OtherSizes", "average_growth", "compare_graph", "measure_left",
    "pair_errors",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ErrorChange:
    """The error of an output on one set of inputs, before and after."""

    before: float
    after: float
    floor: float = RESULT_STEP
    """Errors below it are none."""

    @property
    def growth(self) -> float:
        """By how much the error grew; infinite ones are alike.

        >>> [ErrorChange(*one).growth for one in ((0.01, 0.02), (1e-5, 1e-4), (math.inf, math.inf), (1.0, math.inf))]
        [2.0, 1.0, 1.0, inf]
        """
        return 1.0 if self.after == self.before else max(self.after, self.floor) / max(self.before, self.floor)

    @property
    def moved(self) -> float:
        """By which part of it the error changed, for better or worse.

        >>> [ErrorChange(*one).moved for one in ((0.5, 0.5), (0.5, 0.25), (0.0, 1.0), (math.inf, 0.5))]
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
    """How many distributions the sets are of, in turns."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """What a change did to a graph: its errors now, where it is better, and how far the farthest error moved."""

    errors: GraphErrors | None
    moved: float
    worse: frozenset[str] = frozenset()
    """Outputs that are worse, of those that were looked at until one was."""


def compare_graph(before: GraphErrors, graph: Graph, target: Target, expected: Expected) -> Improvement:
    """Return the errors of a graph that is better than before: no output is worse, and one at least has gained."""
    ready = Ready.of(graph, target)
    found: list[Mapping[str, float]] = []
    changes: dict[str, list[ErrorChange]] = {name: [] for name in before.errors}
    moved = 0.0
    for place, (inputs, exact) in enumerate(zip(expected.sets, expected.exact, strict=True)):
        found.append(measure_errors(ready, inputs, exact))
        for name, error in found[-1].items():
            floor = measure_rounding(exact[name]) * policy().loss.quiet
            changes[name].append(ErrorChange(before.errors[name][place], error, floor))
        moved = max(moved, *(one[-1].moved for one in changes.values()))
        worse = frozenset(name for name, one in changes.items() if one[-1].growth > policy().loss.one)
        if worse:
            return Improvement(None, moved, worse)
    parts = [(name, part) for name, one in changes.items() for part in split_populations(one, expected.populations)]
    worse = frozenset(name for name, part in parts if loses(part))
    better = not worse and any(gains(part) for _, part in parts)
    return Improvement(GraphErrors.join(ready, found) if better else None, moved, worse)


def split_populations(changes: Sequence[ErrorChange], populations: int) -> list[Sequence[ErrorChange]]:
    """Return the sets of each population."""
    return [changes[number::populations] for number in range(populations)]


def average_growth(changes: Sequence[ErrorChange]) -> float:
    """Return by how much errors grew on the mean of the logarithms: large errors count no more than small ones.

    >>> average_growth([ErrorChange(1.0, 2.0), ErrorChange(0.1, 0.05)])
    1.0
    >>> average_growth([ErrorChange(math.inf, 1.0), ErrorChange(1.0, 2.0)])
    0.0
    """
    grown = [one.growth for one in changes]
    if not grown:
        return 1.0
    if 0.0 in grown or math.inf in grown:
        return math.inf if math.inf in grown else 0.0
    return math.exp(math.fsum(map(math.log, grown)) / len(grown))


def gains(changes: Sequence[ErrorChange]) -> bool:
    """Return whether an error falls by as much as counts, on the mean of some sets.

    It falls on half of them at least, or on one by more than luck: by half of what is above a rounding. Of errors near
    the rounding more must be gone.

    >>> luck, same = ErrorChange(6e-4, 4e-4), ErrorChange(1.0, 1.0)
    >>> gains([luck, same]), gains([luck, same, same])
    (True, False)
    >>> gains([ErrorChange(1.0, 0.99)]), gains([ErrorChange(6e-4, 5.4e-4)])
    (False, False)
    >>> gains([ErrorChange(math.inf, 1.0), *(ErrorChange(1.0, 1.0) for _ in range(9))])
    True
    """
    fallen = [one for one in changes if one.after < one.before]
    sure = 2 * len(fallen) >= len(changes) or any(one.after < one.before / 2 > RESULT_STEP for one in fallen)
    chosen = policy().gain
    near = statistics.median(one.before for one in changes) < chosen.near * RESULT_STEP
    return sure and average_growth(changes) <= (chosen.near_part if near else chosen.part)


def loses(changes: Sequence[ErrorChange]) -> bool:
    """Return whether an error grew by more than luck on some set, or by a little on the mean of all.

    >>> little, none = ErrorChange(0.1, 0.101), ErrorChange(0.1, 0.1)
    >>> loses([little, ErrorChange(0.1, 0.09)]), loses([little, none])
    (False, True)
    >>> loses([ErrorChange(0.1, 0.2), ErrorChange(0.1, 0.001)])
    True
    """
    chosen = policy().loss
    return any(one.growth > chosen.one for one in changes) or average_growth(changes) > chosen.mean


def measure_left(before: GraphErrors, after: GraphErrors) -> float:
    """Return the part that is left of the errors of that output, of those that changed, which gained least."""
    lengths = [
        (math.hypot(*errors), math.hypot(*before.errors[name]))
        for name, errors in after.errors.items()
        if errors != before.errors[name]
    ]
    return max((now / then if now < then else 1.0 for now, then in lengths), default=1.0)


def pair_errors(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], exact: Sequence[Sample]
) -> dict[str, list[ErrorChange]]:
    """Return for every output what became of its errors on every set; what stays below a rounding is none."""
    return {
        name: [
            ErrorChange(first, second, measure_rounding(one[name]))
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
    """A rescaling that leaves at most this part of the errors elsewhere may lose bits here."""
    paid: float = math.inf
    """How much errors may grow then. One that removes an infinite error may increase them by any amount."""
    larger: int = 0
    """The last so many of the sets are larger, where errors are near the rounding: only their mean decides."""
    exact: list[Sample] = field(default_factory=list["Sample"])
    """What the mathematics gives for each, once it was asked for."""
    errors: GraphErrors | None = None
    """Of the graph as it is now, once they were asked for."""

    def find_worse(self, graph: Graph, now: Graph, gained: float) -> frozenset[str]:
        """Return the outputs of a graph that are worse with rescalings on these sets; if none is, those are kept.

        `gained` is the part that is left of errors elsewhere. It pays for lost bits, and for no overflow.
        """
        if not self.sets:
            return frozenset()
        if self.errors is None:
            self.exact = [evaluate_exactly(graph, one) for one in self.sets]
            self.errors = GraphErrors.measure(graph, self.target, self.sets, self.exact)
        after = GraphErrors.measure(now, self.target, self.sets, self.exact)
        changes = pair_errors(self.errors.errors, after.errors, self.exact)
        found = frozenset(
            name for name, one in changes.items() if self.loses(one, gained) or any(change.overflows for change in one)
        )
        if not found:
            self.errors = after
        return found

    def loses(self, changes: Sequence[ErrorChange], gained: float) -> bool:
        """Return whether an error grew by more than luck, or than is paid for, on smaller or on larger inputs."""
        if gained <= self.unless:
            return gained > 0 and any(one.growth > self.paid for one in changes)
        smaller = len(changes) - self.larger
        return loses(changes[:smaller]) or average_growth(changes[smaller:]) > policy().loss.one

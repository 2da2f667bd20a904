"""Whether a rescaled graph is better: on inputs as they are expected, and never worse on smaller ones.

Inputs come in populations: samples and fresh ones like them; or, with declared ranges, those that are drawn evenly from
them and those around their middle. A gain must show on every set of the last population, for one that some sets show
and others do not is luck of rounding. The others must not lose: probabilities of inputs that fill their ranges are
nearly all zeros, and say nothing of the sums that flat ones make.

Smaller inputs only forbid. Errors can cancel: a product that rounds small terms to zero hides what the table of an
activation is off near zero, and shows it once it is rescaled.
"""

from __future__ import annotations

import math
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

__all__ = ["Change", "Expected", "Improvement", "Smaller", "changes_of", "improved", "left_of"]


@dataclass(frozen=True, slots=True)
class Change:
    """The error of an output on one set of inputs, before and after."""

    before: float
    after: float
    rounding: float = RESULT_STEP
    """The error that rounding the result to fp16 can make by itself."""

    @property
    def growth(self) -> float:
        """By how much the error grew; what stays below a rounding of the result is none, and infinite ones are alike.

        >>> [Change(*one).growth for one in ((0.01, 0.02), (1e-5, 1e-4), (math.inf, math.inf), (1.0, math.inf))]
        [2.0, 1.0, 1.0, inf]
        """
        if self.after == self.before:
            return 1.0
        return max(self.after, self.rounding) / max(self.before, self.rounding)

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
    def is_gain(self) -> bool:
        """The error is smaller by as much as counts; infinite ones are alike, and so are those of nothing.

        >>> [Change(*one).is_gain for one in ((1.0, 0.5), (1.0, 0.999), (math.inf, 1.0), (0.0, 0.0))]
        [True, False, True, True]
        """
        part, alike = policy().smaller.part, self.before in (0.0, math.inf) and self.after == self.before
        return alike or self.after <= self.before * part


@dataclass(frozen=True, slots=True)
class Expected:
    """Inputs that gains must show on, with what the mathematics gives for them."""

    sets: Sequence[Sample]
    exact: Sequence[Sample]
    populations: int = 1
    """So many distributions the sets are of, in turns: with two, every second set is one that gains must show on."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """What a change did to a graph: its errors now, where all are better, and how far the farthest error moved."""

    whole: Whole | None
    moved: float


def improved(before: Whole, graph: Graph, target: Target, expected: Expected) -> Improvement:
    """Return the errors of a graph that are better than those before; none as soon as one set of inputs forbids it."""
    ready = prepare(build_program(graph, target))
    found: list[Mapping[str, float]] = []
    changes: dict[str, list[Change]] = {name: [] for name in before.errors}
    moved = 0.0
    for place, (inputs, exact) in enumerate(zip(expected.sets, expected.exact, strict=True)):
        found.append(errors_of(ready, inputs, exact))
        for name, error in found[-1].items():
            changes[name].append(Change(before.errors[name][place], error, rounding_of(exact[name])))
        moved = max(moved, *(one[-1].moved for one in changes.values()))
        if not all(may_gain(one, expected.populations) for one in changes.values()):
            return Improvement(None, moved)
    after = Whole.joined(ready, found)
    lost = any(loses(part) for one in changes.values() for part in parted(one, expected.populations))
    return Improvement(None if lost or after.errors == before.errors else after, moved)


def changes_of(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], exact: Sequence[Sample]
) -> list[list[Change]]:
    """Return for every output what became of its errors on every set."""
    return [
        [
            Change(first, second, rounding_of(one[name]))
            for first, second, one in zip(before[name], after[name], exact, strict=True)
        ]
        for name in before
    ]


def may_gain(changes: Sequence[Change], populations: int) -> bool:
    """Tell whether the errors of an output so far are all the same, or fall on the last population and grow on no set.

    What changes no output at all gains nothing either, and the next inputs may show that it changes one for the worse;
    that is the caller's to see.

    >>> same, smaller, larger = Change(1.0, 1.0), Change(1.0, 0.5), Change(1.0, 2.0)
    >>> may_gain([same, smaller], 1), may_gain([same, smaller], 2)
    (False, True)
    >>> may_gain([larger, smaller], 2), may_gain([smaller, same], 2)
    (False, False)
    """
    if all(one.before == one.after for one in changes):
        return True
    if any(one.growth > policy().loss.one for one in changes):
        return False
    return all(one.is_gain for one in parted(changes, populations)[-1])


def parted(changes: Sequence[Change], populations: int) -> list[Sequence[Change]]:
    """Return the sets of each population."""
    return [changes[number::populations] for number in range(populations)]


def loses(changes: Sequence[Change]) -> bool:
    """Tell whether an error grew by more than luck on some set, or by a little on the mean of all.

    The mean is that of the logarithms: a set of large errors counts no more than one of small ones.

    >>> little, none = Change(0.1, 0.101), Change(0.1, 0.1)
    >>> loses([little, Change(0.1, 0.09)]), loses([little, none]), loses([Change(0.1, 0.2), Change(0.1, 0.001)])
    (False, True, True)
    """
    grown = [one.growth for one in changes]
    return any(one > policy().loss.one for one in grown) or math.prod(grown) > policy().loss.mean ** len(grown)


def left_of(before: Whole, after: Whole) -> float:
    """Return the part that is left of the errors of that output, of those that changed, which gained least."""
    lengths = [
        (math.hypot(*errors), math.hypot(*before.errors[name]))
        for name, errors in after.errors.items()
        if errors != before.errors[name]
    ]
    return max((now / then if now < then else 1.0 for now, then in lengths), default=1.0)


@dataclass(slots=True)
class Smaller:
    """Inputs smaller than those that gains must show on; a graph is run on them once it has gained elsewhere."""

    target: Target
    sets: Sequence[Sample]
    unless: float
    """What brings errors elsewhere down to so much is not forbidden; with 0 only what mends an infinite error."""
    exact: list[Sample] = field(default_factory=list["Sample"])
    """What the mathematics gives for each, once it was asked for."""
    errors: Whole | None = None
    """Of the graph as it is now, once they were asked for."""

    def forbid(self, graph: Graph, now: Graph, gained: float) -> bool:
        """Tell whether an output of a graph is worse with rescalings on any of the sets; if not, those are kept.

        `gained` is the part that is left of errors elsewhere.
        """
        if not self.sets:
            return False
        if self.errors is None:
            self.exact = [results_of(graph, one) for one in self.sets]
            self.errors = Whole.of(graph, self.target, self.sets, self.exact)
        after = Whole.of(now, self.target, self.sets, self.exact)
        changes = changes_of(self.errors.errors, after.errors, self.exact)
        if gained > self.unless and any(map(loses, changes)):
            return True
        self.errors = after
        return False

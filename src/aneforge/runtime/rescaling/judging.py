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
from aneforge.runtime.rescaling.measuring import Whole, errors_of, results_of
from aneforge.runtime.rescaling.policy import policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Pairs = Sequence[tuple[float, float]]

__all__ = ["Expected", "Improvement", "Smaller", "growth", "improved", "left_of"]


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
    moved = 0.0
    for place, pair in enumerate(zip(expected.sets, expected.exact, strict=True)):
        found.append(errors_of(ready, *pair))
        moved = max(moved, *(moved_by(error, before.errors[name][place]) for name, error in found[-1].items()))
        if not all(may_gain(pairs, expected.populations) for pairs in pairs_of(before, found)):
            return Improvement(None, moved)
    after = Whole.joined(ready, found)
    pairs = pairs_of(before, found)
    lost = any(loses(part) for one in pairs for part in parted(one, expected.populations))
    return Improvement(None if lost or after.errors == before.errors else after, moved)


def pairs_of(before: Whole, found: Sequence[Mapping[str, float]]) -> list[Pairs]:
    """Return for every output its errors before and after, on the sets that were tried so far."""
    return [[(before.errors[name][place], one[name]) for place, one in enumerate(found)] for name in found[0]]


def may_gain(pairs: Pairs, populations: int) -> bool:
    """Tell whether the errors of an output so far are all the same, or fall on the last population and grow on no set.

    What changes no output at all gains nothing either, and the next inputs may show that it changes one for the worse;
    that is the caller's to see.

    >>> may_gain([(1.0, 1.0), (1.0, 0.5)], 1), may_gain([(1.0, 1.0), (1.0, 0.5)], 2)
    (False, True)
    >>> may_gain([(1.0, 2.0), (1.0, 0.5)], 2), may_gain([(1.0, 0.5), (1.0, 1.0)], 2)
    (False, False)
    """
    if all(before == after for before, after in pairs):
        return True
    if any(growth(before, after) > policy().loss.one for before, after in pairs):
        return False
    return all(is_smaller(after, before) for before, after in parted(pairs, populations)[-1])


def parted(pairs: Pairs, populations: int) -> list[Pairs]:
    """Return the sets of each population."""
    return [pairs[number::populations] for number in range(populations)]


def growth(before: float, after: float) -> float:
    """Return by how much an error grew; what stays below a rounding of the result is none, and infinite ones are alike.

    >>> growth(0.01, 0.02), growth(1e-5, 1e-4), growth(float("inf"), float("inf")), growth(1.0, float("inf"))
    (2.0, 1.0, 1.0, inf)
    """
    return 1.0 if after == before else max(after, RESULT_STEP) / max(before, RESULT_STEP)


def loses(pairs: Pairs) -> bool:
    """Tell whether an error grew by more than luck on some set, or by a little on the mean of all.

    The mean is that of the logarithms: a set of large errors counts no more than one of small ones.

    >>> loses([(0.1, 0.101), (0.1, 0.09)]), loses([(0.1, 0.101), (0.1, 0.1)]), loses([(0.1, 0.2), (0.1, 0.001)])
    (False, True, True)
    """
    grown = [growth(*pair) for pair in pairs]
    return any(one > policy().loss.one for one in grown) or math.prod(grown) > policy().loss.mean ** len(grown)


def is_smaller(after: float, before: float) -> bool:
    """Tell whether an error is smaller by as much as counts; infinite ones are alike, and so are those of nothing.

    >>> is_smaller(0.5, 1.0), is_smaller(0.999, 1.0), is_smaller(1.0, float("inf")), is_smaller(0.0, 0.0)
    (True, False, True, True)
    """
    return after <= before * policy().smaller.part or after == before == 0.0 or after == before == math.inf


def moved_by(after: float, before: float) -> float:
    """Return by which part of it an error changed, for better or worse.

    >>> moved_by(0.5, 0.5), moved_by(0.25, 0.5), moved_by(1.0, 0.0), moved_by(0.5, float("inf"))
    (0.0, 0.5, inf, inf)
    """
    if after == before:
        return 0.0
    return math.inf if not before or math.inf in (after, before) else abs(after / before - 1)


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
        pairs = [list(zip(errors, after.errors[name], strict=True)) for name, errors in self.errors.errors.items()]
        if gained > self.unless and any(map(loses, pairs)):
            return True
        self.errors = after
        return False

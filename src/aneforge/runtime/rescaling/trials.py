"""What a trial of a product or norm is: tried alone on the engine with what it read, and worth it or not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.ops.constant import Constant
from aneforge.runtime.rescaling.choosing import RESULT_STEP
from aneforge.runtime.rescaling.measuring import Measured
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.report import ProductRescaling, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Value
    from aneforge.runtime.rescaling.observing import Observed
    from aneforge.runtime.rescaling.rewriting import Scaling
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Read = Mapping[tuple[Node, int], Array]

__all__ = [
    "GRID_COSTS_NOTHING",
    "NO_ROOM",
    "Situation",
    "Trial",
    "applied",
    "as_it_was",
    "by_channel",
    "compared",
    "exact_result",
    "first_worth",
    "growth_of",
    "is_worth",
    "left",
    "mends",
    "not_tried",
    "not_worth",
]

WINOGRAD_GROWTH = 4.0
"""A transformed column of data is at most twice, and the four of weights together twice, what they are made of."""
WINOGRAD_WIDTH = 3
GRID_COSTS_NOTHING = "the grid of the accumulator costs it nothing"
NO_ROOM = "the edges leave no room"


@dataclass(frozen=True, slots=True)
class Situation:
    """What all trials share."""

    graph: Graph
    target: Target
    observed: Observed
    """What the exponents are chosen by, seen or proven."""
    safety: int
    by_samples: bool
    """Sizes of single channels are known, for samples were given."""
    small: Callable[[], Sequence[Read]]
    """What operands are for inputs far smaller than their declared ranges; runs the graph when it is first asked."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a rescaling gave: a report for each of its products, and the rescaling, where it is worth it."""

    reports: tuple[ProductRescaling, ...]
    scaling: Scaling | None
    only_mends: bool = False
    """It shows no gain, and is for sums that may pass the edge with other inputs."""

    @property
    def gain(self) -> float:
        """The part of the error that is left."""
        return min((one.error_after / one.error_before for one in self.reports if one.error_before), default=1.0)


def first_worth(trials: Iterator[Trial]) -> Trial:
    """Return the first trial that is worth it, and the first of all where none is; later ones are made on demand.

    Trials are of one product, each with what it read for another sample. What gains for one may lose for another; that
    is told by the whole graph, which is judged on all of them.
    """
    first = next(trials)
    if first.scaling is not None:
        return first
    return next((one for one in trials if one.scaling is not None), first)


def by_channel(values: Array, axis: int) -> Array:
    """Return the root mean square of every place of an axis."""
    others = tuple(place for place in range(values.ndim) if place != axis)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.mean(np.square(values), axis=others))


def growth_of(weights: Value) -> float:
    """Return by how much partial sums may grow where a convolution takes the Winograd form."""
    shape = weights.type.shape
    return WINOGRAD_GROWTH if len(shape) > 2 and shape[-1] == WINOGRAD_WIDTH else 1.0


def exact_result(node: Node, values: Mapping[str, Array]) -> Array:
    """Return the result of a node in float64, given its tensors."""
    operands = {
        name: value.dense().astype(np.float64) if isinstance(value, Constant) else values[name]
        for name, value in node.operands.items()
        if not isinstance(value, tuple)
    }
    with np.errstate(over="ignore", invalid="ignore"):  # an operand that was seen to be infinite shows in the error
        return node.op.evaluate(cast("Any", operands), node.attributes)[0]


def is_worth(before: Measured, after: Measured, *, longer: bool = False) -> bool:
    """Tell whether an error fell far enough: of all, or where the program is as long as before of a channel alone.

    Large channels hide what small ones are off; a norm or slice behind them may make those as large.

    >>> hidden = Measured(0.0002, 1, (0.0002, 0.01)), Measured(0.0002, 1, (0.0002, 0.0003))
    >>> is_worth(*hidden), is_worth(*hidden, longer=True), is_worth(Measured(0.01, 1), Measured(0.002, 1))
    (True, False, True)
    """
    longer = longer or after.layers > before.layers
    chosen = policy().worth_a_layer if longer else policy().worth
    if after.error <= before.error * chosen.part and after.error < before.error:
        return True
    grown = policy().loss.one
    if longer or after.error > before.error * grown:
        return False
    part = policy().worth_a_layer.part
    pairs = list(zip(before.channels, after.channels, strict=True))
    return any(then > RESULT_STEP and now <= then * part for then, now in pairs)


def mends(before: Measured, after: Measured, exponents: Sequence[int]) -> bool:
    """Tell whether what is scaled down loses nothing on a sample, so that other inputs may tell what it is good for.

    >>> fine, worse = Measured(0.01, 1), Measured(0.02, 1)
    >>> mends(fine, fine, (-2, 0)), mends(fine, fine, (2, 0)), mends(fine, worse, (-2,))
    (True, False, False)
    """
    return min(exponents) < 0 and after.error <= before.error * policy().loss.one


def compared(before: Measured, after: Measured) -> str:
    """Return what a rescaling did to the error of a product or norm alone."""
    return f"scaled it has an error of {percent(after.error)} against {percent(before.error)}"


def not_worth(before: Measured, after: Measured) -> str:
    """Return why a rescaling that was tried is not kept."""
    return f"{compared(before, after)}, too small a gain"


def applied(
    name: str,
    node: Node,
    operand: str,
    exponents: tuple[int, ...],
    before: Measured,
    after: Measured,
    margin: float,
) -> ProductRescaling:
    """Return the report of a product that is rescaled."""
    op, place = node.op.name, node.location
    return ProductRescaling(
        name, op, place, operand, exponents, before.error, after.error, margin, applied=True, reason=""
    )


def left(name: str, node: Node, before: Measured, margin: float, reason: str) -> Trial:
    """Return the trial of a product that stays as it was."""
    return Trial((as_it_was(applied(name, node, "", (0,), before, before, margin), reason),), None)


def not_tried(products: Sequence[tuple[Node, str]], reason: str) -> Trial:
    """Return the trial of products that could not be tried; nothing was measured of them."""
    unknown = Measured(math.nan, 0)
    reports = [applied(name, node, "", (0,), unknown, unknown, math.nan) for node, name in products]
    return Trial(tuple(as_it_was(one, reason) for one in reports), None)


def as_it_was(report: ProductRescaling, reason: str) -> ProductRescaling:
    """Return the report of a product that stays as it was."""
    error, margin = report.error_before, report.margin + max(report.exponents)
    return replace(report, operand="", exponents=(0,), error_after=error, margin=margin, applied=False, reason=reason)

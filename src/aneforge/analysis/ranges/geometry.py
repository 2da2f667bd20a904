"""Ranges of operations on points, vectors and rows that are compared, and of what is brought between 0 and 1.

The engine's model of most of them is their mathematics, rounded once, and what is not a number is 0: so infinite
operands can give anything, and finite ones no more than the mathematics. A correlation adds products in the
accumulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.ranges.interval import RESULTS, Range, products, round_interval
from aneforge.analysis.ranges.product_ranges import leaving, undo_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.analysis.ranges.situation import Situation

__all__ = ["GEOMETRY"]


def cross(situation: Situation) -> Range:
    """Return the range of cross products: differences of two products."""
    a, b = situation.range("a"), situation.range("b")
    exact = products(a, b)
    return round_interval(exact.low - exact.high, exact.high - exact.low) if a.finite and b.finite else RESULTS


def costs(situation: Situation) -> Range:
    """Return the range of distances of single numbers."""
    aux, ref = situation.range("aux"), situation.range("ref")
    if not (aux.finite and ref.finite):
        return RESULTS
    low, high = aux.low - ref.high, aux.high - ref.low
    return round_interval(0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))


def choose_points(situation: Situation) -> Range:
    """Return the range of points that are among those given, whichever they are."""
    points = situation.range("points")
    return points if points.finite else RESULTS


def near_or_not(_: Situation) -> Range:
    """Return the range of a table of ones and zeros."""
    return Range(0.0, 1.0)


def between_least_and_most(situation: Situation) -> Range:
    """Return the range of (x − min) / (max − min + epsilon)."""
    return Range(0.0, 1.0) if situation.range("x").finite and situation.number("epsilon") >= 0 else RESULTS


def correlate(situation: Situation) -> Range:
    """Return the range of sums of products of a template with every window."""
    x, template = situation.look_up("x"), situation.look_up("template")
    return leaving(undo_weights(x.range, template.range, template.type.size, axis=0).total())


GEOMETRY: Mapping[str, Callable[[Situation], Range]] = {
    "cost_volume": costs,
    "cross_correlation": correlate,
    "cross_product": cross,
    "fps": choose_points,
    "minmax_norm": between_least_and_most,
    "radius_search": near_or_not,
}
"""Ranges of operations of the table by their names."""

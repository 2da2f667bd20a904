"""Which route pays at which size: published times of the same program by several routes, compared within a publication.

Only figures of one publication are compared: the standard evaluation of one kernel differs so much between them that a
ratio across two says little (conflict T12). A route pays where every publication of a size says so, where there is
more than one, and where its times are below all those of the baseline.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.analysis.routes import RouteStatus, production_size, range_text, routes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.analysis.routes import RouteFigure

__all__ = ["Pays", "RouteAtSize", "SizeComparison", "production_answer", "ratio_text", "route_sizes", "sizes_for"]

BASELINES = ("standard", "coreml")
"""What others are compared with: the evaluation that needs nothing special, else the public interface."""


class Pays(StrEnum):
    """Whether a route is worth choosing at a size."""

    YES = "pays"
    SOMETIMES = "faster in some runs, slower in others"
    UNCONFIRMED = "faster in one publication, not confirmed"
    WITHIN_SPREAD = "within the spread of the baseline's own runs"
    NO = "slower"


@dataclass(frozen=True, slots=True)
class RouteAtSize:
    """A route at a size."""

    route: str
    microseconds: tuple[float, float]
    """Minimum and maximum."""
    ratios: tuple[tuple[float, float], ...]
    """For each publication, how many times as fast as the baseline it is, minimum and maximum."""
    verdict: Pays
    publications: tuple[str, ...]
    """For each of them, how it was measured."""

    def __str__(self) -> str:
        runs = ", ".join(
            f"{ratio_text(*ratio)} ({how})" for ratio, how in zip(self.ratios, self.publications, strict=True)
        )
        return f"{self.route} {range_text(self.microseconds)} µs, times as fast: {runs}: {self.verdict}"


def ratio_text(low: float, high: float) -> str:
    """Return a range of ratios.

    >>> ratio_text(1.881, 1.881), ratio_text(0.47, 0.56)
    ('1.88', '0.47 to 0.56')
    """
    least, most = f"{low:.2f}", f"{high:.2f}"
    return least if least == most else f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class SizeComparison:
    """One program by several routes on one chip."""

    what: str
    """What ran."""
    where: str
    baseline: str
    baseline_us: tuple[float, float]
    """Minimum and maximum over all publications."""
    routes: tuple[RouteAtSize, ...]
    production: bool
    """It is the size that the study calls production."""

    @property
    def paying(self) -> tuple[str, ...]:
        """The routes that pay."""
        return tuple(one.route for one in self.routes if one.verdict is Pays.YES)

    def __str__(self) -> str:
        head = f"{self.what}{' (production)' if self.production else ''}, {self.where}"
        return f"{head}: {self.baseline} {range_text(self.baseline_us)} µs; {'; '.join(map(str, self.routes))}"


def route_sizes(chip: str | None = None) -> tuple[SizeComparison, ...]:
    """Return every program that was timed by several routes, on a chip, given by key, or on any.

    >>> [(one.what.split()[-2:], one.paying) for one in route_sizes() if one.production]
    [(['256', 'columns'], ())]
    """
    groups: dict[tuple[str, str], list[RouteFigure]] = {}
    for figure in comparable():
        if figure.chip is not None and chip in (None, figure.chip):
            groups.setdefault((figure.chip, figure.what), []).append(figure)
    found = (compare(group) for group in groups.values())
    return tuple(one for one in found if one is not None)


def sizes_for(chip: str) -> tuple[SizeComparison, ...]:
    """Return the programs that were timed by several routes on a chip; on others where it is not among them."""
    return route_sizes(chip) or route_sizes()


def comparable() -> Iterable[RouteFigure]:
    """Yield the figures of calls that compute, and that were not withdrawn."""
    for known in routes():
        if known.status is not RouteStatus.WITHDRAWN:
            yield from (one for one in known.figures if one.measures.repeated and not one.withdrawn)


def compare(figures: Sequence[RouteFigure]) -> SizeComparison | None:
    """Return the comparison of one program on one chip; None where it was timed by only one route."""
    measured = {figure.route for figure in figures}
    baseline = next((name for name in BASELINES if name in measured), None)
    own = [figure for figure in figures if figure.route == baseline]
    others = {name: pairs_of(name, own, figures) for name in sorted(measured - {baseline})}
    compared = tuple(at_size(name, pairs, own) for name, pairs in others.items() if pairs)
    if baseline is None or not compared:
        return None
    first = own[0]
    return SizeComparison(
        first.what,
        first.where,
        baseline,
        bounds(own),
        compared,
        (first.workload, first.shape) == production_size(),
    )


def pairs_of(
    name: str, own: Sequence[RouteFigure], figures: Sequence[RouteFigure]
) -> list[tuple[RouteFigure, RouteFigure]]:
    """Return the figures of a route, each with the baseline's of the same publication."""
    return [
        (figure, base)
        for figure in figures
        for base in own
        if figure.route == name and publication_of(figure) == publication_of(base)
    ]


def publication_of(figure: RouteFigure) -> tuple[str, str]:
    """Return what distinguishes publications: the source, and how it was measured."""
    return figure.evidence.source, figure.evidence.note


def at_size(name: str, pairs: Sequence[tuple[RouteFigure, RouteFigure]], own: Sequence[RouteFigure]) -> RouteAtSize:
    """Return a route with its verdict."""
    ratios = tuple(
        (round(base.microseconds[0] / one.microseconds[1], 3), round(base.microseconds[1] / one.microseconds[0], 3))
        for one, base in pairs
    )
    taken = bounds([one for one, _ in pairs])
    how = tuple(one.evidence.note.split(";")[0] for one, _ in pairs)
    return RouteAtSize(name, taken, ratios, verdict_of(ratios, taken, bounds(own), len(own)), how)


def verdict_of(
    ratios: Sequence[tuple[float, float]], taken: tuple[float, float], base: tuple[float, float], runs: int
) -> Pays:
    """Return whether a route pays.

    >>> verdict_of([(1.1, 1.1)], (185, 185), (177, 226), runs=2).name
    'WITHIN_SPREAD'
    >>> verdict_of([(1.9, 1.9), (0.5, 0.6)], (90, 233), (109, 175), runs=3).name
    'SOMETIMES'
    """
    if all(high <= 1 for _, high in ratios):
        return Pays.NO
    if any(low <= 1 for low, _ in ratios):
        return Pays.SOMETIMES
    if runs > 1 and taken[1] >= base[0]:
        return Pays.WITHIN_SPREAD
    return Pays.UNCONFIRMED if len(ratios) == 1 else Pays.YES


def bounds(figures: Iterable[RouteFigure]) -> tuple[float, float]:
    """Return the minimum and the maximum of figures."""
    ends = [end for figure in figures for end in figure.microseconds]
    return min(ends), max(ends)


def production_answer(sizes: Sequence[SizeComparison]) -> str:
    """Return whether another route pays, by size, in a sentence."""
    paying = [f"{', '.join(one.paying)} at {one.what}" for one in sizes if one.paying]
    at_all = "; ".join(paying) if paying else "none reliably at any size that was measured"
    production = [one for one in sizes if one.production]
    if not production:
        return f"Other routes that pay: {at_all}."
    there = [name for one in production for name in one.paying]
    size = f"{production[0].what}; {production[0].where}"
    return f"Other routes that pay: {at_all}; at production size ({size}): {', '.join(there) or 'none'}."

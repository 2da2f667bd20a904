"""The page of routes to the engine, from the data files of the cost model; `reference_pages.py` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from aneforge.analysis.routes import get_assumed_route, routes, time_range_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.analysis.routes import Route, RouteFigure

__all__ = ["routes_page"]

INTRODUCTION = (
    "The ways from a process to the engine, and alternatives that are compared with it, with every published time "
    "and what was corrected since. `aneforge routes` lists them, `aneforge explain route NAME` prints one, "
    "`af.routes()` and `af.route(name)` return them."
)
ASSUMED = (
    "Predictions (`af.cost`, `af.plan_chaining`, `aneforge check`) assume `{route}`; the dispatch that they use is "
    "fitted to whole calls through it ([cost](../cost.md)), and the calls below bound its interval. A route that "
    "*wraps* another adds something to its calls."
)
FIGURES = (
    "*call* is one call that computes almost nothing, *program* one that computes the stated program. The cell is "
    "empty where the source names no chip or no version of macOS. *disputed* names the entry of the "
    "[conflicts](conflicts.md)."
)


def routes_page() -> str:
    """Return the page."""
    headings = ("route", "also", "what it is", "device", "status", "backend", "wraps", "evidence")
    parts = [
        "# Routes to the engine",
        INTRODUCTION,
        ASSUMED.format(route=get_assumed_route()),
        table(headings, map(route_row, routes())),
        "## Figures",
        FIGURES,
    ]
    for known in routes():
        parts += [f"### {known.name}", f"`{known.function}`", known.recommendation]
        parts += [f"Correction: {known.correction}"] if known.correction else []
        parts += [figure_table(known.figures) if known.figures else "No time is published."]
    return "\n\n".join(parts)


def route_row(known: Route) -> Sequence[str]:
    """Return one line of the table of routes."""
    return (
        f"[{known.name}](#{known.name})",
        ", ".join(known.also),
        known.title,
        known.device,
        str(known.status),
        known.backend or "",
        known.over or "",
        str(known.evidence),
    )


def figure_table(figures: Iterable[RouteFigure]) -> str:
    """Return the figures of a route as a table."""
    headings = ("time", "of", "what ran", "chip", "macOS", "evidence", "how", "disputed")
    return table(headings, map(figure_row, figures))


def figure_row(figure: RouteFigure) -> Sequence[str]:
    """Return one line of the table of figures."""
    several = ", ".join(f"{name} {time_range_text((one, one))}" for name, one in figure.variants)
    time = f"{time_range_text(figure.microseconds)}{f': {several}' if several else ''}"
    return (
        f"{time} (withdrawn)" if figure.withdrawn else time,
        str(figure.measures),
        figure.what,
        ", ".join(figure.evidence.on),
        figure.macos or "",
        f"{figure.evidence.kind} ({figure.evidence.source})",
        figure.evidence.note,
        figure.evidence.conflict or "",
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return tabulate(list(rows), headings, tablefmt="github", disable_numparse=True)

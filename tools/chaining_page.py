"""The page of the chaining study, from its data file; `reference_pages.py` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from aneforge.analysis.route_sizes import production_answer, ratio_text, route_sizes
from aneforge.analysis.routes import range_text
from aneforge.runtime.chaining.chaining_study import study

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["chaining_page"]

INTRODUCTION = (
    "The results of a study of chained requests on {on}, on which the model ([chaining](../chaining.md)) is based. "
    "`aneforge explain chaining NAME` prints one class, rule or experiment; times are with the [routes](routes.md)."
)
CLASSES = (
    "In Python they are in `aneforge.runtime.chaining`, without the underscore; `class_named` finds them by these "
    "names. **simulation adds* is behaviour that no experiment showed."
)
RUNTIME = "Core ML uses them from macOS 15 on, and neither `_ANEModel` nor `_ANEChainingRequest`. None is modelled."
RULES = (
    "The requests that `validate` refuses. A rule without a message of the system was not tried; it is inferred from "
    "what works."
)
SIZES = (
    "How many times as fast as the baseline a route was, within one publication. A route counts as faster where every "
    "publication of a size agrees, there are several, and its times are below all those of the baseline."
)


def chaining_page() -> str:
    """Return the page."""
    known = study()
    parts = [
        "# The chaining study",
        INTRODUCTION.format(on=", ".join(known.on)),
        "## Classes",
        CLASSES,
        table(("class", "what it is", "factory", "works", "simulation adds", "experiments"), class_rows()),
        "### Methods",
        table(("class", "method", "answer", "in Python", "experiments"), method_rows()),
        "### Properties, and what was looked for and is missing",
        table(("class", "properties", "missing", "listed"), property_rows()),
        "## Core ML's runtime",
        RUNTIME,
        table(("class", "what it is", "names", "listed", "experiments"), runtime_rows()),
        table(("function", "what it does"), ([f"`{name}`", text] for name, text in known.runtime_functions.items())),
        table(("part", "before", "since macOS 15"), replaced_rows()),
        "## Rules of a request",
        RULES,
        table(("rule", "parameter", "text", "the system says", "why", "evidence", "experiments"), rule_rows()),
        "## How calls end",
        table(("the system says", "code", "why", "experiments"), failure_rows()),
        "## States of a model",
        table(("state", "number", "what it is", "experiments"), state_rows()),
        "## Type encodings",
        table(("of", "encoding", "in words", "experiments"), encoding_rows()),
        "## Routes by size",
        SIZES,
        table(("what ran", "baseline", "route", "time", "times as fast", "verdict"), size_rows()),
        production_answer(route_sizes()),
        "## Experiments",
        table(("experiment", "what was tried", "outcome", "found", "figures", "program"), experiment_rows()),
        "## Corrections",
        "The first statements of the study, and what turned out to be true.",
        table(("said", "holds", "experiments"), correction_rows()),
    ]
    return "\n\n".join(parts)


def class_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each class."""
    for name, one in study().classes.items():
        yield f"`{name}`", one.summary, f"`{one.factory}`", one.works, one.modelled, ", ".join(one.experiments)


def rule_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each rule."""
    for name, one in study().rules.items():
        system = f"`{one.system}`" if one.system else ""
        yield f"`{name}`", one.parameter, one.rule, system, one.why, str(one.kind), ", ".join(one.experiments)


def failure_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each way in which a call ends."""
    for one in study().failures.values():
        code = "" if one.code is None else str(one.code)
        yield f"`{one.system.format(url='…')}`", code, one.why, ", ".join(one.experiments)


def state_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each state."""
    for name, one in study().states.items():
        yield name, "unknown" if one.number is None else str(one.number), one.text, ", ".join(one.experiments)


def encoding_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each encoding."""
    for name, one in study().encodings.items():
        yield f"`{name}`", f"`{one.encoding}`", one.text, ", ".join(one.experiments)


def size_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each route at each size."""
    for size in route_sizes():
        what = f"{size.what}{' (production)' if size.production else ''}"
        baseline = f"{size.baseline} {range_text(size.baseline_us)} µs"
        for one in size.routes:
            runs = zip(one.ratios, one.publications, strict=True)
            ratios = "; ".join(f"{ratio_text(*ratio)} ({how})" for ratio, how in runs)
            yield what, baseline, one.route, f"{range_text(one.microseconds)} µs", ratios, str(one.verdict)


def experiment_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each experiment."""
    for name, one in study().experiments.items():
        figures = "; ".join(f"{what} {value:g}" for what, value in one.figures.items())
        yield name, one.title, str(one.outcome), one.found, figures, f"`{one.file}`" if one.file else ""


def method_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each method."""
    for name, one in study().classes.items():
        for method in one.methods:
            python = f"`{method.python}`" if method.python else ""
            yield f"`{name}`", f"`{method.selector}`", method.answer, python, ", ".join(method.experiments)


def property_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each class of which more than methods is known."""
    for name, one in study().classes.items():
        if one.properties or one.missing or one.counts:
            yield f"`{name}`", ticked(one.properties), ticked(one.missing), counts_text(one.counts)


def runtime_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each class of Core ML's runtime."""
    for name, one in study().runtime_classes.items():
        yield f"`{name}`", one.summary, ticked(one.methods), counts_text(one.counts), ", ".join(one.experiments)


def replaced_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each part of Core ML's way to the engine."""
    for name, one in study().replaced.items():
        yield name, one.before, one.since


def correction_rows() -> Iterator[Sequence[str]]:
    """Yield one line for each correction."""
    for one in study().corrections:
        yield one.said, one.holds, ", ".join(one.experiments)


def ticked(names: Iterable[str]) -> str:
    """Return names as code."""
    return ", ".join(f"`{name}`" for name in names)


def counts_text(counts: dict[str, int]) -> str:
    """Return counts in words."""
    return ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items())


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return tabulate(list(rows), headings, tablefmt="github", disable_numparse=True)

"""What compiling warns of: rules, sums at risk, slices that saturate; and what a strict compile lets pass: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.cost import cost_of, least_time
from aneforge.analysis.exactness import labels_of_layers
from aneforge.analysis.machine import machine_of
from aneforge.analysis.routes import warn_below
from aneforge.analysis.work import plan_program
from aneforge.compiler.splits import split_texts
from aneforge.engine.exactness import Exactness
from aneforge.rules.catalogue import rules
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity
from aneforge.runtime.facts import Caution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.analysis.long_sums import PrecisionRisk
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Note, Program
    from aneforge.graph.graph import Graph
    from aneforge.optimise.compress.graphs import WeightReport
    from aneforge.rules.preflight import Preflight
    from aneforge.runtime.options import Options

__all__ = [
    "dispatch_cautions",
    "encoding_cautions",
    "oversize_text",
    "precision_cautions",
    "rule_cautions",
    "saturation_cautions",
    "strict_findings",
]

ROUTES = "choose-slice-route"
HARMLESS = {"cut-segments", "fold-dequantise", ROUTES}
"""Passes whose notes report no decomposition and no folding; slices are reported by their routes."""


def precision_cautions(risks: tuple[PrecisionRisk, ...], verdict: Preflight) -> tuple[Caution, ...]:
    """Return the warnings of sums at risk and of the rules that warn."""
    return (*(Caution("PrecisionWarning", str(risk)) for risk in risks), *rule_cautions(verdict))


def rule_cautions(verdict: Preflight) -> tuple[Caution, ...]:
    """Return the warnings of the rules that warn, each once."""
    known = rules()
    found = [
        Caution("PrecisionWarning", str(finding), known[finding.rule].bounded)
        for finding in verdict.findings
        if finding.severity is Severity.WARN
    ]
    return tuple(dict.fromkeys(found))


def encoding_cautions(weights: Sequence[WeightReport], options: Options) -> tuple[Caution, ...]:
    """Return the warning of weights whose encoding was asked for by name and whose error is over the bound, if any."""
    over = sorted((one for one in weights if one.error > options.compress_atol), key=lambda one: -one.error)
    if not over:
        return ()
    worst = over[0]
    message = (
        f"compress={options.compress!r} is applied as asked: {len(over)} of {len(weights)} weights have a relative "
        f"error over compress_atol = {options.compress_atol:g}, the largest {worst.error:.3g} in {worst.name} "
        f"{list(worst.shape)}{f' at {worst.place}' if worst.place else ''}; 'auto' takes only what is close enough"
    )
    return (Caution("PrecisionWarning", message),)


def saturation_cautions(graph: Graph, program: Program, verdict: Preflight) -> tuple[Caution, ...]:
    """Return a warning for everything that can make finite numbers infinite, and for joins of slices that go wrong.

    What the promises of inputs exclude is not warned of.
    """
    from aneforge.analysis.hazards import Route, find_hazards  # noqa: PLC0415 - imports most of the analyses

    layers = {layer.name: layer for layer in program.layers}
    noted = [(layers[note.layer], note) for note in program.notes if note.stage == ROUTES and note.layer in layers]
    wrong = [describe(layer, note, program) for layer, note in noted if "elements" in layer.choices]
    groups: dict[Route, list[str]] = {}
    for hazard in find_hazards(graph, program, verdict):
        groups.setdefault(hazard.route, []).append(str(hazard))
    slices = groups.pop(Route.CROP, [])
    found = [
        *(Caution("PrecisionWarning", text) for text in wrong),
        *(Caution("SliceSaturationWarning", text) for text in slices),
        *(Caution("SaturationWarning", with_count(texts)) for texts in groups.values()),
    ]
    return tuple(dict.fromkeys(found))


def with_count(texts: Sequence[str]) -> str:
    """Return the first of some warnings of one sort, and how many more there are."""
    more = len(dict.fromkeys(texts)) - 1
    return f"{texts[0]}{f' ({more} more operations like it)' if more else ''}"


def describe(layer: Layer, note: Note, program: Program) -> str:
    """Return a warning about a layer: what is joined, where, and what happens to it."""
    place = f" at {layer.location}" if layer.location else f" %{layer.name}"
    return f"{layer.kind.name}{place} on {program.target.name}: {note.text}"


def oversize_text(verdict: Preflight, program: Program) -> str | None:
    """Return the one warning of all operations that are oversize and were split, or are only moved."""
    if not verdict.oversize:
        return None
    ops = ", ".join(dict.fromkeys(f"{report.op} of {list(report.shape)}" for report in verdict.oversize))
    rules = ", ".join(dict.fromkeys(found.rule for one in verdict.oversize for found in one.findings))
    texts = dict.fromkeys(text for _, text in split_texts(program))
    made = "; ".join(texts) or "layers that move it, which is assumed to work (inferred)"
    return f"oversize on {program.target.name} ({rules}): {ops}. Compile splits it: {made}"


def strict_findings(program: Program, verdict: Preflight, cautions: Sequence[Caution]) -> tuple[str, ...]:
    """Return everything that a strict compile does not let pass, each once.

    These are operations that were rebuilt or split, notes of the compiler, warnings about values, and arithmetic that
    is not exact.
    """
    found = [
        f"{report.status}: {finding.op}{f' at {finding.location}' if finding.location else ''}: {finding.message}"
        for report in verdict.reports
        if report.status in (Status.DECOMPOSE, Status.OVERSIZE)
        for finding in report.findings
    ]
    found += [
        f"{note.stage}:{f' %{note.layer}' if note.layer else ''} {note.text}"
        for note in program.notes
        if note.stage not in HARMLESS
    ]
    found += [f"saturation or precision: {caution.message}" for caution in cautions]
    found += inexact(program)
    return tuple(dict.fromkeys(found))


def inexact(program: Program) -> list[str]:
    """Return the layers whose arithmetic is not exact, grouped by the reason."""
    groups: dict[str, list[str]] = {}
    for name, label in labels_of_layers(program).items():
        if label.exactness is not Exactness.EXACT:
            groups.setdefault(str(label), []).append(f"%{name}")
    return [f"{label} ({shorten_names(names)})" for label, names in groups.items()]


def shorten_names(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def dispatch_cautions(program: Program) -> tuple[Caution, ...]:
    """Return the warning for a program that is mostly dispatch, if it is one."""
    machine, most = machine_of(program.place), warn_below()
    if not program.layers or len(program.segments) > most or least_time(program, machine) > most * machine.dispatch:
        return ()
    found = cost_of(plan_program(program))
    if found.microseconds > most * machine.dispatch:
        return ()
    least, longest = machine.dispatch_interval
    message = (
        f"on {machine.name} a call is predicted to take {found.microseconds:.0f} µs, of which {found.dispatch:.0f} µs "
        f"({least:.0f} to {longest:.0f}) are its dispatch: put more work into one call, such as a larger batch or "
        f"several steps"
    )
    return (Caution("DispatchFloorWarning", message),)

"""What compiling warns of: rules, sums at risk, slices that saturate; and what a strict compile lets pass: nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.dispatch_cost import anchors, dispatch_cost
from aneforge.engine.exactness import Exactness
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity
from aneforge.runtime.exactness import labels_of_layers
from aneforge.runtime.facts import Caution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.analysis.long_sums import PrecisionRisk
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Note, Program
    from aneforge.graph.graph import Graph
    from aneforge.rules.preflight import Preflight
    from aneforge.targets import Target

__all__ = ["dispatch_cautions", "precision_cautions", "rule_cautions", "slice_cautions", "strict_findings"]

ROUTES = "choose-slice-route"
SATURATING = ("q.4", "unknown")
"""The formats of a crop in which values may change: fixed point, and not known."""
HARMLESS = {"cut-segments", "fold-dequantise", ROUTES}
"""Passes whose notes tell of no decomposition and no folding; slices are told of by their routes."""


def precision_cautions(risks: tuple[PrecisionRisk, ...], verdict: Preflight) -> tuple[Caution, ...]:
    """Return the warnings of sums at risk and of the rules that warn."""
    return (*(Caution("PrecisionWarning", str(risk)) for risk in risks), *rule_cautions(verdict))


def rule_cautions(verdict: Preflight) -> tuple[Caution, ...]:
    """Return the warnings of the rules that warn, each once."""
    found = [str(finding) for finding in verdict.findings if finding.severity is Severity.WARN]
    return tuple(Caution("PrecisionWarning", message) for message in dict.fromkeys(found))


def slice_cautions(program: Program, promises: Mapping[str, float]) -> tuple[Caution, ...]:
    """Return a warning for every slice that may make values infinite, and for joins of such slices.

    A slice whose values are known to stay below the edge is not warned of.
    """
    layers = {layer.name: layer for layer in program.layers}
    noted = [(layers[note.layer], note) for note in program.notes if note.stage == ROUTES and note.layer in layers]
    saturating = [layer for layer, _ in noted if saturates(layer)]
    safe = find_safe(saturating, program, promises) if saturating else frozenset[str]()
    found: list[Caution] = []
    for layer, note in noted:
        if "elements" in layer.choices:
            found.append(Caution("PrecisionWarning", told(layer, note, program)))
        elif saturates(layer) and layer.name not in safe:
            found.append(Caution("SliceSaturationWarning", told(layer, note, program)))
    return tuple(dict.fromkeys(found))


def saturates(layer: Layer) -> bool:
    """Tell whether large values may change in a slice."""
    return "elements" not in layer.choices and layer.choices.get("format") in SATURATING


def find_safe(layers: Sequence[Layer], program: Program, promises: Mapping[str, float]) -> frozenset[str]:
    """Return the slices of which no value can reach the edge of its copy."""
    from aneforge.analysis.ranges.program import bound_magnitudes  # noqa: PLC0415 - few programs have such slices

    edge = program.target.limits.get("slice_saturation_magnitude")
    if not isinstance(edge, int | float):
        return frozenset()
    known = bound_magnitudes(program, promises, [value for layer in layers for value in layer.bottoms])
    return frozenset(
        layer.name for layer in layers if all(known.get(value.name, math.inf) <= edge for value in layer.bottoms)
    )


def told(layer: Layer, note: Note, program: Program) -> str:
    """Return a warning about a layer: what is sliced or joined, where, and what happens to it."""
    place = f" at {layer.location}" if layer.location else f" %{layer.name}"
    return f"{layer.kind.name}{place} on {program.target.name}: {note.text}"


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
    return [f"{label} ({named(names)})" for label, names in groups.items()]


def named(names: list[str]) -> str:
    """Return a few names, and how many more there are."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def dispatch_cautions(graph: Graph, target: Target) -> tuple[Caution, ...]:
    """Return the warning for a graph that is mostly dispatch, if it is one."""
    cost = dispatch_cost(graph, target)
    if cost is None or cost.microseconds > anchors().warn_below * cost.floor_us:
        return ()
    message = (
        f"on {target.name} a call takes {cost.microseconds:.0f} µs by the documented model, of which "
        f"{cost.floor_us:.0f} µs are its dispatch (af.estimate predicts by its own fit): put more work into one call, "
        f"such as a larger batch or several steps"
    )
    return (Caution("DispatchFloorWarning", message),)

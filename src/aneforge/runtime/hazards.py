"""What a compiled program may do to values, and what a strict compile lets pass: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.pipeline import COMPOSED
from aneforge.engine.exactness import Exactness
from aneforge.rules.preflight import Status
from aneforge.runtime.exactness import labels_of_layers
from aneforge.runtime.facts import Caution
from aneforge.runtime.magnitudes import magnitudes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Note, Program
    from aneforge.rules.preflight import Preflight

__all__ = ["slice_cautions", "strict_findings"]

ROUTES = "choose-slice-route"
SATURATING = ("q.4", "unknown")
"""The formats of a crop in which values may change: fixed point, and not known."""
HARMLESS = {COMPOSED, "cut-segments", "fold-dequantise", ROUTES}
"""Passes whose notes tell of no decomposition and no folding; slices are told of by their routes."""


def slice_cautions(program: Program, promises: Mapping[str, float]) -> tuple[Caution, ...]:
    """Return a warning for every slice that may make values infinite, and for joins of such slices.

    A slice whose values are known to stay below the edge is not warned of.
    """
    return tuple(dict.fromkeys(found_slices(program, promises)))


def found_slices(program: Program, promises: Mapping[str, float]) -> Iterator[Caution]:
    """Return the warnings in the order of the program."""
    layers = {layer.name: layer for layer in program.layers}
    known = magnitudes(program, promises)
    for note in program.notes:
        layer = layers.get(note.layer)
        if note.stage != ROUTES or layer is None:
            continue
        if "elements" in layer.choices:
            yield Caution("PrecisionWarning", told(layer, note, program))
        elif layer.choices.get("format") in SATURATING and not is_safe(layer, known, program):
            yield Caution("SliceSaturationWarning", told(layer, note, program))


def is_safe(layer: Layer, known: Mapping[str, float], program: Program) -> bool:
    """Tell whether no value of a slice can reach the edge of its copy."""
    edge = program.target.limits.get("slice_saturation_magnitude")
    found = [known.get(value.name) for value in layer.bottoms]
    return isinstance(edge, int | float) and all(most is not None and most <= edge for most in found)


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

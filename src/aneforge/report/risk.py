"""What fp16 does to a model: found from operations alone, proven from ranges, or seen in sample values.

Without ranges or samples nothing is known of magnitudes, and the answer says so: only operations that lose precision
whatever comes in are named then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.evidence import EvidenceKind
from aneforge.predict.precision import precision_risk
from aneforge.report.model import Evidence, Finding, Rescaling
from aneforge.report.nodes import place_of
from aneforge.report.predicted import rule_of_edge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.predict.ranges.analysis import Concern, LayerRange
    from aneforge.targets import Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["Risk", "Risks"]

NONE, LOSS, SATURATION, UNKNOWN = "none", "loss", "saturation", "unknown"


@dataclass(frozen=True, slots=True)
class Risk:
    """The worst that fp16 does, in a word, why, and the findings behind it."""

    word: str
    reason: str
    findings: tuple[Finding, ...] = ()


class Risks:
    """Finds the risk of one graph's programs; programs that targets share are looked at once for each datapath."""

    def __init__(self, graph: Graph, samples: Mapping[str, Array] | None, ranges: Ranges, *, deep: bool) -> None:
        self.graph, self.samples, self.ranges = graph, samples, ranges
        self.looks = deep or bool(ranges) or samples is not None
        self.found: dict[tuple[object, ...], tuple[Program, tuple[LayerRange, ...]]] = {}
        self.unseen = None if self.looks else by_operations(graph)

    def of(self, program: Program, carried: Mapping[str, tuple[int, ...]]) -> Risk:
        """Return the risk of a program on its target."""
        if self.unseen is not None:
            return self.unseen
        layers = self.layers(program)
        findings = tuple(
            written(layer, concern, self.operation(layer, carried.get(layer.layer, ())), self.source)
            for layer in layers
            for concern in layer.passed
        )
        word = word_of(layers)
        first = f": first in {findings[0].op}, {findings[0].message}" if findings else ""
        return Risk(word, f"{self.source}{first}", findings)

    def operation(self, layer: LayerRange, nodes: tuple[int, ...]) -> tuple[str, int | None]:
        """Return the user's operation that a layer carries out, or the layer's own where there is none."""
        return (self.graph.nodes[nodes[0]].op.name, nodes[0]) if nodes else (layer.op, None)

    @property
    def source(self) -> str:
        """What the answer was found from."""
        if self.samples is not None:
            return "seen with the sample inputs"
        return "proven for the ranges given" if self.ranges else "possible for some finite inputs; give their ranges"

    def layers(self, program: Program) -> tuple[LayerRange, ...]:
        """Return the ranges of every layer."""
        datapath = program.target.datapath
        key = (id(program.layers), *((name, datapath.get(name)) for name in datapath.table))
        if key not in self.found:
            self.found[key] = program, tuple(self.looked_at(program))
        return self.found[key][1]

    def looked_at(self, program: Program) -> Iterator[LayerRange]:
        """Look at the values of a program."""
        from aneforge.predict.ranges import analysis as predicted  # noqa: PLC0415 - few checks look at values
        from aneforge.predict.ranges.interval import FINITE  # noqa: PLC0415 - as above
        from aneforge.predict.ranges.program import declared_ranges, flow  # noqa: PLC0415 - as above

        if self.samples is not None:
            yield from predicted.observed(program, [self.samples]).layers
            return
        found = flow(program, declared_ranges(self.graph, self.ranges, otherwise=FINITE))
        for layer in program.layers:
            yield predicted.layer_range(layer, found.layers[layer.name], found.ranges, program, None)

    def rescaling(self, program: Program, target: Target) -> Rescaling:
        """Return what scaling by powers of two would gain.

        Raises:
            GraphError: Sample inputs do not fit the model.
        """
        from aneforge.compiler.pipeline import build_program  # noqa: PLC0415 - few checks rescale
        from aneforge.runtime.rescaling import rescaled  # noqa: PLC0415 - as above

        scaled = rescaled(self.graph, target, None if self.samples is None else [self.samples]).graph
        after = Risks(scaled, self.samples, self.ranges, deep=True)
        before, behind = self.layers(program), after.layers(build_program(scaled, target))
        counts = [sum(bool(layer.passed) for layer in layers) for layers in (before, behind)]
        detail = f"layers that can pass an edge: {counts[0]} as it is, {counts[1]} rescaled"
        return Rescaling(word_of(before), word_of(behind), detail)


def by_operations(graph: Graph) -> Risk:
    """Return what operations alone tell."""
    found = precision_risk(graph)
    if not found["hotspots"]:
        return Risk(UNKNOWN, "no ranges and no sample inputs were given, so nothing is known of magnitudes")
    worst = found["hotspots"][0]
    where = f" at {worst['location']}" if worst["location"] else ""
    return Risk(LOSS, f"{worst['op']}{where} {worst['reason']}; relative error about {worst['error']:.2g}")


def word_of(layers: Sequence[LayerRange]) -> str:
    """Return the worst that layers show, in a word."""
    words = {rule_of_edge(concern.edge).risk for layer in layers for concern in layer.passed}
    return next((word for word in (SATURATION, LOSS) if word in words), NONE)


def written(layer: LayerRange, concern: Concern, operation: tuple[str, int | None], source: str) -> Finding:
    """Return an edge that a layer can pass as a finding."""
    op, node = operation
    rule = rule_of_edge(concern.edge)
    return Finding(
        rule=rule.id,
        severity="warn",
        op=op,
        node=node,
        place=place_of(layer.location),
        message=f"{concern.edge}: {concern.value:.4g} against {concern.limit:.6g} ({source}).",
        seen=float(f"{concern.value:.4g}") if abs(concern.value) < float("inf") else "inf",
        limit=concern.limit,
        remedy=concern.remedy + ".",
        evidence=Evidence(str(EvidenceKind.INFERRED), "ranges of the compiled program", (), source),
    )

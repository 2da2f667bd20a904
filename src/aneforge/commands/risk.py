"""What fp16 does to a model: found from the operations, bounded by ranges, or seen in sample values.

Intervals bound values from above, and widely: that no edge is passed is a proof for all inputs within the ranges, that
one can be passed is none. How many bits small products lose is not a question of upper bounds: only samples show it.
Without ranges or samples nothing is known of magnitudes, and the answer says so: only operations that lose precision
whatever comes in are named then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.long_sums import find_precision_risks
from aneforge.compiler.passes.choose_slice_route import FIXED_POINT
from aneforge.compiler.passes.choose_slice_route import UNKNOWN as UNKNOWN_FORMAT
from aneforge.errors import NotSupportedError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.graph.graph import read_promises
from aneforge.ops.op import Trait
from aneforge.records import dataclass
from aneforge.report.model import Rescaling
from aneforge.report.predicted import rule_of_edge
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from aneforge.analysis.hazards import Hazard
    from aneforge.analysis.ranges.analysis import Concern, LayerRange
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.optimise.rescaling.rescaling_report import ProductRescaling, Rescaled
    from aneforge.rules.preflight import Preflight
    from aneforge.targets import Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["Risk", "Risks"]

NO_GAIN = "not needed: af.rescale gains nothing here."
TOO_WIDE = "bounds too wide to tell"
EXPLODED = 1e9
"""A bound of at least this magnitude says nothing of values that fp16 could hold."""
NONE, LOSS, SATURATION, UNKNOWN = "none", "loss", "saturation", "unknown"


@dataclass(frozen=True, slots=True)
class Risk:
    """The worst effect of fp16, in one word, with the reason and the findings."""

    word: str
    reason: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A way to look at values, and what is said of what it finds."""

    none: str
    """Where no edge is passed."""
    some: str
    """Where an edge can be passed."""
    loss: str
    """Where products are small."""

    def describe(self, word: str) -> str:
        """Return what is said where a word is the worst that was found."""
        return {NONE: self.none, LOSS: self.loss}.get(word, self.some)


SEEN = View(
    "seen with the sample inputs: no edge is passed", "seen with the sample inputs", "seen with the sample inputs"
)
BOUNDED = View(
    "proven for all inputs within the ranges given: nothing becomes infinite; "
    "sample inputs show how many bits small products lose",
    "possible for inputs within the ranges given, by interval bounds",
    "no product is larger for inputs within the ranges given",
)
UNBOUNDED = View(
    "proven for all finite inputs: nothing becomes infinite; sample inputs show how many bits small products lose",
    "possible for some finite inputs, by interval bounds; give their ranges",
    "no product is larger for any finite inputs",
)


class Risks:
    """Finds the risk of one graph's programs; programs that targets share are looked at once for each datapath."""

    def __init__(self, graph: Graph, samples: Mapping[str, Array] | None, ranges: Ranges, *, deep: bool) -> None:
        self.graph, self.samples, self.ranges = graph, samples, ranges
        bounded = bool(ranges) or bool(read_promises(graph))
        self.views = views_of(sampled=samples is not None, bounded=bounded, deep=deep)
        self.unseen = by_operations(graph)
        self.found: dict[tuple[object, ...], tuple[Program, tuple[LayerRange, ...]]] = {}

    def of(
        self,
        compiled: Compiled,
        verdict: Preflight,
        carried: Mapping[str, tuple[int, ...]],
        scaled: Rescaled | None = None,
    ) -> Risk:
        """Return the risk of a program on its target; where rescaling was tried, its errors decide what matters.

        Where no ranges bound the values, operations are named that make large ones infinite on that target.
        """
        program = compiled.program
        found = self.judge_views(compiled, carried, scaled) if self.views else self.unseen
        if BOUNDED in self.views or UNBOUNDED in self.views or not may_saturate(self.graph, program, verdict):
            return found
        from aneforge.analysis.hazards import find_hazards  # noqa: PLC0415 - imports most of the analyses

        known = {(one.rule, one.location) for one in found.findings}
        hazards = [hazard_finding(one, self.graph) for one in find_hazards(self.graph, program, verdict)]
        new = [one for one in dict.fromkeys(hazards) if (one.rule, one.location) not in known]
        if not new:
            return found
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        reason = f"{found.reason}; large values become infinite in {new[0].op}{more}, which input ranges could exclude"
        return Risk(found.word, reason, (*found.findings, *new))

    def judge_views(self, compiled: Compiled, carried: Mapping[str, tuple[int, ...]], scaled: Rescaled | None) -> Risk:
        """Return what the views of values show."""
        findings: list[Finding] = []
        known: set[tuple[str, str]] = set()
        words: list[str] = []
        reasons: list[str] = []
        for view in self.views:
            try:
                layers = self.layers(compiled, view)
            except NotSupportedError as refusal:
                words.append(UNKNOWN)
                reasons.append(f"the sample inputs cannot be followed: {refusal}")
                continue
            words.append(word_of(layers))
            made: list[Finding] = []
            first = ""
            for layer in layers:
                for concern in layer.passed:
                    if (layer.layer, concern.edge) not in known:
                        op = self.operation(layer, carried.get(layer.layer, ()))
                        made.append(
                            describe_edge(layer, concern, op, view, scaled, target=compiled.program.target.name)
                        )
                        first = first or f": first in {op[0]}, {describe_passed_edge(concern, view)}"
                    known.add((layer.layer, concern.edge))
            findings += made
            reasons.append(f"{view.describe(words[-1])}{first}")
        if worst_word(words) == NONE and self.unseen.word == LOSS:
            words.append(LOSS)  # edges say nothing about what long sums of signed numbers lose
            reasons.append(self.unseen.reason)
        return Risk(worst_word(words), "; ".join(reasons), tuple(findings))

    def operation(self, layer: LayerRange, nodes: tuple[int, ...]) -> tuple[str, int | None]:
        """Return the user's operation that a layer carries out, or the layer's own where there is none.

        A layer carries out reshapes in addition to the operation that it is made for, which is where its location is.
        """
        if not nodes:
            return layer.op, None
        own = [node for node in nodes if self.graph.nodes[node].location == layer.location is not None] or nodes
        node = next((one for one in own if self.graph.nodes[one].op.movement is None), own[0])
        return self.graph.nodes[node].op.name, node

    def layers(self, compiled: Compiled, view: View) -> tuple[LayerRange, ...]:
        """Return the ranges of every layer."""
        program, datapath = compiled.program, compiled.program.target.datapath
        key = (view, id(program.layers), *((name, datapath.get(name)) for name in datapath.table))
        if key not in self.found:
            self.found[key] = program, tuple(self.observe_layers(compiled, view))
        return self.found[key][1]

    def observe_layers(self, compiled: Compiled, view: View) -> Iterator[LayerRange]:
        """Look at the values of a program."""
        program = compiled.program
        from aneforge.analysis.ranges import analysis as predicted  # noqa: PLC0415 - few checks look at values
        from aneforge.analysis.ranges.interval import FINITE  # noqa: PLC0415 - as above
        from aneforge.analysis.ranges.program_ranges import declared_ranges, flow  # noqa: PLC0415 - as above

        if view is SEEN and self.samples is not None:
            yield from predicted.observe_ranges(program, [compiled.feed(self.samples)]).layers
            return
        found = flow(program, declared_ranges(self.graph, self.ranges, otherwise=FINITE))
        for layer in program.layers:
            yield predicted.layer_range(layer, found.layers[layer.name], found.ranges, program, None)

    def rescaled(self, target: Target) -> Rescaled:
        """Return the graph with products rescaled by powers of two, and the engine's errors before and after.

        Raises:
            GraphError: Sample inputs do not fit the model.
        """
        from aneforge.optimise.rescaling.rescale import rescale  # noqa: PLC0415 - few checks rescale

        samples = None if self.samples is None else [self.samples]
        ranges = self.ranges if samples is None and self.ranges else None
        return rescale(self.graph, inputs=samples, ranges=ranges, target=target)

    def rescaling(self, compiled: Compiled, target: Target, scaled: Rescaled) -> Rescaling:
        """Return what scaling by powers of two would gain: the errors of outputs, and the edges that can be passed."""
        from aneforge.compiler.compile import compile_graph  # noqa: PLC0415 - few checks rescale

        after = Risks(scaled.graph, self.samples, self.ranges, deep=True)
        views = self.views or after.views
        before = [layer for view in views for layer in self.layers(compiled, view)]
        afterwards = before
        if scaled.applied or views != after.views:
            rebuilt = compile_graph(scaled.graph, target, route=compiled.retargeted.route)
            afterwards = [layer for view in after.views for layer in after.layers(rebuilt, view)]
        counts = [sum(bool(layer.passed) for layer in layers) for layers in (before, afterwards)]
        on = {"declared": "inputs drawn within the ranges", "observed": "the sample inputs"}.get(
            scaled.source, "inputs that were drawn"
        )
        if not scaled.applied and counts[0] == counts[1]:
            errors = "; ".join(f"output {one.name}: {share_text(one.before)}" for one in scaled.outputs)
            detail = f"nothing to gain: no product of {len(scaled.products)} rescaled; error on {on}: {errors}"
        else:
            errors = "; ".join(
                f"output {one.name}: {share_text(one.before)} -> {share_text(one.after)}" for one in scaled.outputs
            )
            detail = (
                f"{len(scaled.applied)} of {len(scaled.products)} products rescaled; error on {on}, before -> after: "
                f"{errors}; layers that can overflow or lose bits: {counts[0]} -> {counts[1]}"
            )
        return Rescaling(word_of(before), word_of(afterwards), detail)


def share_text(error: float) -> str:
    """Return a relative error in words.

    >>> share_text(0.001), share_text(math.inf)
    ('0.100%', 'not finite')
    """
    return f"{error:.3%}" if math.isfinite(error) else "not finite"


def may_saturate(graph: Graph, program: Program, verdict: Preflight) -> bool:
    """Return whether a program has anything at all that could make large values infinite, at a glance."""
    slices = any(layer.choices.get("format") in (FIXED_POINT, UNKNOWN_FORMAT) for layer in program.layers)
    encoded = any(layer.choices.get("weights") == "streams" for layer in program.layers)
    return (
        slices
        or encoded
        or any(
            {Trait.RESIZING, Trait.SQUARING_SUM} & node.op.traits
            or (report.status is Status.DECOMPOSE and node.op.movement is None)
            for node, report in zip(graph.nodes, verdict.reports, strict=True)
        )
    )


def hazard_finding(hazard: Hazard, graph: Graph) -> Finding:
    """Return a hazard as a finding of a report."""
    at = [number for number, node in enumerate(graph.nodes) if node.location == hazard.location is not None]
    own = [number for number in at if graph.nodes[number].op.name == hazard.op]
    how = (
        f"its input may reach {hazard.reach:.4g}" if math.isfinite(hazard.reach) else "no range is known for its input"
    )
    return Finding(
        rule=rule_of_edge(str(hazard.route)).id,
        severity=Severity.WARN,
        op=hazard.op,
        node=next(iter(own or at), None),
        location=hazard.location,
        message=f"{hazard.detail} ({how}).",
        seen=float(f"{hazard.reach:.4g}") if math.isfinite(hazard.reach) else "not bounded",
        limit=hazard.limit,
        remedy=f"{hazard.remedy}.",
        evidence=Evidence(EvidenceKind.INFERRED, "the program, and the engine's arithmetic"),
        target=hazard.target,
    )


def views_of(*, sampled: bool, bounded: bool, deep: bool) -> tuple[View, ...]:
    """Return how values are looked at: what samples show comes first, and ranges bound what they do not show."""
    bounds = (BOUNDED,) if bounded else (UNBOUNDED,) if deep and not sampled else ()
    return (*((SEEN,) if sampled else ()), *bounds)


def by_operations(graph: Graph) -> Risk:
    """Return what the operations show by themselves."""
    found = find_precision_risks(graph)
    if not found:
        return Risk(UNKNOWN, "no ranges and no sample inputs were given, so nothing is known of magnitudes")
    worst = max(found, key=lambda risk: risk.error)
    where = f" at {worst.location}" if worst.location else ""
    sums = f"{worst.op}{where} adds {worst.terms} signed numbers in fp16 partial sums"
    return Risk(LOSS, f"{sums}; relative error about {worst.error:.2g}")


def word_of(layers: Sequence[LayerRange]) -> str:
    """Return the worst that layers show, in a word."""
    return worst_word(rule_of_edge(concern.edge).risk for layer in layers for concern in layer.passed)


def worst_word(words: Iterable[str]) -> str:
    """Return the worst of some words."""
    found = set(words)
    return next((word for word in (SATURATION, LOSS, UNKNOWN) if word in found), NONE)


def describe_edge(
    layer: LayerRange,
    concern: Concern,
    operation: tuple[str, int | None],
    view: View,
    scaled: Rescaled | None,
    *,
    target: str,
) -> Finding:
    """Return an edge that a layer can pass as a finding."""
    op, node = operation
    rule = rule_of_edge(concern.edge)
    lossy = rule.risk == LOSS
    measured = find_measured_product(layer, scaled) if lossy else None
    errors = f" {errors_text(measured)}" if measured is not None else " --rescale measures the error." if lossy else ""
    how = view.loss if lossy else view.some
    return Finding(
        rule=rule.id,
        # Sums of many products lose less than each of them: a loss is one where rescaling was seen to gain something.
        severity=Severity.WARN if not lossy or (measured is not None and measured.applied) else Severity.INFO,
        op=op,
        node=node,
        location=layer.location,
        message=f"{describe_passed_edge(concern, view)} ({how}).{errors}",
        seen=TOO_WIDE if explodes(concern, view) else seen_value(concern.value),
        limit=concern.limit,
        remedy=NO_GAIN if measured is not None and not measured.applied else f"{concern.remedy}.",
        evidence=Evidence(EvidenceKind.INFERRED, "ranges of the compiled program", note=how),
        target=target,
    )


def explodes(concern: Concern, view: View) -> bool:
    """Return whether a value is only a bound, and one that says nothing: intervals grow with every sum."""
    return view is not SEEN and not abs(concern.value) < EXPLODED


def seen_value(value: float) -> float | str:
    """Return a number in four digits, as JSON can hold it."""
    return float(f"{value:.4g}") if math.isfinite(value) else "inf"


def describe_passed_edge(concern: Concern, view: View) -> str:
    """Return an edge with the value that is compared with it."""
    if explodes(concern, view):
        return f"{concern.edge}: {TOO_WIDE} whether {concern.limit:.6g} is passed; sample inputs would show it"
    if rule_of_edge(concern.edge).risk == LOSS:
        return f"{concern.edge}: products of about {concern.value:.4g} lose bits (none from {concern.limit:.6g} on)"
    return f"{concern.edge}: {concern.value:.4g} against {concern.limit:.6g}"


def find_measured_product(layer: LayerRange, scaled: Rescaled | None) -> ProductRescaling | None:
    """Return what rescaling did to the product that a layer carries out, where it was tried there.

    One node of a file can be many products. The name distinguishes them, where both graphs number their nodes alike;
    else the one that was rescaled and had the largest error stands for all.
    """
    if scaled is None or layer.location is None:
        return None
    there = [one for one in scaled.products if one.location == layer.location]
    named = [one for one in there if one.name == layer.layer.partition(".")[0]]
    return max(named or there, key=lambda one: (one.applied, one.error_before if one.applied else 0.0), default=None)


def errors_text(product: ProductRescaling) -> str:
    """Return what the errors of a product were measured to be."""
    if product.applied:
        return f"Measured error of this product: {product.error_before:.3%}, rescaled {product.error_after:.3%}."
    return f"Rescaling was tried and gains nothing here: {product.reason}."

"""One model on one target, written down: verdicts, findings, program, time, memory, risk and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from aneforge.analysis.cost import price
from aneforge.analysis.exactness import labels_of_layers
from aneforge.analysis.machine import machine_of
from aneforge.analysis.routes import get_assumed_route
from aneforge.analysis.segmenter import is_rebuilt_here
from aneforge.analysis.work import work_of
from aneforge.commands.changes import Changes
from aneforge.commands.model_and_targets import title_of_place
from aneforge.commands.noting import merge_notes, program_notes, refusal_text
from aneforge.commands.placed import ENGINE, cuts, nothing_on_engine, own_programs, predict_placement
from aneforge.commands.report_nodes import origins, report_nodes, trace_layers
from aneforge.commands.risk import UNKNOWN, Risks
from aneforge.commands.timeline import memory_of, round_time, timeline_of
from aneforge.engine.exactness import Exactness, label_of_all, worst
from aneforge.evidence import EvidenceKind
from aneforge.records import dataclass
from aneforge.report.gate import STOPPING
from aneforge.report.grouping import how_bad
from aneforge.report.model import COREML, DIRECT, Counts, Latency, TargetReport, TimePart, is_operation
from aneforge.report.predicted import OWN_PROGRAM
from aneforge.report.time_shares import time_share
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity
from aneforge.targets.watching import Sharing, explain_answer, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.work import ProgramWork
    from aneforge.commands.sampling import SampleRuns
    from aneforge.commands.sharing import Made
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.exactness import Label
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.report.model import Emission, Memory, Placement, Timed
    from aneforge.rules.preflight import Preflight
    from aneforge.rules.rule import Finding
    from aneforge.targets import Place, Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["Asked", "TargetWriter"]

STATUSES = tuple(map(str, Status))
COMPILED_HERE = "`aneforge compile MODEL -t CHIP -o OTHER.mlpackage` writes it as operations that the engine takes."
"""What to do about an operation that only this package's compiler builds of others."""
TAKING_TIME = (Severity.OVERSIZE, Severity.DECOMPOSE)
"""Findings of these severities make a layer another one, or several."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted in addition to verdict, program and price."""

    samples: Mapping[str, Array] | None
    ranges: Ranges
    deep: bool
    placement: str | None
    rescale: bool
    path: str = DIRECT
    tasks: bool = False
    runs: SampleRuns | None = None
    """What programs give for the samples."""


class TargetWriter:
    """Writes the reports of one graph; what targets share is found once."""

    def __init__(self, graph: Graph, asked: Asked) -> None:
        self.graph = graph
        self.nodes = report_nodes(graph)
        self.asked = asked
        self.risks = Risks(graph, asked.samples, asked.ranges, deep=asked.deep)
        self.changes = Changes(graph)
        self.labelled: Sharing[Mapping[str, Label]] = Sharing(explain_answer)
        self.worked: Sharing[ProgramWork] = Sharing()
        self.planned: Sharing[Memory] = Sharing()
        self.carried: dict[int, tuple[tuple[Layer, ...], Mapping[str, tuple[int, ...]]]] = {}
        self.emitted: dict[tuple[object, ...], tuple[Program, Emission]] = {}

    def report(self, chosen: Place, verdict: Preflight, made: Made) -> TargetReport:
        """Return the report of one target."""
        statuses = tuple(str(one.status) for one in verdict.reports)
        # An input is not an operation that is native; one that is too large is counted as what it is.
        counted = [
            one for one, node in zip(statuses, self.nodes, strict=True) if one != Status.NATIVE or is_operation(node)
        ]
        counts = Counts(*(counted.count(status) for status in STATUSES))
        placement = predict_placement(self.graph, chosen, self.asked.placement)[0] if self.asked.placement else None
        cut = () if placement is None else tuple(cuts(self.graph, placement, chosen.target.name))
        judged = TargetReport(
            target=chosen.target.name,
            title=title_of_place(chosen),
            ok=verdict.ok and made.compiled is not None,
            counts=counts,
            native_fraction=counts.native / max(1, len(counted)),
            verdicts=statuses,
            findings=sort_findings((*findings_of(verdict), *cut)),
            failure=None if made.failure is None else refusal_text(made.failure),
            placement=placement,
        )
        whole = judged if made.compiled is None else self.with_program(judged, verdict, chosen, made.compiled)
        return self.through_coreml(whole, chosen) if self.asked.path == COREML else whole

    def through_coreml(self, direct: TargetReport, chosen: Place) -> TargetReport:
        """Return the report of a model that Core ML runs: what the engine does not take runs elsewhere."""
        placement, found = predict_placement(self.graph, chosen, COREML)
        times = round_time(found.microseconds or 0.0), round_time(found.low or 0.0), round_time(found.high or 0.0)
        note = () if direct.failure is None else (f"no program for direct dispatch: {direct.failure}",)
        elsewhere = {node for one in placement.segments if one.device != ENGINE for node in one.nodes}
        parts = () if elsewhere or direct.latency is None else direct.latency.parts
        name = chosen.target.name
        findings = (
            *(through_coreml(one, elsewhere) for one in direct.findings),
            *cuts(self.graph, placement, name),
            *nothing_on_engine(placement, name),
        )
        return replace(
            less_sure_elsewhere(direct, len(elsewhere), placement),
            path=COREML,
            ok=True,
            failure=None,
            findings=sort_findings(findings),
            segments=sum(one.device == ENGINE for one in placement.segments),
            latency=Latency(*times, EvidenceKind.INFERRED, parts=parts, route=get_assumed_route()),
            placement=placement,
            notes=(*direct.notes, *note),
            changes=direct.changes
            if not elsewhere
            else self.changes.through_coreml(chosen, found.microseconds or 0.0, split=direct.counts.oversize > 0),
        )

    def with_program(self, judged: TargetReport, verdict: Preflight, chosen: Place, compiled: Compiled) -> TargetReport:
        """Return a report with everything that a compiled program shows."""
        program, order = compiled.program, compiled.schedule
        carried = self.carried_out(compiled)
        labels = self.labels(compiled, chosen.target)
        work = self.work(compiled)
        priced = price(work, machine_of(chosen))
        scaled = self.risks.rescaled(chosen.target) if self.asked.rescale else None
        risk = self.risks.of(compiled, verdict, carried, scaled)
        sure = label_of_all(labels.values())
        timeline = timeline_of(compiled, priced, labels, carried)
        own = own_programs(self.graph, program, priced, carried)
        return replace(
            judged,
            findings=sort_findings(with_shares((*judged.findings, *risk.findings, *own), timeline)),
            layers=len(program.layers),
            segments=len(program.segments),
            partitions=len(order.partitions),
            latency=latency_of(priced),
            weight_bytes=work.held_bytes,
            activation_bytes=sum(layer.dram_bytes + layer.reread_bytes for layer in work.layers),
            risk=risk.word,
            risk_reason=risk.reason,
            exactness=str(sure.exactness),
            exactness_reason=sure.reason,
            timeline=timeline,
            memory=self.planned.find(compiled.observed, chosen.target, lambda _: memory_of(compiled)),
            notes=merge_notes(
                (
                    *program_notes(program, self.nodes, carried),
                    *((text, "") for text in (*compiled.plan.notes, *priced.notes)),
                )
            ),
            rescaling=None if scaled is None else self.risks.rescaling(compiled, chosen.target, scaled),
            emission=self.emission(compiled, carried) if self.asked.tasks else None,
            changes=self.changes.of(chosen, program, work, priced, split=judged.counts.oversize > 0),
            errors=() if self.asked.runs is None else self.asked.runs.errors(chosen.target, compiled),
        )

    def emission(self, compiled: Compiled, carried: Mapping[str, tuple[int, ...]]) -> Emission:
        """Return the tasks of a program; targets of one generation that share a program share them."""
        from aneforge.commands.emitted_tasks import emission_of  # noqa: PLC0415 - few reports ask for it

        program = compiled.program
        key = id(program.layers), kind_of(program.target), program.target.descriptor_generation
        if key not in self.emitted:
            # The program is kept with the answer, so that no other layers can come to be at their address.
            self.emitted[key] = program, emission_of(compiled, carried)
        return self.emitted[key][1]

    def labels(self, compiled: Compiled, target: Target) -> Mapping[str, Label]:
        """Return how sure each layer is, with the samples if there are some.

        Targets that share a program and what is known of the datapath share what is known without samples.
        """
        program = compiled.program
        known = self.labelled.find(
            program.layers, program.target, lambda target: labels_of_layers(replace(program, target=target))
        )
        if self.asked.runs is None:
            return known
        doubts = self.asked.runs.doubts(target, compiled)
        return {name: worst([one, *doubts.get(name, ())]) for name, one in known.items()}

    def work(self, compiled: Compiled) -> ProgramWork:
        """Return what a program does; targets that share the program and its memory plan share it.

        What validators see is made once for each memory plan of a program, so that it stands for both.
        """
        target = compiled.program.target
        found = self.worked.find(compiled.observed, target, lambda watched: work_of(for_target(compiled, watched)))
        return replace(found, target=target.name)

    def carried_out(self, compiled: Compiled) -> Mapping[str, tuple[int, ...]]:
        """Return which nodes each layer carries out; targets that share a program share the answer."""
        key = id(compiled.program.layers)
        if key not in self.carried:
            origin = origins(self.graph, compiled.graph)
            # The layers are kept with the answer, so that no others can come to be at their address.
            self.carried[key] = compiled.program.layers, trace_layers(compiled.program, compiled.graph, origin)
        return self.carried[key][1]


def through_coreml(finding: Finding, elsewhere: Collection[int]) -> Finding:
    """Return a finding of a direct dispatch as it is where Core ML runs some operations elsewhere.

    Shares of the time of a direct dispatch are not shares of this one.
    """
    found = msgspec.structs.replace(finding, share=None)
    if finding.severity in STOPPING:
        message = f"Core ML runs it elsewhere: {finding.message}"
        return msgspec.structs.replace(found, severity=Severity.WARN, message=message)
    if finding.node not in elsewhere:
        return found
    if is_rebuilt_here(finding.rule):
        message = f"Core ML runs it elsewhere: {finding.message}"
        return msgspec.structs.replace(found, severity=Severity.WARN, message=message, remedy=COMPILED_HERE)
    message = f"Core ML is predicted to run it elsewhere; on the engine: {finding.message}"
    return msgspec.structs.replace(found, severity=Severity.INFO, message=message)


def less_sure_elsewhere(direct: TargetReport, count: int, placement: Placement) -> TargetReport:
    """Return a report of which some operations run elsewhere, in arithmetic that is not the engine's."""
    if not count:
        return direct
    whole = count + placement.count(ENGINE)
    which = "all operations" if count == whole else f"{count} of {whole} operations"
    reason = f"Core ML runs {which} outside of the engine, in arithmetic that is not known here"
    found = replace(direct, exactness=str(Exactness.UNKNOWN), exactness_reason=reason)
    if count < whole:
        return found
    return replace(found, risk=UNKNOWN, risk_reason="nothing runs on the engine")


def for_target(compiled: Compiled, target: Target) -> Compiled:
    """Return what was compiled, its program for a target that stands for its own."""
    return replace(compiled, program=replace(compiled.program, target=target))


def findings_of(verdict: Preflight) -> tuple[Finding, ...]:
    """Return what rules found, each with the node that it is about."""
    return tuple(finding.in_report(node) for node, report in enumerate(verdict.reports) for finding in report.findings)


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings worst first, then in the order of the graph."""
    return tuple(sorted(findings, key=how_bad))


def with_shares(findings: Iterable[Finding], timeline: Sequence[Timed]) -> Iterator[Finding]:
    """Yield findings about the form of a program with the share of its time that they are about."""
    for finding in findings:
        if finding.severity in TAKING_TIME or finding.rule == OWN_PROGRAM.id:
            yield msgspec.structs.replace(finding, share=time_share(timeline, {finding.node}, finding.rule))
        else:
            yield finding


def latency_of(priced: Cost) -> Latency:
    """Return a predicted time with its interval."""
    rests_on = EvidenceKind.MEASURED if priced.machine.measured else EvidenceKind.INFERRED
    times = round_time(priced.microseconds), round_time(priced.low), round_time(priced.high)
    parts = tuple(
        TimePart(part.name, round_time(part.microseconds), str(part.basis), part.text) for part in priced.parts
    )
    return Latency(*times, priced.kind, rests_on, parts, priced.route)

"""The proof that all answers agree: everything that is said of a drawn case, and what of it cannot be true together.

Each kind of contradiction is a function that yields a sentence, the same for all cases of its class, and details.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import aneforge as af
from aneforge.analysis.cost import cost_of
from aneforge.analysis.exactness import labels_of_layers
from aneforge.commands.checking import CheckOptions, check
from aneforge.commands.comparing import compare
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.engine.exactness import Exactness, label_of_all
from aneforge.engine.execution.run import run
from aneforge.errors import GraphError, NotSupportedError
from aneforge.evidence import EvidenceKind
from aneforge.graph.precision import to_fp16
from aneforge.report.gate import FAIL_ON, STRICT, Threshold, outcome
from aneforge.report.model import DIFFERS, NO, SAME, SPLIT
from aneforge.report.written import report_from_json, report_to_json
from aneforge.targets import Target, group, place_of, resolve
from aneforge.targets.queries import was_measured_on
from engine.test_labels_by_evidence import ARITHMETIC, ORDER, claim, least
from proof_commands import disagreeing_commands
from report_readers import disagreeing_forms
from verdict_tools import ask, disagreements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.layer import Layer
    from aneforge.engine.execution.run import Run
    from aneforge.report.model import Divergence, Report, TargetReport
    from proof_cases import Case

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["KNOWN", "MET", "Contradiction", "Judged", "judge"]

NEAR = 0.01
"""Microseconds by which times of a report differ at most: they are rounded."""
SATURATION = "saturation"
NO_CACHE = {"ANEFORGE_CACHE_BYTES": "0"}
"""Programs are compiled, and not found where earlier code left them."""
TARGET_NAMES = frozenset(target.name for target in group("all"))
FORMS = ("winograd", "stride")
"""Choices of a form in which a layer computes; `unknown` where no source says which it is."""
FILES = 4
"""One case of so many is also asked about at the command line."""
MEASURED = Threshold(FAIL_ON, evidence=EvidenceKind.MEASURED)
GATES = (Threshold(), Threshold(STRICT), Threshold(("saturation", "divergence")))


KNOWN: Mapping[str, str] = {}
"""Classes of contradictions that are known, each with its reason; one that is gone is to be taken out."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two answers of which one is wrong."""

    what: str
    """The class, without names of the case."""
    details: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What was compiled and run for one target of a case, and what the report says of it."""

    name: str
    target: Target
    told: TargetReport
    compiled: Compiled | None
    ran: Run | None
    """None without a program or samples, and where no source gives the mathematics of an operation."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one case."""

    contradictions: tuple[Contradiction, ...]
    met: frozenset[str]
    """Which of `MET` the case has: without them, nothing would be proven."""


def judge(case: Case) -> Judged:
    """Ask every door about a case, and find what cannot be true together."""
    with warnings.catch_warnings(), patch.dict("os.environ", NO_CACHE):
        warnings.simplefilter("ignore")
        names = list({place_of(name).target.name: name for name in case.targets}.values())
        report = check(case.graph, names, CheckOptions(samples=case.samples))
        answered = [answer(case, name, told) for name, told in zip(names, report.targets, strict=True)]
        return Judged(tuple(contradictions(case, report, answered)), frozenset(met_by(report, answered)))


def contradictions(case: Case, report: Report, answered: Sequence[Answered]) -> Iterator[Contradiction]:
    """Yield what is said of a case and cannot be true together."""
    yield from rows(case, answered)
    yield from alone(case, answered[-1])
    yield from infinities(case, answered)
    yield from differences(case, report, answered)
    for one in answered:
        yield from times(case, one)
        yield from labels(one)
    yield from forms(report, GATES[case.number[1] % len(GATES)])
    yield from evidence(report)
    if case.number[1] % FILES == 0:
        names = [one.name for one in answered]
        yield from (Contradiction(*found) for found in disagreeing_commands(case.graph, names, case.number[0]))


MET = (
    "refused on a target",
    "split on a target",
    "below the floor of MIL",
    "outputs that are infinite",
    "equal bits on two targets",
    "different bits on two targets",
    "all layers exact",
    "a finding that was measured there",
)


def met_by(report: Report, answered: Sequence[Answered]) -> Iterator[str]:
    """Yield what a case has of `MET`."""
    refused, split, older, infinite, equal, different, exact, measured = MET
    outputs = [value for one in answered if one.ran is not None for value in one.ran.outputs.values()]
    tests = {
        refused: any(one.told.failure is not None for one in answered),
        split: any(one.told.runs == SPLIT for one in answered),
        older: any(not one.target.limits.flag("mil_programs") for one in answered),
        infinite: any(bool(np.isinf(value).any()) for value in outputs if value.dtype.kind == "f"),
        equal: any(pair.differing == 0 for pair in report.divergences),
        different: any(pair.differing for pair in report.divergences),
        exact: any(one.ran is not None and one.ran.label.exactness is Exactness.EXACT for one in answered),
        measured: bool(outcome(report, MEASURED).failures),
    }
    yield from (name for name, holds in tests.items() if holds)


def answer(case: Case, name: str, told: TargetReport) -> Answered:
    """Compile and run a case for one target."""
    target = place_of(name).target
    try:
        compiled = compile_graph(to_fp16(case.graph).graph, name)
    except GraphError:
        return Answered(name, target, told, None, None)
    if case.samples is None:
        return Answered(name, target, told, compiled, None)
    try:
        ran = run(compiled.program, compiled.feed(case.samples))
    except NotSupportedError:
        ran = None
    return Answered(name, target, told, compiled, ran)


def rows(case: Case, answered: Sequence[Answered]) -> Iterator[Contradiction]:
    """Every door gives one row of the table; what is below the floor of MIL is refused at all of them."""
    runs_mil = [one for one in answered if one.target.limits.flag("mil_programs")]
    for one in runs_mil[:1]:
        for what in disagreements(ask(case.graph, one.target)):
            yield Contradiction(what, one.name)
    for one in answered:
        if one in runs_mil:
            continue
        if one.told.runs != NO or af.preflight(case.graph, one.name).ok:
            yield Contradiction("below the floor of MIL and not refused", one.name)
        if one.told.failure is None or one.compiled is not None:
            yield Contradiction("rejected, and has a program", one.name)


def alone(case: Case, one: Answered) -> Iterator[Contradiction]:
    """Yield what is said of a target only because others were asked about before it."""
    report = check(case.graph, one.name, CheckOptions(samples=case.samples)).targets[0]
    for field in fields(report):
        if getattr(report, field.name) != getattr(one.told, field.name):
            details = f"{one.name}: {getattr(report, field.name)}, {getattr(one.told, field.name)}"
            yield Contradiction(f"beside other targets there is another {field.name}", details)


def infinities(case: Case, answered: Sequence[Answered]) -> Iterator[Contradiction]:
    """Yield what becomes infinite or no number without a hazard: seen with the samples, and possible without them."""
    for one in answered:
        if one.ran is None:
            continue
        values = [value for value in one.ran.outputs.values() if value.dtype.kind == "f"]
        if all(np.isfinite(value).all() for value in values):
            continue
        if one.told.risk != SATURATION:
            yield Contradiction("infinite without a hazard", f"{one.name}: {one.told.risk}: {one.told.risk_reason}")
        possible = check(case.graph, one.name, CheckOptions(deep=True)).targets[0]
        if possible.risk != SATURATION:
            yield Contradiction("infinite, and proven not to be", f"{one.name}: {possible.risk_reason}")
        runs_mil = one.target.limits.flag("mil_programs")
        if runs_mil and not compare(case.graph, one.name, "reference", case.samples).hazards:
            yield Contradiction("infinite, and compare names no hazard", one.name)


def bits(value: Array) -> Array:
    """Return what two values are compared by; all that is no number is one."""
    if value.dtype != np.float16:
        return value
    return np.where(np.isnan(value), np.uint16(0x7E00), np.ascontiguousarray(value).view(np.uint16))


def differences(case: Case, report: Report, answered: Sequence[Answered]) -> Iterator[Contradiction]:
    """Yield pairs of which `none` or `same` does not mean equal bits for the samples, or `differs` different ones."""
    glance = {(pair.first, pair.second): pair for pair in check(case.graph, [one.name for one in answered]).divergences}
    by_name = {one.told.target: one for one in answered}
    with_program = [one.told.target for one in answered if one.compiled is not None]
    if [pair.second for pair in report.divergences] != with_program[1:]:
        yield Contradiction("targets are not compared", f"{with_program}, {report.divergences}")
    for pair in report.divergences:
        yield from one_analysis(case, pair, by_name[pair.first], by_name[pair.second])
        named = {word for one in pair.differences for word in re.findall(r"\w+", one.detail)} & TARGET_NAMES
        if not named <= {pair.first, pair.second}:
            yield Contradiction("a difference names other targets", f"{pair.first}, {pair.second}: {named}")
        first, second = by_name[pair.first].ran, by_name[pair.second].ran
        if first is None or second is None:
            continue
        differing = sum(
            int(np.count_nonzero(bits(value) != bits(second.outputs[name]))) for name, value in first.outputs.items()
        )
        said = f"{pair.first} and {pair.second}: {differing} differ; {pair.word}, {pair.strength}, {pair.differing}"
        if differing and SAME in (pair.word, {"none": SAME}.get(pair.strength)):
            yield Contradiction("bits differ where none was said", said)
        if differing and glance[pair.first, pair.second].word == SAME:
            yield Contradiction("bits differ where a glance said the same", said)
        if (pair.word == DIFFERS) is not bool(differing) or pair.differing != differing:
            yield Contradiction("differs means different bits", said)
        if (pair.strength == "none") is not (pair.word == SAME):
            yield Contradiction("the word and the strength disagree", said)


def one_analysis(case: Case, pair: Divergence, first: Answered, second: Answered) -> Iterator[Contradiction]:
    """Yield another strength than `af.divergence` has; samples make a check as deep as that."""
    if case.samples is None or not all(one.target.limits.flag("mil_programs") for one in (first, second)):
        return
    found = str(af.divergence(case.graph, first.name, second.name).on_silicon)
    if found != pair.strength:
        yield Contradiction("divergence has another strength", f"{first.name}, {second.name}: {found}, {pair.strength}")


def times(case: Case, one: Answered) -> Iterator[Contradiction]:
    """Check, cost and compile have one number of microseconds."""
    latency = one.told.latency
    if (latency is None) is not (one.compiled is None):
        yield Contradiction("a time without a program", f"{one.name}: {latency}, {one.told.failure}")
    if latency is None or one.compiled is None:
        return
    found = {"what was compiled": cost_of(one.compiled).microseconds}
    if one.target.limits.flag("mil_programs"):
        model = af.compile(case.graph, target=one.name, opt=None)
        found |= {
            "cost": af.cost(case.graph, one.name).microseconds,
            "estimate": af.estimate(case.graph, target=one.name),
            "the model": af.cost(model).microseconds,
            "placement": sum(part.microseconds or 0.0 for part in af.placement(case.graph, one.name).segments),
        }
    timeline = sum(layer.duration for layer in one.told.timeline)
    if abs(timeline - latency.microseconds) > NEAR * (len(one.told.timeline) + 1):
        yield Contradiction("the layers take another time", f"{one.name}: {timeline}, {latency.microseconds}")
    wrong = {name: value for name, value in found.items() if abs(value - latency.microseconds) > NEAR}
    if wrong:
        yield Contradiction(f"times differ: {', '.join(wrong)}", f"{one.name}: {latency.microseconds}, {wrong}")


def labels(one: Answered) -> Iterator[Contradiction]:
    """No label is surer than the least evidence along its steps; none of a run is surer than that of its program."""
    if one.compiled is None:
        return
    program = one.compiled.program
    known = labels_of_layers(program)
    for layer in program.layers:
        allowed = least("exact", *(claim(step, one.target.name) for step in steps_of(layer)))
        if ORDER.index(known[layer.name].exactness) < ORDER.index(allowed):
            yield Contradiction(f"surer than its evidence: {layer.kind.name}", f"{one.name}: {layer}, {allowed}")
        if "unknown" in map(layer.choices.get, FORMS) and known[layer.name].exactness is Exactness.EXACT:
            yield Contradiction("surer than the form of its layer", f"{one.name}: {layer}")
        if one.ran is not None and one.ran.labels[layer.name].exactness.doubt < known[layer.name].exactness.doubt:
            yield Contradiction("a run is surer than its program", f"{one.name}: {layer}")
    if one.told.exactness != label_of_all((known if one.ran is None else one.ran.labels).values()).exactness:
        yield Contradiction("the report has another label", f"{one.name}: {one.told.exactness}")


def steps_of(layer: Layer) -> Iterator[str]:
    """Yield the names by which the evidence knows what a layer computes, slots included."""
    call = call_of_layer(layer)
    calls = [call, *(call_of_kind(stage.kind, stage.attributes, (1, 1, 1, 1)) for _, stage in layer.epilogue.stages)]
    for one in calls:
        name = "muls" if one is None else one.op
        if name in ARITHMETIC:
            yield name


def forms(report: Report, gate: Threshold) -> Iterator[Contradiction]:
    """Yield written forms that say something else than the report, or fail on something else."""
    read = report_from_json(report_to_json(report))
    if read != report:
        yield Contradiction("JSON has another report", "")
    if outcome(read, gate) != outcome(report, gate):
        yield Contradiction("JSON has another outcome", str(gate))
    for what, details in disagreeing_forms(report, gate):
        yield Contradiction(what, details)


def evidence(report: Report) -> Iterator[Contradiction]:
    """Yield findings that a gate counts as measured and that were measured on chips of other targets."""
    for one in outcome(report, MEASURED).failures:
        known = None if one.finding is None else one.finding.evidence
        if known is not None and not was_measured_on(resolve(one.target), known):
            yield Contradiction("measured on another chip", f"{one.target}: {one.reason}, {known}")

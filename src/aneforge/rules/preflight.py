"""Will a graph run there: every operation against every rule, without compiling anything."""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from aneforge.display import as_html, cut_lines
from aneforge.graph.convert import unroll
from aneforge.graph.graph import as_graph
from aneforge.records import dataclass
from aneforge.rules.catalogue import rules
from aneforge.rules.nodes import find_known_nodes, operation_of
from aneforge.rules.rule import Finding, Rule, Seen, Severity
from aneforge.rules.subject import PORT, Operation
from aneforge.targets import TargetLike, group, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aneforge.errors import Location, NoDataError
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node, Output
    from aneforge.ops.signature import AttributeValue
    from aneforge.rules.subject import Subject
    from aneforge.targets import Fact, Target

__all__ = ["Judge", "OpReport", "Preflight", "Sight", "Status", "port_of", "preflight", "preflight_all", "status_of"]


class Status(StrEnum):
    """What happens to one operation, best first."""

    NATIVE = "native"
    DECOMPOSE = "decompose"
    OVERSIZE = "oversize"
    REJECT = "reject"


STATUS_OF = {Severity.REJECT: Status.REJECT, Severity.OVERSIZE: Status.OVERSIZE, Severity.DECOMPOSE: Status.DECOMPOSE}


@dataclass(frozen=True, slots=True)
class OpReport:
    """The verdict on one operation."""

    op: str
    shape: tuple[int, ...]
    status: Status
    findings: tuple[Finding, ...]
    """What rules found in it, and in the outputs of the graph that it makes, worst first."""
    location: Location | None

    @property
    def oversize(self) -> bool:
        """True if it must be split, whatever else there is to say of it."""
        return any(finding.severity is Severity.OVERSIZE for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict on a graph for one target: every operation is in exactly one of the four lists."""

    target: str
    reports: tuple[OpReport, ...]
    """All operations in the order of the graph."""
    splits: tuple[str, ...] = ()
    """What the compiler makes of operations that are oversize, and what that costs; or why no split exists."""
    segments: int | None = None
    """Programs that the compiler cuts the graph into; None where it was not asked, or makes none."""

    @property
    def native(self) -> list[OpReport]:
        """Operations that run as they are."""
        return self._with(Status.NATIVE)

    @property
    def decompose(self) -> list[OpReport]:
        """Operations that run as others."""
        return self._with(Status.DECOMPOSE)

    @property
    def oversize(self) -> list[OpReport]:
        """Operations that must be split."""
        return self._with(Status.OVERSIZE)

    @property
    def reject(self) -> list[OpReport]:
        """Operations that cannot run."""
        return self._with(Status.REJECT)

    @property
    def ok(self) -> bool:
        """True if nothing is rejected and nothing is oversize."""
        return not any(report.status in (Status.REJECT, Status.OVERSIZE) for report in self.reports)

    @property
    def findings(self) -> list[Finding]:
        """All findings, worst first."""
        every = (finding for report in self.reports for finding in report.findings)
        return sorted(every, key=lambda finding: finding.severity.rank)

    def __str__(self) -> str:
        counts = Counter(report.status for report in self.reports)
        counted = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status]) or "no operations"
        lines = [f"{'ok' if self.ok else 'not ok'} on {self.target}: {counted}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  {split}" for split in self.splits]
        if self.segments is not None and self.segments > 1:
            lines.append(f"  it is cut into {self.segments} programs")
        return cut_lines(lines)

    def _repr_html_(self) -> str:
        return as_html(self)

    def _with(self, status: Status) -> list[OpReport]:
        return [report for report in self.reports if report.status is status]


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """What each rule that concerns an operation sees in it; operations alike except for their place share it."""

    op: str
    looks: Sequence[tuple[Rule, Sequence[Seen]]]

    @classmethod
    def of(cls, subject: Subject, concerning: Iterable[Rule]) -> Sight:
        """Return what rules see in an operation; those that see nothing in it have nothing to decide."""
        return cls(subject.op, [(rule, seen) for rule in concerning if (seen := rule.extreme(subject))])


@dataclass(frozen=True, slots=True)
class Observation:
    """What rules see in a node and in the outputs that it makes, and the verdict on it if none objects."""

    seen: Sequence[tuple[Operation, Sight]]
    clean: OpReport


class Judge:
    """The bounds of a target. Each is looked up once, and what operations share is compared with them once."""

    def __init__(self, target: Target, left_out: Callable[[str, Target], frozenset[str]] | None = None) -> None:
        """Prepare for a target; `left_out` returns the ids of the rules that do not apply to an operation there."""
        self.target = target
        self.left_out = left_out
        self.bounds: dict[str, Fact | NoDataError] = {}
        self.breaches: dict[Sight, Sequence[tuple[Rule, Seen]]] = {}

    def bound_of(self, rule: Rule) -> Fact | NoDataError:
        """Return the bound of a rule on the target, or the error that says why it is not known.

        Raises:
            NoDataError: Nothing at all is known of the target.
        """
        if rule.id not in self.bounds:
            self.bounds[rule.id] = rule.bound_on(self.target)
        return self.bounds[rule.id]

    def breaches_in(self, sight: Sight) -> Sequence[tuple[Rule, Seen]]:
        """Return the rules that are broken, each with the first value that breaks it."""
        if sight not in self.breaches:
            left_out = frozenset[str]() if self.left_out is None else self.left_out(sight.op, self.target)
            self.breaches[sight] = [
                (rule, found)
                for rule, seen in sight.looks
                if rule.id not in left_out and (found := rule.breach(seen, self.bound_of(rule))) is not None
            ]
        return self.breaches[sight]

    def findings(self, subject: Subject, sight: Sight) -> list[Finding]:
        """Return what rules find in an operation."""
        return [rule.finding(subject, seen, self.target, self.bound_of(rule)) for rule, seen in self.breaches_in(sight)]


def preflight(out: GraphLike, family: TargetLike = None) -> Preflight:
    """Return the verdict on a graph for one target.

    >>> import aneforge as af
    >>> report = preflight(af.input((1, 8, 1, 17_000)).relu(), af.targets.Family.A15)
    >>> report.ok, [found.op for found in report.oversize]
    (False, ['input', 'relu'])

    Raises:
        UnknownTargetError: The target name is unknown.
        NoDataError: The target is a name without data.
    """
    (verdict,) = judge_once(unroll(as_graph(out)).graph, [resolve(family)])
    return verdict


def preflight_all(out: GraphLike) -> dict[str, Preflight]:
    """Return the verdict on a graph for every silicon target; checks that do not depend on it run only once."""
    return {verdict.target: verdict for verdict in judge_once(unroll(as_graph(out)).graph, group("all"))}


def judge_once(graph: Graph, targets: Sequence[Target]) -> list[Preflight]:
    """Return the verdict on a graph for each of several targets; each is found once as long as the graph lives."""
    observations, judged = observe_once(graph), JUDGED[id(graph)]
    missing = [target for target in dict.fromkeys(targets) if target not in judged]
    judged.update(zip(missing, verdicts(observations, missing), strict=True))
    return [judged[target] for target in targets]


OBSERVED: dict[int, list[Observation]] = {}
"""What was seen in graphs that are still in use, by their identity: no target changes it, and no graph changes."""
JUDGED: dict[int, dict[Target, Preflight]] = {}
"""The verdicts on these graphs: callers have often asked for one before the compiler does."""


def observe_once(graph: Graph) -> list[Observation]:
    """Return what rules see in every node; a graph is looked at once as long as it lives."""
    if id(graph) not in OBSERVED:
        OBSERVED[id(graph)], JUDGED[id(graph)] = observe(graph), {}
        for table in (OBSERVED, JUDGED):
            weakref.finalize(graph, table.pop, id(graph), None)
    return OBSERVED[id(graph)]


def replace_observations(graph: Graph, observations: list[Observation]) -> None:
    """Judge a graph by something else that rules see in it; what was judged before is forgotten."""
    observe_once(graph)
    OBSERVED[id(graph)], JUDGED[id(graph)] = observations, {}


def observe(graph: Graph) -> list[Observation]:
    """Return what rules see in every node; nodes alike except for their place are looked at once."""
    ports: dict[Node, list[tuple[Operation, Sight]]] = {}
    for output in graph.outputs.values():
        port = port_of(output, graph)
        ports.setdefault(output.node, []).append((port, look_at(port)))
    alike: dict[tuple[object, ...], Sight] = {}
    known = find_known_nodes(graph.nodes)
    found: list[Observation] = []
    for node in graph.nodes:
        operation = operation_of(node, graph.consumers[node], known)
        kind = likeness(operation)
        if kind not in alike:
            alike[kind] = look_at(operation)
        clean = OpReport(node.op.name, node.types[0].shape, Status.NATIVE, (), node.location)
        found.append(Observation([(operation, alike[kind]), *ports.get(node, ())], clean))
    return found


def likeness(operation: Operation) -> tuple[object, ...]:
    """Return all of an operation that rules look at except for its place; of constants that is type and encoding."""
    return (
        operation.op,
        operation.operands,
        operation.results,
        tuple(operation.attributes.items()),
        operation.consumers,
        tuple(operation.arguments.items()),
        tuple((name, tuple(one.encoding for one in held)) for name, held in operation.constants.items()),
        operation.known,
    )


def look_at(operation: Operation) -> Sight:
    """Return what every rule that concerns an operation sees in it."""
    return Sight.of(operation, rules_about(operation.op))


@cache
def rules_about(op: str) -> Sequence[Rule]:
    """Return the rules that concern an operation."""
    return [rule for rule in rules().values() if rule.concerns(op)]


def verdicts(observations: Sequence[Observation], targets: Sequence[Target]) -> list[Preflight]:
    """Return the verdict for each of several targets.

    Targets with the same bounds object to the same operations, so only those are looked at again for a second one.
    """
    objected: dict[tuple[object, ...], list[int]] = {}
    found: list[Preflight] = []
    for target in targets:
        judge = Judge(target)
        bounds = rules().values() if len(targets) > 1 else ()  # the verdict for a single target is not shared
        profile = tuple(getattr(judge.bound_of(rule), "value", None) for rule in bounds)
        reports = [one.clean for one in observations]
        for place in objected.get(profile, range(len(observations))):
            reports[place] = report(observations[place], judge)
        objected[profile] = [place for place, one in enumerate(reports) if one.findings]
        found.append(Preflight(target.name, tuple(reports)))
    return found


def report(observed: Observation, judge: Judge) -> OpReport:
    """Return the verdict on one operation."""
    findings = [found for operation, sight in observed.seen for found in judge.findings(operation, sight)]
    if not findings:
        return observed.clean
    findings.sort(key=lambda finding: (finding.severity.rank, finding.rule))
    return replace(observed.clean, status=status_of(findings), findings=tuple(findings))


def status_of(findings: Sequence[Finding]) -> Status:
    """Return what happens to an operation by what was found in it, worst first."""
    return STATUS_OF.get(findings[0].severity, Status.NATIVE) if findings else Status.NATIVE


def port_of(output: Output, graph: Graph) -> Operation:
    """Return an output of a graph as rules see it.

    The attribute `producer` names the operation that makes it, and `fed` says whether the graph reads anything at all.
    """
    known: dict[str, AttributeValue] = {"producer": output.node.op.name, "fed": bool(graph.placeholders)}
    return Operation(PORT, (output.type,), attributes=known, location=output.node.location)

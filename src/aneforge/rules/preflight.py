"""Will a graph run there: every operation against every rule, without compiling anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from aneforge.graph.graph import as_graph
from aneforge.rules.catalogue import rules
from aneforge.rules.rule import Finding, Rule, Seen, Severity
from aneforge.rules.subject import Operation
from aneforge.targets import Target, TargetLike, group, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.errors import Location, NoDataError
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node, Output
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import Fact

__all__ = ["OpReport", "Preflight", "Status", "operations_of", "preflight", "preflight_all"]


class Status(StrEnum):
    """What happens to one operation, best first."""

    NATIVE = "native"
    DECOMPOSE = "decompose"
    OVERSIZE = "oversize"
    REJECT = "reject"


PORT = "output"
"""An output of the graph is no operation: it is reported only where a rule objects to it."""
STATUS_OF = {Severity.REJECT: Status.REJECT, Severity.OVERSIZE: Status.OVERSIZE, Severity.DECOMPOSE: Status.DECOMPOSE}


@dataclass(frozen=True, slots=True)
class OpReport:
    """The verdict on one operation."""

    op: str
    shape: tuple[int, ...]
    status: Status
    findings: tuple[Finding, ...]
    location: Location | None


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict on a graph for one target: every operation is in exactly one of the four lists."""

    target: str
    reports: tuple[OpReport, ...]
    """All operations in the order of the graph."""

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

    def _with(self, status: Status) -> list[OpReport]:
        return [report for report in self.reports if report.status is status]


@dataclass(frozen=True, slots=True)
class Observation:
    """An operation, what each rule sees in it, and the verdict if no rule objects."""

    operation: Operation
    seen: Sequence[tuple[Rule, Sequence[Seen]]]
    clean: OpReport


Bounds = dict[str, "Fact | NoDataError"]


def preflight(out: GraphLike, target: TargetLike = None) -> Preflight:
    """Return the verdict on a graph for one target.

    >>> import aneforge as af
    >>> report = preflight(af.input((1, 8, 1, 17_000)).relu(), af.targets.Family.A15)
    >>> report.ok, [found.op for found in report.oversize]
    (False, ['input', 'relu'])

    Raises:
        UnknownTargetError: Nothing has that name.
        NoDataError: The target is a name without data.
    """
    return verdicts(observe(as_graph(out)), [resolve(target)])[0]


def preflight_all(out: GraphLike) -> dict[str, Preflight]:
    """Return the verdict on a graph for every silicon target; what no target changes is looked at once."""
    return {verdict.target: verdict for verdict in verdicts(observe(as_graph(out)), group("all"))}


def observe(graph: Graph) -> list[Observation]:
    """Return every operation with what each rule sees in it; operations alike but for their place are seen once."""
    alike: dict[tuple[object, ...], Sequence[tuple[Rule, Sequence[Seen]]]] = {}
    found: list[Observation] = []
    for operation in operations_of(graph):
        attributes = tuple(operation.attributes.items())
        kind = (operation.op, operation.operands, operation.results, attributes, operation.consumers)
        if kind not in alike:
            alike[kind] = [(rule, seen) for rule in rules_about(operation.op) if (seen := rule.extreme(operation))]
        shape = operation.results[0].shape if operation.results else ()
        clean = OpReport(operation.op, shape, Status.NATIVE, (), operation.location)
        found.append(Observation(operation, alike[kind], clean))
    return found


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
        bounds = {rule.id: rule.bound_on(target) for rule in rules().values()}
        profile = tuple(getattr(bound, "value", None) for bound in bounds.values())
        reports = [one.clean for one in observations]
        for place in objected.get(profile, range(len(observations))):
            reports[place] = report(observations[place], target, bounds)
        objected[profile] = [place for place, one in enumerate(reports) if one.findings]
        found.append(Preflight(target.name, tuple(one for one in reports if one.op != PORT or one.findings)))
    return found


def report(observed: Observation, target: Target, bounds: Bounds) -> OpReport:
    """Return the verdict on one operation."""
    operation = observed.operation
    findings = [
        finding
        for rule, seen in observed.seen
        if (finding := rule.judge(operation, seen, target, bounds[rule.id])) is not None
    ]
    if not findings:
        return observed.clean
    findings.sort(key=lambda finding: (finding.severity.rank, finding.rule))
    status = STATUS_OF.get(findings[0].severity, Status.NATIVE)
    return replace(observed.clean, status=status, findings=tuple(findings))


def operations_of(graph: Graph) -> list[Operation]:
    """Return the operations of a graph as rules see them; every output of the graph is a port of its own."""
    operations = [operation_of(node, graph.consumers[node]) for node in graph.nodes]
    return operations + [port_of(output) for output in graph.outputs.values()]


def port_of(output: Output) -> Operation:
    """Return an output of a graph as rules see it; the attribute `producer` names the operation that makes it."""
    producer: dict[str, AttributeValue] = {"producer": output.node.op.name}
    return Operation(PORT, (output.type,), attributes=producer, location=output.node.location)


def operation_of(node: Node, consumers: Sequence[Node]) -> Operation:
    """Return a node as rules see it; the extents of a constant kernel become the attribute `kernel_sizes`."""
    attributes: dict[str, AttributeValue] = dict(node.attributes)
    kernel = node.operands.get("weight")
    if (
        kernel is not None
        and not isinstance(kernel, tuple)
        and "kernel_sizes" not in attributes
        and kernel.type.rank > 2
    ):
        attributes["kernel_sizes"] = kernel.type.shape[2:]
    return Operation(
        node.op.name,
        operands=tuple(value.type for _, value in node.values()),
        results=node.types,
        attributes=attributes,
        consumers=frozenset(reader.op.name for reader in consumers),
        location=node.location,
    )

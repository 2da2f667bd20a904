"""A graph for one target: what is native stays, what is not is rebuilt from operations that are, or refused.

The ordinary route is that of MIL programs. The direct route is that of network descriptions, the only one that reaches
the two oldest families of the compiler's enumeration; they have fewer operations, and other forms of some.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.dialect import Route, engine_dialect, has_direct_form
from aneforge.errors import IllegalGraphError, UnknownNameError
from aneforge.graph.convert import Change, Converted, convert
from aneforge.graph.graph import Graph, as_graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass
from aneforge.rules.catalogue import explain
from aneforge.rules.preflight import port_of, preflight, status_of
from aneforge.rules.rule import Severity
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from aneforge.graph.graph import GraphLike
    from aneforge.rules.preflight import OpReport, Preflight
    from aneforge.targets import Target

__all__ = ["Change", "Retargeted", "Route", "retarget", "verdict_by"]

MIL_FLOOR = "ANE-FLOOR-001"
CAST_OUTPUT = "ANE-DTYPE-005"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retargeted(Converted):
    """A graph for one target, and what was done to get there."""

    verdict: Preflight
    """The verdict on the graph as it was."""

    @property
    def oversize(self) -> list[OpReport]:
        """Operations that legalisation must still split."""
        return self.verdict.oversize


def retarget(
    graph: GraphLike, target: TargetLike = None, route: str = "mil", *, verdict: Preflight | None = None
) -> Retargeted:
    """Return a graph for one target; the verdict on it there is asked for where it is not given.

    >>> import aneforge as af
    >>> result = retarget(af.input((1, 8)).sin(), af.targets.Family.A13)
    >>> [change.op for change in result.changes], "sin" in str(result.graph)
    (['sin'], False)

    Raises:
        IllegalGraphError: An operation cannot run there; the error lists all of them, with reasons and remedies.
        UnknownTargetError: The target name is unknown.
        UnknownNameError: There is no such route.
    """
    if route not in set(Route):
        raise UnknownNameError.of("route", route, Route)
    chosen, resolved = Route(route), resolve(target)
    original = as_graph(graph)
    verdict = verdict or preflight(original, resolved)
    dialect = engine_dialect(resolved, chosen)
    refuse(verdict, chosen)
    made = convert(original, dialect)
    changes = list(made.changes)
    rebuilt = with_cast_outputs(made.graph, original, resolved, changes)
    return Retargeted(rebuilt, tuple(changes), made.supplied, target=resolved.name, route=chosen, verdict=verdict)


def with_cast_outputs(graph: Graph, original: Graph, target: Target, changes: list[Change]) -> Graph:
    """Return a graph whose outputs of booleans and indices leave through a cast, as the rule for them says.

    Which ones do, the original says: what makes an index there may be several operations here.
    """
    outputs = dict(graph.outputs)
    for name, output in graph.outputs.items():
        asked = original.outputs[name].node
        if explain(CAST_OUTPUT).check(port_of(original.outputs[name], original), target) is not None:
            changes.append(Change(asked.op.name, asked.location, f"a cast of output {name!r} to fp16"))
            outputs[name] = Tensor(build("cast", {"x": output}, {"dtype": "fp16"}, output.node.location))
    return graph if outputs == graph.outputs else Graph(outputs, graph.states)


def refuse(verdict: Preflight, route: Route) -> None:
    """Raise one error for all operations that cannot run."""
    stopping = [
        str(finding)
        for report in verdict_by(verdict, route).reports
        for finding in report.findings
        if finding.severity is Severity.REJECT
    ]
    if stopping:
        raise IllegalGraphError.of(verdict.target, stopping)


def verdict_by(verdict: Preflight, route: Route) -> Preflight:
    """Return a verdict as it is on a route.

    On the direct route the floor of MIL programs does not hold, and an operation with a direct form is not refused.

    >>> import aneforge as af
    >>> verdict = preflight(af.input((1, 8, 4, 4)).relu(), af.targets.Family.OLDER)
    >>> verdict.ok, verdict_by(verdict, Route.DIRECT).ok
    (False, True)
    """
    if route is not Route.DIRECT:
        return verdict
    return replace(verdict, reports=tuple(map(authored, verdict.reports)))


def authored(report: OpReport) -> OpReport:
    """Return the verdict on an operation that a network description holds."""
    kept = tuple(
        finding
        for finding in report.findings
        if finding.severity is not Severity.REJECT or not (finding.rule == MIL_FLOOR or has_direct_form(report.op))
    )
    return replace(report, findings=kept, status=status_of(kept))

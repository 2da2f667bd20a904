"""A graph for one target: what is native stays, what is not is rebuilt from operations that are, or refused.

The ordinary route is that of MIL programs. The direct route is that of network descriptions, which alone reaches the
two oldest families of the compiler's enumeration; they have fewer operations, and other forms of some.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.decompose import DECOMPOSITIONS
from aneforge.compiler.direct import DIRECT_FORMS
from aneforge.errors import IllegalGraphError, NotSupportedError, UnknownNameError
from aneforge.graph.graph import Graph, as_graph
from aneforge.graph.node import Node, Output, build
from aneforge.graph.rewrite import each, rewrite
from aneforge.graph.tensor import Tensor
from aneforge.rules.catalogue import explain
from aneforge.rules.operations import op_status
from aneforge.rules.preflight import Status, port_of, preflight
from aneforge.rules.rule import Severity
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.forms import Form, SuppliedInput
    from aneforge.errors import Location
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Value
    from aneforge.rules.preflight import OpReport, Preflight
    from aneforge.targets import Target

__all__ = ["Change", "Retargeted", "Route", "retarget"]

MIL_FLOOR = "ANE-FLOOR-001"
CAST_OUTPUT = "ANE-DTYPE-005"


class Route(StrEnum):
    """How a program reaches the engine."""

    MIL = "mil"
    DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Change:
    """One operation that was rebuilt from others."""

    op: str
    location: Location | None
    detail: str
    """What it became, with the domain and the largest error where it is an approximation."""


@dataclass(frozen=True, slots=True)
class Retargeted:
    """A graph for one target, and what was done to get there."""

    graph: Graph
    target: str
    route: Route
    verdict: Preflight
    """The verdict on the graph as it was."""
    changes: tuple[Change, ...]
    supplied: tuple[SuppliedInput, ...]
    """New inputs that the caller must feed, such as random numbers."""

    @property
    def oversize(self) -> list[OpReport]:
        """Operations that legalisation must still split."""
        return self.verdict.oversize


def retarget(graph: GraphLike, target: TargetLike = None, route: str = "mil") -> Retargeted:
    """Return a graph for one target.

    >>> import aneforge as af
    >>> result = retarget(af.input((1, 8)).sin(), af.targets.Family.A13)
    >>> [change.op for change in result.changes], "sin" in str(result.graph)
    (['sin'], False)

    Raises:
        IllegalGraphError: An operation cannot run there; the error lists all of them, with reasons and remedies.
        UnknownTargetError: Nothing has that name.
        UnknownNameError: There is no such route.
    """
    if route not in set(Route):
        raise UnknownNameError.of("route", route, Route)
    chosen, resolved = Route(route), resolve(target)
    original = as_graph(graph)
    verdict = preflight(original, resolved)
    forms = forms_for(chosen, resolved)
    refuse(verdict, chosen, forms)
    changes: list[Change] = []
    supplied: list[SuppliedInput] = []

    def replace(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        form = forms.get(node.op.name)
        made = form(node, operands, len(supplied)) if form else None
        if made is None:
            return None
        changes.append(Change(node.op.name, node.location, made.detail))
        supplied.extend(made.supplied)
        return placed(made.results, node, operands)

    rebuilt = with_cast_outputs(rewrite(original, replace), resolved, changes)
    return Retargeted(rebuilt, resolved.name, chosen, verdict, tuple(changes), tuple(supplied))


def placed(results: Sequence[Tensor], node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor]:
    """Return what a node was rebuilt as, at the place of that node: functions that it is built with know no place."""
    given = {value.node for argument in operands.values() for value in each(argument) if isinstance(value, Output)}
    moved: dict[Node, Node] = {}

    def argument_now(argument: Argument) -> Argument:
        return tuple(map(value_now, argument)) if isinstance(argument, tuple) else value_now(argument)

    def value_now(value: Value) -> Value:
        return Tensor(node_now(value.node), value.index) if isinstance(value, Output) else value

    def node_now(one: Node) -> Node:
        if one in given:
            return one
        if one not in moved:
            now = {name: argument_now(argument) for name, argument in one.operands.items()}
            moved[one] = dataclasses.replace(one, operands=now, location=node.location)
        return moved[one]

    return [Tensor(node_now(result.node), result.index) for result in results]


def with_cast_outputs(graph: Graph, target: Target, changes: list[Change]) -> Graph:
    """Return a graph whose outputs of truth values and indices leave through a cast, as the rule for them says."""
    outputs = dict(graph.outputs)
    for name, output in graph.outputs.items():
        if explain(CAST_OUTPUT).check(port_of(output), target) is not None:
            changes.append(Change(output.node.op.name, output.node.location, f"a cast of output {name!r} to fp16"))
            outputs[name] = Tensor(build("cast", {"x": output}, {"dtype": "fp16"}, output.node.location))
    return Graph(outputs, graph.states)


def forms_for(route: Route, target: Target) -> Mapping[str, Form]:
    """Return the forms that operations take on a target, by the operation's name.

    Raises:
        NotSupportedError: The direct route was asked for a target that the ordinary one reaches.
    """
    if route is Route.MIL:
        return {name: form for name, form in DECOMPOSITIONS.items() if op_status(name, target) != Status.NATIVE}
    if target.limits.flag("mil_programs"):
        raise NotSupportedError(
            "the direct route answers for the families below the floor of MIL programs alone",
            target=target.name,
            remedy='use route="mil"',
        )
    return DIRECT_FORMS


def refuse(verdict: Preflight, route: Route, forms: Mapping[str, Form]) -> None:
    """Raise one error for all operations that cannot run.

    On the direct route the floor of MIL programs does not hold, and an operation with a direct form is not refused.
    """
    stopping = [
        str(finding)
        for report in verdict.reports
        for finding in report.findings
        if finding.severity is Severity.REJECT
        and not (route is Route.DIRECT and (finding.rule == MIL_FLOOR or report.op in forms))
    ]
    if stopping:
        raise IllegalGraphError.of(verdict.target, stopping)

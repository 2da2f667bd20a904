"""A graph before its conversion: the same rules over its operations, and a dry run of the whole way to a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.lower.lower import lower
from aneforge.compiler.retarget import retarget
from aneforge.compiler.validators.catalogue import validator_of
from aneforge.compiler.validators.data import Stage
from aneforge.compiler.validators.exported import objections, sort_worst_first, with_data
from aneforge.compiler.validators.network import validate_program
from aneforge.compiler.validators.verdict import Validation
from aneforge.graph.convert import unroll
from aneforge.graph.graph import PLACEHOLDERS, as_graph
from aneforge.rules.nodes import find_known_nodes, operation_of
from aneforge.rules.preflight import port_of
from aneforge.rules.rule import Severity
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.validators.network import NetworkValidation
    from aneforge.compiler.validators.verdict import Objection
    from aneforge.graph.graph import GraphLike
    from aneforge.rules.rule import Finding
    from aneforge.rules.subject import Operation
    from aneforge.targets import Target, TargetLike

__all__ = ["validate_module", "validate_module_creation"]

ANSWERED = frozenset({"ANE-CONCAT-001", "ANE-GATHER-002", "ANE-RESIZE-003", "ANE-RESIZE-004"})
"""Rules about layers that no graph makes: a single tensor is copied, and without a texture engine gathers by
coordinates and resizes become other layers. What cannot become others has rules of its own."""


def validate_module(graph: GraphLike, target: TargetLike = None) -> tuple[Validation, ...]:
    """Return the verdict on every operation of a graph, and on its outputs, before anything is lowered.

    An operation that the conversion builds from others is accepted; its finding says so.

    >>> import aneforge as af
    >>> found = validate_module(af.input((1, 8)).sin(), af.targets.Family.A13)
    >>> [(one.op, str(one.verdict)) for one in found]
    [('input', 'accept'), ('sin', 'accept'), ('output', 'accept')]

    Raises:
        UnknownTargetError: The target name is unknown.
        NoDataError: The target is a name without data.
    """
    whole, resolved = unroll(as_graph(graph)).graph, resolve(target)
    known = find_known_nodes(whole.nodes)
    found = [judge("", operation_of(node, whole.consumers[node], known), resolved) for node in whole.nodes]
    return (*found, *(judge(name, port_of(output, whole), resolved) for name, output in whole.outputs.items()))


def judge(name: str, subject: Operation, target: Target) -> Validation:
    """Return the verdict on one operation of a graph."""
    found = mark_converted(objections(subject, with_data(target, subject.op, subject.location), front_end=True))
    checked_by = None if subject.op in PLACEHOLDERS else validator_of(subject.op)
    return Validation(name, subject.op, checked_by, tuple(sort_worst_first(found)), subject.location)


def mark_converted(found: Iterable[Objection]) -> list[Objection]:
    """Return objections, those that the conversion answers marked as such."""
    return [replace(one, stage=Stage.CONVERSION) if is_answered(one.finding) else one for one in found]


def is_answered(finding: Finding) -> bool:
    """Return whether the conversion makes other layers of what a rule found."""
    return finding.severity is Severity.DECOMPOSE or finding.rule in ANSWERED


def validate_module_creation(graph: GraphLike, target: TargetLike = None, route: str = "mil") -> NetworkValidation:
    """Return the umbrella's verdict on the program that a graph becomes: retargeted and lowered, without any pass.

    >>> import aneforge as af
    >>> validate_module_creation(af.input((1, 8)).sin(), af.targets.Family.A13).ok
    True

    Raises:
        IllegalGraphError: An operation cannot run there; retargeting lists all of them.
        NotSupportedError: An operation has no form there.
    """
    made = retarget(graph, target, route)
    return validate_program(lower(made.graph, resolve(made.target)))

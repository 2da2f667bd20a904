"""One code in two places: validators over a graph and over its layers agree, and preflight agrees with the compiler.

Every operation of the op table is drawn several times, and judged and compiled for one target of every tier; so are the
examples of the support table. What preflight lets through compiles, and no validator objects to the layers; a layer
that would pass its validator and fail when it is lowered has a finding beforehand. Where that does not hold, the reason
stands in a table here: a new disagreement fails a test, and so does one that is gone.
"""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings

from aneforge.compiler.compile import build_program
from aneforge.compiler.dialect import is_lowerable
from aneforge.compiler.ir.program import Program
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.retarget import retarget
from aneforge.compiler.validators import (
    NetworkValidation,
    Stage,
    Validation,
    Verdict,
    validate_module,
    validate_program,
)
from aneforge.compiler.validators.examples import EXAMPLES, Example
from aneforge.compiler.validators.exported import FAMILY_FLOORS, FRONT_END_RULES
from aneforge.compiler.validators.subjects import op_of
from aneforge.errors import NoDataError, NotSupportedError
from aneforge.graph.convert import convert
from aneforge.graph.dialect import Dialect, Objection
from aneforge.graph.graph import Graph
from aneforge.graph.node import Node
from aneforge.ops.table import names, ops
from aneforge.rules import Finding, Severity, rules
from aneforge.rules.preflight import Preflight, preflight
from aneforge.targets import Target, database
from aneforge.testing.graphs import DrawnGraph
from aneforge.testing.networks import networks
from unit.compiler.validators.sample_graphs import SampleGraph, sample_graph

SEEDS = range(6)
OPERATIONS = [name for name in ops() if name not in ("input", "state", "const")]
TARGETS = [
    next(target for target in database().targets.values() if target.tier == tier) for tier in database().tiers.values()
]
OLDEST = TARGETS[0].name
STOPPING = (Severity.REJECT, Severity.OVERSIZE, Severity.DECOMPOSE)

NOT_COMPILED = {"reference": "placeholders that are no silicon: they belong to no family to compile for"}
"""Tiers that preflight judges and for which nothing is compiled."""
LEGALISED = {
    "ANE-GATHER-002": ("gather_nd", "without a texture engine coordinates are brought to three axes of one image"),
    "ANE-RESIZE-004": ("upsample_bilinear", "without a texture engine resizing becomes products"),
}
"""Rules that stop a layer as it is lowered, each with an operation that shows it, and what legalisation makes of it.

Preflight says nothing of them: what legalisation cannot answer has a rule of its own there.
"""


@cache
def sample(op: str, seed: int) -> SampleGraph:
    return sample_graph(ops()[op], seed)


def without_layers(node: Node) -> Objection | None:
    return None if is_lowerable(node.op.name) else Objection("no layer computes it")


LAYERS = Dialect("layers of any engine", without_layers)


@cache
def program(op: str, seed: int) -> Program | None:
    """Return the layers of a sample, which are the same for every target; None where no layers make it."""
    try:
        return lower(convert(sample(op, seed).graph, LAYERS).graph, TARGETS[1])
    except NotSupportedError:
        return None


@cache
def judged(op: str, seed: int, target: Target) -> Preflight:
    return preflight(sample(op, seed).graph, target)


@cache
def judged_by_parts(op: str, seed: int, target: Target) -> tuple[Validation, ...]:
    return validate_module(sample(op, seed).graph, target)


@cache
def judged_by_layers(op: str, seed: int, target: Target) -> NetworkValidation:
    made = program(op, seed)
    assert made is not None
    return validate_program(replace(made, target=target))


def preflight_findings(op: str, seed: int, target: Target) -> list[Finding]:
    """Return what preflight finds in a sample, the floor of MIL programs left out: a layer can also be authored."""
    return [one for one in judged(op, seed, target).findings if one.rule not in FRONT_END_RULES]


def refused_by_preflight(op: str, seed: int, target: Target) -> set[str]:
    refusing = (Severity.REJECT, Severity.OVERSIZE)
    return {one.rule for one in preflight_findings(op, seed, target) if one.severity in refusing}


def rebuilt_by_preflight(op: str, seed: int, target: Target) -> bool:
    return any(one.severity is Severity.DECOMPOSE for one in preflight_findings(op, seed, target))


def refused_by_validators(op: str, seed: int, target: Target) -> set[str]:
    return {one.finding.rule for one in judged_by_layers(op, seed, target).findings if one.stops}


def is_one_layer(op: str, made: Program) -> bool:
    """Return whether an operation becomes one layer of its own, so that both places see the same thing."""
    return [op_of(layer.kind) for layer in made.layers] == [op]


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_node_and_its_layer_are_judged_alike(op: str) -> None:
    for seed in SEEDS:
        made = program(op, seed)
        if made is None or not is_one_layer(op, made):
            continue
        for target in TARGETS:
            layers = refused_by_validators(op, seed, target)
            parts = judged_by_parts(op, seed, target)
            nodes = {one.finding.rule for part in parts for one in part.findings if one.finding.severity in STOPPING}
            assert nodes - FRONT_END_RULES - FAMILY_FLOORS == layers - FAMILY_FLOORS, (target.name, seed)
            assert layers & FAMILY_FLOORS <= nodes, (target.name, seed)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_preflight_accepts_the_validators_accept(op: str) -> None:
    for seed in SEEDS:
        made = program(op, seed)
        for target in TARGETS:
            if refused_by_preflight(op, seed, target) or rebuilt_by_preflight(op, seed, target):
                continue
            assert made is not None or target.family is None, (target.name, seed)
            if made is None:
                continue
            others = FAMILY_FLOORS if target.name == OLDEST and not is_one_layer(op, made) else set[str]()
            more = refused_by_validators(op, seed, target) - set(LEGALISED) - others
            assert more == set(), (target.name, seed)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_preflight_refuses_the_validators_refuse(op: str) -> None:
    """An operation that becomes constants, nothing, or other layers is left out: there is no layer to refuse."""
    for seed in SEEDS:
        made = program(op, seed)
        if made is None or not is_one_layer(op, made):
            continue
        for target in TARGETS:
            if refused_by_preflight(op, seed, target):
                assert refused_by_validators(op, seed, target), (target.name, seed)


def compile_outcome(graph: Graph, target: Target) -> set[str]:
    """Return the rules by which validators refuse the layers that a graph is compiled to; nothing may fail before."""
    found = validate_program(build_program(graph, target))
    return {one.finding.rule for one in found.findings if one.stops}


def compiles(graph: Graph, target: Target) -> None:
    """Check that a graph that preflight lets through compiles, where anything is compiled."""
    if target.tier is not None and target.tier.name in NOT_COMPILED:
        with pytest.raises(NoDataError):
            retarget(graph, target)
        return
    assert compile_outcome(graph, target) == set(), target.name


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_preflight_lets_through_compiles_and_is_accepted(op: str) -> None:
    for seed in SEEDS:
        for target in TARGETS:
            if judged(op, seed, target).ok:
                compiles(sample(op, seed).graph, target)


GRAPHS_OF_EXAMPLES = [
    one for one in EXAMPLES if one.op in names() and one.op != "non_maximum_suppression"
]  # the suppression has no layer; no family has the operation


@pytest.mark.parametrize(
    "example", GRAPHS_OF_EXAMPLES, ids=[f"{one.validator} {one.form}" for one in GRAPHS_OF_EXAMPLES]
)
def test_the_examples_compile_where_preflight_lets_them_through(example: Example) -> None:
    for target in TARGETS:
        graph = example.graph()
        if preflight(graph, target).ok:
            compiles(graph, target)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(networks())
def test_networks_compile_where_preflight_lets_them_through(drawn: DrawnGraph) -> None:
    for target in TARGETS:
        if preflight(drawn.graph, target).ok:
            compiles(drawn.graph, target)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_fails_when_it_is_lowered_is_foreseen(op: str) -> None:
    """A layer that its validator accepts and that fails in code generation or backend lowering has a finding before."""
    for seed in SEEDS:
        made = program(op, seed)
        for target in TARGETS if made is not None else ():
            found = judged_by_layers(op, seed, target).findings
            failing = {one.finding.rule for one in found if one.stops and one.stage is Stage.LOWERING}
            foreseen = {one.rule for one in preflight_findings(op, seed, target) if one.severity in STOPPING}
            assert failing <= foreseen, (target.name, seed)


@pytest.mark.parametrize("op", OPERATIONS)
def test_validators_over_a_graph_say_what_preflight_says(op: str) -> None:
    for seed in SEEDS:
        for target in TARGETS:
            if target.family is None:
                continue
            accepted = all(part.verdict is Verdict.ACCEPT for part in judged_by_parts(op, seed, target))
            assert accepted is judged(op, seed, target).ok, (target.name, seed)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_retargeting_made_is_not_refused(op: str) -> None:
    for seed in SEEDS:
        for target in TARGETS:
            if target.family is None or not judged(op, seed, target).ok:
                continue
            again = preflight(retarget(sample(op, seed).graph, target).graph, target)
            assert again.ok, (target.name, seed, [str(finding) for finding in again.findings])


@pytest.mark.parametrize("rule", LEGALISED)
def test_no_known_disagreement_is_gone(rule: str) -> None:
    op, _ = LEGALISED[rule]
    assert rule not in rules()
    for seed in range(60):
        made = program(op, seed)
        assert made is not None
        for target in TARGETS:
            if rule in refused_by_validators(op, seed, target) and not refused_by_preflight(op, seed, target):
                return
    pytest.fail(f"{rule} is no disagreement any more: take it out of the table")

"""One code in two places: validators over a graph and over its layers agree, and preflight agrees with both.

Every operation of the op table is drawn several times and judged on one target of every tier. Where preflight accepts
and a validator refuses, or the other way round, the rule must stand in one of the tables here with the reason: a new
disagreement fails a test, and so does one that is gone.
"""

from dataclasses import replace
from functools import cache

import pytest

from aneforge.compiler.ir.program import Program
from aneforge.compiler.lowering.lower import lower
from aneforge.compiler.validators import validate_module, validate_module_creation, validate_program
from aneforge.compiler.validators.exported import FAMILY_FLOORS, FRONT_END_RULES
from aneforge.compiler.validators.subjects import op_of
from aneforge.errors import NotSupportedError
from aneforge.ops.table import ops
from aneforge.rules import Finding, Severity, rules
from aneforge.rules.preflight import preflight
from aneforge.targets import Target, database
from unit.compiler.validators.sample_graphs import SampleGraph, sample_graph

SEEDS = range(6)
OPERATIONS = [name for name in ops() if name not in ("input", "state", "const")]
TARGETS = [
    next(target for target in database().targets.values() if target.tier == tier) for tier in database().tiers.values()
]
OLDEST = TARGETS[0].name
STOPPING = (Severity.REJECT, Severity.OVERSIZE, Severity.DECOMPOSE)

VALIDATORS_KNOW_MORE = {
    "ANE-CONCAT-001": ("concat", "a concat of one tensor is no layer; it is a copy"),
    "ANE-CONV-005": ("conv", "no reference target attests a three-dimensional convolution"),
    "ANE-CONV-006": ("conv", "a three-dimensional convolution fails in lowering everywhere"),
    "ANE-CONV-007": ("conv_transpose", "a kernel computed at run time takes one image"),
    "ANE-GATHER-002": ("gather_nd", "without a texture engine coordinates have three axes: legalisation's matter"),
    "ANE-PAD-002": ("pad", "only height and width are padded"),
    "ANE-RANDOM-003": ("random_uniform", "a range without width is refused"),
    "ANE-RESIZE-002": ("resize", "only height and width are sampled"),
    "ANE-RESIZE-003": ("resize", "only height and width have a software form as they are: legalisation's matter"),
    "ANE-RESIZE-004": ("upsample_bilinear", "aligned and centred needs the texture engine: legalisation's matter"),
    "ANE-RINGBUFFERREADER-001": ("circular_buffer_to_tensor", "circular buffers are gated"),
    "ANE-RINGBUFFERWRITER-002": ("tensor_to_circular_buffer", "a ring buffer is a state"),
    "ANE-RINGBUFFERWRITER-003": ("tensor_to_circular_buffer", "circular buffers are gated"),
    "ANE-SDPA-002": ("sdpa", "key and value have one shape"),
    "ANE-SDPA-003": ("sdpa", "a mask has the elements of the query"),
    "ANE-TOPK-003": ("topk", "3 and 4 of the largest do not compile"),
    "ANE-TRANSPOSE-002": ("transpose", "the oldest targets transpose nothing by themselves"),
}
"""Rules that stop a layer and that preflight does not know, each with an operation that shows it.

The reason is that of the source that the rule cites, so the validator is right. Preflight lacks the rule, or knows
that legalisation gives the layer another form.
"""


@cache
def sample(op: str, seed: int) -> SampleGraph:
    return sample_graph(ops()[op], seed)


@cache
def program(op: str, seed: int) -> Program | None:
    """Return the layers of a sample, which are the same for every target; None where no layers make it."""
    try:
        return lower(sample(op, seed).graph, TARGETS[1])
    except NotSupportedError:
        return None


@cache
def preflight_findings(op: str, seed: int, target: Target) -> list[Finding]:
    """Return what preflight finds in a sample, the floor of MIL programs left out: a layer can also be authored."""
    found = preflight(sample(op, seed).graph, target).findings
    return [one for one in found if one.rule not in FRONT_END_RULES]


def refused_by_preflight(op: str, seed: int, target: Target) -> set[str]:
    refusing = (Severity.REJECT, Severity.OVERSIZE)
    return {one.rule for one in preflight_findings(op, seed, target) if one.severity in refusing}


def rebuilt_by_preflight(op: str, seed: int, target: Target) -> bool:
    return any(one.severity is Severity.DECOMPOSE for one in preflight_findings(op, seed, target))


def refused_by_validators(made: Program, target: Target) -> set[str]:
    return {one.finding.rule for one in validate_program(replace(made, target=target)).findings if one.stops}


def is_one_layer(op: str, made: Program) -> bool:
    """Tell whether an operation becomes one layer of its own, so that both places see the same thing."""
    return [op_of(layer.kind) for layer in made.layers] == [op]


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_node_and_its_layer_are_judged_alike(op: str) -> None:
    for seed in SEEDS:
        made = program(op, seed)
        if made is None or not is_one_layer(op, made):
            continue
        for target in TARGETS:
            layers = refused_by_validators(made, target)
            parts = validate_module(sample(op, seed).graph, target)
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
            more = refused_by_validators(made, target) - set(VALIDATORS_KNOW_MORE) - others
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
                assert refused_by_validators(made, target), (target.name, seed)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_is_rebuilt_from_others_is_accepted(op: str) -> None:
    for seed in SEEDS:
        for target in TARGETS:
            refused = refused_by_preflight(op, seed, target)
            if refused or target.name == OLDEST or target.family is None:
                continue
            if rebuilt_by_preflight(op, seed, target):
                found = validate_module_creation(sample(op, seed).graph, target)
                more = {one.finding.rule for one in found.findings if one.stops}
                assert more <= set(VALIDATORS_KNOW_MORE), (target.name, seed)


@pytest.mark.parametrize("rule", VALIDATORS_KNOW_MORE)
def test_no_known_disagreement_is_gone(rule: str) -> None:
    op, _ = VALIDATORS_KNOW_MORE[rule]
    assert rule not in rules()
    for seed in range(60):
        made = program(op, seed)
        assert made is not None
        for target in TARGETS:
            if rule in refused_by_validators(made, target) and not refused_by_preflight(op, seed, target):
                return
    pytest.fail(f"{rule} is no disagreement any more: take it out of the table")

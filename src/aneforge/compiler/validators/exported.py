"""The exported validators of layers: the rules about a layer, with the stage and the text of each objection."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.moving import CHANNELS, SPATIAL, only_moves
from aneforge.compiler.validators.catalogue import general_checks, semantic_rules, validator_of
from aneforge.compiler.validators.data import Stage
from aneforge.compiler.validators.looking import count_stored_bits
from aneforge.compiler.validators.subjects import ALONE, op_of, subject_of_layer, subjects_of_epilogue
from aneforge.compiler.validators.verdict import Objection, Validation
from aneforge.errors import NoDataError
from aneforge.ops.table import names
from aneforge.records import dataclass
from aneforge.rules.catalogue import rules
from aneforge.rules.preflight import Judge, Sight
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from aneforge.compiler.ir.kind import Slot
    from aneforge.compiler.ir.layer import Argument, Layer
    from aneforge.compiler.validators.catalogue import Check, Validator
    from aneforge.compiler.validators.subjects import Surroundings
    from aneforge.errors import Location
    from aneforge.rules.rule import Finding, Rule
    from aneforge.rules.subject import Operation, Subject
    from aneforge.targets import Target, TargetLike

__all__ = [
    "MOVES",
    "Part",
    "judge_layers",
    "list_rules_without_layers",
    "look_at",
    "objections",
    "observe_layer",
    "rules_about",
    "validate",
    "validate_layer",
]

MOVES: Mapping[str, Stage] = {SPATIAL: Stage.MOVED, CHANNELS: Stage.MOVED}
"""What does not stop a layer that only moves data, nor a tensor that only such layers read."""
TRANSPOSED = "ANE-TRANSPOSE-002"

FRONT_END_RULES = frozenset({"ANE-FLOOR-001", "ANE-PORT-001"})
"""Rules of only the MIL front end: a layer can also be authored, which is how the oldest targets are reached, and
says nothing of what the whole reads."""
FAMILY_FLOORS = frozenset({"ANE-FLOOR-002", "ANE-FLOOR-003"})
"""Floors of the conversion from MIL. Where a byte gates the layer itself and is known, the byte decides."""


def validate(subject: Subject, target: TargetLike = None) -> Validation:
    """Return the verdict on one operation, or on the authored form of one, in MIL's words.

    >>> from aneforge.rules import Operation, TensorType
    >>> from aneforge.targets import Family
    >>> image = TensorType((1, 3, 8, 8))
    >>> sine = Operation("sin", (image,), (image,), arguments={"x": (image,)})
    >>> found = validate(sine, Family.A13)
    >>> str(found.verdict), found.findings[0].texts
    ('reject', ("This platform doesn't support Neuron sin",))

    Raises:
        NoDataError: The target is a name without data.
    """
    resolved = with_data(resolve(target), subject.op, subject.location)
    return Validation("", subject.op, validator_of(subject.op), tuple(sort_worst_first(objections(subject, resolved))))


def validate_layer(layer: Layer, target: TargetLike = None, around: Surroundings = ALONE) -> Validation:
    """Return the verdict on a layer: its engine operation, and whatever fills the slots after it.

    `around` is what the program of the layer knows of it; `validate_program` finds it out.

    >>> from aneforge.compiler.ir.edit import new_layer
    >>> from aneforge.compiler.ir.layer import Value
    >>> from aneforge.rules import TensorType
    >>> from aneforge.targets import Family
    >>> layer = new_layer("top_k", {"x": Value("x", TensorType((1, 64)))}, {"k": 5}, "y", location=None)
    >>> [str(validate_layer(layer, family).verdict) for family in (Family.A13, Family.A14)]
    ['accept-then-fail', 'accept']

    Raises:
        NoDataError: The target is a name without data.
        GraphError: The slots after the layer do not fit it; verification refuses such a program.
    """
    part = observe_layer(layer, around)
    return part.judge(judge_layers(with_data(resolve(target), part.op, part.location)))


def observe_layer(layer: Layer, around: Surroundings = ALONE) -> Part:
    """Return what rules see in a layer and in the slots after it; no target changes it.

    Layers alike but for their place share what rules see in them.
    """
    key = likeness_of_layer(layer, around)
    if key not in SIGHTS:
        if len(SIGHTS) >= MOST_SIGHTS:
            SIGHTS.clear()
        SIGHTS[key] = [look_at(subject) for _, subject in subjects_of_layer(layer, around)]
    op = op_of(layer.kind)
    subjects = partial(subjects_of_layer, layer, around)
    return Part(layer.name, op, validator_of(op), SIGHTS[key], subjects, layer.location, answers_of(layer))


def subjects_of_layer(layer: Layer, around: Surroundings) -> Iterator[tuple[Slot | None, Operation]]:
    """Return the engine operation of a layer and what fills the slots after it, as rules see them."""
    yield None, subject_of_layer(layer, around)
    yield from subjects_of_epilogue(layer, around)


def likeness_of_layer(layer: Layer, around: Surroundings) -> tuple[object, ...]:
    """Return everything that rules look at in a layer and in the slots after it, except for its place."""
    return (
        layer.kind,
        tuple((name, form_of(argument)) for name, argument in layer.operands.items()),
        tuple(layer.attributes.items()),
        tuple(result.type for result in layer.results),
        tuple(
            (
                slot,
                stage.kind,
                tuple((name, form_of(constant)) for name, constant in stage.operands.items()),
                tuple(stage.attributes.items()),
            )
            for slot, stage in layer.epilogue
        ),
        around.consumers,
        around.indices,
        tuple(around.attributes.items()),
    )


def form_of(argument: Argument) -> object:
    """Return all of an operand that rules look at: the type of a value, the type and encoding of a constant."""
    if isinstance(argument, tuple):
        return tuple(map(form_of, argument))
    if isinstance(argument, Value):
        return argument.type
    return (argument.type, argument.encoding, count_stored_bits(argument))


SIGHTS: dict[tuple[object, ...], Sequence[Sight]] = {}
"""What rules see in layers that were looked at lately: programs of one model for several targets are much alike."""
MOST_SIGHTS = 4096


def answers_of(layer: Layer) -> Mapping[str, Stage]:
    """Return the rules whose objections do not stop a layer, each with the stage that answers them.

    What only moves data may be longer than the engine computes on. A transpose in several passes of exchanges is what
    the compiler makes where no unit transposes by itself.
    """
    if only_moves(layer):
        return MOVES
    passes = layer.kind.name == "transpose" and layer.choices.get("route") == "multi-pass"
    return {TRANSPOSED: Stage.CONVERSION} if passes else {}


def look_at(subject: Subject) -> Sight:
    """Return what every rule that concerns an operation sees in it."""
    return Sight.of(subject, rules_about(subject.op))


def judge_layers(target: Target) -> Judge:
    """Return a judge of layers on a target, which asks nothing that only the conversion from MIL asks."""
    return Judge(target, list_rules_without_layers)


@dataclass(frozen=True, slots=True)
class Part:
    """A layer, a port or a network as rules see it: its operation, and what fills the slots after it."""

    name: str
    op: str
    validator: Validator | None
    sights: Sequence[Sight]
    """What rules see in its operation, and in what fills each slot after it."""
    subjects: Callable[[], Iterable[tuple[Slot | None, Subject]]]
    """Returns these operations; they are asked for only where a rule objects."""
    location: Location | None = None
    answers: Mapping[str, Stage] = field(default_factory=dict[str, Stage])
    """The rules whose objections do not stop it, each with the stage that answers them."""

    def judge(self, judge: Judge) -> Validation:
        """Return the verdict on it for a target."""
        found = self.objections(judge) if any(map(judge.breaches_in, self.sights)) else []
        return Validation(self.name, self.op, self.validator, tuple(sort_worst_first(found)), self.location)

    def objections(self, judge: Judge) -> list[Objection]:
        """Return what rules find in it, with the stages that answer them."""
        return [
            replace(one, slot=slot, stage=self.answers.get(one.finding.rule, one.stage))
            for (slot, subject), sight in zip(self.subjects(), self.sights, strict=True)
            for one in objections_of(subject, sight, judge)
        ]


def with_data(target: Target, op: str, location: Location | None = None) -> Target:
    """Return a target that something is known of; `op` and `location` are what it is asked about.

    Raises:
        NoDataError: It is a name without data.
    """
    if not target.has_data:
        raise NoDataError(
            "the compiler knows this name and no source gives data for it",
            operation=op,
            location=location,
            target=target.name,
            remedy="`aneforge targets` marks those with data",
        )
    return target


def objections(subject: Subject, target: Target, *, front_end: bool = False) -> Iterator[Objection]:
    """Return what the rules find in an operation; `front_end` adds what only the conversion from MIL asks."""
    return objections_of(subject, look_at(subject), Judge(target) if front_end else judge_layers(target))


def objections_of(subject: Subject, sight: Sight, judge: Judge) -> Iterator[Objection]:
    """Return what the rules find in an operation of which is known what they see in it."""
    validator = validator_of(subject.op)
    return (objection_of(finding, validator, judge.target) for finding in judge.findings(subject, sight))


def list_rules_without_layers(op: str, target: Target) -> frozenset[str]:
    """Return the rules that hold for an operation of a graph and not for a layer on a target."""
    entry = names().get(op)
    gate = entry.support.gate if entry else None
    return FRONT_END_RULES | FAMILY_FLOORS if gate is not None and gate in target.hal else FRONT_END_RULES


@cache
def rules_about(op: str) -> Sequence[Rule]:
    """Return the rules that concern an operation."""
    return [known for known in (*rules().values(), *semantic_rules().values()) if known.concerns(op)]


def objection_of(finding: Finding, validator: Validator | None, target: Target) -> Objection:
    """Return a finding with the stage and the texts that the data give for it."""
    own = validator.checks if validator else ()
    applied = [check for check in (*own, *general_checks()) if check.rule == finding.rule and check.holds_on(target)]
    stage = Stage.LOWERING if any(check.stage is Stage.LOWERING for check in applied) else Stage.VALIDATION
    return Objection(finding, stage, texts_of(applied, finding))


def texts_of(applied: Sequence[Check], finding: Finding) -> tuple[str, ...]:
    """Return what the compiler prints for a finding; nothing for one that could not be decided."""
    if finding.evidence is None:
        return ()
    return tuple(check.filled(finding) for check in applied if check.text)


def sort_worst_first(found: Iterable[Objection]) -> list[Objection]:
    """Return objections by severity, those of one severity by rule."""
    return sorted(found, key=lambda one: (one.finding.severity.rank, one.finding.rule))

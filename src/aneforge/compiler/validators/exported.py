"""The exported validators of layers: the rules about a layer, with the stage and the text of each objection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from aneforge.compiler.moving import CHANNELS, SPATIAL, only_moves
from aneforge.compiler.validators.catalogue import general_checks, semantic_rules, validator_of
from aneforge.compiler.validators.data import Stage
from aneforge.compiler.validators.looking import stored_bits
from aneforge.compiler.validators.subjects import ALONE, subject_of_layer, subjects_of_epilogue
from aneforge.compiler.validators.verdict import Objection, Validation
from aneforge.errors import NoDataError
from aneforge.ops.table import names
from aneforge.rules.catalogue import rules
from aneforge.rules.preflight import likeness
from aneforge.rules.rule import Rule, Seen
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aneforge.compiler.ir.kind import Slot
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.validators.catalogue import Check, Validator
    from aneforge.compiler.validators.subjects import Surroundings
    from aneforge.errors import Location
    from aneforge.rules.rule import Finding
    from aneforge.rules.subject import Operation, Subject
    from aneforge.targets import Fact, Target, TargetLike

    Bounds = dict[str, Fact | NoDataError]

__all__ = [
    "MOVES",
    "Part",
    "left_out_for_layers",
    "objections",
    "observe",
    "observe_layer",
    "rules_about",
    "validate",
    "validate_layer",
]

MOVES: Mapping[str, Stage] = {SPATIAL: Stage.MOVED, CHANNELS: Stage.MOVED}
"""What does not stop a layer that only moves data, nor a tensor that only such layers read."""
TRANSPOSED = "ANE-TRANSPOSE-002"

FRONT_END_RULES = frozenset({"ANE-FLOOR-001"})
"""Rules of the MIL front end alone: a layer can also be authored, which is how the oldest targets are reached."""
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
    resolved = with_data(resolve(target), subject)
    return Validation(
        "", subject.op, validator_of(subject.op), tuple(sorted_worst_first(objections(subject, resolved)))
    )


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
    return part.judged(with_data(resolve(target), part.subjects[0].subject), {})


def observe_layer(layer: Layer, around: Surroundings = ALONE) -> Part:
    """Return what rules see in a layer and in the slots after it; no target changes it."""
    subject = subject_of_layer(layer, around)
    seen = [
        observe_alike(subject),
        *(observe_alike(stage, slot) for slot, stage in subjects_of_epilogue(layer, around)),
    ]
    return Part(layer.name, validator_of(subject.op), tuple(seen), layer.location, answers_of(layer))


def answers_of(layer: Layer) -> Mapping[str, Stage]:
    """Return the rules whose objections do not stop a layer, each with the stage that answers them.

    What only moves data may be longer than the engine computes on. A transpose in several passes of exchanges is what
    the compiler makes where no unit transposes by itself.
    """
    if only_moves(layer):
        return MOVES
    passes = layer.kind.name == "transpose" and layer.choices.get("route") == "multi-pass"
    return {TRANSPOSED: Stage.CONVERSION} if passes else {}


@dataclass(frozen=True, slots=True)
class Observed:
    """An operation, and what every rule that concerns it sees in it."""

    subject: Subject
    looks: Looks
    slot: Slot | None = None

    def objections(self, target: Target, bounds: Bounds, *, front_end: bool = False) -> Iterator[Objection]:
        """Return what the rules find in it on a target; `bounds` keeps what was asked of the target before."""
        validator = validator_of(self.subject.op)
        left_out = frozenset[str]() if front_end else left_out_for_layers(self.subject.op, target)
        for known, seen in self.looks:
            if known.id in left_out:
                continue
            if known.id not in bounds:
                bounds[known.id] = known.bound_on(target)
            finding = known.judge(self.subject, seen, target, bounds[known.id])
            if finding is not None:
                found = objection_of(finding, validator, target)
                yield found if self.slot is None else replace(found, slot=self.slot)


def observe(subject: Subject) -> Observed:
    """Return what rules see in an operation."""
    return Observed(subject, looks_at(subject))


def looks_at(subject: Subject) -> Looks:
    """Return what every rule that concerns an operation sees in it."""
    return [(known, seen) for known in rules_about(subject.op) if (seen := known.extreme(subject))]


def observe_alike(subject: Operation, slot: Slot | None = None) -> Observed:
    """Return what rules see in the operation of a layer; those alike but for their place share it."""
    key = (*likeness(subject), *(stored_bits(one) for held in subject.constants.values() for one in held))
    if key not in LOOKS:
        if len(LOOKS) >= MOST_LOOKS:
            LOOKS.clear()
        LOOKS[key] = looks_at(subject)
    return Observed(subject, LOOKS[key], slot)


Looks = Sequence[tuple[Rule, Sequence[Seen]]]
LOOKS: dict[tuple[object, ...], Looks] = {}
"""What rules see in operations that were looked at lately: programs of one model for several targets are much alike."""
MOST_LOOKS = 4096


@dataclass(frozen=True, slots=True)
class Part:
    """A layer, a port or a network as rules see it: its operation, and what fills the slots after it."""

    name: str
    validator: Validator | None
    subjects: tuple[Observed, ...]
    location: Location | None = None
    answers: Mapping[str, Stage] = field(default_factory=dict[str, Stage])
    """The rules whose objections do not stop it, each with the stage that answers them."""

    def judged(self, target: Target, bounds: Bounds) -> Validation:
        """Return the verdict on it for a target."""
        found = [one for subject in self.subjects for one in subject.objections(target, bounds)]
        if self.answers:
            found = [replace(one, stage=self.answers.get(one.finding.rule, one.stage)) for one in found]
        op = self.subjects[0].subject.op
        return Validation(self.name, op, self.validator, tuple(sorted_worst_first(found)), self.location)


def with_data(target: Target, subject: Subject) -> Target:
    """Return a target that something is known of.

    Raises:
        NoDataError: It is a name without data.
    """
    if not target.has_data:
        raise NoDataError(
            "the compiler knows this name and no source gives data for it",
            operation=subject.op,
            location=subject.location,
            target=target.name,
            remedy="`aneforge targets` marks those with data",
        )
    return target


def objections(subject: Subject, target: Target, *, front_end: bool = False) -> Iterator[Objection]:
    """Return what the rules find in an operation; `front_end` adds what only the conversion from MIL asks."""
    return observe(subject).objections(target, {}, front_end=front_end)


def left_out_for_layers(op: str, target: Target) -> frozenset[str]:
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


def sorted_worst_first(found: Iterable[Objection]) -> list[Objection]:
    """Return objections by severity, those of one severity by rule."""
    return sorted(found, key=lambda one: (one.finding.severity.rank, one.finding.rule))

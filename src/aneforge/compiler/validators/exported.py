"""The exported validators of layers: the rules about a layer, with the stage and the text of each objection."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from aneforge.compiler.validators.catalogue import general_checks, semantic_rules, validator_of
from aneforge.compiler.validators.data import Stage
from aneforge.compiler.validators.subjects import ALONE, subject_of_layer, subjects_of_epilogue
from aneforge.compiler.validators.verdict import Objection, Validation
from aneforge.errors import NoDataError
from aneforge.ops.table import names
from aneforge.rules.catalogue import rules
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.validators.catalogue import Check, Validator
    from aneforge.compiler.validators.subjects import Surroundings
    from aneforge.rules.rule import Finding, Rule
    from aneforge.rules.subject import Subject
    from aneforge.targets import Target, TargetLike

__all__ = ["objections", "rules_about", "validate", "validate_layer"]

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
    subject = subject_of_layer(layer, around)
    resolved = with_data(resolve(target), subject)
    found = list(objections(subject, resolved))
    for slot, stage in subjects_of_epilogue(layer, around):
        found += [replace(objection, slot=slot) for objection in objections(stage, resolved)]
    return Validation(
        layer.name, subject.op, validator_of(subject.op), tuple(sorted_worst_first(found)), layer.location
    )


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
    validator = validator_of(subject.op)
    left_out: frozenset[str] = frozenset() if front_end else left_out_for_layers(subject.op, target)
    for known in rules_about(subject.op):
        finding = None if known.id in left_out else known.check(subject, target)
        if finding is not None:
            yield objection_of(finding, validator, target)


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

"""The validators, the other exports, and the rules that they are made of."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from aneforge.compiler.validators import checks
from aneforge.compiler.validators.data import DIRECTIVE, Stage, validators_file
from aneforge.errors import UnknownNameError
from aneforge.records import dataclass
from aneforge.rules import catalogue as rule_catalogue
from aneforge.rules.catalogue import rules_of
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.targets import Fact, Property

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.validators.data import CheckEntry, UncheckedEntry
    from aneforge.evidence import Evidence
    from aneforge.rules.rule import Finding, Rule
    from aneforge.rules.subject import Subject
    from aneforge.targets import Target

__all__ = [
    "Check",
    "Export",
    "Standing",
    "Validator",
    "explain",
    "exports",
    "general_checks",
    "semantic_rules",
    "validator_of",
    "validators",
]


class Standing(StrEnum):
    """What is known of a validator."""

    DESCRIPTOR = "descriptor"
    """Exported, and its layer has a descriptor that a network description can hold."""
    NO_DESCRIPTOR = "no descriptor"
    """Exported, for a computed operation: no descriptor can be made."""
    UNNAMED = "unnamed"
    """Exported by the census, and no source gives its name."""
    INTERNAL = "internal"
    """A routine that no export reaches: its layer cannot be authored."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule that a validator applies, and the literal text with which the compiler refuses."""

    rule: str
    text: str
    """The compiler's own string, with its directives; empty where no source prints one."""
    fill: tuple[str, ...]
    stage: Stage
    tiers: tuple[str, ...]
    evidence: Evidence

    def holds_on(self, target: Target) -> bool:
        """Return whether a source gives stage and text for a target."""
        return not self.tiers or (target.tier is not None and target.tier.name in self.tiers)

    def filled(self, finding: Finding) -> str:
        """Return the text as the compiler would print it for a finding."""
        values = iter(
            template.format(
                op=finding.op, seen=finding.seen, what=finding.what, limit=finding.limit, details=finding.details
            )
            for template in self.fill
        )
        return DIRECTIVE.sub(lambda _: next(values), self.text)


@dataclass(frozen=True, slots=True)
class Validator:
    """One validator of a layer.

    >>> validators()["Softmax"].symbol, str(validators()["ElementWise"].standing)
    ('_ANECValidateSoftmaxLayer', 'no descriptor')
    """

    name: str
    standing: Standing
    ops: tuple[str, ...]
    """The operations of the op table whose layer it checks; some are only the validator's and in no table."""
    bottoms: tuple[int, ...]
    """How many tensors the layer may read; empty where no source says it."""
    more_bottoms: bool
    """The number of bottoms is the least there can be."""
    folded: tuple[str, ...]
    """Operands that are part of the layer and no bottoms."""
    implied: int
    """Bottoms that are attributes here."""
    checks: tuple[Check, ...]
    unchecked: tuple[UncheckedEntry, ...]
    evidence: Evidence

    @property
    def symbol(self) -> str | None:
        """The name of the export; None for what is not exported or not named."""
        named = self.standing in (Standing.DESCRIPTOR, Standing.NO_DESCRIPTOR)
        return f"_ANECValidate{self.name}Layer" if named else None

    @property
    def descriptor(self) -> bool:
        """Its layer has a descriptor; the unnamed ones do, for only five of all have none."""
        return self.standing in (Standing.DESCRIPTOR, Standing.UNNAMED)

    @property
    def constructor(self) -> str | None:
        """The name of the function that makes the layer's descriptor; None where there is none or no name for it."""
        return f"_ANEC{self.name}LayerDescInitialize" if self.standing is Standing.DESCRIPTOR else None

    def bottoms_of(self, subject: Subject) -> int:
        """Return how many tensors a layer reads, as the validator counts."""
        given = (types for name, types in subject.arguments.items() if name not in self.folded)
        return sum(map(len, given)) + self.implied


@dataclass(frozen=True, slots=True)
class Export:
    """An export that is not a validator of a layer."""

    symbol: str
    role: str
    here: str
    """What does that here."""


@cache
def validators() -> Mapping[str, Validator]:
    """Return every validator by its name: those that are exported, and the two routines that are not.

    >>> from collections import Counter
    >>> counts = Counter(str(one.standing) for one in validators().values())
    >>> counts["descriptor"], counts["no descriptor"], counts["unnamed"], counts["internal"]
    (42, 5, 3, 2)
    """
    found = {name: build_exported(name) for name in validators_file().validators}
    return MappingProxyType({**found, **list_unnamed(), **internal()})


def build_exported(name: str) -> Validator:
    """Return a validator that a source names."""
    entry, default = validators_file().validators[name], validators_file().evidence
    return Validator(
        name=name,
        standing=Standing.DESCRIPTOR if entry.descriptor else Standing.NO_DESCRIPTOR,
        ops=entry.ops,
        bottoms=entry.bottoms,
        more_bottoms=entry.more_bottoms,
        folded=entry.folded,
        implied=entry.implied,
        checks=tuple(check_of(check, default) for check in entry.checks),
        unchecked=entry.unchecked,
        evidence=default if entry.later else validators_file().named,
    )


def list_unnamed() -> dict[str, Validator]:
    """Return the validators that no source names, numbered."""
    entry = validators_file().unnamed
    return {
        f"unnamed {number}": bare(f"unnamed {number}", Standing.UNNAMED, (), entry.evidence)
        for number in range(1, entry.count + 1)
    }


def internal() -> dict[str, Validator]:
    """Return the routines that no export reaches."""
    return {
        name: bare(name, Standing.INTERNAL, entry.ops, entry.evidence)
        for name, entry in validators_file().internal.items()
    }


def bare(name: str, standing: Standing, ops: tuple[str, ...], evidence: Evidence) -> Validator:
    """Return a validator of which nothing is known but that it is there."""
    return Validator(
        name=name,
        standing=standing,
        ops=ops,
        bottoms=(),
        more_bottoms=False,
        folded=(),
        implied=0,
        checks=(),
        unchecked=(),
        evidence=evidence,
    )


def check_of(entry: CheckEntry, default: Evidence) -> Check:
    """Return a row of the file as a check."""
    return Check(entry.rule, entry.text, entry.fill, entry.stage, entry.tiers, entry.evidence(default))


@cache
def general_checks() -> tuple[Check, ...]:
    """Return the checks that belong to no single validator."""
    default = validators_file().evidence
    return tuple(check_of(entry, default) for entry in validators_file().others)


@cache
def exports() -> tuple[Export, ...]:
    """Return the exports that are not validators of layers.

    >>> [export.symbol for export in exports()][:2]
    ['_ANECValidateNetworkCreate', '_ANECValidate']
    """
    return tuple(Export(symbol, entry.role, entry.here) for symbol, entry in validators_file().exports.items())


@cache
def by_op() -> Mapping[str, Validator]:
    return {op: validator for validator in validators().values() for op in validator.ops}


def validator_of(op: str) -> Validator | None:
    """Return the validator that checks an operation's layer; None where none is named.

    >>> validator_of("conv").name, validator_of("select")
    ('Conv', None)
    """
    return by_op().get(op)


@cache
def semantic_rules() -> Mapping[str, Rule]:
    """Return the rules that the validators add to the general ones, by id and in the order of ids."""
    counted = {known.id: known for known in count_rules()}
    return MappingProxyType(dict(sorted({**rules_of(checks), **counted}.items())))


def count_rules() -> Iterator[Rule]:
    """Return one rule for every validator of which a source says how many tensors its layer reads."""
    for validator in validators().values():
        if validator.bottoms:
            yield count_rule(validator)


def count_rule(validator: Validator) -> Rule:
    """Return the rule about the number of tensors that a validator's layer reads."""
    rule_id = count_rule_id(validator)
    relation = Relation.AT_LEAST if validator.more_bottoms else Relation.ONE_OF
    evidence = next((one.evidence for one in validator.checks if one.rule == rule_id), default_evidence())
    value = validator.bottoms[0] if validator.more_bottoms else validator.bottoms
    bound = Property(f"{validator.name}.bottoms", "Tensors that the layer reads.", {"all": Fact(value, evidence)}, {})

    @rule(rule_id, Severity.REJECT, bound=bound, relation=relation, ops=validator.ops)
    def bottoms(subject: Subject) -> Iterator[Seen]:
        """The layer reads {seen} tensors; its validator takes {limit}.

        Remedy: give it that number of tensors.
        """  # noqa: D401 - a rule's docstring is its message
        yield Seen(validator.bottoms_of(subject), "bottoms")

    return bottoms


def count_rule_id(validator: Validator) -> str:
    """Return the id of the rule about the number of tensors."""
    return f"ANE-{validator.name.upper()}-001"


def default_evidence() -> Evidence:
    """Return the evidence of what has none of its own in the file."""
    return validators_file().evidence


def explain(rule_id: str) -> Rule:
    """Return a rule by its id, in any case, a validator's or a general one.

    >>> explain("ane-conv-002").remedy
    "choose groups that divide both the input's and the output's channels, or pad the channels."

    Raises:
        UnknownNameError: There is no such rule.
    """
    known = {**rule_catalogue.rules(), **semantic_rules()}
    found = known.get(str(rule_id).upper())
    if found is None:
        raise UnknownNameError.of("rule", rule_id, known)
    return found

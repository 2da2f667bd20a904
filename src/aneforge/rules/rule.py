"""What a rule is: one function that says what it sees, one value of the database that says what is allowed.

The function's docstring is the error text, the explanation and the line in the generated documentation, so the
three cannot drift apart. Its first paragraph is the message, a paragraph that begins with `Remedy:` is the remedy, one
that begins with `Reported in:` names public threads in which users met it, the rest explains. The message may hold
`{op}`, `{seen}`, `{what}`, `{limit}` and `{target}`; the remedy may hold `{since}`, the first tier that has what the
rule asks for.

A rule whose bound is not a value of the target database brings the value itself (`facts`): a count of operands, or a
sentence where the operation says itself what it should have been.
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import Location, NoDataError
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads the types of fields
from aneforge.ops import table
from aneforge.records import dataclass
from aneforge.rules.subject import PORT
from aneforge.targets import Value, first_tier_with

if TYPE_CHECKING:
    from aneforge.ops.op import Trait
    from aneforge.rules.subject import Subject
    from aneforge.targets import Fact, Property, Target

__all__ = ["Finding", "Relation", "Rule", "Seen", "Severity", "plain_text", "rule"]

LARGE = 1e7
"""A number without a fraction is written out below it."""


class Severity(StrEnum):
    """How bad a finding is, worst first.

    >>> min(Severity.WARN, Severity.REJECT, key=lambda severity: severity.rank)
    <Severity.REJECT: 'reject'>
    """

    REJECT = "reject"
    OVERSIZE = "oversize"
    DECOMPOSE = "decompose"
    WARN = "warn"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Position in the order of severities; 0 is the worst."""
        return list(Severity).index(self)


class Relation(StrEnum):
    """How a value that was seen must compare with the bound that the database gives.

    >>> Relation.AT_MOST.holds(14, 13), Relation.MULTIPLE_OF.holds(32, 16), Relation.ONE_OF.holds("fp16", ("fp16",))
    (False, True, True)
    """

    AT_MOST = "at most"
    AT_LEAST = "at least"
    ONE_OF = "one of"
    BELOW = "below"
    NONE_OF = "none of"
    PRESENT = "present"
    """The bound is a flag, and it is set; what was seen is the need for it."""
    MULTIPLE_OF = "a multiple of"
    NEVER = "never"
    """What was seen is wrong by itself; the bound says in words what should have been."""

    def holds(self, seen: float | str, bound: Value) -> bool:
        """Return whether a value is within the bound."""
        match self:
            case Relation.AT_MOST | Relation.AT_LEAST if isinstance(seen, int) and isinstance(bound, int):
                return seen <= bound if self is Relation.AT_MOST else seen >= bound
            case Relation.ONE_OF | Relation.NONE_OF if isinstance(bound, tuple):
                return (seen in bound) is (self is Relation.ONE_OF)
            case Relation.PRESENT if isinstance(bound, bool):
                return bound
            case Relation.MULTIPLE_OF if isinstance(seen, int) and isinstance(bound, int):
                return seen % bound == 0
            case Relation.BELOW if isinstance(seen, int | float) and isinstance(bound, int | float):
                return seen < bound
            case Relation.NEVER if isinstance(bound, str):
                return False
            case _:
                raise TypeError(f"{seen!r} cannot be {self} {bound!r}")


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that a rule saw, and where in the operation.

    >>> from aneforge.rules import Operation, TensorType, explain
    >>> wide = Operation("relu", results=(TensorType((1, 1, 1, 70000)),))
    >>> explain("ANE-EXTENT-001").extreme(wide)
    (Seen(value=70000, what='Axis 3 of result 0', limit=None, details=()),)
    """

    value: float | str
    what: str = ""
    limit: Value | None = None
    """What the operation itself allows; None where the bound says it."""
    details: tuple[float | str, ...] = ()
    """Further values, for a text that names them."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One objection to one operation on one target: what rules, validators, predictions and reports speak of.

    Reports write it as JSON in the order of its fields; the location is called `place` there.

    >>> from aneforge.rules import Operation, TensorType, check
    >>> from aneforge.targets import Family
    >>> (finding,) = check(Operation("relu", results=(TensorType((1, 1, 1, 70000)),)), Family.A13)
    >>> finding.rule, str(finding.severity), finding.seen, finding.limit, finding.what
    ('ANE-EXTENT-001', 'oversize', 70000, 16384, 'Axis 3 of result 0')
    """

    rule: str
    severity: Severity
    op: str
    node: int | None = None
    """Place of the operation in a report's nodes; None outside of one, and for what concerns the whole."""
    location: Location | None = msgspec.field(name="place")
    message: str
    seen: Value | None
    limit: Value | None
    remedy: str
    evidence: Evidence | None
    """Why the limit is believed; None where the limit itself is unknown, and for rules about the text of a file."""
    threads: tuple[str, ...] = ()
    """Public threads in which users met it."""
    target: str = ""
    what: str = ""
    """Where in the operation it was seen."""
    details: tuple[float | str, ...] = ()
    """Further values that were seen with it."""
    share: float | None = None
    """The share of the predicted time of a call that it is about, 0 to 1; None where no time depends on it."""

    def __str__(self) -> str:
        place = f" at {self.location}" if self.location else ""
        remedy = f" Remedy: {self.remedy}" if self.remedy else ""
        return f"{self.rule} {self.severity}: {self.op}{place} on {self.target}: {self.message}{remedy}"

    @property
    def evidence_text(self) -> str:
        """How its limit is known, in words."""
        return "none, the limit is unknown" if self.evidence is None else self.evidence.short

    def in_report(self, node: int) -> Finding:
        """Return the finding as a report holds it: with the place of its node, and values that JSON can hold."""
        return msgspec.structs.replace(
            self,
            node=node,
            seen=None if self.seen is None else number_or_words(self.seen),
            limit=None if self.limit is None else number_or_words(self.limit),
            details=tuple(map(number_or_words, self.details)),
        )


Look = Callable[["Subject"], Iterable[Seen]]
REMEDY, REPORTED = "Remedy: ", "Reported in: "


@dataclass(frozen=True, slots=True)
class Text:
    """What a rule's docstring says."""

    message: str
    remedy: str
    explanation: str
    threads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: an id, what it looks at, and the name of the value that bounds it.

    >>> from aneforge.rules import explain
    >>> found = explain("ANE-EXTENT-001")
    >>> print(found.severity, found.bound, found.relation, found.concerns("relu"), sep=", ")
    oversize, max_tensor_dim, at most, True
    >>> print(found.statement)
    … is … long; the target takes at most … along a spatial or contracted axis.
    """

    id: str
    severity: Severity
    bound: str
    """Name of the value in the target database, or of the value that the rule brings."""
    relation: Relation
    ops: frozenset[str] | None
    """Operations that it concerns; None for all but the ports of a graph."""
    gated: bool
    """It concerns the operations that the op table gates by its bound."""
    trait: Trait | None
    """It concerns the operations that have this trait in the op table."""
    look: Look
    text: Text
    facts: Property | None = None
    """The bound, where it is not a value of the target database."""
    bounded: bool = False
    """It warns of an error that it names and that grows no further: another form is nearer, and nothing is wrong."""

    @property
    def message(self) -> str:
        """What it says, with places for values."""
        return self.text.message

    @property
    def statement(self) -> str:
        """What it says of no operation in particular, with dots in the places of what a finding fills in."""
        words = {"op": "the operation", "target": "the target", "seen": "…", "what": "…", "limit": "…"}
        text = self.message.format_map(words)
        return text[:1].upper() + text[1:]

    @property
    def remedy(self) -> str:
        """What to do about it, perhaps with a place for the first tier that has what is missing."""
        return self.text.remedy

    @property
    def explanation(self) -> str:
        """Why."""
        return self.text.explanation

    @property
    def threads(self) -> tuple[str, ...]:
        """Public threads in which users met it on real engines, each as owner/repository#number."""
        return self.text.threads

    def concerns(self, op: str) -> bool:
        """Return whether the rule looks at operations of that name."""
        entry = table.names().get(op)
        if self.gated:
            return entry is not None and entry.support.gate == self.bound
        if self.trait is not None:
            return entry is not None and self.trait in entry.traits
        return op != PORT if self.ops is None else op in self.ops

    def check(self, subject: Subject, target: Target) -> Finding | None:
        """Return the worst that the subject shows against this rule, or nothing.

        A bound that no source gives for the target is a finding too, of severity `info`: not known is not allowed.
        """
        seen = self.extreme(subject)
        return self.judge(subject, seen, target, self.bound_on(target)) if seen else None

    def extreme(self, subject: Subject) -> Sequence[Seen]:
        """Return what the rule sees in a subject, as far as it can decide; no target changes it.

        Of numbers the largest or the smallest decides, of needs and wrongs the first; of other values each one does.
        """
        seen = list(self.look(subject)) if self.concerns(subject.op) else []
        if not seen or self.relation in (Relation.ONE_OF, Relation.NONE_OF, Relation.MULTIPLE_OF):
            return seen
        match self.relation:
            case Relation.AT_MOST | Relation.BELOW:
                return (max(seen, key=to_number),)
            case Relation.AT_LEAST:
                return (min(seen, key=to_number),)
            case _:
                return seen[:1]

    def bound_on(self, target: Target) -> Fact | NoDataError:
        """Return the bound on a target, or the error that says why it is not known.

        Raises:
            NoDataError: Nothing at all is known of the target.
        """
        try:
            return target.fact(self.bound) if self.facts is None else own_fact(self.facts, target)
        except NoDataError as missing:
            if not target.has_data:
                raise
            return missing

    def judge(
        self, subject: Subject, seen: Sequence[Seen], target: Target, bound: Fact | NoDataError
    ) -> Finding | None:
        """Return what was seen and breaks the bound, or nothing."""
        found = self.breach(seen, bound)
        return None if found is None else self.finding(subject, found, target, bound)

    def breach(self, seen: Sequence[Seen], bound: Fact | NoDataError) -> Seen | None:
        """Return the first value that breaks the bound, or cannot be decided; None if there is none."""
        if isinstance(bound, NoDataError):
            return seen[0]
        for one in seen:
            if not self.relation.holds(one.value, bound.value):
                return one
        return None

    def finding(self, subject: Subject, seen: Seen, target: Target, bound: Fact | NoDataError) -> Finding:
        """Return the finding about a value that breaks the bound, or cannot be decided."""
        if isinstance(bound, NoDataError):
            return self._undecided(subject, target, seen, bound)
        return self._finding(subject, target, seen, bound)

    def advice(self) -> str:
        """Return the remedy, filled in from the database."""
        if "{since}" not in self.remedy:
            return self.remedy
        return self.remedy.format(since=first_tier_with(self.bound).title)

    def _finding(self, subject: Subject, target: Target, seen: Seen, bound: Fact) -> Finding:
        limit = bound.value if seen.limit is None else seen.limit
        message = self.message.format(
            op=subject.op, seen=plain_text(seen.value), what=seen.what, limit=plain_text(limit), target=target.name
        )
        return Finding(
            rule=self.id,
            severity=self.severity,
            message=message,
            op=subject.op,
            location=subject.location,
            threads=self.threads,
            seen=seen.value,
            limit=limit,
            target=target.name,
            remedy=self.advice(),
            evidence=bound.evidence,
            what=seen.what,
            details=seen.details,
        )

    def _undecided(self, subject: Subject, target: Target, seen: Seen, missing: NoDataError) -> Finding:
        return Finding(
            rule=self.id,
            severity=Severity.INFO,
            message=f"cannot be decided: {missing.message}",
            op=subject.op,
            location=subject.location,
            threads=self.threads,
            seen=seen.value,
            limit=None,
            target=target.name,
            remedy="",
            evidence=None,
            what=seen.what,
            details=seen.details,
        )


def rule(  # noqa: PLR0913 - what a rule is, by name
    rule_id: str,
    severity: Severity,
    *,
    bound: str | Property,
    relation: Relation,
    ops: Iterable[str] | None = None,
    gated: bool = False,
    trait: Trait | None = None,
    bounded: bool = False,
) -> Callable[[Look], Rule]:
    """Declare a rule: the decorated function yields what it sees, its docstring is the text.

    A rule concerns all operations, or those it names, or those that the op table gates by its bound (`gated`), or those
    that have a trait there. Its bound is a value of the target database by its name, or the value itself. A `bounded`
    one warns of an error that is not a risk.

    >>> @rule("ANE-EXAMPLE-001", Severity.WARN, bound="max_rank", relation=Relation.AT_MOST)
    ... def many_axes(subject):
    ...     "{op} has {seen} axes; {target} takes at most {limit}."
    ...     return [Seen(len(one.shape)) for one in subject.results]
    >>> many_axes.id, many_axes.statement
    ('ANE-EXAMPLE-001', 'The operation has … axes; the target takes at most ….')
    """

    def declare(look: Look) -> Rule:
        concerned = None if ops is None else frozenset(ops)
        name, facts = (bound, None) if isinstance(bound, str) else (bound.name, bound)
        text = split_text(inspect.getdoc(look) or "")
        return Rule(rule_id, severity, name, relation, concerned, gated, trait, look, text, facts, bounded)

    return declare


def split_text(text: str) -> Text:
    r"""Split a rule's docstring into its parts, each on one line.

    >>> split_text("Too wide.\n\nRemedy: split it.\n\nReported in: a/b#1, c/d#2\n\nThe field has\nfour bits.")
    Text(message='Too wide.', remedy='split it.', explanation='The field has four bits.', threads=('a/b#1', 'c/d#2'))
    """
    paragraphs = [" ".join(part.split()) for part in textwrap.dedent(text).split("\n\n") if part.strip()]
    marked: dict[str, str] = dict.fromkeys((REMEDY, REPORTED), "")
    rest: list[str] = []
    for part in paragraphs[1:]:
        mark = next((mark for mark in marked if part.startswith(mark)), None)
        if mark is None:
            rest.append(part)
        else:
            marked[mark] = part.removeprefix(mark)
    threads = tuple(marked[REPORTED].split(", ")) if marked[REPORTED] else ()
    return Text(paragraphs[0] if paragraphs else "", marked[REMEDY], " ".join(rest), threads)


def own_fact(facts: Property, target: Target) -> Fact:
    """Return what a rule's own bound is on a target.

    Raises:
        NoDataError: No source gives it there, or nothing at all is known of the target.
    """
    found = facts.fact(target.name, target.tier.name if target.tier else None)
    if found is None:
        raise NoDataError(f"{facts.name!r} is unknown here: no published source gives it", target=target.name)
    return found


def to_number(seen: Seen) -> float:
    """Return a value that was seen as the number that it is."""
    return seen.value if isinstance(seen.value, int | float) else int(seen.value)


def plain_text(value: Value) -> str:
    """Return a bound as it is in a message.

    >>> plain_text(16384), plain_text(("fp16", "uint8")), plain_text(65504.0), plain_text(1e9)
    ('16384', 'fp16, uint8', '65504', '1e+09')
    """
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < LARGE else f"{value:.6g}"
    return ", ".join(str(item) for item in value) if isinstance(value, tuple) else str(value)


def number_or_words(value: Value) -> float | str:
    """Return a value as JSON can hold it: a number, or words.

    >>> number_or_words(16384), number_or_words(float("inf")), number_or_words(("fp16", "uint8"))
    (16384, 'inf', 'fp16, uint8')
    """
    if isinstance(value, int | float) and not isinstance(value, bool | Enum) and math.isfinite(value):
        return value
    return plain_text(value)

"""Does a report pass: thresholds on findings, a least share of native operations, and a baseline of what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import UnknownNameError
from aneforge.evidence import EvidenceKind
from aneforge.records import dataclass
from aneforge.report.finding_keys import counted_key
from aneforge.report.model import DIFFERS
from aneforge.report.numbers import bytes_text, time_text
from aneforge.report.predicted import DIVERGENCE, NATIVE_SHARE, PREDICTED
from aneforge.rules.rule import Severity
from aneforge.targets import database
from aneforge.targets.queries import was_measured_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aneforge.evidence import Evidence
    from aneforge.report.model import Divergence, Report, TargetReport
    from aneforge.rules.rule import Finding

__all__ = [
    "FAIL_ON",
    "MAX_LATENCY",
    "MAX_MEMORY",
    "MIN_EXACT",
    "STOPPING",
    "STRICT",
    "Budget",
    "Failed",
    "Outcome",
    "Threshold",
    "evidence_word",
    "fail_on_words",
    "outcome",
]

SATURATION, DIVERGES = "saturation", "divergence"
FAIL_ON = (*map(str, Severity), SATURATION, DIVERGES)
"""What can be failed on: the severities of findings, and two predictions."""
DEFAULT = (str(Severity.REJECT), str(Severity.OVERSIZE))
STOPPING = DEFAULT
"""What can keep a model from having a program."""
MAX_LATENCY, MAX_MEMORY, MIN_EXACT = "max-latency", "max-memory", "min-exact"
"""Options that are budgets."""
EXACT = "exact"
STRICT = (*DEFAULT, str(Severity.DECOMPOSE), str(Severity.WARN))
"""What a strict check fails on: everything that does not run as it is written, or is known to go wrong."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a model may take on one target, or on all of them."""

    option: str
    """`max-latency` in microseconds, `max-memory` in bytes, or `min-exact` as a share of the layers."""
    limit: float
    target: str | None = None
    """The name of a target; None for all."""
    named: str = ""
    """The chip or target as it was written; empty where that is not known."""

    def overrun(self, target: TargetReport) -> str | None:
        """Return in words how a target is beyond the budget; None where it is within, or has no program."""
        if self.target not in (None, target.target) or target.failure is not None:
            return None
        if self.option == MAX_LATENCY and target.latency is not None and target.latency.microseconds > self.limit:
            return f"predicted {time_text(target.latency.microseconds)}, at most {time_text(self.limit)}"
        if self.option == MAX_MEMORY and target.memory is not None:
            needed = target.weight_bytes + target.memory.peak
            return f"needs {bytes_text(needed)}, at most {bytes_text(int(self.limit))}" if needed > self.limit else None
        if self.option == MIN_EXACT:
            layers = [one.exactness == EXACT for one in target.timeline if one.nodes]
            share = sum(layers) / max(1, len(layers))
            return f"{share:.1%} of layers are exact, wanted {self.limit:.1%}" if share < self.limit else None
        return None


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a check fails on."""

    fail_on: tuple[str, ...] = DEFAULT
    min_native: float = 0.0
    """The least share of operations that must be native on every target."""
    evidence: EvidenceKind | None = None
    """The weakest evidence with which a finding counts; None counts also those whose limit is unknown.

    What was measured on chips of other targets is inferred."""
    budgets: tuple[Budget, ...] = ()
    """What the model may take at most, or must have at least."""

    def believes(self, evidence: Evidence | None, target: str) -> bool:
        """Return whether findings with that evidence count on a target."""
        return self.evidence is None or (evidence is not None and kind_on(target, evidence).reaches(self.evidence))


@dataclass(frozen=True, slots=True)
class Failed:
    """One reason why a report does not pass."""

    target: str
    reason: str
    word: str
    """What was failed on: a word of `FAIL_ON`, or the option that asked for more."""
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a report passes, and what is against it."""

    failures: tuple[Failed, ...]
    known: int
    """Findings that count, and that the baseline has already."""
    doubted: int = 0
    """Findings that would count with stronger evidence; one that several targets share is one."""

    @property
    def ok(self) -> bool:
        """It passes."""
        return not self.failures

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings count by which word; one that several targets share is one."""
        found: dict[str, set[tuple[object, ...]]] = {}
        for one in self.failures:
            if one.finding is not None:
                found.setdefault(one.word, set()).add(counted_key(one.finding))
        return {word: len(found[word]) for word in FAIL_ON if word in found}


def fail_on_words(text: str) -> tuple[str, ...]:
    """Return the words of a list that is separated by commas; `none` is the empty list.

    >>> fail_on_words("reject, saturation")
    ('reject', 'saturation')

    Raises:
        UnknownNameError: Nothing can be failed on by one of the words.
    """
    words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    if words == ("none",):
        return ()
    for word in words:
        if word not in FAIL_ON:
            raise UnknownNameError.of(
                "condition to fail on", word, FAIL_ON, remedy=f"some of {', '.join(FAIL_ON)}, or none"
            )
    return words


def evidence_word(text: str) -> EvidenceKind:
    """Return the kind of evidence that a word names.

    >>> evidence_word("Measured")
    <EvidenceKind.MEASURED: 'measured'>

    Raises:
        UnknownNameError: No kind has that name.
    """
    word = text.strip().lower()
    if word not in tuple(EvidenceKind):
        raise UnknownNameError.of("evidence", text, EvidenceKind, remedy=f"one of {', '.join(EvidenceKind)}")
    return EvidenceKind(word)


def outcome(report: Report, threshold: Threshold | None = None, baseline: Report | None = None) -> Outcome:
    """Return whether a report passes; what a baseline has already does not count.

    >>> import aneforge as af
    >>> from aneforge.report import check
    >>> report = check(af.input((1, 8, 1, 17_000), name="x").relu(), af.targets.Family.A15)
    >>> outcome(report).ok, outcome(report, baseline=report).ok, outcome(report, baseline=report).known
    (False, True, 2)
    """
    asked = threshold or Threshold()
    before = set(keys_of(baseline)) if baseline is not None else set[tuple[object, ...]]()
    failures: list[Failed] = []
    known = 0
    for target in report.targets:
        for one in (
            *finding_failures(report, target, asked),
            *share_failures(target, asked, baseline),
            *budget_failures(target, asked),
        ):
            if one.finding is not None and key_of(report, target.target, one.finding) in before:
                known += 1
            else:
                failures.append(one)
    for one in divergence_failures(report, asked):
        if (one.target, DIVERGENCE.id, one.reason) in before:
            known += 1
        else:
            failures.append(one)
    return Outcome(tuple(failures), known, len(find_doubted_findings(report, asked)))


def kind_on(target: str, evidence: Evidence) -> EvidenceKind:
    """Return how a value is known on one target: what was measured on chips of other targets is inferred for it."""
    known = database().targets.get(target)
    if evidence.kind is EvidenceKind.MEASURED and known is not None and not was_measured_on(known, evidence):
        return EvidenceKind.INFERRED
    return evidence.kind


def finding_failures(report: Report, target: TargetReport, asked: Threshold) -> Iterator[Failed]:
    """Yield the findings of a target that count, and the lack of a program where none of them says so."""
    counted = False
    for finding in target.findings:
        word = word_of(finding, asked)
        if word is None:
            continue
        counted = counted or finding.severity in STOPPING
        if asked.believes(finding.evidence, target.target):
            yield Failed(
                target.target, f"{finding.rule} {finding.severity}: {name_operation(report, finding)}", word, finding
            )
    if target.failure is not None and not counted and Severity.REJECT in asked.fail_on:
        yield Failed(target.target, f"no program: {target.failure}", str(Severity.REJECT))


def word_of(finding: Finding, asked: Threshold) -> str | None:
    """Return the word of `FAIL_ON` by which a finding counts, whatever its evidence; nothing if none does."""
    if finding.severity in asked.fail_on:
        return finding.severity
    return SATURATION if SATURATION in asked.fail_on and is_saturation(finding) else None


def find_doubted_findings(report: Report, asked: Threshold) -> set[tuple[object, ...]]:
    """Return the findings that do not count only because of their evidence."""
    return {
        counted_key(finding)
        for target in report.targets
        for finding in target.findings
        if word_of(finding, asked) is not None and not asked.believes(finding.evidence, target.target)
    }


def is_saturation(finding: Finding) -> bool:
    """Return whether a finding is a prediction that something becomes infinite."""
    return finding.rule in PREDICTED and PREDICTED[finding.rule].risk == SATURATION


def share_failures(target: TargetReport, asked: Threshold, baseline: Report | None) -> Iterator[Failed]:
    """Yield a share of native operations that is too small, unless the baseline's is no larger."""
    if target.native_fraction >= asked.min_native:
        return
    before = next((one for one in baseline.targets if one.target == target.target), None) if baseline else None
    if before is not None and target.native_fraction >= before.native_fraction:
        return
    yield Failed(
        target.target,
        f"{NATIVE_SHARE.id}: {target.native_fraction:.1%} of operations are native, wanted {asked.min_native:.1%}",
        "min-native",
    )


def budget_failures(target: TargetReport, asked: Threshold) -> Iterator[Failed]:
    """Yield the budgets that a target is beyond."""
    for budget in asked.budgets:
        overrun = budget.overrun(target)
        if overrun is not None:
            yield Failed(target.target, f"{budget.option}: {overrun}", budget.option)


def divergence_failures(report: Report, asked: Threshold) -> Iterator[Failed]:
    """Yield pairs of targets that can give different answers."""
    if DIVERGES not in asked.fail_on or asked.evidence not in (None, EvidenceKind.INFERRED):
        return  # a difference is predicted, which makes it inferred
    for pair in report.divergences:
        if pair.strength != "none":
            yield Failed(pair.second, divergence_text(pair), DIVERGES)


def divergence_text(pair: Divergence) -> str:
    """Return what is said of two targets."""
    seen = f" ({pair.seen})" if pair.seen else ""
    return f"{pair.first} and {pair.second} {'differ' if pair.word == DIFFERS else 'may differ'}: {pair.strength}{seen}"


def name_operation(report: Report, finding: Finding) -> str:
    """Return the operation that a finding is about, with the name of its node."""
    return finding.op if finding.node is None else f"{finding.op} ({report.nodes[finding.node].name})"


def key_of(report: Report, target: str, finding: Finding) -> tuple[object, ...]:
    """Return what identifies a finding in another report of the same model: its node by name, not by number."""
    name = report.nodes[finding.node].name if finding.node is not None else None
    return target, finding.rule, finding.severity, finding.op, name, finding.seen


def keys_of(report: Report) -> Iterable[tuple[object, ...]]:
    """Yield the keys of everything that a report holds against a model."""
    for target in report.targets:
        for finding in target.findings:
            yield key_of(report, target.target, finding)
    for pair in report.divergences:
        yield pair.second, DIVERGENCE.id, divergence_text(pair)

"""Verdicts on layers: accepted, rejected, or accepted by the validator and refused when the layer is lowered."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.validators.data import Stage
from aneforge.records import dataclass
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.ir.kind import Slot
    from aneforge.compiler.validators.catalogue import Validator
    from aneforge.errors import Location
    from aneforge.rules.rule import Finding

__all__ = ["Objection", "Validation", "Verdict", "worst"]

STOPPING = frozenset({Severity.REJECT, Severity.OVERSIZE, Severity.DECOMPOSE})
"""What stops a layer as it is: what must be split or rebuilt is not a layer of the target either."""

ANSWERED = frozenset({Stage.CONVERSION, Stage.MOVED})
"""Where an objection does not stop the layer."""


class Verdict(StrEnum):
    """What becomes of a layer, best first."""

    ACCEPT = "accept"
    ACCEPT_THEN_FAIL = "accept-then-fail"
    """The validator accepts it, and code generation or backend lowering fails."""
    REJECT = "reject"

    @property
    def rank(self) -> int:
        """Position in the order of verdicts; 0 is the best."""
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True)
class Objection:
    """What a rule found in a layer, where the compiler objects to it, and what it prints."""

    finding: Finding
    stage: Stage
    texts: tuple[str, ...]
    """The compiler's own strings, filled in; empty where no source prints one."""
    slot: Slot | None = None
    """The slot of the epilogue that it is about; None for the engine operation itself."""

    @property
    def stops(self) -> bool:
        """True if the layer cannot run as it is."""
        return self.finding.severity in STOPPING and self.stage not in ANSWERED

    def __str__(self) -> str:
        place = f" (slot {self.slot})" if self.slot else ""
        texts = "".join(f' The compiler says "{text}".' for text in self.texts)
        return f"{self.finding}{place}{texts}"


@dataclass(frozen=True, slots=True)
class Validation:
    """The verdict on one layer, or on one operation."""

    name: str
    """The layer's name; empty for what has none."""
    op: str
    validator: Validator | None
    """Who checks it; None where no source names a validator for it, and only the rules speak."""
    findings: tuple[Objection, ...]
    """What was found, worst first; not all of it stops the layer."""
    location: Location | None = None

    @property
    def verdict(self) -> Verdict:
        """What becomes of it."""
        return worst(self.findings)

    @property
    def undecided(self) -> bool:
        """True if a bound is not known for the target, so that the verdict might be worse than it is."""
        return any(found.finding.evidence is None for found in self.findings)


def worst(objections: Iterable[Objection]) -> Verdict:
    """Return the verdict that objections give."""
    stages = {found.stage for found in objections if found.stops}
    if Stage.VALIDATION in stages:
        return Verdict.REJECT
    return Verdict.ACCEPT_THEN_FAIL if stages else Verdict.ACCEPT

"""How a number is known: the evidence that stands beside every value of the target database.

A value without evidence does not exist in aneforge. `measured` was seen on a chip, `decoded` was read out of a
compiler or a compiled program, `inferred` is a conclusion (ours or a source's) that nobody has checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Evidence", "EvidenceKind"]


class EvidenceKind(StrEnum):
    """The three kinds, strongest first."""

    MEASURED = "measured"
    DECODED = "decoded"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a value is believed.

    >>> print(Evidence(EvidenceKind.DECODED, "guide ch. 3", note="read from the table"))
    decoded (guide ch. 3): read from the table
    """

    kind: EvidenceKind
    source: str
    """Key of the source in `sources.toml`, then the place in it."""
    on: tuple[str, ...] = ()
    """Chips on which the value was measured, by shop name."""
    note: str = ""
    conflict: str | None = None
    """Id of the entry in `conflicts.toml` when sources disagree about this value."""

    def __str__(self) -> str:
        chips = f" on {', '.join(self.on)}" if self.on else ""
        conflict = f"; sources disagree, see {self.conflict}" if self.conflict else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.kind}{chips} ({self.source}{conflict}){note}"

"""How a number is known: the evidence of every value of the target database and every finding.

A value without evidence does not exist in aneforge. `measured` was seen on a chip, `decoded` was read from a compiler
or a compiled program, `inferred` is a conclusion (ours or a source's) that was not checked.

There is one form of it: data files are read into it, findings carry it, and reports write it, all by msgspec.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Evidence", "EvidenceKind"]


class EvidenceKind(StrEnum):
    """The three kinds, strongest first.

    >>> EvidenceKind.DECODED.reaches(EvidenceKind.INFERRED), EvidenceKind.DECODED.reaches(EvidenceKind.MEASURED)
    (True, False)
    """

    MEASURED = "measured"
    DECODED = "decoded"
    INFERRED = "inferred"

    def reaches(self, least: EvidenceKind) -> bool:
        """Return whether it is at least as strong as another."""
        order = list(EvidenceKind)
        return order.index(self) <= order.index(least)


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
        return f"{self.short}: {self.note}" if self.note else self.short

    @property
    def short(self) -> str:
        """Everything but the note, on one line."""
        chips = f" on {', '.join(self.on)}" if self.on else ""
        conflict = f"; sources disagree, see {self.conflict}" if self.conflict else ""
        return f"{self.kind}{chips} ({self.source}{conflict})"

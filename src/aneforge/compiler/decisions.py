"""What no source says and is decided nevertheless: `data/decisions.toml`, each entry with its reason.

A decision that depends on the target belongs into the target's data instead.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import DataFileError, UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets.schema import read

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Decision", "decision", "decisions"]

FILE = Path(__file__).parent / "data" / "decisions.toml"
DecisionValue = bool | int | float | str | list[int | str]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decision as the file has it."""

    value: DecisionValue
    summary: str
    reason: str
    kind: EvidenceKind = EvidenceKind.INFERRED
    source: str = "aneforge"


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided here, and why."""

    name: str
    value: DecisionValue
    summary: str
    evidence: Evidence

    def number(self) -> float:
        """Return the value, which must be a number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise DataFileError(f"{FILE.name}: {self.name} is not a number")
        return self.value

    def integer(self) -> int:
        """Return the value, which must be an integer."""
        if type(self.value) is not int:
            raise DataFileError(f"{FILE.name}: {self.name} is not an integer")
        return self.value

    def words(self) -> tuple[str, ...]:
        """Return the value, which must be a list of words."""
        if not isinstance(self.value, list):
            raise DataFileError(f"{FILE.name}: {self.name} is not a list")
        return tuple(map(str, self.value))

    def text(self) -> str:
        """Return the value, which must be a word."""
        if not isinstance(self.value, str):
            raise DataFileError(f"{FILE.name}: {self.name} is not a word")
        return self.value


@cache
def decisions() -> Mapping[str, Decision]:
    """Return every decision by its name.

    Raises:
        DataFileError: The file is not as it should be.
    """
    entries = read(FILE, dict[str, Entry])
    return {
        name: Decision(name, entry.value, entry.summary, Evidence(entry.kind, entry.source, note=entry.reason))
        for name, entry in entries.items()
    }


def decision(name: str) -> Decision:
    """Return one decision.

    >>> decision("axis_roles_rank_4").words()
    ('N', 'C', 'H', 'W')

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in decisions():
        raise UnknownNameError.of("decision", name, decisions())
    return decisions()[name]

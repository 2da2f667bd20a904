"""The compiler's device cost table: what `getDeviceInfo` fills in per legality family and number of cores.

It is the compiler's own analytic model, kept as published. No prediction of this package rests on it: its rows are
partly disputed (conflicts S1 and S10) and the unit of a clamp is not published.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.evidence import Evidence
    from aneforge.targets.family import LegalityFamily

__all__ = ["CostBlocks", "CostRow"]


@dataclass(frozen=True, slots=True)
class CostRow:
    """The constants that one or several families share."""

    name: str
    families: tuple[LegalityFamily, ...]
    clamps: tuple[float, ...]
    """Bandwidth clamps, from the smallest bucket of cores to the largest."""
    setup: tuple[float, float]
    """Setup ramp, its two ends."""
    complete: bool
    """False where the source prints the first clamps only."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class CostBlocks:
    """The whole table, with the places of its values in the device-information structure.

    >>> from aneforge.targets import LegalityFamily, database
    >>> blocks = database().cost_blocks
    >>> blocks.row(LegalityFamily.A17).clamps, blocks.bucket(16)
    ((62.5, 125.0, 250.0, 500.0), 2)
    """

    constant: float
    offsets: Mapping[str, int]
    """Byte offset in the structure, by field."""
    thresholds: tuple[int, ...]
    """Core counts (field 0x238) at which the next bucket begins."""
    thresholds_evidence: Evidence
    rows: tuple[CostRow, ...]
    evidence: Evidence

    def bucket(self, cores: int) -> int:
        """Return the position of a core count among the thresholds: the index of its clamp."""
        return bisect_right(self.thresholds, cores)

    def row(self, family: LegalityFamily) -> CostRow:
        """Return the row of a family.

        Raises:
            NoDataError: No row is published for it.
        """
        for row in self.rows:
            if family in row.families:
                return row
        raise NoDataError(f"no published row of the device cost table is known to hold for {family.name}")

"""Energy of one call where the power of a chip's engine was measured: a fit to those measurements, labelled as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.machine import INTERVAL
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.analysis.files import PowerEntry
    from aneforge.analysis.work import ProgramWork

__all__ = ["Energy", "energy_of", "microjoules"]


@dataclass(frozen=True, slots=True)
class Energy:
    """What the engine draws for one call; the rest of the chip is not included."""

    microjoules: float
    low: float
    high: float
    watts: float
    """Mean power over the predicted time."""
    evidence: Evidence

    def __str__(self) -> str:
        return f"{self.microjoules:.1f} µJ ({self.low:.1f} to {self.high:.1f}), {self.watts:.2f} W"


def energy_of(work: ProgramWork, microseconds: float, power: PowerEntry, chips: tuple[str, ...]) -> Energy | None:
    """Return the energy of a program's work that takes a given time, from the measured power of chips.

    None for no time at all: where nothing runs there is no mean power.
    """
    if not microseconds:
        return None
    value = microjoules(power, microseconds, work.macs, work.dram_bytes)
    factor = math.exp(INTERVAL * power.spread)
    note = f"fitted to the engine power of {power.rows} measured calls; latency predicted"
    evidence = Evidence(EvidenceKind.INFERRED, "rooflines", chips, note)
    return Energy(value, value / factor, value * factor, value / microseconds, evidence)


def microjoules(power: PowerEntry, microseconds: float, macs: int, dram_bytes: int) -> float:
    """Return the energy of so much time and work."""
    moved = (power.picojoules_per_mac * macs + power.picojoules_per_byte * dram_bytes) * 1e-6
    return power.idle_watts * microseconds + moved

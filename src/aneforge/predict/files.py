"""The data files of this room, as they stand on disk: constants of the cost model, fitted machines, measurements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets.schema import Entry, EvidenceEntry, read

__all__ = [
    "DATA",
    "Constant",
    "KindClass",
    "MachineEntry",
    "Measurement",
    "ModelFile",
    "PowerEntry",
    "SpreadEntry",
    "checks",
    "machines_file",
    "measurements",
    "model",
]

DATA = Path(__file__).parent / "data"


class Constant(Entry, frozen=True):
    """A number of the model with its evidence."""

    value: float
    kind: EvidenceKind
    source: str
    note: str
    on: tuple[str, ...] = ()

    @property
    def evidence(self) -> Evidence:
        """Why it is believed."""
        return Evidence(self.kind, self.source, self.on, self.note)


class KindClass(Entry, frozen=True):
    """Kinds of layers that share a cost for each element."""

    kinds: tuple[str, ...]
    streamed_only: bool
    """It holds only for a layer that reads from DRAM and writes to it."""
    note: str


class ModelFile(Entry, frozen=True):
    """`model.toml`."""

    winograd_gain: Constant
    on_chip_ratio: Constant
    layer_cycles: Constant
    two_channels_from: Constant
    macs_where_unknown: Constant
    cores_where_unknown: Constant
    network_spread: Constant
    power_share_unexplained: Constant
    activation_bandwidth: dict[str, Constant]
    classes: dict[str, KindClass]


class PowerEntry(Entry, frozen=True):
    """Energy of one chip's engine, fitted to measured power."""

    idle_watts: float
    """Power while a call is under way, whatever it does."""
    picojoules_per_mac: float
    picojoules_per_byte: float
    """For each byte that the engine moves to or from DRAM."""
    rows: int
    """Measurements behind it."""
    spread: float
    """Standard deviation of the logarithm of the error, each row predicted by the others."""


class MachineEntry(Entry, frozen=True):
    """One chip as it was fitted; rates in GB/s, times in microseconds."""

    dispatch: float
    host_in: float
    host_out: float
    element_nanoseconds: dict[str, float]
    """By class of `model.toml`."""
    fitted_classes: tuple[str, ...]
    """Those that this chip's own rows decide; the others come from chips near it."""
    rows: int
    spread: float
    """Standard deviation of the logarithm of the error, each shape predicted by the others."""
    power: PowerEntry | None = None


class SpreadEntry(Entry, frozen=True):
    """How far off predictions are where no chip of a target was measured."""

    other_chip: float
    """Standard deviation of the logarithm of the error, each chip predicted by the others."""


class MachinesFile(Entry, frozen=True):
    """`machines.toml`: what `tools/calibrate_cost.py` wrote."""

    evidence: EvidenceEntry
    spread: SpreadEntry
    chips: dict[str, MachineEntry]


class RowEntry(Entry, frozen=True):
    """One measurement."""

    workload: str
    shape: tuple[int, ...]
    milliseconds: float
    engine_milliwatts: float | None = None
    package_watts: float | None = None


class ChipRowsEntry(Entry, frozen=True):
    """The measurements of one chip."""

    rows: tuple[RowEntry, ...]
    run: str = ""
    macos: str = ""


class MeasurementsFile(Entry, frozen=True):
    """`latencies.toml` and `checks.toml`."""

    evidence: EvidenceEntry
    chips: dict[str, ChipRowsEntry]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured latency of one call on one chip."""

    chip: str
    workload: str
    shape: tuple[int, ...]
    microseconds: float
    engine_watts: float | None

    def __str__(self) -> str:
        return f"{self.workload} {'×'.join(map(str, self.shape))} on {self.chip}"


@cache
def model() -> ModelFile:
    """Return the constants of the cost model."""
    return read(DATA / "model.toml", ModelFile)


@cache
def machines_file() -> MachinesFile:
    """Return the fitted chips."""
    return read(DATA / "machines.toml", MachinesFile)


def measurements() -> tuple[Measurement, ...]:
    """Return the measured latencies that the machines are fitted to.

    >>> rows = measurements()
    >>> len(rows), len({row.chip for row in rows})
    (116, 6)
    """
    return rows_of("latencies.toml")


def checks() -> tuple[Measurement, ...]:
    """Return measured latencies that nothing is fitted to.

    >>> len(checks())
    50
    """
    return rows_of("checks.toml")


@cache
def rows_of(name: str) -> tuple[Measurement, ...]:
    """Return the measurements of a file."""
    file = read(DATA / name, MeasurementsFile)
    return tuple(
        Measurement(
            chip,
            row.workload,
            row.shape,
            row.milliseconds * 1000,
            None if row.engine_milliwatts is None else row.engine_milliwatts / 1000,
        )
        for chip, entry in file.chips.items()
        for row in entry.rows
    )

"""The data files of this room, as they are on disk: constants of the cost model, fitted machines, measurements."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets.schema import Entry, read

__all__ = [
    "DATA",
    "CallEntry",
    "Constant",
    "KindClass",
    "MachineEntry",
    "Measurement",
    "ModelFile",
    "NetworkMeasurement",
    "PowerEntry",
    "SpreadEntry",
    "checks",
    "lending",
    "machines_file",
    "measurements",
    "model",
    "networks",
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
    inside_cycles: float
    """What an element costs inside a network; in a program of that layer alone it is a number of the chip."""
    note: str


class ModelFile(Entry, frozen=True):
    """`model.toml`."""

    winograd_gain: Constant
    on_chip_bytes: Constant
    layer_cycles: Constant
    two_channels_from: Constant
    aliased_stream: Constant
    aliased_channels: Constant
    aliased_tiers: tuple[str, ...]
    doubted_step_tiers: tuple[str, ...]
    doubted_step: Constant
    experts_slower: Constant
    experts_factor: Constant
    macs_where_unknown: Constant
    cores_where_unknown: Constant
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
    """Number of measurements that it is fitted to."""
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
    lends: bool = True
    """Its host copies and costs for an element say something about other chips."""


class CallEntry(Entry, frozen=True):
    """A chip of which whole networks were measured and no single layers: the time of one call is all that they show."""

    dispatch: float
    rows: int


class SpreadEntry(Entry, frozen=True):
    """How far off predictions are, as the standard deviation of the logarithm of the error."""

    other_chip: float
    """Of a chip that was not measured: each chip predicted by the others."""
    network: float
    """Of a whole network: the errors of the test part, to which nothing but this is fitted."""


class MachinesFile(Entry, frozen=True):
    """`machines.toml`: what `tools/calibrate_cost.py` wrote."""

    evidence: Evidence
    spread: SpreadEntry
    chips: dict[str, MachineEntry]
    calls: dict[str, CallEntry]


class RowEntry(Entry, frozen=True):
    """One measurement."""

    workload: str
    shape: tuple[int, ...]
    milliseconds: float
    engine_milliwatts: float | None = None
    package_watts: float | None = None
    conflict: str = ""
    """The entry that gives both numbers, where the interval of the prediction does not hold this one."""


class ChipRowsEntry(Entry, frozen=True):
    """The measurements of one chip."""

    rows: tuple[RowEntry, ...]
    run: str = ""
    macos: str = ""
    lends: bool = True
    """Its host copies and costs for an element say something about other chips."""


class MeasurementsFile(Entry, frozen=True):
    """`latencies.toml` and `checks.toml`."""

    evidence: Evidence
    chips: dict[str, ChipRowsEntry]


class NetworkEntry(Entry, frozen=True):
    """The latency of one whole network on one chip."""

    network: str
    chip: str
    milliseconds: float
    variant: str = ""
    conflict: str = ""
    """The entry that gives both numbers, where the interval of the prediction does not hold this one."""


class PublicationEntry(Entry, frozen=True):
    """Latencies of whole networks that were published together."""

    where: str
    how: str
    part: Literal["calibration", "test"]
    rows: tuple[NetworkEntry, ...]


class NetworksFile(Entry, frozen=True):
    """`networks.toml`."""

    evidence: Evidence
    publications: tuple[PublicationEntry, ...]


@dataclass(frozen=True, slots=True)
class NetworkMeasurement:
    """The measured latency of one whole network on one chip."""

    chip: str
    network: str
    variant: str
    microseconds: float
    calibrates: bool
    """Constants may be fitted to it."""
    conflict: str = ""
    """The entry that gives both numbers, where the interval of the prediction does not hold this one."""

    def __str__(self) -> str:
        return f"{self.network} {self.variant} on {self.chip}".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured latency of one call on one chip."""

    chip: str
    workload: str
    shape: tuple[int, ...]
    microseconds: float
    engine_watts: float | None
    conflict: str = ""
    """The entry that gives both numbers, where the interval of the prediction does not hold this one."""

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
def networks() -> tuple[NetworkMeasurement, ...]:
    """Return the measured latencies of whole networks.

    >>> rows = networks()
    >>> len(rows), sum(row.calibrates for row in rows)
    (56, 15)
    """
    return tuple(
        NetworkMeasurement(
            row.chip,
            row.network,
            row.variant,
            row.milliseconds * 1000,
            publication.part == "calibration",
            row.conflict,
        )
        for publication in read(DATA / "networks.toml", NetworksFile).publications
        for row in publication.rows
    )


@cache
def lending() -> frozenset[str]:
    """Return the measured chips whose host copies and costs for an element say something about others.

    >>> len(lending())
    4
    """
    file = read(DATA / "latencies.toml", MeasurementsFile)
    return frozenset(chip for chip, entry in file.chips.items() if entry.lends)


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
            row.conflict,
        )
        for chip, entry in file.chips.items()
        for row in entry.rows
    )

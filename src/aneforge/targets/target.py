"""What the rest of the package sees of the database: a target, a chip, a weight stream, a conflict between sources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError, UnknownNameError
from aneforge.targets.properties import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.evidence import Evidence
    from aneforge.targets.family import Family, LegalityFamily
    from aneforge.targets.properties import Properties, Value

__all__ = [
    "Chip",
    "Clock",
    "Conflict",
    "DescriptorGeneration",
    "ImageFormats",
    "Kind",
    "Source",
    "Stream",
    "Target",
    "Tier",
]


class Kind(StrEnum):
    """What a compiler's target name stands for."""

    SILICON = "silicon"
    EMBEDDED = "embedded"
    REFERENCE = "reference"
    NAME_ONLY = "name-only"


@dataclass(frozen=True, slots=True)
class Tier:
    """The targets that share one set of hardware-abstraction values."""

    name: str
    title: str
    order: int
    family: Family | None


@dataclass(frozen=True, slots=True)
class Stream:
    """One weight encoding on one target: kept as a streaming kernel, or folded to dense fp16."""

    encoding: str
    mil_op: str
    layout: str
    streams: bool
    gain: tuple[float, float] | None
    """Measured speed-up over dense fp16, least and most; None where nobody measured."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ImageFormats:
    """The image formats a tier accepts at its inputs."""

    count: int
    named: tuple[str, ...]
    """Those of the `count` formats that a source names."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Clock:
    """Operating points in MHz. `points` is empty where only the ends are published."""

    curve: str
    least: int
    most: int
    count: int
    points: tuple[int, ...]
    paired: tuple[int, ...]
    """Second column of the table: an L2 clock or an efficiency (conflict C14)."""
    rates: tuple[int, ...]
    dram_levels: tuple[int, ...]
    cores: int | None
    divisor: int | None
    multiplier: int | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class DescriptorGeneration:
    """A generation of task descriptors. The number is an id, not a rank."""

    number: int
    targets: tuple[str, ...]
    patch_width_offset: int | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Target:
    """One name of the compiler's target list, and everything that is known of it.

    Two readings of the engine count are published and kept apart: `ne_count_hal` is the field at 0x238, which
    the documented peak projection uses; `ne_count_device` is what devices and the newer compiler report, and
    what decides throughput.

    >>> from aneforge.targets import resolve
    >>> m4 = resolve("m4")
    >>> m4.name, m4.tier.title, m4.family.name, m4.legality.name
    ('h16g', 'A16', 'A16', 'A15')
    >>> print(m4.evidence("width_slice_crop_x16"))
    measured on M4, M4 Max (rooflines; sources disagree, see C1)
    """

    name: str
    kind: Kind
    summary: str
    builds: tuple[str, ...]
    tier: Tier | None
    family: Family | None
    legality: LegalityFamily | None
    facts: Mapping[str, Fact]
    """The columns of the census that are known for this name, with evidence."""
    hal: Properties
    limits: Properties
    datapath: Properties
    streams: Mapping[str, Stream]
    image_formats: ImageFormats | None
    clock: Clock | None
    """Published operating points of this very target."""
    cost_curve: Clock | None
    """The curve that the documented cost model uses for it, its own or a borrowed one."""

    def __str__(self) -> str:
        return self.name

    @property
    def has_data(self) -> bool:
        """False for a name that the compiler knows and no source describes."""
        return self.tier is not None

    @property
    def hardware_version(self) -> int | None:
        """The number from which the compiler derives the legality family."""
        return self._census_integer("hardware_version")

    @property
    def cpu_subtype(self) -> int | None:
        """The generation number in the header of a compiled container."""
        return self._census_integer("cpu_subtype")

    @property
    def descriptor_generation(self) -> int | None:
        """The id of the task-descriptor layout."""
        return self._census_integer("descriptor_generation")

    @property
    def ne_count_hal(self) -> int | None:
        """Engines as the field at 0x238 counts them."""
        return self._census_integer("ne_count_hal")

    @property
    def ne_count_device(self) -> int | None:
        """Engines as devices report them."""
        return self._census_integer("ne_count_device")

    def fact(self, name: str) -> Fact:
        """Return any single value of the database with its evidence, by its name alone.

        Names are unique over the census columns, the streams and the fields of hal, limits and datapath.

        Raises:
            UnknownNameError: The database has no value of that name.
            NoDataError: It has, and not for this target.
        """
        if name in self.facts:
            return self.facts[name]
        if name in self.streams:
            return Fact(self.streams[name].streams, self.streams[name].evidence)
        groups = (self.hal, self.limits, self.datapath)
        for group in groups:
            if name in group.table:
                return group.fact(name)
        known = [*CENSUS_COLUMNS, *self.streams, *(field for group in groups for field in group.table)]
        if name in CENSUS_COLUMNS:
            raise NoDataError(f"{name!r} is unknown here: no published source gives it", target=self.name)
        raise UnknownNameError.of("value", name, known)

    def evidence(self, name: str) -> Evidence:
        """Return why a value of this target is believed."""
        return self.fact(name).evidence

    def _census_integer(self, column: str) -> int | None:
        fact = self.facts.get(column)
        return fact.value if fact and isinstance(fact.value, int) else None


CENSUS_COLUMNS = (
    "hardware_version",
    "legality",
    "cpu_subtype",
    "descriptor_generation",
    "ne_count_hal",
    "ne_count_device",
    "cost_curve",
)
"""The columns of `targets.toml`, each a `Fact` of the target where it is known."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip by the name on the box."""

    key: str
    name: str
    target: str
    evidence: Evidence
    reported: str | None
    """The target name that a device of this chip really reported."""
    reported_evidence: Evidence | None
    naming_rule: str | None
    """The target name that M(n) = H(n+12) suggests."""
    soc: tuple[str, ...]
    aliases: tuple[str, ...]
    cores: int | None
    engines: int | None
    board_type: int | None
    note: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Conflict:
    """A question on which sources disagree, and what was decided."""

    id: str
    question: str
    chosen: str
    rejected: str
    reason: str
    sources: tuple[str, ...]
    holds: tuple[tuple[str, str, Value], ...]
    """Values of the database that the decision fixes: target, name, value."""


@dataclass(frozen=True, slots=True)
class Source:
    """A public source of facts."""

    key: str
    title: str
    where: str
    note: str

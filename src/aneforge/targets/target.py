"""What the rest of the package sees of the database: a target, a chip, a weight stream, a conflict between sources."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.errors import NoDataError, UnknownNameError
from aneforge.records import dataclass
from aneforge.targets.properties import Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    "Place",
    "Source",
    "Stream",
    "Target",
    "Tier",
]


class Kind(StrEnum):
    """What a compiler's target name stands for.

    >>> from aneforge.targets import resolve
    >>> resolve("m4").kind is Kind.SILICON, str(resolve("m4").kind)
    (True, 'silicon')
    """

    SILICON = "silicon"
    EMBEDDED = "embedded"
    REFERENCE = "reference"
    NAME_ONLY = "name-only"


@dataclass(frozen=True, slots=True)
class Tier:
    """The targets that share one set of hardware-abstraction values.

    >>> from aneforge.targets import resolve
    >>> tier = resolve("m1").tier
    >>> tier.name, tier.title, tier.order, tier.family.name
    ('a13', 'A13', 1, 'A13')
    """

    name: str
    title: str
    order: int
    family: Family | None
    family_evidence: Evidence
    """Why the tier is counted to its family."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One weight encoding on one target: kept as a streaming kernel, or folded to dense fp16.

    >>> from aneforge.targets import resolve
    >>> stream = resolve("m4").streams["int8"]
    >>> stream.mil_op, stream.streams, stream.gain
    ('constexpr_affine_dequantize', True, None)
    >>> print(stream.evidence)
    decoded (guide ch. 7)
    """

    encoding: str
    mil_op: str
    layout: str
    streams: bool
    gain: tuple[float, float] | None
    """Measured speed-up over dense fp16, minimum and maximum; None where it was not measured."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ImageFormats:
    """The image formats a tier accepts at its inputs.

    >>> from aneforge.targets import resolve
    >>> formats = resolve("m1").image_formats
    >>> formats.count, formats.named
    (3, ('&BGA', '&L0h', '&L16'))
    """

    count: int
    named: tuple[str, ...]
    """Those of the `count` formats that a source names."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Clock:
    """Operating points in MHz. `points` is empty where only the ends are published.

    >>> from aneforge.targets import resolve
    >>> clock = resolve("m1").clock
    >>> clock.least, clock.most, clock.count, clock.points
    (396, 1428, 10, (396, 420, 558, 606, 720, 816, 912, 1104, 1284, 1428))
    """

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
    """A generation of task descriptors. The number is an id, not a rank.

    >>> from aneforge.targets.database import database
    >>> generation = database().descriptors[7]
    >>> generation.number, generation.targets, generation.patch_width_offset
    (7, ('h13', 'h13g', 't1'), 512)
    """

    number: int
    targets: tuple[str, ...]
    patch_width_offset: int | None
    evidence: Evidence
    patch_width_evidence: Evidence | None
    """Why the offset is believed; there where it is."""
    defect: str = ""
    """A defect of the compiler in the setters of the patch width; empty where none is known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
    """Single values that are known for this name, with evidence: the columns of the census (`CENSUS_COLUMNS`), the
    ends of the clock and the number of image formats."""
    hal: Properties
    limits: Properties
    datapath: Properties
    geometry: Properties
    streams: Mapping[str, Stream]
    """Weight encodings with a verdict."""
    encodings: tuple[str, ...]
    """Every weight encoding that is known, with or without a verdict here."""
    image_formats: ImageFormats | None
    clock: Clock | None
    """Published operating points of this very target."""
    cost_curve: Clock | None
    """The curve that the documented cost model uses for it, its own or a borrowed one."""
    find_conflicts: Callable[[Target, str], tuple[Conflict, ...]] = field(repr=False, compare=False)
    """Looks the disagreements about one value up in the database, which reads them when they are first wanted."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        tier, family = (self.tier.title if self.tier else "none known"), (self.family.name if self.family else "none")
        return f"<Target {self.name}: {self.kind}, tier {tier}, family {family}>"

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

    @property
    def groups(self) -> Mapping[str, Properties]:
        """The groups of properties, by the word before a name of theirs in listings."""
        return {"hal": self.hal, "limit": self.limits, "datapath": self.datapath, "geometry": self.geometry}

    def fact(self, name: str) -> Fact:
        """Return any single value of the database with its evidence, by its name or another name of only that one.

        Names are unique over the single values (`facts`), the streams and the fields of all groups.

        Raises:
            UnknownNameError: The database has no value of that name.
            NoDataError: It has, and not for this target.
        """
        if name in self.facts:
            return self.facts[name]
        if name in self.streams:
            return Fact(self.streams[name].streams, self.streams[name].evidence)
        for group in self.groups.values():
            if group.knows(name):
                return group.fact(name)
        single = [*SINGLE_VALUES, *self.encodings]
        if name in single:
            raise NoDataError(f"{name!r} is unknown here: no published source gives it", target=self.name)
        raise UnknownNameError.of(
            "value", name, [*single, *(one for group in self.groups.values() for one in group.table)]
        )

    def evidence(self, name: str) -> Evidence:
        """Return why a value of this target is believed."""
        return self.fact(name).evidence

    def conflicts(self, name: str) -> tuple[Conflict, ...]:
        """Return the disagreements between sources that bear on a value.

        They are the one that its evidence names, and those whose decision fixes the value for this target or for one
        of the same tier.

        >>> from aneforge.targets import resolve
        >>> [conflict.id for conflict in resolve("m2").conflicts("width_slice_crop_x16")]
        ['C1', 'S23']

        Raises:
            UnknownNameError: The database has no value of that name.
        """
        return self.find_conflicts(self, name)

    def _census_integer(self, column: str) -> int | None:
        fact = self.facts.get(column)
        return fact.value if fact and isinstance(fact.value, int) else None


CENSUS_COLUMNS = (
    "kind",
    "tier",
    "family",
    "hardware_version",
    "legality",
    "cpu_subtype",
    "descriptor_generation",
    "ne_count_hal",
    "ne_count_device",
    "cost_curve",
    "compile_result",
)
"""What the census says of a name, each a `Fact` of the target where it is known; the family is its number."""

SINGLE_VALUES = (*CENSUS_COLUMNS, "clock", "image_formats")
"""Everything that `Target.facts` may hold. The fact of the clock is its two ends, that of the formats their number."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip by the name on the box.

    >>> from aneforge.targets import chip
    >>> print(chip("m1-max"), chip("m1-max").target, chip("m1-max").evidence, sep=", ")
    M1 Max, h13g, measured on M1 Max (guide ch. 27)
    """

    key: str
    name: str
    target: str
    evidence: Evidence
    reported: str | None
    """The target name that a device of this chip really reported."""
    reported_evidence: Evidence | None
    naming_rule: str | None
    """The target name that M(n) = H(n+12) suggests."""
    projected_as: str | None
    """The target whose curve the documented projection of the peak takes, where it is not `target`."""
    projected_evidence: Evidence | None
    soc: tuple[str, ...]
    parts_evidence: Evidence | None
    """Why the part numbers in `soc` are believed; there where they are."""
    aliases: tuple[str, ...]
    devices: tuple[str, ...]
    """Devices that have this chip and no other, by the name on their box."""
    devices_evidence: Evidence | None
    """Why that is believed; there where devices are."""
    bandwidth: float | None
    """Gigabytes per second at which the engine was seen to read the weights of a language model's last layer."""
    bandwidth_evidence: Evidence | None
    cores: int | None
    engines: int | None
    board_type: int | None
    note: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Place:
    """A chip, where one was named, and the target that it is: chips of one target differ in their times.

    >>> from aneforge.targets import place_of
    >>> place_of("m4-pro").name, place_of("h16s").name
    ('m4-pro', 'h16s')
    """

    target: Target
    chip: Chip | None

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The chip's key, else the target's name."""
        return self.chip.key if self.chip else self.target.name


@dataclass(frozen=True, slots=True)
class Conflict:
    """A question on which sources disagree, and what was decided.

    >>> from aneforge.targets.database import database
    >>> conflict = database().conflicts["C1"]
    >>> print(conflict.question, conflict.chosen, sep="; ")
    Does a width slice saturate on A14 (M2)?; Yes: A13 and A14 clamp above 4,094; A15 and later do not.
    """

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

"""The form of the data files in `data/`: what a table may hold, checked when it is read.

These are the shapes as they are in the files, defaults not yet filled in; `database.py` turns them into the
types that the rest of the package sees. A key that is missing, misspelt or of the wrong type is a
`DataFileError` that names the file and the path to the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets.parsed_toml import parse_toml
from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    from pathlib import Path

Scalar = bool | int | float | str
RawValue = Scalar | list[Scalar]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all file entries: an unknown key is an error, not a silent no-op."""


class ValueEntry(Entry, frozen=True):
    """A value with evidence of its own; a field left out is taken from the table's default.

    `kind` and `source` replace the default as a whole: a measured value does not inherit another value's chips.
    """

    value: RawValue
    kind: EvidenceKind | None = None
    source: str | None = None
    on: tuple[str, ...] = ()
    note: str = ""
    conflict: str | None = None

    def evidence(self, default: Evidence) -> Evidence:
        """Return this value's evidence, completed from the default of its table."""
        return Evidence(
            kind=self.kind or default.kind,
            source=self.source or default.source,
            on=self.on or (default.on if self.kind is None else ()),
            note=self.note or default.note,
            conflict=self.conflict or default.conflict,
        )


Cell = RawValue | ValueEntry
"""A value in a file: bare (the table's evidence holds) or with its own evidence."""


class PropertyEntry(Entry, frozen=True):
    """One named property, with a value per tier or target (`hal_*`, `limits`, `datapath` and `geometry.toml`).

    A key of `values` is a tier, a target (whose value wins over its tier's) or `all` (every tier with data). A value
    that is known not to be a number is a word: `none` (there is no such thing) or `unbounded` (there is no limit).
    """

    summary: str
    evidence: Evidence
    values: dict[str, Cell] = {}
    offsets: dict[str, int] = {}
    """Byte offset in the hardware-abstraction blob, by compiler build."""
    more_offsets: dict[str, tuple[int, ...]] = {}
    """Offsets of further words, where the property is a list or is in several places."""
    aliases: tuple[str, ...] = ()
    """Other names, such as the compiler's own, under which the property answers too."""
    see: str = ""
    """Where the value is when it is not here, as an attribute of a target."""
    ops: str = ""
    """The class of operations that the property limits."""
    unit: str = ""


class TierEntry(Entry, frozen=True):
    """A capability tier: the targets that share one set of hardware-abstraction values (`tiers.toml`)."""

    title: str
    order: int
    family: int | None = None
    """The documented five-value family, absent where a tier belongs to none."""
    family_evidence: Evidence | None = None
    """Why the tier is counted to its family, where that differs from the file's `family_evidence`."""


class FamilyEntry(Entry, frozen=True):
    """One of the five documented capability families (`tiers.toml`)."""

    representative: str
    summary: str


class TiersFile(Entry, frozen=True):
    """`tiers.toml`: families, tiers, the version table and the parsers' string keys."""

    families: dict[str, FamilyEntry]
    family_evidence: Evidence
    tiers: dict[str, TierEntry]
    hardware_versions: dict[str, int]
    hardware_versions_evidence: Evidence
    parser_keys: dict[str, int]
    parser_keys_evidence: Evidence
    compiler_builds: dict[str, str]


class TargetEntry(Entry, frozen=True):
    """One name of the compiler's target list (`targets.toml`)."""

    kind: Cell
    summary: str
    builds: tuple[str, ...]
    """Compiler builds that know the name."""
    tier: Cell | None = None
    """Absent where no source gives data for the name."""
    hardware_version: Cell | None = None
    legality: Cell | None = None
    cpu_subtype: Cell | None = None
    descriptor_generation: Cell | None = None
    ne_count_hal: Cell | None = None
    ne_count_device: Cell | None = None
    cost_curve: Cell | None = None
    compile_result: Cell | None = None
    """What build 10.26.6 did when it was asked to compile for the name."""


class TargetsFile(Entry, frozen=True):
    """`targets.toml`: the census, and the evidence for each of its columns."""

    evidence: dict[str, Evidence]
    targets: dict[str, TargetEntry]


class ChipEntry(Entry, frozen=True):
    """One chip by its shop name (`chips.toml`)."""

    name: str
    target: ValueEntry
    """The compiler target that stands for the chip here."""
    devices: tuple[str, ...] = ()
    """Devices that have this chip, by the name on their box."""
    reported: ValueEntry | None = None
    """What a device really reported."""
    naming_rule: str | None = None
    """What the rule M(n) = H(n+12) suggests."""
    projected_as: ValueEntry | None = None
    """The target of the documented projection of the peak, where it is another than the chip's."""
    soc: tuple[str, ...] = ()
    """Part numbers, as a Linux device tree spells them."""
    parts_evidence: Evidence | None = None
    """Why the part numbers are believed; there where they are."""
    aliases: tuple[str, ...] = ()
    bandwidth: ValueEntry | None = None
    """Gigabytes per second at which the engine was seen to read weights."""
    cores: int | None = None
    engines: int | None = None
    board_type: int | None = None
    note: str = ""


class ChipsFile(Entry, frozen=True):
    """`chips.toml`."""

    devices_evidence: Evidence
    """Why the devices of all chips are believed."""
    chips: dict[str, ChipEntry]


class StreamCell(Entry, frozen=True):
    """Whether one encoding streams on one tier, and what was gained by it."""

    streams: bool
    kind: EvidenceKind
    source: str
    on: tuple[str, ...] = ()
    note: str = ""
    conflict: str | None = None
    gain: tuple[float, float] | None = None
    """Measured speed-up over dense fp16, minimum and maximum."""

    def evidence(self) -> Evidence:
        """Return the evidence as the rest of the package knows it."""
        return Evidence(self.kind, self.source, self.on, self.note, self.conflict)


class StreamEntry(Entry, frozen=True):
    """One weight encoding (`streams.toml`)."""

    mil_op: str
    layout: str
    values: dict[str, StreamCell]


class ImageFormatEntry(Entry, frozen=True):
    """The image formats of one tier (`formats.toml`)."""

    count: int
    named: tuple[str, ...]
    """Those of the `count` formats that a source names."""
    evidence: Evidence


class FormatsFile(Entry, frozen=True):
    """`formats.toml`: how an image-format tag is spelt, and what each tier accepts."""

    prefixes: dict[str, str]
    bases: dict[str, int]
    allow_list_entries: int
    plane_descriptor: tuple[str, ...]
    evidence: Evidence
    tiers: dict[str, ImageFormatEntry]


class ClockEntry(Entry, frozen=True):
    """Operating points of one target (`clocks.toml`), in MHz. Lists are empty where only the ends are published."""

    evidence: Evidence
    least: int
    most: int
    count: int
    points: tuple[int, ...] = ()
    paired: tuple[int, ...] = ()
    """The second column of the table: an L2 clock or an efficiency, see conflict C14."""
    rates: tuple[int, ...] = ()
    dram_levels: tuple[int, ...] = ()
    cores: int | None = None
    divisor: int | None = None
    multiplier: int | None = None


class DescriptorEntry(Entry, frozen=True):
    """One generation of task descriptors (`descriptors.toml`)."""

    targets: tuple[str, ...]
    evidence: Evidence
    patch_width_offset: int | None = None
    patch_width_evidence: Evidence | None = None
    defect: str = ""
    """A defect of the compiler in the setters of the patch width, as the source of the offset describes it."""


class CostRowEntry(Entry, frozen=True):
    """One row of the device cost table (`cost_blocks.toml`)."""

    families: tuple[str, ...]
    """Legality families that use the row."""
    clamps: tuple[float, ...]
    """Bandwidth clamps, from the smallest bucket of cores to the largest."""
    setup: tuple[float, float]
    """Setup ramp, its two ends."""
    complete: bool
    """False where the source prints the first clamps only."""
    evidence: Evidence


class CostBlocksFile(Entry, frozen=True):
    """`cost_blocks.toml`: what the compiler's `getDeviceInfo` fills in."""

    evidence: Evidence
    constant: float
    offsets: dict[str, int]
    thresholds: tuple[int, ...]
    thresholds_evidence: Evidence
    rows: dict[str, CostRowEntry]


class HoldsEntry(Entry, frozen=True):
    """A value of the database that a conflict's decision fixes; tests check that it is what the data says."""

    target: str
    name: str
    value: RawValue


class ConflictEntry(Entry, frozen=True):
    """A question on which sources disagree, and what was decided (`conflicts.toml`)."""

    question: str
    chosen: str
    rejected: str
    reason: str
    sources: tuple[str, ...]
    holds: tuple[HoldsEntry, ...] = ()


class SourceEntry(Entry, frozen=True):
    """A public source of facts (`sources.toml`)."""

    title: str
    where: str
    note: str = ""


FileType = TypeVar("FileType")


def read(path: Path, form: type[FileType]) -> FileType:
    """Read one data file into the given form.

    Raises:
        DataFileError: The file is not TOML, or a key in it is missing, misspelt or of the wrong type.
    """
    try:
        return decode_typed(parse_toml(path), form, msgspec.convert)
    except msgspec.ValidationError as error:
        raise DataFileError(f"{path.name}: {error}") from error

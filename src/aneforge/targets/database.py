"""Reads the data files into the types of `target.py`: the one place that knows both forms.

`database()` is the package's own, read once per process. Another folder of the same form can be read with
`Database(folder)`, which is how tests show that a new target, chip or value is one entry in one file.
"""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import DataFileError
from aneforge.evidence import Evidence
from aneforge.targets import schema
from aneforge.targets.family import Family, LegalityFamily
from aneforge.targets.properties import Fact, Properties, Property, Value
from aneforge.targets.target import (
    CENSUS_COLUMNS,
    Chip,
    Clock,
    Conflict,
    DescriptorGeneration,
    ImageFormats,
    Kind,
    Source,
    Stream,
    Target,
    Tier,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Database", "database"]


class Database:
    """One folder of data files, each read when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """Every target name that a compiler knows, in census order."""
        file = self._targets_file
        defaults = {column: entry.evidence() for column, entry in file.evidence.items()}
        return {name: self._target(name, entry, defaults) for name, entry in file.targets.items()}

    @cached_property
    def tiers(self) -> Mapping[str, Tier]:
        """The tiers in their order."""
        tiers = {
            name: Tier(name, entry.title, entry.order, Family(entry.family) if entry.family else None)
            for name, entry in self._tiers_file.tiers.items()
        }
        return dict(sorted(tiers.items(), key=lambda item: item[1].order))

    @cached_property
    def representatives(self) -> Mapping[Family, str]:
        """One compiler target per family of the documented API."""
        return {Family[name]: entry.representative for name, entry in self._tiers_file.families.items()}

    @cached_property
    def hardware_versions(self) -> Mapping[int, LegalityFamily]:
        """The compiler's table from hardware version to legality family, collisions included."""
        return {int(version): LegalityFamily(index) for version, index in self._tiers_file.hardware_versions.items()}

    @cached_property
    def hardware_versions_evidence(self) -> Evidence:
        """Why the version table is believed."""
        return self._tiers_file.hardware_versions_evidence.evidence()

    @cached_property
    def parser_keys(self) -> Mapping[str, int]:
        """The first two characters of a target name, as the compiler's string parsers compare them."""
        return self._tiers_file.parser_keys

    @cached_property
    def parser_keys_evidence(self) -> Evidence:
        """Why the parser keys are believed."""
        return self._tiers_file.parser_keys_evidence.evidence()

    @cached_property
    def compiler_builds(self) -> Mapping[str, str]:
        """The compiler builds whose tables are in this database."""
        return self._tiers_file.compiler_builds

    @cached_property
    def chips(self) -> Mapping[str, Chip]:
        """Every chip by its key, such as `m4-pro`."""
        file = schema.read(self.folder / "chips.toml", schema.ChipsFile)
        return {key: self._chip(key, entry) for key, entry in file.chips.items()}

    @cached_property
    def hal_scalars(self) -> Mapping[str, Property]:
        """Numeric fields of the hardware-abstraction blob."""
        return self._properties("hal_scalars.toml")

    @cached_property
    def hal_bytes(self) -> Mapping[str, Property]:
        """Capability bytes of the hardware-abstraction blob."""
        return self._properties("hal_bytes.toml")

    @cached_property
    def hal(self) -> Mapping[str, Property]:
        """All fields of the hardware-abstraction blob."""
        return {**self.hal_scalars, **self.hal_bytes}

    @cached_property
    def limits(self) -> Mapping[str, Property]:
        """Numeric limits, per class of operations."""
        return self._properties("limits.toml")

    @cached_property
    def datapath(self) -> Mapping[str, Property]:
        """What the engine computes differently per target."""
        return self._properties("datapath.toml")

    @cached_property
    def properties(self) -> Mapping[str, Property]:
        """Every property of every group by its name, which is unique over the groups."""
        return {**self.hal, **self.limits, **self.datapath}

    @cached_property
    def streams(self) -> Mapping[str, schema.StreamEntry]:
        """Weight encodings, as the file gives them: one row per encoding, one cell per tier."""
        return schema.read(self.folder / "streams.toml", dict[str, schema.StreamEntry])

    @cached_property
    def image_formats(self) -> schema.FormatsFile:
        """How image-format tags are spelt, and what each tier accepts."""
        return schema.read(self.folder / "formats.toml", schema.FormatsFile)

    @cached_property
    def clocks(self) -> Mapping[str, Clock]:
        """Operating points by curve."""
        file = schema.read(self.folder / "clocks.toml", dict[str, schema.ClockEntry])
        return {
            curve: Clock(
                curve=curve,
                least=entry.least,
                most=entry.most,
                count=entry.count,
                points=entry.points,
                paired=entry.paired,
                rates=entry.rates,
                dram_levels=entry.dram_levels,
                cores=entry.cores,
                divisor=entry.divisor,
                multiplier=entry.multiplier,
                evidence=entry.evidence.evidence(),
            )
            for curve, entry in file.items()
        }

    @cached_property
    def descriptors(self) -> Mapping[int, DescriptorGeneration]:
        """Generations of task descriptors by their id."""
        file = schema.read(self.folder / "descriptors.toml", dict[str, schema.DescriptorEntry])
        return {
            int(number): DescriptorGeneration(
                int(number), entry.targets, entry.patch_width_offset, entry.evidence.evidence()
            )
            for number, entry in file.items()
        }

    @cached_property
    def conflicts(self) -> Mapping[str, Conflict]:
        """Questions on which sources disagree, by id."""
        file = schema.read(self.folder / "conflicts.toml", dict[str, schema.ConflictEntry])
        return {
            key: Conflict(
                id=key,
                question=entry.question,
                chosen=entry.chosen,
                rejected=entry.rejected,
                reason=entry.reason,
                sources=entry.sources,
                holds=tuple((held.target, held.name, plain(held.value)) for held in entry.holds),
            )
            for key, entry in file.items()
        }

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Where the facts come from, by the key that evidence uses."""
        file = schema.read(self.folder / "sources.toml", dict[str, schema.SourceEntry])
        return {key: Source(key, entry.title, entry.where, entry.note) for key, entry in file.items()}

    @cached_property
    def _tiers_file(self) -> schema.TiersFile:
        return schema.read(self.folder / "tiers.toml", schema.TiersFile)

    def _properties(self, file_name: str) -> Mapping[str, Property]:
        file = schema.read(self.folder / file_name, dict[str, schema.PropertyEntry])
        known_columns = {*self.tiers, *self._targets_file.targets, "all"}
        for name, entry in file.items():
            if unknown := sorted(entry.values.keys() - known_columns):
                raise DataFileError(f"{file_name}: {name}.values has no tier or target called {', '.join(unknown)}")
        return {name: property_of(name, entry) for name, entry in file.items()}

    @cached_property
    def _targets_file(self) -> schema.TargetsFile:
        return schema.read(self.folder / "targets.toml", schema.TargetsFile)

    def _target(self, name: str, entry: schema.TargetEntry, defaults: Mapping[str, Evidence]) -> Target:
        if entry.tier is not None and entry.tier not in self.tiers:
            raise DataFileError(f"targets.toml: targets.{name}.tier is {entry.tier!r}, which is no tier")
        cells: dict[str, schema.Cell | None] = {column: getattr(entry, column) for column in CENSUS_COLUMNS}
        facts = {column: fact_of(cell, defaults[column]) for column, cell in cells.items() if cell is not None}
        self._derive_legality(facts)
        legality = facts.get("legality")
        curve = facts.get("cost_curve")
        tier = self.tiers[entry.tier] if entry.tier else None
        return Target(
            name=name,
            kind=Kind(entry.kind),
            summary=entry.summary,
            builds=entry.builds,
            tier=tier,
            family=tier.family if tier else None,
            legality=LegalityFamily[str(legality.value)] if legality else None,
            facts=facts,
            hal=Properties("HAL", name, entry.tier, self.hal),
            limits=Properties("limit", name, entry.tier, self.limits),
            datapath=Properties("datapath", name, entry.tier, self.datapath),
            streams=self._streams_of(entry.tier),
            image_formats=self._image_formats_of(entry.tier),
            clock=self.clocks.get(name),
            cost_curve=self.clocks[str(curve.value)] if curve else None,
        )

    def _derive_legality(self, facts: dict[str, Fact]) -> None:
        """Add the legality family that follows from the hardware version, where a target has one."""
        version = facts.get("hardware_version")
        if version is not None and isinstance(version.value, int):
            facts["legality"] = Fact(self.hardware_versions[version.value].name, version.evidence)

    def _streams_of(self, tier: str | None) -> Mapping[str, Stream]:
        found: dict[str, Stream] = {}
        for encoding, entry in self.streams.items():
            if tier is not None and (cell := entry.values.get(tier)):
                found[encoding] = Stream(encoding, entry.mil_op, entry.layout, cell.streams, cell.gain, cell.evidence())
        return found

    def _image_formats_of(self, tier: str | None) -> ImageFormats | None:
        entry = self.image_formats.tiers.get(tier) if tier else None
        return ImageFormats(entry.count, entry.named, entry.evidence.evidence()) if entry else None

    def _chip(self, key: str, entry: schema.ChipEntry) -> Chip:
        target, evidence = self._named_target(key, entry.target)
        reported, reported_evidence = self._named_target(key, entry.reported) if entry.reported else (None, None)
        return Chip(
            key=key,
            name=entry.name,
            target=target,
            evidence=evidence,
            reported=reported,
            reported_evidence=reported_evidence,
            naming_rule=entry.naming_rule,
            soc=entry.soc,
            aliases=entry.aliases,
            cores=entry.cores,
            engines=entry.engines,
            board_type=entry.board_type,
            note=entry.note,
        )

    def _named_target(self, key: str, entry: schema.ValueEntry) -> tuple[str, Evidence]:
        name = str(entry.value)
        if name not in self._targets_file.targets:
            raise DataFileError(f"chips.toml: chips.{key} names the target {name!r}, which targets.toml has not")
        if entry.kind is None or entry.source is None:
            raise DataFileError(f"chips.toml: chips.{key} gives the target {name!r} without kind and source")
        return name, Evidence(entry.kind, entry.source, entry.on, entry.note, entry.conflict)


def plain(value: schema.RawValue) -> Value:
    """Return a file's value as the rest of the package knows it: a list becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def fact_of(cell: schema.Cell, default: Evidence) -> Fact:
    """Return a file's cell as a fact, completed from the evidence of its table."""
    if isinstance(cell, schema.ValueEntry):
        return Fact(plain(cell.value), cell.evidence(default))
    return Fact(plain(cell), default)


def property_of(name: str, entry: schema.PropertyEntry) -> Property:
    """Return a file's entry as a property."""
    default = entry.evidence.evidence()
    return Property(
        name=name,
        summary=entry.summary,
        facts={column: fact_of(cell, default) for column, cell in entry.values.items()},
        offsets=entry.offsets,
        ops=entry.ops,
        unit=entry.unit,
    )


@cache
def database() -> Database:
    """Return the package's own database."""
    return Database(Path(__file__).parent / "data")

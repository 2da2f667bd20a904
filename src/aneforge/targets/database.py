"""Reads the data files into the types of `target.py`: the one place that knows both forms.

`database()` is the package's own, read once per process. Another folder of the same form can be read with
`Database(folder)`, which is how tests show that a new target, chip or value is one entry in one file.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import DataFileError, NoDataError
from aneforge.evidence import Evidence
from aneforge.targets import schema
from aneforge.targets.cost_blocks import CostBlocks, CostRow
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
    """One folder of data files, each read when it is first needed.

    >>> database().targets["h13"]
    <Target h13: silicon, tier A13, family A13>
    >>> [family.name for family in database().representatives]
    ['OLDER', 'A13', 'A14', 'A15', 'A16']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """Every target name that a compiler knows, in census order."""
        file = self._targets_file
        defaults = file.evidence
        return {name: self._target(name, entry, defaults) for name, entry in file.targets.items()}

    @cached_property
    def tiers(self) -> Mapping[str, Tier]:
        """The tiers in their order."""
        default = self._tiers_file.family_evidence
        tiers = {name: tier_of(name, entry, default) for name, entry in self._tiers_file.tiers.items()}
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
        return self._tiers_file.hardware_versions_evidence

    @cached_property
    def parser_keys(self) -> Mapping[str, int]:
        """The first two characters of a target name, as the compiler's string parsers compare them."""
        return self._tiers_file.parser_keys

    @cached_property
    def parser_keys_evidence(self) -> Evidence:
        """Why the parser keys are believed."""
        return self._tiers_file.parser_keys_evidence

    @cached_property
    def compiler_builds(self) -> Mapping[str, str]:
        """The compiler builds whose tables are in this database."""
        return self._tiers_file.compiler_builds

    @cached_property
    def chips(self) -> Mapping[str, Chip]:
        """Every chip by its key, such as `m4-pro`."""
        file = schema.read(self.folder / "chips.toml", schema.ChipsFile)
        return {key: self._chip(key, entry, file.devices_evidence) for key, entry in file.chips.items()}

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
    def geometry(self) -> Mapping[str, Property]:
        """Widths, sizes and measured rates of the machine that are not fields of the blob."""
        return self._properties("geometry.toml")

    @cached_property
    def properties(self) -> Mapping[str, Property]:
        """Every property of every group by its name, which is unique over the groups."""
        return {**self.hal, **self.limits, **self.datapath, **self.geometry}

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Other names of properties, such as the compiler's own, and the property that each stands for."""
        return {alias: name for name, known in self.properties.items() for alias in known.aliases}

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
                evidence=entry.evidence,
            )
            for curve, entry in file.items()
        }

    @cached_property
    def descriptors(self) -> Mapping[int, DescriptorGeneration]:
        """Generations of task descriptors by their id."""
        file = schema.read(self.folder / "descriptors.toml", dict[str, schema.DescriptorEntry])
        return {
            int(number): DescriptorGeneration(
                number=int(number),
                targets=entry.targets,
                patch_width_offset=entry.patch_width_offset,
                evidence=entry.evidence,
                patch_width_evidence=entry.patch_width_evidence or None,
                defect=entry.defect,
            )
            for number, entry in file.items()
        }

    @cached_property
    def cost_blocks(self) -> CostBlocks:
        """The compiler's own device cost table."""
        file = schema.read(self.folder / "cost_blocks.toml", schema.CostBlocksFile)
        return CostBlocks(
            constant=file.constant,
            offsets=file.offsets,
            thresholds=file.thresholds,
            thresholds_evidence=file.thresholds_evidence,
            rows=tuple(cost_row_of(name, entry) for name, entry in file.rows.items()),
            evidence=file.evidence,
        )

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
        facts = self._census(name, entry, defaults)
        legality = facts.get("legality")
        curve = facts.get("cost_curve")
        tier = self.tiers[str(facts["tier"].value)] if "tier" in facts else None
        tier_name = tier.name if tier else None
        formats, clock = self._image_formats_of(tier_name), self.clocks.get(name)
        if clock:
            facts["clock"] = Fact((clock.least, clock.most), clock.evidence)
        if formats:
            facts["image_formats"] = Fact(formats.count, formats.evidence)
        return Target(
            name=name,
            kind=Kind(str(facts["kind"].value)),
            summary=entry.summary,
            builds=entry.builds,
            tier=tier,
            family=tier.family if tier else None,
            legality=LegalityFamily[str(legality.value)] if legality else None,
            facts=facts,
            hal=Properties("HAL", name, tier_name, self.hal, self.aliases),
            limits=Properties("limit", name, tier_name, self.limits, self.aliases),
            datapath=Properties("datapath", name, tier_name, self.datapath, self.aliases),
            geometry=Properties("geometry", name, tier_name, self.geometry, self.aliases),
            streams=self._streams_of(tier_name),
            encodings=tuple(self.streams),
            image_formats=formats,
            clock=clock,
            cost_curve=self.clocks[str(curve.value)] if curve else None,
            find_conflicts=self._conflicts_about,
        )

    def _census(self, name: str, entry: schema.TargetEntry, defaults: Mapping[str, Evidence]) -> dict[str, Fact]:
        """Return the columns of the census for one name, the ones that follow from others included."""
        cells: dict[str, schema.Cell | None] = {column: getattr(entry, column, None) for column in CENSUS_COLUMNS}
        found = {column: fact_of(cell, defaults[column]) for column, cell in cells.items() if cell is not None}
        if "tier" in found:
            tier = self.tiers.get(str(found["tier"].value))
            if tier is None:
                raise DataFileError(
                    f"targets.toml: targets.{name}.tier is {found['tier'].value!r}, which is not a tier"
                )
            if tier.family is not None:
                found["family"] = Fact(tier.family, tier.family_evidence)
        version = found.get("hardware_version")
        if version is not None and isinstance(version.value, int):
            found.setdefault("legality", Fact(self.hardware_versions[version.value].name, version.evidence))
        return {column: found[column] for column in CENSUS_COLUMNS if column in found}

    @cached_property
    def _conflicts_by_value(self) -> Mapping[str, list[tuple[Target, Conflict]]]:
        """For the name of a value, the conflicts whose decision fixes it, each with the target that it names."""
        found: dict[str, list[tuple[Target, Conflict]]] = {}
        for conflict in self.conflicts.values():
            for target, name, _ in conflict.holds:
                found.setdefault(self.aliases.get(name, name), []).append((self.targets[target], conflict))
        return found

    def _conflicts_about(self, target: Target, name: str) -> tuple[Conflict, ...]:
        """Return what `Target.conflicts` promises."""
        ids: set[str | None] = set()
        with suppress(NoDataError):
            ids.add(target.fact(name).evidence.conflict)
        held = self._conflicts_by_value.get(self.aliases.get(name, name), [])
        ids |= {
            conflict.id for other, conflict in held if other is target or (other.tier and other.tier == target.tier)
        }
        return tuple(conflict for conflict in self.conflicts.values() if conflict.id in ids)

    def _streams_of(self, tier: str | None) -> Mapping[str, Stream]:
        found: dict[str, Stream] = {}
        for encoding, entry in self.streams.items():
            if tier is not None and (cell := entry.values.get(tier)):
                found[encoding] = Stream(encoding, entry.mil_op, entry.layout, cell.streams, cell.gain, cell.evidence())
        return found

    def _image_formats_of(self, tier: str | None) -> ImageFormats | None:
        entry = self.image_formats.tiers.get(tier) if tier else None
        return ImageFormats(entry.count, entry.named, entry.evidence) if entry else None

    def _chip(self, key: str, entry: schema.ChipEntry, devices_evidence: Evidence) -> Chip:
        target, evidence = self._named_target(key, entry.target)
        reported, reported_evidence = self._named_target(key, entry.reported) if entry.reported else (None, None)
        projected, projected_evidence = (
            self._named_target(key, entry.projected_as) if entry.projected_as else (None, None)
        )
        return Chip(
            key=key,
            name=entry.name,
            target=target,
            evidence=evidence,
            reported=reported,
            reported_evidence=reported_evidence,
            naming_rule=entry.naming_rule,
            projected_as=projected,
            projected_evidence=projected_evidence,
            soc=entry.soc,
            parts_evidence=entry.parts_evidence or None,
            aliases=entry.aliases,
            devices=entry.devices,
            devices_evidence=devices_evidence if entry.devices else None,
            bandwidth=number_of(key, entry.bandwidth) if entry.bandwidth else None,
            bandwidth_evidence=own_evidence(key, entry.bandwidth) if entry.bandwidth else None,
            cores=entry.cores,
            engines=entry.engines,
            board_type=entry.board_type,
            note=entry.note,
        )

    def _named_target(self, key: str, entry: schema.ValueEntry) -> tuple[str, Evidence]:
        name = str(entry.value)
        if name not in self._targets_file.targets:
            raise DataFileError(f"chips.toml: chips.{key} names the target {name!r}, which is not in targets.toml")
        return name, own_evidence(key, entry)


def number_of(key: str, entry: schema.ValueEntry) -> float:
    """Return a chip's value that is a number."""
    if isinstance(entry.value, bool) or not isinstance(entry.value, int | float):
        raise DataFileError(f"chips.toml: chips.{key} gives {entry.value!r} where a number is expected")
    return float(entry.value)


def own_evidence(key: str, entry: schema.ValueEntry) -> Evidence:
    """Return the evidence of a chip's value, which has no default to be completed from."""
    if entry.kind is None or entry.source is None:
        raise DataFileError(f"chips.toml: chips.{key} gives {entry.value!r} without kind and source")
    return Evidence(entry.kind, entry.source, entry.on, entry.note, entry.conflict)


def plain(value: schema.RawValue) -> Value:
    """Return a file's value as the rest of the package knows it: a list becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def fact_of(cell: schema.Cell, default: Evidence) -> Fact:
    """Return a file's cell as a fact, completed from the evidence of its table."""
    if isinstance(cell, schema.ValueEntry):
        return Fact(plain(cell.value), cell.evidence(default))
    return Fact(plain(cell), default)


def tier_of(name: str, entry: schema.TierEntry, default: Evidence) -> Tier:
    """Return a file's entry as a tier."""
    family = None if entry.family is None else Family(entry.family)
    evidence = entry.family_evidence or default
    return Tier(name, entry.title, entry.order, family, evidence)


def cost_row_of(name: str, entry: schema.CostRowEntry) -> CostRow:
    """Return a file's entry as a row of the device cost table."""
    return CostRow(
        name=name,
        families=tuple(LegalityFamily[family] for family in entry.families),
        clamps=entry.clamps,
        setup=entry.setup,
        complete=entry.complete,
        evidence=entry.evidence,
    )


def property_of(name: str, entry: schema.PropertyEntry) -> Property:
    """Return a file's entry as a property."""
    default = entry.evidence
    return Property(
        name=name,
        summary=entry.summary,
        facts={column: fact_of(cell, default) for column, cell in entry.values.items()},
        offsets=entry.offsets,
        more_offsets=entry.more_offsets,
        aliases=entry.aliases,
        see=entry.see,
        ops=entry.ops,
        unit=entry.unit,
    )


@cache
def database() -> Database:
    """Return the package's own database.

    >>> database() is database(), database().chips["m1"].name
    (True, 'M1')
    """
    return Database(Path(__file__).parent / "data")

"""Counts what the database holds, by what it is about and by how it is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets.database import Database, database
from aneforge.targets.target import CENSUS_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from aneforge.targets.properties import Property
    from aneforge.targets.target import Target

__all__ = ["Audit", "Count", "audit"]


@dataclass(frozen=True, slots=True)
class Count:
    """How many things of one sort there are, and how many values with which evidence are in them."""

    what: str
    entries: int
    values: int
    evidence: Mapping[EvidenceKind, int]


@dataclass(frozen=True, slots=True)
class Audit:
    """The whole database in figures."""

    targets_by_kind: Mapping[str, int]
    targets_with_data: int
    tiers: int
    counts: tuple[Count, ...]
    conflicts: int
    sources: int

    @property
    def evidence(self) -> Mapping[EvidenceKind, int]:
        """Values of the whole database by kind of evidence."""
        return {kind: sum(count.evidence[kind] for count in self.counts) for kind in EvidenceKind}


def audit(data: Database | None = None) -> Audit:
    """Count the entries and values of a database, the package's own by default."""
    data = data or database()
    targets = data.targets.values()
    return Audit(
        targets_by_kind=Counter(str(target.kind) for target in targets),
        targets_with_data=sum(target.has_data for target in targets),
        tiers=len(data.tiers),
        counts=(
            count("target names", len(data.targets), census_evidence(targets)),
            count("chips", len(data.chips), chip_evidence(data)),
            count("HAL scalars × tiers", len(data.hal_scalars), property_evidence(data.hal_scalars)),
            count("HAL bytes × tiers", len(data.hal_bytes), property_evidence(data.hal_bytes)),
            count("limits × tiers", len(data.limits), property_evidence(data.limits)),
            count("datapath switches × tiers", len(data.datapath), property_evidence(data.datapath)),
            count("geometry × tiers", len(data.geometry), property_evidence(data.geometry)),
            count("weight streams × tiers", len(data.streams), stream_evidence(data)),
            count("image formats × tiers", len(data.image_formats.tiers), format_evidence(data)),
            count("clock tables", len(data.clocks), (clock.evidence for clock in data.clocks.values())),
            count("descriptor generations", len(data.descriptors), descriptor_evidence(data)),
            count(
                "hardware versions",
                len(data.hardware_versions),
                repeat(data.hardware_versions_evidence, data.hardware_versions),
            ),
            count("parser keys", len(data.parser_keys), repeat(data.parser_keys_evidence, data.parser_keys)),
            count("device cost rows", len(data.cost_blocks.rows), cost_evidence(data)),
        ),
        conflicts=len(data.conflicts),
        sources=len(data.sources),
    )


def count(what: str, entries: int, evidence: Iterable[Evidence]) -> Count:
    """Return one line of the audit."""
    by_kind = Counter(one.kind for one in evidence)
    return Count(what, entries, by_kind.total(), {kind: by_kind[kind] for kind in EvidenceKind})


def property_evidence(properties: Mapping[str, Property]) -> Iterator[Evidence]:
    """Yield the evidence of every value of a table of properties."""
    return (fact.evidence for known in properties.values() for fact in known.facts.values())


def census_evidence(targets: Iterable[Target]) -> Iterator[Evidence]:
    """Yield the evidence of every known census column of every target.

    The other single values of a target, its clock and its image formats, have lines of their own.
    """
    return (target.facts[column].evidence for target in targets for column in CENSUS_COLUMNS if column in target.facts)


def chip_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every chip's target, device report, part numbers and bandwidth."""
    for chip in data.chips.values():
        known = (chip.evidence, chip.reported_evidence, chip.parts_evidence, chip.bandwidth_evidence)
        yield from (evidence for evidence in known if evidence)


def stream_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every encoding on every tier."""
    return (cell.evidence() for entry in data.streams.values() for cell in entry.values.values())


def format_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every tier's image formats."""
    return (entry.evidence for entry in data.image_formats.tiers.values())


def descriptor_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every descriptor generation and of every patch-width offset."""
    for generation in data.descriptors.values():
        yield generation.evidence
        if generation.patch_width_evidence:
            yield generation.patch_width_evidence


def cost_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of the device cost table: its layout, its thresholds and its rows."""
    yield data.cost_blocks.evidence
    yield data.cost_blocks.thresholds_evidence
    yield from (row.evidence for row in data.cost_blocks.rows)


def repeat(evidence: Evidence, values: Collection[object]) -> Iterator[Evidence]:
    """Yield the evidence that the values of a table share, once for each of them."""
    return (evidence for _ in values)

"""Counts what the database holds, by what it is about and by how it is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.targets.database import Database, database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aneforge.targets.properties import Property
    from aneforge.targets.target import Target

__all__ = ["Audit", "Count", "audit"]


@dataclass(frozen=True, slots=True)
class Count:
    """How many things of one sort there are, and how many values with which evidence stand in them."""

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
            count("weight streams × tiers", len(data.streams), stream_evidence(data)),
            count("image formats × tiers", len(data.image_formats.tiers), format_evidence(data)),
            count("clock tables", len(data.clocks), (clock.evidence for clock in data.clocks.values())),
            count("descriptor generations", len(data.descriptors), descriptor_evidence(data)),
            count("hardware versions", len(data.hardware_versions), [data.hardware_versions_evidence]),
            count("parser keys", len(data.parser_keys), [data.parser_keys_evidence]),
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
    """Yield the evidence of every known census column of every target."""
    return (fact.evidence for target in targets for fact in target.facts.values())


def chip_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every chip's target, and of every device report."""
    for chip in data.chips.values():
        yield chip.evidence
        if chip.reported_evidence:
            yield chip.reported_evidence


def stream_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every encoding on every tier."""
    return (cell.evidence() for entry in data.streams.values() for cell in entry.values.values())


def format_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every tier's image formats."""
    return (entry.evidence.evidence() for entry in data.image_formats.tiers.values())


def descriptor_evidence(data: Database) -> Iterator[Evidence]:
    """Yield the evidence of every descriptor generation."""
    return (generation.evidence for generation in data.descriptors.values())

"""What no source says about scheduling and memory: `data/schedule.toml`, each entry with its reason.

Functions take the rules as an argument, so that a test or an experiment can change one.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from aneforge.errors import DataFileError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.records import dataclass
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Rules", "entries", "rules"]

PATH = Path(__file__).parent.parent / "data" / "schedule.toml"
T = TypeVar("T")


class RuleEntry(Entry, Generic[T], frozen=True):
    """One rule as the file has it."""

    value: T
    summary: str
    reason: str
    kind: EvidenceKind = EvidenceKind.INFERRED
    source: str = "aneforge"

    def evidence(self) -> Evidence:
        """Return why the value is believed."""
        return Evidence(self.kind, self.source, note=self.reason)


Words = tuple[str, ...]
Direction = Literal["deepest first", "shallowest first"]


class RulesFile(Entry, frozen=True):
    """`schedule.toml`."""

    working_set_margin: RuleEntry[float]
    stream_share: RuleEntry[float]
    branch_sibling_score: RuleEntry[int]
    merge_sibling_score: RuleEntry[int]
    topological_order: RuleEntry[Direction]
    chaining_where_unknown: RuleEntry[bool]
    buffers_per_chain: RuleEntry[int]
    planar_tile_rows: RuleEntry[int]
    restrided_engines: RuleEntry[Words]
    readers_for_loading: RuleEntry[int]
    pointwise_kinds: RuleEntry[Words]
    row_kinds: RuleEntry[Words]
    rewriting_kinds: RuleEntry[Words]
    ring_kinds: RuleEntry[Words]
    free_kinds: RuleEntry[Words]
    banks_where_unknown: RuleEntry[int]
    cores_where_unknown: RuleEntry[int]


@dataclass(frozen=True, slots=True)
class Rules:
    """Only the values."""

    working_set_margin: float
    stream_share: float
    branch_sibling_score: int
    merge_sibling_score: int
    topological_order: Direction
    chaining_where_unknown: bool
    buffers_per_chain: int
    planar_tile_rows: int
    restrided_engines: frozenset[str]
    readers_for_loading: int
    pointwise_kinds: frozenset[str]
    row_kinds: frozenset[str]
    rewriting_kinds: frozenset[str]
    ring_kinds: frozenset[str]
    free_kinds: frozenset[str]
    banks_where_unknown: int
    cores_where_unknown: int

    def __post_init__(self) -> None:
        """Check what other code relies on.

        Raises:
            DataFileError: The shares of the on-chip memory do not leave room for each other.
        """
        if not 0 < self.working_set_margin < 1 or not 0 < self.stream_share <= 1 - self.working_set_margin:
            raise DataFileError(
                f"{PATH.name}: working_set_margin and stream_share must be shares of one memory",
                seen=f"{self.working_set_margin} and {self.stream_share}",
                limit="above 0, together 1 at most",
            )
        if self.buffers_per_chain < 1 or self.planar_tile_rows < 1 or self.readers_for_loading < 1:
            raise DataFileError(
                f"{PATH.name}: buffers_per_chain, planar_tile_rows and readers_for_loading count from 1"
            )


@cache
def file() -> RulesFile:
    """Return the data file."""
    return read(PATH, RulesFile)


@cache
def rules() -> Rules:
    """Return the rules.

    >>> rules().working_set_margin
    0.75

    Raises:
        DataFileError: The file is not as it should be.
    """
    found = file()
    return Rules(
        working_set_margin=found.working_set_margin.value,
        stream_share=found.stream_share.value,
        branch_sibling_score=found.branch_sibling_score.value,
        merge_sibling_score=found.merge_sibling_score.value,
        topological_order=found.topological_order.value,
        chaining_where_unknown=found.chaining_where_unknown.value,
        buffers_per_chain=found.buffers_per_chain.value,
        planar_tile_rows=found.planar_tile_rows.value,
        restrided_engines=frozenset(found.restrided_engines.value),
        readers_for_loading=found.readers_for_loading.value,
        pointwise_kinds=frozenset(found.pointwise_kinds.value),
        row_kinds=frozenset(found.row_kinds.value),
        rewriting_kinds=frozenset(found.rewriting_kinds.value),
        ring_kinds=frozenset(found.ring_kinds.value),
        free_kinds=frozenset(found.free_kinds.value),
        banks_where_unknown=found.banks_where_unknown.value,
        cores_where_unknown=found.cores_where_unknown.value,
    )


def entries() -> Mapping[str, RuleEntry[object]]:
    """Return every rule by its name, with summary and evidence, for documents."""
    found = file()
    return {field.name: getattr(found, field.name) for field in fields(Rules)}

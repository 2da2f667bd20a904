"""Chaining: a producer's result stays on chip and supplies the next layer there, without a way through DRAM.

It is a conjunction of conditions, none of which is about size; the first that fails is the reason why two layers are
not chained. Where no source gives the target's chaining bit, the rules say what it counts as.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of
from aneforge.compiler.schedule.tiles import row_window, tiling_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.schedule.flow import Flow
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.compiler.schedule.tiles import Tiling
    from aneforge.targets import Target

__all__ = ["ChainCondition", "ChainVerdict", "Chaining", "chaining_enabled", "engine_number"]

CHAINING_BIT = "chaining"
ENGINE_CHOICE = "engine_number"
"""The choice that says which engine of a chip with several runs a layer; the first, where there is none."""


class ChainCondition(StrEnum):
    """The conditions, in the order in which they are tested: the guide's six, and two that follow from it."""

    ENABLED = "enabled"
    """The target's chaining bit is set."""
    ONE_READER = "one reader"
    """The producer has exactly one outgoing layer, the consumer."""
    SAME_ENGINE = "same engine"
    """Both are of one engine class and on one engine."""
    GEOMETRY = "tile geometry"
    """What the producer emits at a time is what the consumer takes at a time."""
    NEIGHBOURS = "neighbours"
    """The consumer runs right after the producer, with no layer in between."""
    ROWS = "first rows"
    """The rows that the producer emits cover the consumer's first tile with its overlap."""
    NOT_COISSUED = "not co-issued"
    """Neither runs at the same time as a layer of the other engine."""
    PARTITION = "one partition"
    """No partition ends between them: what is on chip does not outlive one."""


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """Whether two layers are chained, and the first condition that failed if not."""

    first: str
    second: str
    failed: ChainCondition | None
    detail: str = ""

    def __str__(self) -> str:
        text = "chained" if self.failed is None else f"not chained, {self.failed}: {self.detail}"
        return f"%{self.first} and %{self.second}: {text}"


def chaining_enabled(target: Target, rules: Rules) -> tuple[bool, str]:
    """Return whether layers may be chained on a target, and how that is known.

    >>> from aneforge.compiler.schedule.rules import rules
    >>> from aneforge.targets import Family, resolve
    >>> chaining_enabled(resolve(Family.A13), rules())[0]
    True
    """
    known = target.hal.get(CHAINING_BIT)
    enabled = known if isinstance(known, bool) else rules.chaining_where_unknown
    word = "set" if enabled else "not set"
    if isinstance(known, bool):
        return enabled, f"the chaining bit of {target.name} is {word}: {target.evidence(CHAINING_BIT)}"
    return enabled, f"no source gives the chaining bit of {target.name}; it counts as {word} (inferred)"


def engine_number(layer: Layer) -> int:
    """Return which engine of a chip with several runs a layer."""
    chosen = layer.choices.get(ENGINE_CHOICE, 0)
    return chosen if isinstance(chosen, int) else 0


@dataclass(eq=False)
class Chaining:
    """The conditions for the layers of a segment."""

    flow: Flow
    memory: OnChip
    rules: Rules
    tilings: dict[int, Tiling] = field(default_factory=dict[int, "Tiling"])
    neighbours: dict[tuple[int, int], ChainVerdict] = field(default_factory=dict[tuple[int, int], ChainVerdict])
    """Verdicts on layers that follow each other."""

    def __post_init__(self) -> None:
        self.enabled, self.how = chaining_enabled(self.flow.program.target, self.rules)

    def tiling(self, number: int) -> Tiling:
        """Return how many rows a layer makes at a time."""
        if number not in self.tilings:
            self.tilings[number] = tiling_of(self.flow.layers[number], self.memory, self.rules)
        return self.tilings[number]

    def failures(self, first: int, second: int, gap: int | None) -> Iterator[tuple[ChainCondition, str]]:
        """Iterate over the conditions that fail; `gap` is the number of layers between the two, None if it is open."""
        producer, consumer = self.flow.layers[first], self.flow.layers[second]
        if not self.enabled:
            yield ChainCondition.ENABLED, self.how
        if self.flow.successors[first] != (second,):
            readers = ", ".join(f"%{self.flow.layers[one].name}" for one in self.flow.successors[first][:3])
            yield ChainCondition.ONE_READER, f"%{producer.name} is read by {readers or 'no layer'}"
            return
        if leaving := [result.name for result in producer.results if result.name in self.flow.leaving]:
            yield ChainCondition.ONE_READER, f"%{leaving[0]} also leaves the segment"
        if reason := engines_differ(producer, consumer):
            yield ChainCondition.SAME_ENGINE, reason
        yield from self.tile_failures(first, second, gap)

    def tile_failures(self, first: int, second: int, gap: int | None) -> Iterator[tuple[ChainCondition, str]]:
        """Iterate over the failing conditions that are about tiles and places in the order."""
        producer, consumer = self.flow.layers[first], self.flow.layers[second]
        emitted, tiling = self.tiling(first).emitted(producer), self.tiling(second)
        passed = [(name, ref) for name, ref in consumer.refs() if isinstance(ref, Value) and ref in producer.results]
        for name, value in passed:
            window = row_window(consumer, name, value, self.rules)
            taken = tiling.declared(consumer, name, value, window)
            if emitted != taken or not emitted.rows:
                yield ChainCondition.GEOMETRY, f"%{producer.name} emits {emitted}, %{consumer.name} takes {taken}"
                break
        if len(passed) > 1:
            yield ChainCondition.GEOMETRY, f"%{consumer.name} takes it in {len(passed)} places"
        if gap:
            yield ChainCondition.NEIGHBOURS, f"{gap} layers run between them"
        for name, value in passed:
            needed = tiling.first_rows(value, row_window(consumer, name, value, self.rules))
            if needed > emitted.rows:
                detail = (
                    f"%{consumer.name} needs {needed} rows for its first tile, %{producer.name} emits {emitted.rows}"
                )
                yield ChainCondition.ROWS, detail
                break

    def verdict(self, first: int, second: int, gap: int = 0) -> ChainVerdict:
        """Return whether two layers with so many between them are chained, and why not."""
        if not gap and (first, second) in self.neighbours:
            return self.neighbours[first, second]
        names = self.flow.layers[first].name, self.flow.layers[second].name
        failed, detail = next(self.failures(first, second, gap), (None, ""))
        verdict = ChainVerdict(*names, failed, detail)
        if not gap:
            self.neighbours[first, second] = verdict
        return verdict

    def chainable_input(self, number: int) -> int | None:
        """Return a layer whose result would be chained into a layer if it ran right before it."""
        for before in self.flow.predecessors[number]:
            if next(self.failures(before, number, None), None) is None:
                return before
        return None

    def chained_rows(self, first: int) -> int | None:
        """Return how many rows of a chained result are on chip at a time; None where all are."""
        result, tiling = self.flow.layers[first].result, self.tiling(first)
        rows = self.rules.buffers_per_chain * tiling.rows
        extents = extents_of(result.shape)
        return None if rows >= extents.rows * extents.depth * extents.batch else rows


def engines_differ(producer: Layer, consumer: Layer) -> str:
    """Return why two layers are not on one engine; nothing where they are."""
    if Engine.DMA in (producer.engine, consumer.engine):
        return "a layer that only moves data has no tiles to pass on"
    if producer.engine is not consumer.engine:
        return f"{producer.engine} and {consumer.engine}"
    if engine_number(producer) != engine_number(consumer):
        return f"engine {engine_number(producer)} and engine {engine_number(consumer)}"
    return ""

"""Schedules a program: order, steps, task partitions, chained and co-issued pairs, and what stays on chip meanwhile.

Every segment is scheduled by itself: a segment is a program of its own, and nothing stays on chip between two.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from aneforge.compiler.memory.buffers import Buffers
from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.memory.folding import Fold, Refusal, folds_of
from aneforge.compiler.memory.layout import on_chip_layout
from aneforge.compiler.schedule.chaining import ChainCondition, Chaining, ChainVerdict, chaining_enabled
from aneforge.compiler.schedule.coissue import CoissueVerdict, Disqualifier, discover, streaming_reason
from aneforge.compiler.schedule.flow import flow_of
from aneforge.compiler.schedule.order import list_order
from aneforge.compiler.schedule.partition import Partitioner
from aneforge.compiler.schedule.rules import rules as standard_rules
from aneforge.compiler.schedule.verifier import verify_schedule
from aneforge.display import as_html, cut_lines
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program, Segment
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.schedule.coissue import Discovery
    from aneforge.compiler.schedule.flow import Flow
    from aneforge.compiler.schedule.partition import Block
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["Pair", "Partition", "Resident", "Schedule", "schedule"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two layers, in the order in which they are scheduled."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Layers that run as one task partition: what is on chip does not outlive it."""

    number: int
    segment: int
    layers: tuple[str, ...]
    peak_bytes: int
    """The most bytes of buffers that were live at once when the partition was formed."""
    closed_by: str
    """The layer that did not fit any more; empty where the segment ends."""
    wanted_bytes: int
    """Bytes that would have been live at once with that layer; 0 where the segment ends."""


@dataclass(frozen=True, slots=True)
class Resident:
    """Room on chip that a tensor, and what is inside it, has for some steps of one partition."""

    value: str
    offset: int
    size: int
    first: int
    last: int
    """The first and the last step, both counted."""
    partition: int
    rows: int | None
    """How many rows of a chained tensor are there at a time; None for all of it."""
    restrided: bool
    """Its rows are put into different banks."""
    loaded: bool
    """It is a copy of what is in DRAM."""
    over: str | None
    """The tensor that it rewrites in place."""


@dataclass(frozen=True)
class Schedule:
    """In which order the layers of a program run, and why."""

    target: str
    working_set_limit: int
    """Bytes that buffers may take at once: the on-chip memory, scaled by the margin."""
    steps: tuple[tuple[str, ...], ...]
    """Layers by the step in which they run; those of one step run at the same time."""
    partitions: tuple[Partition, ...]
    chained: tuple[Pair, ...]
    coissued: tuple[Pair, ...]
    chain_verdicts: tuple[ChainVerdict, ...]
    """Why layers that follow each other are chained or not."""
    coissue_verdicts: tuple[CoissueVerdict, ...]
    """Why a multiply-accumulate and a planar layer that follow each other run together or not."""
    residents: tuple[Resident, ...]
    folds: tuple[Fold, ...]
    """Tensors that are inside others."""
    refused_folds: tuple[Refusal, ...]
    notes: tuple[str, ...]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The layers in the order in which they run."""
        return tuple(name for step in self.steps for name in step)

    @cached_property
    def step_of(self) -> Mapping[str, int]:
        """The step in which each layer runs."""
        return {name: number for number, step in enumerate(self.steps) for name in step}

    @cached_property
    def partition_of(self) -> Mapping[str, int]:
        """The partition in which each layer runs."""
        return {name: partition.number for partition in self.partitions for name in partition.layers}

    def __str__(self) -> str:
        from aneforge.compiler.schedule.print_schedule import schedule_text  # noqa: PLC0415 - it imports this module

        return cut_lines(schedule_text(self).splitlines())

    def _repr_html_(self) -> str:
        return as_html(self)


def schedule(program: Program, rules: Rules | None = None) -> Schedule:
    """Return the schedule of a program; `rules` stand for those of the data file.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import build_program
    >>> from aneforge.targets import Family
    >>> made = schedule(build_program(af.input((1, 4, 8, 8)).relu(), Family.A14))
    >>> made.order, len(made.partitions)
    (('t1',), 1)

    Raises:
        NoDataError: No source gives the size of the target's on-chip memory.
    """
    rules = rules or standard_rules()
    memory = on_chip(program.target, rules)
    parts = [SegmentScheduler(program, segment, memory, rules) for segment in program.segments]
    steps = partitions = 0
    made: list[Schedule] = []
    for part in parts:
        made.append(part.result(steps, partitions))
        steps += len(made[-1].steps)
        partitions += len(made[-1].partitions)
    _, how = chaining_enabled(program.target, rules)
    joined = Schedule(
        target=program.target.name,
        working_set_limit=memory.working_set,
        steps=tuple(step for one in made for step in one.steps),
        partitions=tuple(partition for one in made for partition in one.partitions),
        chained=tuple(pair for one in made for pair in one.chained),
        coissued=tuple(pair for one in made for pair in one.coissued),
        chain_verdicts=tuple(verdict for one in made for verdict in one.chain_verdicts),
        coissue_verdicts=tuple(verdict for one in made for verdict in one.coissue_verdicts),
        residents=tuple(resident for one in made for resident in one.residents),
        folds=tuple(fold for one in made for fold in one.folds),
        refused_folds=tuple(refusal for one in made for refusal in one.refused_folds),
        notes=(how,),
    )
    verify_schedule(program, joined)
    return joined


class SegmentScheduler:
    """Schedules one segment, phase by phase."""

    def __init__(self, program: Program, segment: Segment, memory: OnChip, rules: Rules) -> None:
        self.memory, self.rules = memory, rules
        self.flow: Flow = flow_of(program, segment)
        sizes = [
            sum(on_chip_layout(result.type, memory.banks).size for result in layer.results) for layer in segment.layers
        ]
        self.chaining = Chaining(self.flow, memory, rules)
        listed = list_order(self.flow, sizes, memory.size, rules)
        self.discovery: Discovery = discover(self.flow, self.chaining, listed)
        self.order = self.discovery.order
        self.layers: list[Layer] = [self.flow.layers[number] for number in self.order]
        self.folds = folds_of(self.flow, memory.banks, rules)
        self.pair_verdicts: dict[int, CoissueVerdict] = {}
        self.place_layers(dict(self.discovery.pairs))
        survivors = {first: second for first, second in self.discovery.pairs.items() if first in self.coissued}
        if len(survivors) < len(self.discovery.pairs):
            # What memory refused may be chained after all.
            self.place_layers(survivors)

    def place_layers(self, pairs: dict[int, int]) -> None:
        """Place all layers, given the pairs that are to run together; find out which of them memory allows."""
        self.buffers = Buffers(self.flow, self.folds, self.rules, self.memory.banks, self.order)
        together = {number for pair in pairs.items() for number in pair}
        self.verdicts = [self.verdict(first, second, together) for first, second in pairwise(self.order)]
        self.chained = {
            place: self.chaining.chained_rows(self.order[place])
            for place, verdict in enumerate(self.verdicts)
            if verdict.failed is None
        }
        places = {self.buffers.places[first] for first in pairs}
        self.partitioner = Partitioner(self.layers, self.buffers, self.memory, self.rules, self.chained, places)
        self.partitioner.run()
        self.ends = {cut.end for cut in self.partitioner.cuts}
        self.coissued: set[int] = set()
        for first, second in pairs.items():
            reason = self.memory_disqualified(self.buffers.places[first])
            names = self.flow.layers[first].name, self.flow.layers[second].name
            self.pair_verdicts[first] = CoissueVerdict(*names, *(reason or (None, "")))
            if reason is None:
                self.coissued.add(first)

    def verdict(self, first: int, second: int, together: set[int]) -> ChainVerdict:
        """Return whether two layers that follow each other are chained."""
        found = self.chaining.verdict(first, second)
        paired = [number for number in (first, second) if number in together]
        if found.failed is not None or not paired:
            return found
        detail = f"%{self.flow.layers[paired[0]].name} runs with a layer of the other engine"
        return replace(found, failed=ChainCondition.NOT_COISSUED, detail=detail)

    def memory_disqualified(self, place: int) -> tuple[Disqualifier, str] | None:
        """Return why memory keeps the layer at a place from running at the same time as the next one."""
        if place + 1 in self.ends:
            return Disqualifier.PARTITION, "a partition ends between them"
        if place in self.partitioner.refused_pairs:
            return Disqualifier.WORKING_SET, f"together they need more than {self.memory.working_set} bytes"
        streams = [streaming_reason(layer, self.in_dram, self.memory.size) for layer in self.layers[place : place + 2]]
        return (Disqualifier.BOTH_STREAM, ", ".join(streams)) if all(streams) else None

    def in_dram(self, value: str) -> bool:
        """Return whether a tensor is in DRAM."""
        return self.partitioner.is_in_dram(self.buffers.of[value])

    def steps(self) -> list[list[str]]:
        """Return the layers by the step in which they run."""
        tiled = {place for place, rows in self.chained.items() if rows is not None} - self.partitioner.broken_chains
        together = tiled | {self.buffers.places[first] for first in self.coissued}
        steps: list[list[str]] = []
        for place, layer in enumerate(self.layers):
            if place - 1 in together and self.partitioner.joined[place]:
                steps[-1].append(layer.name)
            else:
                steps.append([layer.name])
        return steps

    def result(self, first_step: int, first_partition: int) -> Schedule:
        """Return the schedule of the segment; steps and partitions count on from those of the segments before."""
        broken = self.partitioner.broken_chains
        steps = self.steps()
        step_at = [number for number, step in enumerate(steps, first_step) for _ in step]
        cuts = self.partitioner.cuts
        names = [layer.name for layer in self.layers]
        partitions = tuple(
            Partition(
                number=first_partition + number,
                segment=self.flow.segment,
                layers=tuple(names[cut.begin : cut.end]),
                peak_bytes=cut.peak,
                closed_by="" if cut.closed_by is None else names[cut.closed_by],
                wanted_bytes=cut.wanted,
            )
            for number, cut in enumerate(cuts)
        )
        numbers = [partition.number for partition in partitions for _ in partition.layers]
        chained = [place for place in self.chained if place not in broken]
        verdicts = (*self.discovery.verdicts, *self.pair_verdicts.values())
        placed = {name: place for place, name in enumerate(names)}
        return Schedule(
            target=self.flow.program.target.name,
            working_set_limit=self.memory.working_set,
            steps=tuple(map(tuple, steps)),
            partitions=partitions,
            chained=tuple(Pair(names[place], names[place + 1]) for place in chained),
            coissued=tuple(
                Pair(names[place], names[place + 1])
                for place in sorted(self.buffers.places[first] for first in self.coissued)
            ),
            chain_verdicts=tuple(self.final_verdict(place, numbers) for place in range(len(self.verdicts))),
            coissue_verdicts=tuple(sorted(verdicts, key=lambda verdict: placed[verdict.first])),
            residents=tuple(
                resident(block, step_at, numbers[block.first])
                for block in sorted(self.partitioner.blocks, key=lambda block: (block.first, block.root, block.loaded))
            ),
            folds=tuple(self.buffers.inside.values()),
            refused_folds=self.folds.refused,
            notes=(self.chaining.how,),
        )

    def final_verdict(self, place: int, partitions: list[int]) -> ChainVerdict:
        """Return the verdict on a layer and the next one, now that partitions are known."""
        verdict = self.verdicts[place]
        if verdict.failed is not None or place not in self.partitioner.broken_chains:
            return verdict
        detail = "a partition ends between them"
        if partitions[place] == partitions[place + 1]:
            detail = "the tiles in flight do not fit on chip"
        return replace(verdict, failed=ChainCondition.PARTITION, detail=detail)


def resident(block: Block, step_at: list[int], partition: int) -> Resident:
    """Return a block with its places as steps."""
    return Resident(
        value=block.root,
        offset=block.offset,
        size=block.size,
        first=step_at[block.first],
        last=step_at[block.last],
        partition=partition,
        rows=block.rows,
        restrided=block.restrided,
        loaded=block.loaded,
        over=block.over,
    )

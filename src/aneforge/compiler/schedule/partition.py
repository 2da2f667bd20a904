"""Task partitions: the order is cut where the on-chip working set would exceed the scaled budget.

Layers are placed one after another, each result on chip from its writer to its last reader. When a layer's result would
push the bytes that are live at once past the budget, or no gap is left for it, the partition closes before that layer:
what is live across the cut goes to DRAM, and the next partition begins with an empty on-chip memory. Room is given out
as layers are placed, so what the test allows can be placed.

Layers that run in one step, a co-issued pair or a run chained tile by tile, hold everything until the step ends.
Operands in DRAM that several layers read are brought on chip while there is room, and give way to results.
"""

from __future__ import annotations

import heapq
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.compiler.memory.arena import Arena
from aneforge.compiler.memory.folding import lies_there
from aneforge.compiler.memory.layout import on_chip_layout
from aneforge.compiler.schedule.flow import rewritable
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.buffers import Buffer, Buffers
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["Block", "Cut", "Partitioner"]


@dataclass(slots=True)
class Block:
    """Room on chip that a buffer has from one place of the order to another."""

    root: str
    offset: int
    size: int
    first: int
    last: int
    rows: int | None = None
    """How many rows of a chained tensor are there at a time; None for all of it."""
    restrided: bool = False
    """Its rows are put into different banks."""
    loaded: bool = False
    """It is a copy of what is in DRAM."""
    over: str | None = None
    """The tensor that it rewrites in place."""
    served: list[int] = field(default_factory=list[int])
    """Places of the layers that read a loaded copy."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition: a part of the order, the most bytes that were live in it, and what closed it."""

    begin: int
    end: int
    peak: int
    closed_by: int | None
    """The place of the layer that did not fit; None where the segment ends."""
    wanted: int
    """Bytes that would have been live with that layer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Room that a layer's result needs."""

    buffer: Buffer
    size: int
    rows: int | None
    over: Block | None


@dataclass(eq=False)
class Partitioner:
    """Places the layers of one segment in their order."""

    layers: Sequence[Layer]
    """In their order."""
    buffers: Buffers
    memory: OnChip
    rules: Rules
    chained: Mapping[int, int | None]
    """Places of layers that are chained into the next one, and the rows that are on chip at a time, None for all."""
    pairs: set[int]
    """Places of layers that are to run at the same time as the next one."""

    def __post_init__(self) -> None:
        self.arena = Arena(self.memory.windows)
        self.live = 0
        self.peak = 0
        self.begin = 0
        self.step_begin = 0
        self.on_chip: dict[str, Block] = {}
        self.loads: dict[str, Block] = {}
        self.by_last_read: list[tuple[int, str]] = []
        self.ending: list[Block] = []
        self.blocks: list[Block] = []
        self.cuts: list[Cut] = []
        self.spilled: set[str] = set()
        self.joined = [False] * len(self.layers)
        self.refused_pairs: set[int] = set()
        self.broken_chains: set[int] = set()

    def run(self) -> None:
        """Place all layers."""
        for place in range(len(self.layers)):
            self.place(place)
        self.close(len(self.layers), None, 0)

    # One layer.

    def place(self, place: int) -> None:
        """Place one layer: in the step that runs, in the next one, or in the next partition."""
        joins = place > self.begin and self.joins_previous(place)
        if not joins:
            self.end_step(place)
        if self.try_to_place(place):
            self.joined[place] = joins
            return
        if joins and place - 1 in self.pairs:
            self.refused_pairs.add(place - 1)
            self.end_step(place)
            if self.try_to_place(place):
                return
        wanted = self.live + sum(one.size for one in self.room_wanted(place) if one.over is None)
        self.close(place, place, wanted)
        while not self.try_to_place(place):
            self.stream_largest(place)

    def joins_previous(self, place: int) -> bool:
        """Return whether a layer runs in one step with the one before it."""
        tiled = self.chained.get(place - 1) is not None and place - 1 not in self.broken_chains
        return tiled or place - 1 in self.pairs

    def try_to_place(self, place: int) -> bool:
        """Give the results of a layer room; return whether there was any."""
        wanted = self.room_wanted(place)
        rewritten = {one.over.root for one in wanted if one.over is not None}
        need = sum(one.size for one in wanted if one.over is None)
        while self.live + need > self.memory.working_set and self.drop_a_load(rewritten):
            pass
        if self.live + need > self.memory.working_set:
            return False
        offsets = self.offsets(wanted, rewritten)
        if offsets is None:
            return False
        for one, offset in zip(wanted, offsets, strict=True):
            self.take(one, offset, place)
        self.peak = max(self.peak, self.live)
        self.serve_loads(place, rewritten)
        self.note_endings(place)
        return True

    def room_wanted(self, place: int) -> list[Wanted]:
        """Return the room that the results of a layer need; what no room on chip can hold goes to DRAM."""
        found: list[Wanted] = []
        for result in self.layers[place].results:
            buffer = self.buffers.of[result.name]
            while buffer.first == place and not self.is_in_dram(buffer):
                rows = self.chained.get(place) if place not in self.broken_chains else None
                if rows is None and buffer.layout.size > self.memory.working_set:
                    self.spill(buffer, place)
                    buffer = self.buffers.of[result.name]
                    continue
                size = buffer.layout.size
                if rows is not None:
                    size = on_chip_layout(result.type, self.memory.banks, restrided=buffer.restrided, rows=rows).size
                found.append(Wanted(buffer, size, rows, self.rewritten(place, buffer) if rows is None else None))
                break
        return found

    def offsets(self, wanted: Sequence[Wanted], rewritten: set[str]) -> list[int] | None:
        """Return where each result goes; None, and nothing taken, where there is no gap for one."""
        found: list[int] = []
        for one in wanted:
            offset = one.over.offset if one.over is not None else self.arena.take(one.size)
            while offset is None and self.drop_a_load(rewritten):
                offset = self.arena.take(one.size)
            if offset is None:
                for before, taken in zip(wanted, found, strict=False):
                    if before.over is None:
                        self.arena.give_back(taken, before.size)
                return None
            found.append(offset)
        return found

    def take(self, wanted: Wanted, offset: int, place: int) -> None:
        """Note that a result has room."""
        root = wanted.buffer.root.name
        made = Block(root, offset, wanted.size, place, wanted.buffer.last, wanted.rows, wanted.buffer.restrided)
        if wanted.over is None:
            self.live += wanted.size
        else:
            made.over = wanted.over.root
            self.end_rewritten(wanted.over, place)
        self.on_chip[root] = made

    def note_endings(self, place: int) -> None:
        """Note the buffers that nobody needs after this layer."""
        layer = self.layers[place]
        names = {self.buffers.of[value.name].root.name for value in (*layer.bottoms, *layer.results)}
        for name in sorted(names):
            block = self.on_chip.get(name)
            if block is not None and block.last == place:
                self.ending.append(self.on_chip.pop(name))
            load = self.loads.get(name)
            if load is not None and load.last == place:
                self.ending.append(self.loads.pop(name))

    # In place.

    def rewritten(self, place: int, result: Buffer) -> Block | None:
        """Return the block of an operand that a layer's result can take over; None where there is none."""
        if len(result.members) > 1 or place in self.chained:
            return None
        for name in rewritable(self.layers[place], self.rules):
            buffer = self.buffers.of[name]
            block = self.on_chip.get(buffer.root.name) or self.loads.get(buffer.root.name)
            alike = buffer.restrided == result.restrided and buffer.layout.size == result.layout.size
            if block is not None and alike and block.last == place and block.rows is None and self.alone(buffer, place):
                return block
        return None

    def alone(self, buffer: Buffer, place: int) -> bool:
        """Return whether no other layer of the step that runs touches a buffer, and its writer is not chained here."""
        if place - 1 in self.chained and place - 1 in buffer.writes:
            return False
        written = any(self.step_begin <= other < place for other in buffer.writes)
        return not written and not buffer.reads_within(self.step_begin, place)

    def end_rewritten(self, block: Block, place: int) -> None:
        """Note that a block now holds another tensor."""
        self.on_chip.pop(block.root, None)
        if self.loads.pop(block.root, None) is not None:
            block.served.append(place)
        block.last = place
        self.blocks.append(block)

    # Operands that are brought on chip.

    def serve_loads(self, place: int, rewritten: set[str]) -> None:
        """Read a layer's operands from their copies on chip, and bring those that pay."""
        layer = self.layers[place]
        names = (
            self.buffers.of[value.name].root.name
            for value in layer.bottoms
            if not lies_there(self.buffers.inside, layer, value.name)
        )
        for name in dict.fromkeys(names):
            buffer = self.buffers.of[name]
            if name in rewritten or not self.is_in_dram(buffer):
                continue
            if name not in self.loads:
                self.load(buffer, place)
            if name in self.loads:
                self.loads[name].served.append(place)

    def load(self, buffer: Buffer, place: int) -> None:
        """Bring an operand on chip if all of it is written, enough layers read it and there is room."""
        size, last = buffer.layout.size, buffer.reads[-1]
        if buffer.complete >= self.step_begin:
            return
        if buffer.reads_within(place, last + 1) < self.rules.readers_for_loading:
            return
        offset = self.arena.take(size) if self.live + size <= self.memory.working_set else None
        if offset is None:
            return
        name = buffer.root.name
        self.loads[name] = Block(name, offset, size, place, last, restrided=buffer.restrided, loaded=True)
        heapq.heappush(self.by_last_read, (-last, name))
        self.live += size
        self.peak = max(self.peak, self.live)

    def drop_a_load(self, kept: set[str]) -> bool:
        """Take back the room of the copy that is needed longest; return whether the step could spare one."""
        aside: list[tuple[int, str]] = []
        dropped: Block | None = None
        while self.by_last_read and dropped is None:
            entry = heapq.heappop(self.by_last_read)
            block = self.loads.get(entry[1])
            if block is None or -entry[0] != block.last:
                continue
            if entry[1] in kept or (block.served and block.served[-1] >= self.step_begin):
                aside.append(entry)
                continue
            dropped = self.loads.pop(entry[1])
        for entry in aside:
            heapq.heappush(self.by_last_read, entry)
        if dropped is None:
            return False
        self.give_back(dropped)
        return True

    def give_back(self, block: Block) -> None:
        """Take back the room of a block, and keep the block if it served anybody."""
        self.arena.give_back(block.offset, block.size)
        self.live -= block.size
        if block.loaded:
            if len(block.served) < self.rules.readers_for_loading:
                return
            block.first, block.last = block.served[0], block.served[-1]
        self.blocks.append(block)

    # Steps and partitions.

    def end_step(self, place: int) -> None:
        """Take back the room of everything that nobody needs any more."""
        for block in self.ending:
            self.give_back(block)
        self.ending = []
        self.step_begin = place

    def close(self, place: int, closed_by: int | None, wanted: int) -> None:
        """Close the partition before a place: what is live across it goes to DRAM."""
        self.end_step(place)
        for block in self.on_chip.values():
            self.spill(self.buffers.of[block.root], place)
        for block in list(self.loads.values()):
            self.give_back(block)
        if place > self.begin:
            self.cuts.append(Cut(self.begin, place, self.peak, closed_by, wanted))
        self.arena = Arena(self.memory.windows)
        self.on_chip, self.loads, self.by_last_read = {}, {}, []
        self.live, self.peak, self.begin = 0, 0, place

    def is_in_dram(self, buffer: Buffer) -> bool:
        """Return whether a buffer is in DRAM, from the beginning or by now."""
        return buffer.in_dram or buffer.root.name in self.spilled

    def spill(self, buffer: Buffer, place: int) -> None:
        """Put a buffer into DRAM; of what is in other places there, what was written before this place goes too."""
        self.broken_chains.update(written for written in buffer.writes if written in self.chained)
        self.buffers.split(buffer)
        self.spilled.add(buffer.root.name)
        for name in buffer.members:
            part = self.buffers.of[name]
            if part.first < place:
                self.spilled.add(part.root.name)

    def stream_largest(self, place: int) -> None:
        """Put the largest result of a layer into DRAM, where not all fit on chip together."""
        largest = max(self.room_wanted(place), key=lambda one: (one.size, one.buffer.root.name))
        self.spill(largest.buffer, place)

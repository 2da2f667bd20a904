"""Makes the memory plan of a scheduled program and verifies it.

The schedule has decided what stays on chip and where. The plan gives everything a state, puts the rest into DRAM, adds
the windows through which that streams, and packs the weights.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.memory.folding import FoldKind, copies_nothing, lies_there
from aneforge.compiler.memory.homes import Lives, homes_of
from aneforge.compiler.memory.layout import (
    DRAM_ALIGNMENT,
    bank_requests,
    dram_layout,
    extents_of,
    neighbouring_rows,
    on_chip_layout,
    round_up,
)
from aneforge.compiler.memory.plan import CHIP, Allocation, AllocationState, Memory, MemoryPlan, Moment, Space
from aneforge.compiler.memory.scratch import Tenant, scratch_of
from aneforge.compiler.memory.streaming_windows import windows_of_step
from aneforge.compiler.memory.task_places import places_of
from aneforge.compiler.memory.verifier import verify_plan
from aneforge.compiler.memory.weights import pack_layer
from aneforge.compiler.schedule.flow import rewritable, ring_values
from aneforge.compiler.schedule.rules import rules as standard_rules
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program, Segment
    from aneforge.compiler.memory.folding import Fold
    from aneforge.compiler.memory.layout import Layout
    from aneforge.compiler.memory.plan import Window
    from aneforge.compiler.memory.scratch import Scratch
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.compiler.schedule.schedule import Resident, Schedule

__all__ = ["plan"]


def plan(program: Program, schedule: Schedule, rules: Rules | None = None) -> MemoryPlan:
    """Return the memory plan of a program in a schedule; `rules` stand for those of the data file.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import build_program
    >>> from aneforge.targets import Family
    >>> from aneforge.compiler.schedule.schedule import schedule
    >>> program = build_program(af.input((1, 4, 8, 8)).relu(), Family.A14)
    >>> made = plan(program, schedule(program))
    >>> [(one.value, one.state.value, one.home) for one in made.allocations]
    [('t0', 1, 'input x0'), ('t1', 1, 'output y')]

    Raises:
        GraphError: The schedule was made under other rules; or the plan breaks a rule that every plan keeps, a fault of
            the compiler's.
        NotSupportedError: No device address reaches all that the program needs.
    """
    planner = Planner(program, schedule, rules or standard_rules())
    if planner.memory.working_set != schedule.working_set_limit:
        raise GraphError(
            "the schedule was made under other rules",
            seen=f"a working set of {schedule.working_set_limit} bytes",
            limit=f"{planner.memory.working_set} bytes",
            remedy="give the plan the rules of the schedule",
        )
    made = planner.result()
    verify_plan(program, schedule, made)
    return made


class Planner:
    """Holds what is known of the tensors of a program while its plan is made."""

    def __init__(self, program: Program, schedule: Schedule, rules: Rules) -> None:
        self.program, self.schedule, self.rules = program, schedule, rules
        self.memory = on_chip(program.target, rules)
        self.folds: Mapping[str, Fold] = {fold.value: fold for fold in schedule.folds}
        self.values: dict[str, Value] = {
            value.name: value
            for value in (
                *(port.value for port in program.inputs),
                *(state.read for state in program.states),
                *(result for layer in program.layers for result in layer.results),
            )
        }
        self.roots: dict[str, str] = {}
        for fold in schedule.folds:  # one that others are in comes before them, or is a root
            self.roots[fold.value] = self.roots.get(fold.inside, fold.inside)
        self.lives = Lives(program, schedule, self.roots)
        self.residents = {one.value: one for one in schedule.residents if not one.loaded}
        self.loads: dict[str, list[Resident]] = defaultdict(list)
        for one in schedule.residents:
            if one.loaded:
                self.loads[one.value].append(one)
        self.dependent: dict[str, bool] = {}
        self.rings = ring_values(program.layers, rules)
        self.chained = {pair.first for pair in schedule.chained}
        self.homes = homes_of(program, self.lives, rules)
        self.layers = {layer.name: layer for layer in program.layers}
        self.idle = {layer.name for layer in program.layers if copies_nothing(self.folds, layer, rules)}

    def root(self, name: str) -> str:
        """Return the tensor in which one is in the end; itself, if in none."""
        return self.roots.get(name, name)

    def result(self) -> MemoryPlan:
        """Return the plan."""
        scratches = {segment.number: self.scratch(segment) for segment in self.program.segments}
        allocations = [*self.allocations(scratches), *self.copies()]
        windows = [window for step in range(len(self.schedule.steps)) for window in self.windows(step)]
        timeline = self.timeline(windows)
        packed = (pack_layer(layer, self.program.target, self.rules) for layer in self.program.layers)
        return MemoryPlan(
            target=self.program.target.name,
            on_chip_bytes=self.memory.size,
            allocations=tuple(allocations),
            windows=tuple(windows),
            weights=tuple(one for one in packed if one is not None),
            spaces=tuple(self.spaces(allocations)),
            timeline=timeline,
            peak=max((moment.total for moment in timeline), default=0),
            idle=tuple(name for name in self.schedule.order if name in self.idle),
            folds=self.schedule.folds,
            refused_folds=self.schedule.refused_folds,
            notes=(*self.schedule.notes, *self.homes.notes),
            places={
                layer.name: found
                for layer in self.program.layers
                if (found := places_of(layer, self.memory)) is not None
            },
        )

    # Tensors.

    def allocations(self, scratches: Mapping[int, Scratch]) -> Iterator[Allocation]:
        """Iterate over the allocations of all tensors, in the order of the program."""
        for value in self.values.values():
            root = self.root(value.name)
            if root in self.residents:
                yield self.on_chip_allocation(value, self.residents[root])
            else:
                yield self.dram_allocation(value, root, scratches)

    def on_chip_allocation(self, value: Value, resident: Resident) -> Allocation:
        """Return the allocation of a tensor on chip."""
        root = self.values[resident.value]
        banks = self.memory.banks
        whole = on_chip_layout(root.type, banks, restrided=resident.restrided, rows=resident.rows)
        layout, offset = self.place_inside(value, root, whole, on_chip=True)
        alone = value.name == root.name
        rows = neighbouring_rows(layout.extents)
        tight = on_chip_layout(root.type, banks, rows=resident.rows).strides.row
        return Allocation(
            value=value.name,
            state=self.on_chip_state(value, resident),
            memory=Memory.L2,
            home=CHIP,
            offset=resident.offset + offset,
            size=resident.size if alone else layout.size,
            strides=layout.strides,
            first=resident.first if alone else self.step_of_writer(value.name),
            last=resident.last if alone else self.last_read(value.name),
            root=root.name,
            rows=resident.rows,
            over=resident.over if alone else None,
            bank_requests=(bank_requests(rows, tight, banks), bank_requests(rows, layout.strides.row, banks)),
        )

    def place_inside(self, value: Value, root: Value, whole: Layout, *, on_chip: bool) -> tuple[Layout, int]:
        """Return the layout of a tensor inside another, and where it begins there."""
        if value.name == root.name:
            return whole, 0
        fold = self.folds[value.name]
        if fold.kind is FoldKind.VIEW:
            return (on_chip_layout(value.type, self.memory.banks) if on_chip else dram_layout(value.type)), 0
        offset = sum(place * whole.stride_of(axis) for axis, place in fold.begin)
        return whole.inside(extents_of(value.shape)), offset

    def on_chip_state(self, value: Value, resident: Resident) -> AllocationState:
        """Return the state of a tensor on chip."""
        if value.name in self.chained and resident.value == value.name:
            return AllocationState.CHAINED
        dependent = self.depends_on_chip(resident.value)
        if self.rings & {value.name, resident.value}:
            return AllocationState.RING_DEPENDENT if dependent else AllocationState.RING
        if resident.over is not None:
            return AllocationState.IN_PLACE_DEPENDENT if dependent else AllocationState.IN_PLACE
        return AllocationState.DEPENDENT if dependent else AllocationState.RESIDENT

    def depends_on_chip(self, root: str) -> bool:
        """Return whether a layer that writes into a buffer reads something that another layer wrote on chip."""
        if root not in self.dependent:
            self.dependent[root] = self.reads_from_chip(root)
        return self.dependent[root]

    def reads_from_chip(self, root: str) -> bool:
        """Look at all layers that write into a buffer."""
        writers = (self.program.producers[name] for name in self.lives.together(root) if name in self.program.producers)
        return any(
            self.root(read.name) in self.residents and self.root(read.name) != root
            for writer in writers
            for read in writer.bottoms
        )

    def dram_allocation(self, value: Value, root: str, scratches: Mapping[int, Scratch]) -> Allocation:
        """Return the allocation of a tensor in DRAM."""
        layout, offset = self.place_inside(value, self.values[root], dram_layout(self.values[root].type), on_chip=False)
        over = self.homes.rewritten.get(value.name)
        home = self.homes.of.get(root)
        if home is None:
            segment = self.program.producers[root].segment
            home = f"scratch {segment}"
            offset += scratches[segment].offsets[root]
            over = scratches[segment].rewritten.get(value.name)
        alone = value.name == root
        return Allocation(
            value=value.name,
            state=AllocationState.STREAMED if over is None else AllocationState.IN_PLACE_DRAM,
            memory=Memory.DRAM,
            home=home,
            offset=offset,
            size=layout.size,
            strides=layout.strides,
            first=self.lives.first_write(root) if alone else self.step_of_writer(value.name),
            last=self.last_use(root) if alone else self.last_read(value.name),
            root=root,
            over=over,
        )

    def copies(self) -> Iterator[Allocation]:
        """Iterate over the copies on chip of tensors in DRAM."""
        for one in self.schedule.residents:
            if not one.loaded:
                continue
            layout = on_chip_layout(self.values[one.value].type, self.memory.banks, restrided=one.restrided)
            yield Allocation(
                value=one.value,
                state=AllocationState.RESIDENT,
                memory=Memory.L2,
                home=CHIP,
                offset=one.offset,
                size=one.size,
                strides=layout.strides,
                first=one.first,
                last=one.last,
                root=one.value,
                loaded=True,
            )

    # Steps.

    def step_of_writer(self, name: str) -> int:
        """Return the step in which a tensor is written; that of an input is the first."""
        writer = self.program.producers.get(name)
        return 0 if writer is None else self.schedule.step_of[writer.name]

    def last_read(self, name: str) -> int:
        """Return the last step in which a tensor is read, or written if nobody reads it."""
        readers = self.program.consumers.get(name, ())
        return max((self.step_of_writer(name), *(self.schedule.step_of[reader.name] for reader in readers)))

    def last_use(self, root: str) -> int:
        """Return the last step in which a tensor in DRAM, or one that is in it, is needed."""
        if root in self.program.kept:
            return max(len(self.schedule.steps) - 1, 0)
        return self.lives.last_touch(root)

    # DRAM.

    def scratch(self, segment: Segment) -> Scratch:
        """Return the scratch of a segment."""
        results = [result.name for layer in segment.layers for result in layer.results]
        roots = [
            name
            for name in results
            if self.root(name) == name and name not in self.residents and name not in self.homes.of
        ]
        return scratch_of(
            Tenant(self.values[root], self.lives.first_write(root), self.last_use(root), self.may_go_over(root))
            for root in roots
        )

    def may_go_over(self, root: str) -> str | None:
        """Return a tensor in scratch that one may rewrite: its writer is its only reader and its last."""
        writer = self.program.producers[root]
        step = self.schedule.step_of[writer.name]
        if len(self.lives.together(root)) > 1:
            return None
        for name in rewritable(writer, self.rules):
            old = self.root(name)
            if old in self.residents or old in self.homes.of or self.last_use(old) != step:
                continue
            touching = {layer.name for layer in self.lives.readers(old) if self.schedule.step_of[layer.name] == step}
            if touching == {writer.name} and self.lives.first_write(old) < step:
                return old
        return None

    def spaces(self, allocations: list[Allocation]) -> Iterator[Space]:
        """Iterate over the spaces in DRAM with their sizes."""
        sizes: dict[str, int] = {}
        for one in allocations:
            if one.memory is Memory.DRAM:
                sizes[one.home] = max(sizes.get(one.home, 0), one.offset + one.size)
        return (Space(home, round_up(size, DRAM_ALIGNMENT)) for home, size in sizes.items())

    # Streams and time.

    def windows(self, step: int) -> list[Window]:
        """Return the windows of one step."""
        layers = [self.layers[name] for name in self.schedule.steps[step] if name not in self.idle]

        def streams_at(layer: Layer, name: str) -> bool:
            root = self.root(name)
            if root in self.residents or (name != layer.name and lies_there(self.folds, layer, name)):
                return False
            written = any(result.name == name for result in layer.results)
            return written or not any(load.first <= step <= load.last for load in self.loads.get(root, ()))

        return windows_of_step(step, layers, streams_at, self.memory, self.rules)

    def timeline(self, windows: list[Window]) -> tuple[Moment, ...]:
        """Return what is on chip in every step; a buffer that rewrites another counts from the next step on."""
        changes = [0] * (len(self.schedule.steps) + 1)
        for one in self.schedule.residents:
            changes[one.first + (one.over is not None)] += one.size
            changes[one.last + 1] -= one.size
        streamed = [0] * len(self.schedule.steps)
        for window in windows:
            streamed[window.step] += window.size
        return tuple(
            Moment(step, buffers, streams)
            for step, (buffers, streams) in enumerate(zip(accumulate(changes), streamed, strict=False))
        )

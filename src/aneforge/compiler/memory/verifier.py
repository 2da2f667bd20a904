"""What must be true of every memory plan, checked after every one that is made.

No two live buffers overlap, nothing reaches past its memory, every read comes after its write and while the tensor is
there, and every address keeps its alignment.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.fold_checks import check_folds
from aneforge.compiler.memory.folding import lies_there
from aneforge.compiler.memory.layout import DRAM_ALIGNMENT, extents_of, row_bytes
from aneforge.compiler.memory.overlap import check_overlaps
from aneforge.compiler.memory.plan import CHIP, RESULT, AllocationState, Memory
from aneforge.compiler.schedule.verifier import verify_schedule
from aneforge.errors import GraphError
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.memory.folding import Fold
    from aneforge.compiler.memory.plan import Allocation, MemoryPlan
    from aneforge.compiler.schedule.schedule import Schedule

__all__ = ["verify_plan"]


def verify_plan(program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that a plan is one of a program in a schedule.

    Raises:
        GraphError: It breaks a rule; the message says which tensor and which rule.
    """
    verify_schedule(program, schedule)
    values = {value.name: value for value in values_of(program)}
    check_complete(plan, values)
    limits = {CHIP: plan.on_chip_bytes, **{space.home: space.size for space in plan.spaces}}
    bank = program.target.geometry.integer("l2_bank_width")
    for one in plan.allocations:
        check_one(one, values[one.value], limits.get(one.home, 0), bank if one.memory is Memory.L2 else DRAM_ALIGNMENT)
    check_states(schedule, plan)
    check_lives(program, schedule, plan)
    check_rewriting(program, schedule, plan)
    check_folds(program, plan)
    check_windows(program, schedule, plan)
    check_coissue(program, schedule, plan)
    check_overlaps(plan.allocations, plan.windows, CHIP)
    check_timeline(plan)


def values_of(program: Program) -> Iterator[Value]:
    """Iterate over all tensors of a program."""
    yield from (port.value for port in program.inputs)
    yield from (state.read for state in program.states)
    for layer in program.layers:
        yield from layer.results


def check_complete(plan: MemoryPlan, values: dict[str, Value]) -> None:
    """Check that every tensor has one allocation, and copies on chip are of tensors in DRAM."""
    own = [one.value for one in plan.allocations if not one.loaded]
    if len(own) != len(values) or set(own) != set(values):
        odd = sorted(set(own) ^ set(values)) or ["a tensor with two"]
        raise GraphError("not every tensor has one allocation", seen=odd[0])
    for one in plan.allocations:
        if one.loaded and (one.memory is not Memory.L2 or plan.by_value[one.value].memory is not Memory.DRAM):
            raise GraphError(f"%{one.value} is a copy on chip of something that is not in DRAM")


def check_one(one: Allocation, value: Value, limit: int, granule: int) -> None:
    """Check bounds, alignment and size of one allocation."""
    strides = one.strides
    for what, number in (("offset", one.offset), ("row stride", strides.row), ("channel stride", strides.channel)):
        if number % granule or number < 0:
            raise GraphError(f"the {what} of %{one.value} is not aligned", seen=number, limit=f"multiples of {granule}")
    if one.offset + one.size > limit:
        raise GraphError(f"%{one.value} reaches past the end of {one.home}", seen=one.offset + one.size, limit=limit)
    extents = extents_of(value.shape)
    rows = extents.rows if one.rows is None else min(one.rows, extents.rows)
    batch, depth = (1, 1) if one.rows is not None else (extents.batch, extents.depth)
    steps = ((batch, strides.batch), (depth, strides.depth), (extents.channels, strides.channel), (rows, strides.row))
    needed = row_bytes(extents.width, bits(value.type.dtype))
    if strides.row < needed and max(count for count, _ in steps) > 1:
        raise GraphError(f"the rows of %{one.value} overlap", seen=strides.row, limit=needed)
    needed += sum((count - 1) * stride for count, stride in steps if count > 1)
    if one.size < needed:
        raise GraphError(f"%{one.value} does not have enough room", seen=one.size, limit=needed)


def check_states(schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that states fit the memories, the chained pairs and what is rewritten."""
    chained = {pair.first for pair in schedule.chained}
    in_place = (AllocationState.IN_PLACE, AllocationState.IN_PLACE_DEPENDENT, AllocationState.IN_PLACE_DRAM)
    rings = (AllocationState.RING, AllocationState.RING_DEPENDENT)
    for one in plan.allocations:
        if one.state.in_dram is not (one.memory is Memory.DRAM):
            raise GraphError(f"%{one.value} is in {one.memory} and in a state of the other memory", seen=int(one.state))
        if (one.state is AllocationState.CHAINED) is not (one.value in chained and not one.loaded):
            raise GraphError(f"%{one.value} is chained or in the chained state, and not both", seen=int(one.state))
        if one.over is not None and one.state not in (*in_place, *rings):
            raise GraphError(f"%{one.value} rewrites %{one.over} and is in a state of its own", seen=int(one.state))
        if one.over is None and one.state in in_place and one.root == one.value:
            raise GraphError(f"%{one.value} is in a state of rewriting and rewrites nothing", seen=int(one.state))


def check_lives(program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that tensors are there when they are written and read, and on chip within one partition."""
    idle = set(plan.idle)
    partition_at = {schedule.step_of[name]: number for name, number in schedule.partition_of.items()}
    for one in plan.allocations:
        if one.memory is Memory.L2 and partition_at[one.first] != partition_at[one.last]:
            raise GraphError(f"%{one.value} stays on chip across the end of a partition")
    for layer in program.layers:
        step = schedule.step_of[layer.name]
        for result in layer.results:
            one = plan.by_value[result.name]
            copies = () if layer.name in idle else plan.copies.get(one.root, ())
            if any(copy.first <= step for copy in copies):
                raise GraphError(f"%{one.root} is copied on chip before %{result.name} is written into it", seen=step)
            if not one.first <= step <= one.last:
                raise GraphError(f"%{result.name} is written before it has room, or after that", seen=step)
        for value in layer.bottoms:
            one = plan.by_value[value.name]
            if not one.first <= step <= one.last:
                raise GraphError(
                    f"%{layer.name} reads %{value.name} while that is not there",
                    seen=f"step {step}",
                    limit=f"steps {one.first} to {one.last}",
                )


def check_rewriting(program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that what is rewritten in place is needed by nobody else from then on."""
    readers: dict[str, list[tuple[int, int, str]]] = {}
    for place, layer in enumerate(program.layers):
        for value in layer.bottoms:
            step = schedule.step_of[layer.name]
            readers.setdefault(plan.by_value[value.name].root, []).append((step, place, layer.name))
    for known in readers.values():
        known.sort()
    copies = {(one.value, one.offset): one for one in plan.allocations if one.loaded}
    for one in plan.by_value.values():
        if one.over is None:
            continue
        old = plan.by_value[one.over]
        if one.memory is Memory.L2:
            old = copies.get((one.over, one.offset), old)
        if (one.home, one.offset, one.size) != (old.home, old.offset, old.size):
            raise GraphError(f"%{one.value} rewrites %{one.over} and is not where that is")
        known = readers.get(one.over, [])
        since = bisect_left(known, one.first, key=lambda read: read[0])
        late = [(place, name) for _, place, name in known[since:] if name != one.value]
        if late and not old.loaded:
            raise GraphError(f"%{one.value} rewrites %{one.over}, and %{min(late)[1]} still reads that")
        if old.loaded and old.last > one.first:
            raise GraphError(f"%{one.value} rewrites a copy of %{one.over} that is still needed")


def check_windows(program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that windows are on chip, in the step of their layer, and that everything that streams has one."""
    for window in plan.windows:
        if window.offset < 0 or window.size <= 0 or window.offset + window.size > plan.on_chip_bytes:
            raise GraphError(f"a window of %{window.layer} is not on chip", seen=window.offset + window.size)
        if schedule.step_of.get(window.layer) != window.step:
            raise GraphError(f"a window of %{window.layer} is in another step", seen=window.step)
    seen = {(window.layer, window.operand) for window in plan.windows}
    folds = {fold.value: fold for fold in plan.folds}
    idle = set(plan.idle)
    for layer in program.layers:
        if layer.name in idle:
            continue
        for operand, name in streaming(layer, schedule.step_of[layer.name], plan, folds):
            if (layer.name, operand) not in seen:
                raise GraphError(f"%{name} streams while %{layer.name} runs, without a window on chip")


def streaming(layer: Layer, step: int, plan: MemoryPlan, folds: Mapping[str, Fold]) -> Iterator[tuple[str, str]]:
    """Iterate over what a layer reads from DRAM and writes there, with the names of operands."""
    for operand, ref in layer.refs():
        if not isinstance(ref, Value) or lies_there(folds, layer, ref.name):
            continue
        one = plan.by_value[ref.name]
        if one.memory is not Memory.DRAM:
            continue
        if not any(copy.first <= step <= copy.last for copy in plan.copies.get(one.root, ())):
            yield operand, ref.name
    for result in layer.results:
        if plan.by_value[result.name].memory is Memory.DRAM:
            yield RESULT, result.name


def check_coissue(program: Program, schedule: Schedule, plan: MemoryPlan) -> None:
    """Check that of two layers that run at the same time not both write to DRAM."""
    layers = {layer.name: layer for layer in program.layers}
    for pair in schedule.coissued:
        results = [layers[name].results for name in (pair.first, pair.second)]
        if all(any(plan.by_value[one.name].memory is Memory.DRAM for one in both) for both in results):
            raise GraphError(f"%{pair.first} and %{pair.second} run together and both write to DRAM")


def check_timeline(plan: MemoryPlan) -> None:
    """Check that the timeline is what buffers and windows add up to, and that its peak is the plan's."""
    buffers, windows = [0] * (len(plan.timeline) + 1), [0] * len(plan.timeline)
    for one in plan.allocations:
        if one.memory is Memory.L2 and one.root == one.value:
            buffers[one.first + (one.over is not None)] += one.size
            buffers[one.last + 1] -= one.size
    for window in plan.windows:
        windows[window.step] += window.size
    for moment, held, streamed in zip(plan.timeline, accumulate(buffers), windows, strict=False):
        if (moment.buffers, moment.windows) != (held, streamed):
            raise GraphError(f"the timeline is wrong at step {moment.step}", seen=moment.buffers, limit=held)
    if plan.peak != max((moment.total for moment in plan.timeline), default=0):
        raise GraphError("the peak is not that of the timeline", seen=plan.peak)

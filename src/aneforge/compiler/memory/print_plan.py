"""A memory plan as text for people and as JSON for programs; the JSON reads back exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aneforge.compiler.memory.plan import Memory, MemoryPlan
from aneforge.errors import GraphError
from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.compiler.memory.plan import Allocation

__all__ = ["plan_from_json", "plan_json", "plan_text"]


def plan_text(plan: MemoryPlan) -> str:
    """Return a plan as text: tensors with state, room and steps; streams; weights; what was folded; the timeline."""
    return "\n".join(lines(plan)) + "\n"


def lines(plan: MemoryPlan) -> Iterator[str]:
    """Iterate over the lines of a plan."""
    yield f"memory plan for {plan.target}: peak {plan.peak} of {plan.on_chip_bytes} bytes on chip"
    for one in plan.allocations:
        yield f"  {allocation_line(one)}"
    for window in plan.windows:
        rows = f"{window.rows} rows" if window.rows else "a part of a row"
        where = f"L2 {window.offset:#08x} + {window.size}"
        yield f"  step {window.step} %{window.layer} {window.operand} {window.value} streams through {where}, {rows}"
    for packed in plan.weights:
        lanes = f" in lanes of {', '.join(map(str, packed.lanes))}" if packed.lanes else ""
        cores = f"{max(packed.core_bytes)} bytes for each of {len(packed.core_bytes)} cores"
        limit = "" if packed.fits_kernel_memory else ", more than the kernel memory of a core"
        stays = "resident" if packed.resident else "streamed"
        yield f"  weights %{packed.layer}.{packed.operand}: {cores}{lanes}, {stays}{limit} ({packed.basis})"
    for space in plan.spaces:
        yield f"  DRAM {space.home}: {space.size} bytes"
    for fold in plan.folds:
        yield f"  %{fold.value} is inside %{fold.inside} ({fold.kind} of %{fold.layer})"
    for refusal in plan.refused_folds:
        yield f"  %{refusal.value} is copied by %{refusal.layer} ({refusal.kind}): {refusal.reason}"
    for moment in plan.timeline:
        yield f"  step {moment.step}: {moment.buffers} bytes of buffers, {moment.windows} of windows"
    yield from (f"  note: {note}" for note in plan.notes)


def allocation_line(one: Allocation) -> str:
    """Return the line of one allocation."""
    copy = "copy of " if one.loaded else ""
    where = f"L2 {one.offset:#08x}" if one.memory is Memory.L2 else f"DRAM {one.home} {one.offset:#x}"
    strides = f"strides {one.strides.batch} {one.strides.depth} {one.strides.channel} {one.strides.row}"
    words = [
        f"{copy}%{one.value} state {one.state.value}",
        f"{where} + {one.size}",
        strides,
        f"steps {one.first} to {one.last}",
    ]
    if one.root != one.value:
        words.append(f"inside %{one.root}")
    if one.rows is not None:
        words.append(f"{one.rows} rows at a time")
    if one.over is not None:
        words.append(f"over %{one.over}")
    if one.bank_requests is not None and one.bank_requests[0] != one.bank_requests[1]:
        words.append(f"re-strided: {one.bank_requests[1]} for {one.bank_requests[0]} bank requests")
    return ", ".join(words)


def plan_json(plan: MemoryPlan) -> str:
    """Return a plan as JSON."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode()


def plan_from_json(text: str) -> MemoryPlan:
    """Read a plan back from its JSON.

    Raises:
        GraphError: The text is not a plan.
    """
    try:
        return decode_typed(text, MemoryPlan)
    except msgspec.DecodeError as error:
        raise GraphError(f"this is not a memory plan: {error}") from None

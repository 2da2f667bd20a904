"""A schedule as text for people and as JSON for programs; the JSON reads back exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aneforge.compiler.schedule.schedule import Schedule
from aneforge.display import number_of
from aneforge.errors import GraphError
from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.compiler.schedule.schedule import Partition

__all__ = ["schedule_from_json", "schedule_json", "schedule_text"]


def schedule_text(schedule: Schedule) -> str:
    """Return a schedule as text: partitions, their steps, and what is chained or runs together."""
    return "\n".join(lines(schedule)) + "\n"


def lines(schedule: Schedule) -> Iterator[str]:
    """Iterate over the lines of a schedule."""
    counts = (
        number_of(len(schedule.order), "layer"),
        number_of(len(schedule.steps), "step"),
        number_of(len(schedule.partitions), "partition"),
        f"{len(schedule.chained)} chained",
        f"{len(schedule.coissued)} co-issued",
    )
    yield f"schedule for {schedule.target}: {', '.join(counts)}"
    chained = {pair.first: pair.second for pair in schedule.chained}
    for partition in schedule.partitions:
        yield partition_line(schedule, partition)
        for step in dict.fromkeys(schedule.step_of[name] for name in partition.layers):
            names = schedule.steps[step]
            marks = [f"chained into %{chained[name]}" for name in names if name in chained]
            if len(names) > 1 and not marks:
                marks = ["co-issued"]
            suffix = f"  {'; '.join(marks)}" if marks else ""
            yield f"    {step:>4}  {', '.join(f'%{name}' for name in names)}{suffix}"
    yield from (f"  note: {note}" for note in schedule.notes)


def partition_line(schedule: Schedule, partition: Partition) -> str:
    """Return the line that begins a partition."""
    begin = f"  partition {partition.number} of segment {partition.segment}: "
    count, limit = number_of(len(partition.layers), "layer"), schedule.working_set_limit
    used = f"{count}, working set {partition.peak_bytes} of {limit} bytes"
    if not partition.closed_by:
        return begin + used
    if partition.wanted_bytes > limit:
        return f"{begin}{used}, closed by %{partition.closed_by}: {partition.wanted_bytes} bytes"
    return f"{begin}{used}, closed by %{partition.closed_by}: no gap that is large enough"


def schedule_json(schedule: Schedule) -> str:
    """Return a schedule as JSON."""
    return msgspec.json.format(msgspec.json.encode(schedule), indent=1).decode()


def schedule_from_json(text: str) -> Schedule:
    """Read a schedule back from its JSON.

    Raises:
        GraphError: The text is not a schedule.
    """
    try:
        return decode_typed(text, Schedule)
    except msgspec.DecodeError as error:
        raise GraphError(f"this is not a schedule: {error}") from None

"""What must be true of every schedule, checked after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import Engine
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.schedule.schedule import Schedule

__all__ = ["verify_schedule"]


def verify_schedule(program: Program, schedule: Schedule) -> None:
    """Check that a schedule is one of a program.

    Raises:
        GraphError: A layer is missing or scheduled twice, or before what it needs; partitions are not the order cut in
            parts, or one exceeds the budget; a layer is chained and co-issued, or a pair breaks its rule.
    """
    layers = {layer.name: layer for layer in program.layers}
    if len(schedule.order) != len(layers) or set(schedule.order) != set(layers):
        odd = sorted(set(schedule.order) ^ set(layers)) or ["a layer that is scheduled twice"]
        raise GraphError("the schedule does not have every layer once", seen=odd[0])
    places = {name: place for place, name in enumerate(schedule.order)}
    for layer in program.layers:
        for value in layer.bottoms:
            writer = program.producers.get(value.name)
            if writer is not None and places[writer.name] >= places[layer.name]:
                raise GraphError(f"%{layer.name} runs before %{writer.name}, which it needs", location=layer.location)
    check_partitions(program, schedule)
    check_pairs(program, schedule, places)


def check_partitions(program: Program, schedule: Schedule) -> None:
    """Check that partitions are the order, cut, and that none mixes segments or exceeds the budget."""
    if tuple(name for partition in schedule.partitions for name in partition.layers) != schedule.order:
        raise GraphError("the partitions are not the order of the layers")
    segments = {layer.name: layer.segment for layer in program.layers}
    for number, partition in enumerate(schedule.partitions):
        if partition.number != number or any(segments[name] != partition.segment for name in partition.layers):
            raise GraphError(f"partition {number} is of several segments, or has another's number")
        if partition.peak_bytes > schedule.working_set_limit:
            raise GraphError(
                f"the working set of partition {number} is too large",
                seen=partition.peak_bytes,
                limit=schedule.working_set_limit,
            )
    for step in schedule.steps:
        if len({schedule.partition_of[name] for name in step}) != 1:
            raise GraphError(f"%{step[0]} runs with a layer of another partition")


def check_pairs(program: Program, schedule: Schedule, places: dict[str, int]) -> None:
    """Check that chained layers follow each other, and that co-issued ones run together and on both engines."""
    chained = {name for pair in schedule.chained for name in (pair.first, pair.second)}
    for pair in (*schedule.chained, *schedule.coissued):
        if places[pair.second] != places[pair.first] + 1:
            raise GraphError(f"%{pair.first} and %{pair.second} are a pair and do not follow each other")
        if schedule.partition_of[pair.first] != schedule.partition_of[pair.second]:
            raise GraphError(f"%{pair.first} and %{pair.second} are a pair and in two partitions")
    by_name = {layer.name: layer for layer in program.layers}
    seen: set[str] = set()
    for pair in schedule.coissued:
        first, second = by_name[pair.first], by_name[pair.second]
        if {first.engine, second.engine} != {Engine.NE, Engine.PE}:
            raise GraphError(f"%{pair.first} and %{pair.second} run together and are not layers of two engines")
        if any(value in first.results for value in second.bottoms):
            raise GraphError(f"%{pair.first} and %{pair.second} run together and one needs the other")
        if both := {pair.first, pair.second} & (chained | seen):
            raise GraphError(f"%{min(both)} is chained or runs together with two layers")
        if schedule.step_of[pair.first] != schedule.step_of[pair.second]:
            raise GraphError(f"%{pair.first} and %{pair.second} run together and not in one step")
        seen |= {pair.first, pair.second}

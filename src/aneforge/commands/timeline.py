"""The predicted timeline of a compiled program, and its memory over the steps of the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.report.model import Allocated, Memory, Step, Timed
from aneforge.report.time_shares import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.analysis.cost import Cost
    from aneforge.compiler.compile import Compiled
    from aneforge.engine.exactness import Label

__all__ = ["memory_of", "round_time", "timeline_of"]


def round_time(microseconds: float) -> float:
    """Return a time without digits that mean nothing, so that reports compare well."""
    return round(microseconds, 3)


def timeline_of(
    compiled: Compiled, priced: Cost, labels: Mapping[str, Label], carried: Mapping[str, tuple[int, ...]]
) -> tuple[Timed, ...]:
    """Return layers in the order of the schedule, one after another, each program after the host's call."""
    layers = {layer.name: layer for layer in priced.layers}
    programs = {program.segment: program for program in priced.programs}
    partitions, steps = compiled.schedule.partition_of, compiled.schedule.step_of
    now, segment = 0.0, None
    found: list[Timed] = []
    for name in compiled.schedule.order:
        layer = layers[name]
        if layer.segment != segment:
            segment = layer.segment
            duration = programs[segment].dispatch + programs[segment].copies
            found.append(
                Timed(
                    layer=f"call {segment}",
                    kind="dispatch and copies",
                    engine=HOST,
                    segment=segment,
                    partition=partitions[name],
                    start=round_time(now),
                    duration=round_time(duration),
                    nodes=(),
                    bound=HOST,
                    exactness="exact",
                    step=steps[name],
                )
            )
            now += duration
        found.append(
            Timed(
                layer=name,
                kind=layer.kind,
                engine=layer.engine,
                segment=layer.segment,
                partition=partitions[name],
                start=round_time(now),
                duration=round_time(layer.microseconds),
                nodes=carried[name],
                bound=str(layer.bound),
                exactness=str(labels[name].exactness),
                step=steps[name],
            )
        )
        now += layer.microseconds
    return tuple(found)


def memory_of(compiled: Compiled) -> Memory:
    """Return the memory plan."""
    plan = compiled.plan
    return Memory(
        capacity=plan.on_chip_bytes,
        peak=plan.peak,
        timeline=tuple(Step(moment.step, moment.buffers, moment.windows) for moment in plan.timeline),
        allocations=tuple(
            Allocated(
                value=one.value,
                state=one.state.name.lower(),
                memory=str(one.memory),
                offset=one.offset,
                size=one.size,
                first=one.first,
                last=one.last,
            )
            for one in plan.allocations
        ),
    )

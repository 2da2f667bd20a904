"""Where a scheduler would send operations, as a report holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.commands.timeline import round_time
from aneforge.evidence import Evidence
from aneforge.graph.graph import INPUT, STATE
from aneforge.report.headline import THE_ENGINE, in_shop_words
from aneforge.report.model import Placed, Placement
from aneforge.report.numbers import time_text
from aneforge.report.predicted import OFF_ENGINE, OWN_PROGRAM, SEGMENTS
from aneforge.rules.rule import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.placement import Placement as Predicted
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.targets import Place

__all__ = ["cuts", "nothing_on_engine", "own_programs", "predict_placement"]

ENGINE = "ANE"
"""The device of segments that land on the engine."""
INSTEAD = {
    "sdpa": "omit native: attention is then built from matmul and softmax, in one program with what is around it.",
}
"""What to write for an operation that needs a program of its own, where that is known."""


def predict_placement(graph: Graph, chosen: Place, path: str) -> tuple[Placement, Predicted]:
    """Return where operations land, as a report holds it and as it was found.

    Raises:
        UnknownNameError: There is no such path.
    """
    from aneforge.analysis.placement import placement  # noqa: PLC0415 - few checks ask for it

    found = placement(graph, chosen, path)
    numbers = [number for number, node in enumerate(graph.nodes) if node.op.name not in (INPUT, STATE)]
    members: dict[int | None, list[int]] = {}
    for operation in found.operations:
        members.setdefault(operation.segment, []).append(numbers[operation.number])
    return Placement(
        path=str(found.path),
        evidence=found.kind,
        on_engine=round(found.on_engine, 6),
        segments=tuple(
            Placed(
                str(one.device),
                tuple(members.get(one.number, ())),
                time_of(one.microseconds),
                time_of(one.scheduler_units),
            )
            for one in found.segments
        ),
        hops_microseconds=total(hop.microseconds for hop in found.hops),
        hops_scheduler_units=total(hop.scheduler_units for hop in found.hops),
        advice=tuple(one.text for one in found.advice),
        notes=found.notes,
        reason=next((f"{one.op}: {one.reason}" for one in found.operations if one.device != ENGINE), ""),
    ), found


def time_of(value: float | None) -> float | None:
    """Return a time without digits that mean nothing, where there is one."""
    return None if value is None else round_time(value)


def total(values: Iterable[float | None]) -> float | None:
    """Return a sum without digits that mean nothing; None where nothing is counted, or not in this unit."""
    known = list(values)
    return round_time(sum(value or 0.0 for value in known)) if all(value is not None for value in known) else None


def own_programs(
    graph: Graph, program: Program, priced: Cost, carried: Mapping[str, tuple[int, ...]]
) -> Iterator[Finding]:
    """Yield the operations that need a program of their own, with what a further program costs at least."""
    if len(program.segments) <= 1:
        return
    for layer in program.layers:
        if not layer.kind.bridge:
            continue
        numbers = carried.get(layer.name, ())
        op = layer.kind.op or layer.kind.name
        # What was taken into the layer is carried out by it too, and can come first.
        node = next((number for number in numbers if graph.nodes[number].op.name == op), next(iter(numbers), None))
        yield Finding(
            rule=OWN_PROGRAM.id,
            severity=Severity.INFO,
            op=op,
            node=node,
            location=layer.location,
            message=f"{op} needs a program of its own, so that the model is cut into {len(program.segments)} programs; "
            f"each after the first costs a dispatch, predicted at {time_text(priced.machine.dispatch)}, and copies.",
            seen=op,
            limit=None,
            remedy=INSTEAD.get(op, OWN_PROGRAM.remedy),
            evidence=layer.kind.evidence,
            target=program.target.name,
        )


def changes_text(placement: Placement) -> str:
    """Return what all changes of device cost, in the unit in which it is known."""
    if placement.hops_microseconds is not None:
        return f"{placement.hops_microseconds:g} µs"
    return f"{placement.hops_scheduler_units or 0.0:g} units of the scheduler"


def cuts(graph: Graph, placement: Placement, target: str) -> Iterator[Finding]:
    """Yield operations that leave the engine between others that stay, each group with what the changes cost."""
    on_engine = [number for number, segment in enumerate(placement.segments) if segment.device == ENGINE]
    for number, segment in enumerate(placement.segments):
        if number in on_engine or not segment.nodes or not on_engine or not on_engine[0] < number < on_engine[-1]:
            continue
        first = segment.nodes[0]
        more = f" and {len(segment.nodes) - 1} more after it" if len(segment.nodes) > 1 else ""
        yield Finding(
            rule=SEGMENTS.id,
            severity=Severity.INFO,
            op=graph.nodes[first].op.name,
            node=first,
            location=graph.nodes[first].location,
            message=f"It runs on the {segment.device}{more}, between programs on the engine; all changes of device "
            f"together cost {changes_text(placement)} at every call.",
            seen=segment.device,
            limit=None,
            remedy=SEGMENTS.remedy,
            evidence=Evidence(placement.evidence, f"the scheduler of the path {placement.path}"),
            threads=SEGMENTS.threads,
            target=target,
        )


def nothing_on_engine(placement: Placement, target: str) -> Iterator[Finding]:
    """Yield the finding about a model of which nothing is on the engine, with the reason, which names no target."""
    count = sum(len(segment.nodes) for segment in placement.segments)
    if not count or placement.count(ENGINE):
        return
    reason = in_shop_words(placement.reason, target, THE_ENGINE)
    yield Finding(
        rule=OFF_ENGINE.id,
        severity=Severity.WARN,
        op="model",
        message=f"Core ML is predicted to run nothing of the model on the engine. {reason.rstrip('.')}.",
        seen=reason,
        limit=None,
        remedy=OFF_ENGINE.remedy,
        evidence=Evidence(placement.evidence, f"the scheduler of the path {placement.path}"),
        location=None,
        target=target,
    )

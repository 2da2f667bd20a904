"""Where a scheduler would send operations, as a report holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.graph import INPUT, STATE
from aneforge.report.model import Placed, Placement
from aneforge.report.timeline import rounded

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.report.subjects import Chosen

__all__ = ["placed"]


def placed(graph: Graph, chosen: Chosen, path: str) -> Placement:
    """Return where operations land.

    Raises:
        UnknownNameError: There is no such path.
    """
    from aneforge.predict.placement import placement  # noqa: PLC0415 - few checks ask for it

    found = placement(graph, chosen.asked or chosen.target, path)
    numbers = [number for number, node in enumerate(graph.nodes) if node.op.name not in (INPUT, STATE)]
    members: dict[int | None, list[int]] = {}
    for operation in found.operations:
        members.setdefault(operation.segment, []).append(numbers[operation.number])
    return Placement(
        path=str(found.path),
        evidence=str(found.kind),
        on_engine=round(found.on_engine, 6),
        segments=tuple(
            Placed(str(one.device), tuple(members.get(one.number, ())), rounded(one.microseconds))
            for one in found.segments
        ),
        hops_microseconds=rounded(sum(hop.microseconds for hop in found.hops)),
        advice=tuple(one.text for one in found.advice),
        notes=found.notes,
    )

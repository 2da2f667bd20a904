"""Loops, unrolled: `scan` and `map` once for each slice, `while_loop` as long as its condition is a known one.

What a turn gives are nodes of the graph like others, and every turn counts against the import's budget, so that a
condition that always holds ends in one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.graph.node import Output
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.torch_export.values import LOST, Lost
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.torch_export.values import Held

    Body = Callable[[Sequence[Held]], tuple[Held, ...]]
    """Runs a graph on inputs, and counts its nodes."""

__all__ = ["UNROLLED", "scanned", "while_known"]

UNROLLED = "unroll it in Python, with a number of turns that is known"


def scanned(emit: Emitter, body: Body, carried: Sequence[Held], rows: Sequence[Held], fixed: Sequence[Held]) -> Held:
    """Return what is carried after the last turn, and what the turns give, stacked along a first axis.

    Every turn gets what is carried, a slice of each tensor of rows, and what is fixed.

    Raises:
        GraphError: There are no slices, or tensors of different lengths, or something that is no tensor.
    """
    tensors = values_of(rows)
    lengths = {one.type.shape[:1] for one in tensors}
    if len(lengths) != 1 or () in lengths:
        raise GraphError("the tensors that it goes through have not one length", seen=sorted(lengths))
    ((turns,),) = lengths
    if not turns:
        raise GraphError("the tensors that it goes through have no slices")
    now: tuple[Held, ...] = tuple(carried)
    stacked: list[tuple[Held, ...]] = []
    for turn in range(turns):
        slices = [emit.reshape(emit.part(one, 0, turn, turn + 1), one.type.shape[1:]) for one in tensors]
        results = body((*now, *slices, *fixed))
        if any(isinstance(one, Lost) for one in results):
            return (LOST,) * len(results)
        now = results[: len(now)]
        stacked.append(results[len(now) :])
    columns = [values_of(column) for column in zip(*stacked, strict=True)]
    return (*now, *(emit.apply("stack", {"values": tuple(column)}, axis=0) for column in columns))


def values_of(listed: Sequence[Held]) -> list[Value]:
    """Return tensors.

    Raises:
        GraphError: One is something else.
    """
    found = [one for one in listed if isinstance(one, Output | Constant)]
    if len(found) != len(listed):
        raise GraphError("its body takes or gives something else than tensors")
    return found


def while_known(condition: Body, body: Body, carried: Sequence[Held], fixed: Sequence[Held]) -> Held:
    """Return what is carried once the condition no longer holds.

    Raises:
        UnsupportedNodeError: The condition is computed at run time.
    """
    now = tuple(carried)
    while True:
        (holds,) = condition((*now, *fixed))
        if isinstance(holds, Lost):
            return (LOST,) * len(now)
        if isinstance(holds, Constant):
            holds = bool(holds.dense().reshape(()).item())
        if not isinstance(holds, bool):
            raise UnsupportedNodeError(
                Reason.CONTROL, "how often its body runs depends on the data", workaround=UNROLLED
            )
        if not holds:
            return now
        now = body((*now, *fixed))
        if any(isinstance(one, Lost) for one in now):
            return (LOST,) * len(now)

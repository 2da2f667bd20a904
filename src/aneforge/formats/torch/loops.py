"""Loops, unrolled: `scan` and `map` once for each slice, `while_loop` as long as its condition is a known one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import expect_whole
from aneforge.formats.shared.unrolling import Rows, read_condition, stack_values, turn_count, unroll_loop
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.torch_values import Held
    from aneforge.graph.node import Value

    Body = Callable[[Sequence[Held]], tuple[Held, ...]]
    """Runs a graph on inputs, and counts its nodes."""

__all__ = ["UNROLLED", "scan_rows", "tensors", "while_known"]

UNROLLED = "unroll it in Python, with a number of turns that is known"


def scan_rows(emit: Emitter, body: Body, carried: Sequence[Held], rows: Sequence[Held], fixed: Sequence[Held]) -> Held:
    """Return what is carried after the last iteration, and what the iterations give, stacked along a first axis.

    Raises:
        GraphError: There are no slices, or tensors of different lengths, or something that is not a tensor.
    """
    listed = tensors(rows)
    if not turn_count([Rows(one) for one in listed]):
        raise GraphError("the tensors that it goes through have no slices")
    last, given = unroll_loop(emit, body, carried, [Rows(one) for one in listed], fixed)
    return (*last, *(stack_values(emit, tensors(column)) for column in zip(*given, strict=True)))


def tensors(listed: Sequence[Held]) -> list[Value]:
    """Return tensors that a graph within a node takes or gives.

    Raises:
        GraphError: One is something else.
    """
    found = [one for one in listed if isinstance(one, Output | Constant)]
    if len(found) != len(listed):
        raise GraphError("its body takes or gives something other than tensors")
    return found


def while_known(condition: Body, body: Body, carried: Sequence[Held], fixed: Sequence[Held]) -> Held:
    """Return what is carried once the condition no longer holds.

    Raises:
        UnsupportedNodeError: The condition is computed at run time.
    """
    now = tuple(carried)
    while True:
        (holds,) = expect_whole(condition((*now, *fixed)))
        known = read_condition(holds)
        if known is None:
            raise UnsupportedNodeError(
                Reason.CONTROL, "how often its body runs depends on the data", workaround=UNROLLED
            )
        if not known:
            return now
        now = expect_whole(body((*now, *fixed)))

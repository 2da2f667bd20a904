"""Loops: `scan` and `map` once for each slice, `while_loop` unrolled as long as its condition is a known one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import expect_whole
from aneforge.formats.shared.unrolling import Rows, iteration_count, read_condition, run_iterations, stack_values
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.torch_values import Held
    from aneforge.graph.node import Value

    Body = Callable[[Sequence[Held]], tuple[Held, ...]]
    """Runs a graph on inputs, and counts its nodes."""
    Attempt = Callable[[Sequence[Held]], tuple[tuple[Held, ...], str]]
    """The same, and what stops it, which is not gathered."""

__all__ = ["UNROLLED", "scan_rows", "tensors", "while_known"]

UNROLLED = "unroll it in Python, with a number of iterations that is known"


def scan_rows(
    emit: Emitter, body: Body, attempt: Attempt, carried: Sequence[Held], rows: Sequence[Held], fixed: Sequence[Held]
) -> Held:
    """Return what is carried after the last iteration, and what the iterations give, stacked along a first axis.

    Raises:
        GraphError: There are no slices, or tensors of different lengths, or something that is not a tensor.
    """
    listed = [Rows(one) for one in tensors(rows)]
    if not iteration_count(listed):
        raise GraphError("the tensors that it goes through have no slices")
    made = run_iterations(
        emit, lambda given: body((*given, *fixed)), lambda given: attempt((*given, *fixed)), carried, listed
    )
    if made.stacked is not None:
        return (*made.states, *made.stacked)
    return (*made.states, *(stack_values(emit, tensors(column)) for column in zip(*made.given, strict=True)))


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

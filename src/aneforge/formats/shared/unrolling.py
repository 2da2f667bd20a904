"""Graphs within nodes: a choice between two branches, and loops that are unrolled.

What a turn gives are nodes of the graph like others, and every turn counts against the import's budget, so that a
condition that always holds ends in one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from aneforge.errors import GraphError
from aneforge.formats.shared.interpretation import expect_whole
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = ["Rows", "choose", "read_condition", "stack_values", "turn_count", "unroll_loop"]

Held = TypeVar("Held")


def read_condition(condition: object) -> bool | None:
    """Return a condition as a boolean, if it is known.

    Raises:
        GraphError: It is not one.
    """
    if isinstance(condition, Constant):
        if condition.type.size != 1:
            raise GraphError("the condition is not one bool", seen=list(condition.type.shape))
        return bool(condition.dense().reshape(()).item())
    return bool(condition) if isinstance(condition, bool | int | float) else None


def choose(emit: Emitter, condition: Value, one: Sequence[Value], other: Sequence[Value]) -> tuple[Value, ...]:
    """Return the results of one branch or of the other, both of which are computed."""
    flag = emit.reshape(condition, ())
    return tuple(emit.select(flag, first, second) for first, second in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor that a loop goes through, a slice a turn."""

    tensor: Value
    axis: int = 0
    backward: bool = False

    @property
    def count(self) -> int:
        """How many slices it has."""
        return self.tensor.type.shape[self.axis]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a slice."""
        return self.tensor.type.shape[: self.axis] + self.tensor.type.shape[self.axis + 1 :]

    def slice(self, emit: Emitter, turn: int) -> Value:
        """Return what a turn gets."""
        return emit.at(self.tensor, self.axis, self.count - 1 - turn if self.backward else turn)


def turn_count(rows: Sequence[Rows]) -> int:
    """Return how many turns a loop takes through rows.

    Raises:
        GraphError: They have different lengths, one has no axis, or there are none.
    """
    counts = {row.tensor.type.shape[row.axis : row.axis + 1] for row in rows}
    if len(counts) != 1 or () in counts:
        raise GraphError("the tensors that it goes through must have one length", seen=sorted(counts))
    return counts.pop()[0]


def unroll_loop(
    emit: Emitter,
    body: Callable[[Sequence[Value | Held]], tuple[Held, ...]],
    carried: Sequence[Held],
    rows: Sequence[Rows],
    fixed: Sequence[Held] = (),
) -> tuple[tuple[Held, ...], list[tuple[Held, ...]]]:
    """Return what is carried after the last turn, and what else every turn gives.

    A turn gets what is carried, a slice of every row, and what is fixed.

    Raises:
        LostValueError: A turn gives something that is lost.
    """
    now: tuple[Held, ...] = tuple(carried)
    given: list[tuple[Held, ...]] = []
    for turn in range(turn_count(rows)):
        results = expect_whole(body((*now, *(row.slice(emit, turn) for row in rows), *fixed)))
        now = results[: len(now)]
        given.append(results[len(now) :])
    return now, given


def stack_values(emit: Emitter, values: Sequence[Value]) -> Value:
    """Return the values of all turns along a new first axis."""
    return emit.apply("stack", {"values": tuple(values)}, axis=0)

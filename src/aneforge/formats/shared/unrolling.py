"""Graphs within nodes: a choice between two branches, and loops.

A short loop is unrolled: what an iteration gives are nodes of the graph like others. A long one is one operation with
the body, where the iterations differ in nothing but their values. Every iteration counts against the import's budget
either way, so that a condition that always holds ends in one error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

from aneforge.errors import GraphError
from aneforge.formats.shared.interpretation import expect_whole
from aneforge.graph.bodies import are_alike, body_input, enclose
from aneforge.graph.convert import iteration_of
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Node, Value
    from aneforge.ops.body import Body

__all__ = [
    "LOOKED_AT",
    "UNROLLED_MOST",
    "Iteration",
    "LoopResults",
    "Rows",
    "choose",
    "is_long",
    "iteration_count",
    "read_condition",
    "roll_loop",
    "run_iterations",
    "stack_values",
]

Held = TypeVar("Held")

UNROLLED_MOST = 16
"""Iterations of a loop that is unrolled by all means: short loops stand for a few layers or heads, which users look at
one by one, and their nodes are few; sequences are longer."""
LOOKED_AT = 2
"""Iterations that run before a loop is judged: the first, whose states may be constants, and one like all others."""


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
    """A tensor that a loop goes through, a slice an iteration."""

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

    def slice(self, emit: Emitter, iteration: int) -> Value:
        """Return what an iteration gets."""
        return emit.at(self.tensor, self.axis, self.count - 1 - iteration if self.backward else iteration)


def iteration_count(rows: Sequence[Rows]) -> int:
    """Return how many iterations a loop through rows has.

    Raises:
        GraphError: They have different lengths, one has no axis, or there are none.
    """
    counts = {row.tensor.type.shape[row.axis : row.axis + 1] for row in rows}
    if len(counts) != 1 or () in counts:
        raise GraphError("the tensors that it goes through must have one length", seen=sorted(counts))
    return counts.pop()[0]


@dataclass(frozen=True, slots=True)
class Iteration(Generic[Held]):
    """An iteration that was run: what was carried into it, the slices that it got, and what it gave."""

    carried: tuple[Held, ...]
    slices: tuple[Value, ...]
    results: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class LoopResults(Generic[Held]):
    """What a loop gives: the last states, and what else each iteration gave, or all iterations stacked."""

    states: tuple[Held, ...]
    given: Sequence[tuple[Held, ...]] = ()
    stacked: tuple[Value, ...] | None = None
    """Of a loop that is one operation; None where its iterations were run one by one."""


def is_long(count: int) -> bool:
    """Return whether a loop of so many iterations is one operation, where it can be."""
    return count > UNROLLED_MOST


def run_iterations(
    emit: Emitter,
    body: Callable[[Sequence[Value | Held]], tuple[Held, ...]],
    attempt: Callable[[Sequence[Value | Held]], tuple[tuple[Held, ...], str]],
    carried: Sequence[Held],
    rows: Sequence[Rows],
    backward_outputs: Sequence[bool] | None = None,
) -> LoopResults[Held]:
    """Return what a loop gives: one operation for all iterations where that says the same, else each by itself.

    An iteration gets what is carried and a slice of every row; `attempt` takes one and gathers no findings.

    Raises:
        LostValueError: An iteration gives something that is lost.
    """
    now: tuple[Held, ...] = tuple(carried)
    taken: list[Iteration[Held]] = []
    count = iteration_count(rows)
    for number in range(count):
        if number == LOOKED_AT and is_long(count):
            rolled = roll_loop(emit, attempt, taken, rows, backward_outputs)
            if rolled is not None:
                return LoopResults(cast("tuple[Held, ...]", rolled[: len(now)]), stacked=rolled[len(now) :])
        slices = tuple(row.slice(emit, number) for row in rows)
        results = expect_whole(body((*now, *slices)))
        taken.append(Iteration(now, slices, results))
        now = results[: len(now)]
    return LoopResults(now, [iteration.results[len(now) :] for iteration in taken])


def roll_loop(
    emit: Emitter,
    attempt: Callable[[Sequence[Value | Held]], tuple[tuple[Held, ...], str]],
    taken: Sequence[Iteration[Held]],
    rows: Sequence[Rows],
    backward_outputs: Sequence[bool] | None = None,
) -> tuple[Value, ...] | None:
    """Return the results of one operation for all iterations of a loop whose first ones were run; None if none is it.

    The body is read once more, with inputs of which only the types are known. It stands for the loop if what it says of
    the iterations that were run is, node by node, what they gave: so a loop is one operation only where unrolling that
    operation gives the graph that unrolling the loop does.
    """
    before = emit.budget.nodes
    read = read_body(attempt, taken)
    made = None if read is None else loop_of(emit, read, taken, rows, backward_outputs)
    each, emit.budget.nodes = before - emit.budget.nodes, before
    if made is not None:
        emit.budget.take_nodes(each * (iteration_count(rows) - len(taken)))
    return made


def read_body(
    attempt: Callable[[Sequence[Value | Held]], tuple[tuple[Held, ...], str]], taken: Sequence[Iteration[Held]]
) -> tuple[Body, tuple[Output, ...]] | None:
    """Return the body of a loop, and the tensors around it that it reads; None if iterations differ in their types.

    What is a constant after an iteration like all others, such as a counter, is known in each, and the body would not
    know it.
    """
    carried, given = values_of(taken[0].carried), values_of(taken[-1].results)
    if carried is None or given is None or any(isinstance(one, Constant) for one in given):
        return None
    kinds = {f"state{place}": one.type for place, one in enumerate(carried)}
    kinds |= {f"row{place}": one.type for place, one in enumerate(taken[0].slices)}
    inputs = {name: body_input(name, kind) for name, kind in kinds.items()}
    results, problem = attempt(tuple(inputs.values()))
    tensors = [one for one in results if isinstance(one, Output)]
    if problem or len(tensors) < len(results) or [one.type for one in tensors] != [one.type for one in given]:
        return None
    try:
        return enclose(inputs, tensors)
    except GraphError:
        return None


def loop_of(
    emit: Emitter,
    read: tuple[Body, tuple[Output, ...]],
    taken: Sequence[Iteration[Held]],
    rows: Sequence[Rows],
    backward_outputs: Sequence[bool] | None,
) -> tuple[Value, ...] | None:
    """Return the results of the operation with a body; None if it says something else of an iteration that was run."""
    body, fixed = read
    operands = {
        "states": tuple(cast("Sequence[Value]", taken[0].carried)),
        "rows": tuple(row.tensor for row in rows),
        "fixed": fixed,
    }
    axes, backward = [row.axis for row in rows], [row.backward for row in rows]
    try:
        made = emit.apply_all(
            "scan",
            operands,
            body=body,
            axes=axes if any(axes) else None,
            backward=backward if any(backward) else None,
            backward_outputs=list(backward_outputs) if backward_outputs and any(backward_outputs) else None,
        )
        same = all(
            isinstance(one, Output) and is_iteration(one.node, iteration, fixed)
            for one in made[:1]
            for iteration in taken
        )
    except GraphError:
        return None
    return made if same else None


def is_iteration(node: Node, iteration: Iteration[Held], fixed: Sequence[Output]) -> bool:
    """Return whether an iteration that was run is what a loop says of it."""
    given: dict[str, object] = {f"state{place}": one for place, one in enumerate(iteration.carried)}
    given |= {f"row{place}": one for place, one in enumerate(iteration.slices)}
    given |= {f"fixed{place}": one for place, one in enumerate(fixed)}
    said = iteration_of(node, cast("Mapping[str, Value]", given))
    return are_alike(zip(said, cast("Sequence[Value]", iteration.results), strict=True))


def values_of(listed: Sequence[object]) -> list[Value] | None:
    """Return tensors and constants; None if something else is among them."""
    found = [one for one in listed if isinstance(one, Output | Constant)]
    return found if len(found) == len(listed) else None


def stack_values(emit: Emitter, values: Sequence[Value]) -> Value:
    """Return the values of all iterations along a new first axis."""
    return emit.apply("stack", {"values": tuple(values)}, axis=0)

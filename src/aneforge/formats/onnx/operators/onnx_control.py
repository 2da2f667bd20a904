"""Graphs within nodes: branches and loops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.binding import declared_type
from aneforge.formats.onnx.call import build_computed_error
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.interpretation import expect_whole
from aneforge.formats.shared.unrolling import (
    LOOKED_AT,
    Iteration,
    Rows,
    choose,
    is_long,
    read_condition,
    roll_loop,
    run_iterations,
    stack_values,
)
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalise_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value


@operator("If", takes_all=True)
def branch(call: Call) -> tuple[Held, ...]:
    """Convert a branch: the one that is taken if the condition is known, else both and a choice between them."""
    condition = call.value(0)
    if condition.type.size != 1:
        raise GraphError("the condition is not one bool", seen=list(condition.type.shape))
    graphs = call.attribute("then_branch").g, call.attribute("else_branch").g
    if isinstance(condition, Constant):
        taken = graphs[0 if read_condition(condition) else 1]
        return check_results(call, call.surroundings.run_body(taken, ()))
    both: list[tuple[Value, ...]] = []
    for graph in graphs:
        results, problem = call.surroundings.try_body(graph, ())
        if problem:  # a branch that is never taken may make no sense, so it is not the branch that is reported
            raise build_computed_error(
                condition, f"its condition is computed, and a branch cannot be expressed: {problem}"
            )
        both.append(tensors(call, check_results(call, results)))
    if len(both[0]) != len(both[1]):
        raise GraphError("the branches have different numbers of outputs", seen=len(both[1]), limit=len(both[0]))
    for one, other in zip(*both, strict=True):
        if one.type != other.type:
            raise build_computed_error(
                condition, f"its condition is computed, and its branches give {one.type} and {other.type}"
            )
    return choose(call.emit, condition, *both)


def check_results(call: Call, results: tuple[Held, ...]) -> tuple[Held, ...]:
    """Return the results of a graph, one for every output of the node.

    Raises:
        GraphError: There are more or fewer.
    """
    if len(results) < call.outputs:
        raise GraphError("the graph within it has fewer outputs", seen=len(results), limit=call.outputs)
    return results


def tensors(call: Call, results: Sequence[Held]) -> tuple[Value, ...]:
    """Return results that must be tensors.

    Raises:
        UnsupportedNodeError: One is not.
        LostValueError: One is lost.
    """
    for one in expect_whole(tuple(results)):
        if isinstance(one, Foreign):
            raise UnsupportedNodeError(one.reason, f"{call.operator} with computed iterations returns {one.what}")
    return tuple(one for one in results if isinstance(one, Output | Constant))


@operator("Loop", takes_all=True)
def loop(call: Call) -> tuple[Held, ...]:
    """Convert a loop: one operation for all iterations where a long one allows it, else unrolled.

    The number of iterations must be known: from the trip count, or from a condition that folds to a constant each time.
    With a known trip count the condition may be computed; then the variables keep their values once it fails, and
    outputs that stack a value per iteration, whose number would be open, are refused.
    """
    emit = call.emit
    count = None if call.optional(0) is None else call.known_integer(0, "the trip count")
    body = call.attribute("body").g
    variables = [held for held in call.inputs[2:] if held is not None]
    if len(variables) != len(call.inputs[2:]) or len(body.output) < 1 + len(variables):
        raise GraphError("the body does not give a condition and every variable", seen=len(body.output))
    condition: Value | None = call.optional(1)
    columns: list[list[Held]] = [[] for _ in range(len(body.output) - 1 - len(variables))]
    taken: list[Iteration[Held]] = []
    iteration = 0
    while count is None or iteration < count:
        known = True if condition is None else read_condition(condition)
        if iteration == LOOKED_AT and known and count is not None and is_long(count):
            rolled = roll_counted(call, taken, count, condition)
            if rolled is not None:
                return rolled
        if known is False:
            break
        if isinstance(condition, Output) and (columns or count is None):
            raise build_computed_error(condition, "its number of iterations is computed")
        given = (emit.constant(iteration, "int64"), pass_condition(call, condition), *variables)
        results = expect_whole(call.surroundings.run_body(body, given))
        if iteration < LOOKED_AT:
            taken.append(Iteration(tuple(variables), (emit.constant(iteration, "int64"),), results[1:]))
        news = list(results[1 : 1 + len(variables)])
        variables = (
            news if known else [keep_value(call, condition, new, old) for new, old in zip(news, variables, strict=True)]
        )
        condition = join(call, condition, tensors(call, results[:1])[0], known=known)
        for values, one in zip(columns, results[1 + len(variables) :], strict=True):
            values.append(one)
        iteration += 1
    given = (emit.constant(0, "int64"), pass_condition(call, condition), *variables)
    return *variables, *stacks(call, columns, body, given)


def roll_counted(
    call: Call, taken: Sequence[Iteration[Held]], count: int, condition: Value | None
) -> tuple[Value, ...] | None:
    """Return the results of a loop as one operation, which scans the numbers of its iterations; None if it is none.

    Its condition must hold in every iteration, whatever that is.
    """
    body = call.attribute("body").g

    def attempt(given: Sequence[Held]) -> tuple[tuple[Held, ...], str]:
        *variables, number = given
        results, problem = call.surroundings.try_body(body, (number, pass_condition(call, condition), *variables))
        holds = condition is None or read_condition(results[0])
        return results[1:], problem if holds else "its condition is computed"

    if count > call.emit.budget.nodes:  # unrolling comes to an end before it, and says so
        return None
    numbers = Rows(call.emit.constant(np.arange(count), "int64"))
    return roll_loop(call.emit, attempt, taken, [numbers])


def pass_condition(call: Call, condition: Value | None) -> Value:
    """Return the condition as the body gets it."""
    return call.emit.constant(np.array(1), "bool") if condition is None else condition


def join(call: Call, before: Value | None, after: Value, *, known: bool | None) -> Value | None:
    """Return whether the next iteration is taken: once a computed condition failed, none is."""
    if call.optional(1) is None:
        return None
    if known or before is None:
        return after
    return call.emit.binary("logical_and", before, after)


def keep_value(call: Call, condition: Value | None, new: Held, old: Held) -> Value:
    """Return a variable after an iteration that may not be taken."""
    emit = call.emit
    one, other = tensors(call, (new, old))
    if one.type != other.type or condition is None:
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE, "a variable changes its shape, and the number of iterations is computed at run time"
        )
    return emit.select(emit.reshape(condition, ()), one, other)


def stacks(
    call: Call, columns: Sequence[list[Held]], body: onnx.GraphProto, given: Sequence[Held]
) -> tuple[Value, ...]:
    """Return the values of all iterations, those of each output along a new first axis.

    Of no iteration the model declares the shape, or an iteration with the given inputs that is only looked at has it.

    Raises:
        UnsupportedNodeError: Neither is so.
    """
    if all(columns):
        return tuple(stack_values(call.emit, tensors(call, values)) for values in columns)
    described = body.output[len(body.output) - len(columns) :]
    kinds = [declared_type(one) for one in described]
    if None in kinds:
        results, problem = call.surroundings.try_body(body, given)
        if problem:
            raise UnsupportedNodeError(
                Reason.DATA_SHAPE,
                "a loop without iterations stacks values of unknown shape: " + problem.partition(". Workaround")[0],
                workaround="declare the shapes of the body's outputs",
            )
        found = [one.type for one in tensors(call, results[len(results) - len(columns) :])]
        kinds = [known or kind for known, kind in zip(kinds, found, strict=True)]
    return tuple(call.emit.empty((0, *kind.shape), kind.dtype) for kind in kinds if kind is not None)


@operator("Scan", until=8)
def batched_scan(call: Call) -> tuple[Held, ...]:
    """Convert a scan of version 8: along axis 1, for every sample of the batch by itself."""
    emit = call.emit
    if call.optional(0) is not None:
        raise UnsupportedNodeError(Reason.FORM, "sequences of different lengths are scanned")
    given = [call.value(place) for place in range(1, len(call.inputs))]
    states = state_count(call, len(given))
    backward = one_for_each(call, "directions", len(given) - states)
    out_backward = (0,) * max(len(call.attribute("body").g.output) - states, 0)
    batches = {value.type.shape[:1] for value in given}
    if len(batches) != 1 or () in batches:
        raise GraphError("the inputs differ in batch size", seen=", ".join(str(value.type) for value in given)[:200])
    batch = given[0].type.shape[0]
    samples: list[tuple[Held, ...]] = []
    for sample in range(batch):
        own = [Rows(one).slice(emit, sample) for one in given]
        rows = [Rows(one, 0, bool(back)) for one, back in zip(own[states:], backward, strict=True)]
        samples.append(scanned(call, own[:states], rows, out_backward))
    return tuple(
        stack_values(emit, tensors(call, [results[place] for results in samples])) for place in range(call.outputs)
    )


def state_count(call: Call, count: int) -> int:
    """Return how many inputs are states.

    Raises:
        GraphError: There are fewer inputs to scan, or none.
    """
    scanned_inputs = call.integer("num_scan_inputs")
    if not 0 < scanned_inputs <= count:
        raise GraphError("there are fewer inputs than are to be scanned", seen=scanned_inputs, limit=f"1 to {count}")
    return count - scanned_inputs


@operator("Scan", since=9)
def scan(call: Call) -> tuple[Held, ...]:
    """Convert a scan: an iteration for every slice of its scanned inputs."""
    given = call.values()
    states = state_count(call, len(given))
    stacks_made = max(len(call.attribute("body").g.output) - states, 0)
    axes = one_for_each(call, "scan_input_axes", len(given) - states)
    backward = one_for_each(call, "scan_input_directions", len(given) - states)
    out_backward = one_for_each(call, "scan_output_directions", stacks_made)
    out_axes = one_for_each(call, "scan_output_axes", stacks_made)
    rows = [
        Rows(one, normalise_axis(axis, one.type.rank), bool(back))
        for one, axis, back in zip(given[states:], axes, backward, strict=True)
    ]
    results = scanned(call, given[:states], rows, out_backward)
    found = list(results)
    for place, axis in enumerate(out_axes):
        value = tensors(call, (results[states + place],))[0]
        found[states + place] = call.emit.moved(value, 0, axis)
    return tuple(found)


def one_for_each(call: Call, name: str, count: int) -> tuple[int, ...]:
    """Return a list with a number for every input or output that is scanned; zeros where it is left out.

    Raises:
        GraphError: It has more or fewer.
    """
    listed = call.integers(name) or (0,) * count
    if len(listed) != count:
        raise GraphError(f"{name} must have one number for each scanned tensor", seen=len(listed), limit=count)
    return tuple(listed)


def scanned(
    call: Call, carried: Sequence[Value], rows: Sequence[Rows], out_backward: Sequence[int]
) -> tuple[Held, ...]:
    """Return final states, and what every iteration gives stacked along a first axis."""
    body = call.attribute("body").g
    if len(body.output) < len(carried):
        raise GraphError("the body does not give every state", seen=len(body.output), limit=len(carried))
    run, attempt = partial(call.surroundings.run_body, body), partial(call.surroundings.try_body, body)
    made = run_iterations(call.emit, run, attempt, carried, rows, [bool(back) for back in out_backward])
    if made.stacked is not None:
        return *made.states, *made.stacked
    given = made.given
    columns: list[list[Held]] = [[one[place] for one in given] for place in range(len(body.output) - len(carried))]
    ordered = [values[::-1] if back else values for values, back in zip(columns, out_backward, strict=True)]
    # Without an iteration the body is looked at with slices of which nothing is known.
    looked_at = [] if given else [unknown(call, row.shape, row.tensor.type.dtype) for row in rows]
    return *made.states, *stacks(call, ordered, body, (*made.states, *looked_at))


def unknown(call: Call, shape: Sequence[int], dtype: str) -> Value:
    """Return a tensor of which only the type is known; no graph comes to have it."""
    return call.emit.apply("input", {}, shape=tuple(shape), dtype=dtype, name="slice")

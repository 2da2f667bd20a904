"""Graphs within nodes: branches, and loops that are unrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.node import Output
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.binding import declared_type
from aneforge.importers.onnx.call import computed, single_number
from aneforge.importers.onnx.registry import operator
from aneforge.importers.onnx.values import LOST, Foreign, Lost
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalised_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Held, Value


@operator("If", takes_all=True)
def branch(call: Call) -> tuple[Held, ...]:
    """Convert a branch: the one that is taken if the condition is known, else both and a choice between them."""
    condition = call.value(0)
    if condition.type.size != 1:
        raise GraphError("the condition is not one bool", seen=list(condition.type.shape))
    then_graph, else_graph = call.attribute("then_branch").g, call.attribute("else_branch").g
    if isinstance(condition, Constant):
        taken = then_graph if bool(condition.dense().reshape(())) else else_graph
        return checked_results(call, call.surroundings.run_body(taken, ()))
    both: list[tuple[Value, ...]] = []
    for graph in (then_graph, else_graph):
        results, problem = call.surroundings.try_body(graph, ())
        if problem:  # a branch that is never taken may make no sense, so it is not the branch that is reported
            raise computed(condition, f"its condition is computed, and a branch cannot be expressed: {problem}")
        if any(isinstance(one, Lost) for one in results):
            return (LOST,) * call.outputs
        both.append(tensors(call, checked_results(call, results)))
    then_values, else_values = both
    if len(then_values) != len(else_values):
        raise GraphError(
            "the branches have different numbers of outputs", seen=len(else_values), limit=len(then_values)
        )
    for one, other in zip(then_values, else_values, strict=True):
        if one.type != other.type:
            raise computed(condition, f"its condition is computed, and its branches give {one.type} and {other.type}")
    pred = call.emit.reshape(condition, ())
    return call.emit.apply_all("cond", {"pred": pred, "true_values": then_values, "false_values": else_values})


def checked_results(call: Call, results: tuple[Held, ...]) -> tuple[Held, ...]:
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
    """
    for one in results:
        if isinstance(one, Foreign):
            raise UnsupportedNodeError(one.reason, f"{call.operator} whose course is computed gives {one.what}")
    return tuple(one for one in results if isinstance(one, Output | Constant))


@operator("Loop", takes_all=True)
def loop(call: Call) -> tuple[Held, ...]:
    """Convert a loop, unrolled.

    The number of turns must be known: from the trip count, or from a condition that folds to a constant in every turn.
    With a known trip count the condition may be computed; then the variables keep their values once it fails, and
    outputs that stack a value a turn, whose number would be open, are refused.
    """
    emit = call.emit
    count = None if call.optional(0) is None else call.known_integer(0, "the trip count")
    body = call.attribute("body").g
    variables = [held for held in call.inputs[2:] if held is not None]
    if len(variables) != len(call.inputs[2:]) or len(body.output) < 1 + len(variables):
        raise GraphError("the body does not give a condition and every variable", seen=len(body.output))
    condition: Value | None = call.optional(1)
    stacked: list[list[Held]] = [[] for _ in range(len(body.output) - 1 - len(variables))]
    turn = 0
    while count is None or turn < count:
        known = known_condition(condition)
        if known is False:
            break
        if isinstance(condition, Output) and (stacked or count is None):
            raise computed(condition, "how many turns it takes is computed")
        results = call.surroundings.run_body(body, (emit.constant(turn, "int64"), passed(call, condition), *variables))
        if any(isinstance(one, Lost) for one in results):
            return (LOST,) * call.outputs
        news = list(results[1 : 1 + len(variables)])
        variables = (
            news if known else [kept(call, condition, new, old) for new, old in zip(news, variables, strict=True)]
        )
        condition = joined(call, condition, tensors(call, results[:1])[0], known=known)
        for values, one in zip(stacked, results[1 + len(variables) :], strict=True):
            values.append(one)
        turn += 1
    given = (emit.constant(0, "int64"), passed(call, condition), *variables)
    return *variables, *stacks(call, stacked, body, given)


def known_condition(condition: Value | None) -> bool | None:
    """Return whether a loop goes on, if that is known; without a condition it does."""
    if condition is None:
        return True
    return bool(single_number(condition.dense(), "the condition")) if isinstance(condition, Constant) else None


def passed(call: Call, condition: Value | None) -> Value:
    """Return the condition as the body gets it."""
    return call.emit.constant(np.array(1), "bool") if condition is None else condition


def joined(call: Call, before: Value | None, after: Value, *, known: bool | None) -> Value | None:
    """Return whether the next turn is taken: once a computed condition failed, none is."""
    if call.optional(1) is None:
        return None
    if known or before is None:
        return after
    return call.emit.binary("logical_and", before, after)


def kept(call: Call, condition: Value | None, new: Held, old: Held) -> Value:
    """Return a variable after a turn that may not be taken."""
    emit = call.emit
    one, other = tensors(call, (new, old))
    if one.type != other.type or condition is None:
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE, "a variable changes its shape, and whether a turn is taken is computed"
        )
    return emit.select(emit.reshape(condition, ()), one, other)


def stacks(
    call: Call, stacked: Sequence[list[Held]], body: onnx.GraphProto, given: Sequence[Held]
) -> tuple[Value, ...]:
    """Return the values of all turns, those of each output along a new first axis.

    Of no turn the model declares the shape, or a turn with the given inputs that is only looked at has it.

    Raises:
        UnsupportedNodeError: Neither is so.
    """
    if all(stacked):
        return tuple(call.emit.apply("stack", {"values": tensors(call, values)}, axis=0) for values in stacked)
    described = body.output[len(body.output) - len(stacked) :]
    kinds = [declared_type(one) for one in described]
    if None in kinds:
        results, problem = call.surroundings.try_body(body, given)
        if problem:
            raise UnsupportedNodeError(
                Reason.DATA_SHAPE,
                "a loop without a turn stacks values of unknown shape: " + problem.partition(". Workaround")[0],
                workaround="declare the shapes of the body's outputs",
            )
        found = [one.type for one in tensors(call, results[len(results) - len(stacked) :])]
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
    directions = call.integers("directions") or ()
    batches = {value.type.shape[:1] for value in given}
    if len(batches) != 1 or () in batches:
        raise GraphError("the inputs have not one batch", seen=", ".join(str(value.type) for value in given)[:200])
    batch = given[0].type.shape[0]
    samples: list[tuple[Held, ...]] = []
    for sample in range(batch):
        own = [emit.reshape(emit.part(one, 0, sample, sample + 1), one.type.shape[1:]) for one in given]
        samples.append(scanned(call, own, states, [0] * len(own), directions, ()))
    if any(isinstance(one, Lost) for results in samples for one in results):
        return (LOST,) * call.outputs
    return tuple(
        emit.apply("stack", {"values": tensors(call, [results[place] for results in samples])}, axis=0)
        for place in range(call.outputs)
    )


def state_count(call: Call, count: int) -> int:
    """Return how many inputs are states.

    Raises:
        GraphError: There are not so many inputs to scan, or none.
    """
    scanned_inputs = call.integer("num_scan_inputs")
    if not 0 < scanned_inputs <= count:
        raise GraphError("there are not so many inputs to scan", seen=scanned_inputs, limit=f"1 to {count}")
    return count - scanned_inputs


@operator("Scan", since=9)
def scan(call: Call) -> tuple[Held, ...]:
    """Convert a scan, unrolled: a turn for every slice of its scanned inputs."""
    given = call.values()
    states = state_count(call, len(given))
    stacked = max(len(call.attribute("body").g.output) - states, 0)
    axes = one_for_each(call, "scan_input_axes", len(given) - states)
    backward = one_for_each(call, "scan_input_directions", len(given) - states)
    out_backward = one_for_each(call, "scan_output_directions", stacked)
    out_axes = one_for_each(call, "scan_output_axes", stacked)
    results = scanned(call, given, states, [0] * states + list(axes), backward, out_backward)
    if any(isinstance(one, Lost) for one in results):
        return (LOST,) * call.outputs
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
        raise GraphError(f"{name} has not a number for every tensor that is scanned", seen=len(listed), limit=count)
    return tuple(listed)


def scanned(
    call: Call,
    given: Sequence[Value],
    states: int,
    axes: Sequence[int],
    backward: Sequence[int],
    out_backward: Sequence[int],
) -> tuple[Held, ...]:
    """Return final states, and what every turn gives stacked along a first axis."""
    emit = call.emit
    body = call.attribute("body").g
    if len(axes) != len(given) or len(body.output) < states:
        raise GraphError("the inputs to scan, their axes and the body do not go together", seen=len(axes))
    rows = list(given[states:])
    along = [normalised_axis(axis, row.type.rank) for axis, row in zip(axes[states:], rows, strict=True)]
    turns = {row.type.shape[axis] for row, axis in zip(rows, along, strict=True)}
    if len(turns) != 1:
        raise GraphError("the inputs to scan have different lengths", seen=sorted(turns))
    variables: list[Held] = list(given[:states])
    stacked: list[list[Held]] = [[] for _ in range(len(body.output) - states)]
    (count,) = turns
    parts = [row.type.shape[:axis] + row.type.shape[axis + 1 :] for row, axis in zip(rows, along, strict=True)]
    for turn in range(count):
        slices: list[Held] = []
        for place, (row, axis) in enumerate(zip(rows, along, strict=True)):
            at = count - 1 - turn if place < len(backward) and backward[place] else turn
            slices.append(emit.reshape(emit.part(row, axis, at, at + 1), parts[place]))
        results = call.surroundings.run_body(body, (*variables, *slices))
        if any(isinstance(one, Lost) for one in results):
            return (LOST,) * call.outputs
        variables = list(results[:states])
        for values, one in zip(stacked, results[states:], strict=True):
            values.append(one)
    ordered = [
        values[::-1] if place < len(out_backward) and out_backward[place] else values
        for place, values in enumerate(stacked)
    ]
    # Without a turn the body is looked at with slices of which nothing is known.
    looked_at = [] if count else [unknown(call, part, row.type.dtype) for part, row in zip(parts, rows, strict=True)]
    return *variables, *stacks(call, ordered, body, (*variables, *looked_at))


def unknown(call: Call, shape: Sequence[int], dtype: str) -> Value:
    """Return a tensor of which only the type is known; no graph comes to have it."""
    return call.emit.apply("input", {}, shape=tuple(shape), dtype=dtype, name="slice")

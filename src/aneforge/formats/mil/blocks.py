"""Conditions and loops of a program, whose branches and bodies are blocks of statements: a graph has no blocks.

Where the condition is known when the program is read, one branch is read. Otherwise both are, and each result is chosen
(`cond` of the op table). A loop whose number of iterations is known when it is read is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aneforge.formats.mil.folding import fold_tensor
from aneforge.formats.mil.mil_values import Encoded, Known, State, describe_bound, get_known_value
from aneforge.formats.mil.text_rules import NO_GRAPH_FORM, PARAMETER_SORT, RESULT_COUNT, STATE_AS_TENSOR
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.errors import Location
    from aneforge.formats.mil.calls import Call
    from aneforge.formats.mil.mil_values import Bound
    from aneforge.formats.mil.syntax import Block
    from aneforge.graph.node import Value

__all__ = ["MOST_ITERATIONS", "read_condition", "write_out_loop"]

MOST_ITERATIONS = 4096
"""Iterations of a loop that is written out."""
Inline = Callable[["Block", "Sequence[Bound]"], "list[Bound]"]
"""Reads the statements of a block, given the values of its inputs, and returns what it gives."""


def read_condition(call: Call, place: Location, inline: Inline, states: list[State]) -> Sequence[Bound]:
    """Read a condition.

    Raises:
        MilError: A branch writes a state, or the branches do not give the same.
    """
    check_blocks(call)
    predicate = single(call, "pred")
    known = truth(predicate)
    if known is not None:
        return inline(call.statement.blocks[0 if known else 1], ())
    held = [state.held for state in states]
    yes, no = (inline(block, ()) for block in call.statement.blocks)
    if any(state.held is not before for state, before in zip(states, held, strict=True)):
        raise NO_GRAPH_FORM.broken(
            call.statement.op_at,
            op=call.name,
            found="a state that a branch writes",
            suggestion="write it after the condition",
        )
    if len(yes) != len(no):
        raise RESULT_COUNT.broken(
            call.statement.at, op=call.name, found=f"{len(no)} in the other branch", expected=f"{len(yes)} results"
        )
    operands: dict[str, Value | tuple[Value, ...]] = {
        "pred": as_value(call, predicate),
        "true_values": tuple(as_value(call, one) for one in yes),
        "false_values": tuple(as_value(call, one) for one in no),
    }
    node = new_node(find_op("cond"), dict(operands), {}, place)
    return [Tensor(node, index) for index in range(len(node.types))]


def write_out_loop(call: Call, inline: Inline) -> Sequence[Bound]:
    """Write a loop out.

    Raises:
        MilError: Its number of iterations is not known when it is read, or is too large.
    """
    check_blocks(call)
    parameter = call.given.get("loop_vars")
    carried = list(parameter.value) if parameter is not None and isinstance(parameter.value, tuple) else []
    condition, body = call.statement.blocks
    for _ in range(MOST_ITERATIONS):
        going = truth(only(call, inline(condition, carried)))
        if going is None:
            raise NO_GRAPH_FORM.broken(
                call.statement.op_at,
                op=call.name,
                found="a number of iterations that is known at run time only",
                expected="one that follows from constants and shapes",
                suggestion="write the loop with a fixed count",
            )
        if not going:
            return carried
        following = inline(body, carried)
        if len(following) != len(carried):
            found, expected = f"{len(following)} after an iteration", f"{len(carried)} values"
            raise RESULT_COUNT.broken(call.statement.at, op=call.name, found=found, expected=expected)
        carried = [settle(one) for one in following]
    raise NO_GRAPH_FORM.broken(
        call.statement.op_at,
        op=call.name,
        found=f"more than {MOST_ITERATIONS} iterations",
        suggestion="write it with fewer iterations",
    )


def check_blocks(call: Call) -> None:
    """Check that a condition or a loop has its two blocks.

    Raises:
        MilError: It has more or fewer.
    """
    count = len(call.statement.blocks)
    if count != 2:
        raise NO_GRAPH_FORM.broken(call.statement.op_at, op=call.name, found=f"{count} blocks", expected="2 blocks")


def only(call: Call, values: list[Bound]) -> Bound:
    """Return the one value that the condition of a loop gives."""
    if len(values) != 1:
        found = f"{len(values)} from the condition"
        raise RESULT_COUNT.broken(call.statement.at, op=call.name, found=found, expected="1 result")
    return values[0]


def single(call: Call, name: str) -> Bound:
    """Return a parameter that is one value.

    Raises:
        MilError: It is missing, or is several.
    """
    parameter = call.given.get(name)
    if parameter is None or isinstance(parameter.value, tuple):
        found = "nothing" if parameter is None else describe_bound(parameter.value)
        raise PARAMETER_SORT.broken(call.statement.op_at, name=name, op=call.name, found=found, expected="one value")
    return parameter.value


def truth(value: Bound) -> bool | None:
    """Return a boolean that is known when the program is read."""
    if isinstance(value, Known) and not value.is_text and not value.kind.rank:
        return bool(value.scalar())
    constant = fold_tensor(value) if isinstance(value, Tensor) else None
    return None if constant is None or constant.values.size != 1 else bool(constant.values.item())


def settle(value: Bound) -> Bound:
    """Return a value between two iterations; one that is known is from then on a constant, so that no chain grows."""
    constant = fold_tensor(value) if isinstance(value, Tensor) and value.type.size <= 1 else None
    if constant is None:
        return value
    return get_known_value(constant)


def as_value(call: Call, value: Bound) -> Value:
    """Return a value for a node.

    Raises:
        MilError: It is a text or a state.
    """
    match value:
        case Tensor():
            return value
        case Encoded():
            return value.constant
        case State():
            raise STATE_AS_TENSOR.broken(
                call.statement.op_at, name=value.name, op=call.name, found=describe_bound(value), expected="a tensor"
            )
        case Known() if value.is_text:
            raise PARAMETER_SORT.broken(
                call.statement.op_at, name="of a branch", op=call.name, found=describe_bound(value), expected="a tensor"
            )
        case _:
            return value.constant()

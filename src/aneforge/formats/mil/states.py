"""States of a MIL function: read at any point, written at any point, each time as the statements follow one another.

A graph reads a state at its start and writes it at its end. So a state is here what it holds at the point that is
read; what it holds after the last statement is what the graph writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.formats.mil.mil_values import State, describe_bound
from aneforge.formats.mil.syntax import ValueType
from aneforge.formats.mil.text_rules import MISSING_PARAMETER, NOT_A_STATE, STATE_DATA
from aneforge.graph.node import new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.signature import Operand
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.errors import Location
    from aneforge.formats.mil.calls import Call
    from aneforge.graph.node import Value
    from aneforge.ops.constant import Constant

__all__ = ["as_tensor", "find_written_unread", "read_state", "write_state"]

DATA = Operand("data")


def read_state(call: Call) -> list[Tensor]:
    """Return what a state holds.

    Raises:
        MilError: It is not a state.
    """
    return [state_of(call).held]


def write_state(call: Call, place: Location) -> list[Tensor]:
    """Write a state; the operation may give what was written.

    Raises:
        MilError: It is not a state, or what is written is not of its type.
    """
    state = state_of(call)
    data = cast("Value", call.operand(DATA))
    if data.type != state.kind:
        found, expected = ValueType.of(data.type), ValueType.of(state.kind)
        at = call.given["data"].at
        raise STATE_DATA.broken(at, name=state.name, op=call.name, found=found, expected=expected)
    state.held = data if isinstance(data, Tensor) else as_tensor(cast("Constant", data), place)
    state.written = True
    return [state.held]


def state_of(call: Call) -> State:
    """Return the state that an operation reads or writes."""
    call.check_names()
    parameter = call.given.get("input")
    if parameter is None:
        raise MISSING_PARAMETER.broken(call.statement.op_at, name="input", op=call.name, expected="input = state")
    if not isinstance(parameter.value, State):
        found = describe_bound(parameter.value)
        raise NOT_A_STATE.broken(parameter.at, name="input", op=call.name, found=found, expected="a state")
    return parameter.value


def as_tensor(constant: Constant, place: Location) -> Tensor:
    """Return a constant as a value of the graph, which outputs and states are."""
    return Tensor(new_node(find_op("identity"), {"x": constant}, {}, place))


def find_written_unread(state: State) -> Tensor:
    """Return what a state is written that nothing reads, in a form that reads it; a graph reads what it writes.

    Such a form is written as an identity, which is therefore taken out when it is read.
    """
    node = state.held.node
    data = node.operands["x"] if node.op.name == "identity" else state.held
    return Tensor(new_node(find_op("write_state"), {"input": state.placeholder, "data": data}, {}, node.location))

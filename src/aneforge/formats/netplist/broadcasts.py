"""Broadcasts of constants that are read, left to the operations that read them.

Elementwise units take tensors of one shape, so a description spells every broadcast out. Operations of a graph
broadcast by themselves, and the compiler knows a gain or an offset by a constant that differs only along the channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.op import Trait
from aneforge.ops.shapes import broadcast
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.graph.node import Argument, Value

__all__ = ["leave_out_broadcasts"]


Operands = Mapping[str, "Argument | None"]


def leave_out_broadcasts(op: str, operands: Operands) -> Operands:
    """Return what an operation reads: an elementwise one the constants that were broadcast to it, if its result stays.

    >>> import numpy as np
    >>> import aneforge as af
    >>> from aneforge.graph.node import build
    >>> from aneforge.ops.constant import Dense
    >>> gain = Dense(np.ones((3, 1), np.float16))
    >>> repeated = af.Tensor(build("broadcast", {"x": gain}, {"shape": (3, 4)}))
    >>> leave_out_broadcasts("mul", {"x": af.input((3, 4)), "y": repeated})["y"] is gain
    True
    """
    if len(operands) < 2 or Trait.ELEMENTWISE not in find_op(op).traits:  # of a single one the result would shrink
        return operands
    given = cast("Mapping[str, Value]", operands)  # elementwise operations have no lists, and none is left out
    direct = {name: constant_before(value) for name, value in given.items()}
    if all(direct[name] is value for name, value in given.items()):
        return operands
    before, after = (broadcast(*(value.type for value in values.values())) for values in (given, direct))
    return direct if after == before else operands


def constant_before(value: Value) -> Value:
    """Return the constant that a value is a broadcast of, and any other value as it is."""
    if isinstance(value, Output) and value.node.op.name == "broadcast":
        source = value.node.operands["x"]
        return source if isinstance(source, Constant) else value
    return value

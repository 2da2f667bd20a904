"""What all methods share: an operation applied to this tensor, and arrays taken in as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import Node, Output, build, users_location
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument

__all__ = ["BUILDER_MAX_RANK", "Methods", "build_checked", "weight"]

BUILDER_MAX_RANK = 5
"""The builder makes no tensor of a higher rank, whatever the target: the documented API refuses it at construction."""
WEIGHT_TYPES = ("float16", "float32", "float64")


def build_checked(op: str, operands: Mapping[str, Argument | None], **attributes: object) -> Node:
    """Return a new node of the builder's: like `build`, and no result may have more axes than the engine takes.

    Raises:
        GraphError: The operands or attributes do not fit the operation, or a result has too many axes.
    """
    node = build(op, operands, attributes)
    for result in node.types:
        if result.rank > BUILDER_MAX_RANK:
            raise GraphError(
                f"a tensor of shape {list(result.shape)} has too many axes",
                operation=op,
                location=node.location,
                seen=result.rank,
                limit=BUILDER_MAX_RANK,
                remedy="merge axes with reshape",
            )
    return node


def weight(values: object, what: str = "weight") -> Constant:
    """Return an array of weights as a constant in fp16, the type in which the engine holds them.

    Raises:
        GraphTypeError: It is not an array of float16, float32 or float64.
    """
    if isinstance(values, Constant):
        return values
    array = np.asarray(values)
    if str(array.dtype) not in WEIGHT_TYPES:
        raise GraphTypeError(
            f"{what} is not an array of floating-point numbers",
            location=users_location(),
            seen=str(array.dtype),
            limit=", ".join(WEIGHT_TYPES),
            remedy="convert it with astype(numpy.float16)",
        )
    with np.errstate(over="ignore"):
        return Dense(array.astype(np.float16))


class Methods(Output):
    """A tensor to which operations can be applied."""

    __slots__ = ()

    def apply(self, op: str, operands: Mapping[str, Argument | None] | None = None, **attributes: object) -> Self:
        """Return the first result of an operation on this tensor."""
        return type(self)(build_checked(op, {"x": self, **(operands or {})}, **attributes))

    def constant_or_tensor(self, value: object) -> Output | Constant:
        """Return an operand: a tensor as it is, a number or an array as a constant in fp16."""
        if isinstance(value, Output | Constant):
            return value
        if isinstance(value, bool | str) or value is None:
            raise GraphTypeError(
                "an operand is neither a tensor, a number nor an array", location=users_location(), seen=repr(value)
            )
        return weight(np.asarray(value, np.float64) if isinstance(value, int) else value, "operand")

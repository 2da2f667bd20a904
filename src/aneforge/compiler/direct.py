"""The direct route of the two oldest families: what reshape, broadcast and division become there.

Those engines have no native reshape, broadcast or divide. A reshape runs if it is a flatten; a broadcast is a product
with ones along the channels and an addition of zeros along other axes; a division is a product with a reciprocal that
was rounded to fp16 beforehand, so a floor-division rounds twice and can miss by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.forms import Form, Made, tensor_operand
from aneforge.errors import NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.types import Array

__all__ = ["DIRECT_FORMS"]

CHANNEL_AXIS = 1
NOT_A_FLATTEN = "cannot be lowered as Flatten on ANE"
"""The compiler's own text for squeeze and expand_dims."""
FP16_BROADCASTS = "Only fp16 is supported"
"""The beginning of the compiler's own text for a broadcast of another type."""


def flatten_or_abort(node: Node, operands: Mapping[str, Argument], _: int) -> Made | None:
    """Keep a reshape that is a flatten, and refuse any other.

    Raises:
        NotSupportedError: The layout does not collapse to a flatten.
    """
    before, after = tensor_operand(node, operands, "x").shape, node.types[0].shape
    if before == after or is_flatten(before, after):
        return Made([Tensor(build("reshape", dict(operands), {"shape": after}, node.location))], "a flatten")
    text = NOT_A_FLATTEN if node.op.name in ("squeeze", "expand_dims") else "does not collapse to a flatten"
    raise NotSupportedError(
        f"{text} (verifyCompatibilityWithFlatten)",
        operation=node.op.name,
        location=node.location,
        seen=f"{list(before)} to {list(after)}",
        limit="the batch, then all other elements along one axis",
    )


def is_flatten(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Tell whether a reshape keeps the batch and lays all other elements along one axis.

    >>> is_flatten((2, 3, 4, 5), (2, 60)), is_flatten((2, 3, 4, 5), (2, 60, 1, 1)), is_flatten((2, 3, 4), (2, 4, 3))
    (True, True, False)
    """
    if not before or not after or before[0] != after[0]:
        return False
    return sum(extent != 1 for extent in after[1:]) <= 1


def explicit_broadcast(node: Node, operands: Mapping[str, Argument], _: int) -> Made | None:
    """Make the broadcasts of a pair operations of their own.

    Raises:
        NotSupportedError: The elements are not fp16.
    """
    wanted = node.types[0].shape
    pair = {name: value for name, value in operands.items() if not isinstance(value, tuple)}
    if all(value.type.shape == wanted for value in pair.values()):
        return None
    spread = {name: broadcast_to(node, value, wanted) for name, value in pair.items()}
    result = Tensor(build(node.op, spread, node.attributes, node.location))
    return Made([result], "broadcasts as products with ones (channels) and additions of zeros (other axes)")


def broadcast_to(node: Node, value: Value, wanted: tuple[int, ...]) -> Value:
    """Return a value in a larger shape; constants are spread beforehand."""
    if value.type.shape == wanted:
        return value
    if value.type.dtype != "fp16":
        raise NotSupportedError(
            f"{FP16_BROADCASTS} for broadcasts here",
            operation=node.op.name,
            location=node.location,
            seen=value.type.dtype,
            limit="fp16",
        )
    if isinstance(value, Constant):
        return Dense(np.ascontiguousarray(np.broadcast_to(value.dense(), wanted)))
    tensor = Tensor(value.node, value.index)
    if len(tensor.shape) == len(wanted) == 4 and tensor.shape[CHANNEL_AXIS] == 1 != wanted[CHANNEL_AXIS]:
        ones = Dense(np.ones((wanted[CHANNEL_AXIS], 1, 1, 1), np.float16))
        tensor = Tensor(build("conv", {"x": tensor, "weight": ones}, {}, node.location))
    if tensor.shape == wanted:
        return tensor
    zeros = Dense(np.zeros(wanted, np.float16))
    return Tensor(build("add", {"x": tensor, "y": zeros}, {}, node.location))


def reciprocal_product(node: Node, operands: Mapping[str, Argument], _: int) -> Made:
    """Rebuild a division by a constant: a product with its reciprocal, rounded to fp16 beforehand."""
    x = tensor_operand(node, operands, "x")
    product = Tensor(build("mul", {"x": x, "y": Dense(reciprocal(node, operands))}, {}, node.location))
    return Made([product], "a product with the reciprocal, rounded to fp16 beforehand")


def floored_reciprocal_product(node: Node, operands: Mapping[str, Argument], count: int) -> Made:
    """Rebuild a floor-division by a constant: it rounds twice, so 5 // 5 is 0."""
    (product,) = reciprocal_product(node, operands, count).results
    floored = Tensor(build("floor", {"x": product}, {}, node.location))
    return Made([floored], "the floor of a product with the rounded reciprocal: whole quotients can be one too small")


def reciprocal(node: Node, operands: Mapping[str, Argument]) -> Array:
    """Return 1 over a constant divisor, rounded to fp16.

    Raises:
        NotSupportedError: The divisor is not a constant of fp16.
    """
    divisor = operands["y"]
    if not isinstance(divisor, Constant) or divisor.type.dtype != "fp16":
        seen = divisor.type if isinstance(divisor, Constant) else "a tensor computed at run time"
        raise NotSupportedError(
            "a divisor must be a constant of fp16 here",
            operation=node.op.name,
            location=node.location,
            seen=seen,
            remedy="multiply by inverse",
        )
    with np.errstate(divide="ignore"):
        return (1 / divisor.dense().astype(np.float64)).astype(np.float16)


RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten2d")
PAIRS = ("add", "sub", "mul", "maximum", "minimum", "pow")
DIRECT_FORMS: dict[str, Form] = {
    **dict.fromkeys(RESHAPES, flatten_or_abort),
    **dict.fromkeys(PAIRS, explicit_broadcast),
    "real_div": reciprocal_product,
    "floor_div": floored_reciprocal_product,
}

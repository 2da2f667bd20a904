"""Comparisons, logic on their results, and the choice that they steer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.forms import binary, comparison, unary
from aneforge.ops.op import Basis, Op, Support, Surface
from aneforge.ops.sampling import Chooser, Fill, Sample, broadcast_pair
from aneforge.ops.shapes import broadcast, common_dtype
from aneforge.ops.signature import Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

CATEGORY = "compare and logic"
LIKELY_F0 = Support(floor=0, basis=Basis.LIKELY)
NOWHERE = Support(floor=None, mil_since=None)


def expect_bool(tensor: TensorType, what: str) -> None:
    """Check that a tensor holds truth values.

    Raises:
        GraphError: It does not.
    """
    if tensor.dtype != "bool":
        raise GraphError(f"{what} does not hold bool", seen=tensor.dtype, remedy="compare it with 0 by not_equal")


def compared_type(x: TensorType, y: TensorType) -> TensorType:
    """Return bool in the common shape; both sides must have one element type."""
    common_dtype(x, y)
    return TensorType(broadcast(x, y), "bool")


def negated_type(x: TensorType) -> TensorType:
    """Return the type of x, which must hold bool."""
    expect_bool(x, "x")
    return x


def joined_type(x: TensorType, y: TensorType) -> TensorType:
    """Return bool in the common shape; both sides must hold bool."""
    expect_bool(x, "x")
    expect_bool(y, "y")
    return TensorType(broadcast(x, y), "bool")


def select_type(cond: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """Return the common shape of all three with the element type of a and b."""
    expect_bool(cond, "cond")
    return TensorType(broadcast(cond, a, b), common_dtype(a, b))


def sample_select(chooser: Chooser) -> Sample:
    """Draw three shapes that broadcast to one another, in any of the three places."""
    first, second = broadcast_pair(chooser)
    third = tuple(chooser.choose([extent, 1]) for extent in np.broadcast_shapes(first, second))
    shapes = chooser.choose([(first, second, third), (second, third, first), (third, first, second)])
    dtype = chooser.choose(["fp16", "fp32", "int32", "bool"])
    types = (TensorType(one, kind) for one, kind in zip(shapes, ("bool", dtype, dtype), strict=True))
    return Sample({name: Fill(one) for name, one in zip(("cond", "a", "b"), types, strict=True)})


def compare(name: str, summary: str, meaning: Callable[..., Array]) -> Op:
    """Return a comparison of tensors of one element type."""
    return replace(comparison(name, summary, meaning, surface=Surface.FUSED), infer=compared_type)


def join(name: str, summary: str, meaning: Callable[..., Array]) -> Op:
    """Return a logical operation on pairs; no family runs one."""
    return replace(binary(name, CATEGORY, summary, meaning, dtypes=("bool",), support=NOWHERE), infer=joined_type)


EQUAL = compare("equal", "x = y", np.equal)
NOT_EQUAL = compare("not_equal", "x ≠ y", np.not_equal)
GREATER = compare("greater", "x > y", np.greater)
GREATER_EQUAL = compare("greater_equal", "x ≥ y", np.greater_equal)
LESS = compare("less", "x < y", np.less)
LESS_EQUAL = compare("less_equal", "x ≤ y", np.less_equal)

LOGICAL_NOT = replace(
    unary("logical_not", CATEGORY, "not x", np.logical_not, dtypes=("bool",), surface=Surface.FUSED, support=LIKELY_F0),
    infer=negated_type,
)
LOGICAL_AND = join("logical_and", "x and y", np.logical_and)
LOGICAL_OR = join("logical_or", "x or y", np.logical_or)
LOGICAL_XOR = join("logical_xor", "x or y, not both", np.logical_xor)

SELECT = Op(
    name="select",
    category=CATEGORY,
    summary="a where cond holds, else b",
    operands=(Operand("cond"), Operand("a"), Operand("b")),
    infer=select_type,
    meaning=np.where,
    sample=sample_select,
    surface=Surface.FUSED,
    support=LIKELY_F0,
)

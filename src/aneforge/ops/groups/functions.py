"""Functions of one element: powers and logarithms of e and 2, the error function, sign and rounding."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.forms import Domain, unary
from aneforge.ops.op import Basis, Op, Support, Surface
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue

if TYPE_CHECKING:
    from aneforge.ops.sampling import Chooser
    from aneforge.ops.types import Array, TensorType

CATEGORY = "activation"
F2 = Support(floor=2)
LIKELY_F2 = Support(floor=2, basis=Basis.LIKELY)

error_function = np.vectorize(math.erf, otypes=[np.float64])


def some_epsilon(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw what is added before the logarithm."""
    return {"epsilon": chooser.choose([0.0, 1e-3, 1.0])}


def logarithm(x: Array, epsilon: float) -> Array:
    """Return the natural logarithm, epsilon added first."""
    return np.log(x + epsilon)


def rounded_up(x: Array) -> Array:
    """Return the next whole number at or above; whole numbers stay as they are."""
    return np.ceil(x) if np.issubdtype(x.dtype, np.floating) else x


def rounded_down(x: Array) -> Array:
    """Return the next whole number at or below; whole numbers stay as they are."""
    return np.floor(x) if np.issubdtype(x.dtype, np.floating) else x


def rounded(x: Array) -> Array:
    """Return the nearest whole number, the even one of two equally near; whole numbers stay as they are."""
    return np.rint(x) if np.issubdtype(x.dtype, np.floating) else x


def number_type(x: TensorType) -> TensorType:
    """Return the type of x, which must hold numbers of any sort."""
    if x.dtype == "bool":
        raise GraphError("x does not hold numbers", seen=x.dtype, remedy="cast it to fp16")
    return x


def of_any_number(op: Op) -> Op:
    """Return an operation that takes whole numbers too, and no bool."""
    return replace(op, infer=number_type)


ANY_NUMBER = ("fp16", "fp32", "int32")

ERF = unary("erf", CATEGORY, "2/√π · ∫ e^(−t²) dt from 0 to x", error_function, surface=Surface.FUSED, support=F2)
EXP = unary("exp", CATEGORY, "eˣ", np.exp, domain=Domain(-12, 10), surface=Surface.FUSED, support=LIKELY_F2)
EXP2 = unary("exp2", CATEGORY, "2ˣ", np.exp2, domain=Domain(-12, 12), surface=Surface.FUSED, support=F2)
LOG = unary(
    "log",
    CATEGORY,
    "the natural logarithm of x + epsilon",
    logarithm,
    attributes=(Attribute("epsilon", AttributeKind.NUMBER, 0.0),),
    domain=Domain(0.01, 9, some_epsilon),
    surface=Surface.FUSED,
    support=LIKELY_F2,
)
SIGN = of_any_number(
    unary("sign", CATEGORY, "−1, 0 or 1", np.sign, dtypes=ANY_NUMBER, surface=Surface.FUSED, support=F2)
)
CEIL = of_any_number(unary("ceil", CATEGORY, "⌈x⌉", rounded_up, dtypes=ANY_NUMBER, surface=Surface.FUSED, support=F2))
FLOOR = of_any_number(
    unary("floor", CATEGORY, "⌊x⌋", rounded_down, dtypes=ANY_NUMBER, surface=Surface.FUSED, support=F2)
)
ROUND = of_any_number(
    unary(
        "round",
        CATEGORY,
        "the whole number nearest to x, the even one of two",
        rounded,
        dtypes=ANY_NUMBER,
        surface=Surface.FUSED,
        support=F2,
    )
)

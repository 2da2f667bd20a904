"""Arithmetic on every element by itself, and on pairs of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.forms import Domain, binary, unary
from aneforge.ops.op import Category, Surface
from aneforge.ops.sampling import FLOATS, NUMBERS
from aneforge.ops.signature import Attribute, AttributeKind
from aneforge.ops.supports import F2, LIKELY_F0, NOWHERE

if TYPE_CHECKING:
    from aneforge.ops.types import Array

CATEGORY = Category.ELEMENTWISE
EPSILON = Attribute("epsilon", AttributeKind.NUMBER, 0.0)


def real_quotient(x: Array, y: Array) -> Array:
    """Divide; whole numbers divide towards zero, as MIL does it, and give 0 where the divisor is 0."""
    if np.issubdtype(x.dtype, np.floating):
        return x / y
    safe = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))
    return np.where(y == 0, 0, quotient).astype(x.dtype)


def floor_quotient(x: Array, y: Array) -> Array:
    """Divide and round down; whole numbers give 0 where the divisor is 0."""
    if np.issubdtype(x.dtype, np.floating):
        return np.floor(x / y)
    return np.where(y == 0, 0, x // np.where(y == 0, 1, y)).astype(x.dtype)


def remainder(x: Array, y: Array) -> Array:
    """Return what rounding the quotient down leaves; it has the sign of the divisor."""
    if np.issubdtype(x.dtype, np.floating):
        return np.mod(x, y)
    return np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y))).astype(x.dtype)


def reciprocal_root(x: Array, epsilon: float) -> Array:
    """Return 1 over the root, epsilon added first."""
    return 1 / np.sqrt(x + epsilon)


def reciprocal(x: Array, epsilon: float) -> Array:
    """Return 1 over the value, epsilon added first."""
    return 1 / (x + epsilon)


def times(x: Array, k: float) -> Array:
    """Multiply by a number."""
    return x * k


def plus(x: Array, k: float) -> Array:
    """Add a number."""
    return x + k


ABS = unary("abs", CATEGORY, "|x|", np.abs, dtypes=NUMBERS, surface=Surface.FUSED)
SQUARE = unary("square", CATEGORY, "x²", np.square, dtypes=NUMBERS, surface=Surface.FUSED)
SQRT = unary("sqrt", CATEGORY, "√x", np.sqrt, domain=Domain(0, 9), surface=Surface.FUSED, support=F2)
RSQRT = unary(
    "rsqrt",
    CATEGORY,
    "1 / √(x + epsilon)",
    reciprocal_root,
    attributes=(EPSILON,),
    domain=Domain(0.1, 9, lambda chooser: {"epsilon": chooser.choose([0.0, 1e-3])}),
    surface=Surface.FUSED,
    support=F2,
)
INVERSE = unary(
    "inverse",
    CATEGORY,
    "1 / (x + epsilon)",
    reciprocal,
    attributes=(EPSILON,),
    domain=Domain(0.1, 9, lambda chooser: {"epsilon": chooser.choose([0.0, 1e-4])}),
    surface=Surface.FUSED,
    support=LIKELY_F0,
)
MULS = unary(
    "muls",
    CATEGORY,
    "x · k for a number k",
    times,
    attributes=(Attribute("k", AttributeKind.NUMBER),),
    domain=Domain(attributes=lambda chooser: {"k": chooser.choose([0.0, -1.5, 3.0])}),
    surface=Surface.FUSED,
    mil="mul",
    catalogued=False,
)
ADDS = unary(
    "adds",
    CATEGORY,
    "x + k for a number k",
    plus,
    attributes=(Attribute("k", AttributeKind.NUMBER),),
    domain=Domain(attributes=lambda chooser: {"k": chooser.choose([0.0, -1.5, 3.0])}),
    surface=Surface.FUSED,
    mil="add",
    catalogued=False,
)

ADD = binary("add", CATEGORY, "x + y", np.add, surface=Surface.FUSED)
SUB = binary("sub", CATEGORY, "x − y", np.subtract, surface=Surface.FUSED)
MUL = binary("mul", CATEGORY, "x · y", np.multiply, surface=Surface.FUSED)
MAXIMUM = binary("maximum", CATEGORY, "the larger of x and y", np.maximum, surface=Surface.FUSED)
MINIMUM = binary("minimum", CATEGORY, "the smaller of x and y", np.minimum, surface=Surface.FUSED)
REAL_DIV = binary("real_div", CATEGORY, "x / y", real_quotient, surface=Surface.FUSED, support=LIKELY_F0)
FLOOR_DIV = binary("floor_div", CATEGORY, "⌊x / y⌋", floor_quotient, support=LIKELY_F0)
MOD = binary("mod", CATEGORY, "x − y · ⌊x / y⌋", remainder, support=NOWHERE)
POW = binary("pow", CATEGORY, "x to the power y", np.power, domain=Domain(0.1, 3), dtypes=FLOATS, surface=Surface.FUSED)

"""Functions of one element: powers and logarithms of e and 2, the error function, sign and rounding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np, numpy_function
from aneforge.ops import gradients
from aneforge.ops.common import F2, LIKELY_F2, epsilon_attribute
from aneforge.ops.forms import Domain, unary
from aneforge.ops.op import Category, Surface, Trait
from aneforge.ops.results import FROM_ZERO, WITHIN_ONE
from aneforge.ops.sampling import NUMBERS, Chooser

if TYPE_CHECKING:
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import Array

CATEGORY = Category.ACTIVATION
ROUNDING = frozenset({Trait.ROUNDING, Trait.UNROUNDED})


def error_function(x: Array) -> Array:
    """Return 2 / √π · ∫ e^(−t²) dt from 0 to x; NumPy has no function for it."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def draw_epsilon(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw what is added before the logarithm."""
    return {"epsilon": chooser.choose([0.0, 1e-3, 1.0])}


def logarithm(x: Array, epsilon: float) -> Array:
    """Return the natural logarithm, epsilon added first."""
    return np.log(x + epsilon)


def rounded_up(x: Array) -> Array:
    """Return the next integer at or above; integers stay as they are."""
    return np.ceil(x) if np.issubdtype(x.dtype, np.floating) else x


def rounded_down(x: Array) -> Array:
    """Return the next integer at or below; integers stay as they are."""
    return np.floor(x) if np.issubdtype(x.dtype, np.floating) else x


def rounded(x: Array) -> Array:
    """Return the nearest integer, the even one of two equally near; integers stay as they are."""
    return np.rint(x) if np.issubdtype(x.dtype, np.floating) else x


ERF = unary(
    "erf",
    CATEGORY,
    "2 / √π · ∫ e^(−t²) dt from 0 to x",
    error_function,
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.ERF,
)
EXP = unary(
    "exp",
    CATEGORY,
    "eˣ",
    numpy_function("exp"),
    domain=Domain(-12, 10),
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.EXP,
)
EXP2 = unary(
    "exp2",
    CATEGORY,
    "2ˣ",
    numpy_function("exp2"),
    domain=Domain(-12, 12),
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.EXP2,
)
LOG = unary(
    "log",
    CATEGORY,
    "the natural logarithm of x + epsilon",
    logarithm,
    attributes=(epsilon_attribute(1e-45),),
    domain=Domain(0.01, 9, draw_epsilon),
    surface=Surface.FUSED,
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.LOG,
)
LOG2 = unary(
    "log2",
    CATEGORY,
    "log₂ x",
    numpy_function("log2"),
    domain=Domain(0.1, 9),
    support=F2,
    catalogued=False,
    in_mil=False,
    gradient=lambda: gradients.pointwise.LOG2,
)
SIGN = unary(
    "sign",
    CATEGORY,
    "−1, 0 or 1",
    numpy_function("sign"),
    dtypes=NUMBERS,
    traits=frozenset({Trait.COMPARING, Trait.UNROUNDED}),
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS,
)
CEIL = unary(
    "ceil",
    CATEGORY,
    "⌈x⌉",
    rounded_up,
    dtypes=NUMBERS,
    traits=ROUNDING,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS,
)
FLOOR = unary(
    "floor",
    CATEGORY,
    "⌊x⌋",
    rounded_down,
    dtypes=NUMBERS,
    traits=ROUNDING,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS,
)
ROUND = unary(
    "round",
    CATEGORY,
    "the integer nearest to x, the even one of two",
    rounded,
    dtypes=NUMBERS,
    traits=ROUNDING,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS,
)

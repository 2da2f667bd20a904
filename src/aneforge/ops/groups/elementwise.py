"""Arithmetic on every element by itself, and on pairs of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np, numpy_function
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import wide
from aneforge.ops.common import DECOMPOSED, F2, LIKELY_F0, epsilon_attribute
from aneforge.ops.forms import Domain, binary, unary
from aneforge.ops.op import Category, Surface, Trait
from aneforge.ops.results import EVERYTHING, FROM_ZERO, Codomain, Movement, Taking
from aneforge.ops.sampling import NUMBERS
from aneforge.ops.signature import Attribute, AttributeKind

if TYPE_CHECKING:
    from aneforge.ops.types import Array

CATEGORY = Category.ELEMENTWISE
EXTREME = frozenset({Trait.EXTREME})
MASKING = frozenset({Trait.MASKING})
CHOSEN_OF_TWO = Movement(("x", "y"), taking=Taking.CHOSEN)


def real_quotient(x: Array, y: Array) -> Array:
    """Divide; integers divide towards zero, as MIL does it, and give 0 where the divisor is 0."""
    if np.issubdtype(x.dtype, np.floating):
        return x / y
    safe = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))
    return np.where(y == 0, 0, quotient).astype(x.dtype)


def floor_quotient(x: Array, y: Array) -> Array:
    """Divide and round down; integers give 0 where the divisor is 0."""
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
    return 1 / np.sqrt(shifted(x, epsilon))


def reciprocal_root_codomain(epsilon: float) -> Codomain:
    """Return the interval of 1 over the root: without an epsilon that of −0 is −∞."""
    return FROM_ZERO if epsilon else EVERYTHING


def reciprocal(x: Array, epsilon: float) -> Array:
    """Return 1 over the value, epsilon added first."""
    return 1 / shifted(x, epsilon)


def shifted(x: Array, epsilon: float) -> Array:
    """Add epsilon; nothing is added where it is 0, which would take the sign off a negative zero."""
    return x + epsilon if epsilon else x


def power(x: Array, y: Array) -> Array:
    """Raise to a power.

    Integers wrap around in their own type. Those to a negative power are a quotient, cut towards zero as all are:
    only 1 and −1 leave something.
    """
    if np.issubdtype(x.dtype, np.floating):
        return np.power(x, y)
    negative = y < 0
    # Products of 64 bits without sign have the low bits of any others, and NumPy raises them to every power.
    raised = np.power(wide(x).astype(np.uint64), np.where(negative, 0, wide(y)).astype(np.uint64)).astype(x.dtype)
    ones = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (wide(y) % 2), 0))
    return np.where(negative, ones, raised).astype(x.dtype)


def times(x: Array, k: float) -> Array:
    """Multiply by a number."""
    return x * k


def plus(x: Array, k: float) -> Array:
    """Add a number."""
    return x + k


ABS = unary(
    "abs",
    CATEGORY,
    "|x|",
    numpy_function("abs"),
    dtypes=NUMBERS,
    traits=frozenset({Trait.BOUNDING, Trait.SHRINKING, Trait.UNROUNDED}),
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.ABS,
)
SQUARE = unary(
    "square",
    CATEGORY,
    "x²",
    numpy_function("square"),
    dtypes=NUMBERS,
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SQUARE,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SQUARE,
)
SQRT = unary(
    "sqrt",
    CATEGORY,
    "√x",
    numpy_function("sqrt"),
    domain=Domain(0, 9),
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.SQRT,
)
RSQRT = unary(
    "rsqrt",
    CATEGORY,
    "1 / √(x + epsilon)",
    reciprocal_root,
    attributes=(epsilon_attribute(1e-12),),
    domain=Domain(0.1, 9, lambda chooser: {"epsilon": chooser.choose([0.0, 1e-3])}),
    codomain=reciprocal_root_codomain,
    surface=Surface.FUSED,
    support=F2,
    decompositions=lambda: (decompositions.activations.EPSILON_BEFORE,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.RSQRT,
)
INVERSE = unary(
    "inverse",
    CATEGORY,
    "1 / (x + epsilon)",
    reciprocal,
    attributes=(epsilon_attribute(1e-4),),
    domain=Domain(0.1, 9, lambda chooser: {"epsilon": chooser.choose([0.0, 1e-4])}),
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.EPSILON_BEFORE,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.INVERSE,
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
    in_mil=True,
    gradient=lambda: gradients.pointwise.MULS,
)
ADDS = unary(
    "adds",
    CATEGORY,
    "x + k for a number k",
    plus,
    attributes=(Attribute("k", AttributeKind.NUMBER),),
    domain=Domain(attributes=lambda chooser: {"k": chooser.choose([0.0, -1.5, 3.0])}),
    traits=MASKING,
    surface=Surface.FUSED,
    mil="add",
    catalogued=False,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
)

ADD = binary(
    "add",
    CATEGORY,
    "x + y",
    numpy_function("add"),
    traits=MASKING,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ADD,
)
SUB = binary(
    "sub",
    CATEGORY,
    "x − y",
    numpy_function("subtract"),
    traits=MASKING,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SUB,
)
MUL = binary(
    "mul",
    CATEGORY,
    "x · y",
    numpy_function("multiply"),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.MUL,
)
MAXIMUM = binary(
    "maximum",
    CATEGORY,
    "the larger of x and y",
    numpy_function("maximum"),
    traits=EXTREME,
    movement=CHOSEN_OF_TWO,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.MAXIMUM,
)
MINIMUM = binary(
    "minimum",
    CATEGORY,
    "the smaller of x and y",
    numpy_function("minimum"),
    traits=EXTREME,
    movement=CHOSEN_OF_TWO,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.MINIMUM,
)
REAL_DIV = binary(
    "real_div",
    CATEGORY,
    "x / y",
    real_quotient,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.REAL_DIV, decompositions.activations.REAL_DIV_BY_RECIPROCAL),
    in_mil=True,
    gradient=lambda: gradients.pointwise.REAL_DIV,
)
FLOOR_DIV = binary(
    "floor_div",
    CATEGORY,
    "⌊x / y⌋",
    floor_quotient,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.FLOOR_DIV, decompositions.activations.FLOOR_DIV_BY_RECIPROCAL),
    in_mil=True,
    gradient=lambda: gradients.pointwise.STEPS_OF_TWO,
)
MOD = binary(
    "mod",
    CATEGORY,
    "x − y · ⌊x / y⌋",
    remainder,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.remainders.LONG_DIVISION,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.MOD,
)
POW = binary(
    "pow",
    CATEGORY,
    "x to the power y",
    power,
    domain=Domain(0.1, 3),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SPREAD_FIRST,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.POW,
)

"""Circular and hyperbolic functions and their inverses; angles are in radians.

The hyperbolic tangent is an activation and is listed with those.
"""

from __future__ import annotations

import math

from aneforge.arrays import numpy_function
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import DECOMPOSED, F2
from aneforge.ops.forms import Domain, unary
from aneforge.ops.op import Below, Category, Support, Surface, Trait
from aneforge.ops.results import FROM_ZERO, WITHIN_ONE, Codomain, around_zero

CATEGORY = Category.TRIGONOMETRY
F4 = Support(floor=4, below=Below.DECOMPOSE, mil_since=4)
"""Below its floor MIL is given a polynomial."""
WIDE = Domain(-9, 9)
UNIT = Domain(-1, 1)
SHRINKING = frozenset({Trait.SHRINKING})
RIGHT_ANGLE = around_zero(math.pi / 2)

SIN = unary(
    "sin",
    CATEGORY,
    "sin x",
    numpy_function("sin"),
    domain=WIDE,
    traits=SHRINKING,
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    support=F4,
    decompositions=lambda: (decompositions.trigonometry.SINE_BY_POLYNOMIAL,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SIN,
)
COS = unary(
    "cos",
    CATEGORY,
    "cos x",
    numpy_function("cos"),
    domain=WIDE,
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    support=F4,
    decompositions=lambda: (decompositions.trigonometry.COSINE_BY_POLYNOMIAL,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.COS,
)
ATAN = unary(
    "atan",
    CATEGORY,
    "arctan x",
    numpy_function("arctan"),
    domain=WIDE,
    traits=SHRINKING,
    codomain=RIGHT_ANGLE,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.ATAN,
)

TAN = unary(
    "tan",
    CATEGORY,
    "tan x",
    numpy_function("tan"),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.TAN,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.TAN,
)
ASIN = unary(
    "asin",
    CATEGORY,
    "arcsin x",
    numpy_function("arcsin"),
    domain=UNIT,
    codomain=RIGHT_ANGLE,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.ASIN,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ASIN,
)
ACOS = unary(
    "acos",
    CATEGORY,
    "arccos x",
    numpy_function("arccos"),
    domain=UNIT,
    codomain=Codomain(0.0, math.pi),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.ACOS,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ACOS,
)
SINH = unary(
    "sinh",
    CATEGORY,
    "(eˣ − e⁻ˣ) / 2",
    numpy_function("sinh"),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.SINH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SINH,
)
COSH = unary(
    "cosh",
    CATEGORY,
    "(eˣ + e⁻ˣ) / 2",
    numpy_function("cosh"),
    codomain=Codomain(low=1.0),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.COSH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.COSH,
)
ASINH = unary(
    "asinh",
    CATEGORY,
    "the number whose sinh is x",
    numpy_function("arcsinh"),
    domain=WIDE,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.INVERSE_SINH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ASINH,
)
ACOSH = unary(
    "acosh",
    CATEGORY,
    "the number ≥ 0 whose cosh is x",
    numpy_function("arccosh"),
    domain=Domain(1, 9),
    codomain=FROM_ZERO,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.ACOSH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ACOSH,
)
ATANH = unary(
    "atanh",
    CATEGORY,
    "the number whose tanh is x",
    numpy_function("arctanh"),
    domain=Domain(-0.99, 0.99),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.trigonometry.ATANH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.ATANH,
)

"""Sines and cosines as polynomials on the half period.

All coefficients are minimax fits: least squares at 4000 Chebyshev nodes with Lawson's weights, 400 steps in float64,
rounded to nine digits, the constant term first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.decomposition import SAME_MATHEMATICS, Accuracy, Decomposition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term

__all__ = ["COSINE_BY_POLYNOMIAL", "INVERSE_SINH", "SINE_BY_POLYNOMIAL", "horner"]

FITTED = Evidence(
    EvidenceKind.INFERRED, "aneforge-open", note="A polynomial of our own; its error is tested on a grid."
)
SINE = (0.999996616, -0.166648284, 0.00830632524, -0.000183636542)
"""sin(r) / r in r², 0 < r ≤ π/2, by the absolute error of sin(r): 5.9e-7."""
COSINE = (0.999993299, -0.499912452, 0.0414877578, -0.00127121175)
"""cos(r) in r², 0 ≤ r ≤ π/2, absolute: 6.7e-6."""
PI_PARTS = (25 / 8, 1 / 64, math.pi - 201 / 64)
"""π in parts of five bits, one bit and the rest: up to 64 times the first two, and what they leave of an argument, are
exact in fp16."""
WHOLE = 1024.0
"""Integers here stay within this. The clip between a rounding and a product with a number is there because the engine
loses the number when one follows the other (value `rounding_keeps_multiplier` of the target database)."""


def horner(coefficients: Sequence[float], x: Term) -> Term:
    """Return a polynomial of one or more degrees, its coefficients given with the constant term first."""
    result = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        result = (result + coefficient) * x
    return result + coefficients[0]


def half_period(x: Term) -> tuple[Term, Term]:
    """Return what the nearest multiple n of π leaves of x, and (−1)^n."""
    count = (x * (1 / math.pi)).round().clip(alpha=-WHOLE, beta=WHOLE)
    odd = count - (count * 0.5).floor().clip(alpha=-WHOLE, beta=WHOLE) * 2.0
    for part in PI_PARTS:
        x = x - count * part
    return x, odd * -2.0 + 1.0


def sine(_: Site, x: Term) -> Term:
    """Return the sine: degree 7 after reduction by the nearest multiple of π."""
    remainder, sign = half_period(x)
    return sign * (remainder * horner(SINE, remainder.square()))


def cosine(_: Site, x: Term) -> Term:
    """Return the cosine: degree 6 after reduction by the nearest multiple of π."""
    remainder, sign = half_period(x)
    return sign * horner(COSINE, remainder.square())


def inverse_sinh(to: Site, x: Term) -> Term:
    """Return asinh by atanh near 0, and by logarithms that nothing overflows beyond 1.

    asinh(a) = atanh(a / √(a² + 1)) = log(a) + log(1 + √(1 + 1/a²)) for a > 0, and asinh(−a) = −asinh(a).
    """
    unit = to.constant(np.ones(()), x.dtype)

    def root_beside_one(value: Term) -> Term:
        return (value * value + unit).sqrt()

    size = x.abs()
    near, far = size.minimum(unit), size.maximum(unit)
    inside = (near / root_beside_one(near)).atanh()
    outside = far.log() + (root_beside_one(unit / far) + unit).log()
    return x.sign() * size.less(unit).select(inside, outside)


POLYNOMIAL = "a polynomial on the half period"
SINE_BY_POLYNOMIAL = Decomposition("polynomial", POLYNOMIAL, sine, FITTED, Accuracy(-200.0, 200.0, 6.0e-7))
COSINE_BY_POLYNOMIAL = Decomposition("polynomial", POLYNOMIAL, cosine, FITTED, Accuracy(-200.0, 200.0, 6.8e-6))
INVERSE_SINH = Decomposition("atanh", "atanh near 0, logarithms beyond 1", inverse_sinh, SAME_MATHEMATICS)

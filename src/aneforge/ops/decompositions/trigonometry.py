"""Circular and hyperbolic functions and their inverses, in polynomials, exp, log, atan and roots.

Nothing overflows in fp16 where the result does not, and no digits are lost where a function goes through 0: there it is
a polynomial. The branch of a choice that is not taken is kept inside its own domain.

All coefficients are minimax fits: least squares at 4000 Chebyshev nodes with Lawson's weights, 400 steps in float64,
rounded to nine digits, the constant term first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.decomposition import SAME_MATHEMATICS, Accuracy, Decomposition
from aneforge.ops.decompositions.polynomials import horner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Site, Term

__all__ = [
    "ACOS",
    "ACOSH",
    "ASIN",
    "ATANH",
    "COSH",
    "COSINE_BY_POLYNOMIAL",
    "INVERSE_SINH",
    "SINE_BY_POLYNOMIAL",
    "SINH",
    "TAN",
    "horner",
]

FITTED = Evidence(
    EvidenceKind.INFERRED, "aneforge-open", note="A polynomial of our own; its error is tested on a grid."
)
SINE = (0.999996616, -0.166648284, 0.00830632524, -0.000183636542)
"""sin(r) / r in r², 0 < r ≤ π/2, by the absolute error of sin(r): 5.9e-7."""
COSINE = (0.999993299, -0.499912452, 0.0414877578, -0.00127121175)
"""cos(r) in r², 0 ≤ r ≤ π/2, absolute: 6.7e-6."""
TANGENT = (0.999999772, 0.333359618, 0.132847583, 0.0571921022, 0.0125124514, 0.020401428)
"""tan(r) / r in r², 0 < r ≤ π/4, relative: 2.3e-7."""
HYPERBOLIC_SINE = (0.99999998, 0.166667338, 0.00832991192, 0.000203939897)
"""sinh(x) / x in x², 0 < x ≤ 1, relative: 2.1e-8."""
INVERSE_TANGENT = (0.999999904, 0.333364226, 0.198449955, 0.167282665)
"""atanh(x) / x in x², 0 < x ≤ 5/16, relative: 9.6e-8."""
SMALL = 5 / 16
PI_PARTS = (25 / 8, 1 / 64, math.pi - 201 / 64)
"""π in parts of five bits, one bit and the rest: up to 64 times the first two, and what they leave of an argument, are
exact in fp16."""
WHOLE = 1024.0
"""Integers here stay within this. The clip between a rounding and a product with a number is there because the engine
loses the number when one follows the other (value `rounding_keeps_multiplier` of the target database)."""


def remainder_of(x: Term, parts: Sequence[float]) -> tuple[Term, Term]:
    """Return what the nearest multiple of a number, given in parts, leaves of x, and 1 where that multiple is odd."""
    count = (x * (1 / sum(parts))).round().clip(alpha=-WHOLE, beta=WHOLE)
    odd = count - (count * 0.5).floor().clip(alpha=-WHOLE, beta=WHOLE) * 2.0
    for part in parts:
        x = x - count * part
    return x, odd


def half_period(x: Term) -> tuple[Term, Term]:
    """Return what the nearest multiple n of π leaves of x, and (−1)^n."""
    remainder, odd = remainder_of(x, PI_PARTS)
    return remainder, odd * -2.0 + 1.0


def sine(_: Site, x: Term) -> Term:
    """Return the sine: degree 7 after reduction by the nearest multiple of π."""
    remainder, sign = half_period(x)
    return sign * (remainder * horner(SINE, remainder.square()))


def cosine(_: Site, x: Term) -> Term:
    """Return the cosine: degree 6 after reduction by the nearest multiple of π."""
    remainder, sign = half_period(x)
    return sign * horner(COSINE, remainder.square())


def scalar(to: Site, value: float, like: Term) -> Term:
    """Return a number in the element type of a tensor."""
    return to.constant(np.asarray(value), like.dtype)


def tangent(to: Site, x: Term) -> Term:
    """Return the tangent: degree 11 after reduction by the nearest multiple of π/2, −1 over it where that is odd."""
    remainder, odd = remainder_of(x, [part / 2 for part in PI_PARTS])
    near = remainder * horner(TANGENT, remainder.square())
    is_odd = odd.greater(scalar(to, 0.5, x))
    return is_odd.select(scalar(to, -1.0, x), near) / is_odd.select(near, scalar(to, 1.0, x))


def inverse_sine(_: Site, x: Term) -> Term:
    """Return 2 · atan(x / (1 + √((1 − x) · (1 + x)))): it divides by 0 nowhere."""
    other_leg = ((-x + 1.0) * (x + 1.0)).sqrt()
    return (x / (other_leg + 1.0)).atan() * 2.0


def inverse_cosine(to: Site, x: Term) -> Term:
    """Return 2 · atan(√((1 − |x|) / (1 + |x|))), or π minus that for negative x."""
    size = x.abs()
    angle = ((-size + 1.0) / (size + 1.0)).sqrt().atan() * 2.0
    return x.less(scalar(to, 0.0, x)).select(-angle + math.pi, angle)


def half_exponentials(size: Term) -> tuple[Term, Term]:
    """Return eˣ / 2 and e⁻ˣ / 2 for x ≥ 0; eˣ itself would overflow in fp16 before its half does."""
    root = (size * 0.5).exp()
    return root * 0.5 * root, (-size).exp() * 0.5


def hyperbolic_sine(to: Site, x: Term) -> Term:
    """Return the hyperbolic sine: degree 7 up to 1, (eˣ − e⁻ˣ) / 2 beyond."""
    unit, size = scalar(to, 1.0, x), x.abs()
    near = x.clip(alpha=-1.0, beta=1.0)
    rising, falling = half_exponentials(size.maximum(unit))
    return size.less(unit).select(near * horner(HYPERBOLIC_SINE, near.square()), x.sign() * (rising - falling))


def hyperbolic_cosine(_: Site, x: Term) -> Term:
    """Return (eˣ + e⁻ˣ) / 2."""
    rising, falling = half_exponentials(x.abs())
    return rising + falling


def inverse_tanh(to: Site, x: Term) -> Term:
    """Return atanh: degree 7 up to 5/16, log((1 + x) / (1 − x)) / 2 beyond."""
    bound, size = scalar(to, SMALL, x), x.abs()
    near, far = x.clip(alpha=-SMALL, beta=SMALL), size.maximum(bound)
    outside = ((far + 1.0) / (-far + 1.0)).log() * 0.5
    return size.less(bound).select(near * horner(INVERSE_TANGENT, near.square()), x.sign() * outside)


def inverse_cosh(to: Site, x: Term) -> Term:
    """Return 2 · atanh(√((x − 1) / (x + 1))) up to 2, log(x) + log(1 + √((1 − 1/x) · (1 + 1/x))) beyond."""
    two = scalar(to, 2.0, x)
    near, far = x.minimum(two), x.maximum(two)
    inside = ((near - 1.0) / (near + 1.0)).sqrt().atanh() * 2.0
    inverse = far.inverse(epsilon=0.0)
    outside = far.log() + (((-inverse + 1.0) * (inverse + 1.0)).sqrt() + 1.0).log()
    return x.less(two).select(inside, outside)


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


FORMULA = Evidence(
    EvidenceKind.INFERRED, "aneforge-open", note="A formula of our own choice; its error is tested on a grid."
)
POLYNOMIAL = "a polynomial on the half period"
SINE_BY_POLYNOMIAL = Decomposition("polynomial", POLYNOMIAL, sine, FITTED, Accuracy(-200.0, 200.0, 6.0e-7))
COSINE_BY_POLYNOMIAL = Decomposition("polynomial", POLYNOMIAL, cosine, FITTED, Accuracy(-200.0, 200.0, 6.8e-6))
TAN = Decomposition(
    "polynomial",
    "a polynomial on the quarter period, −1 over it beyond",
    tangent,
    FITTED,
    Accuracy(-100.0, 100.0, 2.4e-7, relative=True),
)
ASIN = Decomposition(
    "atan",
    "2 · atan(x / (1 + √((1 − x) · (1 + x))))",
    inverse_sine,
    FORMULA,
    Accuracy(-1.0, 1.0, 1.0e-15, relative=True),
)
ACOS = Decomposition(
    "atan",
    "2 · atan(√((1 − |x|) / (1 + |x|))), mirrored for negative x",
    inverse_cosine,
    FORMULA,
    Accuracy(-1.0, 1.0, 1.0e-15, relative=True),
)
SINH = Decomposition(
    "exp",
    "a polynomial near 0, (eˣ − e⁻ˣ) / 2 beyond 1",
    hyperbolic_sine,
    FITTED,
    Accuracy(-11.75, 11.75, 2.2e-8, relative=True),
)
COSH = Decomposition(
    "exp", "(eˣ + e⁻ˣ) / 2", hyperbolic_cosine, FORMULA, Accuracy(-11.75, 11.75, 1.0e-15, relative=True)
)
INVERSE_SINH = Decomposition(
    "atanh",
    "atanh near 0, logarithms beyond 1",
    inverse_sinh,
    SAME_MATHEMATICS,
    Accuracy(-65504.0, 65504.0, 1.0e-7, relative=True),
)
ACOSH = Decomposition(
    "atanh",
    "atanh near 1, logarithms beyond 2",
    inverse_cosh,
    SAME_MATHEMATICS,
    Accuracy(1.0, 65504.0, 1.0e-7, relative=True),
)
ATANH = Decomposition(
    "log",
    "a polynomial near 0, log((1 + x) / (1 − x)) / 2 beyond 5/16",
    inverse_tanh,
    FITTED,
    Accuracy(-0.9995, 0.9995, 9.7e-8, relative=True),
)

"""Special functions, built from arithmetic, exp, log, roots and choices.

Each is a polynomial (Horner) or a few, on a limited domain. Its docstring states the domain and the largest error of
the mathematics, in float64; a test reads both from there and checks them on a dense grid. The error is absolute, or
relative to the true value, or `mixed`: absolute where the true value is below 1 in magnitude, else relative.

The errors stated are well below those of fp16, in which the engine rounds every step by up to 2^-11 of the value.
Variables are shifted and scaled so that no step of a Horner scheme is much larger than its result; the branch of a
choice that is not taken is kept inside its own domain, so that it never overflows.

>>> from aneforge.graph.builder.inputs import input
>>> from aneforge.graph.reference import reference
>>> [round(float(y), 5) for y in reference(sin(input((2,))), [[0.5, 100.0]])["y"]]
[0.47943, -0.50637]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.builder.combination import maximum, minimum, where
from aneforge.graph.convert import expand
from aneforge.graph.methods.base import constant_or_tensor
from aneforge.graph.methods.method_arguments import misuse
from aneforge.graph.tensor import Tensor
from aneforge.ops.decompositions.polynomials import horner
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "bessel_i0",
    "bessel_j0",
    "bessel_k0",
    "cos",
    "erf",
    "erfc",
    "exp_wide",
    "expm1",
    "gamma",
    "gamma_via_lgamma",
    "lgamma",
    "log1p",
    "log_wide",
    "sin",
]

# Coefficients, constant term first. All are minimax fits: least squares at 4000 Chebyshev nodes with Lawson's weights,
# 400 steps in float64, rounded to nine digits. What is fitted, in which variable, where, and by which error, is said at
# each; the largest error of the fit is the last number.

WHOLE = 1024.0
"""Integers here stay within this. The clip between a rounding and a product with a number is there because the
engine loses the number when one follows the other (value `rounding_keeps_multiplier` of the target database)."""
ERROR_FUNCTION = (
    0.470133188, -0.228792428, 0.157419407, -0.110171151, 0.0732207183, -0.043660723, 0.0220688175, -0.0120513626,
    0.00799831074, -0.00283986862,
)  # fmt: skip
"""erf(x) / x in x²/4.5 − 1, 0 < x ≤ 3, by the absolute error of erf(x): 3.2e-6."""
ERROR_FUNCTION_NEAR = (1.12837789, -0.376064152, 0.112341776, -0.0254478529, 0.00349408879)
"""erf(x) / x in x², 0 < x ≤ 1, relative: 1.1e-6."""
ERROR_TAIL = (
    0.37687172, -0.252156536, 0.039882804, 0.0104185414, -0.00371623316, -9.44958912e-05, 0.000155969928,
    -1.29232796e-05,
)  # fmt: skip
"""The eighth root of erfc(x) in x − 2.5, 1 ≤ x ≤ 4, by the relative error of its eighth power: 1.6e-5."""
EXPONENTIAL_LESS_ONE = (
    1.00000014, 0.500002544, 0.166664294, 0.0416454685, 0.00833814928, 0.00143217604, 0.000198400148,
)  # fmt: skip
"""(exp(x) − 1) / x in x, −1 ≤ x ≤ 1, relative: 3.8e-7."""
LOGARITHM = (1.99999967, 0.666760016, 0.395894849, 0.342259288)
"""log((1 + s) / (1 − s)) / s in s², 0 < s ≤ 1/3, relative: 1.7e-7."""
EXPONENTIAL = (1.00000007, 0.999999692, 0.499988949, 0.166675747, 0.041915382, 0.00829765501)
"""exp(f) in f, |f| ≤ log(2) / 2, relative: 7.5e-8."""
GAMMA = (
    0.886225964, 0.0161720043, 0.103734492, -0.013442449, 0.00888626496, -0.00233037694, 0.00115212467, -0.00039917844,
)  # fmt: skip
"""Γ(1 + f) in 2·f − 1, 0 ≤ f ≤ 1, relative: 1.2e-6."""
LOG_GAMMA = (
    0.422782672, -0.100329115, 0.0330086525, -0.0123039018, 0.0047630468, -0.002219824, 0.00132252475, -0.000450715268,
)  # fmt: skip
"""log Γ(x) / ((x − 1)·(x − 2)) in x − 2, 1 ≤ x ≤ 3, by the absolute error of log Γ(x): 5.0e-7."""
STIRLING = (0.0833306064, -0.0026763015)
"""x times what Stirling's (x − ½)·(log(x) − 1) + ½·log(2π) − ½ lacks of log Γ(x), in 1/x², 3 ≤ x ≤ 60, absolute in
log Γ(x): 1.8e-7."""
BESSEL_J0 = (-0.196545205, -0.565960709, 0.479476064, -0.131027408, 0.0184913434, -0.00158678895)
"""J0(x) in x²/8 − 1, 0 ≤ x ≤ 4, absolute: 2.9e-6."""
BESSEL_J0_MODULUS = (0.797881346, -0.00307926577, 0.000220774771)
"""√x · √(J0² + Y0²) in (4/x)², 4 ≤ x ≤ 300, absolute in J0: 4.7e-7."""
BESSEL_J0_PHASE = (-0.124980447, 0.00391573529, -0.0004536541)
"""x times the phase of J0 + i·Y0 beyond x − π/4, in (4/x)², 4 ≤ x ≤ 300, absolute in J0: 1.8e-7."""
BESSEL_I0 = (0.999998684, 4.00014213, 3.99779458, 1.78930547, 0.418828278, 0.0958379332)
"""I0(x) in (x/4)², 0 ≤ x ≤ 4, relative: 1.3e-6."""
BESSEL_I0_TAIL = (0.398868645, 0.0130266243, 0.000323103984, 0.00178489474)
"""√x · exp(−x) · I0(x) in 4/x, 4 ≤ x ≤ 14, relative: 2.1e-6."""
BESSEL_I0_SMALL = (1.0000001, 0.999994443, 0.250049047, 0.0276311945, 0.00191030437)
"""I0(x) in (x/2)², 0 ≤ x ≤ 2, relative: 9.6e-8."""
BESSEL_K0 = (-0.57721399, 0.422751902, 0.230868442, 0.0345178252, 0.00296960286)
"""K0(x) + log(x/2) · I0(x) in (x/2)², 0 < x ≤ 2, relative to K0: 7.9e-7."""
BESSEL_K0_TAIL = (1.25329511, -0.0780401314, 0.0204033566, -0.0069939059, 0.0014934644)
"""√x · exp(x) · K0(x) in 2/x, 2 ≤ x ≤ 16, relative: 6.0e-7."""

LOG_TWO_PARTS = (11 / 16, math.log(2) - 11 / 16)
"""log(2) in parts of four bits and the rest: up to 128 times the first is exact in fp16."""
SCALE = 256.0
"""The factor by which `log_wide` moves its argument, a power of two and so exact."""


def sin(x: Tensor) -> Tensor:
    """Return the sine, for targets without one of their own: degree 7 after reduction by the nearest multiple of π.

    Domain: -200 <= x <= 200. Maximum error: 6.0e-07 absolute.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(sin(input((1,))), [[1.5]])["y"][0]), 4)
    0.9975
    """
    return expand("sin", {"x": argument(x, "sin")})


def cos(x: Tensor) -> Tensor:
    """Return the cosine, for targets without one of their own: degree 6 after reduction by the nearest multiple of π.

    Domain: -200 <= x <= 200. Maximum error: 6.8e-06 absolute.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(cos(input((1,))), [[1.5]])["y"][0]), 4)
    0.0707
    """
    return expand("cos", {"x": argument(x, "cos")})


def erf(x: Tensor) -> Tensor:
    """Return the error function, without a table of the engine's: degree 19 up to 3, and what it is there beyond.

    Domain: -8 <= x <= 8. Maximum error: 2.6e-05 absolute.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(erf(input((1,))), [[0.5]])["y"][0]), 4)
    0.5205
    """
    x = argument(x, "erf")
    near = x.clip(-3.0, 3.0)
    return (near * horner(ERROR_FUNCTION, near.square() * (1 / 4.5) - 1.0)).clip(-1.0, 1.0)


def erfc(x: Tensor) -> Tensor:
    """Return 1 − erf(x), without the loss of digits that the subtraction has for large x.

    Domain: -4 <= x <= 4. Maximum error: 1.7e-05 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(erfc(input((1,))), [[2.0]])["y"][0]), 4)
    0.0047
    """
    x = argument(x, "erfc")
    near = x.clip(-1.0, 1.0)
    inner = 1.0 - near * horner(ERROR_FUNCTION_NEAR, near.square())
    root = horner(ERROR_TAIL, x.abs().clip(1.0, 4.0) - 2.5)
    tail = root.square().square().square()
    return where(below(x.abs(), 1.0), inner, where(below(x, 0.0), 2.0 - tail, tail))


def expm1(x: Tensor) -> Tensor:
    """Return exp(x) − 1, without the loss of digits that the subtraction has near 0.

    Domain: -16 <= x <= 11. Maximum error: 3.9e-07 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(expm1(input((1,))), [[0.125]])["y"][0]), 4)
    0.1331
    """
    x = argument(x, "expm1")
    near = x.clip(-1.0, 1.0)
    return where(below(x.abs(), 1.0), near * horner(EXPONENTIAL_LESS_ONE, near), x.exp() - 1.0)


def log1p(x: Tensor) -> Tensor:
    """Return log(1 + x), without the loss of digits that the addition has near 0.

    Domain: -0.999 <= x <= 65504. Maximum error: 1.7e-07 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(log1p(input((1,))), [[0.125]])["y"][0]), 4)
    0.1178
    """
    x = argument(x, "log1p")
    near = x.clip(-0.5, 1.0)
    ratio = near / (near + 2.0)
    is_near = below((x - 0.25).abs(), 0.75)
    return where(is_near, ratio * horner(LOGARITHM, ratio.square()), (x + 1.0).log())


def lgamma(x: Tensor) -> Tensor:
    """Return the logarithm of the gamma function for positive x.

    Domain: 0.001 <= x <= 8000. Maximum error: 5.1e-07 mixed.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(lgamma(input((1,))), [[5.0]])["y"][0]), 4)
    3.1781
    """
    x = argument(x, "lgamma")
    small = below(x, 1.0)
    shifted = where(small, x + 1.0, minimum(x, 3.0))
    near = (shifted - 1.0) * (shifted - 2.0) * horner(LOG_GAMMA, shifted - 2.0)
    near = where(small, near - minimum(x, 1.0).log(), near)
    large = maximum(x, 3.0)
    inverse = large.inverse()
    correction = inverse * horner(STIRLING, inverse.square())
    far = (large - 0.5) * (large.log() - 1.0) + (math.log(2 * math.pi) - 1) / 2 + correction
    return where(below(x, 3.0), near, far)


def gamma(x: Tensor) -> Tensor:
    """Return the gamma function for positive x: Γ(1 + f) for the fraction f of x, times x − 1, x − 2, ….

    Domain: 0.001 <= x <= 10. Maximum error: 1.2e-06 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(gamma(input((1,))), [[5.0]])["y"][0]), 4)
    24.0
    """
    x = argument(x, "gamma")
    fraction = x - x.floor()
    result = horner(GAMMA, fraction * 2.0 - 1.0) * minimum(x, 1.0).inverse()
    for step in range(1, 10):
        result = result * maximum(x - float(step), 1.0)
    return result


def gamma_via_lgamma(x: Tensor) -> Tensor:
    """Return the gamma function for positive x as exp(log Γ(x)): fewer operations than `gamma`, and more rounding.

    Domain: 0.001 <= x <= 10. Maximum error: 5.1e-07 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(gamma_via_lgamma(input((1,))), [[5.0]])["y"][0]), 4)
    24.0
    """
    x = argument(x, "gamma_via_lgamma")
    return lgamma(x).exp()


def bessel_j0(x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind and order 0.

    Domain: -64 <= x <= 64. Maximum error: 3.0e-06 absolute.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(bessel_j0(input((1,))), [[1.0]])["y"][0]), 4)
    0.7652
    """
    x = argument(x, "bessel_j0")
    magnitude = x.abs()
    near = horner(BESSEL_J0, minimum(magnitude, 4.0).square() * 0.125 - 1.0)
    large = maximum(magnitude, 4.0)
    inverse = large.inverse()
    variable = (inverse * 4.0).square()
    phase = large - math.pi / 4 + inverse * horner(BESSEL_J0_PHASE, variable)
    far = large.rsqrt() * horner(BESSEL_J0_MODULUS, variable) * cos(phase)
    return where(below(magnitude, 4.0), near, far)


def bessel_i0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind and order 0.

    Domain: -14 <= x <= 14. Maximum error: 2.2e-06 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(bessel_i0(input((1,))), [[1.0]])["y"][0]), 4)
    1.2661
    """
    x = argument(x, "bessel_i0")
    magnitude = x.abs()
    near = horner(BESSEL_I0, (minimum(magnitude, 4.0) * 0.25).square())
    large = maximum(magnitude, 4.0)
    root = (large * 0.5).exp()  # exp(x) itself would overflow in fp16 before I0 does
    far = root * (root * large.rsqrt() * horner(BESSEL_I0_TAIL, large.inverse() * 4.0))
    return where(below(magnitude, 4.0), near, far)


def bessel_k0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind and order 0, for positive x.

    Domain: 0.0001 <= x <= 16. Maximum error: 9.0e-07 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(bessel_k0(input((1,))), [[1.0]])["y"][0]), 4)
    0.421
    """
    x = argument(x, "bessel_k0")
    half = minimum(x, 2.0) * 0.5
    variable = half.square()
    near = horner(BESSEL_K0, variable) - half.log() * horner(BESSEL_I0_SMALL, variable)
    large = maximum(x, 2.0)
    far = (-large).exp() * large.rsqrt() * horner(BESSEL_K0_TAIL, large.inverse() * 2.0)
    return where(below(x, 2.0), near, far)


def exp_wide(x: Tensor) -> Tensor:
    """Return exp(x) as 2^n · exp(f) with a whole n, 2^n in two factors of which neither overflows before the result.

    The argument is reduced exactly, so large ones keep the digits that the engine's own function loses.

    Domain: -87 <= x <= 88. Maximum error: 7.8e-08 relative.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(exp_wide(input((1,))), [[2.0]])["y"][0]), 4)
    7.3891
    """
    x = argument(x, "exp_wide")
    exponent = (x * (1 / math.log(2))).round().clip(-WHOLE, WHOLE)
    fraction = reduce_period(x, exponent, LOG_TWO_PARTS)
    half = (exponent * 0.5).floor()
    return half.exp2() * horner(EXPONENTIAL, fraction) * (exponent - half).exp2()


def log_wide(x: Tensor) -> Tensor:
    """Return log(x), the argument first brought near 1 by powers of two.

    Domain: 1e-09 <= x <= 500000. Maximum error: 1.0e-15 mixed.

    >>> from aneforge.graph.builder.inputs import input
    >>> from aneforge.graph.reference import reference
    >>> round(float(reference(log_wide(input((1,))), [[1000000.0]])["y"][0]), 4)
    13.8155
    """
    x = argument(x, "log_wide")
    value, steps = x, list[Tensor]()
    for _ in range(2):
        is_large = below(value, 8.0).logical_not()
        value = where(is_large, value * (1 / SCALE), value)
        steps.append(where(is_large, 1.0, 0.0))
    for _ in range(3):
        is_small = below(value, 1 / 64)
        value = where(is_small, value * SCALE, value)
        steps.append(where(is_small, -1.0, 0.0))
    return value.log() + sum(steps[1:], steps[0]) * math.log(SCALE)


def argument(x: object, function: str) -> Tensor:
    """Return the argument of a special function.

    Raises:
        GraphTypeError: It is not a tensor.
        GraphError: It must hold floating-point numbers.
    """
    op = f"special.{function}"
    tensor = expect_tensor(x, op)
    if not is_float(tensor.dtype):
        raise misuse(op, "x must hold floating-point numbers", seen=tensor.dtype, remedy="cast it to fp16")
    return tensor


def below(x: Tensor, number: float) -> Tensor:
    """Return where a tensor is less than a number, which fp16 must represent."""
    return x.apply("less", {"y": constant_or_tensor(number, "less")})


def reduce_period(x: Tensor, count: Tensor, parts: Sequence[float]) -> Tensor:
    """Return what a multiple of a number leaves of x; the number is given in parts, the largest first."""
    for part in parts:
        x = x - count * part
    return x

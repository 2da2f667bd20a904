"""The activation unit: operations on one element, as the op table has them.

What rounds nothing (rectifiers, bounds, sign, rounding down and up) is exact. A slope is taken to be one product,
rounded once. The tables are those of `activations`. Compositions of several steps are taken to round after each:
softplus, softsign, scaled_tanh. An epsilon is added in fp16 before the table is read (decoded for the reciprocal, whose
default is 1e-4; taken to be so for the others).

The functions take `x` and the attributes by name; values are fp16, results held in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.planar import add, gain_offset, larger, mul, number, read, smaller
from aneforge.engine.rounding import to_fp16
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["FUNCTIONS", "table"]


def table(name: str, x: Array) -> Array:
    """Return a function of the tables at fp16 values of any type.

    >>> table("gelu", np.zeros(1, np.float16)).tolist()
    [-0.0007538795471191406]
    """
    return ACTIVATIONS[name](np.asarray(x, np.float64))


def table_function(name: str) -> Callable[[Array], Array]:
    """Return a function of the tables as an operation."""

    def function(x: Array) -> Array:
        return table(name, x)

    return function


def shift_table(name: str) -> Callable[..., Array]:
    """Return a function of the tables that adds an epsilon first; one that is 0 in fp16 is not added."""

    def function(x: Array, *, epsilon: float) -> Array:
        shift = number(epsilon)
        return table(name, to_fp16(read(x) + shift) if shift else x)

    return function


# Rectifiers and bounds: nothing is rounded but the product with a slope.


def bounded(values: Array, low: float, high: float) -> Array:
    """Return numbers that are at least one bound and then at most another."""
    return smaller(larger(values, low), high)


def relu(x: Array) -> Array:
    """Return max(x, 0)."""
    return to_fp16(larger(read(x), 0.0))


def relu6(x: Array) -> Array:
    """Return x between 0 and 6."""
    return to_fp16(bounded(read(x), 0.0, 6.0))


def clip(x: Array, *, alpha: float, beta: float) -> Array:
    """Return x between two bounds, which the host rounds to fp16."""
    return to_fp16(bounded(read(x), number(alpha), number(beta)))


def threshold(x: Array, *, alpha: float) -> Array:
    """Return x, and alpha where x is smaller."""
    return to_fp16(larger(read(x), number(alpha)))


def thresholded_relu(x: Array, *, alpha: float) -> Array:
    """Return x from alpha on and 0 below."""
    values = read(x)
    return to_fp16(np.where(values >= number(alpha), values, 0.0))


def sloped(x: Array, slope: Array | float) -> Array:
    """Return x, and where it is negative its product with a slope."""
    values = read(x)
    return to_fp16(np.where(values >= 0, values, values * slope))


def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x, scaled where it is negative."""
    return sloped(x, number(alpha))


def clamped_relu(x: Array, *, alpha: float, beta: float) -> Array:
    """Return x, scaled where it is negative, and no more than beta."""
    return to_fp16(smaller(read(sloped(x, number(alpha))), number(beta)))


def prelu(x: Array, alpha: Array) -> Array:
    """Return x, scaled by its channel's slope where it is negative."""
    return sloped(x, reshape_along(read(alpha), x.ndim))


def sign(x: Array) -> Array:
    """Return −1, 0 or 1."""
    return np.sign(read(x))


# Integers.


def floor(x: Array) -> Array:
    """Return the next integer at or below."""
    return to_fp16(np.floor(read(x)))


def ceil(x: Array) -> Array:
    """Return the next integer at or above."""
    return to_fp16(np.ceil(read(x)))


def nearest(x: Array) -> Array:
    """Return |x| + ½, added in fp16 and rounded down, with the sign of x: wrong from 1024 on, here up to 2047.

    Measured on one chip (`arithmetic.toml` names it): 1024 gives 1025, 1025 gives 1026 and −2047 gives −2048; this fits
    every published value. Which zero comes out of a small negative number is not known; here it is the positive one.

    >>> nearest(np.array([2.5, -2.5, 1024.0, -2047.0])).tolist()
    [3.0, -3.0, 1025.0, -2048.0]
    """
    values = read(x)
    whole = to_fp16(np.floor(read(to_fp16(np.abs(values) + 0.5))))
    return np.where(whole == 0, 0.0, np.copysign(whole, values))


# Compositions.


def gelu(x: Array, *, mode: str) -> Array:
    """Return GELU: the exact form and that by tanh are one table; that by a sigmoid is modelled by its mathematics."""
    if mode != "SIGMOID_APPROXIMATION":
        return table("gelu", x)
    (exact,) = find_op("gelu").evaluate({"x": read_real(x)}, {"mode": mode})
    return to_fp16(exact)


def softplus(x: Array) -> Array:
    """Return log(1 + eˣ) in three steps: it is 0 from where the exponential overflows on, at 11.094 (measured)."""
    return table("log", add(np.asarray(1.0), table("exp", x)))


def softplus_parametric(x: Array, alpha: Array, beta: Array) -> Array:
    """Return alpha · log(1 + e^(beta · x)), each product a step of its own."""
    inner = mul(reshape_along(beta, x.ndim), x)
    return mul(reshape_along(alpha, x.ndim), softplus(inner))


def softsign(x: Array) -> Array:
    """Return x times the reciprocal of 1 + |x|; at infinity the reciprocal is 0, and so is the product (measured)."""
    return mul(x, table("inverse", to_fp16(1.0 + np.abs(read(x)))))


def scaled_tanh(x: Array, *, alpha: float, beta: float) -> Array:
    """Return alpha · tanh(beta · x), each product a step of its own."""
    return mul(np.asarray(number(alpha)), table("tanh", to_fp16(read(x) * number(beta))))


def linear_activation(x: Array, *, alpha: float, beta: float) -> Array:
    """Return alpha · x + beta by the affine unit."""
    return gain_offset(x, number(alpha), number(beta))


def sigmoid_hard(x: Array, *, alpha: float, beta: float) -> Array:
    """Return alpha · x + beta between 0 and 1: the affine unit, then a rectifier with a bound (decoded)."""
    return to_fp16(bounded(read(gain_offset(x, number(alpha), number(beta))), 0.0, 1.0))


def read_real(x: Array) -> Array:
    """Return values for a function of real numbers: NaN is an infinity of its own sign, as at every input."""
    wide = np.asarray(x, np.float64)
    return np.where(np.isnan(wide), np.copysign(np.inf, wide), wide)


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    **{name: table_function(name) for name in ("cos", "erf", "exp", "exp2", "log2", "sigmoid", "silu", "sin", "sqrt")},
    **{name: shift_table(name) for name in ("inverse", "log", "rsqrt")},
    "ceil": ceil,
    "clamped_relu": clamped_relu,
    "clip": clip,
    "floor": floor,
    "gelu": gelu,
    "leaky_relu": leaky_relu,
    "linear_activation": linear_activation,
    "prelu": prelu,
    "relu": relu,
    "relu6": relu6,
    "round": nearest,
    "scaled_tanh": scaled_tanh,
    "sigmoid_hard": sigmoid_hard,
    "sign": sign,
    "softplus": softplus,
    "softplus_parametric": softplus_parametric,
    "softsign": softsign,
    "tanh": table_function("tanh"),
    "threshold": threshold,
    "thresholded_relu": thresholded_relu,
}
"""The arithmetic of operations by their names."""

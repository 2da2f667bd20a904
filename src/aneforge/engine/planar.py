"""The planar engine: elements and pairs of elements, comparisons, choices, gain and offset.

One operation rounds once: the exact result to fp16, ties away from zero, subnormals kept, overflow to infinity over the
full range of fp16 (measured: 2048 + 1 is 2050, 2^-12 · 2^-12 is 2^-24). Separate operations round separately.

Exponent 31 is taken to be an ordinary exponent here as it was measured to be in the multiplier: infinity is 2^16 and
NaN a larger number. That one reading explains that NaN in gives +infinity, that ∞ − ∞ and 0 · ∞ are 0, and that log 0
is −45440, which is −2^16 times ln 2 in fp16 (all measured, on one chip); the other special values that were measured
have rules of their own. What a finite number does to an infinity (∞ / 4 would be 16384), and that a NaN with its sign
set gives −infinity, follow from it and were not measured: where an operand is infinite or NaN the label says so.

The functions take their operands in the order of the op table and the attributes by name. Operands are fp16, in that
type or held in float64; results are fp16 held in float64, or bool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.choices import choices
from aneforge.engine.rounding import decode_operand, to_fp16
from aneforge.ops.arithmetic import reshape_along

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["FUNCTIONS", "gain_offset", "host_fp16", "larger", "number", "read", "real_div", "smaller"]


def read(values: Array) -> Array:
    """Return fp16 operands as the engine reads them: exponent 31 is an ordinary one.

    >>> read(np.array([np.inf, np.nan, 0.5])).tolist()
    [65536.0, 98304.0, 0.5]
    """
    return decode_operand(values)[0]


def number(value: float) -> float:
    """Return an attribute as the program holds it: fp16, rounded by the host, which rounds ties to even."""
    return float(read(host_fp16(np.asarray(value))))


def host_fp16(values: Array) -> Array:
    """Return numbers as the host passes them: fp16, ties to even, as NumPy rounds.

    >>> host_fp16(np.array([2049.0])).tolist()
    [2048.0]
    """
    if values.dtype == np.float16:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


def larger(x: Array, y: Array | float) -> Array:
    """Return the larger of two numbers; of equal ones the second, which matters for zeros of both signs.

    Which of the zeros the engine gives no source says; NumPy's own function leaves it to the processor.

    >>> larger(np.array([-0.0, 1.0]), 0.0).tolist()
    [0.0, 1.0]
    """
    return np.where(x > y, x, y)


def smaller(x: Array, y: Array | float) -> Array:
    """Return the smaller of two numbers; of equal ones the second.

    >>> smaller(np.array([0.0, 1.0]), -0.0).tolist()
    [-0.0, -0.0]
    """
    return np.where(x < y, x, y)


# Pairs of elements.


def add(x: Array, y: Array) -> Array:
    """Return x + y."""
    return to_fp16(read(x) + read(y))


def sub(x: Array, y: Array) -> Array:
    """Return x − y."""
    return to_fp16(read(x) - read(y))


def mul(x: Array, y: Array) -> Array:
    """Return x · y."""
    return to_fp16(read(x) * read(y))


def maximum(x: Array, y: Array) -> Array:
    """Return the larger of x and y."""
    return to_fp16(larger(read(x), read(y)))


def minimum(x: Array, y: Array) -> Array:
    """Return the smaller of x and y."""
    return to_fp16(smaller(read(x), read(y)))


def real_div(x: Array, y: Array) -> Array:
    """Return x times the reciprocal of y, read off its table: two roundings. Decoded: the engine has no divider."""
    return mul(x, ACTIVATIONS["inverse"](np.asarray(y, np.float64)))


def floor_div(x: Array, y: Array) -> Array:
    """Return a quotient rounded down; a whole quotient can come out one too small. Decoded, like `real_div`."""
    return to_fp16(np.floor(read(real_div(x, y))))


def combine(x: Array, y: Array, *, mode: str) -> Array:
    """Combine pairs as a mode says."""
    return MODES[mode](x, y)


def scaled(x: Array, y: Array, *, mode: str, scale: float) -> Array:
    """Combine pairs and scale; that the product is not scaled was measured, that one rounding serves is chosen."""
    if mode == "mult":
        return mul(x, y)
    exact = {"add": np.add, "max": larger, "min": smaller}[mode](read(x), read(y))
    return to_fp16(number(scale) * exact)


MODES: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "max": maximum,
    "min": minimum,
}


# Comparisons and choices round nothing.


def equal(x: Array, y: Array) -> Array:
    """Return where x = y."""
    return read(x) == read(y)


def not_equal(x: Array, y: Array) -> Array:
    """Return where x ≠ y."""
    return read(x) != read(y)


def greater(x: Array, y: Array) -> Array:
    """Return where x > y."""
    return read(x) > read(y)


def greater_equal(x: Array, y: Array) -> Array:
    """Return where x ≥ y."""
    return read(x) >= read(y)


def less(x: Array, y: Array) -> Array:
    """Return where x < y."""
    return read(x) < read(y)


def less_equal(x: Array, y: Array) -> Array:
    """Return where x ≤ y."""
    return read(x) <= read(y)


def select(cond: Array, a: Array, b: Array) -> Array:
    """Return a where a condition holds, else b."""
    return to_fp16(np.where(cond, read(a), read(b)))


# One element and numbers.


def plus(x: Array, *, k: float) -> Array:
    """Return x + k."""
    return to_fp16(read(x) + number(k))


def times(x: Array, *, k: float) -> Array:
    """Return x · k."""
    return to_fp16(read(x) * number(k))


def magnitude(x: Array) -> Array:
    """Return |x|."""
    return to_fp16(np.abs(read(x)))


def square(x: Array) -> Array:
    """Return x²; from 256 on it is infinite (measured)."""
    return to_fp16(np.square(read(x)))


# Gain and offset: the affine unit after every layer.


def gain_offset(x: Array, gain: Array | float, offset: Array | float | None) -> Array:
    """Return gain · x + offset. The choice `gain_offset` says whether the product is rounded before it is added to.

    >>> gain_offset(np.array([683.0]), 3.0, 1.0).tolist()
    [2052.0]
    """
    product = read(x) * np.asarray(gain, np.float64)
    if offset is None:
        return to_fp16(product)
    first = read(to_fp16(product)) if choices().gain_offset.product_is_rounded else product
    return to_fp16(first + np.asarray(offset, np.float64))


def channel_gain_offset(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Return gain · x + offset with one of each per channel, axis 1."""
    shift = None if offset is None else reshape_along(read(offset), x.ndim)
    if gain is None:
        return to_fp16(read(x) + (0.0 if shift is None else shift))
    return gain_offset(x, reshape_along(read(gain), x.ndim), shift)


def batch_norm(
    x: Array, mean: Array, variance: Array, gamma: Array | None, beta: Array | None, *, epsilon: float
) -> Array:
    """Return a normalisation by constants: the compiler folds them into one gain and one offset, rounded by the host.

    Decoded: the scale of a batch norm becomes the gain of the affine unit. That the folding is done in more than fp16
    is chosen.
    """
    scale = 1.0 if gamma is None else gamma.astype(np.float64)
    shift = 0.0 if beta is None else beta.astype(np.float64)
    gain = scale / np.sqrt(variance.astype(np.float64) + epsilon)
    offset = shift - mean.astype(np.float64) * gain
    return channel_gain_offset(x, host_fp16(gain), host_fp16(offset))


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "abs": magnitude,
    "add": add,
    "adds": plus,
    "batch_norm": batch_norm,
    "dynamic_goc": channel_gain_offset,
    "equal": equal,
    "floor_div": floor_div,
    "greater": greater,
    "greater_equal": greater_equal,
    "less": less,
    "less_equal": less_equal,
    "logical_not": np.logical_not,
    "maximum": maximum,
    "minimum": minimum,
    "mul": mul,
    "muls": times,
    "not_equal": not_equal,
    "pe_elementwise": combine,
    "pe_goc": channel_gain_offset,
    "real_div": real_div,
    "scaled_elementwise": scaled,
    "select": select,
    "square": square,
    "sub": sub,
}
"""The arithmetic of operations by their names."""

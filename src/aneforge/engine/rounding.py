"""Every rounding of the engine is half away from zero.

Evidence: the published figures under `commands/data/fingerprints.toml` are reproduced to twelve digits with it, and
with round-half-even in no case in which the two could be distinguished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.ops.numbers import FP16_INFINITY

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["LEAST_EXPONENT", "decode_operand", "exponents", "to_bits", "to_eleven_bits", "to_fp16", "to_grid"]

LEAST_EXPONENT = -14
"""Exponent of the smallest normal fp16; subnormals share it, without a hidden bit."""
FRACTION_BITS = 10
DOUBLE_BITS = 53
"""Significant bits of a float64, the hidden one among them."""


def to_grid(values: Array, step: float) -> Array:
    """Round to multiples of a power of two, ties away from zero; the values must be exact multiples of a finer one.

    >>> to_grid(np.array([0.5, -0.5, 1.49]), 1.0).tolist()
    [1.0, -1.0, 1.0]
    """
    scaled = values / step
    return np.trunc(scaled + np.copysign(0.5, scaled)) * step


def to_fp16(values: Array) -> Array:
    """Round to fp16, ties away from zero: subnormals are kept (a grid of 2^-24), overflow is infinite.

    The result is float64 that holds fp16 values.

    >>> to_fp16(np.array([2049.0, 2.0**-25, 65520.0])).tolist()
    [2050.0, 5.960464477539063e-08, inf]
    """
    steps = np.ldexp(1.0, np.maximum(exponents(values), LEAST_EXPONENT) - FRACTION_BITS)
    with np.errstate(invalid="ignore"):
        scaled = values / steps
        rounded = np.trunc(scaled + np.copysign(0.5, scaled)) * steps
    finite = np.where(np.abs(rounded) >= FP16_INFINITY, np.copysign(np.inf, rounded), rounded)
    return np.where(np.isfinite(values), finite, values)


def to_eleven_bits(values: Array) -> Array:
    """Round to eleven significant bits, ties away from zero, with no bound on the exponent.

    >>> to_eleven_bits(np.array([2049.0, 2.0**-40 * 2049])).tolist() == [2050.0, 2.0**-40 * 2050]
    True
    """
    steps = np.ldexp(1.0, exponents(values) - FRACTION_BITS)
    scaled = values / steps
    return np.trunc(scaled + np.copysign(0.5, scaled)) * steps


def to_bits(values: Array, bits: int) -> Array:
    """Round finite float64 to some significant bits, ties away from zero, with no bound on the exponent.

    Half of the last bit that stays is added to the magnitude, and what is below that bit is cut off; a carry goes into
    the exponent.

    >>> to_bits(np.array([4097.0, -4097.0, 4096.5, 0.0]), 12).tolist()
    [4098.0, -4098.0, 4096.0, 0.0]
    """
    below = DOUBLE_BITS - bits
    held = np.ascontiguousarray(values, np.float64).view(np.int64) + (1 << (below - 1))
    held &= -(1 << below)
    return held.view(np.float64)


def exponents(values: Array) -> npt.NDArray[np.int64]:
    """Return the exponent of the leading bit of each value; 0 for zero.

    >>> exponents(np.array([1.0, 1.5, 2.0, 0.0])).tolist()
    [0, 0, 1, 0]
    """
    fraction, exponent = np.frexp(np.where(np.isfinite(values), values, 1.0))
    return np.where(fraction == 0, 0, exponent - 1).astype(np.int64)


def decode_operand(values: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return fp16 values as the multiplier reads them, in float64, and their exponents.

    Exponent 31 is read as an ordinary number: infinity is 2^16, the quiet NaN 0x7E00 is 1.5 · 2^16, 0x7FFF is 131008.
    (Measured; the chips are with the value `accumulator` of the target database.) Subnormals keep exponent −14; they
    are neither normalised nor flushed, either of which the published figures reject.

    >>> [float(value) for value in decode_operand(np.array([np.inf, 2.0**-24], np.float16))[0]]
    [65536.0, 5.960464477539063e-08]
    """
    bits = np.asarray(values, np.float16).view(np.uint16).astype(np.int64)
    sign = np.where(bits >> 15, -1.0, 1.0)
    field, fraction = (bits >> FRACTION_BITS) & 31, bits & 1023
    exponent = np.where(field == 0, LEAST_EXPONENT, field - 15)
    significand = fraction + np.where(field == 0, 0, 1024)
    return sign * np.ldexp(significand.astype(np.float64), exponent - FRACTION_BITS), exponent

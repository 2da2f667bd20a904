"""Mathematics that the meanings of several groups share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.arrays import np

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.ops.types import Array

__all__ = [
    "euclidean_length",
    "greatest_magnitude",
    "in_type",
    "logistic",
    "rectify",
    "reshape_along",
    "return_unchanged",
    "softmax",
    "wide",
]

SIGN_BIT = 0x8000


def return_unchanged(x: Array) -> Array:
    """Return the values as they are."""
    return x


def rectify(x: Array) -> Array:
    """Return x, and 0 below 0."""
    return np.maximum(x, 0)


def logistic(x: Array) -> Array:
    """Return 1 / (1 + e⁻ˣ); a power that overflows gives 0, as it should."""
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int) -> Array:
    """Return the powers of e along an axis, scaled to the sum 1; the largest is taken off first against overflow."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def euclidean_length(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the root of the sum of squares along axes, which stay with length 1.

    The largest magnitude is brought near 1 by a power of two first, so that no square overflows or vanishes and nothing
    is rounded more than once.

    >>> euclidean_length(np.ldexp([3.0, 4.0], 900), (0,)) == np.ldexp(5.0, 900)
    array([ True])
    """
    peak = np.max(np.abs(x), axis=axes, keepdims=True, initial=0)
    _, exponent = np.frexp(np.where(np.isfinite(peak), peak, 0.0))
    scaled = np.ldexp(x, -exponent)
    return np.ldexp(np.sqrt(np.sum(np.square(scaled), axis=axes, keepdims=True)), exponent)


def reshape_along(values: Array, rank: int, axis: int = 1) -> Array:
    """Return a list of numbers in a shape that broadcasts along one axis of a tensor; by default that of channels.

    >>> reshape_along(np.arange(3), 4).shape
    (1, 3, 1, 1)
    """
    return values.reshape([-1 if place == axis % rank else 1 for place in range(rank)])


def in_type(x: Array | np.generic[Any], dtype: npt.DTypeLike) -> Array:
    """Return values in a type, a lone number as an array too."""
    return np.asarray(x, dtype) if isinstance(x, np.generic) else x.astype(dtype)


def wide(x: Array) -> Array:
    """Return integers in 64 bits, where sums wrap as in their own type and NumPy can multiply any of them."""
    return x if np.issubdtype(x.dtype, np.floating) else x.astype(np.int64)


def greatest_magnitude(values: Array) -> float:
    """Return the largest magnitude, 0 of no elements; NaN where one is among them.

    Halves are compared by their bits: NumPy's own search of them takes two hundred times as long.

    >>> greatest_magnitude(np.array([1, -2.5], np.float16)), greatest_magnitude(np.array([0.5, -np.inf]))
    (2.5, inf)
    """
    if not values.size:
        return 0.0
    if values.dtype != np.float16:
        return float(max(values.max(), -values.min()))
    positive, pattern = int(values.view(np.int16).max()), int(values.view(np.uint16).max())
    negative = pattern - SIGN_BIT if pattern >= SIGN_BIT else 0
    return float(np.uint16(max(positive, negative)).view(np.float16))

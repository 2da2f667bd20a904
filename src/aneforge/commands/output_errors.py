"""How far an output of a model is from what it should be: the numbers that users compare."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass
from aneforge.report.model import OutputError

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["OutputError", "Tolerance", "output_error", "same_bits"]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an element may be from the one that is wanted: `atol + rtol · |wanted|`, as in NumPy."""

    atol: float = 0.0
    rtol: float = 0.0


def output_error(name: str, found: Array, wanted: Array, tolerance: Tolerance | None = None) -> OutputError:
    """Return how far an output is from what is wanted.

    >>> import numpy as np
    >>> error = output_error("y", np.float16([1.0, 2.5]), np.float32([1.0, 2.0]), Tolerance(atol=0.5))
    >>> error.differing, error.outside, error.largest, error.relative, error.argmax
    (1, 0, 0.5, 0.25, 1.0)
    """
    differing = int(np.count_nonzero(~same_bits(found, round_like(found, wanted))))
    left, right = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(left), np.isfinite(right)
    both = finite[0] & finite[1]
    largest = None
    if not (finite[0] != finite[1]).any():
        largest = float(np.max(np.abs(left[both] - right[both]), initial=0.0))
    scale = float(np.max(np.abs(right[both]), initial=0.0))
    outside = differing
    if tolerance is not None:
        close = np.isclose(left, right, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)
        outside = int(np.count_nonzero(~close))
    return OutputError(
        name=name,
        elements=found.size,
        differing=differing,
        outside=outside,
        largest=largest,
        relative=relative_error(largest, scale),
        snr=signal_to_noise(left, right) if both.all() else None,
        argmax=argmax_agreement(left, right),
        not_finite=(int(np.count_nonzero(~finite[0])), int(np.count_nonzero(~finite[1]))),
    )


def relative_error(largest: float | None, scale: float) -> float | None:
    """Return an error in units of the largest number that is wanted; None where there is no such quotient.

    >>> relative_error(0.5, 2.0), relative_error(0.5, 0.0), relative_error(1e300, 5e-324)
    (0.25, None, None)
    """
    if largest is None or scale == 0:
        return None
    quotient = largest / scale
    return quotient if math.isfinite(quotient) else None


def round_like(found: Array, wanted: Array) -> Array:
    """Return what is wanted in the precision of what was found."""
    if found.dtype == wanted.dtype or found.dtype != np.float16:
        return wanted
    with np.errstate(over="ignore"):
        return wanted.astype(np.float16)


def signal_to_noise(found: Array, wanted: Array) -> float | None:
    """Return the ratio of the power of a signal to that of its error, in decibels; None where either is zero.

    >>> import numpy as np
    >>> signal_to_noise(np.array([0.0]), np.array([1e300]))
    0.0
    """
    # Squares of numbers in units of the largest do not overflow.
    unit = float(max(np.max(np.abs(found), initial=0.0), np.max(np.abs(wanted), initial=0.0))) or 1.0
    noise = float(np.sum(np.square(found / unit - wanted / unit)))
    signal = float(np.sum(np.square(wanted / unit)))
    return 10 * (math.log10(signal) - math.log10(noise)) if noise > 0 and signal > 0 else None


def argmax_agreement(found: Array, wanted: Array) -> float | None:
    """Return the share of rows whose largest element is at the same place."""
    if not found.ndim or not found.size or found.shape[-1] == 1:
        return None
    same = np.asarray(np.argmax(found, axis=-1) == np.argmax(wanted, axis=-1), np.bool_)
    return float(np.mean(same))


def same_bits(left: Array, right: Array) -> Array:
    """Return for each element whether two arrays hold the same bits; two NaN count as the same."""
    if left.dtype == np.float16 and right.dtype == np.float16:
        left_bits, right_bits = (np.ascontiguousarray(one).view(np.uint16) for one in (left, right))
        return (left_bits == right_bits) | (np.isnan(left) & np.isnan(right))
    return left == right

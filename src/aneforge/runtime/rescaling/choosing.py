"""Which power of two: as large as the grid asks for, as small as the edges allow.

The edges are 2^15 for any partial sum, 65,504 for operands, and 2^-14 for gains, below which they would lose bits.
What the grid asks for is that its rounding of all products of a sum stays far below the rounding of the result to fp16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.golden import EDGE, PRODUCT_GRID
from aneforge.ops.numbers import FP16_MAX
from aneforge.runtime.rescaling.policy import policy

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = [
    "MOST_GAIN",
    "MOST_OPERAND",
    "RESULT_STEP",
    "edge_margin",
    "exactly_scaled",
    "joined",
    "limits",
    "operand_margin",
    "wanted",
]

MOST_GAIN = 14
"""A gain of 2^-14 is the smallest normal number of fp16."""
MOST_OPERAND = FP16_MAX
RESULT_STEP = 2.0**-11
"""Half the distance of neighbours of fp16 near 1."""
UNDER_EDGE = 1 - 2.0**-6
"""Sums from 32,760 on round to 2^15, which is the edge."""


def wanted(depth: int, typical: Array) -> Array:
    """Return the exponents from which on the grid does not matter, given the size of typical results of each channel.

    A channel whose results are all zero asks for nothing.

    >>> wanted(1024, np.array([1.0, 2.0**-5, 0.0])).tolist()
    [5.0, 10.0, 0.0]
    """
    noise = math.sqrt(depth) * PRODUCT_GRID
    with np.errstate(divide="ignore", over="ignore"):
        bits = np.ceil(np.log2(noise / (RESULT_STEP * typical))) + policy().finer.bits
    return np.where(typical > 0, np.clip(bits, 0.0, MOST_GAIN), 0.0)


def limits(reach: Array, operand: Array, behind: Array, safety: int) -> Array:
    """Return the largest exponents that keep off every edge, for each channel.

    `reach` bounds any partial sum, `operand` the numbers that are multiplied, `behind` are gains that follow: together
    with them the inverse must not fall below the normal numbers of fp16. `safety` bits are left free below the edge.

    >>> limits(np.array([3.0]), np.array([0.5]), np.array([1.0]), 2).tolist()
    [11.0]
    """
    with np.errstate(divide="ignore"):
        edge = np.floor(np.log2(EDGE * UNDER_EDGE / reach))
        room = np.floor(np.log2(MOST_OPERAND / operand))
        gain = MOST_GAIN + np.floor(np.log2(np.minimum(behind, 1.0)))
    # What was not seen to reach the edge is not scaled down for the sake of safety.
    safe = np.where(edge >= 0, np.maximum(edge - safety, 0.0), edge - safety)
    return np.minimum(np.minimum(safe, room), gain)


def joined(asked: Array, limit: Array) -> tuple[int, ...]:
    """Return exponents: one for all channels where it serves all of them within the slack, else one for each.

    What is beyond the limit as it is, is scaled down; what asks for nothing stays, unless the others' factor serves.

    >>> joined(np.array([3.0, 5.0]), np.array([9.0, 6.0])), joined(np.array([3.0, 8.0]), np.array([3.0, 9.0]))
    ((5,), (3, 8))
    """
    if not np.all(np.isfinite(asked)) or np.any(np.isneginf(limit)) or np.any(np.isnan(limit)):
        return (0,)
    most, least = float(asked.max()), float(limit.min())
    if least >= max(most - policy().slack.bits, 0.0) or len(asked) == 1:
        return (int(min(most, least)),)
    found = tuple(int(min(one, edge)) for one, edge in zip(asked, limit, strict=True))
    return found if len(set(found)) > 1 else found[:1]


def edge_margin(reach: Array, exponents: tuple[int, ...]) -> float:
    """Return the bits between the largest bound of a partial sum, as it is then, and the edge."""
    most = float(np.max(reach * 2.0 ** np.array(exponents, np.float64), initial=0.0))
    return math.inf if most == 0 else math.log2(EDGE / most)


def operand_margin(largest: float, exponent: int) -> float:
    """Return the bits between the largest element of a tensor, as it is then, and the largest number of fp16.

    >>> operand_margin(65504.0 / 8, 1), operand_margin(0.0, 14)
    (2.0, inf)
    """
    return math.inf if largest == 0 else math.log2(MOST_OPERAND / largest) - exponent


def exactly_scaled(values: Array, factor: Array) -> Array | None:
    """Return numbers times powers of two in their own type; None where one would not keep its bits.

    >>> exactly_scaled(np.array([3.0], np.float16), np.array(4.0)).tolist()
    [12.0]
    >>> exactly_scaled(np.array([2.0**-24], np.float16), np.array(0.5)) is None
    True
    """
    exact = values.astype(np.float64) * factor
    with np.errstate(over="ignore", under="ignore"):
        stored = exact.astype(values.dtype)
    kept = np.array_equal(stored.astype(np.float64), exact) and bool(np.all(np.isfinite(exact)))
    return stored if kept else None

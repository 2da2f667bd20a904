"""Remainders: of real numbers by long division, which rounds nothing; of integers from the quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.decomposition import SAME_MATHEMATICS, Accuracy, Decomposition
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["LONG_DIVISION"]

BITS = 11
"""Bits of the quotient that long division finds, as many as fp16 has."""


def remainder(to: Site, x: Term, y: Term) -> Term:
    """Return x − y · ⌊x / y⌋."""
    if not is_float(x.dtype):
        return integer_remainder(to, x, y)
    zero = to.constant(np.zeros(()), x.dtype)
    divisor = y.abs()
    rest = x.abs()
    # 2^k · |y| is exact, and so is a difference of two numbers of which neither is twice the other.
    for bit in reversed(range(BITS)):
        step = divisor * float(1 << bit)
        rest = rest.less(step).select(rest, rest - step)
    signed = x.less(zero).select(-rest, rest)
    other_sign = signed * y.sign()
    return other_sign.less(zero).select(signed + y, signed)


def integer_remainder(to: Site, x: Term, y: Term) -> Term:
    """Return x − y · ⌊x / y⌋ of integers, 0 where y is 0."""
    zero = to.constant(np.zeros(()), x.dtype)
    return y.equal(zero).select(zero, x - y * x.floor_div(y))


LONG_DIVISION = Decomposition(
    "long division",
    "long division, bit by bit; of integers x − y · ⌊x / y⌋",
    remainder,
    SAME_MATHEMATICS,
    Accuracy(-2047.0, 2047.0, 0.0, of="x / y"),
)

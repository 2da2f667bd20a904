"""Remainders: of real numbers by long division, which rounds nothing; of integers from the quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Accuracy, Decomposition
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = ["LONG_DIVISION"]

BITS = 11
"""Bits of the quotient that long division finds, as many as fp16 has."""
EXPONENTS = 15
LARGEST = FP16_MAX


def remainder(to: Site, x: Term, y: Term) -> Term:
    """Return x − y · ⌊x / y⌋."""
    if not is_float(x.dtype):
        return integer_remainder(to, x, y)
    if is_power_of_two(y):
        return remainder_of_bits(to, x, y)
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


def is_power_of_two(y: Term) -> bool:
    """Return whether divisors are constants by which a quotient is exact, and whose inverses fp16 has."""
    if y.known is None:
        return False
    mantissas, exponents = np.frexp(np.abs(y.known))
    return bool(np.all((mantissas == 0.5) & (np.abs(exponents) < EXPONENTS)))


def remainder_of_bits(to: Site, x: Term, y: Term) -> Term:
    """Return x − y · ⌊x / y⌋, in which nothing is rounded for a power of two y.

    The clip is there because an engine loses a number by which it multiplies right after it rounds (value
    `rounding_keeps_multiplier` of the target database).
    """
    assert y.known is not None  # noqa: S101 - it was looked at
    quotient = (x * to.constant(1 / y.known, y.dtype)).floor()
    return x - quotient.clip(alpha=-LARGEST, beta=LARGEST) * y


def integer_remainder(to: Site, x: Term, y: Term) -> Term:
    """Return x − y · ⌊x / y⌋ of integers, 0 where y is 0."""
    zero = to.constant(np.zeros(()), x.dtype)
    return y.equal(zero).select(zero, x - y * x.floor_div(y))


LONG_DIVISION = Decomposition(
    "long division",
    "long division, bit by bit; for integers and constant powers of two x − y · ⌊x / y⌋",
    remainder,
    SAME_MATHEMATICS,
    Accuracy(-2047.0, 2047.0, 0.0, of="x / y"),
)

"""Polynomials of tensors and of terms, in one order of roundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    class Factor(Protocol):
        """What has sums and products."""

        def __add__(self, other: float, /) -> Self: ...
        def __mul__(self, other: Self | float, /) -> Self: ...


Variable = TypeVar("Variable", bound="Factor")


def horner(coefficients: Sequence[float], x: Variable) -> Variable:
    """Return a polynomial of one or more degrees, its coefficients given with the constant term first."""
    result = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        result = (result + coefficient) * x
    return result + coefficients[0]

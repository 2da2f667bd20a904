"""Operators and comparisons."""

from __future__ import annotations

from typing import Self, TypeGuard

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.base import Methods, build_checked, weight
from aneforge.graph.node import Output, users_location

__all__ = ["ArithmeticMethods"]


class ArithmeticMethods(Methods):
    """Arithmetic with tensors, arrays and numbers; comparisons of tensors."""

    __slots__ = ()
    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __add__(self, other: object) -> Self:
        return self.adds(float(other)) if is_number(other) else self._pair("add", other)

    def __radd__(self, other: object) -> Self:
        return self + other

    def __sub__(self, other: object) -> Self:
        return self.adds(-float(other)) if is_number(other) else self._pair("sub", other)

    def __rsub__(self, other: object) -> Self:
        return self._reversed("sub", other)

    def __mul__(self, other: object) -> Self:
        return self.muls(float(other)) if is_number(other) else self._pair("mul", other)

    def __rmul__(self, other: object) -> Self:
        return self * other

    def __truediv__(self, other: object) -> Self:
        return self._pair("real_div", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._reversed("real_div", other)

    def __pow__(self, other: object) -> Self:
        return self._pair("pow", other)

    def __rpow__(self, other: object) -> Self:
        return self._reversed("pow", other)

    def __neg__(self) -> Self:
        return self.muls(-1.0)

    def __matmul__(self, other: object) -> Self:
        """Multiply by a constant matrix [K, N], or by a tensor.

        Raises:
            GraphError: The inner extents differ.
        """
        if isinstance(other, Output):
            return type(self)(build_checked("bmm", {"x": self, "y": other}))
        matrix = np.asarray(other)
        if matrix.ndim != 2:
            raise GraphError(
                "the right-hand matrix is not two-dimensional",
                operation="matmul",
                location=users_location(),
                seen=list(matrix.shape),
                remedy="use bmm_weight for a stack of matrices",
            )
        transposed = weight(np.ascontiguousarray(matrix.T), "the right-hand matrix")
        return self.apply("matmul", {"y": transposed}, transpose_x=False, transpose_y=True)

    def pow(self, other: object) -> Self:
        """Raise to a power, element by element."""
        return self**other

    def adds(self, k: float) -> Self:
        """Add a number."""
        return self.apply("adds", k=k)

    def muls(self, k: float) -> Self:
        """Multiply by a number."""
        return self.apply("muls", k=k)

    def greater(self, other: Output) -> Self:
        """Tell where this is greater."""
        return self._compare("greater", other)

    def greater_equal(self, other: Output) -> Self:
        """Tell where this is greater or equal."""
        return self._compare("greater_equal", other)

    def less(self, other: Output) -> Self:
        """Tell where this is less."""
        return self._compare("less", other)

    def less_equal(self, other: Output) -> Self:
        """Tell where this is less or equal."""
        return self._compare("less_equal", other)

    def equal(self, other: Output) -> Self:
        """Tell where both are equal."""
        return self._compare("equal", other)

    def not_equal(self, other: Output) -> Self:
        """Tell where they differ."""
        return self._compare("not_equal", other)

    def logical_not(self) -> Self:
        """Tell where this is false."""
        return self.apply("logical_not")

    def _pair(self, op: str, other: object) -> Self:
        return self.apply(op, {"y": self.constant_or_tensor(other)})

    def _reversed(self, op: str, other: object) -> Self:
        return type(self)(build_checked(op, {"x": self.constant_or_tensor(other), "y": self}))

    def _compare(self, op: str, other: Output) -> Self:
        if not isinstance(other, Output):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(
                "a comparison takes a tensor", operation=op, location=users_location(), seen=type(other).__name__
            )
        return self.apply(op, {"y": other})


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a plain number, for which a scalar operation exists."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)

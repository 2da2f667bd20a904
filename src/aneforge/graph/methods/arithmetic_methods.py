"""Operators and comparisons."""

from __future__ import annotations

from typing import NoReturn, Self

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.base import Methods, as_array, build_checked, constant_or_tensor, weight
from aneforge.graph.methods.method_arguments import describe_argument, is_number, misuse, number
from aneforge.graph.node import Output, users_location
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared

__all__ = ["ArithmeticMethods"]


class ArithmeticMethods(Methods):
    """Arithmetic with tensors, arrays and numbers; comparisons of tensors."""

    __slots__ = ()
    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __bool__(self) -> bool:
        raise GraphTypeError(
            "a tensor has no boolean value while the graph is built",
            location=users_location(),
            remedy="use select(cond, a, b); to see whether there is a tensor, test `tensor is None`",
        )

    def __add__(self, other: object) -> Self:
        return self.adds(other) if is_number(other) else self._pair("add", other)

    def __radd__(self, other: object) -> Self:
        return self + other

    def __sub__(self, other: object) -> Self:
        return self.adds(-number(other, "sub", "k", finite=False)) if is_number(other) else self._pair("sub", other)

    def __rsub__(self, other: object) -> Self:
        return self._reversed("sub", other)

    def __mul__(self, other: object) -> Self:
        return self.muls(other) if is_number(other) else self._pair("mul", other)

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

        >>> import numpy as np
        >>> import aneforge as af
        >>> (af.input((2, 3)) @ np.ones((3, 5))).shape
        (2, 5)

        Raises:
            GraphError: The inner extents differ.
            GraphTypeError: It is neither a tensor nor an array of floating-point numbers.
        """
        if isinstance(other, Output):
            return type(self)(build_checked("bmm", {"x": self, "y": other}))
        what = "the right-hand matrix"
        if isinstance(other, Declared):
            matrix, rank = other, other.type.rank
        else:
            matrix = other.dense() if isinstance(other, Constant) else as_array(other, "matmul", what)
            rank = matrix.ndim
        if rank != 2:
            raise misuse(
                "matmul",
                f"{what} is not two-dimensional",
                seen=describe_argument(matrix),
                limit="[K, N]",
                remedy="use bmm_weight for a stack of matrices",
            )
        turned = matrix.turn() if isinstance(matrix, Declared) else np.ascontiguousarray(matrix.T)
        transposed = weight(turned, "matmul", what)
        return self.apply("matmul", {"y": transposed}, transpose_x=False, transpose_y=True)

    def __rmatmul__(self, other: object) -> NoReturn:
        raise misuse(
            "matmul",
            "the left-hand matrix is not a tensor",
            seen=describe_argument(other),
            remedy="for A @ x of matrices write (x.transpose(1, 0) @ A.T).transpose(1, 0)",
            error=GraphTypeError,
        )

    def pow(self, other: object) -> Self:
        """Raise to a power, element by element.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).pow(2), [[3.0, -1.0]])["y"].tolist()
        [9.0, 1.0]
        """
        return self**other

    def adds(self, k: float) -> Self:
        """Add a number.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).adds(1.5), [[0.0, 1.0]])["y"].tolist()
        [1.5, 2.5]
        """
        return self.apply("adds", k=number(k, "adds", "k", finite=False))

    def muls(self, k: float) -> Self:
        """Multiply by a number.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).muls(1.5), [[0.0, 2.0]])["y"].tolist()
        [0.0, 3.0]
        """
        return self.apply("muls", k=number(k, "muls", "k", finite=False))

    def greater(self, other: Output) -> Self:
        """Return where this is greater.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.greater(y), [[1.0, 2.0], [1.0, 0.0]])["y"].tolist()
        [False, True]
        """
        return self._compare("greater", other)

    def greater_equal(self, other: Output) -> Self:
        """Return where this is greater or equal.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.greater_equal(y), [[1.0, 2.0], [1.0, 3.0]])["y"].tolist()
        [True, False]
        """
        return self._compare("greater_equal", other)

    def less(self, other: Output) -> Self:
        """Return where this is less.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.less(y), [[1.0, 2.0], [1.0, 3.0]])["y"].tolist()
        [False, True]
        """
        return self._compare("less", other)

    def less_equal(self, other: Output) -> Self:
        """Return where this is less or equal.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.less_equal(y), [[1.0, 2.0], [1.0, 0.0]])["y"].tolist()
        [True, False]
        """
        return self._compare("less_equal", other)

    def equal(self, other: Output) -> Self:
        """Return where both are equal.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.equal(y), [[1.0, 2.0], [1.0, 0.0]])["y"].tolist()
        [True, False]
        """
        return self._compare("equal", other)

    def not_equal(self, other: Output) -> Self:
        """Return where they differ.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.not_equal(y), [[1.0, 2.0], [1.0, 0.0]])["y"].tolist()
        [False, True]
        """
        return self._compare("not_equal", other)

    def logical_not(self) -> Self:
        """Return where this is false.

        >>> import aneforge as af
        >>> x, y = af.input((2,)), af.input((2,))
        >>> af.reference(x.equal(y).logical_not(), [[1.0, 2.0], [1.0, 0.0]])["y"].tolist()
        [False, True]
        """
        return self.apply("logical_not")

    def _pair(self, op: str, other: object) -> Self:
        return self.apply(op, {"y": constant_or_tensor(other, op)})

    def _reversed(self, op: str, other: object) -> Self:
        return type(self)(build_checked(op, {"x": constant_or_tensor(other, op), "y": self}))

    def _compare(self, op: str, other: object) -> Self:
        if not isinstance(other, Output):
            raise misuse(op, "a comparison takes a tensor", seen=describe_argument(other), error=GraphTypeError)
        return self.apply(op, {"y": other})

"""Functions of every element by itself, and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.base import Methods, weight
from aneforge.graph.methods.method_arguments import describe_argument, misuse, number, one_list, whole
from aneforge.ops.types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FunctionMethods"]


class FunctionMethods(Methods):
    """Activations, elementary functions, reductions."""

    __slots__ = ()

    def relu(self) -> Self:
        """Return max(x, 0).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).relu(), [[-1.0, 2.0]])["y"].tolist()
        [0.0, 2.0]
        """
        return self.apply("relu")

    def relu6(self) -> Self:
        """Return min(max(x, 0), 6).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).relu6(), [[-1.0, 8.0]])["y"].tolist()
        [0.0, 6.0]
        """
        return self.apply("relu6")

    def gelu(self) -> Self:
        """Return x times the normal distribution function at x.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).gelu(), [[0.0, 16.0]])["y"].tolist()
        [0.0, 16.0]
        """
        return self.apply("gelu")

    def silu(self) -> Self:
        """Return x · sigmoid(x).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).silu(), [[0.0, 64.0]])["y"].tolist()
        [0.0, 64.0]
        """
        return self.apply("silu")

    def sigmoid(self) -> Self:
        """Return 1 / (1 + exp(−x)).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).sigmoid(), [[0.0, 64.0]])["y"].tolist()
        [0.5, 1.0]
        """
        return self.apply("sigmoid")

    def tanh(self) -> Self:
        """Return the hyperbolic tangent.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).tanh(), [[0.0, 64.0]])["y"].tolist()
        [0.0, 1.0]
        """
        return self.apply("tanh")

    def exp(self) -> Self:
        """Return e to the power x.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).exp(), [[0.0, -1000.0]])["y"].tolist()
        [1.0, 0.0]
        """
        return self.apply("exp")

    def exp2(self) -> Self:
        """Return 2 to the power x.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).exp2(), [[3.0, -1.0]])["y"].tolist()
        [8.0, 0.5]
        """
        return self.apply("exp2")

    def log(self, eps: float = 0.0) -> Self:
        """Return the natural logarithm of x + eps.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).log(), [[1.0, 0.0]])["y"].tolist()
        [0.0, -inf]
        """
        return self.apply("log", epsilon=number(eps, "log", "eps"))

    def log2(self) -> Self:
        """Return the logarithm to the base 2.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).log2(), [[8.0, 0.5]])["y"].tolist()
        [3.0, -1.0]
        """
        return self.apply("log2")

    def sqrt(self) -> Self:
        """Return the square root.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).sqrt(), [[4.0, 0.25]])["y"].tolist()
        [2.0, 0.5]
        """
        return self.apply("sqrt")

    def rsqrt(self, eps: float = 0.0) -> Self:
        """Return 1 over the square root of x + eps.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).rsqrt(), [[4.0, 0.25]])["y"].tolist()
        [0.5, 2.0]
        """
        return self.apply("rsqrt", epsilon=number(eps, "rsqrt", "eps"))

    def inverse(self, eps: float = 0.0) -> Self:
        """Return 1 / (x + eps).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).inverse(), [[4.0, -0.5]])["y"].tolist()
        [0.25, -2.0]
        """
        return self.apply("inverse", epsilon=number(eps, "inverse", "eps"))

    def abs(self) -> Self:
        """Return the magnitude.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).abs(), [[-4.0, 0.5]])["y"].tolist()
        [4.0, 0.5]
        """
        return self.apply("abs")

    def square(self) -> Self:
        """Return x².

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).square(), [[-4.0, 0.5]])["y"].tolist()
        [16.0, 0.25]
        """
        return self.apply("square")

    def sin(self) -> Self:
        """Return the sine.

        >>> import aneforge as af
        >>> af.reference(af.input((1,)).sin(), [[0.0]])["y"].tolist()
        [0.0]
        """
        return self.apply("sin")

    def cos(self) -> Self:
        """Return the cosine.

        >>> import aneforge as af
        >>> af.reference(af.input((1,)).cos(), [[0.0]])["y"].tolist()
        [1.0]
        """
        return self.apply("cos")

    def atan(self) -> Self:
        """Return the arc tangent.

        >>> import aneforge as af
        >>> af.reference(af.input((1,)).atan(), [[0.0]])["y"].tolist()
        [0.0]
        """
        return self.apply("atan")

    def erf(self) -> Self:
        """Return the error function.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).erf(), [[0.0, 64.0]])["y"].tolist()
        [0.0, 1.0]
        """
        return self.apply("erf")

    def softplus(self) -> Self:
        """Return log(1 + exp(x)).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).softplus(), [[64.0, -1000.0]])["y"].tolist()
        [64.0, 0.0]
        """
        return self.apply("softplus")

    def softsign(self) -> Self:
        """Return x / (1 + |x|).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).softsign(), [[1.0, -3.0]])["y"].tolist()
        [0.5, -0.75]
        """
        return self.apply("softsign")

    def floor(self) -> Self:
        """Round down.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).floor(), [[1.5, -1.5]])["y"].tolist()
        [1.0, -2.0]
        """
        return self.apply("floor")

    def ceil(self) -> Self:
        """Round up.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).ceil(), [[1.5, -1.5]])["y"].tolist()
        [2.0, -1.0]
        """
        return self.apply("ceil")

    def round(self) -> Self:
        """Round to the nearest integer.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).round(), [[1.75, -1.25]])["y"].tolist()
        [2.0, -1.0]
        """
        return self.apply("round")

    def sign(self) -> Self:
        """Return −1, 0 or 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).sign(), [[1.5, -1.5]])["y"].tolist()
        [1.0, -1.0]
        """
        return self.apply("sign")

    def elu(self, alpha: float = 1.0) -> Self:
        """Return x where it is positive, else alpha · (exp(x) − 1).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).elu(), [[2.0, -1000.0]])["y"].tolist()
        [2.0, -1.0]
        """
        return self.apply("elu", alpha=number(alpha, "elu", "alpha"))

    def leaky_relu(self, alpha: float = 0.01) -> Self:
        """Return x where it is positive, else alpha · x.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).leaky_relu(0.5), [[2.0, -2.0]])["y"].tolist()
        [2.0, -1.0]
        """
        return self.apply("leaky_relu", alpha=number(alpha, "leaky_relu", "alpha"))

    def clip(self, lo: float, hi: float) -> Self:
        """Return x held between two values; either may be infinite.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).clip(-1.0, 1.0), [[-3.0, 0.5]])["y"].tolist()
        [-1.0, 0.5]
        """
        return self._clipped("clip", lo, hi)

    def clamp(self, lo: float, hi: float) -> Self:
        """Return x held between two values; another name of `clip`.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).clamp(0.0, 1.0), [[-3.0, 0.5]])["y"].tolist()
        [0.0, 0.5]
        """
        return self._clipped("clamp", lo, hi)

    def scaled_tanh(self, a: float = 1.0, b: float = 1.0) -> Self:
        """Return a · tanh(b · x).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).scaled_tanh(2.0, 64.0), [[1.0, -1.0]])["y"].tolist()
        [2.0, -2.0]
        """
        op = "scaled_tanh"
        return self.apply(op, alpha=number(a, op, "a"), beta=number(b, op, "b"))

    def threshold(self, a: float) -> Self:
        """Return max(x, a).

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).threshold(1.0), [[0.5, 2.0]])["y"].tolist()
        [1.0, 2.0]
        """
        return self.apply("threshold", alpha=number(a, "threshold", "a"))

    def thresholded_relu(self, a: float = 1.0) -> Self:
        """Return x where it is at least a, else 0.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).thresholded_relu(1.0), [[0.5, 2.0]])["y"].tolist()
        [0.0, 2.0]
        """
        return self.apply("thresholded_relu", alpha=number(a, "thresholded_relu", "a"))

    def clamped_relu(self, a: float, b: float) -> Self:
        """Return min(b, x), with a · x for negative x.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).clamped_relu(0.5, 6.0), [[-2.0, 8.0]])["y"].tolist()
        [-1.0, 6.0]
        """
        op = "clamped_relu"
        return self.apply(op, alpha=number(a, op, "a"), beta=number(b, op, "b"))

    def sigmoid_hard(self, a: float = 0.2, b: float = 0.5) -> Self:
        """Return a · x + b held between 0 and 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).sigmoid_hard(), [[0.0, 8.0]])["y"].tolist()
        [0.5, 1.0]
        """
        op = "sigmoid_hard"
        return self.apply(op, alpha=number(a, op, "a"), beta=number(b, op, "b"))

    def linear_activation(self, a: float = 1.0, b: float = 0.0) -> Self:
        """Return a · x + b.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).linear_activation(2.0, 1.0), [[0.0, 3.0]])["y"].tolist()
        [1.0, 7.0]
        """
        op = "linear_activation"
        return self.apply(op, alpha=number(a, op, "a"), beta=number(b, op, "b"))

    def prelu(self, alpha: object) -> Self:
        """Return x where it is positive, else alpha · x with an alpha per channel.

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.input((1, 3, 8, 8)).prelu(np.full(3, 0.25)).shape
        (1, 3, 8, 8)
        """
        return self.apply("prelu", {"alpha": weight(alpha, "prelu", "alpha")})

    def softmax(self, axis: int = -1) -> Self:
        """Return exp(x) over its sum along an axis.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).softmax(), [[1.0, 1.0]])["y"].tolist()
        [0.5, 0.5]
        """
        return self.apply("softmax", axis=whole(axis, "softmax", "axis"))

    def sum(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the sum along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).sum((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[10.0]]
        """
        return self._reduce("reduce_sum", axis)

    def mean(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the mean along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).mean((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[2.5]]
        """
        return self._reduce("reduce_mean", axis)

    def amax(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the largest element along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).amax((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[4.0]]
        """
        return self._reduce("reduce_max", axis)

    def amin(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the smallest element along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).amin((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[1.0]]
        """
        return self._reduce("reduce_min", axis)

    def l1_norm(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the sum of magnitudes along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).l1_norm((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[10.0]]
        """
        return self._reduce("reduce_l1_norm", axis)

    def log_sum(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the logarithm of the sum along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.input((2, 3)).log_sum(0).shape
        (1, 3)
        """
        return self._reduce("reduce_log_sum", axis)

    def sum_square(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the sum of squares along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.reference(af.input((2, 2)).sum_square((0, 1)), [[[1.0, 2.0], [3.0, 4.0]]])["y"].tolist()
        [[30.0]]
        """
        return self._reduce("reduce_sum_square", axis)

    def reduce_log_sum_exp(self, axis: int | Sequence[int] = -1) -> Self:
        """Return the logarithm of the sum of exponentials along axes, which stay with length 1.

        >>> import aneforge as af
        >>> af.input((2, 3)).reduce_log_sum_exp(0).shape
        (1, 3)
        """
        return self._reduce("reduce_log_sum_exp", axis)

    def argmax(self, axis: int = -1) -> Self:
        """Return the index of the largest element along an axis of a two-dimensional tensor.

        >>> import aneforge as af
        >>> af.reference(af.input((1, 3)).argmax(), [[[1.0, 3.0, 2.0]]])["y"].tolist()
        [[1.0]]
        """
        return self.apply("argmax", axis=whole(axis, "argmax", "axis"))

    def cast(self, dtype: str) -> Self:
        """Return the elements in another type: truncated towards zero for integers, x ≠ 0 for bool.

        >>> import aneforge as af
        >>> x = af.input((2,)).cast("int32")
        >>> x.dtype, af.reference(x, [[1.75, -1.75]])["y"].tolist()
        ('int32', [1, -1])

        Raises:
            GraphTypeError: The element type is not given by its name.
            GraphError: There is no such element type.
        """
        if not isinstance(dtype, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise misuse(
                "cast",
                "dtype is not the name of an element type",
                seen=describe_argument(dtype),
                limit=", ".join(DTYPES),
                error=GraphTypeError,
            )
        return self.apply("cast", dtype=dtype)

    def _reduce(self, op: str, axis: int | Sequence[int]) -> Self:
        axes = one_list((axis,), op, "axis")
        if not axes:
            raise misuse(op, "axis names no axis", limit="1 axis or more")
        return self.apply(op, axes=axes, keep_dims=True)

    def _clipped(self, op: str, lo: object, hi: object) -> Self:
        low, high = number(lo, op, "lo", finite=False), number(hi, op, "hi", finite=False)
        if not low <= high:
            raise misuse(op, "lo must be at most hi", seen=f"{low:g} and {high:g}")
        return self.apply("clip", alpha=low, beta=high)

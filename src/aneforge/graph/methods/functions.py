"""Functions of every element by itself, and reductions."""

from __future__ import annotations

from typing import Self

from aneforge.graph.methods.base import Methods, weight

__all__ = ["FunctionMethods"]


class FunctionMethods(Methods):
    """Activations, elementary functions, reductions."""

    __slots__ = ()

    def relu(self) -> Self:
        """Return max(x, 0)."""
        return self.apply("relu")

    def relu6(self) -> Self:
        """Return min(max(x, 0), 6)."""
        return self.apply("relu6")

    def gelu(self) -> Self:
        """Return x times the normal distribution function at x."""
        return self.apply("gelu")

    def silu(self) -> Self:
        """Return x · sigmoid(x)."""
        return self.apply("silu")

    def sigmoid(self) -> Self:
        """Return 1 / (1 + exp(−x))."""
        return self.apply("sigmoid")

    def tanh(self) -> Self:
        """Return the hyperbolic tangent."""
        return self.apply("tanh")

    def exp(self) -> Self:
        """Return e to the power x."""
        return self.apply("exp")

    def exp2(self) -> Self:
        """Return 2 to the power x."""
        return self.apply("exp2")

    def log(self, eps: float = 0.0) -> Self:
        """Return the natural logarithm of x + eps."""
        return self.apply("log", epsilon=eps)

    def sqrt(self) -> Self:
        """Return the square root."""
        return self.apply("sqrt")

    def rsqrt(self, eps: float = 0.0) -> Self:
        """Return 1 over the square root of x + eps."""
        return self.apply("rsqrt", epsilon=eps)

    def inverse(self, eps: float = 0.0) -> Self:
        """Return 1 / (x + eps)."""
        return self.apply("inverse", epsilon=eps)

    def abs(self) -> Self:
        """Return the magnitude."""
        return self.apply("abs")

    def square(self) -> Self:
        """Return x²."""
        return self.apply("square")

    def sin(self) -> Self:
        """Return the sine."""
        return self.apply("sin")

    def cos(self) -> Self:
        """Return the cosine."""
        return self.apply("cos")

    def atan(self) -> Self:
        """Return the arc tangent."""
        return self.apply("atan")

    def erf(self) -> Self:
        """Return the error function."""
        return self.apply("erf")

    def softplus(self) -> Self:
        """Return log(1 + exp(x))."""
        return self.apply("softplus")

    def softsign(self) -> Self:
        """Return x / (1 + |x|)."""
        return self.apply("softsign")

    def floor(self) -> Self:
        """Round down."""
        return self.apply("floor")

    def ceil(self) -> Self:
        """Round up."""
        return self.apply("ceil")

    def round(self) -> Self:
        """Round to the nearest whole number."""
        return self.apply("round")

    def sign(self) -> Self:
        """Return −1, 0 or 1."""
        return self.apply("sign")

    def elu(self, alpha: float = 1.0) -> Self:
        """Return x where it is positive, else alpha · (exp(x) − 1)."""
        return self.apply("elu", alpha=alpha)

    def leaky_relu(self, alpha: float = 0.01) -> Self:
        """Return x where it is positive, else alpha · x."""
        return self.apply("leaky_relu", alpha=alpha)

    def clip(self, lo: float, hi: float) -> Self:
        """Return x held between two values."""
        return self.apply("clip", alpha=lo, beta=hi)

    def clamp(self, lo: float, hi: float) -> Self:
        """Return x held between two values; another name of `clip`."""
        return self.clip(lo, hi)

    def scaled_tanh(self, a: float = 1.0, b: float = 1.0) -> Self:
        """Return a · tanh(b · x)."""
        return self.apply("scaled_tanh", alpha=a, beta=b)

    def threshold(self, a: float) -> Self:
        """Return max(x, a)."""
        return self.apply("threshold", alpha=a)

    def thresholded_relu(self, a: float = 1.0) -> Self:
        """Return x where it is at least a, else 0."""
        return self.apply("thresholded_relu", alpha=a)

    def clamped_relu(self, a: float, b: float) -> Self:
        """Return min(b, x), with a · x for negative x."""
        return self.apply("clamped_relu", alpha=a, beta=b)

    def sigmoid_hard(self, a: float = 0.2, b: float = 0.5) -> Self:
        """Return a · x + b held between 0 and 1."""
        return self.apply("sigmoid_hard", alpha=a, beta=b)

    def linear_activation(self, a: float = 1.0, b: float = 0.0) -> Self:
        """Return a · x + b."""
        return self.apply("linear_activation", alpha=a, beta=b)

    def prelu(self, alpha: object) -> Self:
        """Return x where it is positive, else alpha · x with an alpha per channel."""
        return self.apply("prelu", {"alpha": weight(alpha, "alpha")})

    def softmax(self, axis: int = -1) -> Self:
        """Return exp(x) over its sum along an axis."""
        return self.apply("softmax", axis=axis)

    def sum(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the sum along axes, which stay with length 1."""
        return self._reduce("reduce_sum", axis)

    def mean(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the mean along axes, which stay with length 1."""
        return self._reduce("reduce_mean", axis)

    def amax(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the largest element along axes, which stay with length 1."""
        return self._reduce("reduce_max", axis)

    def amin(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the smallest element along axes, which stay with length 1."""
        return self._reduce("reduce_min", axis)

    def l1_norm(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the sum of magnitudes along axes, which stay with length 1."""
        return self._reduce("reduce_l1_norm", axis)

    def log_sum(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the logarithm of the sum along axes, which stay with length 1."""
        return self._reduce("reduce_log_sum", axis)

    def sum_square(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the sum of squares along axes, which stay with length 1."""
        return self._reduce("reduce_sum_square", axis)

    def reduce_log_sum_exp(self, axis: int | tuple[int, ...] = -1) -> Self:
        """Return the logarithm of the sum of exponentials along axes, which stay with length 1."""
        return self._reduce("reduce_log_sum_exp", axis)

    def argmax(self, axis: int = -1) -> Self:
        """Return the index of the largest element along an axis of a two-dimensional tensor."""
        return self.apply("argmax", axis=axis)

    def _reduce(self, op: str, axis: int | tuple[int, ...]) -> Self:
        axes = (axis,) if isinstance(axis, int) else axis
        return self.apply(op, axes=axes, keep_dims=True)

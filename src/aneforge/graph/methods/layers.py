"""Layers: products with weights, norms, pooling, resampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.base import Methods, build_checked, weight
from aneforge.graph.node import Output, users_location

if TYPE_CHECKING:
    from aneforge.ops.constant import Constant

__all__ = ["LayerMethods"]


class LayerMethods(Methods):
    """Products with weights, norms, pooling, resampling."""

    __slots__ = ()

    def linear(self, w: object, bias: object = None) -> Self:
        """Multiply by the transpose of a constant matrix [out, in], and add a bias [out]."""
        return self.apply("linear", {"weight": weight(w), "bias": None if bias is None else weight(bias, "bias")})

    def bmm_weight(self, w: object) -> Self:
        """Multiply a stack of matrices [B, M, K] by a constant stack [B, K, N]."""
        return self.apply("bmm_w", {"y": weight(w)})

    def cumsum(self, axis: int = -1) -> Self:
        """Return running sums along the last axis: a product with a triangle of ones.

        Raises:
            GraphError: It is not the last axis.
        """
        rank = len(self.shape)
        if axis not in (-1, rank - 1):
            raise GraphError(
                "cumsum runs along the last axis alone",
                operation="cumsum",
                location=users_location(),
                seen=axis,
                limit=-1,
                remedy="transpose first",
            )
        return self.apply(
            "matmul",
            {"y": weight(np.tril(np.ones((self.shape[-1],) * 2, np.float16)))},
            transpose_x=False,
            transpose_y=True,
        )

    def l2_norm(self, axis: int = -1, eps: float = 1e-12) -> Self:
        """Divide by the Euclidean norm along an axis, which counts as no smaller than √eps."""
        return self.apply("l2_norm", axes=(axis,), epsilon=eps)

    def rms_norm(self, gamma: object, eps: float = 1e-5) -> Self:
        """Divide the rows of a matrix by their root mean square, and scale the columns.

        With a tensor as gamma the scale is an operation of its own, and can be trained.
        """
        self._expect_matrix("rms_norm")
        if isinstance(gamma, Output):
            unit = self.apply("rms_norm", {"gamma": weight(np.ones(self.shape[-1], np.float16))}, epsilon=eps)
            return type(self)(build_checked("mul", {"x": unit, "y": gamma}))
        return self.apply("rms_norm", {"gamma": weight(gamma, "gamma")}, epsilon=eps)

    def layer_norm(self, gamma: object, beta: object, eps: float = 1e-5) -> Self:
        """Bring the rows of a matrix to mean 0 and variance 1, then scale and shift the columns.

        With tensors as gamma and beta the scale and shift are operations of their own, and can be trained.
        """
        self._expect_matrix("layer_norm")
        return self._affine_norm("layer_norm", gamma, beta, self.shape[-1:], axes=(-1,), epsilon=eps)

    def channel_layer_norm(self, gamma: object, beta: object, eps: float = 1e-5) -> Self:
        """Normalise over the channels of [N, C, 1, S]."""
        return self._affine_norm("channel_layer_norm", gamma, beta, (1, self.shape[1], 1, 1), epsilon=eps)

    def group_norm(self, gamma: object, beta: object, num_groups: int, eps: float = 1e-5) -> Self:
        """Normalise groups of channels of [1, C, H, W]."""
        return self._affine_norm(
            "group_norm", gamma, beta, (1, self.shape[1], 1, 1), num_groups=num_groups, epsilon=eps
        )

    def max_pool(self, k: int, stride: int | None = None, pad: int = 0, ceil_mode: bool = False) -> Self:  # noqa: FBT001, FBT002 - the documented signature
        """Return the largest element of every square window; the stride is the window's side by default."""
        return self._pool("max_pool", k, stride, pad, ceil_mode=ceil_mode)

    def avg_pool(
        self,
        k: int,
        stride: int | None = None,
        pad: int = 0,
        ceil_mode: bool = False,  # noqa: FBT001, FBT002 - the documented signature
        exclude_pad: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    ) -> Self:
        """Return the mean of every square window; the stride is the window's side by default."""
        return self._pool("avg_pool", k, stride, pad, ceil_mode=ceil_mode, exclude_padding_from_average=exclude_pad)

    def upsample(self, scale: int = 2) -> Self:
        """Repeat every pixel."""
        return self.apply("upsample", scale=scale)

    def _pool(self, op: str, k: int, stride: int | None, pad: int, **flags: bool) -> Self:
        sides = {"kernel_sizes": (k, k), "strides": (stride or k,) * 2, "pad_type": "custom", "pad": (pad,) * 4}
        return type(self)(build_checked(op, {"x": self}, **sides, **flags))

    def _expect_matrix(self, op: str) -> None:
        if len(self.shape) != 2:
            raise GraphError(
                "the tensor is not a matrix [M, D]",
                operation=op,
                location=users_location(),
                seen=list(self.shape),
                remedy="reshape it",
            )

    def _affine_norm(
        self, op: str, gamma: object, beta: object, trained_shape: tuple[int, ...], **attributes: object
    ) -> Self:
        if isinstance(gamma, Output) != isinstance(beta, Output):
            raise GraphTypeError(
                "gamma and beta must both be tensors or both be arrays", operation=op, location=users_location()
            )
        if isinstance(gamma, Output) and isinstance(beta, Output):
            channels = self.shape[-1] if op == "layer_norm" else self.shape[1]
            unit = {"gamma": ones(channels), "beta": zeros(channels)}
            normal = self.apply(op, unit, **attributes)
            shaped = [build_checked("reshape", {"x": part}, shape=trained_shape) for part in (gamma, beta)]
            scaled = build_checked("mul", {"x": normal, "y": type(self)(shaped[0])})
            return type(self)(build_checked("add", {"x": type(self)(scaled), "y": type(self)(shaped[1])}))
        return self.apply(op, {"gamma": weight(gamma, "gamma"), "beta": weight(beta, "beta")}, **attributes)


def ones(count: int) -> Constant:
    """Return a constant of ones."""
    return weight(np.ones(count, np.float16))


def zeros(count: int) -> Constant:
    """Return a constant of zeros."""
    return weight(np.zeros(count, np.float16))

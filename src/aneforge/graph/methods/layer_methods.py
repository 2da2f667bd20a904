"""Layers: products with weights, norms, pooling, resampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.base import Methods, build_checked, weight
from aneforge.graph.methods.method_arguments import axis_of, expect_makeable, flag, misuse, number, part_of, whole
from aneforge.graph.node import Output

if TYPE_CHECKING:
    from aneforge.graph.node import Node
    from aneforge.ops.constant import Constant

__all__ = ["LayerMethods"]

GROUP_NORM_MOST = 65536
"""The documented builder refuses longer axes of what a group norm is lowered to, for every target: the limit
`group_norm_builder_extent` of the targets' table."""


class LayerMethods(Methods):
    """Products with weights, norms, pooling, resampling."""

    __slots__ = ()

    def linear(self, W: object, bias: object = None) -> Self:  # noqa: N803 - the documented name
        """Multiply by the transpose of a constant matrix [out, in], and add a bias [out].

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.input((2, 3)).linear(np.ones((5, 3)), bias=np.zeros(5)).shape
        (2, 5)

        Raises:
            GraphTypeError: The weight or the bias is not an array of floating-point numbers.
        """
        remedy = "linear takes constant weights: use x @ W.transpose(1, 0) for a matrix computed at run time"
        added = None if bias is None else weight(bias, "linear", "the bias", of_tensor="add it with +")
        return self.apply("linear", {"weight": weight(W, "linear", of_tensor=remedy), "bias": added})

    def bmm_weight(self, W: object) -> Self:  # noqa: N803 - the documented name
        """Multiply a stack of matrices [B, M, K] by a constant stack [B, K, N].

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.input((4, 2, 3)).bmm_weight(np.ones((4, 3, 5))).shape
        (4, 2, 5)

        Raises:
            GraphTypeError: The weight is not an array of floating-point numbers.
        """
        remedy = "bmm_weight takes constant weights: use @ for a tensor computed at run time"
        return self.apply("bmm_w", {"y": weight(W, "bmm_weight", of_tensor=remedy)})

    def cumsum(self, axis: int = -1) -> Self:
        """Return running sums along the last axis: a product with a triangle of ones.

        >>> import aneforge as af
        >>> af.reference(af.input((3,)).reshape(1, 3).cumsum(), [[1.0, 2.0, 3.0]])["y"].tolist()
        [[1.0, 3.0, 6.0]]

        Raises:
            GraphError: It is not the last axis, or too long for a triangle.
        """
        place = axis_of(axis, len(self.shape), "cumsum")
        if place != len(self.shape) - 1:
            raise misuse(
                "cumsum", "cumsum runs only along the last axis", seen=axis, limit=-1, remedy="transpose first"
            )
        extent = self.shape[-1]
        expect_makeable(
            extent**2,
            "cumsum",
            f"a triangle of ones for an axis of {extent}",
            "an axis of at most 5792",
            "split the axis, and add to each part the sum of those before",
        )
        triangle = weight(np.tril(np.ones((extent, extent), np.float16)), "cumsum")
        with part_of("cumsum"):
            return self.apply("matmul", {"y": triangle}, transpose_x=False, transpose_y=True)

    def l2_norm(self, axis: int = -1, eps: float = 1e-12) -> Self:
        """Divide by the Euclidean norm along an axis, which counts as no smaller than √eps.

        >>> import aneforge as af
        >>> af.reference(af.input((2,)).l2_norm(), [[3.0, 4.0]])["y"].tolist()
        [0.6, 0.8]
        """
        return self.apply("l2_norm", axes=(whole(axis, "l2_norm", "axis"),), epsilon=number(eps, "l2_norm", "eps"))

    def rms_norm(self, gamma: object, eps: float = 1e-5) -> Self:
        """Divide the rows of a matrix by their root mean square, and scale the columns.

        With a tensor as gamma the scale is an operation of its own, and can be trained.

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.reference(af.input((1, 2)).rms_norm(np.ones(2)), [[[-3.0, 3.0]]])["y"].round(6).tolist()
        [[-1.0, 1.0]]

        Raises:
            GraphError: It is not a matrix, or gamma does not have one number per column.
        """
        self._expect_matrix("rms_norm")
        epsilon = number(eps, "rms_norm", "eps")
        if isinstance(gamma, Output):
            extent = self.shape[-1]
            trained = type(self)(lay_out(gamma, "rms_norm", "gamma", extent, (extent,)))
            unit = self.apply("rms_norm", {"gamma": fill(1.0, extent, "rms_norm")}, epsilon=epsilon)
            with part_of("rms_norm"):
                return type(self)(build_checked("mul", {"x": unit, "y": trained}))
        return self.apply("rms_norm", {"gamma": weight(gamma, "rms_norm", "gamma")}, epsilon=epsilon)

    def layer_norm(self, gamma: object, beta: object, eps: float = 1e-5) -> Self:
        """Bring the rows of a matrix to mean 0 and variance 1, then scale and shift the columns.

        With tensors as gamma and beta the scale and shift are operations of their own, and can be trained.

        >>> import numpy as np
        >>> import aneforge as af
        >>> y = af.input((1, 2)).layer_norm(np.ones(2), np.zeros(2), eps=0.0)
        >>> af.reference(y, [[[1.0, 3.0]]])["y"].tolist()
        [[-1.0, 1.0]]

        Raises:
            GraphError: It is not a matrix, or a parameter does not have one number per column.
        """
        self._expect_matrix("layer_norm")
        epsilon = number(eps, "layer_norm", "eps")
        return self._affine_norm("layer_norm", gamma, beta, self.shape[-1:], axes=(-1,), epsilon=epsilon)

    def channel_layer_norm(self, gamma: object, beta: object, eps: float = 1e-5) -> Self:
        """Normalise over the channels of [N, C, 1, S].

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.input((1, 8, 1, 16)).channel_layer_norm(np.ones(8), np.zeros(8)).shape
        (1, 8, 1, 16)

        Raises:
            GraphError: The tensor is not laid out so, or a parameter does not have one number per channel.
        """
        op = "channel_layer_norm"
        if len(self.shape) != 4 or self.shape[2] != 1:
            raise misuse(op, "the tensor is not [N, C, 1, S]", seen=list(self.shape), remedy="reshape it")
        shape = (1, self.shape[1], 1, 1)
        return self._affine_norm(op, gamma, beta, shape, epsilon=number(eps, op, "eps"))

    def group_norm(self, gamma: object, beta: object, num_groups: int, eps: float = 1e-5) -> Self:
        """Normalise groups of channels of [1, C, H, W].

        >>> import numpy as np
        >>> import aneforge as af
        >>> af.input((1, 8, 4, 4)).group_norm(np.ones(8), np.zeros(8), num_groups=2).shape
        (1, 8, 4, 4)

        Raises:
            GraphError: The tensor is not laid out so, the channels are not divisible by the groups, a group is too
                large, or a parameter does not have one number per channel.
        """
        op = "group_norm"
        groups = whole(num_groups, op, "num_groups", least=1)
        if len(self.shape) != 4 or self.shape[0] != 1:
            raise misuse(
                op, "the tensor is not [1, C, H, W]", seen=list(self.shape), remedy="normalise images one by one"
            )
        _, channels, height, width = self.shape
        if max(channels // groups, height * width) > GROUP_NORM_MOST:
            raise misuse(
                op,
                "a group is too large: it is lowered as [1, groups, channels per group, height times width]",
                seen=f"{channels // groups} channels per group and {height * width} pixels",
                limit=f"at most {GROUP_NORM_MOST} of either",
                remedy="use more groups, or tile the image",
            )
        epsilon = number(eps, op, "eps")
        return self._affine_norm(op, gamma, beta, (1, channels, 1, 1), num_groups=groups, epsilon=epsilon)

    def max_pool(self, k: int, stride: int | None = None, pad: int = 0, ceil_mode: bool = False) -> Self:  # noqa: FBT001, FBT002 - the documented signature
        """Return the largest element of every square window; the stride is the window's side by default.

        >>> import aneforge as af
        >>> af.input((1, 3, 32, 32)).max_pool(3, stride=2, pad=1).shape
        (1, 3, 16, 16)

        Raises:
            GraphError: The window does not fit the image.
        """
        return self._pool("max_pool", k, stride, pad, ceil_mode=flag(ceil_mode, "max_pool", "ceil_mode"))

    def avg_pool(
        self,
        k: int,
        stride: int | None = None,
        pad: int = 0,
        ceil_mode: bool = False,  # noqa: FBT001, FBT002 - the documented signature
        exclude_pad: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    ) -> Self:
        """Return the mean of every square window; the stride is the window's side by default.

        >>> import aneforge as af
        >>> af.input((1, 3, 32, 32)).avg_pool(2).shape
        (1, 3, 16, 16)

        Raises:
            GraphError: The window does not fit the image.
        """
        ceil, exclude = flag(ceil_mode, "avg_pool", "ceil_mode"), flag(exclude_pad, "avg_pool", "exclude_pad")
        return self._pool("avg_pool", k, stride, pad, ceil_mode=ceil, exclude_padding_from_average=exclude)

    def upsample(self, scale: int = 2) -> Self:
        """Repeat every pixel.

        >>> import aneforge as af
        >>> af.input((1, 3, 8, 8)).upsample(2).shape
        (1, 3, 16, 16)
        """
        return self.apply("upsample", scale=whole(scale, "upsample", "scale", least=1))

    def _pool(self, op: str, k: int, stride: int | None, pad: int, **flags: bool) -> Self:
        if len(self.shape) != 4:
            raise misuse(op, "the tensor is not an image [N, C, H, W]", seen=list(self.shape))
        side = whole(k, op, "k", least=1)
        step = side if stride is None else whole(stride, op, "stride", least=1)
        border = whole(pad, op, "pad", least=0)
        sides = {"kernel_sizes": (side,) * 2, "strides": (step,) * 2, "pad_type": "custom", "pad": (border,) * 4}
        return type(self)(build_checked(op, {"x": self}, **sides, **flags))

    def _expect_matrix(self, op: str) -> None:
        if len(self.shape) != 2:
            raise misuse(op, "the tensor is not a matrix [M, D]", seen=list(self.shape), remedy="reshape it")

    def _affine_norm(
        self, op: str, gamma: object, beta: object, trained_shape: tuple[int, ...], **attributes: object
    ) -> Self:
        if isinstance(gamma, Output) != isinstance(beta, Output):
            raise misuse(op, "gamma and beta must both be tensors or both be arrays", error=GraphTypeError)
        if isinstance(gamma, Output) and isinstance(beta, Output):
            count = math.prod(trained_shape)
            scale, shift = (
                type(self)(lay_out(part, op, name, count, trained_shape))
                for name, part in (("gamma", gamma), ("beta", beta))
            )
            unit = self.apply(op, {"gamma": fill(1.0, count, op), "beta": fill(0.0, count, op)}, **attributes)
            with part_of(op):
                scaled = type(self)(build_checked("mul", {"x": unit, "y": scale}))
                return type(self)(build_checked("add", {"x": scaled, "y": shift}))
        return self.apply(op, {"gamma": weight(gamma, op, "gamma"), "beta": weight(beta, op, "beta")}, **attributes)


def lay_out(parameter: Output, op: str, what: str, count: int, shape: tuple[int, ...]) -> Node:
    """Return a trained parameter in the shape in which it is multiplied or added.

    Raises:
        GraphError: It is not a list of that many numbers, which may have further axes of length 1.
    """
    if math.prod(parameter.shape) != count or (count not in parameter.shape):
        raise misuse(op, f"{what} does not have one number per channel", seen=list(parameter.shape), limit=[count])
    with part_of(op):
        return build_checked("reshape", {"x": parameter}, shape=shape)


def fill(value: float, count: int, op: str) -> Constant:
    """Return a constant list of one number."""
    expect_makeable(count, op, "a parameter", "one number per channel", "split the channels")
    return weight(np.full(count, value, np.float16), op)

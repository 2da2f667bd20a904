"""Convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.builder.arguments import expect_tensor
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.methods.method_arguments import is_number, misuse, whole, whole_list
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Argument, Value

__all__ = ["conv", "conv_transpose", "dynamic_conv"]

BUILDER_MAX_KERNEL_WIDTH = 15
"""The builder refuses a wider kernel for any target; the targets' own caps are rules."""


def conv(
    x: Tensor,
    w: object,
    stride: int = 1,
    pad: int | Sequence[int] = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: object = None,
) -> Tensor:
    """Convolve an image [N, C, H, W] with constant weights [Cout, C/groups, kH, kW].

    `pad` is one number, or (top, bottom, left, right).

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.conv(af.input((1, 3, 32, 32)), np.zeros((8, 3, 3, 3), np.float16), pad=1).shape
    (1, 8, 32, 32)

    Raises:
        GraphError: The shapes do not fit, or the kernel is wider than 15.
        GraphTypeError: The weights are not floating-point numbers.
    """
    kernel = weight(w, "conv", of_tensor="use dynamic_conv for weights computed at run time")
    return convolution("conv", x, kernel, optional_bias(bias, "conv"), stride, pad, dilation, groups)


def conv_transpose(
    x: Tensor,
    w: object,
    stride: int = 1,
    pad: int | Sequence[int] = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: object = None,
) -> Tensor:
    """Return the transposed convolution; weights are [C, Cout/groups, kH, kW], and an axis grows as documented.

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.conv_transpose(af.input((1, 8, 16, 16)), np.zeros((8, 4, 2, 2), np.float16), stride=2).shape
    (1, 4, 32, 32)

    Raises:
        GraphError: The shapes do not fit, or the kernel is wider than 15.
        GraphTypeError: The weights are not floating-point numbers.
    """
    op = "conv_transpose"
    return convolution(op, x, weight(w, op), optional_bias(bias, op), stride, pad, dilation, groups)


def dynamic_conv(
    x: Tensor, w: Tensor, stride: int = 1, pad: int | Sequence[int] = 0, dilation: int = 1, groups: int = 1
) -> Tensor:
    """Convolve one image with weights computed at run time.

    >>> import aneforge as af
    >>> af.dynamic_conv(af.input((1, 3, 8, 8)), af.input((4, 3, 3, 3))).shape
    (1, 4, 6, 6)

    Raises:
        GraphError: The batch is not 1, the shapes do not fit, or the kernel is wider than 15.
        GraphTypeError: The weight is not a tensor.
    """
    op = "dynamic_conv"
    tensor = expect_tensor(x, op)
    kernel = expect_tensor(w, op, "the weight", remedy="use conv for constant weights")
    if tensor.shape[:1] != (1,):
        raise misuse(op, "the batch is not 1", seen=list(tensor.shape), limit=1)
    return convolution(op, tensor, kernel, None, stride, pad, dilation, groups)


def convolution(  # noqa: PLR0913, PLR0917 - the parts of every convolution
    op: str,
    x: Tensor,
    kernel: Value,
    bias: Argument | None,
    stride: int,
    pad: int | Sequence[int],
    dilation: int,
    groups: int,
) -> Tensor:
    """Return a convolution of one kind, after the checks of the builder's own."""
    tensor = expect_tensor(x, op)
    shape = kernel.type.shape
    if len(tensor.shape) != 4 or len(shape) != 4:
        raise misuse(
            op,
            "the builder convolves images [N, C, H, W] with weights of rank 4",
            seen=f"{list(tensor.shape)} and {list(shape)}",
        )
    if shape[3] > BUILDER_MAX_KERNEL_WIDTH:
        raise misuse(
            op,
            "the kernel is too wide",
            seen=shape[3],
            limit=BUILDER_MAX_KERNEL_WIDTH,
            remedy="move columns into channels with space_to_depth",
        )
    node = build_checked(
        op,
        {"x": tensor, "weight": kernel, **({} if bias is None else {"bias": bias})},
        strides=[whole(stride, op, "stride", least=1)] * 2,
        pad_type="custom",
        pad=padding(pad, op),
        dilations=[whole(dilation, op, "dilation", least=1)] * 2,
        groups=whole(groups, op, "groups", least=1),
    )
    return Tensor(node)


def padding(pad: int | Sequence[int], op: str) -> list[int]:
    """Return the padding as (top, bottom, left, right).

    Raises:
        GraphError: It is neither one number nor four.
    """
    if is_number(pad):
        return [whole(pad, op, "pad", least=0)] * 4
    sides = whole_list(pad, op, "pad")
    if len(sides) != 4 or min(sides) < 0:
        raise misuse(op, "pad must be (top, bottom, left, right)", seen=sides, limit="four numbers, each 0 or more")
    return sides


def optional_bias(bias: object, op: str) -> Argument | None:
    """Return a bias as a constant, or nothing."""
    return None if bias is None else weight(bias, op, "the bias", of_tensor="add it with +")

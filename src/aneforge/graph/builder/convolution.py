"""Convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.node import Output, users_location
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Argument

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
    operands: dict[str, Argument | None] = {"weight": weight(w), "bias": optional_bias(bias)}
    return convolution("conv", x, operands, stride, pad, dilation, groups)


def conv_transpose(
    x: Tensor,
    w: object,
    stride: int = 1,
    pad: int | Sequence[int] = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: object = None,
) -> Tensor:
    """Convolve backwards: weights are [C, Cout/groups, kH, kW], and an axis grows as documented.

    Raises:
        GraphError: The shapes do not fit, or the kernel is wider than 15.
        GraphTypeError: The weights are not floating-point numbers.
    """
    operands: dict[str, Argument | None] = {"weight": weight(w), "bias": optional_bias(bias)}
    return convolution("conv_transpose", x, operands, stride, pad, dilation, groups)


def dynamic_conv(
    x: Tensor, w: Tensor, stride: int = 1, pad: int | Sequence[int] = 0, dilation: int = 1, groups: int = 1
) -> Tensor:
    """Convolve one image with weights computed at run time.

    Raises:
        GraphError: The batch is not 1, the shapes do not fit, or the kernel is wider than 15.
        GraphTypeError: The weight is not a tensor.
    """
    if not isinstance(w, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError(
            "the weight is not a tensor",
            operation="dynamic_conv",
            location=users_location(),
            seen=type(w).__name__,
            remedy="use conv for constant weights",
        )
    if x.shape[:1] != (1,):
        raise GraphError(
            "the batch is not 1", operation="dynamic_conv", location=users_location(), seen=list(x.shape), limit=1
        )
    return convolution("dynamic_conv", x, {"weight": w}, stride, pad, dilation, groups)


def convolution(
    op: str,
    x: Tensor,
    operands: dict[str, Argument | None],
    stride: int,
    pad: int | Sequence[int],
    dilation: int,
    groups: int,
) -> Tensor:
    """Return a convolution of one kind, after the checks of the builder's own."""
    kernel = operands["weight"]
    shape = kernel.type.shape if isinstance(kernel, Output | Constant) else ()
    if len(x.shape) != 4 or len(shape) != 4:
        raise GraphError(
            "the builder convolves images [N, C, H, W] with weights of rank 4",
            operation=op,
            location=users_location(),
            seen=f"{list(x.shape)} and {list(shape)}",
        )
    if shape[3] > BUILDER_MAX_KERNEL_WIDTH:
        raise GraphError(
            "the kernel is too wide",
            operation=op,
            location=users_location(),
            seen=shape[3],
            limit=BUILDER_MAX_KERNEL_WIDTH,
            remedy="move columns into channels with space_to_depth",
        )
    padding = [pad] * 4 if isinstance(pad, int) else list(pad)
    if len(padding) != 4:
        raise GraphError("pad is not (top, bottom, left, right)", operation=op, location=users_location(), seen=padding)
    node = build_checked(
        op,
        {"x": x, **operands},
        strides=[stride] * 2,
        pad_type="custom",
        pad=padding,
        dilations=[dilation] * 2,
        groups=groups,
    )
    return Tensor(node)


def optional_bias(bias: object) -> Argument | None:
    """Return a bias as a constant, or nothing."""
    return None if bias is None else weight(bias, "bias")

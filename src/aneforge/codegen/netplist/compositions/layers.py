"""Normalisations, reductions and layers of weights that have no layer of their own, from those that have one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.codegen.netplist.compose import Composition
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.windows import slides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.codegen.netplist.compose import Compose
    from aneforge.graph.node import Value
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.windows import Slide, WindowAttributes

__all__ = ["LAYERS"]


# Normalisation


def standardised(to: Compose, x: Value, axes: Sequence[int], epsilon: float) -> Tensor:
    """Return x less its mean, over the root of its variance and epsilon."""
    centred = to.op("sub", x, to.op("reduce_mean", x, axes=axes, keep_dims=True))
    variance = to.op("reduce_mean", to.op("mul", centred, centred), axes=axes, keep_dims=True)
    return to.op("mul", centred, to.op("rsqrt", variance, epsilon=epsilon))


def scaled(to: Compose, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return x times gamma plus beta, where they are given, both laid along axes."""
    gamma, beta = to.optional("gamma"), to.optional("beta")
    if gamma is not None:
        x = to.op("mul", x, to.laid(gamma, axes, len(x.shape), "gamma"))
    if beta is not None:
        x = to.op("add", x, to.laid(beta, axes, len(x.shape), "beta"))
    return x


def layer_norm(to: Compose) -> Tensor:
    """Return mean and variance over axes, then gamma and beta."""
    axes = to.axes()
    return scaled(to, standardised(to, to.x, axes, to.number("epsilon")), axes)


def channel_layer_norm(to: Compose) -> Tensor:
    """Return mean and variance over the channels, then gamma and beta."""
    return scaled(to, standardised(to, to.x, (1,), to.number("epsilon")), (1,))


def instance_norm(to: Compose) -> Tensor:
    """Return mean and variance over the places of every channel, then gamma and beta."""
    axes = tuple(range(2, len(to.shape)))
    return scaled(to, standardised(to, to.x, axes, to.number("epsilon")), (1,))


def group_norm(to: Compose) -> Tensor:
    """Return mean and variance over every group of channels and their places, then gamma and beta."""
    batch, channels, height, width = to.shape
    groups = to.whole("num_groups")
    parted = to.op("reshape", to.x, shape=(batch, groups, channels // groups, height * width))
    normal = standardised(to, parted, (2, 3), to.number("epsilon"))
    return scaled(to, to.op("reshape", normal, shape=to.shape), (1,))


def batch_norm(to: Compose) -> Tensor:
    """Return (x − mean) · factor + beta; the factor, gamma over the deviation, is computed beforehand."""
    rank, epsilon = len(to.shape), to.number("epsilon")
    variance, gamma = constant(to, "variance"), to.optional("gamma")
    factor = 1 / np.sqrt(variance.dense().astype(np.float64) + epsilon)
    if isinstance(gamma, Constant):
        factor = factor * gamma.dense().astype(np.float64)
    laid = to.half(factor.reshape((-1, *(1,) * (rank - 2))), "gamma over the deviation")
    centred = to.op("sub", to.x, to.laid(to.operand("mean"), (1,), rank, "mean"))
    result = to.op("mul", centred, laid)
    beta = to.optional("beta")
    return result if beta is None else to.op("add", result, to.laid(beta, (1,), rank, "beta"))


def constant(to: Compose, name: str) -> Constant:
    """Return an operand that is a constant by the op table."""
    return cast("Constant", to.operand(name))


def l2_norm(to: Compose) -> Tensor:
    """Return x over its length, which is at least the root of epsilon."""
    length = to.op("reduce_l2_norm", to.x, axes=to.axes(), keep_dims=True)
    bounded = to.op("clip", length, alpha=math.sqrt(to.number("epsilon")), beta=math.inf)
    return to.op("mul", to.x, to.op("inverse", bounded, epsilon=0.0))


def rms_norm(to: Compose) -> Tensor:
    """Return x over its length, bounded from below, times gamma and the root of the extent."""
    last = len(to.shape) - 1
    extent = to.shape[last]
    length = to.op("reduce_l2_norm", to.x, axes=(last,), keep_dims=True)
    bounded = to.op("clip", length, alpha=math.sqrt(extent * to.number("epsilon")), beta=math.inf)
    normal = to.op("mul", to.x, to.op("inverse", bounded, epsilon=0.0))
    factor = constant(to, "gamma").dense().astype(np.float64) * math.sqrt(extent)
    return to.op("mul", normal, to.half(factor, "gamma times the root of the extent"))


# Reductions


def reduced(to: Compose, op: str, x: Value) -> Tensor:
    """Return a reduction over the same axes."""
    return to.op(op, x, axes=to.axes(), keep_dims=to.flag("keep_dims"))


def reduce_l1_norm(to: Compose) -> Tensor:
    """Return Σ |x|."""
    return reduced(to, "reduce_sum", to.op("abs", to.x))


def reduce_sum_square(to: Compose) -> Tensor:
    """Return Σ x · x."""
    return reduced(to, "reduce_sum", to.op("mul", to.x, to.x))


def reduce_l2_norm(to: Compose) -> Tensor:
    """Return √(Σ x · x)."""
    return to.op("sqrt", reduce_sum_square(to))


def sq_after_reduce(to: Compose) -> Tensor:
    """Return (Σ x)²."""
    total = reduced(to, "reduce_sum", to.x)
    return to.op("mul", total, total)


# Weights


def linear(to: Compose) -> Tensor:
    """Return a product with the weight turned round, plus the bias."""
    weight, bias = to.operand("weight"), to.optional("bias")
    result = to.op("matmul", to.x, weight, transpose_y=True)
    return result if bias is None else to.op("add", result, bias)


def biased(to: Compose) -> Tensor | None:
    """Return the convolution without its bias, which is added behind; the engine's own form of one is the plain one."""
    bias, name = to.optional("bias"), to.node.op.name
    if bias is None and name != "ne_conv":
        return None
    plain = "conv" if name == "ne_conv" else name
    result = to.op(plain, to.x, to.operand("weight"), **to.node.attributes)
    return result if bias is None else to.op("add", result, to.laid(bias, (1,), len(to.shape), "bias"))


def transposed_convolution(to: Compose) -> Tensor | None:
    """Return a convolution, with the kernel turned round, of a tensor with zeros between its elements.

    A kernel of ones for every channel by itself has a layer, as long as its padding is not negative.

    Raises:
        NotSupportedError: The kernel is computed at run time, or has gaps.
    """
    weight, bias, groups = to.operand("weight"), to.optional("bias"), to.whole("groups")
    if not isinstance(weight, Constant):
        raise to.refuse("a Conv unit has a constant kernel", nearest="a constant kernel, or matmul and concat")
    along = transposed_slides(to)
    if any(slide.dilation != 1 for slide in along):
        raise to.refuse(
            "a Conv unit has no key for gaps in its kernel", nearest="a larger kernel with zeros in the gaps"
        )
    pads = [transposed_padding(slide, extent) for slide, extent in zip(along, to.shape[2:], strict=True)]
    ones = weight.type.shape[1] == 1 and groups == to.shape[1] and bool(np.all(weight.dense() == 1))
    if ones and bias is None and min(map(min, pads)) >= 0:
        return None
    spread = with_zeros(to, [slide.stride for slide in along])
    for axis, (front, back) in enumerate(pads, 2):
        extent = spread.type.shape[axis]
        kept = range(max(-front, 0), extent - max(-back, 0))
        if len(kept) < extent:
            spread = to.op("input_view", spread, axis=axis, offset=kept.start, size=len(kept))
    pad = tuple(max(side, 0) for pair in pads for side in pair)
    result = to.op("conv", spread, turned_round(weight, groups), pad_type="custom", pad=pad, groups=groups)
    return result if bias is None else to.op("add", result, to.laid(bias, (1,), len(to.shape), "bias"))


def transposed_slides(to: Compose) -> tuple[Slide, ...]:
    """Return how the window of a transposed convolution goes along its result."""
    attributes: WindowAttributes = {
        "strides": to.wholes("strides"),
        "pad_type": to.text("pad_type"),
        "pad": to.wholes("pad"),
        "dilations": to.wholes("dilations"),
    }
    return slides(to.result[2:], to.operand("weight").type.shape[2:], attributes)


def transposed_padding(slide: Slide, extent: int) -> tuple[int, int]:
    """Return the padding around a tensor with stride − 1 zeros behind every element that gives the result's length.

    The kernel ends at an element, and the result is extent · stride + padding − kernel + 1 long.
    """
    front = slide.window - 1 - slide.before
    return front, slide.extent - 1 + slide.window - extent * slide.stride - front


def with_zeros(to: Compose, steps: Sequence[int]) -> Value:
    """Return x with step − 1 zeros behind every element along every spatial axis: a kernel of one 1."""
    if set(steps) == {1}:
        return to.x
    batch, channels, *extents = to.shape
    weight = Dense(np.ones((channels, 1, *(1 for _ in steps)), np.float16))
    longer = (batch, channels, *(extent * step for extent, step in zip(extents, steps, strict=True)))
    return to.op("conv_transpose", to.x, weight, strides=steps, groups=channels, output_shape=longer)


def turned_round(weight: Constant, groups: int) -> Dense:
    """Return the kernel of a transposed convolution as that of the convolution which it is."""
    values = weight.dense()
    inner, outer, *kernel = values.shape
    apart = values.reshape(groups, inner // groups, outer, *kernel).swapaxes(1, 2)
    joined = apart.reshape(groups * outer, inner // groups, *kernel)
    return Dense.owning(np.ascontiguousarray(np.flip(joined, axis=tuple(range(2, joined.ndim)))))


def unit_pool(to: Compose) -> Tensor:
    """Return the pooling that the mode names."""
    mode = to.text("mode")
    if mode == "l2":
        raise to.refuse(
            "no layer takes the root of sums of squares", nearest="sqrt of avg_pool(x · x) times the size of the window"
        )
    attributes = {name: value for name, value in to.node.attributes.items() if name != "mode"}
    if mode == "max":
        del attributes["exclude_padding_from_average"]
    return to.op("max_pool" if mode == "max" else "avg_pool", to.x, **attributes)


LAYERS: dict[str, Composition] = {
    "batch_norm": Composition("(x − mean) · factor + beta", batch_norm),
    "channel_layer_norm": Composition("mean and variance over the channels, gamma and beta", channel_layer_norm),
    "conv": Composition("a convolution, then its bias", biased),
    "conv_transpose": Composition("a convolution of x with zeros between its elements", transposed_convolution),
    "group_norm": Composition("mean and variance over every group, gamma and beta", group_norm),
    "instance_norm": Composition("mean and variance over every channel, gamma and beta", instance_norm),
    "l2_norm": Composition("x · inverse(its length, bounded from below)", l2_norm),
    "layer_norm": Composition("mean and variance over axes, gamma and beta", layer_norm),
    "linear": Composition("a product with the weight, then its bias", linear),
    "ne_conv": Composition("a convolution, then its bias", biased),
    "ne_pool": Composition("the pooling that its mode names", unit_pool),
    "pe_pool": Composition("the pooling that its mode names", unit_pool),
    "reduce_l1_norm": Composition("Σ |x|", reduce_l1_norm),
    "reduce_l2_norm": Composition("sqrt(Σ x · x)", reduce_l2_norm),
    "reduce_sum_square": Composition("Σ x · x", reduce_sum_square),
    "rms_norm": Composition("x · inverse(its length, bounded from below) · gamma", rms_norm),
    "sq_after_reduce": Composition("(Σ x) · (Σ x)", sq_after_reduce),
}

"""Normalisation: the op table's own where it has the form, else by mean, variance and arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = [
    "all_constant",
    "along_channels",
    "batch_norm",
    "compute_centred_and_variance",
    "group_norm",
    "inverse_root",
    "layer_norm",
    "move_towards",
    "norm_of_batch",
    "rms_norm",
    "scaled",
]


def along_channels(emit: Emitter, part: Value | None, x: Value) -> Value | None:
    """Return one number a channel in a shape that broadcasts along axis 1, where there is one."""
    if part is None:
        return None
    return emit.cast(emit.reshape(part, (part.type.size, *[1] * (x.type.rank - 2))), x.type.dtype)


def all_constant(*parts: Value | None) -> bool:
    """Return whether parameters are all known."""
    return all(part is None or isinstance(part, Constant) for part in parts)


def compute_centred_and_variance(emit: Emitter, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Return the mean along axes, the tensor without it, and the biased variance."""
    mean = emit.reduce("reduce_mean", x, axes)
    centred = emit.sub(x, mean)
    return mean, centred, emit.reduce("reduce_mean", emit.unary("square", centred), axes)


def inverse_root(emit: Emitter, variance: Value, epsilon: float) -> Value:
    """Return 1 / √(variance + epsilon); the op table takes no epsilon below 0, which PyTorch does."""
    if epsilon < 0:
        return emit.unary("rsqrt", emit.add(variance, epsilon), epsilon=0.0)
    return emit.unary("rsqrt", variance, epsilon=epsilon)


def scaled(emit: Emitter, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """Return a tensor scaled and shifted."""
    result = x if scale is None else emit.mul(x, scale)
    return result if bias is None else emit.add(result, bias)


def layer_norm(
    emit: Emitter,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    axes: tuple[int, ...],
    epsilon: float,
    inside: str | None = None,
) -> tuple[Value, Value, Value]:
    """Return normalisation over the last axes, the mean and the inverse deviation, in an element type of their own."""
    mean, centred, variance = compute_centred_and_variance(emit, emit.cast(x, inside or x.type.dtype), axes)
    inverse = inverse_root(emit, variance, epsilon)
    shape = tuple(x.type.shape[axis] for axis in axes)
    if epsilon >= 0 and all(
        part is None or (isinstance(part, Constant) and part.type.shape == shape) for part in (scale, bias)
    ):
        operands = {"x": x, "gamma": scale, "beta": bias}
        return emit.apply("layer_norm", operands, axes=axes, epsilon=epsilon), mean, inverse
    plain = emit.cast(emit.mul(centred, inverse), x.type.dtype)
    return scaled(emit, plain, scale, bias), mean, inverse


def group_norm(
    emit: Emitter, x: Value, groups: int, scale: Value | None, bias: Value | None, epsilon: float
) -> tuple[Value, Value, Value]:
    """Return normalisation of groups of channels, and mean and inverse deviation of each group."""
    batch, channels = x.type.shape[:2]
    flat = emit.reshape(x, (batch, groups, x.type.size // (batch * groups)))
    mean, centred, variance = compute_centred_and_variance(emit, flat, (2,))
    inverse = inverse_root(emit, variance, epsilon)
    if epsilon >= 0 and all_constant(scale, bias):
        emit.room(channels)
        rows, columns = math.prod(x.type.shape[2:-1]), math.prod(x.type.shape[2:][-1:])
        image = emit.reshape(x, (batch, channels, rows, columns))
        gamma = emit.constant(np.ones(channels), x.type.dtype) if scale is None else scale
        beta = emit.constant(np.zeros(channels), x.type.dtype) if bias is None else bias
        operands = {"x": image, "gamma": gamma, "beta": beta}
        normed = emit.apply("group_norm", operands, num_groups=groups, epsilon=epsilon)
        result = emit.reshape(normed, x.type.shape)
    else:
        plain = emit.reshape(emit.mul(centred, inverse), x.type.shape)
        result = scaled(emit, plain, along_channels(emit, scale, x), along_channels(emit, bias, x))
    return result, emit.reshape(mean, (batch, groups)), emit.reshape(inverse, (batch, groups))


def batch_norm(
    emit: Emitter, x: Value, parts: tuple[Value | None, Value | None, Value, Value], epsilon: float
) -> Value:
    """Return normalisation by given statistics: scale, bias, mean and variance, one number a channel each."""
    scale, bias, mean, variance = parts
    if epsilon >= 0 and x.type.rank >= 3 and all_constant(*parts) and not isinstance(x, Constant) and x.type.size:
        operands = {"x": x, "gamma": scale, "beta": bias, "mean": mean, "variance": variance}
        return emit.apply("batch_norm", operands, epsilon=epsilon)
    gain, shift, middle, width = (along_channels(emit, part, x) for part in parts)
    assert middle is not None  # noqa: S101 - both statistics are given
    assert width is not None  # noqa: S101
    return scaled(emit, emit.mul(emit.sub(x, middle), inverse_root(emit, width, epsilon)), gain, shift)


def norm_of_batch(
    emit: Emitter, x: Value, scale: Value | None, bias: Value | None, epsilon: float
) -> tuple[Value, Value, Value, Value]:
    """Return normalisation by the batch's own statistics, and mean, biased variance and inverse deviation a channel."""
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    mean, centred, variance = compute_centred_and_variance(emit, x, axes)
    inverse = inverse_root(emit, variance, epsilon)
    parts = along_channels(emit, scale, x), along_channels(emit, bias, x)
    result = scaled(emit, emit.mul(centred, inverse), *parts)
    flat_mean, flat_variance, flat_inverse = (
        emit.reshape(part, (x.type.shape[1],)) for part in (mean, variance, inverse)
    )
    return result, flat_mean, flat_variance, flat_inverse


def move_towards(emit: Emitter, old: Value, new: Value, share: float) -> Value:
    """Return running statistics that take up a share of new ones."""
    return emit.add(emit.mul(old, 1 - share), emit.mul(emit.cast(new, old.type.dtype), share))


def rms_norm(emit: Emitter, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value]:
    """Return x over the root of its mean square along axes, epsilon added under it, and one over that root."""
    mean = emit.reduce("reduce_mean", emit.unary("square", x), tuple(axes))
    inverse = inverse_root(emit, mean, epsilon)
    return emit.mul(x, inverse), inverse

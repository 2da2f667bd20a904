"""Normalisation: the op table's own where it has the form, else by mean, variance and arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.torch_export.registry import operator
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.torch_export.call import Call


def along_optional(emit: Emitter, part: Value | None, x: Value) -> Value | None:
    """Return one number a channel along axis 1, where there is one."""
    return None if part is None else along_channels(emit, part, x)


def along_channels(emit: Emitter, part: Value, x: Value) -> Value:
    """Return one number a channel in a shape that broadcasts along axis 1."""
    return emit.cast(emit.reshape(part, (part.type.size, *[1] * (x.type.rank - 2))), x.type.dtype)


def all_constant(*parts: Value | None) -> bool:
    """Tell whether parameters are all known."""
    return all(part is None or isinstance(part, Constant) for part in parts)


def centred_and_variance(emit: Emitter, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
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


def ones(emit: Emitter, count: int, dtype: str) -> Value:
    """Return a scale that changes nothing."""
    return emit.constant(np.ones(count), dtype)


@operator("native_layer_norm", "layer_norm")
def layer_norm(call: Call) -> Value | tuple[Value, Value, Value]:
    """Convert normalisation over the last axes, with mean and inverse deviation."""
    x, emit = call.value("input"), call.emit
    scale, bias, epsilon = call.optional("weight"), call.optional("bias"), float(call.number("eps"))
    count = len(call.integers("normalized_shape") or ())
    axes = tuple(range(x.type.rank - count, x.type.rank))
    own = [
        emit.filled([1 if axis in axes else extent for axis, extent in enumerate(x.type.shape)], 0, x.type.dtype)
    ] * 2
    if not x.type.size:
        return x if call.operator == "layer_norm" else (x, own[0], own[1])
    mean, centred, variance = centred_and_variance(emit, x, axes)
    inverse = inverse_root(emit, variance, epsilon)
    if epsilon >= 0 and all_constant(scale, bias) and not isinstance(x, Constant):
        result = emit.apply("layer_norm", {"x": x, "gamma": scale, "beta": bias}, axes=axes, epsilon=epsilon)
    else:
        result = scaled(emit, emit.mul(centred, inverse), scale, bias)
    return result if call.operator == "layer_norm" else (result, mean, inverse)


@operator("native_group_norm", "group_norm")
def group_norm(call: Call) -> Value | tuple[Value, Value, Value]:
    """Convert normalisation of groups of channels, with mean and inverse deviation of each group."""
    x, emit = call.value("input"), call.emit
    scale, bias, epsilon = call.optional("weight"), call.optional("bias"), float(call.number("eps"))
    groups = call.integer("group" if call.operator == "native_group_norm" else "num_groups")
    batch, channels = x.type.shape[:2]
    if not x.type.size:
        empty = emit.filled((batch, groups), math.nan, x.type.dtype) if batch else emit.empty((0, groups), x.type.dtype)
        return x if call.operator == "group_norm" else (x, empty, empty)
    flat = emit.reshape(x, (batch, groups, x.type.size // (batch * groups)))
    mean, centred, variance = centred_and_variance(emit, flat, (2,))
    inverse = inverse_root(emit, variance, epsilon)
    if epsilon >= 0 and x.type.rank == 4 and all_constant(scale, bias) and not isinstance(x, Constant):
        emit.room(channels)
        gamma = ones(emit, channels, x.type.dtype) if scale is None else scale
        beta = emit.constant(np.zeros(channels), x.type.dtype) if bias is None else bias
        operands = {"x": x, "gamma": gamma, "beta": beta}
        result = emit.apply("group_norm", operands, num_groups=groups, epsilon=epsilon)
    else:
        plain = emit.reshape(emit.mul(centred, inverse), x.type.shape)
        result = scaled(emit, plain, along_optional(emit, scale, x), along_optional(emit, bias, x))
    if call.operator == "group_norm":
        return result
    return result, emit.reshape(mean, (batch, groups)), emit.reshape(inverse, (batch, groups))


@operator("_native_batch_norm_legit_no_training")
def batch_norm(call: Call) -> tuple[Value, Value, Value]:
    """Convert normalisation by given statistics."""
    x, emit = call.value("input"), call.emit
    scale, bias = call.optional("weight"), call.optional("bias")
    mean, variance = call.value("running_mean"), call.value("running_var")
    nothing = emit.empty((0,), x.type.dtype)
    return by_statistics(emit, x, (scale, bias, mean, variance), float(call.number("eps"))), nothing, nothing


def by_statistics(
    emit: Emitter, x: Value, parts: tuple[Value | None, Value | None, Value, Value], epsilon: float
) -> Value:
    """Return normalisation by given statistics: scale, bias, mean and variance, one number a channel each."""
    scale, bias, mean, variance = parts
    if epsilon >= 0 and x.type.rank >= 3 and all_constant(*parts) and not isinstance(x, Constant) and x.type.size:
        operands = {"x": x, "gamma": scale, "beta": bias, "mean": mean, "variance": variance}
        return emit.apply("batch_norm", operands, epsilon=epsilon)
    centred = emit.sub(x, along_channels(emit, mean, x))
    inverse = inverse_root(emit, along_channels(emit, variance, x), epsilon)
    return scaled(emit, emit.mul(centred, inverse), along_optional(emit, scale, x), along_optional(emit, bias, x))


@operator("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm")
def trained_batch_norm(call: Call) -> tuple[Value, ...]:
    """Convert normalisation by the statistics of the batch, with those and, where they are kept, the running ones."""
    x, emit = call.value("input"), call.emit
    scale, bias = call.optional("weight"), call.optional("bias")
    epsilon = float(call.number("eps"))
    if not call.flag("training"):
        statistics = call.value("running_mean"), call.value("running_var")
        nothing = emit.empty((0,), x.type.dtype)
        kept = statistics if call.operator.endswith("functional") else ()
        return by_statistics(emit, x, (scale, bias, *statistics), epsilon), nothing, nothing, *kept
    if call.operator == "_native_batch_norm_legit" and call.optional("running_mean") is not None:
        raise UnsupportedNodeError(
            Reason.TRAINING, "it writes its statistics in place", workaround="export the module after module.eval()"
        )
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    mean, centred, variance = centred_and_variance(emit, x, axes)
    inverse = inverse_root(emit, variance, epsilon)
    parts = along_optional(emit, scale, x), along_optional(emit, bias, x)
    result = scaled(emit, emit.mul(centred, inverse), *parts)
    flat = [emit.reshape(part, (x.type.shape[1],)) for part in (mean, inverse)]
    if not call.operator.endswith("functional"):
        return result, *flat
    count = x.type.size // max(x.type.shape[1], 1)
    unbiased = emit.mul(emit.reshape(variance, (x.type.shape[1],)), count / max(count - 1, 1))
    momentum = float(call.number("momentum"))
    moved = [
        emit.add(
            emit.mul(call.value(name), 1 - momentum), emit.mul(emit.cast(new, call.value(name).type.dtype), momentum)
        )
        for name, new in (("running_mean", flat[0]), ("running_var", unbiased))
    ]
    return result, *flat, *moved


@operator("rms_norm", "_fused_rms_norm")
def rms_norm(call: Call) -> Value | tuple[Value, Value]:
    """Convert division by the root of the mean square over the last axes; epsilon is added under the root."""
    x, emit, scale = call.value("input"), call.emit, call.optional("weight")
    count = len(call.integers("normalized_shape") or ())
    limits = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
    epsilon = float(call.number("eps")) if call.has("eps") else limits[x.type.dtype]
    if not x.type.size:
        return x
    mean = emit.reduce("reduce_mean", emit.unary("square", x), range(x.type.rank - count, x.type.rank))
    inverse = inverse_root(emit, mean, epsilon)
    result = scaled(emit, emit.mul(x, inverse), scale, None)
    return result if call.operator == "rms_norm" else (result, inverse)


@operator("native_dropout", "dropout")
def dropout(call: Call) -> Value | tuple[Value, Value]:
    """Convert nothing, and a mask that keeps all: an import is for inference, so that nothing is dropped.

    Raises:
        UnsupportedNodeError: It is in training, and drops something.
    """
    x = call.value("input")
    drops = (not call.has("train") or call.flag("train")) and float(call.number("p")) > 0
    if drops:
        raise UnsupportedNodeError(
            Reason.TRAINING, "dropout in training draws at random", workaround="export the module after module.eval()"
        )
    return x if call.operator == "dropout" else (x, call.emit.filled(x.type.shape, 1, "bool"))

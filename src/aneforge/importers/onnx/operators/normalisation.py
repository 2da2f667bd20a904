"""Normalisation: the op table's own where it has the form, else by mean, variance and arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.onnx.operators.pooling import power_norm
from aneforge.importers.onnx.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import divisible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.importers.emitter import Emitter
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value


def along_channels(emit: Emitter, part: Value, x: Value) -> Value:
    """Return one number a channel in a shape that broadcasts along axis 1."""
    return emit.reshape(part, (part.type.size, *[1] * (x.type.rank - 2)))


def all_constant(*parts: Value | None) -> bool:
    """Tell whether parameters are all known."""
    return all(part is None or isinstance(part, Constant) for part in parts)


def centred_and_variance(emit: Emitter, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Return the mean along axes, the tensor without it, and the biased variance."""
    mean = emit.reduce("reduce_mean", x, axes)
    centred = emit.sub(x, mean)
    return mean, centred, emit.reduce("reduce_mean", emit.unary("square", centred), axes)


@operator("BatchNormalization")
def batch_norm(call: Call) -> tuple[Value, ...]:
    """Convert normalisation by given statistics, or in training by those of the batch."""
    x, emit = call.value(0), call.emit
    scale, bias, mean, variance = (call.value(place) for place in range(1, 5))
    if x.type.rank < 2 or any(part.type.shape != (x.type.shape[1],) for part in (scale, bias, mean, variance)):
        raise GraphError(
            "the parameters are not one number a channel", seen=list(scale.type.shape), limit=list(x.type.shape)
        )
    epsilon = call.number("epsilon")
    if trains(call):
        if call.rules.since < 14:
            raise UnsupportedNodeError(
                Reason.TRAINING, "it is in training", workaround="export the model for inference"
            )
        return trained_batch_norm(call, epsilon)
    if x.type.rank >= 3 and all_constant(scale, bias, mean, variance) and not isinstance(x, Constant):
        operands = {"x": x, "gamma": scale, "beta": bias, "mean": mean, "variance": variance}
        return (emit.apply("batch_norm", operands, epsilon=epsilon),)
    parts = [emit.cast(along_channels(emit, part, x), x.type.dtype) for part in (scale, bias, mean, variance)]
    return (normalised_by(emit, emit.sub(x, parts[2]), parts[3], epsilon, parts[0], parts[1]),)


def trains(call: Call) -> bool:
    """Tell whether a batch normalisation is in training."""
    if "training_mode" in call.rules.attributes:
        return call.flag("training_mode")
    if "is_test" in call.rules.attributes:
        return not call.flag("is_test")
    return call.outputs > 1


def normalised_by(
    emit: Emitter, centred: Value, variance: Value, epsilon: float, scale: Value | None, bias: Value | None
) -> Value:
    """Return what is left of the mean over the standard deviation, scaled and shifted."""
    result = emit.mul(centred, emit.unary("rsqrt", variance, epsilon=epsilon))
    scaled = result if scale is None else emit.mul(result, scale)
    return scaled if bias is None else emit.add(scaled, bias)


def trained_batch_norm(call: Call, epsilon: float) -> tuple[Value, ...]:
    """Return normalisation by the statistics of the batch, and the running ones moved towards them."""
    x, emit = call.value(0), call.emit
    scale, bias, mean, variance = (call.value(place) for place in range(1, 5))
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    own_mean, centred, own_variance = centred_and_variance(emit, x, axes)
    parts = [along_channels(emit, emit.cast(part, x.type.dtype), x) for part in (scale, bias)]
    result = normalised_by(emit, centred, own_variance, epsilon, *parts)
    momentum, shape = call.number("momentum"), mean.type.shape
    running = [
        emit.add(emit.mul(old, momentum), emit.mul(emit.cast(emit.reshape(new, shape), old.type.dtype), 1 - momentum))
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return (result, *running)


@operator("InstanceNormalization")
def instance_norm(call: Call) -> Value:
    """Convert normalisation of every channel of every sample."""
    x, scale, bias, emit = call.value(0), call.value(1), call.value(2), call.emit
    epsilon = call.number("epsilon")
    if x.type.rank in (3, 4) and all_constant(scale, bias):
        return emit.apply("instance_norm", {"x": x, "gamma": scale, "beta": bias}, epsilon=epsilon)
    _, centred, variance = centred_and_variance(emit, x, range(2, x.type.rank))
    parts = along_channels(emit, scale, x), along_channels(emit, bias, x)
    return normalised_by(emit, centred, variance, epsilon, *parts)


@operator("GroupNormalization")
def group_norm(call: Call) -> Value:
    """Convert normalisation of groups of channels; before version 21 scale and bias were one number a group."""
    x, scale, bias, emit = call.value(0), call.value(1), call.value(2), call.emit
    groups, epsilon = call.integer("num_groups"), call.number("epsilon")
    if x.type.rank < 2 or groups < 1:
        raise GraphError("there are no channels to group", seen=f"{x.type}, {groups} groups")
    each = divisible("the number of channels by num_groups", x.type.shape[1], max(groups, 1))
    if call.rules.since < 21:
        scale, bias = (
            emit.reshape(emit.spread(emit.expand(part, -1), (groups, each)), (groups * each,)) for part in (scale, bias)
        )
    if x.type.rank == 4 and all_constant(scale, bias):
        return emit.apply("group_norm", {"x": x, "gamma": scale, "beta": bias}, num_groups=groups, epsilon=epsilon)
    flat = emit.reshape(x, (x.type.shape[0], groups, each * math.prod(x.type.shape[2:])))
    _, centred, variance = centred_and_variance(emit, flat, (2,))
    result = emit.reshape(normalised_by(emit, centred, variance, epsilon, None, None), x.type.shape)
    return emit.add(emit.mul(result, along_channels(emit, scale, x)), along_channels(emit, bias, x))


@operator("LayerNormalization")
def layer_norm(call: Call) -> tuple[Value, ...]:
    """Convert normalisation over all axes from one on; mean and inverse deviation if asked."""
    x, scale, bias, emit = call.value(0), call.value(1), call.optional(2), call.emit
    axis = call.axis(x.type.rank)
    axes, epsilon = tuple(range(axis, x.type.rank)), call.number("epsilon")
    shape = x.type.shape[axis:]
    simple = all_constant(scale, bias) and scale.type.shape == shape and (bias is None or bias.type.shape == shape)
    if simple and not call.wants(1) and not call.wants(2):
        return (emit.apply("layer_norm", {"x": x, "gamma": scale, "beta": bias}, axes=axes, epsilon=epsilon),)
    stash = call.dtype("stash_type")
    mean, centred, variance = centred_and_variance(emit, emit.cast(x, stash), axes)
    inverse = emit.unary("rsqrt", variance, epsilon=epsilon)
    result = emit.mul(emit.cast(emit.mul(centred, inverse), x.type.dtype), scale)
    return (result if bias is None else emit.add(result, bias), mean, inverse)


@operator("RMSNormalization")
def rms_norm(call: Call) -> Value:
    """Convert division by the root of the mean square over all axes from one on; epsilon is added under the root."""
    x, scale, emit = call.value(0), call.value(1), call.emit
    axes = tuple(range(call.axis(x.type.rank), x.type.rank))
    wide = emit.cast(x, call.dtype("stash_type"))
    mean = emit.reduce("reduce_mean", emit.unary("square", wide), axes)
    result = emit.mul(wide, emit.unary("rsqrt", mean, epsilon=call.number("epsilon")))
    return emit.mul(emit.cast(result, scale.type.dtype), scale)


@operator("LpNormalization")
def power_normalisation(call: Call) -> Value:
    """Convert division by the p-norm along an axis; where that is 0, so is the result."""
    x, emit = call.value(0), call.emit
    length = power_norm(call, x, (call.axis(x.type.rank),), call.integer("p"), keep=True)
    empty = emit.binary("equal", length, 0.0)
    return emit.select(empty, emit.number(0, x), emit.div(x, emit.select(empty, emit.number(1, x), length)))


@operator("LRN")
def local_response(call: Call) -> Value:
    """Convert division by a power of the sum of squares of neighbouring channels."""
    x, emit, size = call.value(0), call.emit, call.integer("size")
    alpha, beta, bias = call.number("alpha"), call.number("beta"), call.number("bias")
    if size % 2:
        return emit.apply("local_response_norm", {"x": x}, size=size, alpha=alpha, beta=beta, k=bias)
    # Of an even number ONNX has one channel fewer before than behind, and the op table one more.
    before = (size - 1) // 2
    widths = [0, 0, before, size - 1 - before, *[0] * (2 * (x.type.rank - 2))]
    squares = emit.apply("pad", {"x": emit.unary("square", x)}, pad=widths, mode="constant")
    emit.room(x.type.shape[1], size)
    seen = np.arange(x.type.shape[1])[:, None] + np.arange(size)
    total = emit.reduce("reduce_sum", emit.take(squares, seen, 1), (2,), keep=False)
    return emit.div(x, emit.binary("pow", emit.add(emit.mul(total, alpha / size), bias), beta))

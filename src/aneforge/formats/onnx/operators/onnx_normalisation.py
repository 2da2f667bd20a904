"""Normalisation: the op table's own where it has the form, else by mean, variance and arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.operators.onnx_pooling import power_norm
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared import normalising
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.ops.shapes import divisible

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value


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
    if not trains(call):
        return (normalising.batch_norm(emit, x, (scale, bias, mean, variance), epsilon),)
    if call.rules.since < 14:
        raise UnsupportedNodeError(Reason.TRAINING, "it is in training", workaround="export the model for inference")
    result, own_mean, own_variance, _ = normalising.norm_of_batch(emit, x, scale, bias, epsilon)
    share = 1 - call.number("momentum")
    running = [
        normalising.move_towards(emit, old, new, share) for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return (result, *running)


def trains(call: Call) -> bool:
    """Return whether a batch normalisation is in training."""
    if "training_mode" in call.rules.attributes:
        return call.flag("training_mode")
    if "is_test" in call.rules.attributes:
        return not call.flag("is_test")
    return call.outputs > 1


@operator("InstanceNormalization")
def instance_norm(call: Call) -> Value:
    """Convert normalisation of every channel of every sample."""
    x, scale, bias, emit = call.value(0), call.value(1), call.value(2), call.emit
    epsilon = call.number("epsilon")
    if x.type.rank in (3, 4) and normalising.all_constant(scale, bias):
        return emit.apply("instance_norm", {"x": x, "gamma": scale, "beta": bias}, epsilon=epsilon)
    _, centred, variance = normalising.compute_centred_and_variance(emit, x, range(2, x.type.rank))
    parts = normalising.along_channels(emit, scale, x), normalising.along_channels(emit, bias, x)
    return normalising.scaled(emit, emit.mul(centred, normalising.inverse_root(emit, variance, epsilon)), *parts)


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
    return normalising.group_norm(emit, x, groups, scale, bias, epsilon)[0] if x.type.size else x


@operator("LayerNormalization")
def layer_norm(call: Call) -> tuple[Value, ...]:
    """Convert normalisation over all axes from one on; mean and inverse deviation if asked."""
    x, scale, bias = call.value(0), call.value(1), call.optional(2)
    axis = call.axis(x.type.rank)
    axes = tuple(range(axis, x.type.rank))
    return normalising.layer_norm(call.emit, x, scale, bias, axes, call.number("epsilon"), call.dtype("stash_type"))


@operator("RMSNormalization")
def rms_norm(call: Call) -> Value:
    """Convert division by the root of the mean square over all axes from one on; epsilon is added under the root."""
    x, scale, emit = call.value(0), call.value(1), call.emit
    axes = tuple(range(call.axis(x.type.rank), x.type.rank))
    result, _ = normalising.rms_norm(emit, emit.cast(x, call.dtype("stash_type")), axes, call.number("epsilon"))
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
    alpha, beta, bias = call.number("alpha"), call.number("beta"), call.number("bias")
    operands = {"x": call.value(0)}
    return call.emit.apply("local_response_norm", operands, size=call.integer("size"), alpha=alpha, beta=beta, k=bias)

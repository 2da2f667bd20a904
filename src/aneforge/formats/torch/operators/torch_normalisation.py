"""Normalisation: the op table's own where it has the form, else by mean, variance and arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.shared import normalising
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.registry import operator

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


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
    results = normalising.layer_norm(emit, x, scale, bias, axes, epsilon)
    return results[0] if call.operator == "layer_norm" else results


@operator("native_group_norm", "group_norm")
def group_norm(call: Call) -> Value | tuple[Value, Value, Value]:
    """Convert normalisation of groups of channels, with mean and inverse deviation of each group."""
    x, emit = call.value("input"), call.emit
    scale, bias, epsilon = call.optional("weight"), call.optional("bias"), float(call.number("eps"))
    groups = call.integer("group" if call.operator == "native_group_norm" else "num_groups")
    batch = x.type.shape[0]
    if not x.type.size:
        empty = emit.filled((batch, groups), math.nan, x.type.dtype) if batch else emit.empty((0, groups), x.type.dtype)
        return x if call.operator == "group_norm" else (x, empty, empty)
    results = normalising.group_norm(emit, x, groups, scale, bias, epsilon)
    return results[0] if call.operator == "group_norm" else results


@operator("_native_batch_norm_legit_no_training")
def batch_norm(call: Call) -> tuple[Value, Value, Value]:
    """Convert normalisation by given statistics."""
    x, emit = call.value("input"), call.emit
    scale, bias = call.optional("weight"), call.optional("bias")
    mean, variance = call.value("running_mean"), call.value("running_var")
    nothing = emit.empty((0,), x.type.dtype)
    return normalising.batch_norm(emit, x, (scale, bias, mean, variance), float(call.number("eps"))), nothing, nothing


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
        return normalising.batch_norm(emit, x, (scale, bias, *statistics), epsilon), nothing, nothing, *kept
    if call.operator == "_native_batch_norm_legit" and call.optional("running_mean") is not None:
        raise UnsupportedNodeError(
            Reason.TRAINING, "it writes its statistics in place", workaround="export the module after module.eval()"
        )
    result, mean, variance, inverse = normalising.norm_of_batch(emit, x, scale, bias, epsilon)
    if not call.operator.endswith("functional"):
        return result, mean, inverse
    count = x.type.size // max(x.type.shape[1], 1)
    unbiased = emit.mul(variance, count / max(count - 1, 1))
    momentum = float(call.number("momentum"))
    running = [
        normalising.move_towards(emit, call.value(name), new, momentum)
        for name, new in (("running_mean", mean), ("running_var", unbiased))
    ]
    return result, mean, inverse, *running


@operator("rms_norm", "_fused_rms_norm")
def rms_norm(call: Call) -> Value | tuple[Value, Value]:
    """Convert division by the root of the mean square over the last axes; epsilon is added under the root."""
    x, emit, scale = call.value("input"), call.emit, call.optional("weight")
    count = len(call.integers("normalized_shape") or ())
    limits = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23, "fp64": 2.0**-52}
    epsilon = float(call.number("eps")) if call.has("eps") else limits[x.type.dtype]
    if not x.type.size:
        return x
    plain, inverse = normalising.rms_norm(emit, x, range(x.type.rank - count, x.type.rank), epsilon)
    result = normalising.scaled(emit, plain, scale, None)
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

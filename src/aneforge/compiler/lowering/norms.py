"""Normalisations without a layer of their own, as the layers that they are emitted as (public MIL forms)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from aneforge.compiler.lowering.pointwise import number, wide
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Ref, Value
    from aneforge.compiler.lowering.emitter import Emitter, Rule
    from aneforge.ops.constant import Constant

__all__ = ["RULES"]

CHANNEL_AXIS = 1


def rms_norm(emit: Emitter) -> tuple[Ref, ...]:
    """Lower by lengths: the Euclidean length, at least √(extent · epsilon), divides; gamma · √extent multiplies.

    That product is a constant of the tensor's own element type, as it is in the emitted program: it is rounded once.
    """
    x = emit.ref("x")
    extent = x.type.shape[-1]
    length = emit.add("reduce_l2_norm", {"x": x}, {"axes": (-1,), "keep_dims": True}, step="length")
    floor = {"alpha": math.sqrt(extent * number(emit, "epsilon")), "beta": math.inf}
    bounded = emit.add("clamped_relu", {"x": length}, floor, step="floor")
    scaled = emit.add("div", {"x": x, "y": bounded}, step="scaled")
    gamma = wide(cast("Constant", emit.constant("gamma"))) * math.sqrt(extent)
    weight = Dense(gamma.astype(numpy_dtype(x.type.dtype)))
    return (emit.add("mult", {"x": scaled, "y": weight}),)


def channel_layer_norm(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the normalisation over channels: mean, deviation, mean square, its inverse root, gain and offset."""
    return (affined(emit, standardised(emit, emit.ref("x"), (CHANNEL_AXIS,))),)


def group_norm(emit: Emitter) -> tuple[Ref, ...]:
    """Lower the normalisation over groups of channels: every group is a row."""
    x = emit.ref("x")
    batch, groups = x.type.shape[0], cast("int", emit.node.attributes["num_groups"])
    rows = emit.reshape(x, (batch, groups, math.prod(x.type.shape[1:]) // groups), step="rows")
    whole = emit.reshape(standardised(emit, rows, (2,)), x.type.shape, step="whole")
    return (affined(emit, whole),)


def standardised(emit: Emitter, x: Ref, axes: tuple[int, ...]) -> Value:
    """Return x with mean 0 and variance 1 along axes."""
    along = {"axes": axes, "keep_dims": True}
    mean = emit.add("reduce_avg", {"x": x}, along, step="mean")
    deviation = emit.add("sub", {"x": x, "y": mean}, step="deviation")
    square = emit.add("mult", {"x": deviation, "y": deviation}, step="square")
    variance = emit.add("reduce_avg", {"x": square}, along, step="variance")
    shifted = emit.affine(variance, None, number(emit, "epsilon"), axis=-1, step="epsilon")
    root = emit.add("rsqrt", {"x": shifted}, {"epsilon": 0.0}, step="root")
    return emit.add("mult", {"x": deviation, "y": root}, step="standard")


def affined(emit: Emitter, x: Ref) -> Value:
    """Return x times gamma plus beta, one of each for every channel."""
    gamma, beta = (wide(cast("Constant", emit.constant(name))) for name in ("gamma", "beta"))
    return emit.affine(x, gamma, beta, axis=CHANNEL_AXIS)


RULES: dict[str, Rule] = {
    "rms_norm": rms_norm,
    "channel_layer_norm": channel_layer_norm,
    "group_norm": group_norm,
}

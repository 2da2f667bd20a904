"""Layers that ONNX Runtime's optimiser puts together: activations with their bias, normalisations, fused products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.operators.onnx_convolution import convolution
from aneforge.formats.onnx.registry import operator
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.ops.shapes import divisible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value

ACTIVATIONS = {
    "": (),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Activations that are fused into products, and what their parameters are called, in order."""


# Activations.


@operator("Gelu", domain=RUNTIME_DOMAIN)
def gelu(call: Call) -> Value:
    """Convert the Gaussian unit."""
    return call.standard("Gelu", call.value(0))


@operator("BiasGelu", domain=RUNTIME_DOMAIN)
def bias_gelu(call: Call) -> Value:
    """Convert a bias and the Gaussian unit."""
    return call.standard("Gelu", call.emit.add(call.value(0), call.value(1)))


@operator("FastGelu", domain=RUNTIME_DOMAIN)
def fast_gelu(call: Call) -> Value:
    """Convert a bias, if there is one, and the Gaussian unit by the hyperbolic tangent."""
    return call.standard("Gelu", add_parts(call, call.value(0), call.optional(1)), approximate="tanh")


@operator("QuickGelu", domain=RUNTIME_DOMAIN)
def quick_gelu(call: Call) -> Value:
    """Convert x times the logistic function of alpha · x."""
    x, emit = call.value(0), call.emit
    return emit.mul(x, call.standard("Sigmoid", emit.mul(x, call.number("alpha"))))


@operator("BiasSplitGelu", domain=RUNTIME_DOMAIN)
def bias_split_gelu(call: Call) -> Value:
    """Convert a bias, and the first half of the last axis times the Gaussian unit of the second."""
    emit = call.emit
    x = emit.add(call.value(0), call.value(1))
    width = x.type.shape[-1]
    half = divisible("the last axis into two halves", width, 2)
    return emit.mul(emit.part(x, -1, 0, half), call.standard("Gelu", emit.part(x, -1, half, width)))


@operator("BiasAdd", domain=RUNTIME_DOMAIN)
def bias_add(call: Call) -> Value:
    """Convert a bias and what goes around a layer."""
    return call.emit.add(call.emit.add(call.value(0), call.value(1)), call.value(2))


@operator("BiasSoftmax", domain=RUNTIME_DOMAIN)
def bias_softmax(call: Call) -> Value:
    """Convert a bias and the softmax over all axes from one on.

    Raises:
        UnsupportedNodeError: The bias is repeated in a different way than tensors broadcast.
    """
    x, bias, emit = call.value(0), call.value(1), call.emit
    if any(one not in (1, other) for one, other in zip(bias.type.shape[::-1], x.type.shape[::-1], strict=False)):
        raise UnsupportedNodeError(Reason.FORM, "the bias is repeated along outer axes", seen=str(bias.type))
    axis = call.axis(x.type.rank)
    shape = (*x.type.shape[:axis], math.prod(x.type.shape[axis:]))
    result = call.standard("Softmax", emit.reshape(emit.add(x, bias), shape), axis=-1)
    return emit.reshape(result, x.type.shape)


def add_parts(call: Call, x: Value, *parts: Value | None) -> Value:
    """Return a tensor with those of several others added that are there."""
    for part in parts:
        x = x if part is None else call.emit.add(x, part)
    return x


# Normalisation.


@operator("SimplifiedLayerNormalization")
def simplified_norm(call: Call) -> Value:
    """Convert division by the root of the mean square over all axes from one on."""
    return root_mean_square(call, call.value(0), call.value(1), call.axis(call.value(0).type.rank))


def root_mean_square(call: Call, x: Value, scale: Value, axis: int) -> Value:
    """Return x over the root of its mean square along all axes from one on, scaled."""
    emit = call.emit
    mean = emit.reduce("reduce_mean", emit.unary("square", x), range(axis, x.type.rank))
    return emit.mul(emit.mul(x, emit.unary("rsqrt", mean, epsilon=call.number("epsilon"))), scale)


@operator("SkipLayerNormalization", domain=RUNTIME_DOMAIN)
def skip_norm(call: Call) -> tuple[Held, ...]:
    """Convert a sum with what goes around a layer, normalised; the sum itself is the fourth result."""
    expect_no_statistics(call)
    total = add_parts(call, call.value(0), call.value(1), call.optional(4))
    result = layer_normalised(call, total, call.value(2), call.optional(3))
    return result, total, total, total


@operator("SkipSimplifiedLayerNormalization", domain=RUNTIME_DOMAIN)
def skip_simplified_norm(call: Call) -> tuple[Held, ...]:
    """Convert a sum with what goes around a layer over the root of its mean square; the sum is the fourth result."""
    expect_no_statistics(call)
    total = add_parts(call, call.value(0), call.value(1), call.optional(3))
    return root_mean_square(call, total, call.value(2), total.type.rank - 1), total, total, total


def expect_no_statistics(call: Call) -> None:
    """Check that mean and deviation are not read, which the runtime writes only in training.

    Raises:
        UnsupportedNodeError: One of them is.
    """
    if call.wants(1) or call.wants(2):
        raise UnsupportedNodeError(
            Reason.TRAINING, "its mean and deviation are read", workaround="export the model for inference"
        )


def layer_normalised(call: Call, x: Value, scale: Value, bias: Value | None) -> Value:
    """Return a tensor normalised along its last axis."""
    return call.standard("LayerNormalization", x, scale, bias, axis=-1, epsilon=call.number("epsilon"))


@operator("GroupNorm", domain=RUNTIME_DOMAIN)
def group_norm(call: Call) -> Value:
    """Convert normalisation of groups of channels, which may be after, and x · sigmoid(x) after it."""
    x = channels_first(call, call.value(0), "channels_last")
    result = call.standard(
        "GroupNormalization",
        x,
        *(call.emit.cast(call.value(place), x.type.dtype) for place in (1, 2)),
        num_groups=call.integer("groups"),
        epsilon=call.number("epsilon"),
    )
    if call.flag("activation"):
        result = call.emit.unary("silu", result)
    return channels_last(call, result, "channels_last")


def channels_first(call: Call, x: Value, attribute: str) -> Value:
    """Return a tensor with channels in front of the places, where an attribute says that they are after."""
    return call.emit.moved(x, -1, 1) if call.flag(attribute) else x


def channels_last(call: Call, x: Value, attribute: str) -> Value:
    """Return a tensor with channels after the places again, where an attribute says so."""
    return call.emit.moved(x, 1, -1) if call.flag(attribute) else x


@operator("EmbedLayerNormalization", domain=RUNTIME_DOMAIN)
def embed_norm(call: Call) -> tuple[Held, ...]:
    """Convert the sum of embeddings of words, places and segments, normalised; and how many words each line has."""
    words, segments, emit = call.value(0), call.optional(1), call.emit
    batch, length = words.type.shape
    places = call.optional(8)
    if places is None:
        emit.room(length)
        places = emit.constant(np.arange(length).reshape(1, length), "int64")
    parts = [
        call.standard("Gather", table, index) for table, index in ((call.value(2), words), (call.value(3), places))
    ]
    if segments is not None and call.optional(4) is not None:
        parts.append(call.standard("Gather", call.value(4), segments))
    total = add_parts(call, parts[0], *parts[1:])
    result = layer_normalised(call, total, call.value(5), call.value(6))
    mask = call.optional(7)
    counted = emit.filled((batch,), 0, "int32") if mask is None else emit.reduce("reduce_sum", mask, (1,), keep=False)
    return result, emit.cast(counted, "int32"), total


# Products.


@operator("FusedMatMul", "TransposeMatMul", domain=RUNTIME_DOMAIN)
def fused_matmul(call: Call) -> Value:
    """Convert alpha times a product of matrices, which are transposed, or are around their batches, as asked."""
    emit = call.emit
    left = turn(call, call.value(0), "A")
    right = turn(call, call.value(1), "B")
    product = emit.matmul(left, right)
    return product if call.number("alpha") == 1 else emit.mul(product, call.number("alpha"))


def turn(call: Call, x: Value, which: str) -> Value:
    """Return an operand as [batches, rows, columns]: rows may be in front of the batches, and both be exchanged."""
    batches = f"transBatch{which}"
    if x.type.rank < 2:
        return x
    if batches in call.rules.attributes and call.flag(batches):
        x = call.emit.moved(x, 0, -2)
    order = [*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2]
    return call.emit.transpose(x, order) if call.flag(f"trans{which}") else x


@operator("FusedConv", domain=RUNTIME_DOMAIN)
def fused_conv(call: Call) -> Value:
    """Convert a convolution, a sum with what goes around it, and an activation."""
    result = add_parts(call, convolution(call, call.value(0), call.value(1), call.optional(2)), call.optional(3))
    parameters = tuple(call.attribute("activation_params").floats) if call.has("activation_params") else ()
    return activate(call, result, parameters)


@operator("FusedGemm", domain=RUNTIME_DOMAIN)
def fused_gemm(call: Call) -> Value:
    """Convert alpha · A · B + beta · C and an activation."""
    names = [name for name in ("activation_alpha", "activation_beta", "activation_gamma") if call.has(name)]
    attributes = {name: call.number(name) for name in ("alpha", "beta")}
    turns = {name: call.integer(name) for name in ("transA", "transB")}
    product = call.standard("Gemm", call.value(0), call.value(1), call.optional(2), **attributes, **turns)
    return activate(call, product, tuple(call.number(name) for name in names))


def activate(call: Call, x: Value, parameters: Sequence[float]) -> Value:
    """Return a fused activation of a tensor.

    Raises:
        UnsupportedNodeError: It is not known here.
        GraphError: It has more parameters than it takes.
    """
    name = call.text("activation") if call.has("activation") else ""
    if name not in ACTIVATIONS:
        raise UnsupportedNodeError(
            Reason.OPERATOR, "its activation is not supported", seen=name, workaround="save with ORT_ENABLE_BASIC"
        )
    if not name:
        return x
    names = ACTIVATIONS[name]
    if len(parameters) > len(names):
        raise GraphError(f"{name} takes fewer parameters", seen=list(parameters), limit=len(names))
    if name == "Clip":
        return call.standard("Clip", x, *(call.emit.constant(one, x.type.dtype) for one in parameters))
    return call.standard(name, x, **dict(zip(names, parameters, strict=False)))


# Others.


@operator("NhwcMaxPool", domain=RUNTIME_DOMAIN)
def pool_channels_last(call: Call) -> Value:
    """Convert the largest in windows, channels after the places."""
    attributes = {name: list(call.integers(name) or ()) for name in ("dilations", "kernel_shape", "pads", "strides")}
    given = {name: listed for name, listed in attributes.items() if listed}
    first = call.emit.moved(call.value(0), -1, 1)
    pooled = call.standard(
        "MaxPool", first, auto_pad=call.text("auto_pad"), ceil_mode=call.integer("ceil_mode"), **given
    )
    return call.emit.moved(pooled, 1, -1)


@operator("Pad", domain=RUNTIME_DOMAIN)
def padded(call: Call) -> Value:
    """Convert padding, whose widths may be one row of a matrix."""
    widths = call.emit.reshape(call.value(1), (call.value(1).type.size,))
    return call.standard("Pad", call.value(0), widths, call.optional(2), mode=call.text("mode"))


@operator("ExpandDims", domain=RUNTIME_DOMAIN)
def expanded(call: Call) -> Value:
    """Convert a further axis of length 1."""
    return call.emit.expand(call.value(0), call.known_integer(1, "the axis"))


@operator("Trilu", domain=RUNTIME_DOMAIN)
def triangle(call: Call) -> Value:
    """Convert the part of matrices above or below a diagonal."""
    return call.standard("Trilu", call.value(0), call.optional(1), upper=call.integer("upper"))


@operator("CDist", domain=RUNTIME_DOMAIN)
def distances(call: Call) -> Value:
    """Convert the distance of every row of a matrix from every row of another."""
    emit = call.emit
    squared = call.choice("metric", "euclidean", "sqeuclidean") == "sqeuclidean"
    difference = emit.sub(emit.expand(call.value(0), 1), emit.expand(call.value(1), 0))
    total = emit.reduce("reduce_sum", emit.unary("square", difference), (2,), keep=False)
    return total if squared else emit.unary("sqrt", total)

"""Gradients of layers, where a program has them as operators of their own.

All of them are linear in what comes back: means spread what they averaged, convolutions turn around.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared.spectra import along
from aneforge.formats.torch.operators.torch_convolution import adaptive_parts
from aneforge.formats.torch.registry import converter_of, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.torch.call import Call
    from aneforge.formats.torch.torch_values import Held
    from aneforge.graph.node import Value


@operator("_adaptive_avg_pool2d_backward")
def adaptive_average(call: Call) -> Value:
    """Convert the gradient of a mean over parts of about equal lengths."""
    x, source = call.value("grad_output"), call.value("self")
    for axis in (-2, -1):
        x = along(call.emit, x, axis, adaptive_parts(call.emit, source.type.shape[axis], x.type.shape[axis]))
    return x


@operator("avg_pool2d_backward")
def average(call: Call) -> Value:
    """Convert the gradient of a mean in windows."""
    x, source, emit = call.value("grad_output"), call.value("self"), call.emit
    lengths, pads = call.per_axis("kernel_size", 2), call.per_axis("padding", 2, 0)
    strides = call.per_axis("stride", 2) if call.integers("stride") else lengths
    extents, counts = source.type.shape[-2:], x.type.shape[-2:]
    emit.room(*counts)
    begins = [np.arange(count) * stride - pad for count, stride, pad in zip(counts, strides, pads, strict=True)]
    covered: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
    for begin, length, extent, pad in zip(begins, lengths, extents, pads, strict=True):
        padded = np.minimum(begin + length, extent + pad) - begin
        within = np.minimum(begin + length, extent) - np.maximum(begin, 0)
        covered.append(padded if call.flag("count_include_pad") else within)
    divisors = np.multiply.outer(*covered).astype(np.float64)
    if call.has("divisor_override"):
        divisors = np.full(counts, float(call.number("divisor_override")))
    found = emit.mul(x, emit.constant(1 / divisors, x.type.dtype))
    for axis, begin, length, extent in zip((-2, -1), begins, lengths, extents, strict=True):
        emit.room(extent, *begin.shape)
        offset = np.arange(extent)[:, None] - begin
        found = along(emit, found, axis, ((offset >= 0) & (offset < length)).astype(np.float64))
    return found


@operator("convolution_backward")
def convolution(call: Call) -> Held:
    """Convert the gradients of a convolution: of its data, its weights and its bias, those that are asked for."""
    asked = cast("Sequence[bool]", call.arguments["output_mask"])
    back = call.value("grad_output")
    data = data_gradient(call) if asked[0] else None
    weights = weight_gradient(call) if asked[1] else None
    others = [axis for axis in range(back.type.rank) if axis != 1]
    bias = call.emit.reduce("reduce_sum", back, others, keep=False) if asked[2] else None
    return data, weights, bias


def data_gradient(call: Call) -> Value:
    """Return the gradient of the data: the convolution that goes the other way, over the same weights."""
    back, x, weight = (call.value(name) for name in ("grad_output", "input", "weight"))
    spatial = x.type.rank - 2
    turned = not call.flag("transposed")
    strides, pads, dilations = spaces(call, spatial)
    whole = [
        (count - 1) * stride - 2 * pad + dilation * (length - 1) + 1
        for count, stride, pad, dilation, length in zip(
            back.type.shape[2:], strides, pads, dilations, weight.type.shape[2:], strict=True
        )
    ]
    rest = tuple(extent - length for extent, length in zip(x.type.shape[2:], whole, strict=True)) if turned else (0,)
    names = ("stride", "padding", "dilation", "groups")
    arguments: dict[str, Held] = {name: call.arguments[name] for name in names}
    arguments |= {"input": back, "weight": weight, "bias": None, "transposed": turned, "output_padding": rest}
    convert = converter_of("convolution", "default")
    if convert is None:
        raise GraphError("a convolution is not supported here")
    found = convert(replace(call, operator="convolution", arguments=arguments))
    return cast("Value", found)


def spaces(call: Call, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return strides, paddings and dilations, one for each spatial axis."""
    return (
        call.per_axis("stride", spatial),
        call.per_axis("padding", spatial, 0),
        call.per_axis("dilation", spatial),
    )


def weight_gradient(call: Call) -> Value:
    """Return the gradient of the weights: what a window saw, times what comes back, summed over places and samples."""
    emit, groups, weight = call.emit, call.integer("groups"), call.value("weight")
    back, x = call.value("grad_output"), call.value("input")
    if call.flag("transposed"):
        back, x = x, back
    spatial = x.type.rank - 2
    strides, pads, dilations = spaces(call, spatial)
    counts, lengths = back.type.shape[2:], weight.type.shape[2:]
    seen = emit.apply("pad", {"x": x}, pad=[0, 0, 0, 0, *(pad for pad in pads for _ in (0, 1))], mode="constant")
    for axis in reversed(range(spatial)):
        emit.room(lengths[axis], counts[axis])
        places = np.arange(lengths[axis])[:, None] * dilations[axis] + np.arange(counts[axis]) * strides[axis]
        seen = emit.take(seen, places, axis + 2)
    # [sample, channel, length, count, length, count, …] as [group, channel · lengths, sample · counts]
    batch, channels, size, area = x.type.shape[0], x.type.shape[1] // groups, math.prod(lengths), math.prod(counts)
    split = emit.reshape(seen, (batch, groups, channels, *seen.type.shape[2:]))
    order = [1, 2, *range(3, 3 + 2 * spatial, 2), 0, *range(4, 4 + 2 * spatial, 2)]
    windows = emit.reshape(emit.transpose(split, order), (groups, channels * size, batch * area))
    results = back.type.shape[1] // groups
    lines = emit.reshape(back, (batch, groups, results, area))
    lines = emit.reshape(emit.transpose(lines, (1, 2, 0, 3)), (groups, results, batch * area))
    product = emit.matmul(lines, emit.transpose(windows, (0, 2, 1)))
    return emit.reshape(product, weight.type.shape)

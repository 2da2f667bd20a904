"""ONNX Runtime's operators on quantised numbers: each makes numbers of them, computes, and quantises again.

The runtime sums some of them up in integers, so its last step may round differently by one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.operators.onnx_quantisation import convolve_codes
from aneforge.formats.onnx.operators.onnx_runtime_layers import channels_first, channels_last
from aneforge.formats.onnx.registry import operator
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.ops.types import Array

WHOLE_BYTE = 8
SOFTMAX_ALONG_ONE = 13
"""The version of the default set since which a softmax goes along one axis."""
MIDDLE_BITS = (2, 4, 8)
"""Widths that `MatMulNBits` packs into bytes, the lowest bits first."""


def dequantise_by_place(call: Call, place: int, scale: int, zero: int, **attributes: int) -> Value:
    """Return quantised numbers as numbers: inputs are named by their places."""
    return call.standard(
        "DequantizeLinear", call.value(place), flat(call, call.value(scale)), point(call, zero), **attributes
    )


def quantise_by_place(call: Call, x: Value, scale: int, zero: int) -> Value:
    """Return numbers quantised by a scale and a zero point, which are named by their places."""
    return call.standard("QuantizeLinear", x, flat(call, call.value(scale)), point(call, zero))


def point(call: Call, zero: int) -> Value | None:
    """Return a zero point; none where it is left out."""
    found = call.optional(zero)
    return None if found is None else flat(call, found)


def flat(call: Call, part: Value) -> Value:
    """Return a list of one number as that number."""
    return call.emit.reshape(part, ()) if part.type.size == 1 else part


@operator("QuantizeLinear", "DequantizeLinear", domain=RUNTIME_DOMAIN)
def linear(call: Call) -> Value:
    """Convert what ONNX has as well since these are read."""
    names = ("axis", "block_size", "saturate")
    attributes = {name: call.integer(name) for name in names if name in call.rules.attributes}
    return call.standard(call.operator, call.value(0), call.value(1), call.optional(2), **attributes)


@operator("QLinearAdd", "QLinearMul", domain=RUNTIME_DOMAIN)
def quantised_pair(call: Call) -> Value:
    """Convert a sum or a product of elements."""
    result = call.standard(
        call.operator.removeprefix("QLinear"), dequantise_by_place(call, 0, 1, 2), dequantise_by_place(call, 3, 4, 5)
    )
    return quantise_by_place(call, result, 6, 7)


@operator("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=RUNTIME_DOMAIN)
def quantised_function(call: Call) -> Value:
    """Convert a function of elements, or a softmax: before version 13 that went over all axes from one on."""
    x, emit = dequantise_by_place(call, 0, 1, 2), call.emit
    name = call.operator.removeprefix("QLinear")
    if name == "LeakyRelu":
        return quantise_by_place(call, call.standard(name, x, alpha=call.number("alpha")), 3, 4)
    if name == "Sigmoid":
        return quantise_by_place(call, call.standard(name, x), 3, 4)
    axis = call.axis(x.type.rank)
    together = x.type.shape
    if call.integer("opset") < SOFTMAX_ALONG_ONE:
        together = (*together[:axis], math.prod(together[axis:]))
    result = call.standard("Softmax", emit.reshape(x, together), axis=axis)
    return quantise_by_place(call, emit.reshape(result, x.type.shape), 3, 4)


@operator("QLinearConcat", domain=RUNTIME_DOMAIN)
def quantised_concat(call: Call) -> Value:
    """Convert tensors one after another, each with a scale and a zero point of its own.

    Raises:
        GraphError: A tensor has none.
    """
    if len(call.inputs) < 5 or len(call.inputs) % 3 != 2:
        raise GraphError("each of its tensors must have a scale and a zero point", seen=len(call.inputs))
    parts = [dequantise_by_place(call, place, place + 1, place + 2) for place in range(2, len(call.inputs), 3)]
    return quantise_by_place(call, call.emit.concat(parts, call.axis(parts[0].type.rank)), 0, 1)


@operator("QLinearWhere", domain=RUNTIME_DOMAIN)
def quantised_choice(call: Call) -> Value:
    """Convert a choice between elements of two tensors."""
    return quantise_by_place(
        call,
        call.standard("Where", call.value(0), dequantise_by_place(call, 1, 2, 3), dequantise_by_place(call, 4, 5, 6)),
        7,
        8,
    )


@operator("QLinearReduceMean", domain=RUNTIME_DOMAIN)
def quantised_mean(call: Call) -> Value:
    """Convert a mean along axes."""
    axes = call.emit.constant(call.integers("axes") or (), "int64")
    return quantise_by_place(
        call,
        call.standard("ReduceMean", dequantise_by_place(call, 0, 1, 2), axes, keepdims=call.integer("keepdims")),
        3,
        4,
    )


@operator("QLinearGlobalAveragePool", domain=RUNTIME_DOMAIN)
def quantised_global_average(call: Call) -> Value:
    """Convert the mean over all places."""
    pooled = call.standard(
        "GlobalAveragePool", channels_first(call, dequantise_by_place(call, 0, 1, 2), "channels_last")
    )
    return quantise_by_place(call, channels_last(call, pooled, "channels_last"), 3, 4)


@operator("QLinearAveragePool", domain=RUNTIME_DOMAIN)
def quantised_average(call: Call) -> Value:
    """Convert the mean in windows."""
    lists = {name: list(call.integers(name) or ()) for name in ("kernel_shape", "pads", "strides")}
    pooled = call.standard(
        "AveragePool",
        channels_first(call, dequantise_by_place(call, 0, 1, 2), "channels_last"),
        auto_pad=call.text("auto_pad"),
        ceil_mode=call.integer("ceil_mode"),
        count_include_pad=call.integer("count_include_pad"),
        **{name: listed for name, listed in lists.items() if listed},
    )
    return quantise_by_place(call, channels_last(call, pooled, "channels_last"), 3, 4)


@operator("QLinearConv", domain=RUNTIME_DOMAIN)
def quantised_convolution(call: Call) -> Value:
    """Convert a convolution; weights are laid out as ONNX's own, whatever the data are.

    Raises:
        UnsupportedNodeError: Channels are after.
    """
    if call.flag("channels_last"):
        raise UnsupportedNodeError(
            Reason.FORM, "its channels are last", workaround="save with ORT_ENABLE_EXTENDED or less"
        )
    return convolve_codes(call)


# Products.


@operator("QGemm", domain=RUNTIME_DOMAIN)
def quantised_gemm(call: Call) -> Value:
    """Convert alpha · A · B plus integers in steps of both scales; quantised where a scale for it is given."""
    emit = call.emit
    columns = 0 if call.flag("transB") else 1
    left, right = dequantise_by_place(call, 0, 1, 2), dequantise_by_place(call, 3, 4, 5, axis=columns)
    scaled = call.number("alpha")
    product = call.standard(
        "Gemm", left, right, alpha=scaled, transA=call.integer("transA"), transB=call.integer("transB")
    )
    if call.optional(6) is not None:
        step = emit.mul(emit.mul(flat(call, call.value(1)), flat(call, call.value(4))), scaled)
        product = emit.add(product, emit.mul(emit.cast(call.value(6), product.type.dtype), step))
    return product if call.optional(7) is None else quantise_by_place(call, product, 7, 8)


@operator("MatMulIntegerToFloat", domain=RUNTIME_DOMAIN)
def integer_product(call: Call) -> Value:
    """Convert a product of quantised matrices made numbers."""
    return product_of(call, (call.value(0), call.value(2), call.optional(4)), (1, 3, 5, 6))


@operator("DynamicQuantizeMatMul", domain=RUNTIME_DOMAIN)
def dynamic_product(call: Call) -> Value:
    """Convert a matrix quantised by its own range, times a quantised one, made numbers."""
    codes, scale, zero = call.surroundings.run_operator("DynamicQuantizeLinear", (call.value(0),), {}, 3)
    return product_of(call, (codes, scale, zero), (1, 2, 3, 4))  # pyright: ignore[reportArgumentType] - three tensors


def product_of(call: Call, left: tuple[Value, Value, Value | None], places: tuple[int, int, int, int]) -> Value:
    """Return a quantised matrix times another, which is named by the places of codes, scale, zero point and bias."""
    codes, scale, zero, bias = places
    weights = call.value(codes)
    second = dequantise_by_place(call, codes, scale, zero, axis=weights.type.rank - 1)
    parts = (left[0], *(None if one is None else flat(call, one) for one in left[1:]))
    product = call.emit.matmul(call.standard("DequantizeLinear", *parts), second)
    return product if call.optional(bias) is None else call.emit.add(product, call.value(bias))


@operator("MatMulNBits", domain=RUNTIME_DOMAIN)
def packed_product(call: Call) -> Value:
    """Convert a product with weights of a few bits, in blocks along the rows that are summed.

    Raises:
        UnsupportedNodeError: Rows come in another order, weights are computed, or have an odd width.
    """
    rows, columns, bits, block = (call.integer(name) for name in ("K", "N", "bits", "block_size"))
    if call.optional(4) is not None or bits not in MIDDLE_BITS or call.integer("weight_prepacked"):
        raise UnsupportedNodeError(
            Reason.FORM, "its weights are packed in a way that is not supported here", seen=f"{bits} bits"
        )
    if min(rows, columns, block) < 1:
        raise GraphError("K, N and block_size are not all 1 or more", seen=f"{rows}, {columns} and {block}")
    blocks = -(-rows // block)
    codes = unpack(call.expect_known(1, "the packed weights"), bits, columns, blocks * block)[:, :rows]
    x, scales, emit = call.value(0), call.value(2), call.emit
    zeros = call.optional(3)
    if zeros is None:
        shift = np.full((columns, blocks), 2 ** (bits - 1), np.uint8)
    elif is_float(zeros.type.dtype):
        shift = call.expect_known(3, "the zero points")
        if shift.size != columns * blocks:
            raise GraphError("the zero points have the wrong size", seen=shift.size, limit=columns * blocks)
        shift = shift.reshape(columns, blocks)
    else:
        shift = unpack(call.expect_known(3, "the zero points"), bits, columns, blocks)
    weight = pack_weights(call, codes, shift, emit.reshape(scales, (columns, blocks)), block)
    product = emit.apply("linear", {"x": x, "weight": weight})
    return product if call.optional(5) is None else emit.add(product, call.value(5))


def unpack(packed: Array, bits: int, lines: int, count: int) -> Array:
    """Return so many codes in every line, of a few bits each, from bytes that hold the first in their lowest bits.

    Raises:
        GraphError: There are more or fewer bytes.
    """
    each = WHOLE_BYTE // bits
    needed = lines * -(-count // each)
    if packed.size != needed or packed.dtype != np.uint8:
        raise GraphError("the packed numbers have the wrong size", seen=packed.size, limit=needed)
    shifts = np.arange(each, dtype=np.uint8) * bits
    codes = (packed.reshape(lines, -1, 1) >> shifts) & (2**bits - 1)
    return codes.reshape(lines, -1)[:, :count]


def pack_weights(call: Call, codes: Array, shift: Array, scales: Value, block: int) -> Value:
    """Return weights in the encoding of the op table for blocks, or as numbers where it has none."""
    columns, rows = codes.shape
    if rows % block == 0 and isinstance(scales, Constant) and np.issubdtype(shift.dtype, np.integer):
        dtype = numpy_dtype("uint4") if codes.max(initial=0) < 16 and shift.max(initial=0) < 16 else np.dtype(np.uint8)
        parts = Dense(codes.astype(dtype)), scales, Dense(shift.astype(dtype))
        return call.standard("DequantizeLinear", *parts, axis=1, block_size=block)
    real = scales.type.dtype
    spread = np.repeat(shift.astype(np.float64), block, axis=1)[:, :rows]
    steps = call.emit.constant(codes - spread, real)
    wide = call.emit.spread(call.emit.expand(scales, -1), (columns, shift.shape[1], block))
    return call.emit.mul(steps, call.emit.part(call.emit.reshape(wide, (columns, shift.shape[1] * block)), 1, 0, rows))

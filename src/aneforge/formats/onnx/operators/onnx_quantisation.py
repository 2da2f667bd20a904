"""Numbers as multiples of a scale: quantised, and back; products and convolutions of them and of integers.

Where scale and zero point are constants of a form that the op table has, its own operations are used; weights stay in
their compressed encoding. Otherwise the same is done by arithmetic.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.operators.onnx_casting import LAYOUTS, keep_within, round_to
from aneforge.formats.onnx.operators.onnx_convolution import convolution
from aneforge.formats.onnx.registry import operator
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.types import is_float, is_integer, value_range

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Output

EIGHT_BITS = ("int8", "uint8")
FOUR_BITS = ("int4", "uint4")


@operator("QuantizeLinear")
def quantize(call: Call) -> Value:
    """Convert numbers made multiples of a scale."""
    x, scale, zero, emit = call.value(0), call.value(1), call.optional(2), call.emit
    dtype = quantised_type(call, zero)
    axis = quantised_axis(call, x, scale)
    simple = dtype in EIGHT_BITS and isinstance(scale, Constant) and (zero is None or isinstance(zero, Constant))
    if simple and axis_free(scale) and scale.type.dtype == x.type.dtype and not isinstance(x, Constant):
        operands = {"input": x, "scale": single(emit, scale), "zero_point": single(emit, zero)}
        return emit.apply("quantize", operands, output_dtype=dtype, axis=axis)
    saturates = "saturate" not in call.rules.attributes or call.flag("saturate")
    return quantise_tensor(
        emit,
        x,
        reshape_part(call, x, scale),
        None if zero is None else reshape_part(call, x, zero),
        dtype,
        saturates=saturates,
    )


def quantised_type(call: Call, zero: Value | None) -> str:
    """Return the element type of quantised numbers: that of the zero point, or of an attribute; uint8 by default."""
    if zero is not None:
        return zero.type.dtype
    if "output_dtype" in call.rules.attributes and call.integer("output_dtype"):
        return call.dtype("output_dtype")
    return "uint8"


def axis_free(scale: Value) -> bool:
    """Return whether a scale is one number or a list."""
    return scale.type.rank <= 1


def single(emit: Emitter, part: Value | None) -> Value | None:
    """Return a list of one number as that number."""
    return emit.reshape(part, ()) if part is not None and part.type.shape == (1,) else part


def quantised_axis(call: Call, x: Value, scale: Value) -> int | None:
    """Return the axis along which there are many scales; nothing where there is one."""
    if scale.type.size == 1:
        return None
    return normalise_axis(call.integer("axis") if "axis" in call.rules.attributes else 0, x.type.rank)


def reshape_part(call: Call, x: Value, part: Value) -> Value:
    """Return a scale or zero point in a shape that broadcasts to the tensor: one, one each channel, or one each block.

    Raises:
        GraphError: It fits none of the three.
    """
    emit = call.emit
    if part.type.size == 1:
        return emit.reshape(part, ())
    axis = normalise_axis(call.integer("axis"), x.type.rank)
    if part.type.rank == 1 and part.type.shape[0] == x.type.shape[axis]:
        return emit.reshape(part, [part.type.size if one == axis else 1 for one in range(x.type.rank)])
    block = call.integer("block_size") if "block_size" in call.rules.attributes else 0
    wanted = tuple(-(-extent // block) if one == axis and block else extent for one, extent in enumerate(x.type.shape))
    if block < 1 or part.type.shape != wanted:
        raise GraphError("the scale does not fit the tensor", seen=list(part.type.shape), limit=list(x.type.shape))
    blocks = emit.spread(emit.expand(part, axis + 1), (*wanted[: axis + 1], block, *wanted[axis + 1 :]))
    merged = emit.reshape(blocks, (*wanted[:axis], wanted[axis] * block, *wanted[axis + 1 :]))
    return emit.part(merged, axis, 0, x.type.shape[axis])


def quantise_tensor(
    emit: Emitter, x: Value, scale: Value, zero: Value | None, dtype: str, *, saturates: bool = True
) -> Value:
    """Return x / scale, rounded half to even, plus the zero point, within the type; floating types round themselves."""
    kind = scale.type.dtype if not is_float(x.type.dtype) else x.type.dtype
    steps = quotient(emit, emit.cast(x, kind), emit.cast(scale, kind))
    if is_integer(dtype):
        steps = emit.unary("round", steps)
    if zero is not None:
        steps = emit.add(steps, emit.cast(zero, kind))
    if is_integer(dtype):
        low, high = value_range(dtype)
        return emit.cast(emit.unary("clip", steps, alpha=float(low), beta=float(high)), dtype)
    return emit.cast(keep_within(emit, steps, dtype) if saturates else steps, dtype)


def quotient(emit: Emitter, x: Value, scale: Value) -> Value:
    """Return x / scale.

    Where the scale is computed, it and the quotient are rounded to their element type, which ONNX says the division is
    done in: a scale made of the data's own range puts elements just halfway between two steps.
    """
    given = isinstance(scale, Constant) or comes_in(scale)
    if given or scale.type.dtype not in LAYOUTS:
        return emit.div(x, scale)
    return round_to(emit, emit.div(x, round_to(emit, scale, scale.type.dtype)), scale.type.dtype)


def comes_in(value: Output) -> bool:
    """Return whether a value is an input of the model, in another shape at most: then it is rounded already."""
    node = value.node
    while node.op.name in ("reshape", "tile", "slice_by_size", "cast"):
        node = node.sources()[0].node
    return node.op.name == "input"


@operator("DequantizeLinear")
def dequantize(call: Call) -> Value:
    """Convert multiples of a scale made numbers."""
    x, scale, zero, emit = call.value(0), call.value(1), call.optional(2), call.emit
    out = scale.type.dtype
    if "output_dtype" in call.rules.attributes and call.integer("output_dtype"):
        out = call.dtype("output_dtype")
    if not is_float(scale.type.dtype):
        raise GraphError("the scale must hold floating-point numbers", seen=scale.type.dtype)
    weights = compressed(call, x, scale, zero) if out == scale.type.dtype else None
    if weights is not None:
        return weights
    known = isinstance(scale, Constant) and (zero is None or isinstance(zero, Constant))
    if x.type.dtype in EIGHT_BITS and known and axis_free(scale) and out == scale.type.dtype:
        operands = {"input": x, "scale": single(emit, scale), "zero_point": single(emit, zero)}
        return emit.apply("dequantize", operands, axis=quantised_axis(call, x, scale))
    return dequantise_tensor(
        emit, x, reshape_part(call, x, scale), None if zero is None else reshape_part(call, x, zero), out
    )


def dequantise_tensor(emit: Emitter, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """Return scale · (x − zero point)."""
    steps = emit.cast(x, dtype)
    if zero is not None:
        steps = emit.sub(steps, emit.cast(zero, dtype))
    return emit.mul(steps, emit.cast(scale, dtype))


def compressed(call: Call, x: Value, scale: Value, zero: Value | None) -> Constant | None:
    """Return weights that are all known in a compressed encoding, if there is one for them."""
    if not isinstance(x, Dense) or not isinstance(scale, Dense) or not (zero is None or isinstance(zero, Dense)):
        return None
    if x.type.dtype not in (*EIGHT_BITS, *FOUR_BITS) or not x.type.rank or not x.type.size:
        return None
    axis = quantised_axis(call, x, scale) or 0
    shift = None if zero is None or not zero.values.any() else zero.values
    if axis_free(scale):
        if scale.type.size not in (1, x.type.shape[axis]):
            raise GraphError("the scale does not fit the channels", seen=scale.type.size, limit=x.type.shape[axis])
        if x.type.dtype in EIGHT_BITS:
            flat = None if shift is None else shift.reshape(-1)
            return Int8Affine(x.values, scale.values.reshape(-1), flat, axis)
        shape = [scale.type.size if one == axis else 1 for one in range(x.type.rank)]
        return Blockwise(x.values, scale.values.reshape(shape), None if shift is None else shift.reshape(shape))
    whole = all(extent % max(count, 1) == 0 for extent, count in zip(x.type.shape, scale.type.shape, strict=False))
    laid_out = scale.type.rank == x.type.rank and math.prod(scale.type.shape) and whole
    blocks = laid_out and x.type.shape[axis] == scale.type.shape[axis] * call.integer("block_size")
    return Blockwise(x.values, scale.values, shift) if blocks else None


@operator("QLinearMatMul")
def quantised_matmul(call: Call) -> Value:
    """Convert a product of quantised matrices: both made numbers, multiplied, and quantised again."""
    emit = call.emit
    a, b = call.value(0), call.value(3)
    real = "fp32" if is_integer(call.value(1).type.dtype) else call.value(1).type.dtype
    left = dequantise_tensor(emit, a, by_row(emit, a, call.value(1)), by_row(emit, a, call.value(2)), real)
    right = dequantise_tensor(emit, b, call.value(4), call.value(5), real)
    product = emit.apply("matmul", {"x": left, "y": right})
    scale, zero = (emit.reshape(part, ()) if part.type.size == 1 else part for part in (call.value(6), call.value(7)))
    return quantise_tensor(emit, product, scale, zero, zero.type.dtype)


def by_row(emit: Emitter, x: Value, part: Value) -> Value:
    """Return a list of one number for each row of a matrix in a shape that broadcasts along rows."""
    if part.type.rank == 1 and part.type.size > 1 and part.type.size == x.type.shape[-2]:
        return emit.expand(part, -1)
    return emit.reshape(part, ()) if part.type.size == 1 else part


@operator("MatMulInteger")
def integer_matmul(call: Call) -> Value:
    """Convert a product of matrices of integers, in 32 bits."""
    emit = call.emit
    a, b = call.value(0), call.value(1)
    left, right = emit.cast(a, "int32"), emit.cast(b, "int32")
    zero_a, zero_b = call.optional(2), call.optional(3)
    if zero_a is not None:
        left = emit.sub(left, emit.cast(by_row(emit, a, zero_a), "int32"))
    if zero_b is not None:
        right = emit.sub(right, emit.cast(zero_b, "int32"))
    return emit.apply("matmul", {"x": left, "y": right})


@operator("ConvInteger")
def integer_conv(call: Call) -> Value:
    """Convert a convolution of integers, in 32 bits."""
    emit = call.emit
    x, weight = emit.cast(call.value(0), "int32"), emit.cast(call.value(1), "int32")
    x_zero, weight_zero = call.optional(2), call.optional(3)
    if x_zero is not None:
        x = emit.sub(x, emit.cast(emit.reshape(x_zero, ()), "int32"))
    if weight_zero is not None:
        weight = emit.sub(weight, emit.cast(by_channel(emit, weight_zero, weight), "int32"))
    return convolution(call, x, weight, None)


@operator("QLinearConv")
def quantised_conv(call: Call) -> Value:
    """Convert a convolution of quantised numbers."""
    return convolve_codes(call)


def convolve_codes(call: Call) -> Value:
    """Return a convolution of quantised numbers: made numbers, convolved, and quantised again."""
    emit = call.emit
    x = dequantise_tensor(emit, call.value(0), one(emit, call.value(1)), one(emit, call.value(2)), "fp32")
    scale = by_channel(emit, call.value(4), call.value(3))
    weight = dequantise_tensor(emit, call.value(3), scale, by_channel(emit, call.value(5), call.value(3)), "fp32")
    bias = call.optional(8)
    if bias is not None:
        step = emit.mul(one(emit, call.value(1)), emit.reshape(call.value(4), scale.type.shape[:1]))
        bias = emit.mul(emit.cast(bias, "fp32"), step)
    result = convolution(call, x, weight, bias)
    return quantise_tensor(emit, result, one(emit, call.value(6)), one(emit, call.value(7)), call.value(7).type.dtype)


def one(emit: Emitter, part: Value) -> Value:
    """Return a tensor of one number as that number."""
    return emit.reshape(part, ())


def by_channel(emit: Emitter, part: Value, weight: Value) -> Value:
    """Return one number, or one for each output channel, in a shape that broadcasts to weights."""
    return (
        one(emit, part) if part.type.size == 1 else emit.reshape(part, (part.type.size, *[1] * (weight.type.rank - 1)))
    )

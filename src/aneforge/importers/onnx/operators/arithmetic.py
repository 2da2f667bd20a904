"""Arithmetic and comparisons of pairs, and of several tensors."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.onnx.registry import operator
from aneforge.ops.shapes import normalised_axis
from aneforge.ops.types import bits, is_float

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.emitter import Emitter
    from aneforge.importers.onnx.values import Value

BINARY = {
    "Add": "add",
    "And": "logical_and",
    "Div": "real_div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "mul",
    "Or": "logical_or",
    "Sub": "sub",
    "Xor": "logical_xor",
}
CHAINED = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def operands(call: Call) -> tuple[Value, Value]:
    """Return the two operands; before version 7 the second is laid along an axis of the first by an attribute."""
    x, y = call.value(0), call.value(1)
    if call.rules.since >= 7 or "broadcast" not in call.rules.attributes or not call.flag("broadcast"):
        return x, y
    if not call.has("axis"):
        return x, y
    start = normalised_axis(call.integer("axis"), x.type.rank)
    behind = x.type.rank - start - y.type.rank
    if behind < 0:
        raise GraphError("the second operand has too many axes behind `axis`", seen=list(y.type.shape))
    return x, call.emit.reshape(y, (*y.type.shape, *[1] * behind))


@operator(*BINARY)
def binary(call: Call) -> Value:
    """Convert an operation on pairs of elements that the op table has."""
    x, y = operands(call)
    return call.emit.binary(BINARY[call.operator], x, y)


@operator(*CHAINED)
def chained(call: Call) -> Value:
    """Convert an operation on several tensors."""
    op = CHAINED[call.operator]
    return reduce(lambda x, y: call.emit.binary(op, x, y), call.values())


@operator("Mean")
def mean(call: Call) -> Value:
    """Convert the mean of several tensors."""
    values = call.values()
    total = reduce(call.emit.add, values)
    return call.emit.mul(total, 1 / len(values))


@operator("Pow")
def power(call: Call) -> Value:
    """Convert x to the power y, in the type of x; a fractional power of whole numbers goes through real ones."""
    (x, y), emit = operands(call), call.emit
    if x.type.dtype == y.type.dtype:
        return emit.binary("pow", x, y)
    if is_float(x.type.dtype) or not is_float(y.type.dtype):
        return emit.binary("pow", x, emit.cast(y, x.type.dtype))
    return emit.cast(emit.binary("pow", emit.cast(x, y.type.dtype), y), x.type.dtype)


@operator("Mod")
def modulo(call: Call) -> Value:
    """Convert the remainder: of the divisor's sign, or with `fmod` of the dividend's."""
    x, y, emit = call.value(0), call.value(1), call.emit
    if not call.flag("fmod"):
        return emit.binary("mod", x, y)
    if is_float(x.type.dtype):  # of magnitudes the two remainders are one, and exact
        magnitude = emit.binary("mod", emit.unary("abs", x), emit.unary("abs", y))
        return emit.mul(magnitude, emit.unary("sign", x))
    return emit.sub(x, emit.mul(emit.div(x, y), y))


@operator("BitShift")
def shift(call: Call) -> Value:
    """Convert a shift of bits: a product with, or a quotient by, a power of two.

    What is shifted out of all bits, or by a negative number, leaves copies of the sign to the right and 0 to the left.
    """
    x, y, emit = call.value(0), call.value(1), call.emit
    dtype = x.type.dtype
    left = call.choice("direction", "LEFT", "RIGHT") == "LEFT"
    signed = dtype.startswith("int")
    powers = emit.binary("pow", emit.constant(2, dtype), y)
    shifted = emit.mul(x, powers) if left else emit.binary("floor_div", x, powers)
    # The highest power of a signed type is negative; a shift to the right by it leaves the sign alone.
    inside = emit.binary("less", y, bits(dtype) - (1 if signed and not left else 0))
    if not signed:
        return emit.select(inside, shifted, 0)
    inside = emit.binary("logical_and", inside, emit.binary("greater_equal", y, 0))
    fill = emit.number(0, x) if left else emit.select(emit.binary("less", x, 0), emit.number(-1, x), 0)
    return emit.select(inside, shifted, fill)


def separate_bits(emit: Emitter, x: Value) -> tuple[Value, Value]:
    """Return the bits of unsigned whole numbers along a further last axis, and what each counts."""
    weights = emit.constant(1 << np.arange(bits(x.type.dtype), dtype=np.uint64), x.type.dtype)
    return emit.binary("mod", emit.binary("floor_div", emit.expand(x, -1), weights), 2), weights


@operator("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(call: Call) -> Value:
    """Convert logic on bits: x and y share the bits whose product is 1; `or` and `xor` follow from that and the sum."""
    x, y, emit = call.value(0), call.value(1), call.emit
    dtype = x.type.dtype
    unsigned = dtype if dtype.startswith("u") else f"u{dtype}"
    x, y = emit.cast(x, unsigned), emit.cast(y, unsigned)
    (x_bits, weights), (y_bits, _) = separate_bits(emit, x), separate_bits(emit, y)
    both = emit.reduce("reduce_sum", emit.mul(emit.mul(x_bits, y_bits), weights), (-1,), keep=False)
    match call.operator:
        case "BitwiseAnd":
            result = both
        case "BitwiseOr":
            result = emit.sub(emit.add(x, y), both)
        case _:
            result = emit.sub(emit.sub(emit.add(x, y), both), both)
    return emit.cast(result, dtype)


@operator("Where")
def where(call: Call) -> Value:
    """Convert a choice between two tensors."""
    return call.emit.select(call.value(0), call.value(1), call.value(2))

"""Arithmetic and comparisons of pairs, and of several tensors."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.bits import combine_bits, shift_bits
from aneforge.formats.shared.elementary import compute_signed_remainder
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value

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
    """Return the two operands; before version 7 the second is placed along an axis of the first by an attribute."""
    x, y = call.value(0), call.value(1)
    if call.rules.since >= 7 or "broadcast" not in call.rules.attributes or not call.flag("broadcast"):
        return x, y
    if not call.has("axis"):
        return x, y
    start = normalise_axis(call.integer("axis"), x.type.rank)
    added = x.type.rank - start - y.type.rank
    if added < 0:
        raise GraphError("the second operand has too many axes after `axis`", seen=list(y.type.shape))
    return x, call.emit.reshape(y, (*y.type.shape, *[1] * added))


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
    """Convert x to the power y, in the type of x; a fractional power of integers goes through real ones.

    Two is what a model of PyTorch has as its square, whose result is exact where that of a power is not.
    """
    (x, y), emit = operands(call), call.emit
    if is_float(x.type.dtype) and is_two(y) and y.type.rank <= x.type.rank:
        return emit.unary("square", x)
    if x.type.dtype == y.type.dtype:
        return emit.binary("pow", x, y)
    if is_float(x.type.dtype) or not is_float(y.type.dtype):
        return emit.binary("pow", x, emit.cast(y, x.type.dtype))
    return emit.cast(emit.binary("pow", emit.cast(x, y.type.dtype), y), x.type.dtype)


def is_two(value: Value) -> bool:
    """Return whether a value is the constant 2, as one number."""
    return isinstance(value, Constant) and value.type.size == 1 and value.dense().item() == 2


@operator("Mod")
def modulo(call: Call) -> Value:
    """Convert the remainder: of the divisor's sign, or with `fmod` of the dividend's."""
    x, y, emit = call.value(0), call.value(1), call.emit
    return compute_signed_remainder(emit, x, y) if call.flag("fmod") else emit.binary("mod", x, y)


@operator("BitShift")
def shift(call: Call) -> Value:
    """Convert a shift of bits."""
    left = call.choice("direction", "LEFT", "RIGHT") == "LEFT"
    return shift_bits(call.emit, call.value(0), call.value(1), left=left)


@operator("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(call: Call) -> Value:
    """Convert logic on bits."""
    kind = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}[call.operator]
    return combine_bits(call.emit, kind, call.value(0), call.value(1))


@operator("Where")
def where(call: Call) -> Value:
    """Convert a choice between two tensors."""
    return call.emit.select(call.value(0), call.value(1), call.value(2))

"""Arithmetic, comparisons and choices of pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.shared import elementary
from aneforge.formats.shared.bits import combine_bits, shift_bits
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

COMPARISONS = {
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "ne": "not_equal",
}
LOGIC = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
SHIFTS = {"bitwise_left_shift": True, "__lshift__": True, "bitwise_right_shift": False, "__rshift__": False}


def pair(call: Call, dtype: str) -> tuple[Value, Value]:
    """Return both operands in one element type."""
    return call.operand("self", dtype), call.operand("other", dtype)


def as_numbers(dtype: str) -> str:
    """Return the element type in which bool is computed with."""
    return "uint8" if dtype == "bool" else dtype


@operator("add", "sub", "rsub")
def sum_or_difference(call: Call) -> Value:
    """Convert x ± alpha · y."""
    emit, dtype = call.emit, call.dtype()
    if dtype == "bool":
        x, y = pair(call, "uint8")
        return emit.cast(emit.binary("add", x, y), "bool")
    x, y = pair(call, dtype)
    if call.operator == "rsub":
        x, y = y, x
    alpha = call.number("alpha") if call.has("alpha") else 1
    if alpha != 1:
        y = scale(emit, y, alpha)
        if call.operator == "rsub":
            x, y = scale(emit, call.operand("other", dtype), 1), scale(emit, call.operand("self", dtype), alpha)
    return emit.binary("add" if call.operator == "add" else "sub", x, y)


def scale(emit: Emitter, x: Value, factor: float) -> Value:
    """Return x times a number."""
    if factor == 1:
        return x
    return emit.mul(x, float(factor)) if is_float(x.type.dtype) else emit.binary("mul", x, int(factor))


@operator("mul")
def product(call: Call) -> Value:
    """Convert x · y; of booleans it is whether both hold."""
    dtype = call.dtype()
    x, y = pair(call, dtype)
    return call.emit.binary("logical_and" if dtype == "bool" else "mul", x, y)


@operator("addcmul", "addcdiv")
def added_pair(call: Call) -> Value:
    """Convert x + value · (y · z), or x + value · (y / z)."""
    emit, dtype = call.emit, call.dtype()
    x, y, z = (call.operand(name, dtype) for name in ("self", "tensor1", "tensor2"))
    both = emit.binary("mul", y, z) if call.operator == "addcmul" else emit.div(y, z)
    return emit.binary("add", x, scale(emit, both, call.number("value")))


@operator("lerp")
def between(call: Call) -> Value:
    """Convert x + weight · (end − x), which PyTorch computes from the end for weights from ½ on."""
    emit, dtype = call.emit, call.dtype()
    x, end = call.operand("self", dtype), call.operand("end", dtype)
    step = emit.binary("sub", end, x)
    weight = call.arguments.get("weight")
    if not isinstance(weight, int | float):
        return emit.binary("add", x, emit.binary("mul", call.operand("weight", dtype), step))
    if abs(weight) < 0.5:
        return emit.binary("add", x, emit.mul(step, float(weight)))
    return emit.binary("sub", end, emit.mul(step, 1.0 - weight))


@operator("div", "true_divide")
def quotient(call: Call) -> Value:
    """Convert x / y, or that cut towards 0 or rounded down."""
    emit, dtype = call.emit, call.dtype()
    x, y = pair(call, dtype)
    mode = call.text("rounding_mode")
    if not mode:
        return emit.div(x, y)
    if mode == "trunc":
        return elementary.truncate(emit, emit.div(x, y)) if is_float(dtype) else emit.div(x, y)
    return floor_quotient(emit, x, y)


def floor_quotient(emit: Emitter, x: Value, y: Value) -> Value:
    """Return x / y rounded down; of real numbers by the remainder, as PyTorch does it, and x / y where y is 0."""
    if not is_float(x.type.dtype):
        return emit.binary("floor_div", x, y)
    rest = elementary.float_remainder(emit, x, y)
    ratio = emit.unary("round", emit.div(emit.binary("sub", x, rest), y))
    return emit.select(emit.binary("equal", y, 0.0), emit.div(x, y), ratio)


@operator("floor_divide")
def floor_division(call: Call) -> Value:
    """Convert x / y rounded down."""
    x, y = pair(call, call.dtype())
    return floor_quotient(call.emit, x, y)


@operator("remainder")
def remainder(call: Call) -> Value:
    """Convert the remainder that has the sign of the divisor."""
    dtype = call.dtype()
    x, y = pair(call, dtype)
    return elementary.float_remainder(call.emit, x, y) if is_float(dtype) else call.emit.binary("mod", x, y)


@operator("fmod")
def signed_remainder(call: Call) -> Value:
    """Convert the remainder that has the sign of the dividend."""
    x, y = pair(call, call.dtype())
    return elementary.compute_signed_remainder(call.emit, x, y)


@operator("pow")
def power(call: Call) -> Value:
    """Convert x to the power y; small whole powers of numbers are products."""
    emit, dtype = call.emit, call.dtype()
    x, y = call.operand("self", dtype), call.arguments.get("exponent")
    if isinstance(y, int | float) and y == 2:
        return emit.unary("square", x) if is_float(dtype) else emit.binary("mul", x, x)
    if isinstance(y, int | float) and y == 0.5 and is_float(dtype):
        return emit.unary("sqrt", x)
    if dtype == "bool":
        x, z = call.operand("self", "uint8"), call.operand("exponent", "uint8")
        return emit.cast(emit.binary("pow", x, z), "bool")
    exponent = call.operand("exponent", dtype)
    result = emit.binary("pow", x, exponent)
    if is_float(dtype):
        return result
    return whole_power(emit, x, exponent, result)


def whole_power(emit: Emitter, x: Value, y: Value, result: Value) -> Value:
    """Return a power of integers; a negative one is 0, but of 1 and −1, as PyTorch has it."""
    odd = emit.binary("equal", emit.binary("mod", y, 2), 1)
    of_minus_one = emit.select(odd, emit.number(-1, x) if not x.type.dtype.startswith("u") else emit.number(1, x), 1)
    other = emit.select(
        emit.binary("equal", x, 1),
        emit.number(1, x),
        emit.select(emit.binary("equal", x, -1), of_minus_one, 0) if not x.type.dtype.startswith("u") else 0,
    )
    return emit.select(emit.binary("less", y, 0), other, result)


@operator("atan2")
def angle(call: Call) -> Value:
    """Convert the angle of the point (other, self), in its quadrant; zeros count with their signs."""
    emit, dtype = call.emit, call.dtype()
    y, x = pair(call, dtype)
    both = emit.binary(
        "logical_and",
        emit.binary("equal", emit.unary("abs", y), math.inf),
        emit.binary("equal", emit.unary("abs", x), math.inf),
    )
    y, x = (emit.select(both, emit.unary("sign", one), one) for one in (y, x))
    zero = emit.binary("equal", x, 0.0)
    plain = emit.unary("atan", emit.div(y, emit.select(zero, 1.0, x)))
    x_negative, y_negative = elementary.has_sign(emit, x), elementary.has_sign(emit, y)
    turn = emit.select(y_negative, emit.constant(-math.pi, dtype), math.pi)
    upright = emit.mul(emit.unary("sign", y), math.pi / 2)
    flat = emit.select(x_negative, turn, emit.mul(y, 0.0))
    on_axis = emit.select(emit.binary("equal", y, 0.0), flat, upright)
    slanted = emit.add(plain, emit.select(x_negative, turn, 0.0))
    result = emit.select(zero, on_axis, slanted)
    nothing = emit.binary("logical_or", emit.binary("not_equal", x, x), emit.binary("not_equal", y, y))
    return emit.select(nothing, math.nan, result)


@operator("hypot")
def hypotenuse(call: Call) -> Value:
    """Convert √(x² + y²): the larger times √(1 + (smaller / larger)²), so that no square leaves the range."""
    emit = call.emit
    x, y = (emit.unary("abs", one) for one in pair(call, call.dtype()))
    larger, smaller = emit.binary("maximum", x, y), emit.binary("minimum", x, y)
    ratio = emit.div(smaller, emit.select(emit.binary("greater", larger, 0.0), larger, 1.0))
    length = emit.mul(larger, emit.unary("sqrt", emit.add(emit.unary("square", ratio), 1.0)))
    infinite = emit.binary("logical_or", *(emit.binary("equal", one, math.inf) for one in (x, y)))
    return emit.select(infinite, math.inf, length)


@operator("ldexp")
def scaled_by_power(call: Call) -> Value:
    """Convert x · 2ʸ."""
    x, y = pair(call, call.dtype())
    return call.emit.mul(x, call.emit.unary("exp2", y))


@operator("maximum", "minimum", "max.other", "min.other")
def extreme(call: Call) -> Value:
    """Convert the larger or smaller of both."""
    convert = elementary.larger if call.operator.startswith("max") else elementary.smaller
    return convert(call.emit, *pair(call, call.dtype()))


@operator("fmax", "fmin")
def extreme_number(call: Call) -> Value:
    """Convert the larger or smaller of both; what is not a number does not count."""
    emit, dtype = call.emit, call.dtype()
    x, y = pair(call, dtype)
    convert = elementary.larger if call.operator == "fmax" else elementary.smaller
    if not is_float(dtype):
        return convert(emit, x, y)
    x_counts = emit.select(emit.binary("equal", x, x), x, y)
    y_counts = emit.select(emit.binary("equal", y, y), y, x)
    return convert(emit, x_counts, y_counts)


@operator("clamp", "clamp_min", "clamp_max", "clip")
def clamp(call: Call) -> Value:
    """Convert x moved between two bounds, either of which may be left out; where they cross, the upper one counts."""
    dtype = call.dtype()
    least, most = (call.operand(name, dtype) if call.has(name) else None for name in ("min", "max"))
    return elementary.clamp(call.emit, call.operand("self", dtype), least, most)


@operator(*COMPARISONS)
def comparison(call: Call) -> Value:
    """Convert a comparison, in the element type that both have in common."""
    dtype = as_numbers(call.promoted("self", "other"))
    x, y = pair(call, dtype)
    return call.emit.binary(COMPARISONS[call.operator], x, y)


@operator(*LOGIC)
def logic(call: Call) -> Value:
    """Convert logic on whether numbers are not 0."""
    x, y = pair(call, "bool")
    return call.emit.binary(LOGIC[call.operator], x, y)


@operator(*BITS)
def bitwise(call: Call) -> Value:
    """Convert logic on bits."""
    dtype, kind = call.dtype(), BITS[call.operator]
    x, y = pair(call, dtype)
    return call.emit.binary(f"logical_{kind}", x, y) if dtype == "bool" else combine_bits(call.emit, kind, x, y)


@operator(*SHIFTS)
def shift(call: Call) -> Value:
    """Convert a shift of bits."""
    x, y = pair(call, call.dtype())
    return shift_bits(call.emit, x, y, left=SHIFTS[call.operator])


@operator("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call) -> Value:
    """Convert a choice between two tensors."""
    dtype = call.dtype()
    x, y = pair(call, dtype)
    return call.emit.select(call.operand("condition", "bool"), x, y)


@operator("copysign")
def copy_sign(call: Call) -> Value:
    """Convert the magnitude of x with the sign of y."""
    emit = call.emit
    x, y = pair(call, call.dtype())
    size = emit.unary("abs", x)
    return emit.select(elementary.has_sign(emit, y), emit.negative(size), size)

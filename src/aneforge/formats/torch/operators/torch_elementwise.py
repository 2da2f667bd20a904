"""Functions of one element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.shared import elementary
from aneforge.formats.shared.bits import invert_bits
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

REAL = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exp",
    "exp2": "exp2",
    "log2": "log2",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "sin": "sin",
    "sinh": "sinh",
    "softsign": "softsign",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
"""Functions that the op table has, of real numbers; integers become real first."""
WHOLE = {"abs": "abs", "ceil": "ceil", "floor": "floor", "sign": "sign", "sgn": "sign"}
"""Functions that the op table has, in the element type of the operand."""
ROUNDING = ("ceil", "floor")


@operator(*REAL)
def real_function(call: Call) -> Value:
    """Convert a function of real numbers."""
    return call.emit.unary(REAL[call.operator], call.operand("self", call.dtype()))


@operator(*WHOLE)
def any_function(call: Call) -> Value:
    """Convert a function of any numbers; integers are rounded already, and bool has no sign."""
    x, dtype = call.value("self"), call.dtype()
    if not is_float(dtype) and (call.operator in ROUNDING or dtype == "bool"):
        return x
    if dtype.startswith("uint"):
        return x if call.operator == "abs" else call.emit.cast(call.emit.binary("greater", x, 0), dtype)
    return call.emit.unary(WHOLE[call.operator], x)


@operator("trunc", "fix")
def cut(call: Call) -> Value:
    """Convert the whole part: towards 0."""
    x, emit = call.value("self"), call.emit
    return elementary.truncate(emit, x) if is_float(x.type.dtype) else x


@operator("round")
def rounded(call: Call) -> Value:
    """Convert the nearest integer, the even one of two, or one of a number of decimals."""
    x, emit = call.value("self"), call.emit
    if not is_float(x.type.dtype):
        return x
    decimals = call.integer("decimals") if call.has("decimals") else 0
    if not decimals:
        return emit.unary("round", x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return emit.div(emit.unary("round", emit.mul(x, scale)), scale)
    return emit.mul(emit.unary("round", emit.div(x, scale)), scale)


@operator("log")
def log(call: Call) -> Value:
    """Convert the natural logarithm."""
    return call.emit.unary("log", call.operand("self", call.dtype()), epsilon=0.0)


@operator("log10")
def log10(call: Call) -> Value:
    """Convert the logarithm to base 10."""
    x = call.operand("self", call.dtype())
    return call.emit.mul(call.emit.unary("log", x, epsilon=0.0), 1 / math.log(10))


@operator("log1p")
def log1p(call: Call) -> Value:
    """Convert log(1 + x); near 0 it is x · log(u) / (u − 1) with u = 1 + x, whose rounding is that of x's own."""
    x, emit = call.operand("self", call.dtype()), call.emit
    moved = emit.add(x, 1.0)
    rest = emit.sub(moved, 1.0)
    small = emit.binary("equal", rest, 0.0)
    scaled = emit.mul(emit.unary("log", moved, epsilon=0.0), emit.div(x, emit.select(small, 1.0, rest)))
    endless = emit.binary("equal", emit.unary("abs", x), math.inf)
    return emit.select(small, x, emit.select(endless, emit.unary("log", moved, epsilon=0.0), scaled))


@operator("expm1")
def expm1(call: Call) -> Value:
    """Convert eˣ − 1: near 0 as 2 · sinh(x / 2) · e^(x / 2), which loses nothing there."""
    x, emit = call.operand("self", call.dtype()), call.emit
    half = emit.mul(x, 0.5)
    near = emit.mul(emit.mul(emit.unary("sinh", half), emit.unary("exp", half)), 2.0)
    small = emit.binary("less", emit.unary("abs", x), 1.0)
    return emit.select(small, near, emit.sub(emit.unary("exp", x), 1.0))


@operator("reciprocal")
def reciprocal(call: Call) -> Value:
    """Convert 1 / x."""
    return call.emit.unary("inverse", call.operand("self", call.dtype()), epsilon=0.0)


@operator("rsqrt")
def reciprocal_root(call: Call) -> Value:
    """Convert 1 / √x."""
    return call.emit.unary("rsqrt", call.operand("self", call.dtype()), epsilon=0.0)


@operator("erfc")
def complementary_error(call: Call) -> Value:
    """Convert 1 − erf(x)."""
    x, emit = call.operand("self", call.dtype()), call.emit
    return emit.add(emit.negative(emit.unary("erf", x)), 1.0)


@operator("neg", "_neg_view")
def negative(call: Call) -> Value:
    """Convert −x."""
    return call.emit.negative(call.value("self"))


@operator("logical_not")
def logical_not(call: Call) -> Value:
    """Convert whether x is 0."""
    return call.emit.unary("logical_not", call.operand("self", "bool"))


@operator("bitwise_not")
def bitwise_not(call: Call) -> Value:
    """Convert all bits turned round."""
    return invert_bits(call.emit, call.value("self"))


@operator("isnan")
def is_nan(call: Call) -> Value:
    """Convert whether x is not a number: nothing else differs from itself."""
    x = call.value("self")
    return call.emit.binary("not_equal", x, x)


@operator("isinf")
def is_infinite(call: Call) -> Value:
    """Convert whether x is infinite; integers never are."""
    return elementary.is_infinite(call.emit, call.value("self"))


@operator("signbit")
def sign_bit(call: Call) -> Value:
    """Convert whether x has a sign, which −0 has too."""
    x, emit = call.value("self"), call.emit
    if not is_float(x.type.dtype):
        return emit.binary("less", x, 0) if x.type.dtype != "bool" else emit.filled(x.type.shape, 0, "bool")
    return elementary.has_sign(emit, x)


@operator("_to_copy", "to", "convert_element_type")
def cast(call: Call) -> Value:
    """Convert a change of element type, device or layout; only the element type means something here."""
    x = call.value("self") if call.has("self") else call.value("a")
    return call.emit.cast(x, call.dtype())


@operator(
    "clone", "alias", "detach", "detach_", "lift_fresh_copy", "lift_fresh", "contiguous", "view_of", "positive", "conj",
    "_conj", "resolve_conj", "resolve_neg", "real", "_to_dense", "to_dense",
)  # fmt: skip
def same(call: Call) -> Value:
    """Convert nothing: the result is the operand."""
    return call.value("self") if call.has("self") else call.value("a")

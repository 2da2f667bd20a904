"""Functions of one element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.onnx.call import single_number
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared import elementary
from aneforge.formats.shared.bits import invert_bits
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value

SAME = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "Not": "logical_not",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
"""Operators that the op table has under another name, with one input and no attributes."""


@operator(*SAME)
def same(call: Call) -> Value:
    """Convert an operator that the op table has."""
    return call.emit.unary(SAME[call.operator], call.value(0))


@operator("Erf")
def erf(call: Call) -> Value:
    """Convert the error function; of integers it is cut to integers."""
    x = call.value(0)
    if is_float(x.type.dtype):
        return call.emit.unary("erf", x)
    return call.emit.cast(call.emit.unary("erf", call.emit.cast(x, "fp64")), x.type.dtype)


@operator("Log")
def log(call: Call) -> Value:
    """Convert the natural logarithm."""
    return call.emit.unary("log", call.value(0), epsilon=0.0)


@operator("Reciprocal")
def reciprocal(call: Call) -> Value:
    """Convert 1 / x."""
    return call.emit.unary("inverse", call.value(0), epsilon=0.0)


@operator("Neg")
def negative(call: Call) -> Value:
    """Convert −x."""
    return call.emit.negative(call.value(0))


@operator("Relu")
def relu(call: Call) -> Value:
    """Convert max(x, 0)."""
    return elementary.relu(call.emit, call.value(0))


@operator("LeakyRelu")
def leaky_relu(call: Call) -> Value:
    """Convert x, scaled below 0."""
    return call.emit.unary("leaky_relu", call.value(0), alpha=call.number("alpha"))


@operator("Elu")
def elu(call: Call) -> Value:
    """Convert x, and alpha · (eˣ − 1) below 0."""
    return call.emit.unary("elu", call.value(0), alpha=call.number("alpha"))


@operator("Selu")
def selu(call: Call) -> Value:
    """Convert gamma · (x, and alpha · (eˣ − 1) below 0)."""
    return call.emit.mul(call.emit.unary("elu", call.value(0), alpha=call.number("alpha")), call.number("gamma"))


@operator("Celu")
def celu(call: Call) -> Value:
    """Convert x, and alpha · (e^(x / alpha) − 1) below 0."""
    return elementary.celu(call.emit, call.value(0), call.number("alpha"))


@operator("ThresholdedRelu")
def thresholded_relu(call: Call) -> Value:
    """Convert x where it is above alpha, which itself does not count, and 0 elsewhere."""
    x = call.value(0)
    above = call.emit.binary("greater", x, call.number("alpha"))
    return call.emit.select(above, x, 0.0)


@operator("HardSigmoid")
def hard_sigmoid(call: Call) -> Value:
    """Convert alpha · x + beta, kept within 0 and 1."""
    return call.emit.unary("sigmoid_hard", call.value(0), alpha=call.number("alpha"), beta=call.number("beta"))


@operator("HardSwish")
def hard_swish(call: Call) -> Value:
    """Convert x · (x / 6 + ½, kept within 0 and 1)."""
    return elementary.hard_swish(call.emit, call.value(0))


@operator("Swish")
def swish(call: Call) -> Value:
    """Convert x · sigmoid(alpha · x)."""
    x, alpha = call.value(0), call.number("alpha")
    if alpha == 1:
        return call.emit.unary("silu", x)
    return call.emit.mul(x, call.emit.unary("sigmoid", call.emit.mul(x, alpha)))


@operator("Mish")
def mish(call: Call) -> Value:
    """Convert x · tanh(log(1 + eˣ))."""
    return elementary.mish(call.emit, call.value(0))


@operator("Gelu")
def gelu(call: Call) -> Value:
    """Convert x times the normal distribution, exact or in the tanh form."""
    return elementary.gelu(call.emit, call.value(0), call.choice("approximate", "none", "tanh"))


@operator("Shrink")
def shrink(call: Call) -> Value:
    """Convert x + bias below −lambd, x − bias above lambd, and 0 between."""
    x, emit = call.value(0), call.emit
    bias, edge = call.number("bias"), call.number("lambd")
    dtype = x.type.dtype
    wide = x if is_float(dtype) else emit.cast(x, "fp64")
    above = emit.select(emit.binary("greater", wide, edge), emit.sub(wide, bias), 0.0)
    return emit.cast(emit.select(emit.binary("less", wide, -edge), emit.add(wide, bias), above), dtype)


@operator("PRelu")
def parametric_relu(call: Call) -> Value:
    """Convert x, scaled below 0 by a slope that broadcasts."""
    x, slope, emit = call.value(0), call.value(1), call.emit
    if call.rules.since < 7 and slope.type.rank == 1 and slope.type.size > 1:  # then it was one slope a channel
        slope = emit.reshape(slope, (slope.type.size, *[1] * (x.type.rank - 2)))
    return elementary.prelu(emit, x, slope)


@operator("IsNaN")
def is_nan(call: Call) -> Value:
    """Convert whether x is not a number: nothing else differs from itself."""
    x = call.value(0)
    return call.emit.binary("not_equal", x, x)


@operator("IsInf")
def is_infinite(call: Call) -> Value:
    """Convert whether x is infinite, on one side or both."""
    x, emit = call.value(0), call.emit
    both = call.flag("detect_positive"), call.flag("detect_negative")
    match both:
        case (True, True):
            return elementary.is_infinite(emit, x)
        case (True, False):
            return emit.binary("equal", x, math.inf)
        case (False, True):
            return emit.binary("equal", x, -math.inf)
        case _:
            return emit.filled(x.type.shape, 0, "bool")


@operator("Clip", until=10)
def clip_by_attributes(call: Call) -> Value:
    """Convert x moved between two numbers."""
    return elementary.clamp(call.emit, call.value(0), call.number("min"), call.number("max"))


@operator("Clip", since=11)
def clip(call: Call) -> Value:
    """Convert x moved between two tensors of one number, either of which may be left out."""
    return elementary.clamp(call.emit, call.value(0), bound(call, 1), bound(call, 2))


def bound(call: Call, place: int) -> Value | float | None:
    """Return a bound: a number where it is known, else a tensor of one."""
    found = call.optional(place)
    if isinstance(found, Constant):
        return single_number(found.dense(), "a bound")
    return None if found is None else call.emit.reshape(found, ())


@operator("BitwiseNot")
def bitwise_not(call: Call) -> Value:
    """Convert all bits turned round."""
    return invert_bits(call.emit, call.value(0))

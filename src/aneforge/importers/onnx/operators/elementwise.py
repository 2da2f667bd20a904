"""Functions of one element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.importers.onnx.call import single_number
from aneforge.importers.onnx.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value

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
    """Convert the error function; of whole numbers it is cut to whole numbers."""
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
    x = call.value(0)
    return call.emit.unary("relu", x) if is_float(x.type.dtype) else call.emit.binary("maximum", x, 0)


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
    x, alpha = call.value(0), call.number("alpha")
    scaled = call.emit.div(x, alpha)
    return call.emit.mul(call.emit.unary("elu", scaled, alpha=1.0), alpha)


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
    x = call.value(0)
    return call.emit.mul(x, call.emit.unary("sigmoid_hard", x, alpha=1 / 6, beta=0.5))


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
    x = call.value(0)
    return call.emit.mul(x, call.emit.unary("tanh", call.emit.unary("softplus", x)))


@operator("Gelu")
def gelu(call: Call) -> Value:
    """Convert x times the normal distribution, exact or in the tanh form."""
    exact = call.choice("approximate", "none", "tanh") == "none"
    return call.emit.unary("gelu", call.value(0), mode="EXACT" if exact else "TANH_APPROXIMATION")


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
    """Convert x, scaled below 0 by a slope that broadcasts; one slope a channel is an operation of its own."""
    x, slope, emit = call.value(0), call.value(1), call.emit
    if call.rules.since < 7 and slope.type.rank == 1 and slope.type.size > 1:  # then it was one slope a channel
        slope = emit.reshape(slope, (slope.type.size, *[1] * (x.type.rank - 2)))
    zero = emit.number(0, x)
    below = emit.mul(emit.binary("minimum", x, zero), slope)
    return emit.add(emit.binary("maximum", x, zero), below)


@operator("IsNaN")
def is_nan(call: Call) -> Value:
    """Convert whether x is no number: nothing else differs from itself."""
    x = call.value(0)
    return call.emit.binary("not_equal", x, x)


@operator("IsInf")
def is_infinite(call: Call) -> Value:
    """Convert whether x is infinite, on one side or both."""
    x, emit = call.value(0), call.emit
    both = call.flag("detect_positive"), call.flag("detect_negative")
    match both:
        case (True, True):
            return emit.binary("equal", emit.unary("abs", x), math.inf)
        case (True, False):
            return emit.binary("equal", x, math.inf)
        case (False, True):
            return emit.binary("equal", x, -math.inf)
        case _:
            return emit.filled(x.type.shape, 0, "bool")


@operator("Clip", until=10)
def clip_by_attributes(call: Call) -> Value:
    """Convert x moved between two numbers."""
    return clipped(call, call.value(0), call.number("min"), call.number("max"))


@operator("Clip", since=11)
def clip(call: Call) -> Value:
    """Convert x moved between two tensors of one number, either of which may be left out."""
    return clipped(call, call.value(0), call.optional(1), call.optional(2))


def clipped(call: Call, x: Value, least: Value | float | None, most: Value | float | None) -> Value:
    """Return x moved between two bounds; where they cross, the upper one counts, as ONNX says."""
    emit = call.emit
    numbers = [bound_number(bound, otherwise) for bound, otherwise in ((least, -math.inf), (most, math.inf))]
    low, high = numbers
    if is_float(x.type.dtype) and low is not None and high is not None and low <= high:
        return emit.unary("clip", x, alpha=low, beta=high)
    result = x if least is None else emit.binary("maximum", x, single(call, least))
    return result if most is None else emit.binary("minimum", result, single(call, most))


def single(call: Call, bound: Value | float) -> Value | float:
    """Return a bound that broadcasts."""
    return bound if isinstance(bound, int | float) else call.emit.reshape(bound, ())


def bound_number(bound: Value | float | None, otherwise: float) -> float | None:
    """Return a bound as a number, if it is known."""
    if bound is None:
        return otherwise
    if isinstance(bound, int | float):
        return bound
    return float(single_number(bound.dense(), "a bound")) if isinstance(bound, Constant) else None


@operator("BitwiseNot")
def bitwise_not(call: Call) -> Value:
    """Convert all bits turned round: −1 − x, or the greatest value − x where there is no sign."""
    x = call.value(0)
    low, high = value_range(x.type.dtype)
    return call.emit.binary("sub", call.emit.constant(high if low == 0 else -1, x.type.dtype), x)

"""Gradients of functions of single elements.

Where a function has a kink, the derivative there is that of the documented system: 0 for relu and at the lower edge of
a clip, g at its upper edge, −g for |x|; where it documents nothing, torch's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.decompositions.norms import along
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import keep_where, level, unspread
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite, Passed

CUBIC_FACTOR = 0.044715
SIGMOID_FACTOR = 1.702
"""MIL's constants of the two approximations of gelu."""


def above(to: GradientSite, x: Term, number: float) -> Term:
    """Return where x is larger than a number."""
    return x.greater(level(to, number, x))


def keep_between(to: GradientSite, x: Term, g: Term, low: float, high: float) -> Term:
    """Return g where low < x ≤ high, and 0 elsewhere; a bound that is infinite bounds nothing."""
    kept = g if high == math.inf else keep_where(to, x.less_equal(level(to, high, x)), g)
    return kept if low == -math.inf else keep_where(to, above(to, x, low), kept)


def one_minus(x: Term) -> Term:
    """Return 1 − x."""
    return x * -1.0 + 1.0


def zero(*_: object, **__: object) -> Passed:
    """Return nothing: the gradient is 0."""
    return None


def nothing(_: GradientSite, __: Term, *operands: object, **___: object) -> Sequence[Passed]:
    """Return nothing for every operand."""
    return [None for _ in operands]


def unchanged(_: GradientSite, g: Term, *__: object, **___: object) -> Term:
    """Return what comes back."""
    return g


def absolute(to: GradientSite, g: Term, x: Term) -> Term:
    """Return g or −g."""
    return above(to, x, 0.0).select(g, -g)


def rectifier(to: GradientSite, g: Term, x: Term) -> Term:
    """Return g where x is positive."""
    return keep_where(to, above(to, x, 0.0), g)


def rectifier_to_six(to: GradientSite, g: Term, x: Term) -> Term:
    """Return g between 0 and 6."""
    return keep_between(to, x, g, 0.0, 6.0)


def leaky(to: GradientSite, g: Term, x: Term, *, alpha: float) -> Term:
    """Return g, or alpha · g where x is not positive."""
    return above(to, x, 0.0).select(g, g * alpha)


def leaky_by_channel(to: GradientSite, g: Term, x: Term, alpha: Term) -> Sequence[Passed]:
    """Return g, or alpha · g where x is not positive."""
    return above(to, x, 0.0).select(g, g * along(to, alpha, (1,), x, "alpha")), None


def leaky_to_top(to: GradientSite, g: Term, x: Term, *, alpha: float, beta: float) -> Term:
    """Return the gradient of a leaky rectifier where it is at most beta."""
    return keep_between(to, x.leaky_relu(alpha=alpha), leaky(to, g, x, alpha=alpha), -math.inf, beta)


def from_level(to: GradientSite, g: Term, x: Term, *, alpha: float) -> Term:
    """Return g from alpha on."""
    return keep_where(to, x.greater_equal(level(to, alpha, x)), g)


def above_level(to: GradientSite, g: Term, x: Term, *, alpha: float) -> Term:
    """Return g above alpha."""
    return keep_where(to, above(to, x, alpha), g)


def between(to: GradientSite, g: Term, x: Term, *, alpha: float, beta: float) -> Term:
    """Return g between two bounds."""
    return keep_between(to, x, g, alpha, beta)


def exponential_linear(to: GradientSite, g: Term, x: Term, *, alpha: float) -> Term:
    """Return g, or (y + alpha) · g where x is not positive: alpha · eˣ without a second exponential."""
    return above(to, x, 0.0).select(g, g * (to.outputs[0] + alpha))


def sigmoid(to: GradientSite, g: Term, _: Term) -> Term:
    """Return g · y · (1 − y)."""
    (y,) = to.outputs
    return g * (y * one_minus(y))


def hard_sigmoid(to: GradientSite, g: Term, x: Term, *, alpha: float, beta: float) -> Term:
    """Return alpha · g on the slope."""
    return keep_between(to, x.linear_activation(alpha=alpha, beta=beta), g * alpha, 0.0, 1.0)


def tangent(to: GradientSite, g: Term, _: Term) -> Term:
    """Return g · (1 − y²)."""
    (y,) = to.outputs
    return g * one_minus(y * y)


def scaled_tangent(_: GradientSite, g: Term, x: Term, *, alpha: float, beta: float) -> Term:
    """Return alpha · beta · g · (1 − tanh²(beta · x))."""
    inner = (x * beta).tanh()
    return g * (one_minus(inner * inner) * (alpha * beta))


def gelu(_: GradientSite, g: Term, x: Term, *, mode: str) -> Term:
    """Return g · (Φ(x) + x · φ(x)), or what the approximations of Φ have for it."""
    if mode == "EXACT":
        normal = (x * math.sqrt(0.5)).erf() * 0.5 + 0.5
        density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
        return g * (normal + x * density)
    if mode == "SIGMOID_APPROXIMATION":
        gate = (x * SIGMOID_FACTOR).sigmoid()
        return g * (gate + x * (gate * one_minus(gate)) * SIGMOID_FACTOR)
    factor = math.sqrt(2 / math.pi)
    square = x * x
    inner = (x * square.linear_activation(alpha=factor * CUBIC_FACTOR, beta=factor)).tanh()
    slope = x * square.linear_activation(alpha=3 * factor * CUBIC_FACTOR, beta=factor)
    return g * ((inner * 0.5 + 0.5) + one_minus(inner * inner) * slope * 0.5)


def silu(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g · s · (1 + x · (1 − s)), s the sigmoid."""
    gate = x.sigmoid()
    return g * (gate * (x * one_minus(gate) + 1.0))


def softplus(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g · sigmoid(x)."""
    return g * x.sigmoid()


def softplus_by_channel(to: GradientSite, g: Term, x: Term, alpha: Term, beta: Term) -> Sequence[Passed]:
    """Return g · alpha · beta · sigmoid(beta · x)."""
    first, second = along(to, alpha, (1,), x, "alpha"), along(to, beta, (1,), x, "beta")
    return g * ((x * second).sigmoid() * (first * second)), None, None


def softsign(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / (1 + |x|)²."""
    share = (x.abs() + 1.0).inverse(epsilon=0.0)
    return g * (share * share)


def softmax(to: GradientSite, g: Term, _: Term, *, axis: int) -> Term:
    """Return y · (g − Σ g · y)."""
    (y,) = to.outputs
    return y * (g - (g * y).reduce_sum(axes=(axis,), keep_dims=True))


def line(_: GradientSite, g: Term, __: Term, *, alpha: float, **___: float) -> Term:
    """Return alpha · g."""
    return g * alpha


def product_with_number(_: GradientSite, g: Term, __: Term, *, k: float) -> Term:
    """Return k · g."""
    return g * k


def exponential(to: GradientSite, g: Term, _: Term) -> Term:
    """Return g · y."""
    return g * to.outputs[0]


def power_of_two(to: GradientSite, g: Term, _: Term) -> Term:
    """Return g · y · ln 2."""
    return g * (to.outputs[0] * math.log(2))


def logarithm(_: GradientSite, g: Term, x: Term, *, epsilon: float) -> Term:
    """Return g / (x + epsilon); an epsilon that the element type does not have is not added."""
    return g / (x + epsilon if epsilon > SMALLEST else x)


SMALLEST = 2.0**-24
"""The smallest number of fp16."""


def logarithm_of_two(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / (x · ln 2)."""
    return g / x * (1 / math.log(2))


def error_function(_: GradientSite, g: Term, x: Term) -> Term:
    """Return 2/√π · e^(−x²) · g."""
    return g * ((x * x * -1.0).exp() * (2 / math.sqrt(math.pi)))


def root(to: GradientSite, g: Term, _: Term) -> Term:
    """Return g / (2 · y)."""
    return g / (to.outputs[0] * 2.0)


def reciprocal_root(to: GradientSite, g: Term, _: Term, **__: float) -> Term:
    """Return −½ · y³ · g."""
    (y,) = to.outputs
    return g * (y * y * y) * -0.5


def reciprocal(to: GradientSite, g: Term, _: Term, **__: float) -> Term:
    """Return −y² · g."""
    (y,) = to.outputs
    return -(g * (y * y))


def square(_: GradientSite, g: Term, x: Term) -> Term:
    """Return 2 · x · g."""
    return g * x * 2.0


def sine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return cos(x) · g."""
    return g * x.cos()


def cosine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return −sin(x) · g."""
    return -(g * x.sin())


def circular_tangent(to: GradientSite, g: Term, _: Term) -> Term:
    """Return (1 + y²) · g."""
    (y,) = to.outputs
    return g * (y * y + 1.0)


def arc_sine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / √(1 − x²)."""
    return g * one_minus(x * x).rsqrt(epsilon=0.0)


def arc_cosine(to: GradientSite, g: Term, x: Term) -> Term:
    """Return −g / √(1 − x²)."""
    return -arc_sine(to, g, x)


def arc_tangent(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / (1 + x²)."""
    return g / (x * x + 1.0)


def hyperbolic_sine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return cosh(x) · g."""
    return g * x.cosh()


def hyperbolic_cosine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return sinh(x) · g."""
    return g * x.sinh()


def area_sine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / √(x² + 1)."""
    return g * (x * x + 1.0).rsqrt(epsilon=0.0)


def area_cosine(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / √(x² − 1)."""
    return g * (x * x - 1.0).rsqrt(epsilon=0.0)


def area_tangent(_: GradientSite, g: Term, x: Term) -> Term:
    """Return g / (1 − x²)."""
    return g / one_minus(x * x)


def encoded_light(to: GradientSite, g: Term, x: Term) -> Term:
    """Return the slope of the sRGB curve, times g."""
    power = x.pow(level(to, 1 / 2.4 - 1, x)) * (1.055 / 2.4)
    return x.less_equal(level(to, 0.0031308, x)).select(g * 12.92, g * power)


def decoded_light(to: GradientSite, g: Term, x: Term) -> Term:
    """Return the slope of the inverse sRGB curve, times g."""
    base = x.linear_activation(alpha=1 / 1.055, beta=0.055 / 1.055)
    power = base.pow(level(to, 1.4, x)) * (2.4 / 1.055)
    return x.less_equal(level(to, 0.04045, x)).select(g * (1 / 12.92), g * power)


def cast(_: GradientSite, g: Term, x: Term, **__: str) -> Passed:
    """Return g in the element type of x."""
    if not is_float(x.dtype) or not is_float(g.dtype):
        return None
    return g if g.dtype == x.dtype else g.cast(dtype=x.dtype)


def dropout(to: GradientSite, g: Term, x: Term, *, rate: float, **_: object) -> Passed:
    """Return g / (1 − rate) where the result is not 0; at an x of 0 it is not known, and 0 is taken."""
    if rate >= 1:
        return None
    return keep_where(to, to.outputs[0].not_equal(level(to, 0.0, x)), g * (1 / (1 - rate)))


# Pairs


def both(first: Callable[..., Passed], second: Callable[..., Passed]) -> Callable[..., Sequence[Passed]]:
    """Return a rule for two operands, broadcast to one another, that builds what is asked for."""

    def build(to: GradientSite, g: Term, x: Term, y: Term, **attributes: object) -> Sequence[Passed]:
        found: list[Passed] = []
        for name, operand, rule in (("x", x, first), ("y", y, second)):
            given = rule(to, g, x, y, **attributes) if to.wants(name) else None
            found.append(None if given is None else unspread(given, operand.shape))
        return found

    return build


def of_sum(_: GradientSite, g: Term, __: Term, ___: Term) -> Term:
    """Return g."""
    return g


def of_difference(_: GradientSite, g: Term, __: Term, ___: Term) -> Term:
    """Return −g."""
    return -g


def times_second(_: GradientSite, g: Term, __: Term, y: Term) -> Term:
    """Return g · y."""
    return g * y


def times_first(_: GradientSite, g: Term, x: Term, __: Term) -> Term:
    """Return g · x."""
    return g * x


def over_second(_: GradientSite, g: Term, __: Term, y: Term) -> Term:
    """Return g / y."""
    return g / y


def of_divisor(to: GradientSite, g: Term, _: Term, y: Term) -> Term:
    """Return −g · (x / y) / y."""
    return -(g * to.outputs[0] / y)


def of_remainder_divisor(_: GradientSite, g: Term, x: Term, y: Term) -> Term:
    """Return −g · ⌊x / y⌋."""
    return -(g * x.floor_div(y))


def of_base(to: GradientSite, g: Term, x: Term, y: Term) -> Term:
    """Return g · y · x^(y − 1); where a known power is 0 there is nothing, also at an x of 0."""
    if y.known is None:
        return g * (y * x.pow(y - 1.0))
    less = to.constant(np.where(y.known == 0, 1.0, y.known - 1), y.dtype)
    return g * (x.pow(less) * y)


def of_power(to: GradientSite, g: Term, x: Term, _: Term) -> Term:
    """Return g · xʸ · ln x."""
    return g * (to.outputs[0] * x.log())


def preferred(to: GradientSite, g: Term, one: Term, other: Term) -> Term:
    """Return g where an operand is the larger, and half of it where both are equal, as torch does."""
    shared = keep_where(to, one.equal(other), g * 0.5)
    return one.greater(other).select(g, shared)


def of_larger_first(to: GradientSite, g: Term, x: Term, y: Term) -> Term:
    """Return g where x is the larger."""
    return preferred(to, g, x, y)


def of_larger_second(to: GradientSite, g: Term, x: Term, y: Term) -> Term:
    """Return g where y is the larger."""
    return preferred(to, g, y, x)


PAIRS = {
    "add": both(of_sum, of_sum),
    "mult": both(times_second, times_first),
    "max": both(of_larger_first, of_larger_second),
    "min": both(of_larger_second, of_larger_first),
}
"""Rules by the modes of a scaled layer."""


def scaled_pair(to: GradientSite, g: Term, x: Term, y: Term, *, mode: str, scale: float) -> Sequence[Passed]:
    """Return the gradients of the operation that the mode names; a product is not scaled."""
    return PAIRS[mode](to, g if mode == "mult" else g * scale, x, y)


def select(to: GradientSite, g: Term, cond: Term, a: Term, b: Term) -> Sequence[Passed]:
    """Return g for a where the condition holds, and for b where it does not."""
    chosen = unspread(keep_where(to, cond, g), a.shape) if to.wants("a") else None
    other = unspread(keep_where(to, cond.logical_not(), g), b.shape) if to.wants("b") else None
    return None, chosen, other


def gain_and_offset(to: GradientSite, g: Term, x: Term, gain: Term | None, offset: Term | None) -> Sequence[Passed]:
    """Return g · gain for x, sums of g · x for the gains and of g for the offsets."""
    others = tuple(axis for axis in range(len(x.shape)) if axis != 1)

    def by_channel(value: Term) -> Term:
        return value.reduce_sum(axes=others, keep_dims=False)

    factor = None if gain is None else gain.reshape(shape=(x.shape[1], *(1,) * (len(x.shape) - 2)))
    return (
        g if factor is None else g * factor,
        by_channel(g * x) if gain is not None and to.wants("gain") else None,
        by_channel(g) if offset is not None and to.wants("offset") else None,
    )


ABS = Gradient("g where x > 0, −g elsewhere", absolute)
RELU = Gradient("g where x > 0", rectifier)
RELU6 = Gradient("g where 0 < x ≤ 6", rectifier_to_six)
LEAKY_RELU = Gradient("g where x > 0, alpha · g elsewhere", leaky)
PRELU = Gradient("g where x > 0, alpha[c] · g elsewhere", leaky_by_channel)
CLAMPED_RELU = Gradient("that of leaky_relu where it is at most beta", leaky_to_top)
THRESHOLDED_RELU = Gradient("g where x ≥ alpha", from_level)
THRESHOLD = Gradient("g where x > alpha", above_level)
CLIP = Gradient("g where alpha < x ≤ beta", between)
ELU = Gradient("g where x > 0, (y + alpha) · g elsewhere", exponential_linear)
SIGMOID = Gradient("g · y · (1 − y)", sigmoid)
SIGMOID_HARD = Gradient("alpha · g where 0 < alpha · x + beta ≤ 1", hard_sigmoid)
TANH = Gradient("g · (1 − y²)", tangent)
SCALED_TANH = Gradient("alpha · beta · g · (1 − tanh²(beta · x))", scaled_tangent)
GELU = Gradient("g · (Φ(x) + x · φ(x)), Φ in the form of the mode", gelu)
SILU = Gradient("g · s · (1 + x · (1 − s)), s = sigmoid(x)", silu)
SOFTPLUS = Gradient("g · sigmoid(x)", softplus)
SOFTPLUS_PARAMETRIC = Gradient("g · alpha · beta · sigmoid(beta · x)", softplus_by_channel)
SOFTSIGN = Gradient("g / (1 + |x|)²", softsign)
SOFTMAX = Gradient("y · (g − Σ g · y)", softmax)
LINE = Gradient("alpha · g", line)
MULS = Gradient("k · g", product_with_number)
UNCHANGED = Gradient("g", unchanged)
EXP = Gradient("g · y", exponential)
EXP2 = Gradient("g · y · ln 2", power_of_two)
LOG = Gradient("g / (x + epsilon)", logarithm)
LOG2 = Gradient("g / (x · ln 2)", logarithm_of_two)
ERF = Gradient("2/√π · e^(−x²) · g", error_function)
SQRT = Gradient("g / (2 · y)", root)
RSQRT = Gradient("−½ · y³ · g", reciprocal_root)
INVERSE = Gradient("−y² · g", reciprocal)
SQUARE = Gradient("2 · x · g", square)
SIN = Gradient("cos(x) · g", sine)
COS = Gradient("−sin(x) · g", cosine)
TAN = Gradient("(1 + y²) · g", circular_tangent)
ASIN = Gradient("g / √(1 − x²)", arc_sine)
ACOS = Gradient("−g / √(1 − x²)", arc_cosine)
ATAN = Gradient("g / (1 + x²)", arc_tangent)
SINH = Gradient("cosh(x) · g", hyperbolic_sine)
COSH = Gradient("sinh(x) · g", hyperbolic_cosine)
ASINH = Gradient("g / √(x² + 1)", area_sine)
ACOSH = Gradient("g / √(x² − 1)", area_cosine)
ATANH = Gradient("g / (1 − x²)", area_tangent)
GAMMA = Gradient("12.92 · g, or 1.055/2.4 · x^(1/2.4 − 1) · g", encoded_light)
DEGAMMA = Gradient("g / 12.92, or 2.4/1.055 · ((x + 0.055)/1.055)^1.4 · g", decoded_light)
CAST = Gradient("g in the type of x; 0 through integers and booleans", cast)
DROPOUT = Gradient("g / (1 − rate) where y ≠ 0", dropout)
STEPS = Gradient("0: it is constant between its steps", zero)
STEPS_OF_TWO = Gradient("0: it is constant between its steps", nothing)
REAL_DIV = Gradient("g / y; −g · (x / y) / y", both(over_second, of_divisor))
MOD = Gradient("g; −g · ⌊x / y⌋", both(of_sum, of_remainder_divisor))
POW = Gradient("g · y · x^(y − 1); g · xʸ · ln x", both(of_base, of_power))
SUB = Gradient("g; −g", both(of_sum, of_difference))
ADD = Gradient("g; g", PAIRS["add"])
MUL = Gradient("g · y; g · x", PAIRS["mult"])
MAXIMUM = Gradient("g where the operand is the larger, g/2 where both are equal", PAIRS["max"])
MINIMUM = Gradient("g where the operand is the smaller, g/2 where both are equal", PAIRS["min"])
SCALED_PAIR = Gradient("that of the mode's operation, times scale except for products", scaled_pair)
SELECT = Gradient("for a: g where cond holds; for b: g where it does not", select)
GOC = Gradient("g · gain; Σ g · x; Σ g, by channel", gain_and_offset)

"""Functions of one element, and of pairs, that the op table does not have under one name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = [
    "celu",
    "clamp",
    "compute_signed_remainder",
    "float_remainder",
    "gelu",
    "hard_swish",
    "has_sign",
    "is_infinite",
    "larger",
    "mish",
    "prelu",
    "relu",
    "smaller",
    "truncate",
]


# Activations.


def relu(emit: Emitter, x: Value) -> Value:
    """Return max(x, 0)."""
    return emit.unary("relu", x) if is_float(x.type.dtype) else emit.binary("maximum", x, 0)


def prelu(emit: Emitter, x: Value, slope: Value) -> Value:
    """Return x, scaled below 0 by a slope that broadcasts: one that is known, or one a channel, is the op table's."""
    known = slope if is_float(x.type.dtype) and isinstance(slope, Constant) else None
    if known is not None and slope.type.size == 1 and slope.type.rank <= x.type.rank:
        return emit.unary("leaky_relu", x, alpha=float(known.dense().reshape(()).item()))
    if known is not None and x.type.rank >= 3 and slope.type.shape in (one_a_channel(x, lead) for lead in ((), (1,))):
        return emit.apply("prelu", {"x": x, "alpha": emit.reshape(slope, x.type.shape[1:2])})
    zero = emit.number(0, x)
    return emit.add(emit.binary("maximum", x, zero), emit.mul(emit.binary("minimum", x, zero), slope))


def one_a_channel(x: Value, lead: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one number a channel that broadcasts along axis 1, after given axes."""
    return (*lead, x.type.shape[1], *[1] * (x.type.rank - 2))


def celu(emit: Emitter, x: Value, alpha: float) -> Value:
    """Return x, and alpha · (e^(x / alpha) − 1) below 0."""
    if alpha == 1:
        return emit.unary("elu", x, alpha=1.0)
    below = emit.mul(emit.unary("elu", emit.mul(x, 1 / alpha), alpha=1.0), alpha)
    return emit.select(emit.binary("greater", x, 0.0), x, below)


def hard_swish(emit: Emitter, x: Value) -> Value:
    """Return x · (x / 6 + ½, kept within 0 and 1)."""
    return emit.mul(x, emit.unary("sigmoid_hard", x, alpha=1 / 6, beta=0.5))


def mish(emit: Emitter, x: Value) -> Value:
    """Return x · tanh(log(1 + eˣ))."""
    return emit.mul(x, emit.unary("tanh", emit.unary("softplus", x)))


def gelu(emit: Emitter, x: Value, approximate: str) -> Value:
    """Return x times the normal distribution, exact or in the tanh form."""
    return emit.unary("gelu", x, mode="TANH_APPROXIMATION" if approximate == "tanh" else "EXACT")


# Numbers.


def is_infinite(emit: Emitter, x: Value) -> Value:
    """Return whether x is infinite; integers never are."""
    if not is_float(x.type.dtype):
        return emit.filled(x.type.shape, 0, "bool")
    return emit.binary("equal", emit.unary("abs", x), math.inf)


def has_sign(emit: Emitter, x: Value) -> Value:
    """Return whether real numbers have a sign, which −0 has too: its inverse is −∞."""
    inverse = emit.unary("inverse", x, epsilon=0.0)
    return emit.binary("logical_or", emit.binary("less", x, 0.0), emit.binary("less", inverse, 0.0))


def truncate(emit: Emitter, x: Value) -> Value:
    """Return the whole part of real numbers: towards 0."""
    return emit.select(emit.binary("less", x, 0.0), emit.unary("ceil", x), emit.unary("floor", x))


def larger(emit: Emitter, x: Value, y: Value | float) -> Value:
    """Return the larger of two; of booleans whether one holds."""
    return emit.binary("logical_or" if x.type.dtype == "bool" else "maximum", x, y)


def smaller(emit: Emitter, x: Value, y: Value | float) -> Value:
    """Return the smaller of two; of booleans whether both hold."""
    return emit.binary("logical_and" if x.type.dtype == "bool" else "minimum", x, y)


def clamp(emit: Emitter, x: Value, least: Value | float | None, most: Value | float | None) -> Value:
    """Return x moved between two bounds, either of which may be left out; where they cross, the upper one counts."""
    low, high = bound_number(least, -math.inf), bound_number(most, math.inf)
    if is_float(x.type.dtype) and low is not None and high is not None and low <= high:
        return emit.unary("clip", x, alpha=low, beta=high)
    result = x if least is None else larger(emit, x, least)
    return result if most is None else smaller(emit, result, most)


def bound_number(bound: Value | float | None, otherwise: float) -> float | None:
    """Return a bound as a number, if it is a known one."""
    if bound is None:
        return otherwise
    if isinstance(bound, int | float):
        return float(bound)
    return float(bound.dense().item()) if isinstance(bound, Constant) and not bound.type.rank else None


def compute_signed_remainder(emit: Emitter, x: Value, y: Value) -> Value:
    """Return x − y · (x / y cut towards 0); of real numbers that of magnitudes, with the sign of x."""
    if not is_float(x.type.dtype):
        return emit.sub(x, emit.mul(emit.div(x, y), y))
    magnitude = emit.binary("mod", emit.unary("abs", x), emit.unary("abs", y))
    # What is finite over an infinity is left as it is.
    magnitude = emit.select(
        emit.binary("equal", emit.unary("abs", y), math.inf),
        emit.select(emit.binary("less", emit.unary("abs", x), math.inf), emit.unary("abs", x), magnitude),
        magnitude,
    )
    return emit.select(emit.binary("less", x, 0.0), emit.negative(magnitude), magnitude)


def float_remainder(emit: Emitter, x: Value, y: Value) -> Value:
    """Return x − y · ⌊x / y⌋ of real numbers, exact: of magnitudes, and then of the signs."""
    rest = compute_signed_remainder(emit, x, y)
    other = emit.binary("not_equal", emit.binary("less", rest, 0.0), emit.binary("less", y, 0.0))
    move = emit.binary("logical_and", other, emit.binary("not_equal", rest, 0.0))
    return emit.select(move, emit.add(rest, y), rest)

"""Activations and arithmetic that have no layer, from those that have one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.codegen.netplist.compose import Composition
from aneforge.errors import PrecisionWarning

if TYPE_CHECKING:
    from aneforge.codegen.netplist.compose import Compose
    from aneforge.graph.node import Value
    from aneforge.graph.tensor import Tensor

__all__ = ["ACTIVATION"]

CUBIC_FACTOR = 0.044715
SIGMOID_FACTOR = 1.702
"""MIL's constants of the two approximations of gelu."""


def silu(to: Compose) -> Tensor:
    """Return x · sigmoid(x)."""
    return to.op("mul", to.x, to.op("sigmoid", to.x))


def real_div(to: Compose) -> Tensor:
    """Return x · inverse(y)."""
    return to.op("mul", to.x, inverse_of(to, to.operand("y")))


def floor_div(to: Compose) -> Tensor:
    """Return floor(x · inverse(y)), which the engine rounds twice before it cuts."""
    message = (
        f"{to.node.location}: floor_div is written as floor(x · inverse(y)); the inverse is rounded, "
        "so a whole quotient can be one too small"
    )
    warn(message, PrecisionWarning)
    return to.op("floor", real_div(to))


def inverse_of(to: Compose, value: Value) -> Tensor:
    """Return 1 over a value."""
    return to.op("inverse", value, epsilon=0.0)


def shifted(to: Compose) -> Tensor | None:
    """Return the operation without its epsilon, which is added before; None where there is none to add."""
    epsilon = to.number("epsilon")
    if not epsilon:
        return None
    return to.op(to.node.op.name, to.op("adds", to.x, k=epsilon), epsilon=0.0)


def sigmoid_hard(to: Compose) -> Tensor:
    """Return clip(alpha · x + beta, 0, 1)."""
    line = to.op("linear_activation", to.x, alpha=to.number("alpha"), beta=to.number("beta"))
    return to.op("clip", line, alpha=0.0, beta=1.0)


def relu6(to: Compose) -> Tensor:
    """Return clip(x, 0, 6)."""
    return to.op("clip", to.x, alpha=0.0, beta=6.0)


def threshold(to: Compose) -> Tensor:
    """Return clip(x, alpha, ∞)."""
    return to.op("clip", to.x, alpha=to.number("alpha"), beta=math.inf)


def clamped_relu(to: Compose) -> Tensor:
    """Return clip(leaky_relu(x), −∞, beta)."""
    leaky = to.op("leaky_relu", to.x, alpha=to.number("alpha"))
    return to.op("clip", leaky, alpha=-math.inf, beta=to.number("beta"))


def prelu(to: Compose) -> Tensor:
    """Return relu(x) + alpha · clip(x, −∞, 0)."""
    slope = to.laid(to.operand("alpha"), (1,), len(to.shape), "alpha")
    negative = to.op("clip", to.x, alpha=-math.inf, beta=0.0)
    return to.op("add", to.op("relu", to.x), to.op("mul", negative, slope))


def square(to: Compose) -> Tensor:
    """Return x · x."""
    return to.op("mul", to.x, to.x)


def softsign(to: Compose) -> Tensor:
    """Return x · inverse(1 + |x|)."""
    return to.op("mul", to.x, inverse_of(to, to.op("adds", to.op("abs", to.x), k=1.0)))


def scaled_tanh(to: Compose) -> Tensor:
    """Return alpha · tanh(beta · x)."""
    return to.op("muls", to.op("tanh", to.op("muls", to.x, k=to.number("beta"))), k=to.number("alpha"))


def gelu(to: Compose) -> Tensor | None:
    """Return the two approximations of gelu from tanh or sigmoid; the exact form has a layer."""
    x, mode = to.x, to.text("mode")
    if mode == "EXACT":
        return None
    if mode == "SIGMOID_APPROXIMATION":
        return to.op("mul", x, to.op("sigmoid", to.op("muls", x, k=SIGMOID_FACTOR)))
    factor = math.sqrt(2 / math.pi)
    squared = to.op("mul", x, x)
    inner = to.op("mul", x, to.op("linear_activation", squared, alpha=factor * CUBIC_FACTOR, beta=factor))
    return to.op("mul", x, to.op("linear_activation", to.op("tanh", inner), alpha=0.5, beta=0.5))


def pe_elementwise(to: Compose) -> Tensor:
    """Return the operation that the mode names."""
    names = {"add": "add", "sub": "sub", "mul": "mul", "max": "maximum", "min": "minimum"}
    return to.op(names[to.text("mode")], to.x, to.operand("y"))


def pe_goc(to: Compose) -> Tensor:
    """Return x · gain + offset, for every channel."""
    gain, offset = (to.laid(to.operand(name), (1,), len(to.shape), name) for name in ("gain", "offset"))
    return to.op("add", to.op("mul", to.x, gain), offset)


ACTIVATION: dict[str, Composition] = {
    "clamped_relu": Composition("clip(leaky_relu(x), −∞, beta)", clamped_relu),
    "floor_div": Composition("floor(x · inverse(y))", floor_div),
    "gelu": Composition("x times a form of tanh or sigmoid", gelu),
    "inverse": Composition("inverse(x + epsilon)", shifted),
    "pe_elementwise": Composition("the operation that its mode names", pe_elementwise),
    "pe_goc": Composition("x · gain + offset", pe_goc),
    "prelu": Composition("relu(x) + alpha · clip(x, −∞, 0)", prelu),
    "real_div": Composition("x · inverse(y)", real_div),
    "relu6": Composition("clip(x, 0, 6)", relu6),
    "rsqrt": Composition("rsqrt(x + epsilon)", shifted),
    "scaled_tanh": Composition("alpha · tanh(beta · x)", scaled_tanh),
    "sigmoid_hard": Composition("clip(alpha · x + beta, 0, 1)", sigmoid_hard),
    "silu": Composition("x · sigmoid(x)", silu),
    "softsign": Composition("x · inverse(1 + |x|)", softsign),
    "square": Composition("x · x", square),
    "threshold": Composition("clip(x, alpha, ∞)", threshold),
}

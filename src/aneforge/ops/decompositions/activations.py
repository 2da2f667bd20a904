"""Activations and arithmetic of single elements, in simpler ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.decomposition import SAME_MATHEMATICS, Decomposition
from aneforge.ops.decompositions.norms import along

if TYPE_CHECKING:
    from aneforge.ops.decomposition import Site, Term

__all__ = [
    "CLAMPED_RELU",
    "EPSILON_BEFORE",
    "FLOOR_DIV",
    "FLOOR_DIV_BY_RECIPROCAL",
    "GELU",
    "NAMED_PAIR",
    "PLANAR_GAIN",
    "PRELU",
    "PRELU_BY_RELU",
    "REAL_DIV",
    "REAL_DIV_BY_RECIPROCAL",
    "RELU6",
    "SCALED_TANH",
    "SIGMOID_HARD",
    "SILU",
    "SOFTSIGN",
    "SPREAD_FIRST",
    "SQUARE",
    "THRESHOLD",
]

CUBIC_FACTOR = 0.044715
SIGMOID_FACTOR = 1.702
"""MIL's constants of the two approximations of gelu."""
CHANNEL_AXIS = 1
PAIRS = {"add": "add", "sub": "sub", "mul": "mul", "max": "maximum", "min": "minimum"}
"""Operations by the modes of an elementwise layer."""


def silu(_: Site, x: Term) -> Term:
    """Return x · sigmoid(x)."""
    return x * x.sigmoid()


def square(_: Site, x: Term) -> Term:
    """Return x · x."""
    return x * x


def real_div(_: Site, x: Term, y: Term) -> Term:
    """Return x · inverse(y)."""
    return x * y.inverse(epsilon=0.0)


def floor_div(to: Site, x: Term, y: Term) -> Term:
    """Return floor(x · inverse(y)), which the engine rounds twice before it cuts."""
    to.warn("floor_div is written as floor(x · inverse(y)); the inverse is rounded, so a quotient can be one too small")
    return real_div(to, x, y).floor()


def reciprocal(to: Site, y: Term) -> Term:
    """Return 1 over a constant divisor, rounded to fp16.

    Raises:
        NotSupportedError: The divisor is not a constant of fp16.
    """
    if y.is_declared and y.dtype == "fp16":
        return to.derived(y, "reciprocal", y.shape, y.dtype)
    if y.known is None or y.dtype != "fp16":
        raise to.refusal(
            "the divisor must be a constant of fp16 here",
            seen="a tensor computed at run time" if y.known is None else y.type,
            remedy="multiply by inverse",
        )
    with np.errstate(divide="ignore"):
        return to.constant(1 / y.known, y.dtype)


def real_div_by_reciprocal(to: Site, x: Term, y: Term) -> Term:
    """Return x times 1/y, rounded to fp16 beforehand."""
    return x * reciprocal(to, y)


def floor_div_by_reciprocal(to: Site, x: Term, y: Term) -> Term:
    """Return the floor of x times 1/y: it rounds twice, so 11 // 11 is 0."""
    return real_div_by_reciprocal(to, x, y).floor()


def epsilon_before(to: Site, x: Term, *, epsilon: float) -> Term:
    """Return the function of x + epsilon."""
    return to.same(x + epsilon, epsilon=0.0)


def sigmoid_hard(_: Site, x: Term, *, alpha: float, beta: float) -> Term:
    """Return clip(alpha · x + beta, 0, 1)."""
    return x.linear_activation(alpha=alpha, beta=beta).clip(alpha=0.0, beta=1.0)


def relu6(_: Site, x: Term) -> Term:
    """Return clip(x, 0, 6)."""
    return x.clip(alpha=0.0, beta=6.0)


def threshold(_: Site, x: Term, *, alpha: float) -> Term:
    """Return clip(x, alpha, ∞)."""
    return x.clip(alpha=alpha, beta=math.inf)


def clamped_relu(_: Site, x: Term, *, alpha: float, beta: float) -> Term:
    """Return clip(leaky_relu(x), −∞, beta)."""
    return x.leaky_relu(alpha=alpha).clip(alpha=-math.inf, beta=beta)


def prelu(to: Site, x: Term, alpha: Term) -> Term:
    """Return relu(x) + alpha · clip(x, −∞, 0)."""
    return x.relu() + x.clip(alpha=-math.inf, beta=0.0) * along(to, alpha, (1,), x, "alpha")


def prelu_by_relu(to: Site, x: Term, alpha: Term) -> Term:
    """Return relu(x) − alpha · relu(−x)."""
    return x.relu() - (-x).relu() * along(to, alpha, (1,), x, "alpha")


def softsign(_: Site, x: Term) -> Term:
    """Return x · inverse(1 + |x|)."""
    return x * (x.abs() + 1.0).inverse(epsilon=0.0)


def scaled_tanh(_: Site, x: Term, *, alpha: float, beta: float) -> Term:
    """Return alpha · tanh(beta · x)."""
    return (x * beta).tanh() * alpha


def gelu(_: Site, x: Term, *, mode: str) -> Term:
    """Return the two approximations of gelu, from tanh or sigmoid."""
    if mode == "SIGMOID_APPROXIMATION":
        return x * (x * SIGMOID_FACTOR).sigmoid()
    factor = math.sqrt(2 / math.pi)
    inner = x * (x * x).linear_activation(alpha=factor * CUBIC_FACTOR, beta=factor)
    return x * inner.tanh().linear_activation(alpha=0.5, beta=0.5)


def named_pair(_: Site, x: Term, y: Term, *, mode: str) -> Term:
    """Return the operation that the mode names."""
    return getattr(x, PAIRS[mode])(y)


def planar_gain(to: Site, x: Term, gain: Term, offset: Term) -> Term:
    """Return x · gain + offset, for every channel."""
    return x * along(to, gain, (1,), x, "gain") + along(to, offset, (1,), x, "offset")


def spread_first(to: Site, x: Term, y: Term, **attributes: object) -> Term:
    """Return the operation on operands of one shape: broadcasts are operations of their own."""
    return to.same(*(spread(to, one, to.results[0].shape) for one in (x, y)), **attributes)


def spread(to: Site, value: Term, shape: tuple[int, ...]) -> Term:
    """Return a value in a larger shape: by a product with ones along the channels, by adding zeros along other axes.

    Raises:
        NotSupportedError: The elements are not fp16.
    """
    if value.shape == shape:
        return value
    if value.dtype != "fp16":
        raise to.refusal("Only fp16 is supported for broadcasts here", seen=value.dtype, limit="fp16")
    if value.known is not None:
        return to.constant(np.broadcast_to(value.known, shape), value.dtype)
    if value.is_declared:
        return to.derived(value, "spread", shape, value.dtype)
    if len(value.shape) == len(shape) == 4 and value.shape[CHANNEL_AXIS] == 1 != shape[CHANNEL_AXIS]:
        value = value.conv(to.constant(np.ones((shape[CHANNEL_AXIS], 1, 1, 1)), value.dtype))
    return value if value.shape == shape else value + to.constant(np.zeros(shape), value.dtype)


SILU = Decomposition("sigmoid", "x · sigmoid(x)", silu, SAME_MATHEMATICS)
SQUARE = Decomposition("product", "x · x", square, SAME_MATHEMATICS)
REAL_DIV = Decomposition("inverse", "x · inverse(y)", real_div, SAME_MATHEMATICS)
FLOOR_DIV = Decomposition("inverse", "floor(x · inverse(y))", floor_div, SAME_MATHEMATICS)
REAL_DIV_BY_RECIPROCAL = Decomposition(
    "reciprocal", "a product with the reciprocal, rounded to fp16 beforehand", real_div_by_reciprocal, SAME_MATHEMATICS
)
FLOOR_DIV_BY_RECIPROCAL = Decomposition(
    "reciprocal",
    "the floor of a product with the rounded reciprocal: exact quotients can be one too small",
    floor_div_by_reciprocal,
    SAME_MATHEMATICS,
)
EPSILON_BEFORE = Decomposition(
    "epsilon before", "the function of x + epsilon", epsilon_before, SAME_MATHEMATICS, same_operation=True
)
SIGMOID_HARD = Decomposition("clip", "clip(alpha · x + beta, 0, 1)", sigmoid_hard, SAME_MATHEMATICS)
RELU6 = Decomposition("clip", "clip(x, 0, 6)", relu6, SAME_MATHEMATICS)
THRESHOLD = Decomposition("clip", "clip(x, alpha, ∞)", threshold, SAME_MATHEMATICS)
CLAMPED_RELU = Decomposition("clip", "clip(leaky_relu(x), −∞, beta)", clamped_relu, SAME_MATHEMATICS)
PRELU = Decomposition("clip", "relu(x) + alpha · clip(x, −∞, 0)", prelu, SAME_MATHEMATICS)
PRELU_BY_RELU = Decomposition("relu", "relu(x) − alpha · relu(−x)", prelu_by_relu, SAME_MATHEMATICS)
SOFTSIGN = Decomposition("inverse", "x · inverse(1 + |x|)", softsign, SAME_MATHEMATICS)
SCALED_TANH = Decomposition("tanh", "alpha · tanh(beta · x)", scaled_tanh, SAME_MATHEMATICS)
GELU = Decomposition("tanh or sigmoid", "x times a form of tanh or sigmoid", gelu, SAME_MATHEMATICS)
NAMED_PAIR = Decomposition("named", "the operation that its mode names", named_pair, SAME_MATHEMATICS)
PLANAR_GAIN = Decomposition("gain", "x · gain + offset", planar_gain, SAME_MATHEMATICS)
SPREAD_FIRST = Decomposition(
    "spread first",
    "broadcasts as products with ones (channels) and additions of zeros (other axes)",
    spread_first,
    SAME_MATHEMATICS,
    same_operation=True,
)

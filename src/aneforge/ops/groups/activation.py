"""Activations: what a network puts after a layer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.arrays import np, numpy_function
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import logistic, rectify, reshape_along, softmax
from aneforge.ops.common import F2, LIKELY_F0, axis_attribute
from aneforge.ops.forms import Domain, unary
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import EVERYTHING, FROM_ZERO, UNIT, WITHIN_ONE, Codomain, around_zero
from aneforge.ops.sampling import FLOATS, NUMBERS, Chooser, Fill, Sample, draw_axis, draw_type
from aneforge.ops.shapes import (
    common_dtype,
    expect_float,
    expect_least_rank,
    expect_one_each,
    expect_representable,
    normalise_axis,
)
from aneforge.ops.signature import (
    REQUIRED,
    Attribute,
    AttributeKind,
    AttributeValue,
    Operand,
    OperandKind,
    Required,
)

if TYPE_CHECKING:
    from aneforge.ops.types import Array, TensorType

CATEGORY = Category.ACTIVATION
BOUNDING = frozenset({Trait.BOUNDING})
SHRINKING = frozenset({Trait.SHRINKING})
UNROUNDED = frozenset({Trait.UNROUNDED})
SIGMOID_FACTOR = 1.702
"""Slope at which a sigmoid comes nearest to the normal distribution; MIL's own constant."""
CUBIC_FACTOR = 0.044715
"""Weight of x³ in the tanh form of gelu; MIL's own constant."""


def complementary_error(x: Array) -> Array:
    """Return erfc of every element, as the C library has it."""
    return np.fromiter(map(math.erfc, x.reshape(-1).tolist()), np.float64, x.size).reshape(x.shape)


def number(name: str, default: float | Required = REQUIRED) -> Attribute:
    """Return an attribute that is one finite number; without a default it must be given."""
    return Attribute(name, AttributeKind.NUMBER, default, finite=True)


def bound(name: str) -> Attribute:
    """Return an attribute that is one number, which may be infinite: then it bounds nothing."""
    return Attribute(name, AttributeKind.NUMBER)


# Domains: every one has values on both sides of each kink.


def draw_slope(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw the slope of the negative side; above 1 it is steeper than the positive one."""
    return {"alpha": chooser.choose([0.01, 0.0, 0.3, -0.5, 1.5])}


def draw_whole_level(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a level within the sampled values that integers have as well."""
    return {"alpha": chooser.choose([1.0, 0.0, -2.0, 3.0])}


def draw_level(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a level within the sampled values."""
    return {"alpha": chooser.choose([1.0, 0.0, -1.5, 2.25])}


def draw_slope_and_top(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw the slope of the negative side and an upper bound, which may be negative."""
    return {"alpha": chooser.choose([0.0, 0.3, -1.5]), "beta": chooser.choose([2.0, 0.0, -0.5])}


def draw_bounds(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a lower and an upper bound, which may be equal."""
    low = chooser.choose([-2.0, 0.0, 1.5])
    return {"alpha": low, "beta": low + chooser.choose([0.0, 1.0, 2.5])}


def draw_line(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a slope and an intercept."""
    return {"alpha": chooser.choose([0.2, 1.0, -1.5, 0.0]), "beta": chooser.choose([0.5, 0.0, -0.75])}


def draw_mode(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw a form of gelu."""
    return {"mode": chooser.choose(GELU_MODES)}


# Meanings.


def rectified_to_six(x: Array) -> Array:
    """Return x between 0 and 6."""
    return np.clip(x, 0, 6)


def leaky(x: Array, alpha: float) -> Array:
    """Return x, scaled where it is negative."""
    return np.where(x >= 0, x, alpha * x)


def leaky_to_top(x: Array, alpha: float, beta: float) -> Array:
    """Return x, scaled where it is negative, and no more than beta on either side."""
    return np.minimum(leaky(x, alpha), beta)


def kept_from(x: Array, alpha: float) -> Array:
    """Return x from alpha on, alpha included, and 0 below."""
    return np.where(x >= alpha, x, 0)


def at_least(x: Array, alpha: float) -> Array:
    """Return x, and alpha where x is smaller."""
    return np.maximum(x, np.array(alpha).astype(x.dtype))


def between(x: Array, alpha: float, beta: float) -> Array:
    """Return x, moved into alpha to beta."""
    return np.clip(x, alpha, beta)


def exponential_linear(x: Array, alpha: float) -> Array:
    """Return x, and alpha · (eˣ − 1) where it is not positive."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def line(x: Array, alpha: float, beta: float) -> Array:
    """Return alpha · x + beta."""
    return alpha * x + beta


def line_to_one(x: Array, alpha: float, beta: float) -> Array:
    """Return alpha · x + beta between 0 and 1."""
    return np.clip(line(x, alpha, beta), 0, 1)


def scaled_tangent(x: Array, alpha: float, beta: float) -> Array:
    """Return alpha · tanh(beta · x)."""
    return alpha * np.tanh(beta * x)


def gaussian_exact(x: Array) -> Array:
    """Return x times the normal distribution; erfc keeps the digits that 1 + erf would lose far below 0."""
    return 0.5 * x * complementary_error(-x / math.sqrt(2))


def gaussian_by_tanh(x: Array) -> Array:
    """Return the tanh form of gelu."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + CUBIC_FACTOR * x**3)))


def gaussian_by_sigmoid(x: Array) -> Array:
    """Return the sigmoid form of gelu."""
    return x * logistic(SIGMOID_FACTOR * x)


GELU_FORMS = {
    "EXACT": gaussian_exact,
    "TANH_APPROXIMATION": gaussian_by_tanh,
    "SIGMOID_APPROXIMATION": gaussian_by_sigmoid,
}
GELU_MODES = tuple(GELU_FORMS)


def gaussian(x: Array, mode: str) -> Array:
    """Return gelu in the form that `mode` names."""
    return GELU_FORMS[mode](x)


def sigmoid_linear(x: Array) -> Array:
    """Return x · sigmoid(x)."""
    return x * logistic(x)


def softened(x: Array) -> Array:
    """Return log(1 + eˣ) without overflow."""
    return np.logaddexp(0, x)


def soft_sign(x: Array) -> Array:
    """Return x / (1 + |x|)."""
    return x / (1 + np.abs(x))


def leaky_by_channel(x: Array, alpha: Array) -> Array:
    """Return x, scaled by its channel's slope where it is negative."""
    return np.where(x >= 0, x, reshape_along(alpha, x.ndim) * x)


def softened_by_channel(x: Array, alpha: Array, beta: Array) -> Array:
    """Return alpha · log(1 + e^(beta · x)) with the numbers of each channel, without overflow."""
    return reshape_along(alpha, x.ndim) * np.logaddexp(0, reshape_along(beta, x.ndim) * x)


# Codomains of those whose attributes decide: a slope that is not positive leaves nothing below zero.


def leaky_codomain(alpha: float) -> Codomain:
    """Return the interval of a leaky rectifier's results."""
    return EVERYTHING if alpha > 0 else Codomain(low=0.0)


def kept_codomain(alpha: float) -> Codomain:
    """Return the interval of numbers that are 0 below alpha."""
    return Codomain(low=min(alpha, 0.0))


def at_least_codomain(alpha: float) -> Codomain:
    """Return everything from alpha on."""
    return Codomain(low=alpha)


def exponential_linear_codomain(alpha: float) -> Codomain:
    """Return the interval of an exponential linear unit's results."""
    return Codomain(low=min(-alpha, 0.0))


def scaled_tangent_codomain(alpha: float, beta: float) -> Codomain:
    """Return the interval of alpha · tanh."""
    return around_zero(alpha if beta else 0.0)


def bounds_codomain(alpha: float, beta: float) -> Codomain:
    """Return the interval between two bounds."""
    return Codomain(alpha, beta)


def leaky_to_top_codomain(alpha: float, beta: float) -> Codomain:
    """Return the interval of a leaky rectifier's results that end at the top."""
    return Codomain(min(leaky_codomain(alpha).low, beta), beta)


# Shape rules of those that are not a plain function of one element.


def expect_level(x: TensorType, *, alpha: float) -> None:
    """Check that a level is a value of the tensor's type.

    Raises:
        GraphError: It is not.
    """
    expect_representable("alpha", alpha, x.dtype)


def expect_ordered(_: TensorType, *, alpha: float, beta: float) -> None:
    """Check that two bounds are in order.

    Raises:
        GraphError: They are not.
    """
    if not alpha <= beta:
        raise GraphError(
            "the lower bound alpha is above the upper bound beta",
            seen=f"alpha {alpha:g}, beta {beta:g}",
            limit="alpha at most beta",
            remedy="exchange the bounds",
        )


def softmax_type(x: TensorType, axis: int) -> TensorType:
    """Return the type of x; the axis must be one of its own."""
    expect_float(x)
    normalise_axis(axis, x.rank)
    return x


def expect_per_channel(x: TensorType, **operands: TensorType) -> None:
    """Check that x has channels on axis 1 of three or more, and that the operands hold one number for each.

    Raises:
        GraphError: They do not fit.
    """
    expect_float(x)
    expect_least_rank(x, 3, "channels on axis 1")
    for name, operand in operands.items():
        expect_one_each(operand, x.shape[1], "channel of x", name)
    common_dtype(x, *operands.values())


def prelu_type(x: TensorType, alpha: TensorType) -> TensorType:
    """Return the type of x; alpha must have one slope per channel."""
    expect_per_channel(x, alpha=alpha)
    return x


def softplus_parametric_type(x: TensorType, alpha: TensorType, beta: TensorType) -> TensorType:
    """Return the type of x; alpha and beta must have one number per channel."""
    expect_per_channel(x, alpha=alpha, beta=beta)
    return x


def sample_softmax(chooser: Chooser) -> Sample:
    """Draw a tensor and one of its axes, counted from either end."""
    tensor = draw_type(chooser)
    return Sample({"x": Fill(tensor)}, {"axis": draw_axis(chooser, tensor.rank)})


def sample_prelu(chooser: Chooser) -> Sample:
    """Draw a tensor and a slope per channel."""
    tensor = draw_type(chooser, FLOATS, 3, 5, longest=4)
    return Sample({"x": Fill(tensor), "alpha": Fill(tensor.with_shape(tensor.shape[1]), -1, 2)})


def sample_softplus_parametric(chooser: Chooser) -> Sample:
    """Draw a tensor and two numbers per channel."""
    tensor = draw_type(chooser, FLOATS, 3, 5, longest=4)
    channels = tensor.with_shape(tensor.shape[1])
    return Sample({"x": Fill(tensor), "alpha": Fill(channels, -2, 2), "beta": Fill(channels, -2, 2)})


RELU = unary(
    "relu",
    CATEGORY,
    "max(x, 0)",
    rectify,
    traits=BOUNDING | SHRINKING | UNROUNDED,
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.RELU,
)
RELU6 = unary(
    "relu6",
    CATEGORY,
    "min(max(x, 0), 6)",
    rectified_to_six,
    domain=Domain(-4, 9),
    traits=BOUNDING | SHRINKING | UNROUNDED,
    codomain=Codomain(0.0, 6.0, minus_zero=False),
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.RELU6,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.RELU6,
)
LEAKY_RELU = unary(
    "leaky_relu",
    CATEGORY,
    "x if x ≥ 0, else alpha · x",
    leaky,
    attributes=(number("alpha", 0.01),),
    domain=Domain(attributes=draw_slope),
    traits=BOUNDING,
    codomain=leaky_codomain,
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.LEAKY_RELU,
)
PRELU = Op(
    name="prelu",
    category=CATEGORY,
    summary="x if x ≥ 0, else alpha[c] · x, channels c on axis 1",
    operands=(Operand("x"), Operand("alpha", OperandKind.CONSTANT)),
    infer=prelu_type,
    meaning=leaky_by_channel,
    sample=sample_prelu,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.PRELU, decompositions.activations.PRELU_BY_RELU),
    in_mil=True,
    gradient=lambda: gradients.pointwise.PRELU,
)
CLAMPED_RELU = unary(
    "clamped_relu",
    CATEGORY,
    "min(beta, x if x ≥ 0, else alpha · x)",
    leaky_to_top,
    attributes=(number("alpha"), number("beta")),
    domain=Domain(attributes=draw_slope_and_top),
    traits=BOUNDING,
    codomain=leaky_to_top_codomain,
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.CLAMPED_RELU,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.CLAMPED_RELU,
)
THRESHOLDED_RELU = unary(
    "thresholded_relu",
    CATEGORY,
    "x if x ≥ alpha, else 0",
    kept_from,
    attributes=(number("alpha"),),
    domain=Domain(attributes=draw_level),
    traits=BOUNDING | SHRINKING | UNROUNDED,
    codomain=kept_codomain,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.THRESHOLDED_RELU,
)
THRESHOLD = unary(
    "threshold",
    CATEGORY,
    "max(x, alpha)",
    at_least,
    attributes=(number("alpha"),),
    domain=Domain(attributes=draw_whole_level),
    dtypes=NUMBERS,
    check=expect_level,
    traits=BOUNDING | UNROUNDED,
    codomain=at_least_codomain,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.THRESHOLD,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.THRESHOLD,
)
CLIP = unary(
    "clip",
    CATEGORY,
    "min(max(x, alpha), beta)",
    between,
    attributes=(bound("alpha"), bound("beta")),
    domain=Domain(attributes=draw_bounds),
    check=expect_ordered,
    traits=BOUNDING | UNROUNDED,
    codomain=bounds_codomain,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.CLIP,
)
ELU = unary(
    "elu",
    CATEGORY,
    "x if x > 0, else alpha · (eˣ − 1)",
    exponential_linear,
    attributes=(number("alpha", 1.0),),
    domain=Domain(attributes=draw_level),
    traits=BOUNDING,
    codomain=exponential_linear_codomain,
    surface=Surface.FUSED,
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.ELU,
)
SIGMOID = unary(
    "sigmoid",
    CATEGORY,
    "1 / (1 + e⁻ˣ)",
    logistic,
    domain=Domain(-12, 12),
    codomain=UNIT,
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.SIGMOID,
)
SIGMOID_HARD = unary(
    "sigmoid_hard",
    CATEGORY,
    "min(max(alpha · x + beta, 0), 1)",
    line_to_one,
    attributes=(number("alpha", 0.2), number("beta", 0.5)),
    domain=Domain(attributes=draw_line),
    traits=BOUNDING,
    codomain=UNIT,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.SIGMOID_HARD,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SIGMOID_HARD,
)
TANH = unary(
    "tanh",
    CATEGORY,
    "tanh x",
    numpy_function("tanh"),
    traits=SHRINKING,
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.TANH,
)
SCALED_TANH = unary(
    "scaled_tanh",
    CATEGORY,
    "alpha · tanh(beta · x)",
    scaled_tangent,
    attributes=(number("alpha"), number("beta")),
    domain=Domain(attributes=draw_line),
    codomain=scaled_tangent_codomain,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.SCALED_TANH,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SCALED_TANH,
)
GELU = unary(
    "gelu",
    CATEGORY,
    "x · Φ(x), Φ the normal distribution or one of two approximations of it",
    gaussian,
    attributes=(Attribute("mode", AttributeKind.TEXT, "EXACT", choices=GELU_MODES),),
    domain=Domain(attributes=draw_mode),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.GELU,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.GELU,
)
SILU = unary(
    "silu",
    CATEGORY,
    "x / (1 + e⁻ˣ)",
    sigmoid_linear,
    domain=Domain(-12, 12),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.activations.SILU,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SILU,
)
SOFTMAX = Op(
    name="softmax",
    category=CATEGORY,
    summary="eˣ / Σ eˣ along axis",
    operands=(Operand("x"),),
    attributes=(axis_attribute(-1),),
    infer=softmax_type,
    meaning=softmax,
    sample=sample_softmax,
    codomain=UNIT,
    surface=Surface.FUSED,
    support=replace(F2, gate="softmax_support"),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SOFTMAX,
)
SOFTPLUS = unary(
    "softplus",
    CATEGORY,
    "log(1 + eˣ)",
    softened,
    domain=Domain(-12, 12),
    codomain=FROM_ZERO,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.SOFTPLUS,
)
SOFTPLUS_PARAMETRIC = Op(
    name="softplus_parametric",
    category=CATEGORY,
    summary="alpha[c] · log(1 + e^(beta[c] · x)), channels c on axis 1",
    operands=(Operand("x"), Operand("alpha", OperandKind.CONSTANT), Operand("beta", OperandKind.CONSTANT)),
    infer=softplus_parametric_type,
    meaning=softened_by_channel,
    sample=sample_softplus_parametric,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.SOFTPLUS_PARAMETRIC,
)
SOFTSIGN = unary(
    "softsign",
    CATEGORY,
    "x / (1 + |x|)",
    soft_sign,
    traits=SHRINKING,
    codomain=WITHIN_ONE,
    surface=Surface.FUSED,
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.activations.SOFTSIGN,),
    in_mil=True,
    gradient=lambda: gradients.pointwise.SOFTSIGN,
)
LINEAR_ACTIVATION = unary(
    "linear_activation",
    Category.LAYER,
    "alpha · x + beta",
    line,
    attributes=(number("alpha"), number("beta")),
    domain=Domain(attributes=draw_line),
    surface=Surface.FUSED,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pointwise.LINE,
)

"""Operations that bring values to a common scale: by statistics given or taken, by a length, or by their neighbours.

Variances are biased: they divide by the count. Parameters such as `gamma` are constants; their floating type may be
another than that of `x`, whose type the result has.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import euclidean_length, reshape_along
from aneforge.ops.common import AXES, F2, LIKELY_BRIDGE_F2, LIKELY_F2, epsilon_attribute
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample, draw_shape
from aneforge.ops.shapes import (
    divisible,
    expect_elements,
    expect_float,
    expect_least_rank,
    expect_rank,
    expect_shape,
    normalise_axes,
    reduced_axes,
)
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

CATEGORY = Category.NORMALISATION
NORMALISING = frozenset({Trait.NORMALISING})
STANDARDISING = NORMALISING | {Trait.STANDARDISING}
EPSILONS = (0.0, 1e-5, 0.5)

EPSILON = epsilon_attribute(1e-5)
GAMMA = Operand("gamma", OperandKind.CONSTANT)
BETA = Operand("beta", OperandKind.CONSTANT)
GAMMA_OR_NONE = Operand("gamma", OperandKind.CONSTANT, optional=True)
BETA_OR_NONE = Operand("beta", OperandKind.CONSTANT, optional=True)


# What the shape rules and the mathematics share.


def expect_normalised(x: TensorType, axes: Sequence[int]) -> None:
    """Check that a tensor holds floating-point numbers, and that there is something to normalise over.

    Raises:
        GraphError: It does not, no axis is named, or one is without elements.
    """
    expect_float(x)
    if not axes:
        raise GraphError("there is no axis to normalise over", seen="axes of length 0", limit="1 axis or more")
    expect_elements(x, axes, "normalised over")


def expect_parameters(shape: tuple[int, ...], of_what: str, **parameters: TensorType | None) -> None:
    """Check that every parameter that is given is of a floating type and has one shape.

    Raises:
        GraphError: One is not, or has another.
    """
    for name, parameter in parameters.items():
        if parameter is not None:
            expect_float(parameter, name)
            expect_shape(parameter, shape, of_what, name)


def standardised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Take off the mean over some axes and divide by the standard deviation."""
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / np.sqrt(np.mean(np.square(centred), axis=axes, keepdims=True) + epsilon)


def scaled_and_shifted(x: Array, gamma: Array | None, beta: Array | None, axes: Sequence[int] = (1,)) -> Array:
    """Multiply by gamma and add beta, where they are given, both placed along axes of `x`: by default the channels."""
    laid = [extent if axis in axes else 1 for axis, extent in enumerate(x.shape)]
    scaled = x if gamma is None else x * gamma.reshape(laid)
    return scaled if beta is None else scaled + beta.reshape(laid)


def across_channels(x: Array, axis: int, size: int) -> Array:
    """Add up, at every place of an axis, `size` places around it; of an even number the odd one comes after it.

    So it is in ONNX and, by tests that its authors run on devices, in the engine's layer and in MIL (inferred); torch
    has the odd one before. They are added one after the other, which every processor does alike.
    """
    along = np.moveaxis(x, axis, 0)
    padded = np.pad(along, [((size - 1) // 2, size // 2)] + [(0, 0)] * (x.ndim - 1))
    shifted = (padded[first : first + x.shape[axis]] for first in range(size))
    return np.moveaxis(reduce(np.add, shifted), 0, axis)


def power_of_response(base: Array, beta: float) -> Array:
    """Return a power of sums; that of most networks, 3/4, by roots, which every processor rounds alike."""
    if beta == 0.75:
        root = np.sqrt(base)
        return root * np.sqrt(root)
    return base**beta


def draw_parameter(chooser: Chooser, *extents: int) -> Fill:
    """Draw a parameter."""
    return Fill(TensorType(extents, chooser.choose(FLOATS)), -2, 2)


def draw_parameter_or_none(chooser: Chooser, *extents: int) -> Fill | None:
    """Draw a parameter, or none."""
    return draw_parameter(chooser, *extents) if chooser.choose([True, False]) else None


def draw_tensor(chooser: Chooser, *extents: int) -> Fill:
    """Draw a tensor of given extents."""
    return Fill(TensorType(extents, chooser.choose(FLOATS)))


# Statistics given.


def batch_norm_type(
    x: TensorType,
    mean: TensorType,
    variance: TensorType,
    gamma: TensorType | None,
    beta: TensorType | None,
    **_: object,
) -> TensorType:
    """Return the type of `x`; every parameter holds one number a channel."""
    expect_least_rank(x, 3)
    expect_float(x)
    expect_parameters((x.shape[1],), "the channels, axis 1 of x", mean=mean, variance=variance, gamma=gamma, beta=beta)
    return x


def batch_norm(
    x: Array, mean: Array, variance: Array, gamma: Array | None, beta: Array | None, *, epsilon: float
) -> Array:
    """Normalise each channel by its given mean and variance."""
    deviation = np.sqrt(reshape_along(variance, x.ndim) + epsilon)
    return scaled_and_shifted((x - reshape_along(mean, x.ndim)) / deviation, gamma, beta)


def sample_batch_norm(chooser: Chooser) -> Sample:
    """Draw a tensor of rank 3 to 5 with its channels' statistics."""
    extents = draw_shape(chooser, 3, 5, longest=4)
    channels = extents[1]
    operands = {
        "x": draw_tensor(chooser, *extents),
        "mean": draw_parameter(chooser, channels),
        "variance": Fill(TensorType((channels,), "fp32"), 0.1, 3),
        "gamma": draw_parameter_or_none(chooser, channels),
        "beta": draw_parameter_or_none(chooser, channels),
    }
    return Sample(operands, {"epsilon": chooser.choose(EPSILONS)})


BATCH_NORM = Op(
    name="batch_norm",
    category=CATEGORY,
    summary="gamma · (x − mean) / √(variance + epsilon) + beta by channel, axis 1",
    operands=(
        Operand("x"),
        Operand("mean", OperandKind.CONSTANT),
        Operand("variance", OperandKind.CONSTANT),
        GAMMA_OR_NONE,
        BETA_OR_NONE,
    ),
    attributes=(EPSILON,),
    infer=batch_norm_type,
    meaning=batch_norm,
    sample=sample_batch_norm,
    surface=Surface.FUSED,
    support=F2,
    decompositions=lambda: (
        decompositions.norms.BATCH_GAIN,
        decompositions.norms.AS_IMAGE,
        decompositions.norms.ONE_TYPE_OF_PARAMETERS,
        decompositions.norms.ONE_TYPE,
    ),
    in_mil=True,
    gradient=lambda: gradients.normalising.BATCH_NORM,
)


# Statistics taken from the values.


def layer_norm_type(
    x: TensorType,
    gamma: TensorType | None,
    beta: TensorType | None,
    *,
    axes: tuple[int, ...] | None,
    **_: object,
) -> TensorType:
    """Return the type of `x`; the parameters have the shape of the normalised axes, in the order of `x`."""
    found = sorted(reduced_axes(x.rank, axes))
    expect_normalised(x, found)
    normalised = tuple(x.shape[axis] for axis in found)
    expect_parameters(normalised, "the normalised axes of x", gamma=gamma, beta=beta)
    return x


def layer_norm(
    x: Array, gamma: Array | None, beta: Array | None, *, axes: tuple[int, ...] | None, epsilon: float
) -> Array:
    """Normalise over some axes together, all of them by default."""
    found = reduced_axes(x.ndim, axes)
    return scaled_and_shifted(standardised(x, found, epsilon), gamma, beta, found)


def sample_layer_norm(chooser: Chooser) -> Sample:
    """Draw a tensor and some of its axes: all, the last, the last two, the first, or the ends in reverse order."""
    extents = draw_shape(chooser, longest=4)
    rank = len(extents)
    several = [(-2, -1), (-1, 0), (1,)] if rank > 1 else []
    axes = chooser.choose([None, (-1,), (0,), *several])
    found = sorted(axis % rank for axis in (range(rank) if axes is None else axes))
    normalised = [extents[axis] for axis in found]
    operands = {
        "x": draw_tensor(chooser, *extents),
        "gamma": draw_parameter_or_none(chooser, *normalised),
        "beta": draw_parameter_or_none(chooser, *normalised),
    }
    return Sample(operands, {"axes": axes, "epsilon": chooser.choose(EPSILONS[1:])})


LAYER_NORM = Op(
    name="layer_norm",
    category=CATEGORY,
    summary="gamma · (x − μ) / √(σ² + epsilon) + beta; μ and σ² over the axes, all of them by default",
    operands=(Operand("x"), GAMMA_OR_NONE, BETA_OR_NONE),
    attributes=(AXES, EPSILON),
    infer=layer_norm_type,
    meaning=layer_norm,
    sample=sample_layer_norm,
    surface=Surface.FUSED,
    traits=STANDARDISING,
    support=F2,
    decompositions=lambda: (
        decompositions.norms.LAYER_MEANS,
        decompositions.norms.ONE_TYPE_OF_PARAMETERS,
        decompositions.norms.ONE_TYPE,
    ),
    in_mil=True,
    gradient=lambda: gradients.normalising.LAYER_NORM,
)


def instance_norm_type(x: TensorType, gamma: TensorType | None, beta: TensorType | None, **_: object) -> TensorType:
    """Return the type of `x`; the parameters hold one number a channel."""
    expect_rank(x, 3, 4)
    expect_normalised(x, range(2, x.rank))
    expect_parameters((x.shape[1],), "the channels, axis 1 of x", gamma=gamma, beta=beta)
    return x


def instance_norm(x: Array, gamma: Array | None, beta: Array | None, *, epsilon: float) -> Array:
    """Normalise every channel of every sample over its places."""
    return scaled_and_shifted(standardised(x, tuple(range(2, x.ndim)), epsilon), gamma, beta)


def sample_instance_norm(chooser: Chooser) -> Sample:
    """Draw a sequence or an image."""
    extents = draw_shape(chooser, 3, 4)
    operands = {
        "x": draw_tensor(chooser, *extents),
        "gamma": draw_parameter_or_none(chooser, extents[1]),
        "beta": draw_parameter_or_none(chooser, extents[1]),
    }
    return Sample(operands, {"epsilon": chooser.choose(EPSILONS[1:])})


INSTANCE_NORM = Op(
    name="instance_norm",
    category=CATEGORY,
    summary="gamma · (x − μ) / √(σ² + epsilon) + beta; μ and σ² of every channel of every sample",
    operands=(Operand("x"), GAMMA_OR_NONE, BETA_OR_NONE),
    attributes=(EPSILON,),
    infer=instance_norm_type,
    meaning=instance_norm,
    sample=sample_instance_norm,
    surface=Surface.FUSED,
    traits=STANDARDISING,
    support=replace(F2, gate="instance_norm_support"),
    decompositions=lambda: (
        decompositions.norms.INSTANCE_MEANS,
        decompositions.norms.AS_IMAGE,
        decompositions.norms.ONE_TYPE_OF_PARAMETERS,
        decompositions.norms.ONE_TYPE,
    ),
    in_mil=True,
    gradient=lambda: gradients.normalising.INSTANCE_NORM,
)


def channel_layer_norm_type(x: TensorType, gamma: TensorType, beta: TensorType, **_: object) -> TensorType:
    """Return the type of `x`; the parameters hold one number a channel."""
    if x.rank != 4 or x.shape[2] != 1:
        raise GraphError(
            "x is not laid out as channels of a sequence",
            seen=list(x.shape),
            limit="[N, C, 1, S]",
            remedy="reshape it, or use layer_norm",
        )
    expect_normalised(x, (1,))
    expect_parameters((x.shape[1],), "the channels, axis 1 of x", gamma=gamma, beta=beta)
    return x


def channel_layer_norm(x: Array, gamma: Array, beta: Array, *, epsilon: float) -> Array:
    """Normalise over the channels at every place."""
    return scaled_and_shifted(standardised(x, (1,), epsilon), gamma, beta)


def sample_channel_layer_norm(chooser: Chooser) -> Sample:
    """Draw channels of a sequence."""
    batch, channels, length = (chooser.integer(1, 5) for _ in range(3))
    operands = {
        "x": draw_tensor(chooser, batch, channels, 1, length),
        "gamma": draw_parameter(chooser, channels),
        "beta": draw_parameter(chooser, channels),
    }
    return Sample(operands, {"epsilon": chooser.choose(EPSILONS[1:])})


CHANNEL_LAYER_NORM = Op(
    name="channel_layer_norm",
    category=CATEGORY,
    summary="gamma · (x − μ) / √(σ² + epsilon) + beta; μ and σ² over the channels of [N, C, 1, S]",
    operands=(Operand("x"), GAMMA, BETA),
    attributes=(EPSILON,),
    infer=channel_layer_norm_type,
    meaning=channel_layer_norm,
    sample=sample_channel_layer_norm,
    surface=Surface.FUSED,
    in_mil=False,
    traits=STANDARDISING,
    support=F2,
    catalogued=False,
    decompositions=lambda: (decompositions.norms.CHANNEL_MEANS,),
    gradient=lambda: gradients.normalising.CHANNEL_LAYER_NORM,
)


def group_norm_type(x: TensorType, gamma: TensorType, beta: TensorType, *, num_groups: int, **_: object) -> TensorType:
    """Return the type of `x`; the parameters hold one number a channel."""
    expect_rank(x, 4)
    expect_normalised(x, (1, 2, 3))
    divisible("the number of channels by num_groups", x.shape[1], num_groups)
    expect_parameters((x.shape[1],), "the channels, axis 1 of x", gamma=gamma, beta=beta)
    return x


def group_norm(x: Array, gamma: Array, beta: Array, *, num_groups: int, epsilon: float) -> Array:
    """Normalise over every group of neighbouring channels and their places."""
    groups = x.reshape(x.shape[0], num_groups, -1)
    return scaled_and_shifted(standardised(groups, (2,), epsilon).reshape(x.shape), gamma, beta)


def sample_group_norm(chooser: Chooser) -> Sample:
    """Draw an image and a number of groups, from one group for all channels to one for each."""
    groups, each = chooser.integer(1, 3), chooser.integer(1, 3)
    batch, height, width = (chooser.integer(1, 4) for _ in range(3))
    operands = {
        "x": draw_tensor(chooser, batch, groups * each, height, width),
        "gamma": draw_parameter(chooser, groups * each),
        "beta": draw_parameter(chooser, groups * each),
    }
    return Sample(operands, {"num_groups": groups, "epsilon": chooser.choose(EPSILONS[1:])})


GROUP_NORM = Op(
    name="group_norm",
    category=CATEGORY,
    summary="gamma · (x − μ) / √(σ² + epsilon) + beta; μ and σ² of every group of channels of every sample",
    operands=(Operand("x"), GAMMA, BETA),
    attributes=(Attribute("num_groups", AttributeKind.INTEGER, least=1), EPSILON),
    infer=group_norm_type,
    meaning=group_norm,
    sample=sample_group_norm,
    surface=Surface.FUSED,
    in_mil=False,
    traits=STANDARDISING,
    support=F2,
    catalogued=False,
    decompositions=lambda: (decompositions.norms.GROUP_MEANS, decompositions.norms.GROUP_SUMS),
    gradient=lambda: gradients.normalising.GROUP_NORM,
)


# By a length.


def l2_norm_type(x: TensorType, *, axes: tuple[int, ...], **_: object) -> TensorType:
    """Return the type of `x`."""
    expect_normalised(x, normalise_axes(axes, x.rank))
    return x


def l2_norm(x: Array, *, axes: tuple[int, ...], epsilon: float) -> Array:
    """Divide by the Euclidean length over some axes, which is at least the root of epsilon."""
    return x / np.maximum(euclidean_length(x, axes), np.sqrt(epsilon))


def sample_l2_norm(chooser: Chooser) -> Sample:
    """Draw a tensor, some of its axes, and an epsilon that some lengths fall short of."""
    extents = draw_shape(chooser)
    axes = chooser.choose([(-1,), (0,), tuple(range(len(extents)))])
    return Sample({"x": draw_tensor(chooser, *extents)}, {"axes": axes, "epsilon": chooser.choose([1e-12, 4.0])})


L2_NORM = Op(
    name="l2_norm",
    category=CATEGORY,
    summary="x / max(‖x‖₂, √epsilon), the documented builder's form; the length over the axes, the last by default",
    operands=(Operand("x"),),
    attributes=(
        Attribute("axes", AttributeKind.INTEGERS, (-1,)),
        epsilon_attribute(1e-12),
    ),
    infer=l2_norm_type,
    meaning=l2_norm,
    sample=sample_l2_norm,
    surface=Surface.FUSED,
    traits=NORMALISING,
    support=F2,
    decompositions=lambda: (decompositions.norms.LENGTH,),
    in_mil=True,
    gradient=lambda: gradients.normalising.L2_NORM,
)


def rms_norm_type(x: TensorType, gamma: TensorType, **_: object) -> TensorType:
    """Return the type of `x`; gamma holds one number a place of the last axis."""
    expect_least_rank(x, 1)
    expect_normalised(x, (x.rank - 1,))
    expect_parameters((x.shape[-1],), "the last axis of x", gamma=gamma)
    return x


def rms_norm(x: Array, gamma: Array, *, epsilon: float) -> Array:
    """Divide by the root of the mean square, which is at least the root of epsilon: by lengths, as it is emitted."""
    extent = x.shape[-1]
    return x / np.maximum(euclidean_length(x, (-1,)), np.sqrt(extent * epsilon)) * (gamma * np.sqrt(extent))


def sample_rms_norm(chooser: Chooser) -> Sample:
    """Draw rows, and an epsilon that some rows' mean squares fall short of."""
    extents = draw_shape(chooser)
    operands = {"x": draw_tensor(chooser, *extents), "gamma": draw_parameter(chooser, extents[-1])}
    return Sample(operands, {"epsilon": chooser.choose([1e-5, 5.0])})


RMS_NORM = Op(
    name="rms_norm",
    category=CATEGORY,
    summary="gamma · x √D / max(‖x‖₂, √(D · epsilon)) over the last axis of D places: epsilon bounds, it is not added",
    operands=(Operand("x"), GAMMA),
    attributes=(EPSILON,),
    infer=rms_norm_type,
    meaning=rms_norm,
    sample=sample_rms_norm,
    surface=Surface.FUSED,
    in_mil=False,
    traits=NORMALISING,
    support=F2,
    catalogued=False,
    decompositions=lambda: (decompositions.norms.SCALED_LENGTH,),
    gradient=lambda: gradients.normalising.RMS_NORM,
)


# By the neighbours.


ALPHA = Attribute("alpha", AttributeKind.NUMBER, 1e-4, finite=True)
POWER = Attribute("beta", AttributeKind.NUMBER, 0.75, finite=True)
K = Attribute("k", AttributeKind.NUMBER, 1.0, finite=True)


def draw_response(chooser: Chooser) -> dict[str, AttributeValue]:
    """Draw alpha, beta and k so that the power is taken of a positive number."""
    return {
        "alpha": chooser.choose([1e-4, 0.5]),
        "beta": chooser.choose([0.75, 1.0, 0.5]),
        "k": chooser.choose([1.0, 2.0]),
    }


def local_response_norm_type(x: TensorType, **_: object) -> TensorType:
    """Return the type of `x`."""
    expect_least_rank(x, 3)
    expect_float(x)
    return x


def local_response_norm(x: Array, *, size: int, alpha: float, beta: float, k: float) -> Array:
    """Divide by a power of the squares of neighbouring channels, axis 1; channels beyond the ends count as 0."""
    return x / power_of_response(k + alpha / size * across_channels(np.square(x), 1, size), beta)


def sample_local_response_norm(chooser: Chooser) -> Sample:
    """Draw a tensor of rank 3 to 5 and a window, odd or even, longer than the channels or not."""
    extents = draw_shape(chooser, 3, 5, longest=4)
    return Sample({"x": draw_tensor(chooser, *extents)}, {"size": chooser.integer(1, 6), **draw_response(chooser)})


LOCAL_RESPONSE_NORM = Op(
    name="local_response_norm",
    category=CATEGORY,
    summary="x / (k + alpha / size · Σ x²)^beta; the sum over `size` channels around each, axis 1",
    operands=(Operand("x"),),
    attributes=(Attribute("size", AttributeKind.INTEGER, 5, least=1), ALPHA, POWER, K),
    infer=local_response_norm_type,
    meaning=local_response_norm,
    sample=sample_local_response_norm,
    surface=Surface.FUSED,
    support=replace(LIKELY_F2, gate="lrn_support"),
    in_mil=True,
    gradient=lambda: gradients.normalising.LOCAL_RESPONSE_NORM,
)


def lrn_type(x: TensorType, **_: object) -> TensorType:
    """Return the type of `x`."""
    expect_rank(x, 3)
    expect_float(x)
    return x


def lrn(x: Array, *, kernel_channel: int, alpha: float, beta: float, k: float) -> Array:
    """Divide by a power of the squares of neighbouring channels, axis 0; channels beyond the ends count as 0."""
    return x / power_of_response(k + alpha / kernel_channel * across_channels(np.square(x), 0, kernel_channel), beta)


def sample_lrn(chooser: Chooser) -> Sample:
    """Draw an image and a window, odd or even."""
    attributes = {"kernel_channel": chooser.integer(1, 6), **draw_response(chooser)}
    return Sample({"x": draw_tensor(chooser, *draw_shape(chooser, 3, 3))}, attributes)


LRN = Op(
    name="lrn",
    category=CATEGORY,
    summary="x / (k + alpha / kernel_channel · Σ x²)^beta; the sum over the channels around each of [C, H, W]",
    operands=(Operand("x"),),
    attributes=(Attribute("kernel_channel", AttributeKind.INTEGER, 5, least=1), ALPHA, POWER, K),
    infer=lrn_type,
    meaning=lrn,
    sample=sample_lrn,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=replace(LIKELY_BRIDGE_F2, gate="lrn_support"),
    catalogued=False,
    gradient=lambda: gradients.normalising.LRN,
)


def minmax_axis(dimension: str) -> int:
    """Return the axis of [C, H, W] that a dimension names."""
    return {"height": 1, "width": 2}[dimension]


def minmax_norm_type(x: TensorType, *, dimension: str, **_: object) -> TensorType:
    """Return the type of `x`."""
    expect_rank(x, 3)
    expect_normalised(x, (minmax_axis(dimension),))
    return x


def minmax_norm(x: Array, *, dimension: str, epsilon: float) -> Array:
    """Bring the smallest along a dimension to 0 and the largest nearly to 1."""
    axis = minmax_axis(dimension)
    least = np.min(x, axis=axis, keepdims=True)
    # 0 is added so that the sign of no zero remains: NumPy leaves to the processor which of them is the least.
    return (x - least + 0.0) / (np.max(x, axis=axis, keepdims=True) - least + epsilon)


def sample_minmax_norm(chooser: Chooser) -> Sample:
    """Draw an image and one of its two dimensions."""
    attributes = {
        "dimension": chooser.choose(["width", "height"]),
        "epsilon": chooser.choose([1e-5, 0.5]),
    }
    return Sample({"x": draw_tensor(chooser, *draw_shape(chooser, 3, 3))}, attributes)


MINMAX_NORM = Op(
    name="minmax_norm",
    category=CATEGORY,
    summary="(x − min) / (max − min + epsilon) along the width or the height of [C, H, W]",
    operands=(Operand("x"),),
    attributes=(Attribute("dimension", AttributeKind.TEXT, choices=("width", "height")), EPSILON),
    infer=minmax_norm_type,
    meaning=minmax_norm,
    sample=sample_minmax_norm,
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=replace(LIKELY_BRIDGE_F2, gate="minmax_norm_support"),
    catalogued=False,
    gradient=lambda: gradients.reducing.MINMAX,
)

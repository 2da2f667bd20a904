"""Gradients of normalisations; their parameters are constants.

With n the normalised value, h = g · gamma and s the deviation: (h − mean h − n · mean(h · n)) / s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.arrays import np
from aneforge.ops.decompositions.norms import along
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import axes_of, contract, keep_where, level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite, Passed
    from aneforge.ops.types import Array


def standardised(h: Term, x: Term, axes: tuple[int, ...], epsilon: float) -> Term:
    """Return the gradient of (x − mean) / deviation along axes."""

    def mean(value: Term) -> Term:
        return value.reduce_mean(axes=axes, keep_dims=True)

    centred = x - mean(x)
    factor = (mean(centred * centred) + epsilon).rsqrt(epsilon=0.0)
    normal = centred * factor
    return (h - mean(h) - normal * mean(h * normal)) * factor


def times_gamma(to: GradientSite, g: Term, gamma: Term | None, axes: Sequence[int], x: Term) -> Term:
    """Return g · gamma, gamma along axes of x."""
    return g if gamma is None else g * along(to, gamma, axes, x, "gamma")


def layer_norm(
    to: GradientSite,
    g: Term,
    x: Term,
    gamma: Term | None,
    _: Term | None,
    *,
    axes: tuple[int, ...] | None,
    epsilon: float,
) -> Sequence[Passed]:
    """Return the gradient of a normalisation over some axes, or all."""
    places = axes_of(len(x.shape), axes)
    return standardised(times_gamma(to, g, gamma, places, x), x, places, epsilon), None, None


def channel_layer_norm(to: GradientSite, g: Term, x: Term, gamma: Term, _: Term, *, epsilon: float) -> Sequence[Passed]:
    """Return the gradient of a normalisation over the channels of every place."""
    return standardised(times_gamma(to, g, gamma, (1,), x), x, (1,), epsilon), None, None


def instance_norm(
    to: GradientSite, g: Term, x: Term, gamma: Term | None, _: Term | None, *, epsilon: float
) -> Sequence[Passed]:
    """Return the gradient of a normalisation over the places of every channel."""
    places = tuple(range(2, len(x.shape)))
    return standardised(times_gamma(to, g, gamma, (1,), x), x, places, epsilon), None, None


def group_norm(
    to: GradientSite, g: Term, x: Term, gamma: Term, _: Term, *, num_groups: int, epsilon: float
) -> Sequence[Passed]:
    """Return the gradient of a normalisation over groups of channels."""
    batch, channels, *places = x.shape
    grouped = (batch, num_groups, channels // num_groups, math.prod(places))
    h = times_gamma(to, g, gamma, (1,), x).reshape(shape=grouped)
    return standardised(h, x.reshape(shape=grouped), (2, 3), epsilon).reshape(shape=x.shape), None, None


def batch_norm(
    to: GradientSite,
    g: Term,
    x: Term,
    _: Term,
    variance: Term,
    gamma: Term | None,
    __: Term | None,
    *,
    epsilon: float,
) -> Sequence[Passed]:
    """Return g · gamma / √(variance + epsilon)."""
    assert variance.known is not None  # noqa: S101 - the op table takes only constants
    factor = 1 / np.sqrt(variance.known + epsilon)
    if gamma is not None and gamma.known is not None:
        factor = factor * gamma.known
    laid = to.constant(factor.reshape((-1, *(1,) * (len(x.shape) - 2))), x.dtype, "gamma over the deviation")
    return g * laid, None, None, None, None


def unit_length(to: GradientSite, h: Term, x: Term, axes: tuple[int, ...], least: float) -> Term:
    """Return the gradient of x / max(‖x‖, least)."""
    length = x.reduce_l2_norm(axes=axes, keep_dims=True)
    bounded = length.threshold(alpha=least)
    normal = x / bounded
    share = keep_where(to, length.greater(level(to, least, x)), (h * normal).reduce_sum(axes=axes, keep_dims=True))
    return (h - normal * share) / bounded


def l2_norm(to: GradientSite, g: Term, x: Term, *, axes: tuple[int, ...], epsilon: float) -> Term:
    """Return (g − n · Σ g · n) / ‖x‖."""
    return unit_length(to, g, x, axes, math.sqrt(epsilon))


def rms_norm(to: GradientSite, g: Term, x: Term, gamma: Term, *, epsilon: float) -> Sequence[Passed]:
    """Return (h − n · mean(h · n)) / rms, as that of a length: gamma · √D is one factor."""
    assert gamma.known is not None  # noqa: S101 - the op table takes only a constant
    extent = x.shape[-1]
    scale = to.constant(gamma.known * math.sqrt(extent), x.dtype, "gamma times the root of the extent")
    return unit_length(to, g * scale, x, (len(x.shape) - 1,), math.sqrt(extent * epsilon)), None


def window_matrix(extent: int, size: int) -> Array:
    """Return which channels each channel sums: row c has ones at the `size` channels around c."""
    offset = np.arange(extent)[None] - np.arange(extent)[:, None]
    return ((offset >= -((size - 1) // 2)) & (offset <= size // 2)).astype(np.float64)


class Powers(TypedDict):
    """The numbers of a local response norm."""

    alpha: float
    beta: float
    k: float


class Response(Powers):
    """The attributes of a local response norm: its numbers and its window of channels."""

    size: int


def response(to: GradientSite, g: Term, x: Term, axis: int, **attributes: Unpack[Response]) -> Term:
    """Return the gradient of x / s^beta, s = k + alpha / size · Σ x² over a window of channels."""
    size, alpha, beta = attributes["size"], attributes["alpha"], attributes["beta"]
    matrix = window_matrix(x.shape[axis], size)
    summed = contract(to, x * x, axis, matrix.T).linear_activation(alpha=alpha / size, beta=attributes["k"])
    power = summed.pow(level(to, -beta, x))
    inner = contract(to, g * x * (power / summed), axis, matrix)
    return g * power - x * inner * (2 * alpha * beta / size)


def local_response_norm(to: GradientSite, g: Term, x: Term, **attributes: Unpack[Response]) -> Term:
    """Return the gradient, channels on axis 1."""
    return response(to, g, x, 1, **attributes)


def lrn(to: GradientSite, g: Term, x: Term, *, kernel_channel: int, **powers: Unpack[Powers]) -> Term:
    """Return the gradient, channels on axis 0."""
    return response(to, g, x, 0, size=kernel_channel, **powers)


LAYER_NORM = Gradient(
    "(h − mean h − n · mean(h · n)) / s, h = g · gamma, n the normalised x, s the deviation", layer_norm
)
CHANNEL_LAYER_NORM = Gradient("as layer_norm, over the channels", channel_layer_norm)
INSTANCE_NORM = Gradient("as layer_norm, over every channel", instance_norm)
GROUP_NORM = Gradient("as layer_norm, over every group", group_norm)
BATCH_NORM = Gradient("g · gamma / √(variance + epsilon)", batch_norm)
L2_NORM = Gradient("(g − n · Σ g · n) / ‖x‖, n = x / ‖x‖; g / √epsilon below it", l2_norm)
RMS_NORM = Gradient("(h − n · mean(h · n)) / rms, h = g · gamma; h / √epsilon below it", rms_norm)
LOCAL_RESPONSE_NORM = Gradient(
    "g · s^(−beta) − 2 · alpha · beta / size · x · Σ g · x · s^(−beta − 1), s the sum", local_response_norm
)
LRN = Gradient("as local_response_norm", lrn)

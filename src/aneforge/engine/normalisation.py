"""Softmax and norms: the steps of the engine, each of which leaves one fp16 result.

Softmax along the last axis (decoded from task descriptors): the largest; t = fp16((x − largest) · log2 e) in one
operation; the table of powers of two; the sum with the reciprocal read off its table in the same task, so that the sum
is not rounded before; one product. Layer norm: the mean; the sum of squared distances, scaled by 1 / n, epsilon added
and the reciprocal root read off its table in one task; (x − mean) times that. Three fp16 results in all; gamma and beta
are operations of their own. Where descriptors have no more than fp16 for epsilon, the engine adds that number
(`norm_epsilon` of the datapath). The rounding points follow from the tasks and are inferred; the order of the sums is
not known (`reductions`). The other norms are taken to go the same way, and so is softmax along other axes, but on
targets whose descriptors say otherwise: there the sum over channels or rows is one of products with weights of 1, in
the accumulator of convolutions, and the reciprocal is read off for that sum (decoded; `softmax_sum` of the datapath).

The documented builder writes its norms as separate operations, and the published figures of norms come from that form:
such a program runs here as the operations that it holds, each of which rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.activations import LOG2_E
from aneforge.engine.choices import switch
from aneforge.engine.golden import EDGE, product
from aneforge.engine.neuron import table
from aneforge.engine.planar import add, host_fp16, mul, read
from aneforge.engine.reductions import accumulate, adder_of, mean, reciprocal_count, squares
from aneforge.engine.rounding import decode_operand, to_fp16
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.shapes import normalise_axes, reduced_axes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Axes = tuple[int, ...]

__all__ = [
    "BY_PRODUCTS",
    "FOR_TARGET",
    "Steps",
    "adds_products",
    "find_added_epsilon",
    "softmax",
    "standardise",
    "sum_of_products",
]

BY_PRODUCTS = "products"
"""The value of `softmax_sum` where sums over channels and rows are sums of products."""
ROWS_AND_CHANNELS = (-2, -3)


def softmax(x: Array, axis: int, adder: AdderChoice | None) -> Array:
    """Return eˣ / Σ eˣ along an axis; without an adder the sum is one of products with 1."""
    numbers, axes = read(x), normalise_axes((axis,), x.ndim)
    largest = np.max(numbers, axis=axes, keepdims=True)
    powers = table("exp2", to_fp16((numbers - largest) * LOG2_E))
    total = sum_of_products(powers, axes[0]) if adder is None else accumulate(read(powers), axes, adder)
    return mul(powers, table("inverse", total))


def sum_of_products(values: Array, axis: int) -> Array:
    """Return sums of numbers that are not negative, each times 1, as the accumulator of products has them.

    No order changes them: such a sum only grows.

    >>> (sum_of_products(np.array([[0.5, 2.0**-17, 2.0**-18]]), 1) * 2**16).tolist()
    [[32769.0]]
    """
    terms = product(decode_operand(values), decode_operand(np.ones(())))
    total = np.sum(terms, axis=axis, keepdims=True)
    return np.where(total >= EDGE, np.inf, total)


def adds_products(target: Target, axis: int, rank: int) -> bool:
    """Return whether softmax along an axis adds products on a target: along channels or rows, by its descriptors.

    >>> from aneforge.targets import Family, resolve
    >>> first, later = resolve(Family.A13), resolve(Family.A16)
    >>> [adds_products(first, axis, 4) for axis in (0, 1, 2, 3)], adds_products(later, 1, 4)
    ([False, True, True, False], False)
    """
    place = axis - rank if axis >= 0 else axis
    return place in ROWS_AND_CHANNELS and switch(target, "softmax_sum") == BY_PRODUCTS


def find_added_epsilon(target: Target, epsilon: float) -> float:
    """Return the epsilon that a norm of a target adds to the variance, as its descriptors hold it.

    >>> from aneforge.targets import Family, resolve
    >>> [find_added_epsilon(resolve(family), 1e-12) for family in (Family.A13, Family.A16)]
    [0.0, 9.999999960041972e-13]
    """
    in_fp16 = switch(target, "norm_epsilon") == "fp16"
    return float(host_fp16(np.asarray(epsilon)) if in_fp16 else np.float32(epsilon))


def standardise(x: Array, axes: Axes, epsilon: float, adder: AdderChoice) -> Array:
    """Return (x − μ) / √(σ² + epsilon), μ and σ² over some axes: three fp16 results."""
    distances = read(x) - read(mean(x, axes, adder))
    variance = accumulate(squares(distances), axes, adder) * reciprocal_count(x, axes)
    roots = table("rsqrt", variance + float(np.float32(epsilon)))
    return to_fp16(distances * read(roots))


def by_length(x: Array, axes: Axes, least: float, adder: AdderChoice) -> Array:
    """Return x times the reciprocal root of Σ x², which is at least a given number."""
    power = np.maximum(accumulate(squares(read(x)), axes, adder), least)
    return mul(x, table("rsqrt", power))


@dataclass(frozen=True, slots=True)
class Steps:
    """What the operations below are made of; the kernels have them too."""

    softmax: Callable[[Array, int, AdderChoice | None], Array]
    standardised: Callable[[Array, Axes, float, AdderChoice], Array]
    by_length: Callable[[Array, Axes, float, AdderChoice], Array]
    mul: Callable[[Array, Array], Array]
    add: Callable[[Array, Array], Array]
    layer_norm: Callable[[Array, Axes, float, AdderChoice, Array | None, Array | None], Array] | None = None
    """Standardised values times gamma plus beta, shaped as the axes, in one step; None for these steps one by one."""

    def standardised_affine(
        self,
        x: Array,
        axes: Axes,
        epsilon: float,
        adder: AdderChoice,
        gamma: Array | None,
        beta: Array | None,
    ) -> Array:
        """Return standardised values times gamma plus beta, both shaped as the axes."""
        if self.layer_norm is not None:
            return self.layer_norm(x, axes, epsilon, adder, gamma, beta)
        result = self.standardised(x, axes, epsilon, adder)
        return self.affine(result, along(gamma, x.ndim, axes), along(beta, x.ndim, axes))

    def affine(self, x: Array, gamma: Array | None, beta: Array | None) -> Array:
        """Return gamma · x + beta, two operations; both broadcast."""
        scaled = x if gamma is None else self.mul(x, gamma)
        return scaled if beta is None else self.add(scaled, beta)


GOLDEN = Steps(softmax, standardise, by_length, mul, add)


def along(values: Array | None, rank: int, axes: Axes) -> Array | None:
    """Return a parameter in a shape that broadcasts along some axes of a tensor."""
    if values is None:
        return None
    shape = iter(values.shape)
    return values.reshape([next(shape) if axis in axes else 1 for axis in range(rank)])


def by_channel(values: Array | None, rank: int) -> Array | None:
    """Return one number a channel in a shape that broadcasts along axis 1."""
    return None if values is None else reshape_along(values, rank)


# Operations of the table, on a target.


def softmax_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return softmax with the order of a target."""
    adder = adder_of(target)

    def function(x: Array, *, axis: int) -> Array:
        return steps.softmax(x, axis, None if adds_products(target, axis, x.ndim) else adder)

    return function


def layer_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return layer_norm with the order of a target."""
    adder = adder_of(target)

    def function(x: Array, gamma: Array | None, beta: Array | None, *, axes: Axes | None, epsilon: float) -> Array:
        found = reduced_axes(x.ndim, axes)
        return steps.standardised_affine(x, found, find_added_epsilon(target, epsilon), adder, gamma, beta)

    return function


def instance_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return instance_norm with the order of a target: every channel of every sample over its places."""
    adder = adder_of(target)

    def function(x: Array, gamma: Array | None, beta: Array | None, *, epsilon: float) -> Array:
        result = steps.standardised(x, tuple(range(2, x.ndim)), find_added_epsilon(target, epsilon), adder)
        return steps.affine(result, by_channel(gamma, x.ndim), by_channel(beta, x.ndim))

    return function


def channel_layer_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return channel_layer_norm with the order of a target: over the channels at every place."""
    adder = adder_of(target)

    def function(x: Array, gamma: Array, beta: Array, *, epsilon: float) -> Array:
        result = steps.standardised(x, (1,), find_added_epsilon(target, epsilon), adder)
        return steps.affine(result, by_channel(gamma, x.ndim), by_channel(beta, x.ndim))

    return function


def group_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return group_norm with the order of a target: over groups of neighbouring channels and their places."""
    adder = adder_of(target)

    def function(x: Array, gamma: Array, beta: Array, *, num_groups: int, epsilon: float) -> Array:
        groups = x.reshape(x.shape[0], num_groups, -1)
        result = steps.standardised(groups, (2,), find_added_epsilon(target, epsilon), adder).reshape(x.shape)
        return steps.affine(result, by_channel(gamma, x.ndim), by_channel(beta, x.ndim))

    return function


def l2_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return l2_norm with the order of a target."""
    adder = adder_of(target)

    def function(x: Array, *, axes: Axes, epsilon: float) -> Array:
        return steps.by_length(x, normalise_axes(axes, x.ndim), float(np.float32(epsilon)), adder)

    return function


def rms_norm_on(target: Target, steps: Steps = GOLDEN) -> Callable[..., Array]:
    """Return rms_norm with the order of a target: by lengths, gamma times the root of the extent held in fp16."""
    adder = adder_of(target)

    def function(x: Array, gamma: Array, *, epsilon: float) -> Array:
        extent = x.shape[-1]
        shorter = steps.by_length(x, (x.ndim - 1,), float(np.float32(extent * epsilon)), adder)
        return steps.mul(shorter, (gamma.astype(np.float64) * np.sqrt(extent)).astype(np.float16))

    return function


FOR_TARGET: Mapping[str, Callable[..., Callable[..., Array]]] = {
    "channel_layer_norm": channel_layer_norm_on,
    "group_norm": group_norm_on,
    "instance_norm": instance_norm_on,
    "l2_norm": l2_norm_on,
    "layer_norm": layer_norm_on,
    "rms_norm": rms_norm_on,
    "softmax": softmax_on,
}
"""Operations whose sums depend on the order of the target: functions of it and of their steps, else golden ones."""

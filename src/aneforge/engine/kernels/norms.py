"""Softmax and the steps of norms, as `engine.normalisation` has them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import normalisation
from aneforge.engine.activations import ACTIVATIONS, LOG2_E
from aneforge.engine.choices import choices
from aneforge.engine.kernels.arrays import from_golden
from aneforge.engine.kernels.distances import largest_magnitude, read, scaled_distances, squared_distances
from aneforge.engine.kernels.elements import add, lookup, mul, table_of
from aneforge.engine.kernels.matmul import matmul_total
from aneforge.engine.kernels.reductions import Of, accumulate, largest, mean
from aneforge.engine.planar import host_fp16
from aneforge.engine.reductions import reciprocal_count
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.ops.shapes import normalise_axes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice

    Array = npt.NDArray[Any]
    Axes = tuple[int, ...]

__all__ = ["STEPS", "activation", "by_length", "softmax", "standardised", "table_of_golden"]


@cache
def table_of_golden(function: Callable[[Array], Array]) -> npt.NDArray[np.uint16]:
    """Return a function of the golden model as a table for every number, made once."""
    return table_of(function)


def activation(name: str, x: Array) -> Array:
    """Return a function of the activation unit at fp16 numbers.

    >>> activation("gelu", np.zeros(1, np.float16)).tolist()
    [-0.0007538795471191406]

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return lookup(x, table_of_golden(ACTIVATIONS[name]))


def read_off(name: str, sums: Array) -> Array:
    """Return a function of the activation unit at sums that were not rounded, of which there are few."""
    with np.errstate(all="ignore"):
        return host_fp16(ACTIVATIONS[name](sums))


def softmax(x: Array, axis: int, adder: AdderChoice | None) -> Array:
    """Return eˣ / Σ eˣ along an axis, by products without an adder; inputs that are not numbers go the golden way.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    if largest_magnitude(x) > FP16_INFINITY:
        return from_golden(normalisation.softmax(x, axis, adder), x)
    axes = normalise_axes((axis,), x.ndim)
    shifts = read(largest(x, axes=axes, keep_dims=True))
    powers = activation("exp2", scaled_distances(x, shifts, np.asarray(LOG2_E)))
    total = sum_of_products(powers, axes[0]) if adder is None else accumulate(powers, axes, adder)
    return mul(powers, read_off("inverse", total))


def sum_of_products(values: Array, axis: int) -> Array:
    """Return sums along an axis of numbers that are not negative, each times 1, as products add up."""
    first = np.moveaxis(values, axis, 0)
    ones = np.ones((1, first.shape[0]), np.float16)
    total = matmul_total(ones, np.ascontiguousarray(first.reshape(first.shape[0], -1)))
    return np.moveaxis(total.reshape(1, *first.shape[1:]), 0, axis)


def standardised(x: Array, axes: Axes, epsilon: float, adder: AdderChoice) -> Array:
    """Return (x − μ) / √(σ² + epsilon), μ and σ² over some axes.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    if not choices().reduction.squares_are_rounded:
        return from_golden(normalisation.standardised(x, axes, epsilon, adder), x)
    means = read(mean(x, axes, adder))
    variance = accumulate(squared_distances(x, means), axes, adder) * reciprocal_count(x, axes)
    roots = read_off("rsqrt", variance + float(np.float32(epsilon)))
    return scaled_distances(x, means, read(roots))


def by_length(x: Array, axes: Axes, least: float, adder: AdderChoice) -> Array:
    """Return x times the reciprocal root of Σ x², which is at least a given number.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return mul(x, read_off("rsqrt", np.maximum(accumulate(x, axes, adder, Of.SQUARES), least)))


STEPS = normalisation.Steps(softmax, standardised, by_length, mul, add)
"""What the operations of `engine.normalisation` are made of, on the kernels."""

"""Softmax and the steps of norms, as `engine.normalisation` has them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import normalisation
from aneforge.engine.activations import ACTIVATIONS, LOG2_E, inverse_knots, reciprocal_root, root_knots
from aneforge.engine.kernels.arrays import as_given, bits_of, from_golden, golden_halves
from aneforge.engine.kernels.distances import compute_scaled_distances, largest_magnitude, read
from aneforge.engine.kernels.elements import add, lookup, mul, table_of
from aneforge.engine.kernels.library import address, available
from aneforge.engine.kernels.matmul import matmul_total
from aneforge.engine.kernels.reductions import Kind, Of, extents_of, fits, largest, run_along
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

__all__ = ["STEPS", "activation", "by_length", "layer_norm", "softmax", "standardise", "table_of_golden"]


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
    """Return eˣ / Σ eˣ along an axis, by products without an adder, except that NaN is left to the golden model.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    axes = normalise_axes((axis,), x.ndim)
    if adder is None:
        return softmax_by_products(x, axes[0])
    out = run_norm(Kind.SOFTMAX, x, axes, adder, (LOG2_E, 0.0))
    return from_golden(normalisation.softmax(golden_halves(x), axis, adder), x) if out is None else out


def softmax_by_products(x: Array, axis: int) -> Array:
    """Return softmax whose sum is one of products with 1."""
    if largest_magnitude(x) > FP16_INFINITY:
        return from_golden(normalisation.softmax(x, axis, None), x)
    shifts = read(largest(x, axes=(axis,), keep_dims=True))
    powers = activation("exp2", compute_scaled_distances(x, shifts, np.asarray(LOG2_E)))
    return mul(powers, read_off("inverse", sum_of_products(powers, axis)))


def sum_of_products(values: Array, axis: int) -> Array:
    """Return sums along an axis of numbers that are not negative, each times 1, as products add up."""
    first = np.moveaxis(values, axis, 0)
    ones = np.ones((1, first.shape[0]), np.float16)
    total = matmul_total(ones, np.ascontiguousarray(first.reshape(first.shape[0], -1)))
    return np.moveaxis(total.reshape(1, *first.shape[1:]), 0, axis)


def standardise(x: Array, axes: Axes, epsilon: float, adder: AdderChoice) -> Array:
    """Return (x − μ) / √(σ² + epsilon), μ and σ² over some axes.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return layer_norm(x, axes, epsilon, adder, None, None)


def layer_norm(
    x: Array, axes: Axes, epsilon: float, adder: AdderChoice, gamma: Array | None, beta: Array | None
) -> Array:
    """Return standardised values times gamma plus beta, which are shaped as the axes.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    numbers = (reciprocal_count(x, axes), float(np.float32(epsilon)))
    out = run_norm(Kind.STANDARDISED, x, axes, adder, numbers, (gamma, beta))
    if out is not None:
        return out
    plain = from_golden(normalisation.standardise(golden_halves(x), axes, epsilon, adder), x)
    return STEPS.affine(plain, normalisation.along(gamma, x.ndim, axes), normalisation.along(beta, x.ndim, axes))


def by_length(x: Array, axes: Axes, least: float, adder: AdderChoice) -> Array:
    """Return x times the reciprocal root of Σ x², which is at least a given number.

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    out = run_norm(Kind.BY_LENGTH, x, axes, adder, (0.0, least))
    return from_golden(normalisation.by_length(golden_halves(x), axes, least, adder), x) if out is None else out


def run_norm(
    kind: Kind,
    x: Array,
    axes: Axes,
    adder: AdderChoice,
    numbers: tuple[float, float],
    behind: tuple[Array | None, Array | None] = (None, None),
) -> Array | None:
    """Return a norm of the kernels, None where the golden model has to answer.

    `numbers` are the factor and the epsilon of kernels.h; a gain and an offset after it have one number for every
    place of the axes.
    """
    bits = bits_of("norm", x)
    extents = extents_of(x.shape, axes)
    if not available() or x.size == 0 or extents is None or not fits(adder, Of.SQUARES):
        return None
    out = np.empty(x.shape, np.uint16)
    gain, offset = (None if one is None else np.ascontiguousarray(bits_of("norm", one)) for one in behind)
    factors = np.array(numbers)
    done = run_along(
        kind,
        np.ascontiguousarray(bits),
        extents,
        adder,
        out,
        factor=address(factors[:1]),
        epsilon=address(factors[1:]),
        knots=address(knots_of(kind)),
        powers=address(table_of_golden(ACTIVATIONS["exp2"])) if kind is Kind.SOFTMAX else None,
        gain=None if gain is None else address(gain),
        offset=None if offset is None else address(offset),
    )
    return as_given(out, x) if done else None


@cache
def knots_of(kind: Kind) -> Array:
    """Return the table that a norm reads its sum off."""
    return inverse_knots() if kind is Kind.SOFTMAX else root_knots(reciprocal_root)


STEPS = normalisation.Steps(softmax, standardise, by_length, mul, add, layer_norm)
"""What the operations of `engine.normalisation` are made of, on the kernels."""

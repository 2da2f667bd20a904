"""Operations of the table on the kernels, for fp16 operands; the golden model has all others.

What an operation is made of is written once, next to its golden arithmetic (`normalisation`, `pooling`, `products`,
`attention`, `crop`); here it is given the kernels instead of the golden functions. A function of one element is not
here: it is a table (`dispatch`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine import attention, crop, golden, neuron, normalisation, planar, pooling, products, reductions
from aneforge.engine.choices import choices
from aneforge.engine.kernels import norms
from aneforge.engine.kernels.arrays import bits_of, from_golden
from aneforge.engine.kernels.convolution import (
    apply_gain_to_convolution,
    apply_gain_to_winograd,
    convolution,
    convolution_total,
    winograd_convolution,
    winograd_total,
)
from aneforge.engine.kernels.deconvolution import deconvolution, deconvolution_total
from aneforge.engine.kernels.distances import largest_magnitude
from aneforge.engine.kernels.elements import add, lookup, maximum, minimum, mul, sub, to_fp16
from aneforge.engine.kernels.matmul import matmul, matmul_total
from aneforge.engine.kernels.norms import activation, table_of_golden
from aneforge.engine.kernels.reductions import (
    Of,
    accumulate,
    average_pool,
    euclidean_pool,
    largest,
    max_pool,
    mean,
    smallest,
    total,
)
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.numbers import FP16_INFINITY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.engine.golden import Padding, Window
    from aneforge.ops.groups.pooling import PoolAttributes
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Axes = tuple[int, ...]
    Function = Callable[..., Array | tuple[Array, ...]]

__all__ = ["FOR_TARGET", "FUNCTIONS", "PRODUCTS", "TOTALS", "convolve_with_gain", "gain_offset", "through_crop"]


# Products.


def scaling(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return a 1×1 convolution of one channel as a scaling; a bias that is not of fp16 is left to the golden model."""
    halves = None if bias is None else planar.host_fp16(bias)
    if halves is not None and not np.array_equal(halves, np.asarray(bias)):
        return from_golden(golden.scaling_convolution(x, weight, bias), x)
    scaled = mul(x, weight.reshape(1, -1, *(1,) * (x.ndim - 2)))
    return scaled if halves is None else add(scaled, reshape_along(halves, x.ndim))


def scaling_total(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return a scaling in float64; it has no sum that is rounded later."""
    return scaling(x, weight, bias).astype(np.float64)


PRODUCTS = products.Products(matmul, convolution, winograd_convolution, scaling, deconvolution)
"""Products, rounded as they leave."""
TOTALS = products.Products(matmul_total, convolution_total, winograd_total, scaling_total, deconvolution_total)
"""Their sums before that, in float64."""


def convolve_with_gain(gain: Array, offset: Array | None) -> products.Products:
    """Return convolutions with a gain and offset of every output channel after their sums, and no bias before."""

    def direct(x: Array, weight: Array, _: Array | None, **window: Unpack[Window]) -> Array:
        return apply_gain_to_convolution(x, weight, gain, offset, **window)

    def winograd(x: Array, weight: Array, _: Array | None, *, pad: Padding) -> Array:
        return apply_gain_to_winograd(x, weight, gain, offset, pad=pad)

    return replace(TOTALS, convolution=direct, winograd=winograd)


# Elements and pairs.


def through_crop(values: Array) -> Array:
    """Return values after the fixed-point crop."""
    return lookup(values, table_of_golden(crop.through_crop))


def limit(values: Array) -> Array:
    """Return numbers as any operation leaves them: what is larger than any number is infinite."""
    bits = bits_of("select", values)
    magnitude = np.minimum(bits & 0x7FFF, 0x7C00)
    return (magnitude | (bits & 0x8000)).view(np.float16)


def order(values: Array) -> npt.NDArray[np.int16]:
    """Return integers in the order of fp16 numbers as the engine reads them; zeros of both signs are one."""
    bits = bits_of("compare", values)
    magnitude = (bits & 0x7FFF).astype(np.int16)
    return np.where(bits & 0x8000, -magnitude, magnitude)


def compared(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a comparison of pairs."""

    def function(x: Array, y: Array) -> Array:
        return compare(order(x), order(y))

    return function


def select(cond: Array, a: Array, b: Array) -> Array:
    """Return a where a condition holds, else b."""
    return limit(np.where(cond, a, b))


def real_div(x: Array, y: Array) -> Array:
    """Return x times the reciprocal of y, read off its table."""
    return mul(x, activation("inverse", y))


def floor_div(x: Array, y: Array) -> Array:
    """Return a quotient rounded down."""
    return lookup(real_div(x, y), table_of_golden(neuron.floor))


def combine(x: Array, y: Array, *, mode: str) -> Array:
    """Combine pairs as a mode says."""
    return {"add": add, "sub": sub, "mul": mul, "max": maximum, "min": minimum}[mode](x, y)


def prelu(x: Array, alpha: Array) -> Array:
    """Return x, scaled by its channel's slope where it is negative."""
    return np.where(order(x) < 0, mul(x, reshape_along(alpha, x.ndim)), limit(x))


def softplus_parametric(x: Array, alpha: Array, beta: Array) -> Array:
    """Return alpha · log(1 + e^(beta · x))."""
    inner = mul(reshape_along(beta, x.ndim), x)
    return mul(reshape_along(alpha, x.ndim), lookup(inner, table_of_golden(neuron.softplus)))


def gain_offset(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Return gain · x + offset, both of fp16 and broadcast to x, as `planar.gain_offset` rounds them."""
    if gain is None or offset is None or choices().gain_offset.product_is_rounded:
        scaled = x if gain is None else mul(x, gain)
        return scaled if offset is None else add(scaled, offset)
    return to_fp16(planar.read(x) * planar.read(gain) + planar.read(offset))


def channel_gain_offset(x: Array, gain: Array | None, offset: Array | None) -> Array:
    """Return gain · x + offset with one of each per channel, axis 1."""
    if gain is None and offset is None:
        return limit(x)
    return gain_offset(x, *(None if one is None else reshape_along(one, x.ndim) for one in (gain, offset)))


# Reductions and pooling.


def place_of(find: Callable[..., Array]) -> Callable[..., Array]:
    """Return an operation that finds the place of an extreme; the first of equal ones."""

    def function(x: Array, *, axis: int, keep_dims: bool, output_dtype: str) -> Array:
        return find(order(x), axis=axis, keepdims=keep_dims).astype(output_dtype)

    return function


def length(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return the root of Σ x²."""
    return activation("sqrt", total(x, axes, adder, Of.SQUARES))


def log_of_total(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return log Σ x."""
    return activation("log", total(x, axes, adder))


def log_of_total_of_powers(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return log Σ eˣ, the largest x taken off first and added again; by the golden model where one is NaN."""
    if largest_magnitude(x) > FP16_INFINITY:
        return from_golden(reductions.log_of_total_of_powers(x, axes, adder), x)
    most = largest(x, axes=axes, keep_dims=True)
    return add(log_of_total(activation("exp", sub(x, most)), axes, adder), most)


def square_of_total(x: Array, axes: Axes, adder: AdderChoice) -> Array:
    """Return (Σ x)², rounded once."""
    return to_fp16(np.square(accumulate(x, axes, adder)))


def average(x: Array, adder: AdderChoice, attributes: PoolAttributes) -> Array:
    """Return the average of every window."""
    return average_pool(x, adder, **attributes)


def euclidean(x: Array, adder: AdderChoice, attributes: PoolAttributes) -> Array:
    """Return the root of the sum of squares of every window."""
    return activation("sqrt", euclidean_pool(x, adder, **attributes))


POOLS = pooling.Pools(max_pool, average, euclidean)

FUNCTIONS: Mapping[str, Function] = {
    **{name: function(PRODUCTS) for name, function in products.BY_PRODUCTS.items()},
    "add": add,
    "dynamic_goc": channel_gain_offset,
    "equal": compared(np.equal),
    "floor_div": floor_div,
    "greater": compared(np.greater),
    "greater_equal": compared(np.greater_equal),
    "less": compared(np.less),
    "less_equal": compared(np.less_equal),
    "max_pool": max_pool,
    "maximum": maximum,
    "minimum": minimum,
    "mul": mul,
    "not_equal": compared(np.not_equal),
    "pe_elementwise": combine,
    "pe_goc": channel_gain_offset,
    "prelu": prelu,
    "real_div": real_div,
    "reduce_argmax": place_of(np.argmax),
    "reduce_argmin": place_of(np.argmin),
    "reduce_max": largest,
    "reduce_min": smallest,
    "select": select,
    "softplus_parametric": softplus_parametric,
    "sub": sub,
}
"""Operations that are the same on all targets, by name."""
REDUCTIONS: Mapping[str, Callable[[Array, Axes, AdderChoice], Array]] = {
    "reduce_l1_norm": partial(total, of=Of.MAGNITUDES),
    "reduce_l2_norm": length,
    "reduce_log_sum": log_of_total,
    "reduce_log_sum_exp": log_of_total_of_powers,
    "reduce_mean": mean,
    "reduce_sum": total,
    "reduce_sum_square": partial(total, of=Of.SQUARES),
    "sq_after_reduce": square_of_total,
}
FOR_TARGET: Mapping[str, Callable[[Target], Function]] = {
    **{name: partial(function, through=through_crop) for name, function in crop.FOR_TARGET.items()},
    **{name: partial(function, steps=norms.STEPS) for name, function in normalisation.FOR_TARGET.items()},
    **{name: partial(function, pools=POOLS) for name, function in pooling.FOR_TARGET.items()},
    **{name: partial(function, products=PRODUCTS) for name, function in products.FOR_TARGET.items()},
    **{name: partial(one, multiply=matmul, steps=norms.STEPS) for name, one in attention.FOR_TARGET.items()},
    **{name: reductions.as_operation(function) for name, function in REDUCTIONS.items()},
}
"""Operations that depend on the target, by name."""

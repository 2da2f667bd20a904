"""Eight bits and fewer: integer products, weights that are expanded, casts, and images as inputs.

**int8 × int8** adds exactly in 32 bits: a sum of 2^30 is right, one of 2^31 is infinite (measured on one chip); the
result leaves as fp16 over its full range (64,512 was seen).

**int8 weights with fp16 activations**: the activations pass the same times-16 encoding as a width slice, so magnitudes
above 4,094 become infinite (seen on every chip tried, none of which is named); where the weights fold to dense fp16
they do not (conflict S44). The weights enter the multiplier as the fp16 numbers that they stand for. That is decoded
where they fold; where they stream it is taken to be so (inferred). So is that a sum is infinite as soon as such an
activation enters it with a weight that is not zero.

**Palettes and sparse weights** are fp16 numbers that are looked up or put in place: nothing is rounded.

Casts and the quantise layer round ties away from zero like everything else on the engine; that is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine.crop import through_crop
from aneforge.engine.planar import host_fp16, read
from aneforge.engine.rounding import to_fp16, to_grid
from aneforge.ops.groups.convolution import convolved
from aneforge.ops.groups.quantisation import affine_weights, per_channel, scaled_blocks, sparse_scaled, truncated
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.types import is_float, is_integer, numpy_dtype, value_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.kernels.codes import Coded
    from aneforge.ops.windows import ConvAttributes

    Array = npt.NDArray[Any]

__all__ = ["FUNCTIONS", "fold_weights", "int8_convolution", "int8_matmul", "meeting_int8"]

INTEGER_EDGE = 2**31
"""From this magnitude on a sum of integers is infinite."""
FLOOD = np.float16(FP16_MAX)
"""Twice the edge of the accumulator, all but a little: one such term makes a sum infinite."""


def int8_matmul(x: Array, w: Array, scale: Array | float = 1.0) -> Array:
    """Return x [..., M, K] times w [..., K, N] of int8: an exact sum in 32 bits, times a scale, rounded once to fp16.

    >>> int8_matmul(np.full((1, 4), 127, np.int8), np.full((4, 1), 127, np.int8)).item()
    64512.0

    Raises:
        ValueError: An operand is not int8.
    """
    return leaving(np.matmul(*wide_integers(x, w)), scale)


def int8_convolution(
    x: Array, weight: Array, scale: Array | float = 1.0, **attributes: Unpack[ConvAttributes]
) -> Array:
    """Return a convolution of int8 images with int8 kernels; a scale for every output channel comes in their shape.

    Raises:
        ValueError: An operand is not int8.
    """
    images, kernels = wide_integers(x, weight)
    return leaving(convolved(images, kernels, None, **attributes), scale)


def wide_integers(*operands: Array) -> tuple[Array, ...]:
    """Return int8 operands in 64 bits, where no sum of theirs wraps around.

    Raises:
        ValueError: One is not int8.
    """
    for operand in operands:
        if operand.dtype != np.int8:
            raise ValueError(f"an operand is {operand.dtype}, not int8")
    return tuple(operand.astype(np.int64) for operand in operands)


def leaving(total: Array, scale: Array | float) -> Array:
    """Return whole sums as they leave: infinite from 2^31 on, else times a scale and rounded once.

    >>> leaving(np.array([2**30, -(2**31)]), 2.0**-16).tolist()
    [16384.0, -inf]
    """
    scaled = to_fp16(total.astype(np.float64) * np.asarray(scale, np.float64))
    return np.where(np.abs(total) < INTEGER_EDGE, scaled, np.copysign(np.inf, total))


def fold_weights(quantised: Array, scale: Array, zero_point: Array, *, axis: int) -> Array:
    """Return int8 weights as fp16 numbers, scale · (q − zero point), rounded by the host when it compiles."""
    return host_fp16(affine_weights(quantised, scale, zero_point, axis=axis)).astype(np.float64)


def meeting_int8(multiply: Callable[[Array, Any], Array], x: Array, weights: Array | Coded) -> Array:
    """Return a product whose activations pass the times-16 encoding; `multiply` is the product without it.

    Activations beyond it are set apart: with weights of which only the signs are left they pass the edge of the
    accumulator by themselves, wherever they enter.
    """
    encoded = through_crop(x).astype(x.dtype)  # whatever holds them, they are fp16 numbers
    beyond = np.isinf(encoded)
    if not beyond.any():
        return multiply(encoded, weights)
    zero = np.zeros((), encoded.dtype)
    flooded = multiply(np.where(beyond, np.copysign(FLOOD, encoded), zero), np.sign(np.asarray(weights)))
    return np.where(np.isinf(flooded), flooded, multiply(np.where(beyond, zero, encoded), weights))


# Weights in their expanded forms, as operations.


def constexpr_affine_dequantize(quantized_data: Array, scale: Array, zero_point: Array, *, axis: int) -> Array:
    """Return int8 weights as the compiler folds them."""
    return fold_weights(quantized_data, scale, zero_point, axis=axis)


def constexpr_blockwise_shift_scale(data: Array, scale: Array, offset: Array | None) -> Array:
    """Return scaled blocks of weights as the compiler folds them."""
    return host_fp16(scaled_blocks(data, scale, offset)).astype(np.float64)


def constexpr_sparse_blockwise_shift_scale(
    data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None
) -> tuple[Array, Array]:
    """Return the mask, and the scaled weights that are there as the compiler folds them."""
    mask, values = sparse_scaled(data_mask, nonzero_data, scale, offset)
    return mask, host_fp16(values).astype(np.float64)


# The engine's own layers.


def dequantize(x: Array, scale: Array, zero_point: Array | None, *, axis: int | None) -> Array:
    """Return scale · (q − zero point): the difference is exact, the product rounded once."""
    steps = x.astype(np.float64) - per_channel(zero_point, x.ndim, axis)
    return to_fp16(steps * per_channel(scale, x.ndim, axis))


def quantize(x: Array, scale: Array, zero_point: Array | None, *, output_dtype: str, axis: int | None) -> Array:
    """Return x / scale to the nearest integer, ties away from zero, plus the zero point, within the type."""
    steps = to_grid(read(x) / per_channel(scale, x.ndim, axis), 1.0) + per_channel(zero_point, x.ndim, axis)
    return np.clip(steps, *value_range(output_dtype)).astype(numpy_dtype(output_dtype))


def cast(x: Array, *, dtype: str) -> Array:
    """Return elements as another type: to integers cut towards zero, to bool x ≠ 0, to others by way of fp16."""
    numbers = read(x) if x.dtype == np.float16 else x
    if dtype == "bool":
        return numbers != 0
    if is_float(dtype):
        return to_fp16(numbers.astype(np.float64)).astype(numpy_dtype(dtype))
    if is_integer(dtype) and np.issubdtype(numbers.dtype, np.floating):
        return truncated(numbers, dtype)
    return numbers.astype(np.int64).astype(numpy_dtype(dtype))


# Images.


def pixel_buffer_to_tensor(x: Array) -> Array:
    """Return pixels as fp16: a byte is exact, a pixel of 16 bits is rounded once."""
    return to_fp16(x.astype(np.float64))


def tensor_to_pixel_buffer(x: Array) -> Array:
    """Return numbers as bytes: to the nearest, a half up, within 0 to 255."""
    return np.clip(np.floor(read(x) + 0.5), 0, 255).astype(np.uint8)


FUNCTIONS: Mapping[str, Callable[..., Array | tuple[Array, ...]]] = {
    "cast": cast,
    "constexpr_affine_dequantize": constexpr_affine_dequantize,
    "constexpr_blockwise_shift_scale": constexpr_blockwise_shift_scale,
    "constexpr_sparse_blockwise_shift_scale": constexpr_sparse_blockwise_shift_scale,
    "dequantize": dequantize,
    "pixel_buffer_to_tensor": pixel_buffer_to_tensor,
    "quantize": quantize,
    "tensor_to_pixel_buffer": tensor_to_pixel_buffer,
}
"""The arithmetic of operations by their names."""

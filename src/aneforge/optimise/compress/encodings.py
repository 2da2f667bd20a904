"""The four encodings of weights: an array of numbers in, a constant in that encoding out.

Rows are the output channels of a weight and columns its input channels, whichever axes these are. The formulas are
those of ANEForge 0.4.0, which documents them; arithmetic is float64, and only what is stored is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.constant import BLOCK_SIZE, Blockwise, Int8Affine, Palette, Sparse
from aneforge.ops.shapes import nearest_divisor, normalise_axis
from aneforge.ops.types import numpy_dtype
from aneforge.optimise.compress.numbers import check_weight
from aneforge.optimise.compress.palettes import nearest_entries, palette_of

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = [
    "BLOCK_SIZE",
    "blockwise",
    "int4_palette",
    "int8_per_channel",
    "nearest_divisor",
    "nonzero_share",
    "sparse_bitmask",
]

LARGEST = 127
"""Integers reach from −127 to 127: the range is symmetric, −128 is not used."""
LEAST_SCALE = 1e-8
"""No scale is smaller, so that a row of zeros can be divided by its scale."""
PALETTE_BITS = 4
ROWS_BYTES = 1 << 24
"""Weights are turned into integers about this many bytes of float64 at a time."""


def int8_per_channel(weight: Array, *, rows: int = 0, dtype: str = "fp16") -> Int8Affine:
    """Return a weight as int8 with a scale for every output channel, which are along the axis `rows`.

    The scale is max|row| / 127, at least 1e-8; numbers are rounded to the nearest, ties to even.

    >>> made = int8_per_channel(np.array([[127.0, 0.5, 1.5], [0.0, 0.0, 0.0]]))
    >>> made.quantized.tolist(), made.scale.tolist()
    ([[127, 0, 2], [0, 0, 0]], [1.0, 0.0])

    Raises:
        GraphTypeError: The weight is not an array of floating-point numbers.
        GraphError: It has no elements or no such axis, or holds a number that cannot be encoded.
    """
    values = check_weight(weight, dtype)
    axis = row_axis(values, rows)
    lying = np.moveaxis(values, axis, 0)
    scale = scales(np.abs(lying).reshape(lying.shape[0], -1).max(axis=1))
    quantized = np.moveaxis(whole_numbers(lying, scale.reshape(-1, *(1,) * (lying.ndim - 1))), 0, axis)
    return Int8Affine(np.ascontiguousarray(quantized), scale.astype(numpy_dtype(dtype)), axis=axis)


def blockwise(
    weight: Array, *, rows: int = 0, columns: int = 1, block_size: int = BLOCK_SIZE, dtype: str = "fp16"
) -> Blockwise:
    """Return a weight as int8 with a scale for every block of columns of every row: max|block| / 127, at least 1e-8.

    A block is as long as the divisor of the number of columns that is nearest to `block_size`, the smaller of two that
    are as near; it spans the whole of every axis that is neither rows nor columns, such as those of a kernel's window.

    >>> blockwise(np.array([[127.0, 1.0, 254.0, -254.0]]), block_size=2).scale.tolist()
    [[1.0, 2.0]]

    Raises:
        GraphTypeError: The weight is not an array of floating-point numbers.
        GraphError: It has no elements or no such axes, the block size is not a positive integer, or it holds a number
            that cannot be encoded.
    """
    values = check_weight(weight, dtype)
    row, column = row_axis(values, rows), row_axis(values, columns)
    if row == column:
        raise GraphError("rows and columns of a weight are one axis", seen=row)
    block = nearest_divisor(values.shape[column], block_size)
    blocks = values.shape[column] // block
    lying = np.moveaxis(values, (row, column), (0, 1))
    split = lying.reshape(lying.shape[0], blocks, block, -1)
    scale = scales(np.abs(split).max(axis=(2, 3)))
    data = whole_numbers(split, scale[:, :, None, None]).reshape(lying.shape)
    laid = scale.reshape(*scale.shape, *(1,) * (values.ndim - 2))
    return Blockwise(
        np.ascontiguousarray(np.moveaxis(data, (0, 1), (row, column))),
        np.ascontiguousarray(np.moveaxis(laid, (0, 1), (row, column)).astype(numpy_dtype(dtype))),
    )


def int4_palette(weight: Array, *, dtype: str = "fp16") -> Palette:
    """Return a weight as indices into sixteen values, found by twenty iterations of Lloyd's algorithm.

    Every element takes the index of the stored value that is nearest to it, the lower of two that are as near.

    >>> made = int4_palette(np.array([[0.0, 1.0, 1.0]]))
    >>> made.dense().tolist(), made.encoding
    ([[0.0, 1.0, 1.0]], 'palette4')

    Raises:
        GraphTypeError: The weight is not an array of floating-point numbers.
        GraphError: It has no elements, or holds a number that cannot be encoded.
    """
    values = check_weight(weight, dtype)
    table = palette_of(values, 1 << PALETTE_BITS).astype(numpy_dtype(dtype))
    return Palette(nearest_entries(values, table), table, PALETTE_BITS)


def sparse_bitmask(weight: Array, *, dtype: str = "fp16") -> Sparse:
    """Return a weight as a bit per element and the elements that are not zero; a negative zero counts as zero.

    >>> sparse_bitmask(np.array([[0.0, 2.0, -0.0, 3.0]])).nonzero.tolist()
    [2.0, 3.0]

    Raises:
        GraphTypeError: The weight is not an array of floating-point numbers.
        GraphError: It has no elements, or holds a number that cannot be encoded.
    """
    values = check_weight(weight, dtype)
    mask = values != 0
    return Sparse(mask, values[mask].astype(numpy_dtype(dtype)))


def nonzero_share(weight: Array) -> float:
    """Return the share of elements that are not zero.

    >>> nonzero_share(np.array([0.0, 1.0, 0.0, 0.0]))
    0.25
    """
    return float(np.count_nonzero(weight)) / max(weight.size, 1)


def row_axis(values: Array, axis: int) -> int:
    """Return an axis of a weight as its place from the front.

    Raises:
        GraphError: The weight has no such axis.
    """
    if not values.ndim:
        raise GraphError("a single number has no channels", remedy="keep it dense, or use a palette or a bitmask")
    return normalise_axis(axis, values.ndim)


def scales(greatest: Array) -> Array:
    """Return the scale of rows or blocks from their greatest magnitudes."""
    return np.maximum(greatest.astype(np.float64) / LARGEST, LEAST_SCALE)


def whole_numbers(values: Array, scale: Array) -> Array:
    """Return values over their scale, which has their rank, as int8: to the nearest, ties to even, within ±127."""
    made = np.empty(values.shape, np.int8)
    step = max(1, ROWS_BYTES // (8 * max(1, values[:1].size)))
    for start in range(0, values.shape[0], step):
        part = slice(start, start + step)
        made[part] = np.clip(np.rint(values[part] / scale[part]), -LARGEST, LARGEST)
    return made

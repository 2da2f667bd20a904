"""Constants in another shape; that of weights keeps their encoding: what is compressed stays compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.arrays import np
from aneforge.ops.constant import Blockwise, Constant, Dense, Folded, Int8Affine, Palette, Sparse
from aneforge.ops.declared import Declared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.types import Array

__all__ = ["matrix_transposed", "reshape_densely", "with_unit_axes"]


def reshape_densely(constant: Constant, shape: Sequence[int]) -> Constant:
    """Return a constant in another shape, without its encoding."""
    if isinstance(constant, Declared):
        return constant.derive("reshape", shape)
    return Dense(np.asarray(constant.dense().reshape(shape), order="C"))


def with_unit_axes(weight: Constant, count: int) -> Constant:
    """Return a weight with axes of length 1 after its own."""
    if isinstance(weight, Declared):
        more = (1,) * count
        return weight.rearrange("unit axes", (*weight.type.shape, *more), (*weight.scales, *more))
    return rearrange(weight, lambda array: array.reshape(*array.shape, *(1,) * count), lambda axis: axis)


def matrix_transposed(weight: Constant) -> Constant:
    """Return a matrix with its axes exchanged."""
    if isinstance(weight, Declared):
        return weight.transpose((1, 0))
    return rearrange(weight, lambda array: array.T, lambda axis: 1 - axis)


def rearrange(weight: Constant, change: Callable[[Any], Any], moved: Callable[[int], int]) -> Constant:
    """Return a weight whose stored arrays were changed alike, packed ones too; `moved` says where an axis goes."""

    def stored(array: Array) -> Array:
        return np.ascontiguousarray(change(array))

    match weight:
        case Folded():
            return Folded(rearrange(weight.stored, change, moved))
        case Int8Affine():
            return Int8Affine(stored(weight.quantized), weight.scale, weight.zero_point, moved(weight.axis))
        case Palette():
            return Palette(change(weight.packed), weight.table, weight.bits)
        case Sparse():
            mask = stored(weight.mask)
            return Sparse(mask, stored(weight.dense())[mask])
        case Blockwise():
            return Blockwise(
                stored(weight.data), stored(weight.scale), None if weight.offset is None else stored(weight.offset)
            )
        case _:
            return Dense.owning(stored(weight.dense()))

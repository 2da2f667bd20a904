"""Parts of constants along an axis, in the encoding of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.constant import Blockwise, Constant, Dense, Folded, Int8Affine, Palette, Sparse
from aneforge.ops.declared import Declared

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["constant_part"]


def constant_part(constant: Constant, axis: int, begin: int, size: int) -> Constant:
    """Return a part of a constant along an axis; the encoding stays.

    >>> whole = Palette(np.array([[0, 1, 1]], np.uint8), table=np.array([0, 2], np.float16), bits=4)
    >>> constant_part(whole, 1, 1, 2).dense().tolist()
    [[2.0, 2.0]]
    """
    match constant:
        case Int8Affine():
            return Int8Affine(
                take_part(constant.quantized, axis, begin, size),
                take_channels(constant, constant.scale, axis, begin, size),
                None
                if constant.zero_point is None
                else take_channels(constant, constant.zero_point, axis, begin, size),
                constant.axis,
            )
        case Declared():
            return constant.part(axis, begin, size)
        case Folded():
            return Folded(constant_part(constant.stored, axis, begin, size))
        case Palette():
            return Palette(constant.packed.part(axis, begin, size), constant.table, constant.bits)
        case Sparse():
            return sparse_part(constant, axis, begin, size)
        case Blockwise():
            offset = constant.offset
            part = Blockwise(
                take_part(constant.data, axis, begin, size),
                take_blocks(constant.scale, constant.data, axis, begin, size),
                None if offset is None else take_blocks(offset, constant.data, axis, begin, size),
            )
        case _:
            part = Dense(take_part(constant.dense(), axis, begin, size))
    return part


def take_part(values: Array, axis: int, begin: int, size: int) -> Array:
    """Return a part of an array, of its own memory."""
    index = tuple(slice(begin, begin + size) if place == axis else slice(None) for place in range(values.ndim))
    return np.ascontiguousarray(values[index])


def take_channels(constant: Int8Affine, row: Array, axis: int, begin: int, size: int) -> Array:
    """Return the scales or zero points of a part: one for all, or one for every channel."""
    return row.reshape(-1)[begin : begin + size] if row.size > 1 and axis == constant.axis else row


def sparse_part(constant: Sparse, axis: int, begin: int, size: int) -> Sparse:
    """Return a part of a sparse constant: its bits, and the values that these stand for."""
    places = np.zeros(constant.mask.shape, np.int64)
    places[constant.mask] = np.arange(constant.nonzero.size)
    mask = take_part(constant.mask, axis, begin, size)
    return Sparse(mask, constant.nonzero[take_part(places, axis, begin, size)[mask]])


def take_blocks(blocks: Array, data: Array, axis: int, begin: int, size: int) -> Array:
    """Return the numbers of the blocks of a part; where the part cuts a block, there is one for every element."""
    length = data.shape[axis] // blocks.shape[axis]
    if begin % length == 0 and size % length == 0:
        return take_part(blocks, axis, begin // length, size // length)
    return take_part(np.repeat(blocks, length, axis), axis, begin, size)

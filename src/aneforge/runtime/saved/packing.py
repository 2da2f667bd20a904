"""Elements of a few bits, one after the other without gaps, the lowest bit of the first element first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["count_packed_bytes", "pack_bits", "unpack_bits"]

AT_ONCE = 1 << 20
"""Elements that are packed at once, a multiple of eight, so that every part but the last ends with a byte."""


def count_packed_bytes(count: int, bits: int) -> int:
    """Return how many bytes so many elements take.

    >>> count_packed_bytes(3, 4), count_packed_bytes(16, 1)
    (2, 2)
    """
    return -(-count * bits // 8)


def pack_bits(elements: Array, bits: int) -> Array:
    """Return elements of one byte each, none of which needs more than so many bits, as bytes without gaps.

    >>> pack_bits(np.array([1, 2, 15], np.uint8), 4).tolist()
    [33, 15]
    """
    flat = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    made = np.empty(count_packed_bytes(flat.size, bits), np.uint8)
    for start in range(0, flat.size, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        lowest = np.unpackbits(part[:, None], axis=1, count=bits, bitorder="little")
        begin = start * bits // 8
        made[begin : begin + count_packed_bytes(part.size, bits)] = np.packbits(lowest, bitorder="little")
    return made


def unpack_bits(stored: Array, bits: int, count: int) -> Array:
    """Return so many elements of one byte each.

    >>> unpack_bits(np.array([33, 15], np.uint8), 4, 3).tolist()
    [1, 2, 15]

    Raises:
        ValueError: Bits after the last element are set.
    """
    over = 8 * stored.size - count * bits
    if over and int(stored[-1]) >> (8 - over):
        raise ValueError("bits after its last element are set")
    made = np.empty(count, np.uint8)
    for start in range(0, count, AT_ONCE):
        part = made[start : start + AT_ONCE]
        begin = start * bits // 8
        lowest = np.unpackbits(
            stored[begin : begin + count_packed_bytes(part.size, bits)], count=part.size * bits, bitorder="little"
        )
        part[:] = np.packbits(lowest.reshape(-1, bits), axis=1, bitorder="little")[:, 0]
    return made

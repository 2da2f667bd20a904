"""Element types as MIL spells them, packed and unpacked.

Beyond the element types of tensors MIL stores integers of 1, 2, 3 and 6 bits. They exist only in constants: the
indices of a palette and the bits of a mask. Here such a number takes one unsigned byte of an array.

In storage numbers of less than a byte follow one another without gaps, the first in the lowest bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.ops.packing import pack_bits, unpack_bits
from aneforge.ops.types import DTYPES, bits, is_integer, numpy_dtype

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["ELEMENTS", "STORED_ONLY", "TEXT", "array_dtype", "count_packed_bytes", "element_bits", "pack", "unpack"]

TEXT = "string"
STORED_ONLY = {"uint1": 1, "uint2": 2, "uint3": 3, "uint6": 6}
"""Element types of constants that no tensor has, with their bits."""
ELEMENTS = (*DTYPES, *STORED_ONLY, TEXT)
"""Every element type that a program can name."""


def element_bits(dtype: str) -> int:
    """Return how many bits one element takes in storage.

    >>> element_bits("uint3"), element_bits("int4"), element_bits("fp16")
    (3, 4, 16)
    """
    return STORED_ONLY[dtype] if dtype in STORED_ONLY else bits(dtype)


def array_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type of an array of elements.

    >>> array_dtype("uint1"), array_dtype("fp16")
    (dtype('uint8'), dtype('float16'))
    """
    return np.dtype(np.uint8) if dtype in STORED_ONLY else numpy_dtype(dtype)


def count_packed_bytes(dtype: str, count: int) -> int:
    """Return how many bytes elements take in storage.

    >>> count_packed_bytes("uint3", 7), count_packed_bytes("fp16", 3)
    (3, 6)
    """
    return (count * element_bits(dtype) + 7) // 8


def pack(values: Array, dtype: str) -> Array:
    """Return elements as they are stored, in the order of the array: a view of whole bytes where nothing is packed.

    >>> pack(np.array([1, 2, 3], np.uint8), "uint4").tobytes().hex()
    '2103'
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    width = element_bits(dtype)
    if width >= 8:
        return flat.view(np.uint8)
    numbers = (flat.astype(np.int8) if is_signed(dtype) else flat).astype(np.uint8) & ((1 << width) - 1)
    return pack_bits(numbers, width)


def unpack(stored: Array, dtype: str, count: int) -> Array:
    """Return a list of elements from their bytes: a view of them where nothing is packed.

    >>> unpack(np.frombuffer(bytes.fromhex("2103"), np.uint8), "uint4", 3).tolist()
    [1, 2, 3]
    """
    width = element_bits(dtype)
    if width >= 8:
        return stored.view(array_dtype(dtype))
    found = unpack_bits(stored, width, count)
    if is_signed(dtype):
        sign = 1 << (width - 1)
        found = (found.astype(np.int8) ^ sign) - sign  # the highest bit counts negative
    return found.astype(array_dtype(dtype))


def is_signed(dtype: str) -> bool:
    """Return whether an integer type has a sign."""
    return is_integer(dtype) and not dtype.startswith("u")

"""Arrays on their way to the kernels and back: the bits of fp16, and where the parts of a batch begin."""

from __future__ import annotations

import ctypes
import math
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.errors import GraphTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]

__all__ = [
    "BEHIND_FIELDS",
    "MOST_INT8_DEPTH",
    "Element",
    "as_given",
    "bits_of",
    "element_strides",
    "expect_int8",
    "from_golden",
    "golden_halves",
    "places_of",
]

HALVES = (np.dtype(np.float16), np.dtype(np.uint16))
HALF_BYTES = 2
MOST_KEPT_PLACES = 1024
MOST_INT8_DEPTH = 131_000
"""Terms of a sum of int8 products up to which 32 bits always hold it; longer sums are left to the golden model."""

BEHIND_FIELDS = (
    ("gain", ctypes.c_void_p),
    ("offset", ctypes.c_void_p),
    ("gain_row", ctypes.c_int64),
    ("table", ctypes.c_void_p),
    ("rectifies", ctypes.c_int64),
    ("seen", ctypes.c_void_p),
)
"""The fields of `struct aneforge_behind` of kernels.h, which are part of others."""


class Element(IntEnum):
    """`enum aneforge_element` of kernels.h: what the operands of a product are."""

    FP16 = 0
    INT8 = 1

    @classmethod
    def of(cls, array: Array) -> Element:
        """Return what an array holds.

        >>> Element.of(np.zeros(1, np.int8)).name
        'INT8'
        """
        return cls.INT8 if array.dtype == np.int8 else cls.FP16


def bits_of(operation: str, values: Array) -> Bits:
    """Return fp16 numbers as their bits; an array of uint16 holds bits already.

    >>> bits_of("add", np.ones(1, np.float16)).tolist()
    [15360]

    Raises:
        GraphTypeError: The array is of another type.
    """
    if values.dtype in HALVES:
        flags = values.flags
        even = flags.aligned and (flags.c_contiguous or all(stride % HALF_BYTES == 0 for stride in values.strides))
        return (values if even else values.copy()).view(np.uint16)
    raise GraphTypeError(
        "kernels take fp16 numbers",
        operation=operation,
        seen=values.dtype,
        limit="float16, or uint16 for their bits",
        remedy="convert them first: elements.to_fp16 rounds as the engine does",
    )


def expect_int8(operation: str, *operands: Array) -> None:
    """Stop unless operands are int8.

    Raises:
        GraphTypeError: One is not.
    """
    for operand in operands:
        if operand.dtype != np.int8:
            raise GraphTypeError("an operand is not int8", operation=operation, seen=operand.dtype, limit="int8")


def as_given(bits: Bits, like: Array) -> Array:
    """Return bits as the type in which an operand came."""
    return bits if like.dtype == np.uint16 else bits.view(np.float16)


def golden_halves(values: Array) -> Array:
    """Return an operand for the golden model."""
    return values.view(np.float16) if values.dtype == np.uint16 else values


def element_strides(array: Array) -> tuple[int, ...]:
    """Return strides in elements.

    >>> element_strides(np.zeros((2, 3), np.uint16))
    (3, 1)
    """
    return tuple(stride // array.itemsize for stride in array.strides)


def places_of(shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return where each index of a shape is, the last axis the fastest. Nobody writes to it: short ones are kept.

    >>> places_of((2, 3), (10, 0)).tolist()
    [0, 0, 0, 10, 10, 10]
    """
    if math.prod(shape) <= MOST_KEPT_PLACES:
        return keep_places(tuple(shape), tuple(strides))
    return compute_places(shape, strides)


@lru_cache(maxsize=1024)
def keep_places(shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return places that were asked for before, or find them."""
    found = compute_places(shape, strides)
    found.flags.writeable = False
    return found


def compute_places(shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return places, found anew."""
    places = np.zeros((), np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        places = np.add.outer(places, np.arange(extent, dtype=np.int64) * stride)
    return np.ascontiguousarray(places.ravel())


def from_golden(values: Array, like: Array) -> Array:
    """Return what the golden model gave, fp16 held in float64, as the type in which an operand came."""
    return as_given(values.astype(np.float16).view(np.uint16), like)

"""Weights that stay in their encoding: kernels decode the part of them that they multiply next, and nobody keeps it.

They take a code of one byte for every number with finite scales of fp16 and whole shifts, so that float32 holds every
product, or packed codes of one to eight bits into a table of fp16. What is decoded has the bits of `dense()`, which is
the rule. Other constants are decoded as a whole, once.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aneforge.engine.kernels.distances import largest_magnitude
from aneforge.engine.kernels.library import address, available, call, library
from aneforge.ops.constant import AT_ONCE, Blockwise, Folded, Int8Affine, Palette
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from aneforge.ops.constant import Constant

    Array = npt.NDArray[Any]

__all__ = ["Coded", "parts_of"]

LARGEST_SHIFT = 1024
"""A code less a shift up to this one has 11 bits, as a scale has: float32 holds their product."""
SIGNS = {"int8": (0xFF, 0x80), "uint8": (0xFF, 0), "int4": (0x0F, 0x08), "uint4": (0x0F, 0)}
"""The bits of a byte that count, and that of the sign, by element type: numbers of four bits have a byte each."""


class Codes(ctypes.Structure):
    """`struct aneforge_codes` of kernels.h."""

    _fields_ = (
        ("codes", ctypes.c_void_p),
        ("bits", ctypes.c_int64),
        ("by_step", ctypes.c_int64),
        ("lines", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("mask", ctypes.c_int64),
        ("sign", ctypes.c_int64),
        ("table", ctypes.c_void_p),
        ("entries", ctypes.c_int64),
        ("lines_of_block", ctypes.c_int64),
        ("codes_of_block", ctypes.c_int64),
        ("factors", ctypes.c_void_p),
        ("shifts", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Scaling:
    """The scales of a constant as the kernels take them: one for every block of lines and of codes along them."""

    lines_of_block: int
    codes_of_block: int
    factors: Array
    shifts: Array | None

    @classmethod
    def of(cls, shape: tuple[int, ...], scale: Array, shift: Array | None) -> Self | None:
        """Return scales and shifts, each with as many axes as the codes; None for what the kernels do not take."""
        if scale.dtype != np.float16 or not np.isfinite(scale).all() or not (shift is None or is_whole(shift)):
            return None
        blocks = scale.shape if shift is None else np.broadcast_shapes(scale.shape, shift.shape)
        if set(blocks[2:]) - {1}:
            return None
        spread = [None if one is None else np.broadcast_to(one, blocks) for one in (scale, shift)]
        factors, shifts = (None if one is None else np.ascontiguousarray(one, np.float16) for one in spread)
        assert factors is not None  # noqa: S101 - the scale is given
        along = math.prod(shape[1:]) // blocks[1]
        return cls(shape[0] // blocks[0], along, factors, shifts)


def is_whole(shift: Array) -> bool:
    """Return whether numbers are whole and no larger than a shift may be."""
    wide = shift.astype(np.float64)
    return bool(np.all((np.abs(wide) <= LARGEST_SHIFT) & (wide == np.trunc(wide))))


@dataclass(frozen=True)
class Coded:
    """Weights in codes, in the place of an array of fp16: a matrix, or the kernels of a convolution.

    >>> from aneforge.ops.constant import Int8Affine
    >>> made = Coded.of(Int8Affine(np.array([[2, -4]], np.int8), scale=np.array([0.5], np.float16)))
    >>> made if made is None else (made.T.shape, np.asarray(made).tolist(), made.largest)
    ((2, 1), [[1.0, -2.0]], 2.0)
    """

    constant: Constant
    stored: Array
    """The bytes of the codes."""
    bits: int
    """How many bits each code takes of them."""
    shape: tuple[int, ...]
    """The shape in which the numbers are seen."""
    scaling: Scaling | None
    table: Array | None
    kind: str
    """The element type of the codes."""
    turned: bool = False
    """Rows and columns of a matrix are exchanged: it is seen with its lines as columns."""

    @classmethod
    def of(cls, constant: Constant) -> Self | None:
        """Return a constant whose codes the kernels take; None for another, or where there are no kernels."""
        stored = constant.stored if isinstance(constant, Folded) else constant
        shape = stored.type.shape
        if library() is None or len(shape) < 2 or not stored.type.size:
            return None
        match stored:
            case Int8Affine():
                laid = [along_axis(one, len(shape), stored.axis) for one in (stored.scale, stored.zero_point)]
                codes, scale, shift = stored.quantized, laid[0], laid[1]
            case Blockwise() if stored.data.dtype.name in SIGNS:
                codes, scale, shift = stored.data, stored.scale, stored.offset
            case Palette() if stored.table.dtype == np.float16:
                return cls(stored, stored.packed.stored, stored.bits, shape, None, stored.table, "uint8")
            case _:
                return None
        scaling = None if scale is None else Scaling.of(shape, scale, shift)
        if scaling is None or not codes.flags.c_contiguous:
            return None
        return cls(stored, codes.view(np.uint8), 8, shape, scaling, None, codes.dtype.name)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @cached_property
    def seen(self) -> Array:
        """An array of its shape that takes no memory, for those who look at shapes."""
        return np.broadcast_to(np.uint8(0), self.shape)

    @cached_property
    def T(self) -> Self:  # noqa: N802 - as arrays have it
        """A matrix with rows and columns exchanged."""
        return replace(self, shape=self.shape[::-1], turned=not self.turned)

    @cached_property
    def lines(self) -> tuple[int, int]:
        """How many lines there are, and how many codes each has."""
        count = self.shape[1 if self.turned else 0]
        return count, math.prod(self.shape) // count

    @cached_property
    def of_rows(self) -> Codes:
        """The codes as an operand on the left, whose lines are rows."""
        return self.structure(by_step=False)

    @cached_property
    def of_columns(self) -> Codes:
        """The codes as an operand on the right: lines are columns, or each has one step of all columns."""
        return self.structure(by_step=not self.turned)

    def structure(self, *, by_step: bool) -> Codes:
        """Return what the kernels take."""
        count, length = self.lines
        mask, sign = SIGNS[self.kind]
        given = Codes(codes=address(self.stored), bits=self.bits, by_step=by_step, lines=count, length=length)
        given.mask, given.sign = mask, sign
        if self.table is not None:
            given.table, given.entries = address(self.table), self.table.size
        if self.scaling is not None:
            given.lines_of_block, given.codes_of_block = self.scaling.lines_of_block, self.scaling.codes_of_block
            given.factors = address(self.scaling.factors)
            given.shifts = None if self.scaling.shifts is None else address(self.scaling.shifts)
        return given

    def decoded_lines(self, first: int, count: int) -> Array:
        """Return some lines as fp16 numbers."""
        out = np.empty((count, self.lines[1]), np.float16)
        place, many = ctypes.c_int64(first), ctypes.c_int64(count)
        call("aneforge_decode", ctypes.byref(self.of_rows), place, many, address(out))
        return out

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - as NumPy has it
        """Return all numbers, which the caller is to forget soon."""
        laid = self.decoded_lines(0, self.lines[0]) if available() else self.constant.dense()
        shaped = laid.T if self.turned else laid.reshape(self.shape)
        return shaped if dtype is None else shaped.astype(dtype)

    def parts(self) -> Iterator[Array]:
        """Yield all numbers, some lines at a time, as they are stored."""
        count, length = self.lines
        step = max(1, AT_ONCE // length)
        for first in range(0, count, step):
            found = self.decoded_lines(first, min(step, count - first))
            yield found if self.turned else found.reshape(-1, *self.shape[1:])

    @cached_property
    def largest(self) -> float:
        """The largest magnitude, as the engine reads it."""
        return max(map(largest_magnitude, self.parts()))


def along_axis(values: Array | None, rank: int, axis: int) -> Array | None:
    """Return numbers of channels with as many axes as the codes have."""
    if values is None:
        return None
    return values.reshape((1,) * rank if values.size == 1 else [-1 if one == axis else 1 for one in range(rank)])


def parts_of(weights: Array | Coded) -> Iterator[Array]:
    """Yield weights in parts along their first axis, so that copies in wider types stay small."""
    if isinstance(weights, Coded):
        yield from weights.parts()
        return
    step = max(1, AT_ONCE // max(1, math.prod(weights.shape[1:])))
    for first in range(0, len(weights), step):
        yield weights[first : first + step]

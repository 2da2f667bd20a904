"""How a tensor is laid out in a memory: strides in bytes for the engine's axes, on chip in banks and in DRAM in lines.

A row is the elements along the width. On chip a row begins at a multiple of a bank's width and channels follow one
another (the layout of compiled programs); in DRAM rows begin at multiples of 64 bytes, as every DMA stride does.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from aneforge.compiler.axes import Axis, roles
from aneforge.ops.types import bits
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.ops.types import TensorType

__all__ = [
    "DRAM_ALIGNMENT",
    "Banks",
    "Extents",
    "Layout",
    "Strides",
    "bank_requests",
    "dram_layout",
    "extents_of",
    "on_chip_layout",
    "pack",
    "restride_row",
    "round_up",
    "same_places",
]

DRAM_ALIGNMENT = 64
"""Bytes: base addresses and strides of the DMA have no lower bits (registers of compiled programs, bits 31:6)."""


class Banks(NamedTuple):
    """The banks of the on-chip memory: the bank of an address is (address / width) mod number."""

    number: int
    width: int


@dataclass(frozen=True, slots=True)
class Extents:
    """How long the engine's five axes are; an axis that a tensor does not have has length 1."""

    batch: int
    channels: int
    depth: int
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class Strides:
    """Bytes from one place of an axis to the next; elements of a row follow one another."""

    batch: int
    depth: int
    channel: int
    row: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Extents, strides, bits of an element, and the bytes that the whole takes."""

    extents: Extents
    strides: Strides
    bits: int
    size: int

    def stride_of(self, axis: Axis) -> int:
        """Return the bytes from one place of an axis to the next; along the width it must be whole bytes."""
        along = {
            Axis.BATCH: self.strides.batch,
            Axis.CHANNEL: self.strides.channel,
            Axis.DEPTH: self.strides.depth,
            Axis.HEIGHT: self.strides.row,
            Axis.WIDTH: self.bits // 8,
        }
        return along[axis]

    def inside(self, extents: Extents) -> Layout:
        """Return the layout of a part of this tensor: its own extents, these strides."""
        last = (
            (extents.batch - 1) * self.strides.batch
            + (extents.depth - 1) * self.strides.depth
            + (extents.channels - 1) * self.strides.channel
            + (extents.rows - 1) * self.strides.row
        )
        return Layout(extents, self.strides, self.bits, last + row_bytes(extents.width, self.bits))


def round_up(count: int, granule: int) -> int:
    """Return the next multiple of a granule.

    >>> round_up(100, 64), round_up(128, 64)
    (128, 128)
    """
    return -(-count // granule) * granule


def row_bytes(width: int, element_bits: int) -> int:
    """Return the bytes of a row, elements packed."""
    return (width * element_bits + 7) // 8


@lru_cache(maxsize=4096)
def extents_of(shape: tuple[int, ...]) -> Extents:
    """Return how long the engine's axes are for a shape.

    >>> extents_of((2, 3, 8))
    Extents(batch=2, channels=3, depth=1, rows=1, width=8)

    Raises:
        NotSupportedError: The engine does not have as many axes.
    """
    by_role = dict(zip(roles(len(shape)), shape, strict=True))
    return Extents(
        batch=by_role.get(Axis.BATCH, 1),
        channels=by_role.get(Axis.CHANNEL, 1),
        depth=by_role.get(Axis.DEPTH, 1),
        rows=by_role.get(Axis.HEIGHT, 1),
        width=by_role.get(Axis.WIDTH, 1),
    )


def pack(extents: Extents, element_bits: int, row: int) -> Layout:
    """Return the layout in which rows of a number of bytes follow one another, then channels, depths and batches."""
    channel = row * extents.rows
    depth = channel * extents.channels
    batch = depth * extents.depth
    size = max(batch * extents.batch, row)
    return Layout(extents, Strides(batch, depth, channel, row), element_bits, size)


@lru_cache(maxsize=4096)
def dram_layout(tensor: TensorType) -> Layout:
    """Return how a tensor is laid out in DRAM.

    >>> from aneforge.ops.types import TensorType
    >>> dram_layout(TensorType((1, 3, 8, 40))).strides
    Strides(batch=3072, depth=3072, channel=1024, row=128)
    """
    extents, element = extents_of(tensor.shape), bits(tensor.dtype)
    row = round_up(max(row_bytes(extents.width, element), 1), DRAM_ALIGNMENT)
    return pack(extents, element, row)


@lru_cache(maxsize=8192)
def on_chip_layout(tensor: TensorType, banks: Banks, *, restrided: bool = False, rows: int | None = None) -> Layout:
    """Return how a tensor is laid out on chip; `rows` is how many of its rows are there at a time, by default all.

    >>> from aneforge.ops.types import TensorType
    >>> on_chip_layout(TensorType((1, 64, 1, 1)), Banks(64, 16)).size
    1024
    >>> on_chip_layout(TensorType((1, 4, 64, 512)), Banks(64, 16), restrided=True).strides.row
    1040
    """
    extents, element = extents_of(tensor.shape), bits(tensor.dtype)
    if rows is not None:
        extents = Extents(1, extents.channels, 1, rows, extents.width)
    row = round_up(max(row_bytes(extents.width, element), 1), banks.width)
    if restrided:
        row = restride_row(row, neighbouring_rows(extents), banks)
    return pack(extents, element, row)


def neighbouring_rows(extents: Extents) -> int:
    """Return how many rows are one stride apart: those of a channel, or the channels where each is one row."""
    return extents.rows if extents.rows > 1 else extents.channels


def bank_requests(rows: int, stride: int, banks: Banks) -> int:
    """Return how often the banks are asked for one column of rows that are a stride apart: the published model.

    Rows whose distance is a multiple of g banks share count / g banks between them.

    >>> bank_requests(64, 1024, Banks(64, 16)), bank_requests(64, 1040, Banks(64, 16))
    (64, 1)
    """
    shared = math.gcd(stride // banks.width, banks.number)
    return -(-rows // (banks.number // shared))


def restride_row(row: int, rows: int, banks: Banks) -> int:
    """Return the shortest stride of a row, at least its own bytes, at which the banks are asked least often."""
    least = -(-rows // banks.number)
    stride = row
    while bank_requests(rows, stride, banks) > least:
        stride += banks.width
    return stride


def same_places(first: Layout, second: Layout) -> bool:
    """Return whether two layouts put the elements, counted in the order of the axes, into the same bits.

    >>> from aneforge.ops.types import TensorType
    >>> banks = Banks(64, 16)
    >>> flat, square = (on_chip_layout(TensorType(shape), banks) for shape in ((1, 4, 64), (1, 4, 8, 8)))
    >>> same_places(flat, square)
    True
    """
    return first.bits == second.bits and runs(first) == runs(second)


def runs(layout: Layout) -> list[tuple[int, int]]:
    """Return the lengths and strides in bits of a layout's axes, those that follow one another taken together."""
    extents, strides = layout.extents, layout.strides
    axes = [
        (extents.batch, strides.batch * 8),
        (extents.channels, strides.channel * 8),
        (extents.depth, strides.depth * 8),
        (extents.rows, strides.row * 8),
        (extents.width, layout.bits),
    ]
    merged: list[tuple[int, int]] = []
    for extent, stride in axes:
        if extent == 1:
            continue
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged

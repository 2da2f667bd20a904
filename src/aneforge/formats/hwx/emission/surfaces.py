"""Where the tensors of a task are: surfaces in memory, read and written by DMA, and buffers on chip."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.records import dataclass
from aneforge.targets.task_chains import Buffer
from aneforge.targets.work_units import LARGEST_SIDE, ON_CHIP, round_to

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values

__all__ = [
    "LINE",
    "Access",
    "Buffer",
    "Extent",
    "Surface",
    "buffer_values",
    "expect_extents",
    "must_fit",
    "result_values",
    "source_values",
    "surface_of",
]

ADDRESSES = 1 << 32
"""Registers of the DMA hold addresses and strides of 32 bits."""
MOST_CHANNELS = (1 << 17) - 1
"""What the registers of channels hold."""
LINE = 64
"""Bytes: strides and addresses of the DMA are multiples of it."""
FP16 = 0x2031
"""Format of fp16 in memory: mode 1, truncate 3, memory format 2."""
NO_DMA = 0x8880
"""Configuration of a source without DMA: only cache hints."""
RESULT_PADDING = 0x300000
"""Zero padding before and after, in the format of results."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The extents of a tensor as a task sees it."""

    channels: int
    height: int
    width: int
    depth: int = 1


class Access(IntEnum):
    """How a source is read, as the word that says so; which of them apply was read from programs."""

    MEMORY = 0x33881
    WRITTEN_BEFORE = 0x53901
    """An earlier task of the program wrote it."""
    NAMED = 0x48880
    """It is on chip, and the base register of scratch is named too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A tensor in memory: base register, offset and strides in bytes."""

    bar: int
    row: int
    plane: int
    depth: int
    group: int
    base: int = 0
    access: Access = Access.MEMORY
    interleave: int = 1

    def pair_surface(self) -> Surface:
        """Return the surface as a pair of tasks names it that passes results on chip."""
        return replace(self, access=Access.NAMED)

    def at(self, base: int) -> Surface:
        """Return the surface at another offset."""
        return replace(self, base=base)


def surface_of(extent: Extent, bar: int, *, groups: int = 1, base: int = 0) -> Surface:
    """Return a tensor with rows at multiples of 64 bytes.

    >>> surface_of(Extent(64, 8, 8), 4).depth
    32768

    Raises:
        HwxError: Its strides do not fit their registers.
    """
    row = max(LINE, round_to(2 * extent.width, LINE))
    plane = row * extent.height
    whole = plane * extent.channels
    if whole >= ADDRESSES:
        raise HwxError("ANE-EMIT-014: a tensor must fit the addresses of the DMA", seen=whole, limit=ADDRESSES)
    return Surface(bar=bar, row=row, plane=plane, depth=whole, group=whole // groups, base=base)


def source_values(surface: Surface | None, number: int = 1) -> Values:
    """Return the registers of a source's DMA.

    A second source has the word of a first one without its enable bit; of one that an earlier task wrote, that is
    inferred.
    """
    config, form = f"source.source{number}_config", f"source.source{number}_format"
    if surface is None:
        return {config: NO_DMA, form: 0x0100_0000 if number == 1 else 0}
    first = number == 1
    memory = surface.access is not Access.NAMED
    values: Values = {
        config: int(surface.access) if first else int(surface.access) & ~1,
        form: surface.interleave << 24 | FP16 if first else FP16 & ~1,
        f"source.source{number}_base": surface.base,
        f"source.source{number}_row": surface.row,
        f"source.source{number}_plane": surface.plane,
        f"source.source{number}_depth_stride": surface.depth,
        f"source.source{number}_group": surface.group,
        f"header.source{number}_bar": surface.bar,
        f"header.source{number}_bar_enable": 1,
    }
    if first:
        values["header.source_in_memory"] = int(memory)
    else:
        values["common.source2_by_dma"] = 1
    return values


STREAMED, STORED, KEPT, SCRATCH = 0x040000C1, 0xC1, 0xC0, 0x040003C1
"""Configurations of a result's DMA: through a small buffer, from a whole one, none, and to be read by a later task."""


def result_values(surface: Surface | None, config: int) -> Values:
    """Return the registers of a result's DMA."""
    if surface is None:
        return {"destination.result_dma_config": config, "destination.result_format": 0x0100_0000}
    return {
        "destination.result_dma_config": config,
        "destination.result_format": surface.interleave << 24 | RESULT_PADDING | FP16,
        "destination.result_base": surface.base,
        "destination.result_row": surface.row,
        "destination.result_plane": surface.plane,
        "destination.result_depth_stride": surface.depth,
        "destination.result_group": surface.group,
        "header.result_bar": surface.bar,
        "header.result_bar_enable": 1,
        "header.result_in_memory": int(config != KEPT),
    }


def buffer_values(which: str, buffer: Buffer) -> Values:
    """Return the registers of a buffer on chip; `which` is source1, source2 or result."""
    return {
        f"l2.{which}_l2_base": buffer.base,
        f"l2.{which}_l2_channel": buffer.channel,
        f"l2.{which}_l2_row": buffer.row,
        f"l2.{which}_l2_depth": buffer.depth,
        f"l2.{which}_l2_group": buffer.group,
    }


def must_fit(size: int) -> int:
    """Return a size that fits the chip.

    Raises:
        HwxError: It does not.
    """
    if size >= ON_CHIP:
        raise HwxError("ANE-EMIT-007: the buffers of a task must fit the memory on chip", seen=size, limit=ON_CHIP)
    return size


def expect_extents(extent: Extent) -> None:
    """Check that the extents that a task sees fit their registers.

    Raises:
        HwxError: They do not.
    """
    if max(extent.height, extent.width) > LARGEST_SIDE or extent.channels > MOST_CHANNELS:
        limit = f"{MOST_CHANNELS} channels of {LARGEST_SIDE} rows and columns"
        raise HwxError("ANE-EMIT-007: the extents of a task must fit their registers", seen=extent, limit=limit)

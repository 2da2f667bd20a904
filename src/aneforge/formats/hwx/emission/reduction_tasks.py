"""Reductions: tasks of the planar engine, with copies of the neural cores where the axis must first be moved.

Structure and words are those of programs that were read (hwx-programs 8.6); which axes were seen, the functions say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import (
    RESULT_KEPT,
    RESULT_STREAMED,
    RESULT_STREAMED_FROM_CHIP,
    SOURCE_BY_DMA,
    result_config,
    unit_values,
)
from aneforge.formats.hwx.emission.planar_tasks import REDUCE, planar_buffer, planar_values
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    Buffer,
    Extent,
    Surface,
    buffer_values,
    result_values,
    source_values,
    surface_of,
)
from aneforge.records import dataclass
from aneforge.targets.work_units import (
    BANK_BYTES,
    NEURAL_WIDTH,
    ON_CHIP,
    UnitRows,
    channel_bytes,
    neural_row,
    pass_rows,
    patch_log2,
    planar_row,
    round_to,
    tile_rows,
)

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values

__all__ = [
    "FROM_NEURAL",
    "FROM_NEURAL_NAMED",
    "FROM_PLANAR",
    "KEPT_FROM_CHIP",
    "Reduction",
    "reduce_rows_on_chip",
    "reduction_tasks",
    "transposing_copy",
]

FROM_NEURAL, FROM_NEURAL_NAMED, FROM_PLANAR = 0x120, 0x160, 0x400100
"""Words of an on-chip source: a result of the neural cores, one with its surface named, one of the planar engine."""
KEPT_FROM_CHIP, STORED_FROM_CHIP = 0x140, 0x141
"""Words of an on-chip result whose source is on chip: it stays, or is written from a whole buffer."""
SCRATCH_BAR = 3
PATCH_PIXELS_LOG2 = 9
"""Pixels of a patch of reductions."""
FOLDED_WIDTH, FOLDED_ROWS = 128, 4
"""Rows from this many columns on are reduced as four rows."""
RUNNING_MAXIMUM = 3
PADDING_LEAST = 1
"""Padding mode of maxima."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is computed of the elements that are reduced."""

    maximum: bool = False
    scale: float = 1.0
    """Factor of the sum: one over the number of elements for a mean."""
    reciprocal: bool = False

    @property
    def values(self) -> Values:
        """Its fields."""
        return {
            "pe.reduce_kind": 2 if self.maximum else 0,
            "l2.padding_mode": PADDING_LEAST if self.maximum else 0,
            "pe.final_scale": self.scale,
            "pe.post_function": int(self.reciprocal),
        }


def reduction_tasks(
    reduction: Reduction, extent: Extent, axes: frozenset[str], source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over axes, by name; the reduced axes of the result have one element.

    Raises:
        HwxError: No program that reduces these axes of such a tensor is known.
    """
    whole = frozenset(name for name in axes if getattr(extent, name) > 1)
    if "channels" in whole and "height" not in axes and extent.height > 1:
        return reduce_exchanged(reduction, extent, whole, source, result)
    if whole <= {"width"}:
        return (reduce_width(reduction, extent, source, result),)
    if "channels" in whole:
        return reduce_with_channels(reduction, extent, whole, source, result)
    if "width" in axes:
        return (reduce_map(reduction, extent, source, result),)
    return reduce_height(reduction, extent, source, result)


def reduce_with_channels(
    reduction: Reduction, extent: Extent, axes: frozenset[str], source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over channels, with all rows that there are."""
    one_place = extent.height == extent.width == 1
    if one_place and reduction.maximum:
        return (channel_maximum(extent, source, result),)
    if "width" in axes or one_place:
        return (reduce_everything(reduction, extent, source, result),)
    if extent.height == 1:
        return reduce_channels(reduction, extent, source, result)
    rows = Extent(1, extent.channels * extent.height, extent.width)
    return reduce_height(reduction, rows, replace(source, plane=source.depth), result)


def reduce_exchanged(
    reduction: Reduction, extent: Extent, axes: frozenset[str], source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over channels of several rows: strides exchange both, so that rows are reduced.

    Programs were read that reduce rows, and that exchange channels and rows by strides; both together is inferred.
    """
    turned = Extent(extent.height, extent.channels, extent.width)
    across, to = (replace(one, row=one.plane, plane=one.row) for one in (source, result))
    return reduction_tasks(reduction, turned, (axes - {"channels"}) | {"height"}, across, to)


def reduce_task(
    reduction: Reduction, seen: Extent, source: Surface, result: Surface, buffer: Buffer, *, groups: int = 1
) -> Draft:
    """Return a task that reads a tensor by DMA and reduces rows, columns and depth of each channel of each group.

    Maps that do not fit the chip are read in tiles, as those of other tasks are (inferred for reductions).
    """
    patch = patch_log2(seen.width, seen.height, PATCH_PIXELS_LOG2)
    tile = tile_rows(seen.height, buffer.row)
    step = buffer.row * tile if groups == 1 else buffer.group * groups
    return Draft(
        {
            **planar_values(seen, seen, kind=REDUCE, tile=tile, patch=patch),
            "common.groups": groups,
            **reduction.values,
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", buffer),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(step),
        }
    )


def must_fit(size: int) -> int:
    """Return a size that fits the chip.

    Raises:
        HwxError: It does not.
    """
    if size >= ON_CHIP:
        raise HwxError("ANE-EMIT-007: the buffers of a task must fit the memory on chip", seen=size, limit=ON_CHIP)
    return size


def reduce_width(reduction: Reduction, extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the task of a reduction over the width; several rows are groups of a row each.

    Seen for one row; the groups of a source in memory are inferred from those of one on chip.
    """
    if extent.height == 1:
        folds = extent.width >= FOLDED_WIDTH and extent.width % (FOLDED_ROWS * 32) == 0
        seen = Extent(extent.channels, FOLDED_ROWS, extent.width // FOLDED_ROWS) if folds else extent
        rows = replace(source, row=2 * seen.width) if folds else source
        return reduce_task(reduction, seen, rows, result, planar_buffer(seen))
    seen = replace(extent, height=1)
    whole = planar_buffer(seen)
    buffer = Buffer(0, whole.channel, whole.depth, whole.depth, whole.row)
    rows, reduced = replace(source, group=source.row), replace(result, group=result.row)
    return reduce_task(reduction, seen, rows, reduced, buffer, groups=extent.height)


def reduce_map(reduction: Reduction, extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the task of a reduction over rows and columns (inferred: of one row it was seen)."""
    return reduce_task(reduction, extent, source, result, planar_buffer(extent))


def reduce_everything(reduction: Reduction, extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the task of a reduction over all axes: channels are its rows, rows its depth."""
    seen = Extent(1, extent.channels, extent.width, extent.height)
    turned = replace(source, row=source.plane, plane=source.depth, depth=source.row)
    channel = channel_bytes(extent.width, NEURAL_WIDTH)
    packed = extent.height * channel
    return reduce_task(reduction, seen, turned, result, Buffer(0, channel, packed, channel, packed))


def channel_maximum(extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the task of a maximum over the channels: the neural cores keep a running one."""
    single = replace(extent, channels=1)
    channel = channel_bytes(extent.width, NEURAL_WIDTH)
    packed = extent.channels * channel
    return Draft(
        {
            **unit_values(extent, single, cores=1, rows=UnitRows(0), tile=extent.height),
            "common.unicast": 1,
            "common.unicast_channels": extent.channels,
            "ne.mac_operation": RUNNING_MAXIMUM,
            "ne.implicit_ones": 1,
            "l2.padding_mode": PADDING_LEAST,
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", Buffer(0, channel, packed, packed, packed)),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(packed * extent.height),
        }
    )


def odd_units(size: int) -> int:
    """Return a stride that is an odd number of banks: transposed writes then meet each bank in turn."""
    units = round_to(size, BANK_BYTES) // BANK_BYTES
    return BANK_BYTES * (units + 1 - units % 2)


def transposing_copy(seen: Extent, source: Surface, kept: Buffer, room: int, rows: UnitRows, cores: int) -> Draft:
    """Return a copy that leaves its source on chip with channels and columns exchanged, in the first `room` bytes."""
    channel = channel_bytes(seen.width, NEURAL_WIDTH)
    packed = seen.channels * channel
    row = neural_row(packed, seen.width, rows.most)
    return Draft(
        {
            **unit_values(seen, seen, cores=cores, rows=rows, tile=seen.height),
            "common.unicast": 1,
            "common.output_transpose": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            **source_values(source),
            **result_values(None, KEPT),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", Buffer(must_fit(room), channel, row, packed, packed)),
            "l2.result_config": RESULT_KEPT,
            **buffer_values("result", kept),
        },
        Join(leaves_on_chip=True, copies=True),
    )


def reduce_channels(reduction: Reduction, extent: Extent, source: Surface, result: Surface) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over the channels of one row: exchanged with the columns, reduced, exchanged."""
    turned = Extent(extent.width, 1, extent.channels)
    channel = odd_units(2 * extent.channels)
    packed = extent.width * channel
    kept = Buffer(0, channel, packed, packed)
    named = surface_of(turned, SCRATCH_BAR).named()
    copy = transposing_copy(extent, source, kept, packed, pass_rows(turned.height, turned.width), extent.channels)
    first = Draft(
        {**copy.values, **result_values(named, KEPT)}, Join(leaves_on_chip=True, paired_after=True, copies=True)
    )
    patch = patch_log2(turned.width, 1, PATCH_PIXELS_LOG2)
    single = channel_bytes(extent.width, extent.width)
    second = Draft(
        {
            **planar_values(turned, turned, kind=REDUCE, tile=1, patch=patch),
            **reduction.values,
            "common.result_transpose": 1,
            **source_values(named),
            **result_values(result, result_config(result, stored=True)),
            "l2.source_config": FROM_NEURAL_NAMED,
            **buffer_values("source1", kept),
            "l2.result_config": STORED_FROM_CHIP,
            **buffer_values("result", Buffer(packed, single, single, single, single)),
        },
        Join(reads_chip=True, paired_before=True),
    )
    return first, second


def reduce_height(reduction: Reduction, extent: Extent, source: Surface, result: Surface) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over rows: exchanged with the columns, reduced in groups, exchanged back."""
    turned = Extent(extent.height, extent.channels, extent.width)
    across = replace(source, row=source.plane, plane=source.row)
    channel = channel_bytes(extent.height, extent.height)
    packed = extent.width * channel
    row = odd_units(packed)
    room = row * extent.channels
    kept = Buffer(0, channel, row, packed)
    rows = pass_rows(turned.height, extent.height)
    first = transposing_copy(turned, across, kept, room, rows, extent.height)
    second = reduce_rows_on_chip(
        reduction,
        Extent(extent.channels, 1, extent.height),
        groups=extent.width,
        source=Buffer(0, row, packed, packed, channel),
        result_at=room,
    )
    slot = extent.channels * BANK_BYTES
    return first, second, copy_back(extent, result, Buffer(room, slot, BANK_BYTES, slot), room + extent.width * slot)


def reduce_rows_on_chip(reduction: Reduction, seen: Extent, *, groups: int, source: Buffer, result_at: int) -> Draft:
    """Return a reduction of groups of rows that the neural cores left on chip; its result stays there."""
    slot = seen.channels * BANK_BYTES
    patch = patch_log2(seen.width, 1, PATCH_PIXELS_LOG2)
    return Draft(
        {
            **planar_values(seen, seen, kind=REDUCE, tile=1, patch=patch),
            "common.groups": groups,
            **reduction.values,
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_NEURAL,
            **buffer_values("source1", source),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", Buffer(result_at, BANK_BYTES, groups * slot, slot, slot)),
        },
        Join(reads_chip=True, leaves_on_chip=True),
    )


def copy_back(extent: Extent, result: Surface, source: Buffer, end: int) -> Draft:
    """Return the copy that writes a result of groups with channels and columns exchanged."""
    seen = Extent(extent.width, extent.channels, 1)
    rows = pass_rows(seen.height, seen.width, on_chip_source=True)
    return Draft(
        {
            **unit_values(seen, seen, cores=seen.channels, rows=rows, tile=min(seen.height, 1 << rows.most)),
            "common.unicast": 1,
            "common.output_transpose": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            **source_values(None),
            **result_values(replace(result, row=result.plane, plane=result.row), result_config(result)),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", source),
            "l2.result_config": RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": end,
        },
        Join(reads_chip=True, copies=True),
    )


def planar_kept(extent: Extent, base: int) -> Buffer:
    """Return where a source of several planar tasks stays on chip."""
    return replace(planar_buffer(extent, base), group=0)


def statistics_row(channels: int) -> int:
    """Return the row of one number per channel."""
    return planar_row(channels * BANK_BYTES)

"""Moves: copies by strides alone, and transposes of channels and columns through the chip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import SOURCE_BY_DMA, bypass, unit_values
from aneforge.formats.hwx.emission.reduction_tasks import must_fit
from aneforge.formats.hwx.emission.surfaces import (
    STORED,
    Buffer,
    Extent,
    Surface,
    buffer_values,
    result_values,
    source_values,
)
from aneforge.targets.work_units import NEURAL_WIDTH, channel_bytes, neural_row, pass_rows

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.work_units import TaskPlace

__all__ = ["copy_task", "exchange_channels_and_rows", "exchange_channels_and_width"]

RESULT_STORED = 0x500172
"""Word of a result that is written from a whole buffer on chip."""


def copy_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return a copy; concatenations and slices are copies at other offsets and with the whole's strides."""
    return bypass(extent, place, source, result)


def exchange_channels_and_rows(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return the copy that exchanges channels and rows, by strides of the source alone; `place` is the result's."""
    turned = replace(extent, channels=extent.height, height=extent.channels)
    return copy_task(turned, place, replace(source, row=source.plane, plane=source.row), result)


def exchange_channels_and_width(extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the copy that exchanges channels and columns, and writes from a whole buffer on chip.

    It was seen for tensors of one row; that others differ in their rows alone is inferred.
    """
    rows = pass_rows(extent.height, extent.channels)
    channel = channel_bytes(extent.width, NEURAL_WIDTH)
    packed = extent.channels * channel
    row = neural_row(packed, extent.width, rows.most)
    turned = channel_bytes(extent.channels, extent.channels)
    whole = extent.width * turned
    must_fit((row + whole) * extent.height)
    held = Buffer(row * extent.height, turned, whole, whole, whole)
    values: Values = {
        **unit_values(extent, extent, cores=extent.channels, rows=rows, tile=extent.height),
        "common.unicast": 1,
        "common.output_transpose": 1,
        "ne.mac_operation": 4,
        "ne.implicit_ones": 1,
        **source_values(source),
        **result_values(result, STORED),
        "l2.source_config": SOURCE_BY_DMA,
        **buffer_values("source1", Buffer(0, channel, row, packed, packed)),
        "l2.result_config": RESULT_STORED,
        **buffer_values("result", held),
    }
    return Draft(values, Join(copies=True))

"""Moves: copies by strides only, and transposes of channels and columns through the chip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import SOURCE_BY_DMA, bypass, neural_values
from aneforge.formats.hwx.emission.reduction_tasks import find_kept_result
from aneforge.formats.hwx.emission.surfaces import (
    STORED,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
)

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.task_chains import Chain
    from aneforge.targets.work_units import TaskPlace

__all__ = ["copy_task", "exchange_channels_and_rows", "exchange_channels_and_width"]

RESULT_STORED = 0x500172
"""Word of a result that is written from a whole buffer on chip."""


def copy_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return a copy; concatenations and slices are copies at other offsets and with the whole's strides."""
    return bypass(extent, place, source, result)


def exchange_channels_and_rows(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return the copy that exchanges channels and rows, only by strides of the source; `place` is the result's."""
    turned = replace(extent, channels=extent.height, height=extent.channels)
    return copy_task(turned, place, replace(source, row=source.plane, plane=source.row), result)


def exchange_channels_and_width(extent: Extent, chain: Chain, source: Surface, result: Surface) -> Draft:
    """Return the copy that exchanges channels and columns, and writes from a whole buffer on chip.

    It was seen for tensors of one row; that others differ only in their rows is inferred.

    Raises:
        HwxError: Its buffers do not fit the chip.
    """
    must_fit(chain.needed)
    (place,) = chain.tasks
    values: Values = {
        **neural_values(extent, extent, cores=extent.channels, place=place),
        "common.unicast": 1,
        "common.output_transpose": 1,
        "ne.mac_operation": 4,
        "ne.implicit_ones": 1,
        **source_values(source),
        **result_values(result, STORED),
        "l2.source_config": SOURCE_BY_DMA,
        **buffer_values("source1", place.source),
        "l2.result_config": RESULT_STORED,
        **buffer_values("result", find_kept_result(place)),
    }
    return Draft(values, Join(copies=True))

"""Activations: relu without a table, all others by a table of the neural cores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.hwx.emission.activation_tables import TABLE_BYTES
from aneforge.formats.hwx.emission.draft import Draft
from aneforge.formats.hwx.emission.neural_tasks import (
    COPY,
    RELU,
    RESULT_STREAMED,
    SOURCE_BY_DMA,
    TABLE,
    Streams,
    bypass,
    neural_values,
    result_config,
    stream_values,
)
from aneforge.formats.hwx.emission.surfaces import (
    Buffer,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
)
from aneforge.targets.work_units import CORES

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.work_units import TaskPlace

__all__ = [
    "build_shifted_table_task",
    "reciprocal_sum_task",
    "relu_task",
    "table_section",
    "table_streams",
    "table_task",
]

ACCUMULATE = 0
"""Operation of range-reduced tables that need the accumulator: the source is added to its bias."""


def relu_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return the task of a relu."""
    return bypass(extent, place, source, result, nonlinearity=RELU)


def table_streams(channels: int, kernel_at: int = 0) -> Streams:
    """Return the streams of a table: every core at work reads the same."""
    cores = min(channels, CORES)
    return Streams((kernel_at,) * cores, (TABLE_BYTES,) * cores)


def table_section(table: bytes, channels: int) -> bytes:
    """Return the constants of a table: 128 bytes for each core that reads it, of which the first are the table."""
    return table.ljust(TABLE_BYTES * min(channels, CORES), b"\0")


def table_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface, *, kernel_at: int = 0) -> Draft:
    """Return the task of an activation by a table, which is at `kernel_at` in the constants."""
    streams = table_streams(extent.channels, kernel_at)
    return bypass(extent, place, source, result, operation=COPY, nonlinearity=TABLE, streams=streams)


def build_shifted_table_task(
    extent: Extent, place: TaskPlace, source: Surface, result: Surface, epsilon: float, *, kernel_at: int = 0
) -> Draft:
    """Return the task of a table after the accumulator, whose bias is epsilon.

    It was read of reciprocal roots, and of reciprocals of sums in softmax; for reciprocals by themselves it is
    inferred.
    """
    streams = table_streams(extent.channels, kernel_at)
    draft = bypass(extent, place, source, result, operation=ACCUMULATE, nonlinearity=TABLE, streams=streams)
    return draft.with_values({"common.dpe_category": 1, "ne.accumulator_bias": float(np.float16(epsilon))})


def reciprocal_sum_task(
    extent: Extent, place: TaskPlace, source: Surface, result: Surface, *, kernel_at: int = 0
) -> Draft:
    """Return the task of softmax over channels that adds them with implicit weights of 1 and reads 1/x off its table.

    Operation, weights and table were read (hwx-programs 8.6); its map has the place of that of other convolutions.
    """
    single = replace(extent, channels=1)
    values: Values = {
        **neural_values(extent, single, cores=1, place=place),
        "common.dpe_category": 1,
        "ne.mac_operation": ACCUMULATE,
        "ne.implicit_ones": 1,
        "ne.nonlinearity": TABLE,
        **source_values(source),
        **stream_values(table_streams(1, kernel_at)),
        **result_values(result, result_config(result)),
        "l2.source_config": SOURCE_BY_DMA,
        **buffer_values("source1", Buffer(0, place.channel, place.row, place.packed, place.packed)),
        "l2.result_config": RESULT_STREAMED,
        "l2.result_l2_base": must_fit(place.end),
    }
    return Draft(values, full=True)

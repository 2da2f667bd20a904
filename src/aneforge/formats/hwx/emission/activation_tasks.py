"""Activations: relu without a table, all others by a table of the neural cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.hwx.emission.activation_tables import TABLE_BYTES
from aneforge.formats.hwx.emission.neural_tasks import COPY, RELU, TABLE, Streams, bypass
from aneforge.targets.work_units import CORES

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Extent, Surface
    from aneforge.targets.work_units import TaskPlace

__all__ = ["relu_task", "rsqrt_task", "table_section", "table_streams", "table_task"]

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
    """Return the task of an activation by a table, which lies at `kernel_at` in the constants."""
    streams = table_streams(extent.channels, kernel_at)
    return bypass(extent, place, source, result, operation=COPY, nonlinearity=TABLE, streams=streams)


def rsqrt_task(
    extent: Extent, place: TaskPlace, source: Surface, result: Surface, epsilon: float, *, kernel_at: int = 0
) -> Draft:
    """Return the task of a reciprocal square root: the table after the accumulator, whose bias is epsilon."""
    streams = table_streams(extent.channels, kernel_at)
    draft = bypass(extent, place, source, result, operation=ACCUMULATE, nonlinearity=TABLE, streams=streams)
    return draft.with_values({"common.dpe_category": 1, "ne.accumulator_bias": float(np.float16(epsilon))})

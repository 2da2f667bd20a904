"""Softmax and layer normalisation over the width: chains of tasks that hand over on chip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tasks import table_streams
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import (
    RESULT_KEPT,
    RESULT_STREAMED_FROM_CHIP,
    SOURCE_KEPT,
    TABLE,
    bypass,
    result_config,
    stream_values,
    unit_values,
)
from aneforge.formats.hwx.emission.planar_tasks import (
    NORMALISE,
    OPERATIONS,
    REDUCE,
    REDUCE_TWO,
    TWO_SOURCES,
    WIDTH,
    operator_values,
    planar_values,
)
from aneforge.formats.hwx.emission.reduction_tasks import (
    FROM_PLANAR,
    KEPT_FROM_CHIP,
    PATCH_PIXELS_LOG2,
    Reduction,
    must_fit,
    planar_kept,
    reduce_rows_on_chip,
    statistics_row,
)
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    Buffer,
    Extent,
    Surface,
    buffer_values,
    result_values,
    source_values,
)
from aneforge.targets.work_units import BANK_BYTES, pass_place, pass_rows, patch_log2

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values

__all__ = ["layer_norm_tasks", "softmax_tasks"]

FROM_PLANAR_IN_PLACE = 0x108
"""Word of a table task's on-chip source that it replaces."""
LOG2_E = float(np.float16(1.44238))
"""log2(e) as the programs have it, by which exponents are multiplied."""
SQUARE_OF_SUM = 4
RSQRT = 2
CHANNELS = 8
PRODUCER: Values = {"ne.hand_over_producer": 1, "header.disallow_abort": 1}
CONSUMER: Values = {"ne.hand_over_consumer": 1}


def softmax_tasks(extent: Extent, source: Surface, result: Surface, *, kernel_at: int = 0) -> tuple[Draft, ...]:
    """Return the tasks of a softmax over the width: maximum, exponent, powers of two, reciprocal sum, product.

    Three buffers on chip take turns: the source, then the reciprocal sums; the exponents; the maxima. Tensors of one
    row are read by the first reduction itself.

    Raises:
        HwxError: The buffers do not fit the chip.
    """
    held = planar_kept(extent, 0)
    size = held.row * extent.height
    powers, maxima = replace(held, base=size), 2 * size
    must_fit(3 * size)
    slot = extent.channels * BANK_BYTES
    rows = Extent(extent.channels, 1, extent.width)
    row_view = Buffer(0, held.channel, held.depth, held.depth, held.row)
    first: tuple[Draft, ...] = ()
    if extent.height > 1:
        place = pass_place(extent.channels, extent.height, extent.width, kept=size)
        first = (bypass(extent, place, source, held),)
    largest = reduce_rows_on_chip(
        Reduction(maximum=True), rows, groups=extent.height, source=row_view, result_at=maxima
    )
    if not first:
        largest = from_memory(largest, source, held)
    total = reduce_rows_on_chip(
        Reduction(reciprocal=True), rows, groups=extent.height, source=replace(row_view, base=size), result_at=0
    )
    return (
        *first,
        largest.with_values(PRODUCER),
        exponent(extent, held, Buffer(maxima, BANK_BYTES, slot, slot), powers),
        power(extent, powers, kernel_at),
        total.with_values(PRODUCER),
        product(extent, Buffer(0, BANK_BYTES, slot, slot), powers, result, maxima),
    )


def from_memory(draft: Draft, source: Surface, held: Buffer) -> Draft:
    """Return a reduction that reads its source from memory and leaves it on chip."""
    values: Values = {
        **draft.values,
        **source_values(source),
        "l2.source_config": SOURCE_KEPT,
        **buffer_values("source1", replace(held, group=held.depth)),
        "l2.result_config": RESULT_KEPT,
    }
    return replace(draft, values=values, join=Join(leaves_on_chip=True))


def exponent(extent: Extent, source: Buffer, maxima: Buffer, result: Buffer) -> Draft:
    """Return the task (x - maximum) * log2(e); its patch has one row more as an exponent, for no known reason."""
    across, down = patch_log2(extent.width, extent.height)
    return Draft(
        {
            **planar_values(extent, extent, kind=TWO_SOURCES, tile=extent.height, patch=(across, down + 1)),
            **operator_values(OPERATIONS["sub"]),
            "pe.scale": LOG2_E,
            "common.source2_broadcast": WIDTH,
            **CONSUMER,
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", source),
            **buffer_values("source2", maxima),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", result),
        },
        Join(reads_chip=True, leaves_on_chip=True),
    )


def power(extent: Extent, held: Buffer, kernel_at: int) -> Draft:
    """Return the table task of powers of two, in place."""
    rows = pass_rows(extent.height, extent.width, on_chip_source=True)
    return Draft(
        {
            **unit_values(extent, extent, cores=extent.channels, rows=rows, tile=extent.height),
            "common.unicast": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            "ne.nonlinearity": TABLE,
            **stream_values(table_streams(extent.channels, kernel_at)),
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_PLANAR_IN_PLACE,
            **buffer_values("source1", held),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", held),
        },
        Join(reads_chip=True, leaves_on_chip=True),
        full=True,
    )


def product(extent: Extent, factors: Buffer, source: Buffer, result: Surface, room: int) -> Draft:
    """Return the task that multiplies every row by its factor and writes the result."""
    patch = patch_log2(extent.width, extent.height)
    return Draft(
        {
            **planar_values(extent, extent, kind=TWO_SOURCES, tile=extent.height, patch=patch),
            **operator_values(OPERATIONS["mul"]),
            "common.source1_broadcast": WIDTH,
            **CONSUMER,
            **source_values(None),
            **result_values(result, result_config(result)),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", factors),
            **buffer_values("source2", source),
            "l2.result_config": RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": room,
        },
        Join(reads_chip=True),
    )


def layer_norm_tasks(extent: Extent, source: Surface, result: Surface, epsilon: float) -> tuple[Draft, ...]:
    """Return the tasks of a normalisation of one row of each channel: mean, reciprocal deviation, both applied.

    Programs of one channel were read, whose statistics are marked as repeated along the channels; that those of several
    channels are not is inferred.

    Raises:
        HwxError: There are several rows: no such program is known.
    """
    if extent.height > 1:
        raise HwxError("ANE-EMIT-006: no program that normalises several rows is known", seen=extent.height)
    step = statistics_row(extent.channels)
    mean = Buffer(0, BANK_BYTES, step, extent.channels * BANK_BYTES)
    held = planar_kept(extent, 2 * step)
    patch = patch_log2(extent.width, 1, PATCH_PIXELS_LOG2)
    share = 1 / extent.width
    first: Values = {
        **planar_values(extent, extent, kind=REDUCE, tile=1, patch=patch),
        "pe.final_scale": share,
        **PRODUCER,
        **source_values(source),
        **result_values(None, KEPT),
        "l2.source_config": SOURCE_KEPT,
        **buffer_values("source1", replace(held, group=held.depth)),
        "l2.result_config": RESULT_KEPT,
        **buffer_values("result", mean),
    }
    second: Values = {
        **planar_values(extent, extent, kind=REDUCE_TWO, tile=1, patch=patch),
        "pe.planar_operation": SQUARE_OF_SUM,
        "pe.negate_source1": 1,
        "pe.source2_tensor": 1,
        "pe.post_function": RSQRT,
        "pe.epsilon": epsilon,
        "pe.final_scale": share,
        "common.source1_broadcast": WIDTH,
        **PRODUCER,
        **CONSUMER,
        **source_values(None),
        **result_values(None, KEPT),
        "l2.source_config": FROM_PLANAR,
        **buffer_values("source1", mean),
        **buffer_values("source2", held),
        "l2.result_config": KEPT_FROM_CHIP,
        **buffer_values("result", replace(mean, base=step)),
    }
    third: Values = {
        **planar_values(extent, extent, kind=NORMALISE, tile=1, patch=patch),
        **operator_values(OPERATIONS["sub"]),
        "common.source2_broadcast": CHANNELS if extent.channels == 1 else 0,
        **CONSUMER,
        **source_values(None),
        **result_values(result, result_config(result)),
        "l2.source_config": FROM_PLANAR,
        **buffer_values("source1", held),
        **buffer_values("source2", mean),
        "l2.result_config": RESULT_STREAMED_FROM_CHIP,
        "l2.result_l2_base": must_fit(held.base + held.row),
    }
    return (
        Draft(first, Join(leaves_on_chip=True)),
        Draft(second, Join(reads_chip=True, leaves_on_chip=True)),
        Draft(third, Join(reads_chip=True)),
    )

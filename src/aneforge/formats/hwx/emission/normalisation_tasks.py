"""Softmax and layer normalisation over the width: chains of tasks that pass results on chip."""

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
    neural_values,
    result_config,
    stream_values,
)
from aneforge.formats.hwx.emission.planar_tasks import (
    NORMALISE,
    OPERATIONS,
    REDUCE,
    REDUCE_TWO,
    TWO_SOURCES,
    WIDTH,
    operator_values,
    placed_values,
)
from aneforge.formats.hwx.emission.reduction_tasks import (
    FROM_PLANAR,
    KEPT_FROM_CHIP,
    Reduction,
    find_kept_result,
    reduce_rows_on_chip,
)
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
)

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.task_chains import Buffer, Chain, ChainTask

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


def softmax_tasks(
    extent: Extent, chain: Chain, source: Surface, result: Surface, *, kernel_at: int = 0
) -> tuple[Draft, ...]:
    """Return the tasks of a softmax over the width: maximum, exponent, powers of two, reciprocal sum, product.

    Tensors of one row are read by the first reduction itself, others are copied onto the chip.

    Raises:
        HwxError: The buffers do not fit the chip.
    """
    must_fit(chain.needed)
    largest_at, exponent_at, power_at, total_at, product_at = chain.tasks
    rows = Extent(extent.channels, 1, extent.width)
    largest = reduce_rows_on_chip(Reduction(maximum=True), rows, largest_at, groups=extent.height)
    total = reduce_rows_on_chip(Reduction(reciprocal=True), rows, total_at, groups=extent.height)
    copies = tuple(bypass(extent, place, source, exponent_at.source) for place in chain.passes)
    return (
        *copies,
        (largest if copies else from_memory(largest, source)).with_values(PRODUCER),
        exponent(extent, exponent_at),
        power(extent, power_at, kernel_at),
        total.with_values(PRODUCER),
        product(extent, product_at, result),
    )


def from_memory(draft: Draft, source: Surface) -> Draft:
    """Return a reduction that reads its source from memory and leaves it on chip."""
    values: Values = {
        **draft.values,
        **source_values(source),
        "l2.source_config": SOURCE_KEPT,
        "l2.result_config": RESULT_KEPT,
    }
    return replace(draft, values=values, join=Join(leaves_on_chip=True))


def second_source(place: ChainTask) -> Buffer:
    """Return where the second source of a task is.

    Raises:
        HwxError: The plan has none, which is a fault of the planner's.
    """
    if place.second is None:
        raise HwxError("ANE-EMIT-001: the memory plan has no second source for this task")
    return place.second


def exponent(extent: Extent, place: ChainTask) -> Draft:
    """Return the task (x - maximum) * log2(e)."""
    return Draft(
        {
            **placed_values(extent, place, kind=TWO_SOURCES),
            **operator_values(OPERATIONS["sub"]),
            "pe.scale": LOG2_E,
            "common.source2_broadcast": WIDTH,
            **CONSUMER,
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", place.source),
            **buffer_values("source2", second_source(place)),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", find_kept_result(place)),
        },
        Join(reads_chip=True, leaves_on_chip=True),
    )


def power(extent: Extent, place: ChainTask, kernel_at: int) -> Draft:
    """Return the table task of powers of two, in place."""
    return Draft(
        {
            **neural_values(extent, extent, cores=extent.channels, place=place),
            "common.unicast": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            "ne.nonlinearity": TABLE,
            **stream_values(table_streams(extent.channels, kernel_at)),
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_PLANAR_IN_PLACE,
            **buffer_values("source1", place.source),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", find_kept_result(place)),
        },
        Join(reads_chip=True, leaves_on_chip=True),
        full=True,
    )


def product(extent: Extent, place: ChainTask, result: Surface) -> Draft:
    """Return the task that multiplies every row by its factor and writes the result."""
    return Draft(
        {
            **placed_values(extent, place, kind=TWO_SOURCES),
            **operator_values(OPERATIONS["mul"]),
            "common.source1_broadcast": WIDTH,
            **CONSUMER,
            **source_values(None),
            **result_values(result, result_config(result)),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", place.source),
            **buffer_values("source2", second_source(place)),
            "l2.result_config": RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": place.end,
        },
        Join(reads_chip=True),
    )


def layer_norm_tasks(
    extent: Extent, chain: Chain, source: Surface, result: Surface, epsilon: float
) -> tuple[Draft, ...]:
    """Return the tasks of a normalisation of one row of each channel: mean, reciprocal deviation, both applied.

    Programs of one channel were read, whose statistics are marked as repeated along the channels; that those of several
    channels are not is inferred.

    Raises:
        HwxError: There are several rows, of which no program is known, or the buffers do not fit the chip.
    """
    if extent.height > 1:
        raise HwxError("ANE-EMIT-006: no program that normalises several rows is known", seen=extent.height)
    must_fit(chain.needed)
    mean_at, deviation_at, applied_at = chain.tasks
    share = 1 / extent.width
    first: Values = {
        **placed_values(extent, mean_at, kind=REDUCE),
        "pe.final_scale": share,
        **PRODUCER,
        **source_values(source),
        **result_values(None, KEPT),
        "l2.source_config": SOURCE_KEPT,
        **buffer_values("source1", mean_at.source),
        "l2.result_config": RESULT_KEPT,
        **buffer_values("result", find_kept_result(mean_at)),
    }
    second: Values = {
        **placed_values(extent, deviation_at, kind=REDUCE_TWO),
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
        **buffer_values("source1", deviation_at.source),
        **buffer_values("source2", second_source(deviation_at)),
        "l2.result_config": KEPT_FROM_CHIP,
        **buffer_values("result", find_kept_result(deviation_at)),
    }
    third: Values = {
        **placed_values(extent, applied_at, kind=NORMALISE),
        **operator_values(OPERATIONS["sub"]),
        "common.source2_broadcast": CHANNELS if extent.channels == 1 else 0,
        **CONSUMER,
        **source_values(None),
        **result_values(result, result_config(result)),
        "l2.source_config": FROM_PLANAR,
        **buffer_values("source1", applied_at.source),
        **buffer_values("source2", second_source(applied_at)),
        "l2.result_config": RESULT_STREAMED_FROM_CHIP,
        "l2.result_l2_base": applied_at.end,
    }
    return (
        Draft(first, Join(leaves_on_chip=True)),
        Draft(second, Join(reads_chip=True, leaves_on_chip=True)),
        Draft(third, Join(reads_chip=True)),
    )

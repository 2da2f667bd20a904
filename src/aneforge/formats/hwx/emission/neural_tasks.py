"""Tasks of the neural cores: convolutions, tables and copies. Words of hwx-programs 8.1 to 8.5."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.coefficients import KernelPlan, kernel_plans
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    SCRATCH,
    STREAMED,
    Access,
    Buffer,
    Extent,
    Surface,
    buffer_values,
    expect_extents,
    must_fit,
    result_values,
    source_values,
)
from aneforge.records import dataclass
from aneforge.targets.work_units import CORES, SMALL_MAP, UnitRows, ceil_log2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.hwx.emission.coefficients import Convolution
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.task_chains import ChainTask
    from aneforge.targets.work_units import TaskPlace

__all__ = [
    "Streams",
    "bypass",
    "convolution_tasks",
    "neural_values",
    "result_config",
    "stream_values",
]

SOURCE_BY_DMA, SOURCE_KEPT, SOURCE_ON_CHIP = 0x500172, 0x500171, 0x100
"""Words of the on-chip source: read by DMA, read by DMA and kept for later tasks, left there by an earlier one."""
RESULT_STREAMED, RESULT_STREAMED_FROM_CHIP = 0x50017A, 0x14A
"""Words of the on-chip result that goes out by DMA, with a source from memory or from the chip."""
UNUSED_STREAM, USED_STREAM = 0x80, 0x81
COPY = 4
"""Operation that passes its source through."""
RESULT_KEPT = 0x500170
"""Word of a result that stays on chip, of a source that was read by DMA."""
RELU, TABLE = 1, 2
"""Nonlinearities."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Where each core finds its coefficients: bytes from the kernel's base register."""

    bases: tuple[int, ...]
    sizes: tuple[int, ...]
    bar: int = 1
    sparse: bool = False


def neural_values(source: Extent, result: Extent, *, cores: int, place: TaskPlace | ChainTask) -> Values:
    """Return what tasks of the neural cores have in common, for a 1x1 kernel and no coefficients."""
    active, rows = ceil_log2(min(cores, CORES)), place.unit or UnitRows(0)
    return {
        **geometry_values(source, result, place.tile),
        "common.rows_preferred_log2": rows.preferred,
        "common.rows_least_log2": rows.least,
        "common.rows_most_log2": rows.most,
        "common.active_cores_log2": active,
        "common.info_network_id": 1,
        "header.neural_cores": active + 1,
        "ne.kernel_format": 2,
        "ne.palette_bits": 8,
        "ne.binary_point": -4,
        "ne.mac_always": 1,
        "ne.post_scale": 1.0,
    }


def geometry_values(source: Extent, result: Extent, tile: int) -> Values:
    """Return what every task says of its extents, and words that all tasks share.

    Raises:
        HwxError: They do not fit their registers.
    """
    expect_extents(source)
    expect_extents(result)
    return {
        "common.source_width": source.width,
        "common.source_height": source.height,
        "common.source_depth": source.depth,
        "common.source_channels": source.channels,
        "common.result_channels": result.channels,
        "common.result_width": result.width,
        "common.result_height": result.height,
        "common.result_depth": result.depth,
        "common.source1_format": 2,
        "common.result_format": 2,
        "common.kernel_width": 1,
        "common.kernel_height": 1,
        "common.stride_x": 1,
        "common.stride_y": 1,
        "common.origin_x": 1,
        "common.origin_y": 1,
        "common.kernel_depth": 1,
        "common.stride_z": 1,
        "common.origin_z": 1,
        "common.groups": 1,
        "common.unicast_channels": 1,
        "common.tile_height": tile,
        "common.always": 1,
        "source+0x40": 0x100,
        "kernel_source.coefficient_config": (UNUSED_STREAM,) * CORES,
        "kernel_source.auxiliary_config": (UNUSED_STREAM,) * 4,
        "kernel_source.auxiliary_size": (64,) * 4,
        **source_values(None, 2),
    }


def stream_values(streams: Streams) -> Values:
    """Return the registers of coefficient streams; cores without one have the smallest size."""
    idle = CORES - len(streams.sizes)
    return {
        "kernel_source.enable": 1,
        "kernel_source.sparse": int(streams.sparse),
        "kernel_source.coefficient_config": (USED_STREAM,) * len(streams.sizes) + (UNUSED_STREAM,) * idle,
        "kernel_source.coefficient_base": streams.bases + (0,) * idle,
        "kernel_source.coefficient_size": streams.sizes + (64,) * idle,
        "header.kernel_bar": streams.bar,
        "header.kernel_bar_enable": 1,
    }


def result_config(surface: Surface, *, stored: bool = False) -> int:
    """Return the configuration of a result's DMA; a surface that a later task reads says so by its access."""
    if surface.access is Access.WRITTEN_BEFORE:
        return SCRATCH
    return 0xC1 if stored else STREAMED


def convolution_values(convolution: Convolution, plan: KernelPlan, place: TaskPlace | ChainTask) -> Values:
    """Return the words of a convolution task without its tensors and streams.

    Another scale than 1 is inferred: the register is known, no program that sets it.
    """
    grouped = not convolution.depthwise
    source = replace(convolution.source, channels=convolution.group_source if grouped else convolution.groups)
    result = replace(convolution.result, channels=plan.outputs)
    values = neural_values(source, result, cores=plan.cores, place=place)
    return {
        **values,
        "common.kernel_width": convolution.kernel[1],
        "common.kernel_height": convolution.kernel[0],
        "common.lanes_log2": ceil_log2(plan.lanes),
        "common.stride_x": convolution.stride[1],
        "common.stride_y": convolution.stride[0],
        "common.pad_left": convolution.pads[1],
        "common.pad_top": convolution.pads[0],
        "common.groups": convolution.groups if grouped else 1,
        "common.unicast": int(convolution.depthwise),
        "common.small_source": int(convolution.result.width <= SMALL_MAP),
        "ne.sparse_kernel": int(plan.sparse),
        "ne.has_bias": int(convolution.bias),
        "ne.nonlinearity": RELU if convolution.relu else 0,
        "ne.post_scale": convolution.scale,
    }


def convolution_tasks(
    convolution: Convolution,
    places: tuple[TaskPlace, TaskPlace | None],
    source: Surface,
    result: Surface,
    *,
    sizes: Sequence[Sequence[int]] | None = None,
    kernel_at: int = 0,
) -> tuple[Draft, ...]:
    """Return the tasks of a convolution: one, or several where a core's kernel memory does not hold all outputs.

    `places` are where its source streams through, and where it stays for several tasks, if it fits. `sizes` are the
    bytes of each core's coefficients per task; without them, those of a kernel without zeros.

    Raises:
        HwxError: No known form of program computes it.
    """
    plans = kernel_plans(convolution)
    parts: list[tuple[KernelPlan, Streams]] = []
    at = kernel_at
    for task, plan in enumerate(plans):
        block = tuple(sizes[task]) if sizes else plan.core_sizes
        bases = tuple(at + sum(block[:core]) for core in range(len(block)))
        parts.append((plan, Streams(bases, block, sparse=plan.sparse)))
        at += sum(block)
    if len(parts) == 1:
        return (single_convolution(convolution, places[0], *parts[0], source, result),)
    return split_convolution(convolution, places, parts, source, result)


def single_convolution(
    convolution: Convolution, place: TaskPlace, plan: KernelPlan, streams: Streams, source: Surface, result: Surface
) -> Draft:
    """Return the task of a convolution that streams its source."""
    values = convolution_values(convolution, plan, place)
    return Draft(
        {
            **values,
            **stream_values(streams),
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", Buffer(0, place.channel, place.row, place.packed, place.packed)),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(place.end),
        },
        full=True,
    )


def split_convolution(
    convolution: Convolution,
    places: tuple[TaskPlace, TaskPlace | None],
    parts: Sequence[tuple[KernelPlan, Streams]],
    source: Surface,
    result: Surface,
) -> tuple[Draft, ...]:
    """Return the tasks of a convolution whose outputs are computed in parts, the last part first.

    The first task leaves the source on chip for the others; a source that does not fit is read by each of them.
    """
    streamed, place = places
    drafts: list[Draft] = []
    for index, (plan, stream) in enumerate(parts):
        part = result.at(result.base + plan.first * result.plane)
        if place is None:
            drafts.append(single_convolution(convolution, streamed, plan, stream, source, part))
            continue
        first, last = index == 0, index == len(parts) - 1
        buffer = Buffer(0, place.channel, place.row, place.packed, place.packed if first else 0)
        values = {
            **convolution_values(convolution, plan, place),
            **stream_values(stream),
            **source_values(source if first else None),
            **result_values(part, result_config(part)),
            "l2.source_config": SOURCE_KEPT if first else SOURCE_ON_CHIP,
            **buffer_values("source1", buffer),
            "l2.result_config": RESULT_STREAMED if first else RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": must_fit(place.end),
        }
        drafts.append(Draft(values, Join(reads_chip=not first, leaves_on_chip=not last), full=True))
    return tuple(drafts)


def bypass(
    extent: Extent,
    place: TaskPlace,
    source: Surface,
    result: Surface | Buffer,
    *,
    operation: int = COPY,
    nonlinearity: int = 0,
    streams: Streams | None = None,
) -> Draft:
    """Return a task that passes its source through: a copy, a relu or a table.

    A result that is a buffer stays on chip.
    """
    values: Values = {
        **neural_values(extent, extent, cores=extent.channels, place=place),
        **source_values(source),
        "common.unicast": 1,
        "ne.mac_operation": operation,
        "ne.implicit_ones": 1,
        "ne.nonlinearity": nonlinearity,
        "l2.source_config": SOURCE_BY_DMA,
        **buffer_values("source1", Buffer(place.base, place.channel, place.row, place.packed, place.packed)),
        **(stream_values(streams) if streams else {}),
        **bypass_result(result, must_fit(place.end)),
    }
    copies = streams is None and not nonlinearity and operation == COPY
    return Draft(values, Join(leaves_on_chip=isinstance(result, Buffer), copies=copies), full=streams is not None)


def bypass_result(result: Surface | Buffer, room: int) -> Values:
    """Return where the result of a bypass goes; `room` is where on chip it streams through."""
    if isinstance(result, Buffer):
        return {
            **result_values(None, KEPT),
            "l2.result_config": RESULT_KEPT,
            **buffer_values("result", result),
        }
    return {
        **result_values(result, result_config(result)),
        "l2.result_config": RESULT_STREAMED,
        "l2.result_l2_base": room,
    }

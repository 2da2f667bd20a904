"""Products of matrices: by a constant through a transposed copy, and of two tensors with one of them as the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.coefficients import Convolution, kernel_plans
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import (
    RESULT_STREAMED_FROM_CHIP,
    Streams,
    convolution_values,
    result_config,
    stream_values,
)
from aneforge.formats.hwx.emission.planar_tasks import ONE_SOURCE, SOURCE_BY_DMA, placed_values
from aneforge.formats.hwx.emission.reduction_tasks import (
    FROM_NEURAL_NAMED,
    SCRATCH_BAR,
    transposing_copy,
)
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    LINE,
    SCRATCH,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
    surface_of,
)
from aneforge.targets.work_units import CORES, round_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.targets.task_chains import Chain, ChainTask

__all__ = [
    "constant_product_tasks",
    "linear_convolution",
    "matrix_surface",
    "runtime_kernel_size",
    "runtime_product_tasks",
]

MOST_LANES = 16
"""Lanes of a core at most, whatever the map (decoded); they must also fit the kernel memory."""


def matrix_surface(rows: int, columns: int, bar: int) -> Surface:
    """Return a matrix as a surface: its rows are channels of one row, as close as lines allow."""
    row = -(-2 * columns // 64) * 64
    return Surface(bar=bar, row=row * rows, plane=row, depth=row * rows, group=row * rows)


def linear_convolution(rows: int, contracted: int, outputs: int, *, bias: bool = False) -> Convolution:
    """Return the convolution that multiplies by a constant matrix: rows are columns of its map."""
    return Convolution(
        source=Extent(contracted, 1, rows), result=Extent(outputs, 1, rows), bias=bias, most_lanes=MOST_LANES
    )


def constant_product_tasks(
    shape: tuple[int, int, int],
    chain: Chain,
    source: Surface,
    result: Surface,
    *,
    bias: bool = False,
    kernel_at: int = 0,
) -> tuple[Draft, ...]:
    """Return the tasks of x · Wᵀ: x onto the chip with rows and columns exchanged, a 1x1 convolution, exchanged again.

    `shape` is rows, what is contracted, and outputs.

    Raises:
        HwxError: The kernel does not fit one task, or the buffers do not fit the chip.
    """
    must_fit(chain.needed)
    copied, place = chain.tasks
    rows, contracted, outputs = shape
    convolution = linear_convolution(rows, contracted, outputs, bias=bias)
    plan, *more = kernel_plans(convolution)
    if more:
        raise HwxError(
            "ANE-EMIT-004: a product by a constant must fit the kernel memory of one task", seen=1 + len(more)
        )
    named = surface_of(Extent(contracted, 1, rows), SCRATCH_BAR).pair_surface()
    copy = transposing_copy(Extent(rows, 1, contracted), copied, source, CORES)
    first = Draft(
        {**copy.values, **result_values(named, KEPT)}, Join(leaves_on_chip=True, paired_after=True, copies=True)
    )
    size = plan.core_sizes[0]
    streams = Streams(tuple(kernel_at + size * core for core in range(plan.cores)), plan.core_sizes)
    second = Draft(
        {
            **convolution_values(convolution, plan, place),
            "common.output_transpose": 1,
            **stream_values(streams),
            **source_values(named),
            **result_values(result, result_config(result)),
            "l2.source_config": FROM_NEURAL_NAMED,
            **buffer_values("source1", place.source),
            "l2.result_config": RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": place.end,
        },
        Join(reads_chip=True, paired_before=True),
        full=True,
    )
    return first, second


RUNTIME_SOURCE, RUNTIME_RESULT = 0x100172, 0x40017A
"""Words of the on-chip places of a convolution whose kernel is a tensor."""
INTERLEAVED_RESULT = 0x50007A
"""The same of the copy that packs the kernel, without the number of channels side by side."""
MOST_INTERLEAVE = 8
"""Channels side by side that the field of a format holds as a power of two."""


def runtime_kernel_size(rows: int, contracted: int) -> int:
    """Return the bytes of scratch memory that a runtime kernel takes."""
    return CORES * round_to(2 * contracted * (rows // CORES), LINE)


def runtime_product_tasks(
    shape: tuple[int, int, int],
    chain: Chain,
    first: Surface,
    second: Surface,
    result: Surface,
    *,
    scratch_at: int = 0,
    scale: float = 1.0,
) -> tuple[Draft, ...]:
    """Return the tasks of x · y: x is packed into scratch as a kernel, y is the map that it is applied to.

    `shape` is rows, what is contracted, and columns.

    Raises:
        HwxError: The shapes need several tasks, whose form is not known, or the buffers do not fit the chip.
    """
    must_fit(chain.needed)
    rows, contracted, columns = shape
    packed, multiplied = chain.tasks
    lanes = rows // CORES
    if rows % CORES or lanes & (lanes - 1) or lanes > MOST_INTERLEAVE:
        raise HwxError("ANE-EMIT-008: the rows of a runtime kernel must be 16, 32, 64 or 128", seen=rows)
    seen = Extent(rows, 1, contracted)
    plane = round_to(2 * contracted * lanes, LINE)
    scratch = Surface(
        bar=SCRATCH_BAR,
        base=scratch_at,
        row=plane,
        plane=plane,
        depth=plane * CORES,
        group=plane * CORES,
        interleave=lanes,
    )
    pack = Draft(
        {
            **placed_values(seen, packed, kind=ONE_SOURCE),
            **source_values(first),
            **result_values(scratch, SCRATCH),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", packed.source),
            "l2.result_config": INTERLEAVED_RESULT | lanes << 8,
            "l2.result_l2_base": packed.end,
        }
    )
    source = Extent(contracted, 1, columns)
    convolution = Convolution(source=source, result=replace(source, channels=rows), scale=scale, most_lanes=lanes)
    return pack, runtime_convolution(convolution, multiplied, scratch_at, (second, result))


def runtime_convolution(
    convolution: Convolution, place: ChainTask, kernel_at: int, surfaces: Sequence[Surface]
) -> Draft:
    """Return the convolution whose kernel an earlier task packed into scratch."""
    plan, *more = kernel_plans(convolution)
    if more:
        raise HwxError("ANE-EMIT-008: a runtime kernel must fit the kernel memory of one task", seen=1 + len(more))
    size = plan.core_sizes[0]
    bases = tuple(kernel_at + size * core for core in range(plan.cores))
    return Draft(
        {
            **convolution_values(convolution, plan, place),
            "common.small_source": 0,
            "ne.runtime_kernel": 1,
            **stream_values(Streams(bases, plan.core_sizes, bar=SCRATCH_BAR)),
            **source_values(surfaces[0]),
            **result_values(surfaces[1], result_config(surfaces[1])),
            "l2.source_config": RUNTIME_SOURCE,
            **buffer_values("source1", place.source),
            "l2.result_config": RUNTIME_RESULT,
            "l2.result_l2_base": place.end,
        },
        full=True,
        kernel_from=1,
    )

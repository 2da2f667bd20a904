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
    neural_values,
    result_config,
)
from aneforge.formats.hwx.emission.planar_tasks import REDUCE, placed_values
from aneforge.formats.hwx.emission.surfaces import (
    KEPT,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
    surface_of,
)
from aneforge.records import dataclass
from aneforge.targets.task_chains import Buffer, ReductionForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.task_chains import ChainTask, ReductionChain

__all__ = [
    "FROM_NEURAL",
    "FROM_NEURAL_NAMED",
    "FROM_PLANAR",
    "KEPT_FROM_CHIP",
    "Reduction",
    "expect_several",
    "reduce_rows_on_chip",
    "reduction_tasks",
    "transposing_copy",
]

FROM_NEURAL, FROM_NEURAL_NAMED, FROM_PLANAR = 0x120, 0x160, 0x400100
"""Words of an on-chip source: a result of the neural cores, one with its surface named, one of the planar engine."""
KEPT_FROM_CHIP, STORED_FROM_CHIP = 0x140, 0x141
"""Words of an on-chip result whose source is on chip: it stays, or is written from a whole buffer."""
SCRATCH_BAR = 3
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


def expect_several(extent: Extent, axes: frozenset[str]) -> None:
    """Check that axes have several elements between them: tasks that reduce one element would reduce others.

    Raises:
        HwxError: They have one.
    """
    if all(getattr(extent, name) == 1 for name in axes):
        raise HwxError("ANE-EMIT-006: no program that reduces one element is known", seen=", ".join(sorted(axes)))


def reduction_tasks(
    reduction: Reduction, extent: Extent, chain: ReductionChain, source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction in the places of its chain; the reduced axes of the result have one element.

    Programs were read that reduce rows, and that exchange channels and rows by strides; both together is inferred.

    Raises:
        HwxError: Its buffers do not fit the chip.
    """
    must_fit(chain.needed)
    if chain.exchanged:
        source, result = (replace(one, row=one.plane, plane=one.row) for one in (source, result))
        extent = replace(extent, channels=extent.height, height=extent.channels)
    elif chain.joined:
        source = replace(source, plane=source.depth)
    seen = Extent(chain.channels, chain.height, chain.width)
    match chain.form:
        case ReductionForm.CHANNEL_MAXIMUM:
            return (channel_maximum(seen, chain.tasks[0], source, result),)
        case ReductionForm.TURNED_CHANNELS:
            return reduce_channels(reduction, seen, chain.tasks, source, result)
        case ReductionForm.TURNED_ROWS:
            return reduce_height(reduction, seen, chain.tasks, source, result)
        case _:
            return (reduce_at_once(reduction, extent, chain, source, result),)


def reduce_at_once(
    reduction: Reduction, extent: Extent, chain: ReductionChain, source: Surface, result: Surface
) -> Draft:
    """Return the one task of a reduction that needs no exchange: what it sees of the tensor follows from strides."""
    seen, groups = Extent(chain.channels, chain.height, chain.width), 1
    match chain.form:
        case ReductionForm.COLUMNS if chain.width < extent.width:  # folded into several rows
            source = replace(source, row=2 * chain.width)
        case ReductionForm.GROUPS:
            groups = extent.height
            source, result = replace(source, group=source.row), replace(result, group=result.row)
        case ReductionForm.EVERYTHING:
            seen = replace(seen, depth=extent.height)
            source = replace(source, row=source.plane, plane=source.depth, depth=source.row)
        case _:
            pass
    return reduce_task(reduction, seen, source, result, chain.tasks[0], groups=groups)


def reduce_task(
    reduction: Reduction, seen: Extent, source: Surface, result: Surface, place: ChainTask, *, groups: int = 1
) -> Draft:
    """Return a task that reads a tensor by DMA and reduces rows, columns and depth of each channel of each group.

    Columns of one row, and all axes, were seen; groups of a source in memory are inferred from those of one on chip,
    and maps of several rows from those of one.
    """
    return Draft(
        {
            **placed_values(seen, place, kind=REDUCE),
            "common.groups": groups,
            **reduction.values,
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", place.source),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": place.end,
        }
    )


def channel_maximum(extent: Extent, place: ChainTask, source: Surface, result: Surface) -> Draft:
    """Return the task of a maximum over the channels: the neural cores keep a running one."""
    single = replace(extent, channels=1)
    return Draft(
        {
            **neural_values(extent, single, cores=1, place=place),
            "common.unicast": 1,
            "common.unicast_channels": extent.channels,
            "ne.mac_operation": RUNNING_MAXIMUM,
            "ne.implicit_ones": 1,
            "l2.padding_mode": PADDING_LEAST,
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", place.source),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(place.end),
        }
    )


def find_kept_result(place: ChainTask) -> Buffer:
    """Return where the plan leaves the result of a task on chip.

    Raises:
        HwxError: It leaves none, which is a fault of the planner's.
    """
    if place.result is None:
        raise HwxError("ANE-EMIT-001: the memory plan leaves no result of this task on chip")
    return place.result


def transposing_copy(seen: Extent, place: ChainTask, source: Surface, cores: int) -> Draft:
    """Return a copy that leaves its source on chip with channels and columns exchanged."""
    return Draft(
        {
            **neural_values(seen, seen, cores=cores, place=place),
            "common.unicast": 1,
            "common.output_transpose": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            **source_values(source),
            **result_values(None, KEPT),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", place.source),
            "l2.result_config": RESULT_KEPT,
            **buffer_values("result", find_kept_result(place)),
        },
        Join(leaves_on_chip=True, copies=True),
    )


def reduce_channels(
    reduction: Reduction, extent: Extent, places: Sequence[ChainTask], source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over the channels of one row: exchanged with the columns, reduced, exchanged."""
    copied, place = places
    turned = Extent(extent.width, 1, extent.channels)
    named = surface_of(turned, SCRATCH_BAR).pair_surface()
    copy = transposing_copy(extent, copied, source, extent.channels)
    first = Draft(
        {**copy.values, **result_values(named, KEPT)}, Join(leaves_on_chip=True, paired_after=True, copies=True)
    )
    second = Draft(
        {
            **placed_values(turned, place, kind=REDUCE),
            **reduction.values,
            "common.result_transpose": 1,
            **source_values(named),
            **result_values(result, result_config(result, stored=True)),
            "l2.source_config": FROM_NEURAL_NAMED,
            **buffer_values("source1", place.source),
            "l2.result_config": STORED_FROM_CHIP,
            **buffer_values("result", find_kept_result(place)),
        },
        Join(reads_chip=True, paired_before=True),
    )
    return first, second


def reduce_height(
    reduction: Reduction, extent: Extent, places: Sequence[ChainTask], source: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of a reduction over rows: exchanged with the columns, reduced in groups, exchanged back."""
    copied, place, last = places
    turned = Extent(extent.height, extent.channels, extent.width)
    across = replace(source, row=source.plane, plane=source.row)
    rows = Extent(extent.channels, 1, extent.height)
    return (
        transposing_copy(turned, copied, across, extent.height),
        reduce_rows_on_chip(reduction, rows, place, groups=extent.width),
        copy_back(extent, last, result),
    )


def reduce_rows_on_chip(reduction: Reduction, seen: Extent, place: ChainTask, *, groups: int) -> Draft:
    """Return a reduction of groups of rows that the neural cores left on chip; its result stays there."""
    return Draft(
        {
            **placed_values(seen, place, kind=REDUCE),
            "common.groups": groups,
            **reduction.values,
            **source_values(None),
            **result_values(None, KEPT),
            "l2.source_config": FROM_NEURAL,
            **buffer_values("source1", place.source),
            "l2.result_config": KEPT_FROM_CHIP,
            **buffer_values("result", find_kept_result(place)),
        },
        Join(reads_chip=True, leaves_on_chip=True),
    )


def copy_back(extent: Extent, place: ChainTask, result: Surface) -> Draft:
    """Return the copy that writes a result of groups with channels and columns exchanged."""
    seen = Extent(extent.width, extent.channels, 1)
    return Draft(
        {
            **neural_values(seen, seen, cores=seen.channels, place=place),
            "common.unicast": 1,
            "common.output_transpose": 1,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            **source_values(None),
            **result_values(replace(result, row=result.plane, plane=result.row), result_config(result)),
            "l2.source_config": FROM_PLANAR,
            **buffer_values("source1", place.source),
            "l2.result_config": RESULT_STREAMED_FROM_CHIP,
            "l2.result_l2_base": place.end,
        },
        Join(reads_chip=True, copies=True),
    )

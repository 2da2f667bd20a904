"""Softmax over channels or rows: tasks of known kinds that pass results through scratch memory.

The structure is decoded (hwx-programs 8.6): the maximum, exponents, powers, the sum of products with 1 and its
reciprocal in one task of the neural cores, the product. That tensors between them go through memory is inferred.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.activation_tasks import reciprocal_sum_task, table_section, table_task
from aneforge.formats.hwx.emission.normalisation_tasks import LOG2_E
from aneforge.formats.hwx.emission.planar_tasks import broadcast_tasks
from aneforge.formats.hwx.emission.reduction_tasks import SCRATCH_BAR, channel_maximum
from aneforge.formats.hwx.emission.surfaces import Access, Extent, surface_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.targets.task_chains import Chain

__all__ = ["Scratch", "channel_softmax_size", "channel_softmax_tables", "channel_softmax_tasks", "exchange_rows"]


@dataclass(slots=True)
class Scratch:
    """Room in scratch memory that tensors are put into one after the other."""

    place: int

    def take(self, extent: Extent) -> Surface:
        """Return the surface of a tensor that a task writes and a later one reads."""
        surface = surface_of(extent, SCRATCH_BAR, base=self.place)
        self.place += surface.depth
        return replace(surface, access=Access.WRITTEN_BEFORE)


def channel_softmax_size(extent: Extent) -> int:
    """Return the bytes of scratch memory of a softmax over channels."""
    single = replace(extent, channels=1)
    return 2 * sum(surface_of(one, SCRATCH_BAR).depth for one in (single, extent))


def channel_softmax_tables(extent: Extent) -> tuple[bytes, bytes]:
    """Return the constants of a softmax over channels: powers of two, and reciprocals."""
    return table_section(table_bytes("exp2"), extent.channels), table_section(table_bytes("reciprocal"), 1)


def channel_softmax_tasks(
    extent: Extent, chain: Chain, source: Surface, result: Surface, scratch: Scratch, tables_at: tuple[int, int]
) -> tuple[Draft, ...]:
    """Return the tasks of a softmax over channels; `tables_at` is where its two tables are in the constants.

    Raises:
        HwxError: The buffers do not fit the chip.
    """
    single = replace(extent, channels=1)
    largest, exponents, powers, factors = (scratch.take(one) for one in (single, extent, extent, single))
    copied, beside, through, summed = chain.passes
    places = copied, beside
    exponential, reciprocal = tables_at
    return (
        channel_maximum(extent, chain.tasks[0], source, largest),
        *broadcast_tasks("sub", extent, single, places, (source, largest, exponents), scale=LOG2_E),
        table_task(extent, through, exponents, powers, kernel_at=exponential),
        reciprocal_sum_task(extent, summed, powers, factors, kernel_at=reciprocal),
        *broadcast_tasks("mul", extent, single, places, (powers, factors, result)),
    )


def exchange_rows(surface: Surface) -> Surface:
    """Return a surface whose rows are read as channels, and channels as rows."""
    return replace(surface, row=surface.plane, plane=surface.row)

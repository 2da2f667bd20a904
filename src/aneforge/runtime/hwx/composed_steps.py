"""Operations that are made of several known tasks through scratch memory: softmax over channels or rows, quotients.

Each task is of a kind that was read from programs; that a program puts them together so is inferred. The structure of
softmax over channels is decoded: the maximum, exponents, powers, the sum of products with 1 and its reciprocal in one
task of the neural cores, the product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.activation_tasks import (
    reciprocal_sum_task,
    shifted_table_task,
    table_section,
    table_task,
)
from aneforge.formats.hwx.emission.normalisation_tasks import LOG2_E
from aneforge.formats.hwx.emission.planar_tasks import binary_task, broadcast_tasks, repeated_buffer, scalar_task
from aneforge.formats.hwx.emission.reduction_tasks import channel_maximum
from aneforge.formats.hwx.emission.surfaces import Access, Extent, surface_of
from aneforge.records import dataclass
from aneforge.targets.work_units import convolution_place, pass_place, planar_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool
    from aneforge.targets.work_units import TaskPlace

__all__ = [
    "SCRATCH_BAR",
    "Scratch",
    "channel_softmax_size",
    "channel_softmax_tasks",
    "division_tasks",
    "passing",
    "reversed_difference_tasks",
]

SCRATCH_BAR = 3


@dataclass(slots=True)
class Scratch:
    """Room in scratch memory that tensors are put into one after the other."""

    place: int

    def take(self, extent: Extent) -> Surface:
        """Return the surface of a tensor that a task writes and a later one reads."""
        surface = surface_of(extent, SCRATCH_BAR, base=self.place)
        self.place += surface.depth
        return replace(surface, access=Access.WRITTEN_BEFORE)


def passing(extent: Extent) -> TaskPlace:
    """Return where a tensor passes through the neural cores."""
    return pass_place(extent.channels, extent.height, extent.width)


def elementwise(extent: Extent, sources: int = 1) -> TaskPlace:
    """Return where the planar engine works on a tensor."""
    return planar_place(extent.channels, extent.height, extent.width, sources)


def repeated_places(extent: Extent, repeated: Extent) -> tuple[TaskPlace, TaskPlace]:
    """Return the places of the copy of a repeated tensor and of the operation with it."""
    kept = repeated_buffer(repeated).row * repeated.height
    return (
        pass_place(repeated.channels, repeated.height, repeated.width, kept),
        planar_place(extent.channels, extent.height, extent.width, kept=kept),
    )


def size_of(extent: Extent) -> int:
    """Return the bytes of a tensor in memory."""
    return surface_of(extent, SCRATCH_BAR).depth


def channel_softmax_size(extent: Extent) -> int:
    """Return the bytes of scratch memory of a softmax over channels."""
    return 2 * size_of(replace(extent, channels=1)) + 2 * size_of(extent)


def channel_softmax_tasks(
    extent: Extent, source: Surface, result: Surface, pool: ConstantPool, scratch: Scratch
) -> tuple[Draft, ...]:
    """Return the tasks of a softmax over channels."""
    single = replace(extent, channels=1)
    largest, exponents, powers, factors = (scratch.take(one) for one in (single, extent, extent, single))
    places = repeated_places(extent, single)
    maps = (extent.height, extent.width)
    exponential = pool.add([table_section(table_bytes("exp2"), extent.channels)])
    reciprocal = pool.add([table_section(table_bytes("reciprocal"), 1)])
    summed = convolution_place(extent.channels, maps, maps)
    return (
        channel_maximum(extent, source, largest),
        *broadcast_tasks("sub", extent, single, places, (source, largest, exponents), scale=LOG2_E),
        table_task(extent, passing(extent), exponents, powers, kernel_at=exponential),
        reciprocal_sum_task(extent, summed, powers, factors, kernel_at=reciprocal),
        *broadcast_tasks("mul", extent, single, places, (powers, factors, result)),
    )


def reversed_difference_tasks(
    whole: Extent, repeated: Extent, sources: Sequence[Surface], result: Surface, scratch: Scratch, scale: float
) -> tuple[Draft, ...]:
    """Return the tasks of a repeated tensor minus a whole one: the whole one with its sign turned, and a sum."""
    first, second = sources
    negated, places = scratch.take(whole), repeated_places(whole, repeated)
    return (
        scalar_task("mul", -1.0, whole, elementwise(whole), second, negated),
        *broadcast_tasks("add", whole, repeated, places, (negated, first, result), scale=scale),
    )


def division_tasks(
    extents: Sequence[Extent],
    whole: Extent,
    sources: Sequence[Surface],
    result: Surface,
    pool: ConstantPool,
    scratch: Scratch,
) -> tuple[Draft, ...]:
    """Return the tasks of a quotient: reciprocals of the second tensor by their table, and a product."""
    dividend, divisor = extents
    reciprocals = scratch.take(divisor)
    kernel_at = pool.add([table_section(table_bytes("reciprocal"), divisor.channels)])
    first = shifted_table_task(divisor, passing(divisor), sources[1], reciprocals, 0.0, kernel_at=kernel_at)
    if dividend == divisor:
        return first, binary_task("mul", whole, elementwise(whole, 2), sources[0], reciprocals, result)
    pair, repeated = (
        ((sources[0], reciprocals), divisor) if dividend == whole else ((reciprocals, sources[0]), dividend)
    )
    return first, *broadcast_tasks("mul", whole, repeated, repeated_places(whole, repeated), (*pair, result))

"""Operations made of several known tasks through scratch memory: quotients, and differences from a repeated tensor.

Each task is of a kind that was read from programs; that a program puts them together so is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.activation_tasks import build_shifted_table_task, table_section
from aneforge.formats.hwx.emission.planar_tasks import binary_task, broadcast_tasks, scalar_task
from aneforge.runtime.hwx.step import get_planned_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.channel_softmax import Scratch
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Extent, Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool

__all__ = ["build_reversed_difference_tasks", "division_tasks"]


def build_reversed_difference_tasks(
    tensors: tuple[Extent, Extent],
    places: LayerPlaces,
    sources: Sequence[Surface],
    result: Surface,
    scratch: Scratch,
    scale: float,
) -> tuple[Draft, ...]:
    """Return the tasks of a repeated tensor minus a whole one: the whole one with its sign turned, and a sum."""
    (whole, repeated), (first, second) = tensors, sources
    negated, chosen = scratch.take(whole), (get_planned_place(places.repeated), get_planned_place(places.pair))
    return (
        scalar_task("mul", -1.0, whole, places.planar, second, negated),
        *broadcast_tasks("add", whole, repeated, chosen, (negated, first, result), scale=scale),
    )


def division_tasks(
    extents: Sequence[Extent],
    whole: Extent,
    places: LayerPlaces,
    surfaces: tuple[Surface, Surface, Surface],
    pool: ConstantPool,
    scratch: Scratch,
) -> tuple[Draft, ...]:
    """Return the tasks of a quotient: reciprocals of the second tensor by their table, and a product.

    `surfaces` are those of dividend, divisor and result.
    """
    (dividend, divisor), (given, by, result) = extents, surfaces
    reciprocals = scratch.take(divisor)
    kernel_at = pool.add([table_section(table_bytes("reciprocal"), divisor.channels)])
    first = build_shifted_table_task(divisor, places.sources[1], by, reciprocals, 0.0, kernel_at=kernel_at)
    if dividend == divisor:
        return first, binary_task("mul", whole, get_planned_place(places.pair), given, reciprocals, result)
    pair, repeated = ((given, reciprocals), divisor) if dividend == whole else ((reciprocals, given), dividend)
    chosen = get_planned_place(places.repeated), get_planned_place(places.pair)
    return first, *broadcast_tasks("mul", whole, repeated, chosen, (*pair, result))

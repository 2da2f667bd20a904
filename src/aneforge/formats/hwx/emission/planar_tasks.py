"""Tasks of the planar engine: elementwise operations, with a second tensor, a scalar or a broadcast, and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import bypass, geometry_values, result_config
from aneforge.formats.hwx.emission.surfaces import (
    Buffer,
    Extent,
    Surface,
    buffer_values,
    must_fit,
    result_values,
    source_values,
)
from aneforge.records import dataclass
from aneforge.targets.task_chains import place_repeated_buffer

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.targets.task_chains import ChainTask
    from aneforge.targets.work_units import TaskPlace

__all__ = [
    "OPERATIONS",
    "Operator",
    "absolute_task",
    "affine_task",
    "binary_task",
    "broadcast_tasks",
    "placed_values",
    "planar_values",
    "scalar_task",
]

ONE_SOURCE, TWO_SOURCES, NORMALISE, REDUCE, REDUCE_TWO = 2, 3, 4, 5, 6
"""Types of tasks."""
SOURCES_BY_DMA, SOURCE_BY_DMA, SOURCE_BESIDE_CHIP = 0x1500172, 0x500172, 0x172
RESULT_STREAMED, RESULT_BESIDE_CHIP = 0x50017A, 0x14A
WIDTH, HEIGHT, DEPTH, CHANNELS = 1, 2, 4, 8
"""Bits of a broadcast mask."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operation of two tensors."""

    code: int
    negated: bool = False


OPERATIONS = {
    "add": Operator(0),
    "mul": Operator(1),
    "maximum": Operator(2),
    "minimum": Operator(3),
    "sub": Operator(0, negated=True),
}
"""Operations of two tensors by their names."""


def planar_values(source: Extent, result: Extent, *, kind: int, tile: int, patch: tuple[int, int]) -> Values:
    """Return what tasks of the planar engine have in common."""
    return {
        **geometry_values(source, result, tile),
        "common.task_type": kind,
        "common.patch_width_log2": patch[0],
        "common.patch_height_log2": patch[1],
        "common.source2_format": 2 if kind in {TWO_SOURCES, NORMALISE, REDUCE_TWO} else 0,
        "pe.scale": 1.0,
        "pe.pre_scale": 1.0,
        "pe.final_scale": 1.0,
        "ne.palette_bits": 8,
        "ne.mac_always": 1,
    }


def operator_values(operator: Operator) -> Values:
    """Return the fields of an operation of two tensors."""
    return {
        "pe.planar_operation": operator.code,
        "pe.negate_source2": int(operator.negated),
        "pe.source2_tensor": 1,
    }


def placed_values(extent: Extent, place: TaskPlace | ChainTask, *, kind: int) -> Values:
    """Return what tasks of the planar engine have in common, in the place that the plan gives them."""
    return planar_values(extent, extent, kind=kind, tile=place.tile, patch=place.patch or (0, 0))


def find_placed_buffer(place: TaskPlace, base: int = 0) -> Buffer:
    """Return where a task keeps a source on chip, as the plan has it."""
    return Buffer(base, place.channel, place.row, place.packed, place.packed)


def binary_task(
    operation: str,
    extent: Extent,
    place: TaskPlace,
    first: Surface,
    second: Surface,
    result: Surface,
    *,
    scale: float = 1.0,
) -> Draft:
    """Return the task of an operation of two tensors of one shape, scaled before it is rounded.

    The scale was seen after a difference, in softmax.
    """
    other = find_placed_buffer(place, place.second)
    return Draft(
        {
            **placed_values(extent, place, kind=TWO_SOURCES),
            **operator_values(OPERATIONS[operation]),
            "pe.scale": scale,
            **source_values(first),
            **source_values(second, 2),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCES_BY_DMA,
            **buffer_values("source1", find_placed_buffer(place)),
            **buffer_values("source2", other),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(place.end),
        }
    )


def one_source_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface, values: Values) -> Draft:
    """Return a task of one tensor."""
    return Draft(
        {
            **placed_values(extent, place, kind=ONE_SOURCE),
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", find_placed_buffer(place)),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": must_fit(place.end),
            **values,
        }
    )


def affine_task(scale: float, bias: float, extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return the task that multiplies by one scalar and adds another, both fields of one register."""
    return one_source_task(extent, place, source, result, {"pe.scale": scale, "pe.bias": bias})


def scalar_task(
    operation: str, scalar: float, extent: Extent, place: TaskPlace, source: Surface, result: Surface
) -> Draft:
    """Return the task that adds a scalar or multiplies by it.

    Raises:
        HwxError: The planar engine has no such operation of a scalar.
    """
    match operation:
        case "mul":
            values: Values = {"pe.scale": scalar}
        case "add":
            values = {"pe.bias": scalar}
        case "sub":
            values = {"pe.bias": -scalar}
        case _:
            raise HwxError("ANE-EMIT-001: no program of this operation with a scalar is known", seen=operation)
    return one_source_task(extent, place, source, result, values)


def absolute_task(extent: Extent, place: TaskPlace, source: Surface, result: Surface) -> Draft:
    """Return the task of absolute values."""
    return one_source_task(extent, place, source, result, {"pe.absolute": 1})


def broadcast_mask(whole: Extent, repeated: Extent) -> int:
    """Return the axes along which a tensor is repeated.

    Raises:
        HwxError: The shapes do not broadcast.
    """
    mask = 0
    axes = (("width", WIDTH), ("height", HEIGHT), ("channels", CHANNELS))
    for name, bit in axes:
        full, own = getattr(whole, name), getattr(repeated, name)
        if own not in {1, full}:
            raise HwxError(f"the {name} of a repeated tensor must be 1 or that of the other", seen=own, limit=full)
        mask |= bit if own == 1 and full != 1 else 0
    return mask


def broadcast_tasks(
    operation: str,
    extent: Extent,
    repeated: Extent,
    places: tuple[TaskPlace, TaskPlace],
    surfaces: tuple[Surface, Surface, Surface],
    *,
    scale: float = 1.0,
) -> tuple[Draft, ...]:
    """Return the tasks of an operation whose second tensor is repeated: its copy onto the chip, and the operation.

    It is scaled before it is rounded, as in softmax. `places` are those of the copy and of the operation, both after
    what stays on chip of the repeated tensor; `surfaces` those of the tensors and of the result.
    """
    mask = broadcast_mask(extent, repeated)
    (copied, place), (first, second, result) = places, surfaces
    held = place_repeated_buffer(repeated.channels, repeated.width)
    values: Values = {
        **placed_values(extent, place, kind=TWO_SOURCES),
        **operator_values(OPERATIONS[operation]),
        "common.source2_broadcast": mask,
        "pe.scale": scale,
        **source_values(first),
        **result_values(result, result_config(result)),
        "l2.source_config": SOURCE_BESIDE_CHIP,
        **buffer_values("source1", find_placed_buffer(place, place.base)),
        **buffer_values("source2", held),
        "l2.result_config": RESULT_BESIDE_CHIP,
        "l2.result_l2_base": must_fit(place.end),
    }
    return bypass(repeated, copied, second, held), Draft(values, Join(reads_chip=True))

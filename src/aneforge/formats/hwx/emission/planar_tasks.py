"""Tasks of the planar engine: elementwise operations, with a second tensor, a scalar or a broadcast, and reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.draft import Draft, Join
from aneforge.formats.hwx.emission.neural_tasks import bypass, geometry_values, result_config
from aneforge.formats.hwx.emission.surfaces import Buffer, Extent, Surface, buffer_values, result_values, source_values
from aneforge.targets.work_units import (
    BANK_BYTES,
    BANKS,
    NEURAL_WIDTH,
    ON_CHIP,
    PLANAR_WIDTH,
    channel_bytes,
    patch_log2,
    planar_row,
    round_to,
    tile_rows,
)

if TYPE_CHECKING:
    from aneforge.formats.hwx.emission.draft import Values

__all__ = [
    "OPERATIONS",
    "Operator",
    "absolute_task",
    "binary_task",
    "broadcast_tasks",
    "planar_buffer",
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


def planar_buffer(extent: Extent, base: int = 0) -> Buffer:
    """Return where the planar engine keeps a source on chip."""
    channel = channel_bytes(extent.width, PLANAR_WIDTH)
    packed = extent.channels * channel
    return Buffer(base, channel, planar_row(packed), packed, packed)


def second_base(buffer: Buffer, rows: int) -> int:
    """Return where the second source begins after the first: at a line, and not on the first's first bank."""
    end = buffer.base + round_to(buffer.row * rows, 64)
    return end + 64 if rows > 1 and end % (BANKS * BANK_BYTES) == 0 else end


def binary_task(
    operation: str, extent: Extent, first: Surface, second: Surface, result: Surface, *, scale: float = 1.0
) -> Draft:
    """Return the task of an operation of two tensors of one shape, scaled before it is rounded.

    The scale was seen after a difference, in softmax.
    """
    buffer = planar_buffer(extent)
    tile = tile_rows(extent.height, 3 * buffer.row) if 3 * buffer.row * extent.height > ON_CHIP else extent.height
    other = Buffer(second_base(buffer, tile), buffer.channel, buffer.row, buffer.depth, buffer.group)
    patch = patch_log2(extent.width, extent.height)
    return Draft(
        {
            **planar_values(extent, extent, kind=TWO_SOURCES, tile=tile, patch=patch),
            **operator_values(OPERATIONS[operation]),
            "pe.scale": scale,
            **source_values(first),
            **source_values(second, 2),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCES_BY_DMA,
            **buffer_values("source1", buffer),
            **buffer_values("source2", other),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": other.base + buffer.row * tile,
        }
    )


def one_source_task(extent: Extent, source: Surface, result: Surface, values: Values) -> Draft:
    """Return a task of one tensor."""
    buffer = planar_buffer(extent)
    tile = tile_rows(extent.height, 2 * buffer.row) if 2 * buffer.row * extent.height > ON_CHIP else extent.height
    patch = patch_log2(extent.width, extent.height)
    return Draft(
        {
            **planar_values(extent, extent, kind=ONE_SOURCE, tile=tile, patch=patch),
            **source_values(source),
            **result_values(result, result_config(result)),
            "l2.source_config": SOURCE_BY_DMA,
            **buffer_values("source1", buffer),
            "l2.result_config": RESULT_STREAMED,
            "l2.result_l2_base": buffer.row * tile,
            **values,
        }
    )


def scalar_task(operation: str, scalar: float, extent: Extent, source: Surface, result: Surface) -> Draft:
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
    return one_source_task(extent, source, result, values)


def absolute_task(extent: Extent, source: Surface, result: Surface) -> Draft:
    """Return the task of absolute values."""
    return one_source_task(extent, source, result, {"pe.absolute": 1})


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
    operation: str, extent: Extent, repeated: Extent, first: Surface, second: Surface, result: Surface
) -> tuple[Draft, ...]:
    """Return the tasks of an operation whose second tensor is repeated: its copy onto the chip, and the operation."""
    mask = broadcast_mask(extent, repeated)
    channel = channel_bytes(repeated.width, NEURAL_WIDTH)
    packed = repeated.channels * channel
    held = Buffer(0, channel, packed, packed)
    room = packed * repeated.height
    copy = bypass(repeated, second, held, base=room)
    buffer = planar_buffer(extent, room)
    tile = (
        tile_rows(extent.height, 2 * buffer.row, room)
        if room + 2 * buffer.row * extent.height > ON_CHIP
        else extent.height
    )
    values: Values = {
        **planar_values(extent, extent, kind=TWO_SOURCES, tile=tile, patch=patch_log2(extent.width, extent.height)),
        **operator_values(OPERATIONS[operation]),
        "common.source2_broadcast": mask,
        **source_values(first),
        **result_values(result, result_config(result)),
        "l2.source_config": SOURCE_BESIDE_CHIP,
        **buffer_values("source1", buffer),
        **buffer_values("source2", held),
        "l2.result_config": RESULT_BESIDE_CHIP,
        "l2.result_l2_base": buffer.base + buffer.row * tile,
    }
    return copy, Draft(values, Join(reads_chip=True))

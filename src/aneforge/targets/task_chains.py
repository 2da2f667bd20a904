"""Where chains of tasks keep tensors on chip that they pass to one another: reductions, softmax, norms, products.

The rules are those of programs of Apple's compiler (hwx-programs 8.6, H13); which shapes were read, and what is
inferred from them, what writes the tasks says. Sizes are in bytes. The memory plan has the places of every layer.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from aneforge.records import dataclass
from aneforge.targets.work_units import (
    BANK_BYTES,
    NEURAL_WIDTH,
    PLANAR_WIDTH,
    TaskPlace,
    UnitRows,
    ceil_log2,
    channel_bytes,
    convolution_place,
    neural_row,
    pass_place,
    pass_rows,
    patch_log2,
    planar_place,
    planar_row,
    round_to,
    tile_rows,
    work_unit_rows_log2,
)

__all__ = [
    "Buffer",
    "Chain",
    "ChainTask",
    "ReductionChain",
    "ReductionForm",
    "RowPart",
    "channel_maximum_chain",
    "channel_softmax_chain",
    "constant_product_chain",
    "exchange_chain",
    "find_repeated_places",
    "layer_norm_chain",
    "place_repeated_buffer",
    "planar_buffer",
    "reduction_chain",
    "row_parts",
    "runtime_product_chain",
    "softmax_chain",
]

CHANNELS, HEIGHT, WIDTH = "channels", "height", "width"
PATCH_PIXELS_LOG2 = 9
"""Pixels of a patch of reductions."""
FOLDED_WIDTH, FOLDED_ROWS = 128, 4
"""Rows from this many columns on are reduced as four rows."""
TRANSPOSED_ROWS = UnitRows(3, 3, 0)
"""Work units of a copy that turns one row into channels (decoded, from two programs of one source shape)."""
KERNEL_ROWS = (128, 64, 32, 16)
"""Rows of a runtime kernel of which programs are known."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor on chip: base and strides in bytes."""

    base: int
    channel: int
    row: int
    depth: int
    group: int = 0


@dataclass(frozen=True, slots=True)
class ChainTask:
    """Where one task of a chain reads and writes on chip, and in which pieces it works."""

    tile: int
    """Rows of the result that are made at a time."""
    source: Buffer
    second: Buffer | None = None
    result: Buffer | None = None
    """Where the result stays on chip; None for one that streams out."""
    end: int = 0
    """Where a result that streams out passes through: after what stays."""
    unit: UnitRows | None = None
    """The work unit of a task of the neural cores."""
    patch: tuple[int, int] | None = None
    """Width and height of the planar engine's patch, as exponents of two."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The tasks of an operation, in their order."""

    tasks: tuple[ChainTask, ...]
    needed: int
    """Bytes on chip; where there are fewer, the operation cannot run so."""
    passes: tuple[TaskPlace, ...] = ()
    """Tasks among them that pass elements through, repeat a tensor or add up channels, in their order."""


class ReductionForm(StrEnum):
    """How a reduction is made."""

    COLUMNS = "columns"
    """Columns of one row."""
    GROUPS = "groups"
    """Columns of several rows, each a group."""
    MAP = "map"
    """Rows and columns."""
    EVERYTHING = "everything"
    """All axes: channels are rows, rows the depth."""
    CHANNEL_MAXIMUM = "channel maximum"
    """The neural cores keep a running maximum over channels."""
    TURNED_CHANNELS = "turned channels"
    """Channels of one row: exchanged with the columns, reduced, exchanged back."""
    TURNED_ROWS = "turned rows"
    """Rows: exchanged with the columns, reduced in groups, exchanged back."""


@dataclass(frozen=True, slots=True)
class ReductionChain:
    """A reduction as its tasks see it."""

    form: ReductionForm
    channels: int
    height: int
    width: int
    tasks: tuple[ChainTask, ...]
    needed: int
    """Bytes on chip; where there are fewer, the reduction cannot run so."""
    exchanged: bool = False
    """Channels are rows, and rows channels, by the strides of source and result."""
    joined: bool = False
    """Rows of all channels are the rows of one."""


def planar_buffer(channels: int, width: int) -> Buffer:
    """Return where the planar engine keeps a source on chip.

    >>> planar_buffer(64, 16)
    Buffer(base=0, channel=32, row=2080, depth=2048, group=2048)
    """
    channel = channel_bytes(width, PLANAR_WIDTH)
    packed = channels * channel
    return Buffer(0, channel, planar_row(packed), packed, packed)


def kept_buffer(channels: int, width: int, base: int = 0) -> Buffer:
    """Return where the planar engine keeps a tensor that several tasks read: as a source, but whole rows of any width.

    >>> kept_buffer(4, 600).channel, planar_buffer(4, 600).channel
    (1200, 1024)
    """
    channel = channel_bytes(width, width)
    packed = channels * channel
    return Buffer(base, channel, planar_row(packed), packed)


def place_repeated_buffer(channels: int, width: int) -> Buffer:
    """Return where a repeated tensor stays on chip: at the beginning, whole and without pads.

    >>> place_repeated_buffer(1, 130).channel
    272
    """
    channel = channel_bytes(width, width)
    packed = channels * channel
    return Buffer(0, channel, packed, packed)


def find_repeated_places(
    whole: tuple[int, int, int], repeated: tuple[int, int, int], on_chip: int
) -> tuple[TaskPlace, TaskPlace]:
    """Return the places of the copy of a repeated tensor, and of the operation of the planar engine with it.

    Tensors are given by their channels, rows and columns.
    """
    channels, height, width = repeated
    kept = place_repeated_buffer(channels, width).row * height
    return pass_place(*repeated, kept, on_chip), planar_place(*whole, kept=kept, on_chip=on_chip)


# Reductions


def reduction_chain(
    channels: int, height: int, width: int, axes: frozenset[str], on_chip: int, *, maximum: bool = False
) -> ReductionChain:
    """Return the places of a reduction over axes, by name.

    >>> from aneforge.targets.work_units import ON_CHIP
    >>> found = reduction_chain(64, 8, 8, frozenset({"height"}), ON_CHIP)
    >>> str(found.form), len(found.tasks), found.tasks[0].result
    ('turned rows', 3, Buffer(base=0, channel=16, row=144, depth=128, group=0))
    """
    extents = {CHANNELS: channels, HEIGHT: height, WIDTH: width}
    whole = frozenset(name for name in axes if extents[name] > 1)
    if CHANNELS in whole and HEIGHT not in axes and height > 1:
        turned = (whole - {CHANNELS}) | {HEIGHT}
        return replace(reduction_chain(height, channels, width, turned, on_chip, maximum=maximum), exchanged=True)
    if whole <= {WIDTH}:
        return columns_chain(channels, width, on_chip) if height == 1 else groups_chain(channels, height, width)
    if CHANNELS in whole:
        return channels_chain(channels, height, width, on_chip, maximum=maximum, columns=WIDTH in whole)
    if WIDTH in axes:
        return reduce(ReductionForm.MAP, (channels, height, width), planar_buffer(channels, width), on_chip)
    return build_turned_rows_chain(channels, height, width)


def channels_chain(
    channels: int, height: int, width: int, on_chip: int, *, maximum: bool, columns: bool
) -> ReductionChain:
    """Return a reduction over channels, with all rows that there are, and with the columns or without."""
    one_place = height == width == 1
    if one_place and maximum:
        chain = channel_maximum_chain(channels, height, width)
        return ReductionChain(ReductionForm.CHANNEL_MAXIMUM, channels, height, width, chain.tasks, chain.needed)
    if columns or one_place:
        channel = channel_bytes(width, NEURAL_WIDTH)
        packed = height * channel
        buffer = Buffer(0, channel, packed, channel, packed)
        return reduce(ReductionForm.EVERYTHING, (1, channels, width), buffer, on_chip)
    if height == 1:
        return build_turned_channels_chain(channels, width)
    return replace(build_turned_rows_chain(1, channels * height, width), joined=True)


def reduce(
    form: ReductionForm, seen: tuple[int, int, int], buffer: Buffer, on_chip: int, groups: int = 1
) -> ReductionChain:
    """Return a reduction by one task of the planar engine, which reads its source by DMA, in tiles where they must be.

    Tiles are those of other tasks; for reductions they are inferred.
    """
    tile = tile_rows(seen[1], buffer.row, on_chip=on_chip)
    end = buffer.row * tile if groups == 1 else buffer.group * groups
    task = ChainTask(tile, buffer, end=end, patch=patch_log2(seen[2], seen[1], PATCH_PIXELS_LOG2))
    return ReductionChain(form, *seen, (task,), end)


def columns_chain(channels: int, width: int, on_chip: int) -> ReductionChain:
    """Return a reduction of the columns of one row; long rows are folded into four."""
    folds = width >= FOLDED_WIDTH and width % (FOLDED_ROWS * 32) == 0
    seen = (channels, FOLDED_ROWS, width // FOLDED_ROWS) if folds else (channels, 1, width)
    return reduce(ReductionForm.COLUMNS, seen, planar_buffer(channels, seen[2]), on_chip)


def groups_chain(channels: int, height: int, width: int) -> ReductionChain:
    """Return a reduction of the columns of several rows, each of them a group."""
    row = planar_buffer(channels, width)
    buffer = Buffer(0, row.channel, row.depth, row.depth, row.row)
    end = buffer.group * height
    task = ChainTask(1, buffer, end=end, patch=patch_log2(width, 1, PATCH_PIXELS_LOG2))
    return ReductionChain(ReductionForm.GROUPS, channels, 1, width, (task,), end)


def channel_maximum_chain(channels: int, height: int, width: int) -> Chain:
    """Return the place of a running maximum over channels, of the neural cores."""
    channel = channel_bytes(width, NEURAL_WIDTH)
    packed = channels * channel
    task = ChainTask(height, Buffer(0, channel, packed, packed, packed), end=packed * height, unit=UnitRows(0))
    return Chain((task,), task.end)


def odd_units(size: int) -> int:
    """Return a stride that is an odd number of banks: transposed writes then meet each bank in turn."""
    units = round_to(size, BANK_BYTES) // BANK_BYTES
    return BANK_BYTES * (units + 1 - units % 2)


def transposing_task(channels: int, height: int, width: int, kept: Buffer, room: int, rows: UnitRows) -> ChainTask:
    """Return the place of a copy that leaves its source on chip with channels and columns exchanged.

    What it leaves takes the first `room` bytes.
    """
    channel = channel_bytes(width, NEURAL_WIDTH)
    packed = channels * channel
    source = Buffer(room, channel, neural_row(packed, width, rows.most), packed, packed)
    return ChainTask(height, source, result=kept, unit=rows)


def build_turned_channels_chain(channels: int, width: int) -> ReductionChain:
    """Return a reduction over the channels of one row: exchanged with the columns, reduced, exchanged."""
    channel = odd_units(2 * channels)
    packed = width * channel
    kept = Buffer(0, channel, packed, packed)
    copy = transposing_task(channels, 1, width, kept, packed, pass_rows(1, channels))
    single = channel_bytes(width, width)
    reduction = ChainTask(
        1,
        kept,
        result=Buffer(packed, single, single, single, single),
        patch=patch_log2(channels, 1, PATCH_PIXELS_LOG2),
    )
    return ReductionChain(ReductionForm.TURNED_CHANNELS, channels, 1, width, (copy, reduction), packed)


def build_turned_rows_chain(channels: int, height: int, width: int) -> ReductionChain:
    """Return a reduction over rows: exchanged with the columns, reduced in groups, exchanged back."""
    channel = channel_bytes(height, height)
    packed = width * channel
    row = odd_units(packed)
    room = row * channels
    copy = transposing_task(height, channels, width, Buffer(0, channel, row, packed), room, pass_rows(channels, height))
    reduction = rows_on_chip(channels, height, width, Buffer(0, row, packed, packed, channel), room)
    slot = channels * BANK_BYTES
    back = pass_rows(channels, 1, on_chip_source=True)
    last = ChainTask(
        min(channels, 1 << back.most), Buffer(room, slot, BANK_BYTES, slot), end=room + width * slot, unit=back
    )
    return ReductionChain(ReductionForm.TURNED_ROWS, channels, height, width, (copy, reduction, last), last.end)


def rows_on_chip(channels: int, width: int, groups: int, source: Buffer, result_at: int) -> ChainTask:
    """Return the place of a reduction of groups of rows that are on chip; its result stays there."""
    slot = channels * BANK_BYTES
    result = Buffer(result_at, BANK_BYTES, groups * slot, slot, slot)
    return ChainTask(1, source, result=result, patch=patch_log2(width, 1, PATCH_PIXELS_LOG2))


# Softmax and norms


@lru_cache(maxsize=4096)
def softmax_chain(channels: int, height: int, width: int, on_chip: int) -> Chain:
    """Return the places of a softmax over the width: maximum, exponent, powers of two, reciprocal sum, product.

    Three buffers take turns: the source, then the reciprocal sums; the exponents; the maxima. Several rows are copied
    onto the chip first. The patch of the exponent has one row more as an exponent of two, for no known reason.
    """
    held = kept_buffer(channels, width)
    size = held.row * height
    powers, maxima = replace(held, base=size), 2 * size
    slot = channels * BANK_BYTES
    rows = Buffer(0, held.channel, held.depth, held.depth, held.row)
    # One row is read by the first reduction itself, as one buffer.
    largest = rows_on_chip(channels, width, height, rows if height > 1 else replace(held, group=held.depth), maxima)
    across, down = patch_log2(width, height)
    subtracted = ChainTask(height, held, Buffer(maxima, BANK_BYTES, slot, slot), powers, patch=(across, down + 1))
    raised = ChainTask(height, powers, result=powers, unit=pass_rows(height, width, on_chip_source=True))
    total = rows_on_chip(channels, width, height, replace(rows, base=size), 0)
    product = ChainTask(height, Buffer(0, BANK_BYTES, slot, slot), powers, end=maxima, patch=(across, down))
    copies = (pass_place(channels, height, width, size, on_chip),) if height > 1 else ()
    return Chain((largest, subtracted, raised, total, product), 3 * size, copies)


@lru_cache(maxsize=4096)
def channel_softmax_chain(channels: int, height: int, width: int, on_chip: int) -> Chain:
    """Return the places of a softmax over channels, whose tasks pass tensors through memory.

    Its passes are the copy of what is repeated, the operation with it, the table of powers and the sum of channels.
    """
    chain = channel_maximum_chain(channels, height, width)
    whole = channels, height, width
    copied, joined = find_repeated_places(whole, (1, height, width), on_chip)
    maps = height, width
    summed = convolution_place(channels, maps, maps, on_chip=on_chip)
    passes = (copied, joined, pass_place(*whole, on_chip=on_chip), summed)
    return replace(chain, passes=passes)


@lru_cache(maxsize=4096)
def layer_norm_chain(channels: int, width: int) -> Chain:
    """Return the places of a normalisation of one row of each channel: mean, reciprocal deviation, both applied.

    The two statistics are rows of one tensor.
    """
    step = planar_row(channels * BANK_BYTES)
    mean = Buffer(0, BANK_BYTES, step, channels * BANK_BYTES)
    held = kept_buffer(channels, width, 2 * step)
    patch = patch_log2(width, 1, PATCH_PIXELS_LOG2)
    first = ChainTask(1, replace(held, group=held.depth), result=mean, patch=patch)
    second = ChainTask(1, mean, held, replace(mean, base=step), patch=patch)
    third = ChainTask(1, held, mean, end=held.base + held.row, patch=patch)
    return Chain((first, second, third), third.end)


# Products and exchanges


@lru_cache(maxsize=4096)
def constant_product_chain(rows: int, contracted: int) -> Chain:
    """Return the places of a product by a constant: a copy with rows and columns exchanged, and a 1x1 convolution."""
    kept = place_repeated_buffer(contracted, rows)
    copy = transposing_task(rows, 1, contracted, kept, kept.row, TRANSPOSED_ROWS)
    place = convolution_place(contracted, (1, rows), (1, rows))
    return Chain((copy, ChainTask(place.tile, kept, end=kept.row, unit=place.unit)), kept.row)


@lru_cache(maxsize=4096)
def runtime_product_chain(rows: int, contracted: int, columns: int) -> Chain:
    """Return the places of a product of two tensors: the first packed as a kernel, the second the map."""
    packed = rows * channel_bytes(contracted, contracted)
    kernel = Buffer(0, packed // rows, packed, packed, packed)
    pack = ChainTask(1, kernel, end=packed, patch=patch_log2(contracted, 1))
    channel = channel_bytes(columns, columns)
    whole = contracted * channel
    unit = UnitRows(min(work_unit_rows_log2(columns), ceil_log2(1)))
    place = convolution_place(contracted, (1, columns), (1, columns))
    multiply = ChainTask(place.tile, Buffer(0, channel, whole, whole, whole), end=whole, unit=unit)
    return Chain((pack, multiply), max(packed, whole))


@dataclass(frozen=True, slots=True)
class RowPart:
    """Rows of a product of two tensors that one kernel holds."""

    first: int
    rows: int
    chain: Chain


def row_parts(rows: int) -> tuple[tuple[int, int], ...]:
    """Return first and number of the rows of each part of a product; the last part may repeat rows of the one before.

    There is none where there are fewer rows than the smallest kernel has.

    >>> row_parts(64), row_parts(200), row_parts(KERNEL_ROWS[-1] - 1)
    (((0, 64),), ((0, 128), (128, 64), (184, 16)), ())
    """
    parts: list[tuple[int, int]] = []
    start = 0
    while start < rows and rows >= KERNEL_ROWS[-1]:
        count = next((one for one in KERNEL_ROWS if one <= rows - start), KERNEL_ROWS[-1])
        parts.append((min(start, rows - count), count))
        start += count
    return tuple(parts)


@lru_cache(maxsize=4096)
def exchange_chain(channels: int, height: int, width: int) -> Chain:
    """Return the place of a copy that exchanges channels and columns, and writes from a whole buffer."""
    rows = pass_rows(height, channels)
    turned = channel_bytes(channels, channels)
    whole = width * turned
    copy = transposing_task(channels, height, width, Buffer(0, turned, whole, whole, whole), 0, rows)
    room = copy.source.row * height
    return Chain((replace(copy, result=Buffer(room, turned, whole, whole, whole)),), room + whole * height)

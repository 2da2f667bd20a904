"""How compiled programs place rows on chip and cut maps into work units: the rules by which the planner places work.

They were read from programs of Apple's compiler (hwx-programs, H13) and hold on every one that was seen; the pad of
neural rows was fitted on them. Sizes are in bytes, maps in pixels of two bytes. The memory plan has the place of every
layer's task; what writes descriptors reads it there.
"""

from __future__ import annotations

from functools import lru_cache

from aneforge.records import dataclass

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "CORES",
    "KERNEL_MEMORY",
    "LARGEST_SIDE",
    "ON_CHIP",
    "TaskPlace",
    "UnitRows",
    "ceil_log2",
    "channel_bytes",
    "convolution_place",
    "neural_row",
    "pass_place",
    "pass_rows",
    "patch_log2",
    "planar_place",
    "planar_row",
    "resident_place",
    "round_to",
    "second_base",
    "strides_itself",
    "tile_rows",
    "work_unit_rows_log2",
]

BANKS, BANK_BYTES = 64, 16
"""On-chip memory behaves as this many banks of this many bytes (inferred from the row strides of 50 convolutions)."""
ON_CHIP = 2 * 1024 * 1024
"""The window of on-chip addresses: 17 bits of 16 bytes."""
KERNEL_MEMORY = 64 * 1024
"""Kernel bytes of one core; a convolution that needs more runs as several tasks (decoded)."""
CORES = 16
LARGEST_SIDE = (1 << 15) - 1
"""What the registers of rows and columns hold."""
WORK_UNIT_LOG2 = 7
"""A work unit has 128 pixels."""
MOST_ROWS_LOG2 = 4
NEURAL_WIDTH, PLANAR_WIDTH = 128, 512
"""Pixels of a row that are on chip at a time, for tasks of the neural cores and of the planar engine."""
SMALL_MAP = 8
"""Columns up to which a work unit takes whole rows of the source (SmallSourceMode)."""
WIDE_KERNEL_CHANNELS = 64
"""Input channels from which kernels larger than 1x1 fix the height of work units."""
LINE = 64
"""Bytes of a line, at which the second source of a task begins."""
Map = tuple[int, int]
"""Rows and columns."""


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Rows of a work unit, as exponents of two: the most, the preferred and the least."""

    most: int
    preferred: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task keeps its source on chip, and in which pieces it works."""

    channel: int
    """Bytes of one channel of a row."""
    packed: int
    """Bytes of all channels of a row."""
    row: int
    """Bytes from one row to the next: padded where rows that are read together would share banks."""
    held: int
    """Rows of the source that are on chip at a time."""
    tile: int
    """Rows of the result that are made at a time."""
    unit: UnitRows | None = None
    """The work unit of a task of the neural cores."""
    patch: tuple[int, int] | None = None
    """Width and height of the planar engine's patch, as exponents of two."""
    base: int = 0
    """Where the source begins: after what others keep on chip."""
    second: int = 0
    """Where a second source begins, after the first."""

    @property
    def end(self) -> int:
        """Where the result begins: after the sources."""
        return max(self.base, self.second) + self.row * self.held


def ceil_log2(count: int) -> int:
    """Return the exponent of the next power of two.

    >>> [ceil_log2(count) for count in (1, 2, 3, 16, 17)]
    [0, 1, 2, 4, 5]
    """
    return (count - 1).bit_length()


def round_to(size: int, granule: int) -> int:
    """Return the next multiple of a granule."""
    return -(-size // granule) * granule


def work_unit_rows_log2(width: int) -> int:
    """Return the rows of a work unit, as an exponent of two, for a result of so many columns.

    >>> [work_unit_rows_log2(width) for width in (1, 8, 16, 62, 375)]
    [4, 4, 3, 1, 0]
    """
    return max(0, min(WORK_UNIT_LOG2 - ceil_log2(width), MOST_ROWS_LOG2))


def channel_bytes(width: int, most: int) -> int:
    """Return what one channel of a row takes on chip, of at most so many pixels."""
    return round_to(2 * min(width, most), BANK_BYTES)


def neural_row(packed: int, width: int, rows_log2: int, step: int = 1) -> int:
    """Return the stride of rows for the neural cores: padded until the rows that are read together share no bank.

    `packed` is the bytes of all channels of a row, `width` the columns of the result, `step` the vertical stride.

    >>> hex(neural_row(64 * 32, 16, 3)), hex(neural_row(64 * 16, 4, 4, step=2)), hex(neural_row(64 * 128, 62, 1))
    ('0x830', '0x420', '0x2000')
    """
    windows = min(1 << rows_log2, 8)
    units = max(1 << ceil_log2(width), 16) // 8 + 1
    if windows < 4:
        return packed
    return packed + BANK_BYTES * bank_pad(packed // BANK_BYTES % BANKS, windows, units, step, BANKS)


@lru_cache(maxsize=4096)
def bank_pad(packed: int, windows: int, units: int, step: int, banks: int) -> int:
    """Return by how many banks rows must be padded so that windows of so many units share none; 0 where none can.

    >>> bank_pad(0, 8, 3, 1, 64), bank_pad(0, 8, 9, 1, 64)
    (3, 0)
    """
    for pad in range(banks):
        stride = step * (packed + pad)
        taken = {(place * stride + unit) % banks for place in range(windows) for unit in range(units)}
        if len(taken) == windows * units:
            return pad
    return 0  # more than all banks are read together


def planar_row(packed: int) -> int:
    """Return the stride of rows for the planar engine.

    >>> hex(planar_row(0x400)), hex(planar_row(0x12c0)), hex(planar_row(0x10))
    ('0x420', '0x12c0', '0x20')
    """
    row = round_to(packed, 2 * BANK_BYTES)
    return row + 2 * BANK_BYTES if row % (BANKS * BANK_BYTES) == 0 else row


def patch_log2(width: int, height: int, pixels_log2: int = 8) -> tuple[int, int]:
    """Return width and height of the planar engine's patch, as exponents of two.

    >>> [patch_log2(side, side) for side in (1, 8, 16, 32, 224)]
    [(4, 0), (4, 3), (4, 4), (5, 3), (8, 0)]
    """
    across = max(4, min(ceil_log2(width), 9))
    return across, max(0, min(ceil_log2(height), pixels_log2 - across))


def tile_rows(height: int, row: int, kept: int = 0, on_chip: int = ON_CHIP) -> int:
    """Return how many rows of a map are on chip at a time, in addition to so many bytes that stay there.

    Where not all fit and leave room for a result, one row's room is left for it; the rule was seen in one program and
    is inferred.

    >>> tile_rows(16, 0x830), tile_rows(375, 0x2000), tile_rows(256, 0x2000)
    (16, 255, 255)
    """
    room = on_chip - kept
    return height if row * height < room else max(1, min(room // row - 1, height))


def strides_itself(kernel: Map, strides: Map, groups: int) -> bool:
    """Return whether a program of a convolution with such strides is known: 1x1 by two, without groups.

    >>> strides_itself((1, 1), (2, 2), 1), strides_itself((3, 3), (2, 2), 1), strides_itself((3, 3), (1, 1), 4)
    (True, False, True)
    """
    return strides == (1, 1) or (strides == (2, 2) and kernel == (1, 1) and groups == 1)


def convolution_rows(width: int, channels: int, kernel: Map) -> UnitRows:
    """Return the rows of a convolution's work units, for a result of so many columns."""
    most = work_unit_rows_log2(width)
    large = kernel != (1, 1) and channels >= WIDE_KERNEL_CHANNELS and most >= 2
    fixed = most if width <= SMALL_MAP or large else 0
    return UnitRows(most, fixed, fixed)


@lru_cache(maxsize=4096)
def convolution_place(
    channels: int,
    source: Map,
    result: Map,
    kernel: Map = (1, 1),
    step: int = 1,
    on_chip: int = ON_CHIP,
    reduced: int | None = None,
) -> TaskPlace:
    """Return the place of a convolution that streams its source, of which a task reads so many channels.

    `step` is the vertical stride, `reduced` the channels of one output where a task reads those of other outputs too.

    >>> place = convolution_place(64, (16, 16), (16, 16), (3, 3))
    >>> hex(place.row), place.tile, place.unit
    ('0x830', 16, UnitRows(most=3, preferred=3, least=3))
    """
    channel = channel_bytes(source[1], NEURAL_WIDTH)
    packed = channels * channel
    unit = convolution_rows(result[1], channels if reduced is None else reduced, kernel)
    row = neural_row(packed, result[1], unit.most, step)
    if row * source[0] > on_chip:
        row = packed
    held = tile_rows(source[0], row, on_chip=on_chip)
    return TaskPlace(channel, packed, row, held, tile_rows(result[0], row * step, on_chip=on_chip), unit)


@lru_cache(maxsize=4096)
def resident_place(
    channels: int, source: Map, result: Map, kernel: Map = (1, 1), step: int = 1, on_chip: int = ON_CHIP
) -> TaskPlace | None:
    """Return the place of a convolution whose source stays on chip for several tasks; None where it does not fit.

    >>> place = resident_place(1024, (1, 375), (1, 375))
    >>> place and (hex(place.channel), place.held)
    ('0x2f0', 1)
    >>> resident_place(1024, (200, 375), (200, 375)) is None
    True
    """
    channel = round_to(2 * source[1], BANK_BYTES)
    packed = channels * channel
    unit = convolution_rows(result[1], channels, kernel)
    row = neural_row(packed, result[1], unit.most, step)
    if row * source[0] >= on_chip:
        return None
    return TaskPlace(channel, packed, row, source[0], tile_rows(result[0], row * step, on_chip=on_chip), unit)


def pass_rows(height: int, width: int, *, on_chip_source: bool = False) -> UnitRows:
    """Return the rows of work units of a task that multiplies nothing.

    Inferred from nine tasks: narrow maps take whole work units where they have as many rows, or where the source is on
    chip; others are cut by the rows that there are.
    """
    most = work_unit_rows_log2(width)
    if width <= SMALL_MAP and (on_chip_source or height >= 1 << most):
        return UnitRows(most, most, most)
    return UnitRows(min(most, ceil_log2(height)))


@lru_cache(maxsize=4096)
def pass_place(channels: int, height: int, width: int, kept: int = 0, on_chip: int = ON_CHIP) -> TaskPlace:
    """Return the place of a task of the neural cores that passes elements through, such as a copy or a table.

    `kept` is how many bytes of others stay on chip before it.

    >>> hex(pass_place(64, 16, 16).row)
    '0x830'
    """
    unit = pass_rows(height, width)
    channel = channel_bytes(width, NEURAL_WIDTH)
    packed = channels * channel
    row = neural_row(packed, width, unit.most)
    if row * height > on_chip:
        row = packed
    tile = tile_rows(height, row, kept, on_chip)
    return TaskPlace(channel, packed, row, tile, tile, unit, base=kept)


@lru_cache(maxsize=4096)
def planar_place(
    channels: int, height: int, width: int, sources: int = 1, kept: int = 0, on_chip: int = ON_CHIP
) -> TaskPlace:
    """Return the place of a task of the planar engine on elements of one or two sources that are read by DMA.

    >>> place = planar_place(64, 16, 16, sources=2)
    >>> hex(place.row), hex(place.second), place.patch
    ('0x820', '0x8200', (4, 4))
    """
    channel = channel_bytes(width, PLANAR_WIDTH)
    packed = channels * channel
    row = planar_row(packed)
    together = (sources + 1) * row
    tile = tile_rows(height, together, kept, on_chip) if kept + together * height > on_chip else height
    second = second_base(row, tile) if sources > 1 else 0
    return TaskPlace(channel, packed, row, tile, tile, patch=patch_log2(width, height), base=kept, second=second)


def second_base(row: int, rows: int) -> int:
    """Return where the second source of a task begins after the first: at a line, and not on the first's first bank.

    >>> hex(second_base(0x420, 1)), hex(second_base(0x200, 8))
    ('0x440', '0x1040')
    """
    end = round_to(row * rows, LINE)
    return end + LINE if rows > 1 and end % (BANKS * BANK_BYTES) == 0 else end

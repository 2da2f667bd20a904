"""How compiled programs lay rows out on chip and cut maps into work units: rules that planner and emitter share.

They were read from programs of Apple's compiler (hwx-programs, H13) and hold on every one that was seen; the pad of
neural rows was fitted on them. Sizes are in bytes, maps in pixels of two bytes.
"""

from __future__ import annotations

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "CORES",
    "KERNEL_MEMORY",
    "ON_CHIP",
    "ceil_log2",
    "channel_bytes",
    "neural_row",
    "patch_log2",
    "planar_row",
    "round_to",
    "tile_rows",
    "work_unit_rows_log2",
]

BANKS, BANK_BYTES = 64, 16
"""On-chip memory behaves as so many banks of so many bytes (inferred from the row strides of 50 convolutions)."""
ON_CHIP = 2 * 1024 * 1024
"""The window of on-chip addresses: 17 bits of 16 bytes."""
KERNEL_MEMORY = 64 * 1024
"""Kernel bytes of one core; a convolution that needs more runs as several tasks (decoded)."""
CORES = 16
WORK_UNIT_LOG2 = 7
"""A work unit has 128 pixels."""
MOST_ROWS_LOG2 = 4
NEURAL_WIDTH, PLANAR_WIDTH = 128, 512
"""Pixels of a row that are on chip at a time, for tasks of the neural cores and of the planar engine."""


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
    for pad in range(BANKS):
        stride = step * (packed // BANK_BYTES + pad)
        taken = {(place * stride + unit) % BANKS for place in range(windows) for unit in range(units)}
        if len(taken) == windows * units:
            return packed + pad * BANK_BYTES
    return packed  # more than all banks are read together


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


def tile_rows(height: int, row: int, kept: int = 0) -> int:
    """Return how many rows of a map are on chip at a time, beside so many bytes that stay there.

    Where not all fit, one row's room is left for the result; the rule was seen in one program and is inferred.

    >>> tile_rows(16, 0x830), tile_rows(375, 0x2000)
    (16, 255)
    """
    room = (ON_CHIP - kept) // row
    return height if height <= room else max(1, min(room - 1, height))

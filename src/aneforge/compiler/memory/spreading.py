"""Where copies work that give tensors rows of another width, or join and cut rows within a line of memory.

Rows begin at multiples of 64 bytes, and a task cannot read half of a line as a row. Two copies that exchange channels
and columns do it: one puts each element into a line of its own, the other makes rows of lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.memory.layout import DRAM_ALIGNMENT
from aneforge.records import dataclass

# Places are part of the plan, which is written to JSON and read back.
from aneforge.targets.task_chains import Chain, exchange_chain
from aneforge.targets.work_units import LARGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SpreadRows", "Spreading", "are_rows_in_place", "find_joining", "find_spreading", "is_within_line"]

HALF_BYTES = 2
Sizes = tuple[int, int, int]
"""Channels, rows and columns of a tensor."""


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """The place of a copy that exchanges channels and columns, for some of the rows of all channels."""

    first: int
    rows: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class Spreading:
    """Where elements are put into lines of their own, and lines into rows."""

    apart: tuple[tuple[SpreadRows, ...], ...]
    """For each tensor that is read; none where a shape changes and rows have one element."""
    together: tuple[SpreadRows, ...]
    """None where rows are to have one element."""


def are_rows_in_place(width: int, result: int) -> bool:
    """Return whether elements stay where they are when rows of so many fp16 numbers become others.

    >>> are_rows_in_place(64, 32), are_rows_in_place(64, 16), are_rows_in_place(8, 8)
    (True, False, True)
    """
    return width == result or not (width | result) * HALF_BYTES % DRAM_ALIGNMENT


def find_spreading(source: Sizes, result: Sizes, on_chip: int) -> Spreading:
    """Return where elements are put into lines of their own, and then into rows of another width.

    >>> found = find_spreading((32, 8, 8), (2048, 1, 1), 1 << 21)
    >>> [[(part.first, part.rows) for part in parts] for parts in found.apart], found.together
    ([[(0, 256)]], ())
    """
    apart = (rows_apart(source[0] * source[1], source[2], on_chip),) if source[2] > 1 else ()
    return Spreading(apart, rows_together(result[0] * result[1], result[2], on_chip) if result[2] > 1 else ())


def find_joining(rows: tuple[int, int], widths: Sequence[int], result: int, on_chip: int) -> Spreading:
    """Return where rows of some widths are put into lines, and rows of another width are made of these.

    `rows` are how many are put into lines at a time, and how many are made.

    >>> found = find_joining((96, 96), [8, 8], 16, 1 << 21)
    >>> [[part.rows for part in parts] for parts in found.apart], [part.rows for part in found.together]
    ([[96], [96]], [96])
    """
    read, made = rows
    return Spreading(tuple(rows_apart(read, width, on_chip) for width in widths), rows_together(made, result, on_chip))


def is_within_line(column: int) -> bool:
    """Return whether a column of fp16 numbers begins within a line of memory, where no task can begin to read or write.

    >>> is_within_line(48), is_within_line(64)
    (True, False)
    """
    return bool(column * HALF_BYTES % DRAM_ALIGNMENT)


def rows_apart(rows: int, width: int, on_chip: int) -> tuple[SpreadRows, ...]:
    """Return where rows are put into lines."""
    return fitting_rows(rows, lambda count: exchange_chain(1, count, width), on_chip)


def rows_together(rows: int, width: int, on_chip: int) -> tuple[SpreadRows, ...]:
    """Return where lines are put into rows."""
    return fitting_rows(rows, lambda count: exchange_chain(width, count, 1), on_chip)


def fitting_rows(rows: int, chain: Callable[[int], Chain], on_chip: int) -> tuple[SpreadRows, ...]:
    """Return the places of copies of so many rows, as many at a time as fit the chip and a register."""
    count = min(rows, LARGEST_SIDE)
    while count > 1 and chain(count).needed >= on_chip:
        count = -(-count // 2)
    parts = [(first, min(count, rows - first)) for first in range(0, rows, count)]
    return tuple(SpreadRows(first, some, chain(some)) for first, some in parts)

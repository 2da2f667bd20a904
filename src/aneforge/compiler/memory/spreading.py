"""Where copies work that give a tensor rows of another width, so that elements move.

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
    from collections.abc import Callable

__all__ = ["SpreadRows", "Spreading", "are_rows_in_place", "find_spreading"]

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
    """Where a change of shape works that moves elements: each into a line of its own, and then into other rows."""

    apart: tuple[SpreadRows, ...]
    """None where rows have one element."""
    together: tuple[SpreadRows, ...]
    """None where rows are to have one element."""


def are_rows_in_place(width: int, result: int) -> bool:
    """Tell whether elements stay where they are when rows of so many fp16 numbers become others.

    >>> are_rows_in_place(64, 32), are_rows_in_place(64, 16), are_rows_in_place(8, 8)
    (True, False, True)
    """
    return width == result or not (width | result) * HALF_BYTES % DRAM_ALIGNMENT


def find_spreading(source: Sizes, result: Sizes, on_chip: int) -> Spreading:
    """Return where elements are put into lines of their own, and then into rows of another width.

    >>> found = find_spreading((32, 8, 8), (2048, 1, 1), 1 << 21)
    >>> [(part.first, part.rows) for part in found.apart], found.together
    ([(0, 256)], ())
    """
    rows, width = source[0] * source[1], source[2]
    apart = fitting_rows(rows, lambda count: exchange_chain(1, count, width), on_chip) if width > 1 else ()
    rows, whole = result[0] * result[1], result[2]
    together = fitting_rows(rows, lambda count: exchange_chain(whole, count, 1), on_chip) if whole > 1 else ()
    return Spreading(apart, together)


def fitting_rows(rows: int, chain: Callable[[int], Chain], on_chip: int) -> tuple[SpreadRows, ...]:
    """Return the places of copies of so many rows, as many at a time as fit the chip and a register."""
    count = min(rows, LARGEST_SIDE)
    while count > 1 and chain(count).needed >= on_chip:
        count = -(-count // 2)
    parts = [(first, min(count, rows - first)) for first in range(0, rows, count)]
    return tuple(SpreadRows(first, some, chain(some)) for first, some in parts)

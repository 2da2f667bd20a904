"""The constants of a program in the making: blocks of coefficients and tables, each at a multiple of 64 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ConstantPool"]

ALIGNMENT = 64


class ConstantPool:
    """Constants in the order in which layers need them; equal ones are kept once.

    >>> pool = ConstantPool()
    >>> pool.add([b"ab"]), pool.add([b"c"]), pool.add([b"ab"])
    (0, 64, 0)
    """

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def add(self, blocks: Iterable[bytes]) -> int:
        """Keep blocks that follow one another, and return the place of the first."""
        whole = b"".join(blocks)
        place = self._known.get(whole)
        if place is None:
            place = self.size
            padded = whole + bytes(-len(whole) % ALIGNMENT)
            self._known[whole] = place
            self._blocks.append(padded)
            self.size += len(padded)
        return place

    def content(self) -> bytes:
        """Return all of them."""
        return b"".join(self._blocks)

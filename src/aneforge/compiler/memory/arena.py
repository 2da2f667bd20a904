"""Room in a memory, given out and taken back: the smallest gap that fits, the lowest of equal ones.

Gaps are held sorted by size, and by both ends, so giving and taking back cost the logarithm of their number.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from aneforge.errors import GraphError

__all__ = ["Arena"]


class Arena:
    """The gaps of a memory.

    >>> arena = Arena(128)
    >>> arena.take(64), arena.take(64), arena.take(16)
    (0, 64, None)
    >>> arena.give_back(0, 64)
    >>> arena.take(16), arena.highest
    (0, 128)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.highest = 0
        """The end of the highest room that was ever given out."""
        self._by_size: list[tuple[int, int]] = [(size, 0)] if size else []
        self._ends: dict[int, int] = {0: size} if size else {}
        self._begins: dict[int, int] = {size: 0} if size else {}

    def take(self, size: int) -> int | None:
        """Return the offset of room of a size; None where no gap is large enough."""
        place = bisect_left(self._by_size, (size, -1))
        if place == len(self._by_size):
            return None
        found, begin = self._by_size[place]
        self._remove(begin, begin + found)
        if found > size:
            self._add(begin + size, begin + found)
        self.highest = max(self.highest, begin + size)
        return begin

    def give_back(self, begin: int, size: int) -> None:
        """Take room back and join it with the gaps next to it.

        Raises:
            GraphError: The room is not all given out: a fault of the caller's.
        """
        end = begin + size
        if begin in self._ends or end in self._begins or begin < 0 or end > self.size:
            raise GraphError("memory is freed twice", seen=f"{begin} to {end}", limit=self.size)
        if begin in self._begins:
            before = self._begins[begin]
            self._remove(before, begin)
            begin = before
        if end in self._ends:
            after = self._ends[end]
            self._remove(end, after)
            end = after
        self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        insort(self._by_size, (end - begin, begin))
        self._ends[begin] = end
        self._begins[end] = begin

    def _remove(self, begin: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - begin, begin))]
        del self._ends[begin]
        del self._begins[end]

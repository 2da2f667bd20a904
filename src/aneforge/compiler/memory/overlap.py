"""Checks that no two buffers that are live at the same time share a byte."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.memory.plan import Allocation, Window

__all__ = ["check_overlaps"]


@dataclass(frozen=True, slots=True)
class Lease:
    """Bytes of a space for a time.

    A step has two halves: a tensor that is rewritten in place has its bytes in the first one only, the tensor that
    rewrites it from the second one on.
    """

    name: str
    home: str
    offset: int
    end: int
    first: int
    last: int


def leases(allocations: Iterable[Allocation], windows: Iterable[Window], chip: str) -> list[Lease]:
    """Return who has which bytes when; tensors inside others have theirs from those."""
    roots = [one for one in allocations if one.root == one.value]
    rewritten = {(one.over, one.home): one.first for one in roots if one.over is not None}
    found: list[Lease] = []
    for one in roots:
        first = 2 * one.first + (one.over is not None)
        last = 2 * one.last + 2
        if (one.value, one.home) in rewritten:
            last = min(last, 2 * rewritten[one.value, one.home] + 1)
        found.append(Lease(f"%{one.value}", one.home, one.offset, one.offset + one.size, first, last))
    for window in windows:
        name = f"the window of {window.value} for %{window.layer}"
        end = window.offset + window.size
        found.append(Lease(name, chip, window.offset, end, 2 * window.step, 2 * window.step + 2))
    return found


def check_overlaps(allocations: Iterable[Allocation], windows: Iterable[Window], chip: str) -> None:
    """Check all spaces.

    Raises:
        GraphError: Two buffers share bytes while both are needed.
    """
    found = leases(allocations, windows, chip)
    events = [(lease.first, 1, number) for number, lease in enumerate(found) if lease.first < lease.last]
    events += [(lease.last, 0, number) for number, lease in enumerate(found) if lease.first < lease.last]
    live: dict[str, list[tuple[int, int, int]]] = {}
    for _, begins, number in sorted(events):
        lease = found[number]
        held = live.setdefault(lease.home, [])
        entry = (lease.offset, lease.end, number)
        place = bisect_left(held, entry)
        if not begins:
            del held[place]
            continue
        for other in held[max(place - 1, 0) : place + 1]:
            if other[0] < lease.end and lease.offset < other[1]:
                raise GraphError(
                    f"{lease.name} and {found[other[2]].name} overlap in {lease.home}",
                    seen=f"bytes {lease.offset} to {lease.end} and {other[0]} to {other[1]}",
                )
        insort(held, entry)

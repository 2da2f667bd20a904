"""How many programs a process holds: the real runtime loads a limited number, and the next one fails.

Every loaded program takes as many slots as it has segments, each of which is a program of the real runtime. A slot is
given back when a program is released, or when nothing refers to it any more.
"""

from __future__ import annotations

import gc
import itertools
import threading
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import RuntimeStateError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.targets import Target

__all__ = ["SLOTS", "Slots"]


@dataclass(slots=True)
class Slots:
    """The programs that are loaded now."""

    used: int = 0
    """How many slots are taken."""
    taken: dict[int, int] = field(default_factory=dict[int, int])
    """How many slots each holder took, by its ticket."""
    # Collection may run a finaliser in a thread that holds the lock already.
    lock: threading.RLock = field(default_factory=threading.RLock)
    tickets: Iterator[int] = field(default_factory=itertools.count)

    def take(self, count: int, target: Target) -> int:
        """Take slots and return the ticket with which to give them back.

        Raises:
            RuntimeStateError: There are not as many left, even after a collection of programs that nothing refers to.
        """
        limit = int(str(target.limits.get("loaded_programs")))
        if self.used + count > limit:
            gc.collect()
        with self.lock:
            if self.used + count > limit:
                raise RuntimeStateError(
                    f"{self.used} programs are loaded, and this one needs {count}",
                    seen=self.used + count,
                    limit=limit,
                    target=target.name,
                    remedy="release models that are no longer used, or use them in a with statement",
                )
            ticket = next(self.tickets)
            self.taken[ticket] = count
            self.used += count
            return ticket

    def give_back(self, ticket: int) -> None:
        """Give slots back; a second time does nothing."""
        with self.lock:
            self.used -= self.taken.pop(ticket, 0)


SLOTS = Slots()
"""Those of this process."""

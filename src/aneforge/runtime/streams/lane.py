"""The one lane of the hardware: whatever streams run, runs there in the order in which it was handed over.

A process has one lane, which starts at the first use; streams share it, as they share the engine. It counts how many
requests of each program are under way and refuses more than the queue of a program holds.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import RuntimeStateError
from aneforge.records import dataclass
from aneforge.runtime.processes import note_use

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from aneforge.runtime.program import LoadedProgram

__all__ = ["Lane", "lane"]


@dataclass(slots=True)
class Lane:
    """A queue with one worker."""

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    worker: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(max_workers=1, thread_name_prefix="aneforge-lane")
    )
    under_way: dict[int, int] = field(default_factory=dict[int, int])
    """Requests that are not finished, by the number of their program."""
    thread: int | None = None
    """The worker's own, once it ran something."""

    def run(self, requests: Counter[LoadedProgram], work: Callable[[], None]) -> Future[None]:
        """Hand work over, which makes so many requests of programs.

        Raises:
            RuntimeStateError: A program would have more requests under way than its queue holds; nothing is handed
                over.
        """
        with self.lock:
            for program, count in requests.items():
                limit = program.program.target.limits.integer("in_flight_requests")
                waiting = self.under_way.get(id(program), 0)
                if waiting + count > limit:
                    raise RuntimeStateError(
                        f"{waiting} requests of the program are under way, and this makes {count}",
                        operation="submit",
                        seen=waiting + count,
                        limit=limit,
                        target=program.program.target.name,
                        remedy="wait for earlier submissions first",
                    )
            for program, count in requests.items():
                self.under_way[id(program)] = self.under_way.get(id(program), 0) + count
        return self.worker.submit(self._one, requests, work)

    @property
    def is_here(self) -> bool:
        """True in what the lane itself runs, such as a completion handler."""
        return threading.get_ident() == self.thread

    def _one(self, requests: Counter[LoadedProgram], work: Callable[[], None]) -> None:
        self.thread = threading.get_ident()
        try:
            work()
        finally:
            with self.lock:
                for program, count in requests.items():
                    left = self.under_way[id(program)] - count
                    if left:
                        self.under_way[id(program)] = left
                    else:
                        del self.under_way[id(program)]


@dataclass(slots=True)
class Lanes:
    """The lane of this process."""

    current: Lane | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


LANES = Lanes()


def lane() -> Lane:
    """Return the lane of this process.

    Raises:
        RuntimeStateError: This process was forked from one that had used the runtime.
    """
    note_use()
    with LANES.lock:
        if LANES.current is None or LANES.current.process != os.getpid():
            LANES.current = Lane()
        return LANES.current

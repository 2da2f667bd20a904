"""Progress for whoever waits: after a moment, on a terminal alone, and gone when the work is done."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.status import Status

__all__ = ["Progress", "progress"]

PATIENCE = 0.7
"""Seconds before progress is shown: what is faster needs none."""


class Progress:
    """Tells what is being done, once that takes longer than one waits gladly, and only to a terminal."""

    def __init__(self, what: str) -> None:
        self.text = what
        self.shown: Status | None = None
        self.ended = False
        self.lock = threading.Lock()
        self.timer = threading.Timer(PATIENCE, self.show)
        self.timer.daemon = True
        if sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None where closed
            self.timer.start()

    def tell(self, what: str, done: int, total: int) -> None:
        """Say what is being done now."""
        self.text = f"{what} ({done} of {total} done)" if total > 1 else what
        with self.lock:
            if self.shown is not None:
                self.shown.update(self.text)

    def show(self) -> None:
        """Begin to show it, unless it ended meanwhile."""
        from rich.console import Console  # noqa: PLC0415 - most commands are faster than one waits

        with self.lock:
            if self.ended:
                return
            self.shown = Console(stderr=True, highlight=False, emoji=False).status(self.text)
            self.shown.start()

    def end(self) -> None:
        """Take it away."""
        self.timer.cancel()
        with self.lock:
            self.ended = True
            if self.shown is not None:
                self.shown.stop()


@contextmanager
def progress(what: str = "working") -> Generator[Callable[[str, int, int], None]]:
    """Show progress while something runs."""
    shown = Progress(what)
    try:
        yield shown.tell
    finally:
        shown.end()

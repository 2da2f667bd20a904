"""Progress for whoever waits: after a moment, on a terminal alone, and gone when the work is done."""

from __future__ import annotations

import sys
import time
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

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.shown: Status | None = None
        self.terminal = sys.stderr.isatty()

    def tell(self, what: str, done: int, total: int) -> None:
        """Show what is being done."""
        if not self.terminal or time.monotonic() - self.began < PATIENCE:
            return
        text = f"{what} ({done} of {total} done)" if total > 1 else what
        if self.shown is None:
            from rich.console import Console  # noqa: PLC0415 - most commands are faster than one waits

            self.shown = Console(stderr=True, highlight=False, emoji=False).status(text)
            self.shown.start()
        self.shown.update(text)

    def end(self) -> None:
        """Take it away."""
        if self.shown is not None:
            self.shown.stop()


@contextmanager
def progress() -> Generator[Callable[[str, int, int], None]]:
    """Show progress while something runs."""
    shown = Progress()
    try:
        yield shown.tell
    finally:
        shown.end()

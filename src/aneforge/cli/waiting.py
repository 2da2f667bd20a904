"""Progress for the user who waits: after a moment, only on a terminal, and gone when the work is done."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rich.progress import Progress as Bar
    from rich.progress import Task
    from rich.status import Status

__all__ = ["Progress", "Relay", "bar", "progress"]

PATIENCE = 0.7
"""Seconds before progress is shown: what is faster needs none."""


class Progress:
    """Prints what is being done, once that takes longer than users like to wait, and only on a terminal."""

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


class Relay:
    """Passes on what is being done to whatever shows it at the moment: each of several models has a line of its own."""

    def __init__(self) -> None:
        self.tell: Callable[[str, int, int], None] = lambda _what, _done, _total: None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say what is being done now."""
        self.tell(what, done, total)


@contextmanager
def progress(what: str = "working") -> Generator[Callable[[str, int, int], None]]:
    """Show progress while something runs."""
    shown = Progress(what)
    try:
        yield shown.tell
    finally:
        shown.end()


@contextmanager
def bar(what: str, unit: str) -> Generator[Callable[[int, int | None], None]]:
    """Show on a terminal how much of many things is done, how many a second, and how long the rest takes."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None where closed
        yield lambda _done, _total: None
        return
    shown = build_bar(unit)
    task = shown.add_task(what, total=None, begins=None)

    def tell(done: int, total: int | None) -> None:
        begins = shown.tasks[task].fields["begins"]
        shown.update(task, completed=done, total=total, begins=done if begins is None else begins)

    with shown:
        yield tell


def build_bar(unit: str) -> Bar:
    """Return a bar that counts things of a kind; what an earlier run did counts as done, but not as speed."""
    from rich.console import Console  # noqa: PLC0415 - most commands are faster than one waits
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn  # noqa: PLC0415 - as above
    from rich.progress import Progress as Bar  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(speed_text(task, unit))

    console = Console(stderr=True, highlight=False, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed())
    return Bar(*columns, console=console, transient=True)


def speed_text(task: Task, unit: str) -> str:
    """Return how fast a task is and how long the rest of it takes."""
    done = task.completed - (task.fields["begins"] or 0)
    if not done or not task.elapsed:
        return ""
    rate = done / task.elapsed
    if task.total is None:
        return f"{rate:.3g} {unit}/s"
    left = round((task.total - task.completed) / rate)
    return f"{rate:.3g} {unit}/s, {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"

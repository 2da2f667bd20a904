"""Ctrl-C waits for the end of a step, so that a trainer is always between two steps: what is saved then is whole."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

__all__ = ["hold_interrupts"]


@contextmanager
def hold_interrupts() -> Generator[None]:
    """Let an interrupt from the keyboard wait until the block is done; a second one ends the block at once.

    Python gives signals only to the main thread, so that another one has nothing to hold.

    >>> import signal
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off
    >>> done = []
    >>> try:
    ...     with hold_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         done.append("the whole block")
    ... except KeyboardInterrupt:
    ...     done.append("interrupted")
    >>> done
    ['the whole block', 'interrupted']
    >>> _ = signal.signal(signal.SIGINT, before)
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[FrameType | None] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            before(number, frame)
        held.append(frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if len(held) == 1:
            before(signal.SIGINT, held[0])

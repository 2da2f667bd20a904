"""Asynchronous events: numbers that only grow, for which others wait.

An event is bound to an operation and grows by one whenever a submission has run that operation; a synchronous
execution moves no event (aneforge docs, e5rt dispatch). The host may signal one as well.
"""

from __future__ import annotations

import os
import threading

from aneforge.errors import GraphError, GraphTypeError
from aneforge.runtime.processes import check_process, note_use

__all__ = ["Event"]

NO_NAME = "eventName is NULL"
"""The real runtime's words."""


class Event:
    """A counter that only grows.

    >>> event = Event("done")
    >>> event.signal(2)
    >>> event.value, event.wait(2, timeout=0), event.wait(3, timeout=0)
    (2, True, False)

    Raises:
        GraphTypeError: The name is not text.
        GraphError: The name is empty, or the first value is below zero.
        RuntimeStateError: This process was forked from one that had used the runtime.
    """

    def __init__(self, name: str, initial: int = 0) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(NO_NAME, seen=repr(name), remedy="name the event")
        if not name:
            raise GraphError(NO_NAME, seen="an empty name", remedy="name the event")
        if type(initial) is not int or initial < 0:
            raise GraphError(f"event {name!r} must start from an integer", seen=repr(initial), limit="0 or more")
        note_use()
        self.name = name
        self._value = initial
        self._changed = threading.Condition()
        self._process = os.getpid()

    @property
    def value(self) -> int:
        """What was signalled last."""
        return self._value

    def signal(self, value: int | None = None) -> None:
        """Let the event grow to a number, or by one.

        Raises:
            GraphError: The number is not an integer, or not larger than the event's.
            RuntimeStateError: The event belongs to a process that this one was forked from.
        """
        check_process(f"signal event {self.name!r}", self._process)
        with self._changed:
            grown = self._value + 1 if value is None else value
            if type(grown) is not int or grown <= self._value:
                raise GraphError(f"event {self.name!r} only grows", seen=repr(grown), limit=f"more than {self._value}")
            self._value = grown
            self._changed.notify_all()

    def wait(self, value: int, timeout: float | None = None) -> bool:
        """Wait until the event is at least a number, or for so many seconds; return whether it is.

        Raises:
            RuntimeStateError: The event belongs to a process that this one was forked from.
        """
        check_process(f"wait for event {self.name!r}", self._process)
        with self._changed:
            return self._changed.wait_for(lambda: self._value >= value, timeout)

    def __repr__(self) -> str:
        return f"<event {self.name!r} at {self._value}>"

"""A pause after a device failed to compile: its compiler is a service that other programs use, and it is not hammered.

ANEFORGE_COMPILE_BACKOFF is how many seconds it lasts (15), ANEFORGE_DISABLE_COMPILE_BREAKER switches it off. It
concerns only devices: what is compiled here affects no other process. The third variable of the documentation,
ANEFORGE_COMPILE_BREAKER_STRICT, is not read: no source says what it means.
"""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import CompileBackoffError, GraphError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["guard_compile", "reset_compile_breaker"]

SECONDS_VARIABLE, OFF_VARIABLE = "ANEFORGE_COMPILE_BACKOFF", "ANEFORGE_DISABLE_COMPILE_BREAKER"
DEFAULT_SECONDS = 15.0


@dataclass(slots=True)
class Breaker:
    """When each device failed to compile, by its name."""

    failures: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])
    """The time, and what went wrong."""
    lock: threading.Lock = field(default_factory=threading.Lock)


BREAKER = Breaker()


@contextmanager
def guard_compile(device: str) -> Generator[None]:
    """Let a device compile; a failure starts a pause.

    Raises:
        CompileBackoffError: The device failed a moment ago.
        GraphError: The environment names no number of seconds.
    """
    pause = 0.0 if os.environ.get(OFF_VARIABLE, "0") not in ("", "0") else pause_seconds()
    with BREAKER.lock:
        then, what = BREAKER.failures.get(device, (-math.inf, ""))
    left = then + pause - time.monotonic()
    if left > 0:
        raise CompileBackoffError(
            f"backend {device!r} failed to compile a moment ago, and is not tried again for {left:.1f} s: {what}",
            limit=f"{pause:g} s",
            remedy="fix what failed and call af.reset_compile_breaker(), or wait",
        )
    try:
        yield
    except RuntimeError as error:
        with BREAKER.lock:
            BREAKER.failures[device] = (time.monotonic(), str(error))
        raise
    with BREAKER.lock:
        BREAKER.failures.pop(device, None)


def pause_seconds() -> float:
    """Return how long a pause lasts.

    Raises:
        GraphError: The environment names no number of seconds.
    """
    given = os.environ.get(SECONDS_VARIABLE)
    if given is None:
        return DEFAULT_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise GraphError(f"{SECONDS_VARIABLE} is not a number of seconds", seen=repr(given), limit="0 or more")
    return seconds


def reset_compile_breaker() -> None:
    """End every pause: the next compile is tried.

    >>> import aneforge as af
    >>> af.reset_compile_breaker()
    """
    with BREAKER.lock:
        BREAKER.failures.clear()

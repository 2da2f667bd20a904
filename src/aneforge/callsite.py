"""The user's own line, the nearest place on the call stack outside this package: where nodes and warnings are."""

from __future__ import annotations

import inspect
import os
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

__all__ = ["keep_warnings", "users_frame", "warn"]

PACKAGE = str(Path(__file__).parent) + os.sep
KEPT: ContextVar[tuple[tuple[type[Warning], list[str]], ...]] = ContextVar("kept warnings", default=())
"""Which warnings are kept, and where to: of each thread its own, which the filters of `warnings` are not."""


def users_frame() -> FrameType | None:
    """Return the nearest frame that is not in this package; None where the whole stack is."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning at the user's own line, however deep in the package its cause was found."""
    for kept, messages in reversed(KEPT.get()):
        if issubclass(category, kept):
            messages.append(message)
            return
    level, frame, users = 1, inspect.currentframe(), users_frame()
    while users is not None and frame is not None and frame is not users:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def keep_warnings(category: type[Warning] = Warning) -> Generator[list[str]]:
    """Keep this package's warnings of a category from the user, and give their messages.

    >>> with keep_warnings() as messages:
    ...     warn("compiling a part of the user's model")
    >>> messages
    ["compiling a part of the user's model"]
    """
    messages: list[str] = []
    token = KEPT.set((*KEPT.get(), (category, messages)))
    try:
        yield messages
    finally:
        KEPT.reset(token)

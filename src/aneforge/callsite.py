"""The user's own line, the nearest place on the call stack outside this package: where nodes and warnings are."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["users_frame", "warn"]

PACKAGE = str(Path(__file__).parent) + os.sep


def users_frame() -> FrameType | None:
    """Return the nearest frame that is not in this package; None where the whole stack is."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning at the user's own line, however deep in the package its cause was found."""
    level, frame, users = 1, inspect.currentframe(), users_frame()
    while users is not None and frame is not None and frame is not users:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

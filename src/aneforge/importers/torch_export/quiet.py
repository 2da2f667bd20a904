"""PyTorch's loggers kept quiet: it logs the traceback of what it raises as well, and one error is enough."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["quiet_loggers"]

LOGGERS = ("torch.export", "torch._subclasses.fake_tensor")
"""Those that tell of a program that cannot be read, or run without data."""


@contextmanager
def quiet_loggers() -> Generator[None]:
    """Keep PyTorch's loggers quiet for a while.

    >>> with quiet_loggers():
    ...     logging.getLogger("torch.export").error("not seen")
    """
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled

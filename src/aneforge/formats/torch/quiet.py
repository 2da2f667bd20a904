"""PyTorch kept quiet: it logs the traceback of what it raises, and prints its graph, and one error is enough."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TextIO

__all__ = ["OWN_WEIGHTS", "quiet_loggers", "without_printed_graph"]

LOGGERS = ("torch.export", "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""Those about a program that cannot be read, or run without data."""
OWN_WEIGHTS = r"The tensor attributes? (self\.[\w.]*_?flat_weights\[\d+\](, | and )?)+ (was|were) assigned"
"""What PyTorch warns of in its own recurrent layers; where a module's attributes are among them, it is shown."""


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


@contextmanager
def without_printed_graph() -> Generator[None]:
    """Hold back what is written to the standard error stream for a while, and leave out the graph of an error.

    PyTorch prints the part of the graph that it had when an export fails; everything else is written when the export
    ends.

    >>> with without_printed_graph():
    ...     pass
    """
    held = io.StringIO()
    printed = ""
    try:
        with redirect_stderr(held):
            yield
    except Exception as error:
        graph = getattr(error, "partial_fx_graph", None)
        printed = "" if graph is None else f"{graph}\n"
        raise
    finally:
        written = held.getvalue()
        stream = cast("TextIO | None", sys.stderr)  # a program without a console has none
        if stream is not None:
            stream.write(written.replace(printed, "") if printed else written)

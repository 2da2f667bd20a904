"""What an invoker does, step by step: each step that fails has an exit code and a word of its own.

The codes are those of the documented protocol. Which word is in `status`, the compiler's apart, is ours, and so is
the split between a step's causes where the protocol names only the step.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from aneforge.errors import AneforgeError, InternalError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["InvokerError", "Stage", "during"]


class Stage(Enum):
    """A step of an invoker: the exit code where it fails, and what `status` says then."""

    READ = 1, "read_failed"
    """A file cannot be read or written, or a request ends before it is whole."""
    ARGUMENTS = 2, "bad_arguments"
    """The command line, the target's name or the count of a request."""
    DESCRIPTOR = 3, "descriptor_failed"
    """The description is not a property list."""
    COMPILE = 4, "compile_failed"
    """The property list is not a network that the target runs."""
    LOAD = 5, "load_failed"
    """The program does not fit into this machine."""
    SYMBOL = 6, "symbol_failed"
    """A port that the network does not have, or an input without a value."""
    MAP = 7, "map_failed"
    """An input file of a different size than its port."""
    EVAL = 8, "eval_failed"
    """The engine refused to compute."""
    SURFACE = 11, "surface_failed"
    """The raw bytes of an output that do not fit, or whose layout no source gives."""

    @property
    def code(self) -> int:
        """The exit code."""
        return self.value[0]

    @property
    def status(self) -> str:
        """The word in the answer."""
        return self.value[1]


class InvokerError(AneforgeError):
    """A step of an invoker failed."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


@contextmanager
def during(stage: Stage) -> Generator[None]:
    """Turn whatever fails into the failure of one step: a client reads one answer, whatever happened.

    >>> with during(Stage.READ):
    ...     raise OSError(2, "No such file or directory", "x.bin")
    Traceback (most recent call last):
    aneforge.runtime.dispatch.invoker_stages.InvokerError: x.bin: No such file or directory

    Raises:
        InvokerError: Something failed; its cause is set where that is a mistake of this package.
    """
    try:
        yield
    except InvokerError:
        raise
    except InternalError as error:
        raise InvokerError(stage, f"internal error: {error}") from error
    except AneforgeError as error:
        raise InvokerError(stage, str(error)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvokerError(stage, f"{error.filename}: {reason}" if error.filename else reason) from None
    except Exception as error:
        raise InvokerError(stage, f"internal error: {type(error).__name__}: {error}") from error

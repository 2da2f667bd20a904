"""Errors as a user reads them: one message on standard error, and the exit code that says the same."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from aneforge.errors import AneforgeError, InternalError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DEBUG", "complain", "reason_of", "report_error"]

USAGE_ERROR, INTERNAL_ERROR = 2, 3
DEBUG = "--debug"


def complain(text: str) -> None:
    """Print to standard error, where that is open: the exit code says the same where it is not."""
    with suppress(OSError):
        typer.echo(text, err=True)


def report_error(error: Exception, model: Path | None = None) -> int:
    """Print an error as one message and return the exit code for it; of several models it names the one."""
    place = "" if model is None else f"in {model}: "
    if isinstance(error, InternalError):
        complain(f"internal error: {place}{error}\n{DEBUG} shows where it happened.")
        return INTERNAL_ERROR
    if isinstance(error, AneforgeError | OSError):
        message = error_text(error)
        where = "" if model is not None and model.name in message else place
        complain(f"error: {where}{message}\n{hint(message)}".rstrip())
        return USAGE_ERROR
    complain(
        f"internal error: {place}{type(error).__name__}: {error}\n"
        f"This is a mistake of aneforge, not yours. {DEBUG} shows where it happened; please report it with the model."
    )
    return INTERNAL_ERROR


def reason_of(error: Exception) -> str:
    """Return an error as one sentence of a report, whatever its kind.

    >>> reason_of(KeyError("x"))
    "internal error: KeyError: 'x'"
    """
    if isinstance(error, AneforgeError | OSError) and not isinstance(error, InternalError):
        return error_text(error)
    return f"internal error: {type(error).__name__}: {error}"


def error_text(error: AneforgeError | OSError) -> str:
    """Return what an error says, with the shop names of chips; what many operations share is said once."""
    if isinstance(error, OSError):
        return system_text(error)
    if error.target is None:
        return str(error)
    from aneforge.commands.noting import refusal_text  # noqa: PLC0415 - loaded when it is needed
    from aneforge.report.headline import about_chips  # noqa: PLC0415 - as above

    return about_chips(refusal_text(error), error.target)


def system_text(error: OSError) -> str:
    """Return what the system refused: the file, and why; no file is known of where the answer itself is printed.

    >>> system_text(FileNotFoundError(2, "No such file or directory", "models/a"))
    'at models/a: No such file or directory'
    >>> system_text(OSError(28, "No space left on device"))
    'the system refused: No space left on device'
    """
    reason = error.strerror or str(error)
    return f"at {error.filename}: {reason}" if error.filename else f"the system refused: {reason}"


def hint(message: str) -> str:
    r"""Return how to write at the command line what a remedy writes as an argument of a function.

    >>> print(hint('bind them, such as shapes={"batch": 1, "height": 8}').splitlines()[0])
    hint: here that is --shape batch=1 --shape height=8
    """
    _, given, named = message.partition("shapes={")
    bound = re.findall(r"[\"']([^\"']+)[\"']: (\d+|\(.*?\))", named.partition("}")[0]) if given else []
    if not bound:
        return ""
    from aneforge.report.predicted import OPEN_SHAPES  # noqa: PLC0415 - most commands meet no open dimension

    options = " ".join(f"--shape {shlex.quote(f'{name}={lengths(length)}')}" for name, length in bound)
    return f"hint: here that is {options}\nhint: {OPEN_SHAPES.id}: {OPEN_SHAPES.message} Remedy: {OPEN_SHAPES.remedy}\n"


def lengths(text: str) -> str:
    """Return a length, or a shape as --shape takes it.

    >>> lengths("1"), lengths("(1, 1,)"), lengths("(...)")
    ('1', '1,1', '1,…')
    """
    return ",".join(part.strip().replace("...", "1,…") for part in text.strip("()").split(",") if part.strip())

"""Where the dispatch library is, and which interpreter serves it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aneforge.errors import NotSupportedError

__all__ = ["library_path", "record_interpreter"]

PATH = Path(__file__).parent / "libane_open.so"
RECORD = PATH.with_suffix(".python")
"""What names the interpreter to the library (`RECORD` of worker.c)."""
VARIABLE = "ANEFORGE_ENGINE_PYTHON"


def library_path() -> Path:
    """Return the path of the dispatch library.

    >>> library_path().name
    'libane_open.so'

    Raises:
        NotSupportedError: It was not built.
    """
    if not PATH.exists():
        raise NotSupportedError(
            "the dispatch library is not built",
            seen=reason_missing(),
            limit="Linux with a C compiler when the package is installed",
            remedy="install a C compiler, then the package again"
            if sys.platform == "linux"
            else 'run it on Linux; on a Mac the backend "e5rt" reaches the engine itself',
        )
    return PATH


def reason_missing() -> str:
    """Return why there is no library: the first line of what its build recorded, or this system."""
    record = PATH.with_suffix(".missing")
    return record.read_text(encoding="utf-8").partition("\n")[0] if record.exists() else sys.platform


def record_interpreter() -> str | None:
    """Write this interpreter's path next to the library, for the worker runs it; return why that failed.

    It is the one that has this package, not that of a client, whose own package may have the same name.
    """
    wanted = f"{sys.executable}\n"
    if RECORD.exists() and RECORD.read_text(encoding="utf-8") == wanted:
        return None
    unfinished = RECORD.with_suffix(f".{os.getpid()}")
    try:
        unfinished.write_text(wanted, encoding="utf-8")
        unfinished.replace(RECORD)
    except OSError as error:
        return f"{RECORD} cannot be written ({error.strerror}): set {VARIABLE}={sys.executable} for clients"
    return None

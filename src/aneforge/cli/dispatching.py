"""`aneforge dispatch-library`: what lets other programs use our engine."""

from __future__ import annotations

import sys

__all__ = ["dispatch_library"]


def dispatch_library() -> None:
    """Print the path of the dispatch library, and record this interpreter as the one that serves it.

    The library has the C ABI by which clients reach the Neural Engine, and answers from the software engine.

    Examples:
    ANEFORGE_DYLIB=$(aneforge dispatch-library) python their_program.py
    """
    from aneforge.runtime.dispatch.library import library_path, record_interpreter  # noqa: PLC0415 - loaded when needed

    path = library_path()
    obstacle = record_interpreter()
    if obstacle is not None:
        sys.stderr.write(f"aneforge: {obstacle}\n")
    sys.stdout.write(f"{path}\n")

"""Where a process begins: nothing is imported before a Ctrl-C can be taken."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress

__all__ = ["main"]

INTERRUPTED = 130
TALKATIVE = ("torch", "onnx")
"""Packages whose bindings print, when a process ends, which of their objects other packages still hold."""
NEW_OBJECTS = 200_000
"""Objects that a process makes before it looks for garbage, 700 by default. A command makes hundreds of thousands
that stay, and few cycles: looking through them again and again took a twelfth of the time of a check of ResNet-18 and a
fifth of that of a model with 5,000 operations; without it neither needed more memory."""


def main() -> None:
    """Run the command line of this process; a Ctrl-C is not a traceback, wherever it comes."""
    gc.set_threshold(NEW_OBJECTS)
    if hasattr(signal, "SIGPIPE"):
        # The reader of the output may stop reading, as `head` does. The process then ends as others do, with 141 in a
        # shell: the 1 that an exception would end with says that something was found.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    code = 0
    try:
        from aneforge.cli.main import main as whole  # noqa: PLC0415 - this is what takes the time

        whole()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except KeyboardInterrupt:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is None where it was closed
            sys.stderr.write("\ninterrupted\n")
        code = INTERRUPTED
    finally:
        # What is left goes with the process. Looking through it for cycles once more, as the interpreter does when it
        # ends, took a seventh of the time of a check of ResNet-18.
        gc.freeze()
    if not sys.modules.keys().isdisjoint(TALKATIVE):
        end_now(code)
    sys.exit(code)


def end_now(code: int) -> None:
    """End the process after all that Python itself does at an end, and before libraries print what they have leaked."""
    with suppress(OSError):
        atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as `multiprocessing` ends
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # one that is closed has nothing left to say
            stream.flush()
    os._exit(code)

"""Where a process begins: nothing is imported before a Ctrl-C can be taken."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]

INTERRUPTED = 130
NEW_OBJECTS = 200_000
"""Objects that a process makes before it looks for garbage, 700 by default. A command makes hundreds of thousands
that stay, and few cycles: looking through them again and again took a twelfth of the time of a check of ResNet-18 and a
fifth of that of a model with 5,000 operations; without it neither needed more memory."""


def main() -> None:
    """Run the command line of this process; a Ctrl-C while it starts is no traceback."""
    gc.set_threshold(NEW_OBJECTS)
    try:
        from aneforge.cli.main import main as whole  # noqa: PLC0415 - this is what takes the time
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(INTERRUPTED)
    whole()

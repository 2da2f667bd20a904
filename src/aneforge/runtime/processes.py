"""Whether this process may use the runtime: not after a fork from one that had used it.

The real runtime does not survive a fork: the child dies at its first call (aneforge docs, dispatch backends). A child
that was forked before any use, and one that was spawned, are fine.
"""

from __future__ import annotations

import os

from aneforge.errors import RuntimeStateError
from aneforge.records import dataclass

__all__ = ["check_process", "note_use"]


@dataclass(slots=True)
class ProcessUse:
    """What is known of this process."""

    used: bool = False
    forked_after_use: bool = False
    """The process that it was forked from had used the runtime."""


USE = ProcessUse()


def note_use() -> None:
    """Remember that this process uses the runtime.

    Raises:
        RuntimeStateError: It was forked from a process that had.
    """
    check_process("use the runtime")
    USE.used = True


def check_process(action: str, owner: int | None = None) -> None:
    """Check that this process may use the runtime, and an object that was made in the process `owner`.

    Raises:
        RuntimeStateError: It was forked after the runtime had been used.
    """
    if not USE.forked_after_use and owner in (None, os.getpid()):
        return
    raise RuntimeStateError(
        "this process was forked after the runtime had been used, which the runtime does not survive",
        operation=action,
        seen=f"process {os.getpid()}",
        remedy='start processes with "spawn", and pass a saved program to them',
    )


def in_child() -> None:
    """Remember in a child what its parent had done."""
    USE.forked_after_use = USE.forked_after_use or USE.used


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=in_child)

"""Files that appear under their names when they are whole: each is written under another name first, and renamed.

A process that is killed leaves such a file. Its ending says what it is, and its age that nobody is writing it.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path
    from typing import BinaryIO

__all__ = [
    "ABANDONED_SECONDS",
    "UNFINISHED",
    "remove_abandoned",
    "replace_when_written",
    "write_synced",
    "write_together",
]

UNFINISHED = ".unfinished"
"""How the names of files end that are still being written."""
ABANDONED_SECONDS = 3600.0
"""A file still unfinished after that long belongs to a process that was killed."""
KEPT_LETTERS = 48
"""Of a file's name: with all of a long one the other name would be too long for the system (255 bytes)."""


@contextmanager
def replace_when_written(target: Path) -> Generator[Path]:
    """Give a name to write a file under, which takes the place of the target if nothing was raised meanwhile.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_when_written(Path(folder) / "a.txt") as file:
    ...         _ = file.write_text("whole")
    ...     [one.name for one in Path(folder).iterdir()]
    ['a.txt']
    """
    unfinished = target.with_name(f"{beginning_of(target)}{secrets.token_hex(8)}{UNFINISHED}")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def beginning_of(target: Path) -> str:
    """Return how the names begin under which a file is written."""
    return f".{target.name[:KEPT_LETTERS]}."


def write_synced(target: Path, content: bytes) -> None:
    """Write a file that is whole even where the system ends at any moment.

    Raises:
        OSError: The file cannot be written.
    """
    with replace_when_written(target) as unfinished, unfinished.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_together(files: Mapping[Path, Callable[[BinaryIO], object]]) -> None:
    """Write files that belong together: all of them appear, in their order, when all are written, or none does.

    Folders that are made for them go again where that fails.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     here = Path(folder) / "new"
    ...     write_together({here / "a": lambda file: file.write(b"1"), here / "b": lambda file: file.write(b"2")})
    ...     [one.name for one in sorted(here.iterdir())]
    ['a', 'b']

    Raises:
        OSError: A file cannot be written.
    """
    with made_folders({path.parent for path in files}), ExitStack() as renamed:
        # What is opened last is renamed first.
        for path, write in reversed(list(files.items())):
            unfinished = renamed.enter_context(replace_when_written(path))
            with unfinished.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())


@contextmanager
def made_folders(folders: set[Path]) -> Generator[None]:
    """Make folders that are not there, and remove them again, where they are empty, if something is raised."""
    missing = {one for folder in folders for one in (folder, *folder.parents) if not one.exists()}
    deepest_first = sorted(missing, key=lambda one: -len(one.parts))
    try:
        for one in reversed(deepest_first):
            one.mkdir(exist_ok=True)
        yield
    except BaseException:
        for one in deepest_first:
            with suppress(OSError):  # others may have put something there
                one.rmdir()
        raise


def remove_abandoned(target: Path) -> None:
    """Remove what processes that were killed while they wrote a file have left next to it."""
    for one in target.parent.glob(f"{escape(beginning_of(target))}*{UNFINISHED}"):
        with suppress(OSError):  # another process may have removed it
            if time.time() - one.stat().st_mtime > ABANDONED_SECONDS:
                one.unlink()

"""Places that are to be written: looked at before the work is done for them, and one sentence where writing fails.

A file takes its place by being renamed, so that nothing reads half of one; it keeps the permissions of the one that was
there, and one that is read-only stays. Only a file can be replaced by renaming: a pipe or a device is written to as it
is, and a link stays a link, even one to a file that is not there yet.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.commands.model_and_targets import is_path
from aneforge.commands.model_files import harm_to_model
from aneforge.errors import GraphError, Location
from aneforge.whole_files import replace_when_written

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = [
    "is_stream",
    "refuse_file",
    "refuse_folder",
    "refuse_folder_in_place",
    "refuse_model",
    "refuse_read_only",
    "save",
    "writing",
]

CANNOT = "the file cannot be written"
ANYBODY_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
NEW_FILE = 0o666
"""Permissions of a new file, of which the mask of the process takes some."""


def save(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file under another name and rename it, so that a reader never finds half of one.

    Raises:
        GraphError: It cannot be written there, or a file that is there is read-only.
    """
    file = Path(path)
    data = content.encode() if isinstance(content, str) else content
    with writing(file):
        if is_stream(file):
            with file.open("wb") as stream:
                stream.write(data)
            return file
        refuse_folder_in_place(file)
        refuse_read_only(file)
        whole = follow_links(file)
        mode = stat.S_IMODE(whole.stat().st_mode) if whole.exists() else None
        with replace_when_written(whole) as unfinished:
            # It is made with the permissions that it will have, so that nobody else reads it meanwhile.
            unfinished.touch(NEW_FILE if mode is None else mode | stat.S_IWUSR, exist_ok=False)
            unfinished.write_bytes(data)
            if mode is not None:
                unfinished.chmod(mode)  # the mask of the process may have taken some
    return file


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn an error of the system while a path is written into one sentence.

    >>> with writing(Path("disk/report.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    aneforge.errors.GraphError: at disk/report.json: the file cannot be written (got No space left on device)

    Raises:
        GraphError: The system refused something.
    """
    try:
        yield
    except OSError as error:
        raise GraphError(CANNOT, location=Location(str(path)), seen=error.strerror or str(error)) from None


def follow_links(path: Path) -> Path:
    """Return the place that is written when a path is: where its last link leads, whether a file is there or not.

    Raises:
        OSError: The links lead in a circle.
    """
    if not path.is_symlink():
        return path
    whole = Path(os.path.realpath(path))
    if whole.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return whole


def is_stream(path: Path) -> bool:
    """Return whether a path is neither a file nor a folder but something that takes bytes: a pipe, a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_file(path: Path, model: object = None) -> None:
    """Refuse a file that could not be written, before any work is done for it.

    >>> refuse_file(Path("no such folder/report.json"))
    Traceback (most recent call last):
    aneforge.errors.GraphError: at no such folder/report.json: the file cannot be written (got no folder no such folder). Remedy: mkdir -p 'no such folder'

    Raises:
        GraphError: Its folder is missing or closed, a folder has its name, it is read-only, or it is part of the model.
    """  # noqa: E501 - the message is one line
    with writing(path):
        if is_stream(path):
            return
        refuse_folder_in_place(path)
        refuse_model(path, model)
        refuse_read_only(path)
        folder = follow_links(path).parent
        if not folder.is_dir():
            seen = f"{folder} is not a folder" if folder.exists() else f"no folder {folder}"
            remedy = None if folder.exists() else f"mkdir -p {shlex.quote(str(folder))}"
            raise GraphError(CANNOT, location=Location(str(path)), seen=seen, remedy=remedy)
        refuse_closed(path, folder)


def refuse_folder(path: Path, model: object = None, *, holds: Iterable[str] = ()) -> None:
    """Refuse a folder that could not be made or written into; those above it are made too.

    `holds` names the files that are written into it.

    Raises:
        GraphError: A file has its name or that of a folder above it, one of them is closed, a file in it is read-only,
            or it or one of its files is part of the model.
    """
    with writing(path):
        refuse_model(path, model)
        for name in holds:
            refuse_model(path / name, model)
            refuse_read_only(path / name)
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        if not there.is_dir():
            raise GraphError("the folder cannot be made", location=Location(str(path)), seen=f"{there} is not a folder")
        refuse_closed(path, there)


def refuse_folder_in_place(path: Path) -> None:
    """Refuse a file whose name a folder has."""
    if path.is_dir():
        raise GraphError(CANNOT, location=Location(str(path)), seen="a folder", remedy="name a file")


def refuse_model(path: Path, model: object) -> None:
    """Refuse to write over the model that is read, over a file that it names, or into its package."""
    harm = harm_to_model(path, Path(model)) if is_path(model) else ""
    if harm:
        raise GraphError(harm, location=Location(str(path)), remedy="write to another path")


def refuse_read_only(path: Path) -> None:
    """Refuse to replace a file that may not be written; one that nobody may write, not even the superuser replaces."""
    if path.is_file() and not (path.stat().st_mode & ANYBODY_WRITES and os.access(path, os.W_OK)):
        raise GraphError(
            CANNOT,
            location=Location(str(path)),
            seen="a file that is read-only",
            remedy=f"name another, or chmod u+w {shlex.quote(str(path))}",
        )


def refuse_closed(path: Path, folder: Path) -> None:
    """Refuse a folder into which nothing may be written."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise GraphError(CANNOT, location=Location(str(path)), seen=f"no permission to write into {folder}")

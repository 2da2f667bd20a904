"""Places that are to be written: looked at before the work is done for them, and one sentence where writing fails.

A file takes its place by being renamed, so that nobody meets half of one. What is no file cannot be renamed over: a
pipe or a device is written to as it is, and a link stays a link.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location
from aneforge.report.subjects import is_path

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["is_stream", "refuse_file", "refuse_folder", "refuse_folder_in_place", "refuse_model", "save", "writing"]

CANNOT = "the file cannot be written"


def save(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file under another name and rename it, so that whoever reads it never finds half of one.

    Raises:
        GraphError: It cannot be written there.
    """
    file = Path(path)
    data = content.encode() if isinstance(content, str) else content
    with writing(file):
        if is_stream(file):
            with file.open("wb") as stream:
                stream.write(data)
            return file
        refuse_folder_in_place(file)
        whole = file.resolve() if file.exists() else file
        unfinished = whole.parent / f".{secrets.token_hex(8)}.unfinished"
        try:
            with unfinished.open("xb") as made:
                made.write(data)
            unfinished.replace(whole)
        finally:
            unfinished.unlink(missing_ok=True)
    return file


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn what the system refuses while a path is written into one sentence.

    >>> with writing(Path("disk/report.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    aneforge.errors.GraphError: at disk/report.json: the file cannot be written (seen No space left on device)

    Raises:
        GraphError: The system refused something.
    """
    try:
        yield
    except OSError as error:
        raise GraphError(CANNOT, location=Location(str(path)), seen=error.strerror or str(error)) from None


def is_stream(path: Path) -> bool:
    """Tell whether a path is neither a file nor a folder but something that takes bytes: a pipe, a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def refuse_file(path: Path, model: object = None) -> None:
    """Refuse a file that could not be written, before any work is done for it.

    >>> refuse_file(Path("no such folder/report.json"))
    Traceback (most recent call last):
    aneforge.errors.GraphError: at no such folder/report.json: the file cannot be written (seen no folder no such folder). Remedy: mkdir -p 'no such folder'

    Raises:
        GraphError: Its folder is missing or closed, a folder has its name, or it is the model itself.
    """  # noqa: E501 - the message is one line
    with writing(path):
        if is_stream(path):
            return
        refuse_folder_in_place(path)
        refuse_model(path, model)
        if not path.parent.is_dir():
            import shlex  # noqa: PLC0415 - loaded when it is needed

            seen = f"{path.parent} is no folder" if path.parent.exists() else f"no folder {path.parent}"
            remedy = None if path.parent.exists() else f"mkdir -p {shlex.quote(str(path.parent))}"
            raise GraphError(CANNOT, location=Location(str(path)), seen=seen, remedy=remedy)
        refuse_closed(path, path.parent)


def refuse_folder(path: Path, model: object = None, *, holds: str = "") -> None:
    """Refuse a folder that could not be made or written into; those above it are made too.

    `holds` names the file that is written into it.

    Raises:
        GraphError: A file has its name or that of a folder above it, one of them is closed, or it is the model itself.
    """
    with writing(path):
        refuse_model(path, model)
        refuse_model(path / holds, model)
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        if not there.is_dir():
            raise GraphError("the folder cannot be made", location=Location(str(path)), seen=f"{there} is no folder")
        refuse_closed(path, there)


def refuse_folder_in_place(path: Path) -> None:
    """Refuse a file whose name a folder has."""
    if path.is_dir():
        raise GraphError(CANNOT, location=Location(str(path)), seen="a folder", remedy="name a file")


def refuse_model(path: Path, model: object) -> None:
    """Refuse to write over the model that is read."""
    if not is_path(model):
        return
    source = Path(model)
    if path.exists() and source.exists() and path.samefile(source):
        raise GraphError(
            "the model itself would be overwritten", location=Location(str(path)), remedy="write somewhere else"
        )


def refuse_closed(path: Path, folder: Path) -> None:
    """Refuse a folder into which nothing may be written."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise GraphError(CANNOT, location=Location(str(path)), seen=f"no permission to write into {folder}")

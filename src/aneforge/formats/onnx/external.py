"""Weights in files next to the model, opened so that a model cannot name a file of another user.

A model says where its external data is, and a model may come from anywhere. Four things are refused, as onnx's own
loader refuses them: a location outside of the model's folder, a symbolic link anywhere on the way, a race that swaps
one in (every step is opened with `O_NOFOLLOW` relative to the folder already open), and a file with another hard link,
which could be any file of the same disk. Offset and length are compared with the file's size before anything is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.structure import check_texts
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx

__all__ = ["ExternalData", "external_data", "read_external"]

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""A pipe without a writer must not hold up the open."""
BINARY = getattr(os, "O_BINARY", 0)
KNOWN_KEYS = {"location", "offset", "length", "checksum", "basepath"}
"""Keys of the specification; `basepath` is written by onnx itself and says nothing that a reader needs."""
DIGITS_MOST = 19
"""Of an offset or a length: 2⁶³ has as many."""


@dataclass(frozen=True, slots=True)
class ExternalData:
    """Where the bytes of a tensor are."""

    tensor: str
    location: str
    offset: int
    length: int | None

    def error(
        self, message: str, *, seen: object = None, limit: object = None, remedy: str | None = None
    ) -> GraphError:
        """Return the error of external data that is refused."""
        return GraphError(f"external data of tensor {self.tensor!r}: {message}", seen=seen, limit=limit, remedy=remedy)


def external_data(tensor: onnx.TensorProto) -> ExternalData:
    """Return where the bytes of a tensor are.

    Raises:
        GraphError: An entry is unknown, given twice, or not a number where one belongs; or there is no location.
    """
    name = tensor.name
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        check_texts("an entry of external data", (entry.key, entry.value), None)
        if entry.key not in KNOWN_KEYS or entry.key in entries:
            raise GraphError(
                f"external data of tensor {name!r}: an entry is unknown or comes twice",
                seen=repr(entry.key[:60]),
                limit=", ".join(sorted(KNOWN_KEYS)),
            )
        entries[entry.key] = entry.value
    found = ExternalData(name, entries.get("location", ""), 0, None)
    if not found.location:
        raise found.error("it has no location")
    offset = byte_count(found, "offset", entries.get("offset", "0"))
    length = byte_count(found, "length", entries["length"]) if "length" in entries else None
    return ExternalData(name, found.location, offset, length)


def byte_count(found: ExternalData, what: str, text: str) -> int:
    """Return a number of bytes.

    Raises:
        GraphError: The text is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MOST):
        raise found.error(f"its {what} is not a number of bytes", seen=repr(text[:60]), limit="0 or more")
    return int(text)


def read_external(folder: Path | None, found: ExternalData, wanted: int) -> bytes:
    """Return the bytes of a tensor, as many as its shape and element type ask for.

    Raises:
        GraphError: The location is not a plain file in the folder, or does not have the bytes.
    """
    if folder is None:
        raise found.error(
            "there is no folder to look in", remedy="give the path of the model, not its bytes or its ModelProto"
        )
    if found.length is not None and found.length != wanted:
        raise found.error("its length is not that of the tensor", seen=found.length, limit=f"{wanted} bytes")
    descriptor = open_within(folder, found)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if found.offset + wanted > size:
            raise found.error(
                f"file {found.location!r} ends before it",
                seen=f"{wanted} bytes from {found.offset} on",
                limit=f"{size} bytes in the file",
            )
        file.seek(found.offset)
        data = file.read(wanted)
    if len(data) != wanted:
        raise found.error(f"file {found.location!r} became shorter while it was read", seen=len(data), limit=wanted)
    return data


def open_within(folder: Path, found: ExternalData) -> int:
    """Open a file below a folder and return its descriptor.

    Raises:
        GraphError: It is not below the folder, not there, after a link, not a plain file, or linked twice.
    """
    steps = check_steps(found)
    try:
        descriptor = open_steps(folder, steps)
    except OSError as error:
        link = first_link(folder, steps)
        if link:
            raise found.error(
                f"{link!r} is a symbolic link, and links are not followed: a model could name any file by one",
                seen=f"location {found.location!r}",
                remedy="copy the model and its data with links resolved (cp -rL FOLDER COPY) and read the copy",
            ) from None
        raise found.error(
            f"file {found.location!r} cannot be opened: {error.strerror}", remedy="keep the file next to the model"
        ) from None
    problem = problem_of(os.fstat(descriptor))
    if problem:
        os.close(descriptor)
        raise found.error(f"file {found.location!r} is refused: {problem}", remedy="put a plain copy next to the model")
    return descriptor


def check_steps(found: ExternalData) -> tuple[str, ...]:
    """Return the names on the way from the model's folder to the file.

    Raises:
        GraphError: The way could lead out of the folder.
    """
    steps = PurePosixPath(found.location.replace("\\", "/")).parts
    windows = PureWindowsPath(found.location)
    outside = not steps or windows.drive or windows.root or any(step in ("..", "/") for step in steps)
    if outside or "\0" in found.location:
        raise found.error(
            "its location is not below the model's folder",
            seen=repr(found.location[:200]),
            limit="a relative path without '..'",
        )
    return steps


def open_steps(folder: Path, steps: Iterable[str]) -> int:
    """Open a file step by step, each one relative to the folder that is open, following no link."""
    *folders, name = steps
    flags = os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY
    if os.open not in os.supports_dir_fd:
        return open_checked(folder, [*folders, name], flags)
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in folders:
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | NOFOLLOW, dir_fd=current)
            os.close(current)
            current = inner
        return os.open(name, flags, dir_fd=current)
    finally:
        os.close(current)


def first_link(folder: Path, steps: Iterable[str]) -> str:
    """Return the first symbolic link on the way to a file that was not opened, or nothing; it is for the message."""
    path = folder
    for step in steps:
        path = path / step
        try:
            linked = path.is_symlink()
        except OSError:
            return ""
        if linked:
            return path.relative_to(folder).as_posix()
    return ""


def open_checked(folder: Path, steps: Iterable[str], flags: int) -> int:
    """Open a file where the system has no relative open: every step is looked at first."""
    path = folder
    for step in steps:
        path = path / step
        if path.is_symlink() or not path.resolve().is_relative_to(folder.resolve()):
            raise OSError(0, "it is after a link")
    return os.open(path, flags)


def problem_of(status: os.stat_result) -> str:
    """Return why a file that is open is refused; nothing if it is not."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a plain file"
    return "it has another hard link" if status.st_nlink > 1 else ""

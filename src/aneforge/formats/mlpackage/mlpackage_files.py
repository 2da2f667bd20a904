"""The files of a package: its manifest, the model file that it names, and the weights that the model names.

A package is a folder: `Manifest.json`, and under `Data` the files that it lists. Every name in a package is checked
before a file is opened: it stays inside of the folder, links included, and is a plain file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

import msgspec

from aneforge.errors import GraphError, Location
from aneforge.typed_decoding import decode_typed

__all__ = ["MANIFEST", "MODEL_FOLDER", "inside", "model_file", "read_limited"]

MANIFEST = "Manifest.json"
DATA = "Data"
MODEL_FOLDER = "com.apple.CoreML"
"""Where coremltools and Xcode put the model file and its weights, inside of Data."""
MOST_MANIFEST = 2**20
MOST_MODEL = 2**31 - 1
"""Bytes of the largest message that protobuf reads."""


class Item(msgspec.Struct):
    """An entry of a manifest."""

    path: str


class Manifest(msgspec.Struct):
    """What a manifest says, as far as it is needed here."""

    item_info_entries: dict[str, Item] = msgspec.field(name="itemInfoEntries")
    root_model_identifier: str = msgspec.field(name="rootModelIdentifier")


def model_file(package: Path) -> Path:
    """Return the model file that a package names.

    Raises:
        GraphError: The package has no manifest, or it names no file inside of the package.
    """
    place = Location(str(package))
    path = package / MANIFEST
    if not path.exists():
        raise GraphError(
            "the folder is not an ML package",
            location=place,
            seen=f"no {MANIFEST}",
            remedy="give the folder whose name ends with .mlpackage",
        )
    content = read_limited(inside(package, MANIFEST, "the manifest"), MOST_MANIFEST, "the manifest")
    try:
        manifest = decode_typed(content, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraphError(f"the manifest of the package cannot be read: {error}", location=place) from None
    item = manifest.item_info_entries.get(manifest.root_model_identifier)
    if item is None:
        raise GraphError(
            "the manifest names no model",
            location=place,
            seen=f"rootModelIdentifier {manifest.root_model_identifier[:80]!r}",
            limit="the name of one of its items",
        )
    return inside(package, f"{DATA}/{item.path}", "the model file")


def inside(folder: Path, name: str, what: str) -> Path:
    """Return a plain file inside of a folder by the name that a file gives, wherever links lead.

    Raises:
        GraphError: The name leaves the folder, or nothing or something else is there.
    """
    shown = name if len(name) < 200 else f"{name[:80]}… ({len(name)} characters)"
    place = Location(str(folder))
    pure = PurePosixPath(name)
    if "\0" in name or "\\" in name or ".." in pure.parts or pure.is_absolute() or not pure.parts:
        raise GraphError(f"{what} is not inside of the package", location=place, seen=repr(shown))
    try:
        path = (folder / name).resolve(strict=True)
        root = folder.resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "links in a circle"
        raise GraphError(f"{what} cannot be opened: {reason}", location=place, seen=repr(shown)) from None
    if not path.is_relative_to(root):
        raise GraphError(f"{what} is not inside of the package", location=place, seen=f"a link {shown!r}")
    if not stat.S_ISREG(mode):
        raise GraphError(f"{what} is not a regular file", location=place, seen=repr(shown))
    return path


def read_limited(path: Path, most: int, what: str) -> bytes:
    """Return the bytes of a file, not more than a limit.

    Raises:
        GraphError: It is larger, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= most:
                return file.read(size)  # a limit in the place of the size would take that much memory at once
    except OSError as error:
        raise GraphError(f"{what} cannot be read: {error.strerror}", location=Location(str(path))) from None
    raise GraphError(f"{what} is too large", location=Location(str(path)), seen=f"{size} bytes", limit=f"{most} bytes")

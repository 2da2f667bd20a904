"""A `.pt2` file, looked through before PyTorch reads it.

`torch.export.load` trusts its file: it unpickles what a payload's description says is pickled, it loads compiled
libraries, it evaluates the text of symbolic lengths, and it calls whatever function of PyTorch's module tree a node
names. So an archive is accepted only if it has none of that: nothing compressed and nothing overlapping (its contents
are no larger than itself), no payload but plain tensors, no library, example inputs that PyTorch's restricted
unpickler takes, and a program whose names and lengths keep to what `torch.export` itself writes (`contents.py`).
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from typing import IO, TYPE_CHECKING, Never

import torch

from aneforge.errors import AneforgeError, GraphError, Location
from aneforge.formats.torch.contents import check_payloads, check_program, parse_json
from aneforge.formats.torch.quiet import quiet_loggers

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_archive"]

ENTRIES_MOST = 1 << 20
"""Files of one archive; a program has one for each of its weights, and a few more."""
TEXT_MOST = 1 << 30
"""Bytes of the text of a program."""
KNOWN = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version|\.storage_alignment"
    r"|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/weights/(model_weights_config\.json|weight_\d+)"
    r"|data/constants/(model_constants_config\.json|tensor_\d+)"
)
"""What `torch.export.save` writes for a program of plain tensors."""
REFUSED = (
    ("data/aotinductor/", "compiled libraries", "save the program itself with torch.export.save"),
    ("data/constants/custom_obj_", "pickled script objects", "leave script objects out of the module"),
    ("data/constants/opaque_obj_", "pickled Python objects", "leave such objects out of the module"),
    ("data/weights/model.pt", "pickled weights of an older release", "save the program with a newer PyTorch"),
    ("data/constants/model.pt", "pickled constants of an older release", "save the program with a newer PyTorch"),
    ("serialized_", "the form of an older release", "save the program with a newer PyTorch"),
    ("extra/", "further files", "save the program without extra_files"),
)
"""Beginnings of names that are refused: what they hold, and what to do."""


def load_archive(path: Path) -> torch.export.ExportedProgram:
    """Return the program of a file.

    Raises:
        GraphError: It is missing, damaged, no such archive, or holds what would have to be trusted.
    """
    try:
        with path.open("rb") as file:
            check_archive(file)
            file.seek(0)
            return load(file)
    except AneforgeError as error:
        error.location = error.location or Location(str(path))
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise GraphError(f"the file cannot be read: {reason}", location=Location(str(path))) from None


def load(file: IO[bytes]) -> torch.export.ExportedProgram:
    """Return the program of an archive that was looked through.

    Raises:
        GraphError: PyTorch cannot read it.
    """
    try:
        with warnings.catch_warnings(), quiet_loggers():
            warnings.simplefilter("ignore")  # what PyTorch warns of is its reading of its own form
            return torch.export.load(file)
    except Exception as error:  # noqa: BLE001 - whatever PyTorch raises says that it cannot read the file
        said = " ".join(str(error).split())[:300]
        raise GraphError(
            f"PyTorch {torch.__version__} cannot read the program: {type(error).__name__}: {said}",
            remedy="export it again with the installed PyTorch",
        ) from None


def check_archive(file: IO[bytes]) -> None:
    """Check that an archive may be passed to PyTorch.

    Raises:
        GraphError: It may not.
    """
    size = file.seek(0, io.SEEK_END)
    try:
        if not zipfile.is_zipfile(file):
            refuse("the file is not an archive of torch.export, or is cut off: it has no directory of a zip file")
        with zipfile.ZipFile(file) as archive:
            entries = check_entries(archive.infolist(), size)
            check_contents(archive, entries)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        refuse(f"the archive is damaged: {error}")
    except RuntimeError as error:  # zipfile raises it for encrypted entries
        refuse(f"the archive cannot be read: {error}")


def refuse(message: str, *, seen: object = None, limit: object = None, remedy: str | None = None) -> Never:
    """Raise the error of an archive.

    Raises:
        GraphError: Always.
    """
    raise GraphError(message, seen=seen, limit=limit, remedy=remedy)


def check_entries(listed: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries of an archive by their names without the folder that all of them are in.

    Raises:
        GraphError: There are too many, one is compressed, is outside of the folder or comes twice, or all together
            are larger than the file.
    """
    if not listed:
        refuse("the archive is damaged: its directory lists no file")
    if len(listed) > ENTRIES_MOST:
        refuse("the archive has too many files", seen=len(listed), limit=ENTRIES_MOST)
    if sum(entry.file_size for entry in listed) > size:
        refuse("the archive's files are together larger than the archive", limit=f"{size} bytes")
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in listed:
        folder, _, name = entry.filename.partition("/")
        if not folder or folder == ".." or not name or ".." in name.split("/") or "\\" in entry.filename:
            refuse("a file of the archive is outside of its folder", seen=repr(entry.filename)[:120])
        if entry.compress_type != zipfile.ZIP_STORED:
            refuse("a file of the archive is compressed, which torch.export never does", seen=repr(name)[:120])
        if name in entries or folder != listed[0].filename.partition("/")[0]:
            refuse("a file of the archive comes twice, or there are two folders", seen=repr(entry.filename)[:120])
        entries[name] = entry
    return entries


def check_contents(archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo]) -> None:
    """Check the files of an archive.

    Raises:
        GraphError: One is missing, not known, or holds what would have to be trusted.
    """
    if "archive_format" not in entries or archive.read(entries["archive_format"]) != b"pt2":
        refuse("the zip file is not an archive of torch.export, or is cut off: it has no archive_format of pt2")
    for name in entries:
        for beginning, what, remedy in REFUSED:
            if name.startswith(beginning):
                refuse(
                    f"the archive holds {what}, which would have to be trusted", seen=repr(name)[:120], remedy=remedy
                )
        if not KNOWN.fullmatch(name):
            refuse("the archive holds a file that torch.export does not write", seen=repr(name)[:120])
    texts = {
        name: parse_json(name, contents_of(archive, entries, name))
        for name in (
            "models/model.json",
            "data/weights/model_weights_config.json",
            "data/constants/model_constants_config.json",
        )
    }
    sizes = {name: entry.file_size for name, entry in entries.items()}
    check_program(texts["models/model.json"])
    check_payloads(texts["data/weights/model_weights_config.json"], "data/weights/", sizes)
    check_payloads(texts["data/constants/model_constants_config.json"], "data/constants/", sizes)
    check_samples(contents_of(archive, entries, "data/sample_inputs/model.pt"))


def contents_of(archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], name: str) -> bytes:
    """Return a file that must be there.

    Raises:
        GraphError: It is not, or is too large.
    """
    if name not in entries:
        refuse("the archive misses a file", seen=repr(name))
    if entries[name].file_size > TEXT_MOST:
        refuse(f"{name} is too large", seen=entries[name].file_size, limit=TEXT_MOST)
    return archive.read(entries[name])


def check_samples(contents: bytes) -> None:
    """Check that PyTorch's restricted unpickler takes the example inputs: its loader has another one to fall back on.

    Raises:
        GraphError: It does not.
    """
    if not contents:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.load(io.BytesIO(contents), weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever is raised, the example inputs are not plain tensors
        raise GraphError(
            "the example inputs of the archive are not plain tensors, and would have to be trusted",
            seen=type(error).__name__,
            remedy="save the program with tensors, numbers, lists and dicts as example inputs",
        ) from None

"""Which format a model file has, found in its content: the first bytes, or the fields of its outermost message.

ONNX models and Core ML models are both protobuf messages that begin with a version and a text. What distinguishes them
are the numbers of their fields: an ONNX model has its graph in field 7, a Core ML model its contents in a field of 200
or more.
"""

from __future__ import annotations

import mmap
import os
import zipfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DRIVER_SUFFIX", "ModelFormat", "detect_format", "is_program_file"]


class ModelFormat(StrEnum):
    """What a model file is."""

    ONNX = "ONNX model"
    ML_PACKAGE = "ML package"
    ML_MODEL = "Core ML model file"
    MIL = "MIL text"
    NETPLIST = "network description"
    EXPORTED = "exported PyTorch program"
    HWX = "compiled container"


KNOWN = ", ".join(ModelFormat)
HEAD = 4096
ONNX_GRAPH = 7
COREML_CONTENTS = 200
"""The first of the fields that hold the contents of a Core ML model, whatever its type."""
MOST_FIELDS = 100_000
MOST_FIELD_NUMBER = 2**29 - 1
FIXED = {1: 8, 5: 4}
"""Bytes of values of fixed size, by wire type."""
VARINT, DELIMITED = 0, 2
MOST_VARINT = 10
MOST_SAFETENSORS = 100_000_000
"""Bytes of the text before the tensors, as the format limits them."""
ZIP = b"PK\x03\x04"
ZIP_END, ZIP_END_SIZE, ZIP_COMMENT_MOST = b"PK\x05\x06", 22, 2**16
"""How the record at the end of a zip archive begins, its bytes, and those that may be after it."""
ARCHIVE_MARKS = ("archive_format", "serialized_exported_program.json")
"""Files that an archive of an exported program has."""
EXPORT = 'torch.export.save(torch.export.export(model, example), "model.pt2")'
BEGINNINGS: dict[bytes, ModelFormat] = {
    **dict.fromkeys((b"bplist0", b"<?xml", b"<!DOCTYPE plist", b"<plist"), ModelFormat.NETPLIST),
    b"\xce\xfa\xef\xbe": ModelFormat.HWX,
}
"""How files of a format begin; a text may have a byte order mark and white space before it."""
DRIVER_SUFFIX = ".ane"
"""Suffix of files of the Linux driver: their first bytes are a size, which identifies nothing."""
SAVED_PROGRAM = b"\x89ANEPRG\n"
"""How a program begins that `aneforge compile --emit program` wrote."""
PICKLE = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
"""How a pickle begins, by its protocol."""
KERAS = "convert the original model with coremltools (ct.convert) or tf2onnx and give that"


@dataclass(frozen=True, slots=True)
class Other:
    """A file that is often taken for a model: what it is, and what to do."""

    seen: str
    remedy: str


PICKLED = Other(
    "a pickle, as torch.save wrote them, which is never read because it can run code",
    f"build the model in Python, load the weights, and write {EXPORT}",
)
OTHERS = {
    SAVED_PROGRAM: Other(
        "a program that was compiled for one target, as compile --emit program writes it",
        "aneforge run FILE runs it, and af.load_program reads it; give every other command the model itself",
    ),
    b"\x89HDF": Other("an HDF5 file, as Keras writes them", KERAS),
    **dict.fromkeys(PICKLE, PICKLED),
    b"\x93NUMPY": Other("a NumPy array", "give the model; arrays are given with --inputs, as an .npz file"),
    b"\x1f\x8b": Other("a gzip archive", "unpack it and give the model inside"),
    b"GGUF": Other("weights in GGUF, without a graph", f"build the model in PyTorch, load them, and write {EXPORT}"),
    b"%PDF": Other("a PDF document", "give a model's file"),
    b"version https://git-lfs": Other("a pointer of Git LFS to a file that was not fetched", "git lfs pull"),
}
"""Files that are often taken for models, by their first bytes."""
LITE = Other("a TensorFlow Lite model", "convert the model that it was made from to ONNX, or with coremltools")
SAFETENSORS = Other(
    "weights in safetensors, without a graph", f"build the model in PyTorch, load them, and write {EXPORT}"
)
CUT_OFF = Other(
    "a zip archive that is cut off: it has no directory at its end", "write, copy or fetch the whole file again"
)
NO_EXPORT = "a zip archive that torch.export did not write"
ARCHIVES = (
    ("constants.pkl", Other(f"{NO_EXPORT}: TorchScript", f"export the model that it was scripted from: {EXPORT}")),
    (
        "data.pkl",
        Other(
            f"{NO_EXPORT}: a file of torch.save, with a state dict or a pickled model, which is never read because it "
            "can run code",
            f"build the model in Python, load the weights, and write {EXPORT}",
        ),
    ),
    ("model.weights.h5", Other(f"{NO_EXPORT}: a Keras model", KERAS)),
    (".npy", Other(f"{NO_EXPORT}: NumPy arrays", "give the model; arrays are given with --inputs")),
    ("Manifest.json", Other(f"{NO_EXPORT}: a packed ML package", "unpack it and give the .mlpackage folder")),
)
"""Files in zip archives, by how their names end: what the archive is. The first that fits counts."""

OTHER_FOLDERS = {
    "model.espresso.net": (
        "a compiled Core ML model (.mlmodelc) of a neural network, which has no MIL program",
        "convert the original model again, with convert_to='mlprogram', and give the .mlpackage",
    ),
    "coremldata.bin": (
        "a compiled Core ML model (.mlmodelc) without a program of its own (no model.mil)",
        "give the .mlpackage or .mlmodel that it was compiled from",
    ),
    "com.apple.CoreML": ("the inside of an ML package", "give the folder above, whose name ends with .mlpackage"),
    "model.mlmodel": (
        "the inside of an ML package",
        "give the folder whose name ends with .mlpackage, or the file model.mlmodel",
    ),
    "saved_model.pb": ("a TensorFlow saved model", "convert it to ONNX, or to an .mlpackage with coremltools"),
}
"""Files in folders that are often taken for models: what these are, and what to do."""


def detect_format(path: Path) -> ModelFormat:
    """Return the format of a model file or folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "anything")
    ...     _ = file.write_text("program(1.3) { }")
    ...     print(detect_format(file))
    MIL text

    Raises:
        GraphError: There is nothing, or it is not a model of a format that is known.
    """
    place = Location(str(path))
    try:
        if not path.exists():
            raise GraphError("there is no such file", location=place, remedy="check the path")
        if path.is_dir():
            return folder_format(path, place)
        if not path.is_file():
            raise GraphError("it is neither a file nor a folder", location=place)
        with path.open("rb") as file:
            head = file.read(HEAD)
    except (OSError, ValueError) as error:
        if isinstance(error, GraphError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphError(f"it cannot be opened: {reason}", location=place) from None
    if not head:
        raise GraphError("the file is empty", location=place, remedy="write or fetch it again")
    # Bytes of what is known not to be a model can look like the fields of a message, so these are asked first.
    found = None if other_kind(path, head) and not is_exported_program(path, head) else content_format(path, head)
    if found is None:
        raise unknown(path, head, place)
    return found


def folder_format(path: Path, place: Location) -> ModelFormat:
    """Return the format of a folder.

    Raises:
        GraphError: It holds no model.
    """
    marks = {
        "Manifest.json": ModelFormat.ML_PACKAGE,
        "model.mil": ModelFormat.MIL,
        "net.plist": ModelFormat.NETPLIST,
    }
    for name, found in marks.items():
        if (path / name).is_file():
            return found
    seen, remedy = next(
        ((seen, remedy) for name, (seen, remedy) in OTHER_FOLDERS.items() if (path / name).exists()),
        (None, "give a model's file"),
    )
    raise GraphError(
        f"the folder is not a model{' that can be read' if seen else ''}: expected one with {' or '.join(marks)}"
        f"{f', got {seen}' if seen else ''}",
        location=place,
        remedy=remedy,
    )


def content_format(path: Path, head: bytes) -> ModelFormat | None:
    """Return the format of a file by its content; None for one that is not known."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for beginning, found in BEGINNINGS.items():
        if text.startswith(beginning):
            return found
    if text.startswith(b"program") and text.removeprefix(b"program").lstrip().startswith(b"("):
        return ModelFormat.MIL
    if path.suffix == DRIVER_SUFFIX:
        return ModelFormat.HWX
    if head.startswith(ZIP):
        return ModelFormat.EXPORTED if is_exported_program(path, head) else None
    return message_format(path)


def is_exported_program(path: Path, head: bytes) -> bool:
    """Return whether a file is an archive that torch.export wrote."""
    return head.startswith(ZIP) and any(Path(name).name in ARCHIVE_MARKS for name in names_in(path))


def has_end(path: Path) -> bool:
    """Return whether a zip archive ends with the record that says where its directory is.

    An archive within a cut one may have such a record too, but not at the end of the file.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - ZIP_END_SIZE - ZIP_COMMENT_MOST, 0))
        tail = file.read()
    at = tail.rfind(ZIP_END)
    comment = int.from_bytes(tail[at + ZIP_END_SIZE - 2 : at + ZIP_END_SIZE], "little")
    return at >= 0 and at + ZIP_END_SIZE + comment == len(tail)


def names_in(path: Path) -> list[str]:
    """Return the names of the files in a zip archive; none where it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return []


def is_program_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of a program which was compiled and saved; what is not a file is not opened.

    >>> is_program_file("no such file")
    False
    """
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(len(SAVED_PROGRAM)) == SAVED_PROGRAM
    except (OSError, ValueError):
        return False


def message_format(path: Path) -> ModelFormat | None:
    """Return the format of a file that is a protobuf message; its fields are passed over, not read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        fields = set(field_numbers(content))
    if any(number >= COREML_CONTENTS for number in fields) and 1 in fields:
        return ModelFormat.ML_MODEL
    return ModelFormat.ONNX if ONNX_GRAPH in fields else None


def field_numbers(content: mmap.mmap) -> Iterator[int]:
    """Yield the numbers of the fields of a message, as far as it is one.

    A file that was cut off has fields up to there; the reader of its format says what is missing.
    """
    at, size = 0, len(content)
    for _ in range(MOST_FIELDS):
        if at >= size:
            return
        tag, at = varint(content, at)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= MOST_FIELD_NUMBER or kind not in (VARINT, DELIMITED, *FIXED):
            return
        length, value_at = varint(content, at) if kind in (VARINT, DELIMITED) else (FIXED[kind], at)
        if length < 0:
            return
        yield number
        at = value_at if kind == VARINT else value_at + length


def varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number of variable size and the place after it; −1 where there is none."""
    value = 0
    for place, byte in enumerate(content[at : at + MOST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    return -1, len(content)


def unknown(path: Path, head: bytes, place: Location) -> GraphError:
    """Return the error for a file that is not a model of a format that is known."""
    found = other_kind(path, head)
    if found is not None:
        return GraphError(
            "the file is not a model that can be read", location=place, seen=found.seen, remedy=found.remedy
        )
    return GraphError(
        f"unknown format: expected {KNOWN}; got a file that begins with {head[:12]!r}",
        location=place,
        remedy="export the model in one of these formats",
    )


def other_kind(path: Path, head: bytes) -> Other | None:
    """Return what a file is that is not a model; None for one that could not be taken for a model."""
    if head.startswith(ZIP):
        if not has_end(path):
            return CUT_OFF
        names = names_in(path)
        known = (other for end, other in ARCHIVES if any(name.endswith(end) for name in names))
        return next(known, Other(NO_EXPORT, f"if it holds a model, unpack it; a PyTorch model is written by {EXPORT}"))
    if head[4:8] == b"TFL3":
        return LITE
    if is_safetensors(head):
        return SAFETENSORS
    return next((other for mark, other in OTHERS.items() if head.startswith(mark)), None)


def is_safetensors(head: bytes) -> bool:
    """Return whether a file begins as safetensors do: the length of a JSON text in eight bytes, and that text."""
    return len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= MOST_SAFETENSORS

"""The files that a model is made of, so that nothing is written over one of them.

A model can be more than the file that is named: its weights may be in files next to it, and a package is a folder. The
model is asked which files it means only where one is about to be replaced. One that cannot be read names none: its
reader refuses it, and nothing is written.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import AneforgeError
from aneforge.formats.detection import ModelFormat, detect_format
from aneforge.packages import expect_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import onnx
    from google.protobuf.message import Message

    from aneforge.formats.mil.syntax import Program

__all__ = ["harm_to_model"]

MANIFEST, PACKAGE = "Manifest.json", ".mlpackage"
"""What a package has, and how its name ends."""
LOCATION = "location"
"""The key under which an ONNX tensor names the file of its data."""


def harm_to_model(path: Path, model: Path) -> str:
    """Return what would become of a model if a path were written to; nothing where it has no part in it.

    >>> harm_to_model(Path("report.json"), Path("model.onnx"))
    ''

    Raises:
        OSError: The system does not let the path be looked at.
    """
    if not model.exists():
        return ""
    if path.exists() and path.samefile(model):
        return "the model itself would be overwritten"
    package = package_of(model)
    if package is not None and is_within(path, package):
        return "the model's package would be changed"
    if path.is_file() and any(file.exists() and path.samefile(file) for file in other_files(path, model)):
        return "a file of the model would be overwritten"
    return ""


def package_of(model: Path) -> Path | None:
    """Return the ML package that a model is or is in, if any."""
    whole = Path(os.path.realpath(model))
    folders = (whole, *(one for one in whole.parents if one.suffix == PACKAGE))  # other folders have manifests too
    try:
        return next((one for one in folders if (one / MANIFEST).is_file()), None)
    except PermissionError:
        return None  # what is closed cannot be read as a model


def is_within(path: Path, folder: Path) -> bool:
    """Return whether a path is in a folder, however both are spelled and wherever links lead."""
    whole = Path(os.path.realpath(path))
    return any(one.exists() and one.samefile(folder) for one in whole.parents)


def other_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return files that a model names, as far as `path` may be one of them."""
    try:
        return FILES_OF.get(detect_format(model), no_files)(path, model)
    except (AneforgeError, OSError):
        return ()  # the reader of the model will say what is wrong with it


def no_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return the files of a model that is one file."""
    del path, model
    return ()


def onnx_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return the files of the external data of an ONNX model.

    Raises:
        AneforgeError: The model cannot be read.
    """
    if not is_within(path, model.parent) or not holds(model, LOCATION.encode()):
        return ()
    expect_package("onnx")
    from aneforge.formats.onnx.reading import read_model  # noqa: PLC0415 - it imports onnx

    names = {
        entry.value.replace("\\", "/")
        for tensor in tensors_in(read_model(model).proto)
        for entry in tensor.external_data
        if entry.key == LOCATION
    }
    return files_next_to(model, names)


def holds(file: Path, text: bytes) -> bool:
    """Return whether a text is anywhere in a file, which is not read into memory."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


def tensors_in(message: Message) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a message that are anywhere in it: in graphs, attributes, functions."""
    import onnx  # noqa: PLC0415 - an extra
    from google.protobuf.message import Message  # noqa: PLC0415 - onnx brings it

    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for described, value in message.ListFields():
        if described.message_type is not None:
            for inner in (value,) if isinstance(value, Message) else value:
                yield from tensors_in(inner)


def mil_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return the text and the weights files of a MIL program.

    Raises:
        AneforgeError: The program cannot be read.
    """
    from aneforge.formats.mil.program import MODEL_FILE, load_mil  # noqa: PLC0415 - loaded when it is needed

    text = model / MODEL_FILE if model.is_dir() else model
    return (text, *(weights_of(load_mil(text).syntax, text) if is_blob(path) else ()))


def package_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return the weights files of a bare Core ML model file.

    Raises:
        AneforgeError: The model cannot be read.
    """
    from aneforge.formats.mlpackage.mlpackage_model import load_mlpackage  # noqa: PLC0415 - loaded when it is needed

    return weights_of(load_mlpackage(model).syntax, model) if is_blob(path) else ()


def is_blob(path: Path) -> bool:
    """Return whether a file is a weights blob: a program is not parsed for the sake of a report of the last run."""
    from aneforge.formats.mil.blob import BlobError, BlobFile  # noqa: PLC0415 - loaded when it is needed

    try:
        BlobFile.open(path)
    except BlobError:
        return False
    return True


def weights_of(program: Program, file: Path) -> tuple[Path, ...]:
    """Return the weights files that a program names."""
    from aneforge.formats.mil.literals import scalar_of  # noqa: PLC0415 - loaded when it is needed
    from aneforge.formats.mil.mil_weights import MODEL_PATH  # noqa: PLC0415 - as above
    from aneforge.formats.mlpackage.mlpackage_model import blobs_of  # noqa: PLC0415 - as above

    return files_next_to(file, {str(scalar_of(blob.path)).removeprefix(MODEL_PATH) for blob in blobs_of(program)})


def netplist_files(path: Path, model: Path) -> tuple[Path, ...]:
    """Return the description and the weights files of a network description.

    Raises:
        AneforgeError: The description cannot be read.
    """
    from aneforge.formats.netplist.plist import MOST_BYTES  # noqa: PLC0415 - loaded when it is needed
    from aneforge.formats.netplist.reading import DESCRIPTION_FILE  # noqa: PLC0415 - as above
    from aneforge.formats.netplist.structure import parse_document  # noqa: PLC0415 - as above

    file = model / DESCRIPTION_FILE if model.is_dir() else model
    if not is_within(path, file.parent) or file.stat().st_size > MOST_BYTES:
        return (file,)
    networks = parse_document(file.read_bytes(), str(file)).networks
    return (file, *files_next_to(file, {name for network in networks for name in network.weights}))


def files_next_to(file: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Return files by their names in the folder of another; what no file can be called is left out."""
    return tuple(file.parent / name for name in sorted(names) if name and "\0" not in name)


FILES_OF: Mapping[ModelFormat, Callable[[Path, Path], tuple[Path, ...]]] = {
    ModelFormat.ONNX: onnx_files,
    ModelFormat.ML_MODEL: package_files,
    ModelFormat.MIL: mil_files,
    ModelFormat.NETPLIST: netplist_files,
}
"""What gives the files that a model of a format names; a package is a folder, and guarded as one."""

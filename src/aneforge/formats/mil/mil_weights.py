"""The weights of a program: which file a BLOBFILE reference means, and the array that it stands for.

A file is mapped into memory when it is first asked for. Arrays look into it, so weights are read when they are used and
copied only where they were packed.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError, nearest_names
from aneforge.formats.mil.blob import CODES, DESCRIPTOR_BYTES, BlobError, BlobFile
from aneforge.formats.mil.diagnostics import MilRule, list_names
from aneforge.formats.mil.literals import scalar_of
from aneforge.formats.mil.text_rules import UNKNOWN_EXTENT
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from aneforge.formats.mil.syntax import Blob

__all__ = ["Weights", "WeightsStore"]

Weights = (
    str | os.PathLike[str] | bytes | memoryview | Mapping[str, "str | os.PathLike[str] | bytes | memoryview"] | None
)
"""Where the weights are: a folder, one file, the bytes of one, several by the paths that the program gives, or none."""
MODEL_PATH = "@model_path/"
"""The folder of the program, as paths in it are written."""

NO_FILE = MilRule.of(
    "MIL-BLOB-001",
    """The weights file {name} does not exist.

    Remedy: give it with weights=, by folder, by file, or by the path that the program writes.
    """,
    expected="{name}",
)
OUTSIDE = MilRule.of(
    "MIL-BLOB-002",
    """The path {name} leaves the folder of the program.

    Remedy: keep weights next to the program, and write their path as @model_path/weights.bin.
    """,
    found="{name}",
    expected="a path inside it",
)
NOT_A_BLOB = MilRule.of(
    "MIL-BLOB-003",
    """The weights file {name} is not a weights blob.

    Remedy: give the file that was written with the program.

    It begins with 64 bytes: the count of blobs, and the version, which is 2.
    """,
)
NO_DESCRIPTOR = MilRule.of(
    "MIL-BLOB-004",
    """There is no blob at the offset.

    Remedy: give the place of a descriptor, which begins with 0xdeadbeef; the first is at 64.
    """,
)
PAST_THE_END = MilRule.of(
    "MIL-BLOB-005",
    """The blob is not inside the file.

    Remedy: check whether the weights file is truncated.
    """,
)
OTHER_DTYPE = MilRule.of(
    "MIL-BLOB-006",
    """The element type of the blob differs from the one in the program.

    Remedy: give the offset of the blob that is meant, or correct the type.
    """,
)
OTHER_SIZE = MilRule.of(
    "MIL-BLOB-007",
    """The size of the blob differs from the one in the program.

    Remedy: give the offset of the blob that is meant, or correct the shape.
    """,
)
OVERLAPPING = MilRule.of(
    "MIL-BLOB-008",
    """Two blobs of the weights file overlap.

    Remedy: write the weights file again.
    """,
)
NO_CODE = MilRule.of(
    "MIL-BLOB-009",
    """A weights blob cannot contain elements of type {found}.

    Remedy: write the values into the text, or use {expected}.
    """,
)
FAULTS = {
    "offset": NO_DESCRIPTOR,
    "mark": NO_DESCRIPTOR,
    "code": OTHER_DTYPE,
    "dtype": OTHER_DTYPE,
    "size": OTHER_SIZE,
    "padding": OTHER_SIZE,
    "payload": PAST_THE_END,
}
"""The rule that each fault of a blob breaks."""


class WeightsStore:
    """The weights files of one program."""

    def __init__(self, given: Weights) -> None:
        self.given = check(given)
        self.copies = False
        """Whether files are read at once, so that nobody who writes to them changes constants that are in use."""
        self.files: dict[str, BlobFile] = {}
        self.constants: dict[tuple[str, int, str], Dense] = {}
        self.used: dict[str, list[tuple[int, int]]] = {}
        """First and last place of every descriptor and payload that was read, in order, by file."""

    def constant(self, blob: Blob) -> Dense:
        """Return the values that a reference stands for; one that is made twice is the same constant.

        Raises:
            MilError: The file or the blob is not there, or is not what the reference says.
        """
        path, offset = str(scalar_of(blob.path)), int(scalar_of(blob.offset))
        key = path, offset, str(blob.type)
        if key not in self.constants:
            self.constants[key] = self.read(blob, path, offset)
        return self.constants[key]

    def read(self, blob: Blob, path: str, offset: int) -> Dense:
        """Return the values that a reference stands for, read again."""
        kind = blob.type
        if not kind.known:
            raise UNKNOWN_EXTENT.broken(blob.at, name="A constant", found=kind, expected="a length for every axis")
        if kind.dtype not in CODES:
            raise NO_CODE.broken(
                blob.at, found=kind.dtype, expected="a floating-point or integer type of up to 32 bits"
            )
        file = self.file(path, blob.path.text_at)
        try:
            values = file.array(offset, kind.dtype, kind.shape)
        except BlobError as error:
            fault = error.fault
            raise FAULTS[fault.kind].broken(blob.offset.text_at, found=fault.found, expected=fault.expected) from None
        self.check_overlap(file, path, offset, blob.offset.text_at)
        return Dense(values)

    def check_overlap(self, file: BlobFile, path: str, offset: int, at: int) -> None:
        """Check a blob against those of the same file that the program read before.

        Raises:
            MilError: They share bytes.
        """
        entry = file.entry(offset)
        regions = self.used.setdefault(path, [])
        for region in ((offset, offset + DESCRIPTOR_BYTES), (entry.start, entry.end)):
            place = bisect.bisect_left(regions, region)
            if region in regions[place : place + 1]:
                continue  # the same blob, read as another type
            for first, second in itertools.pairwise(
                [*regions[max(place - 1, 0) : place], region, *regions[place : place + 1]]
            ):
                if first[1] > second[0]:
                    found = f"bytes {first[0]} to {first[1]} and {second[0]} to {second[1]}"
                    raise OVERLAPPING.broken(at, found=found, expected="blobs after one another")
            regions.insert(place, region)

    def file(self, path: str, at: int) -> BlobFile:
        """Return a file by the path that the program writes.

        Raises:
            MilError: It is not there, or it is not a weights blob.
        """
        if path not in self.files:
            self.files[path] = self.open_file(path, at)
        return self.files[path]

    def open_file(self, path: str, at: int) -> BlobFile:
        """Return a file that was not asked for before."""
        source = self.source(path, at)
        try:
            if isinstance(source, bytes | memoryview):
                return BlobFile(source)
            return BlobFile.open(source, copy=self.copies)
        except OSError as error:
            raise NO_FILE.broken(at, name=path, found=error.strerror or str(error), expected=source) from None
        except BlobError as error:
            raise NOT_A_BLOB.broken(at, name=path, found=error.fault.found, expected=error.fault.expected) from None

    def source(self, path: str, at: int) -> Path | bytes | memoryview:
        """Return where the bytes of a file come from."""
        given = self.given
        if isinstance(given, bytes | memoryview):
            return given
        if isinstance(given, Path) and given.is_file():
            return given
        if isinstance(given, Path):
            return given / self.relative(path, at)
        for name in (path, path.removeprefix(MODEL_PATH)):
            if name in given:
                return given[name]
        close = nearest_names(path, given)
        raise NO_FILE.broken(
            at, name=path, found="no weights" if not given else f"only {list_names(close or list(given))}"
        )

    def relative(self, path: str, at: int) -> str:
        """Return the path of a file next to the program.

        Raises:
            MilError: It leaves the folder.
        """
        relative = path.removeprefix(MODEL_PATH)
        parts = PurePosixPath(relative).parts
        if not parts or ".." in parts or PurePosixPath(relative).is_absolute() or "\0" in relative:
            raise OUTSIDE.broken(at, name=path)
        return relative


def check(given: object) -> Path | bytes | memoryview | Mapping[str, Path | bytes | memoryview]:
    """Return weights in the forms that are used here.

    Raises:
        GraphTypeError: They are in no form that is known.
    """
    match given:
        case None:
            return {}
        case bytes() | memoryview():
            return given  # pyright: ignore[reportUnknownVariableType] - a memoryview of what, no one needs to know
        case str() | os.PathLike():
            return Path(os.fspath(given))  # pyright: ignore[reportUnknownArgumentType] - os.PathLike of what, fspath says
        case Mapping():
            return {str(path): single(one) for path, one in given.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - callers may be untyped
        case _:
            raise GraphTypeError(
                "weights have a form that is not known",
                seen=type(given).__name__,
                limit="a folder, a file, bytes, or files and bytes by path",
            )


def single(given: object) -> Path | bytes | memoryview:
    """Return one of several weights files."""
    found = check(given)
    if isinstance(found, Mapping):
        raise GraphTypeError("a weights file is neither a path nor bytes", seen=type(given).__name__)
    return found

"""A collection: what `aneforge doctor --collect` writes about a machine, and the reader of it.

It is a ZIP archive of five JSON files, the same bytes for the same facts: entries have a fixed date, and nothing in it
says when, where or by whom it was made. The reader takes it for a file from a stranger: sizes are bounded, nothing is
extracted, and what is not exactly a collection of a known version is refused.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import numpy as np

from aneforge.commands.own_files import ARCHIVE_COMMENT
from aneforge.errors import GraphError, Location
from aneforge.records import dataclass
from aneforge.targets.schema import Entry
from aneforge.typed_decoding import decode_typed

if TYPE_CHECKING:
    import os

    from aneforge.ops.types import Array

__all__ = [
    "CONTENTS",
    "FORMAT",
    "LARGEST",
    "LEFT_OUT",
    "VERSION",
    "Bits",
    "Collection",
    "Content",
    "Door",
    "FigureReading",
    "LatencyReading",
    "Manifest",
    "ReductionReading",
    "bits_of",
    "collection_to_bytes",
    "read_collection",
]

FORMAT = "aneforge collection"
VERSION = 1
LARGEST = 8 << 20
"""Bytes of an archive, and of each file in it, at most; a full collection of three backends has less than a tenth."""
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, ValueError, EOFError, OSError)
"""What `zipfile` raises for archives that are damaged, encrypted, or compressed in a way that it does not know."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every entry: the earliest that the format of archives has."""
KEPT = 64
"""Elements of an output that are written out; the hash covers all."""

Item = TypeVar("Item")
# Readers print what a collection says, so its texts must not hold control characters: a terminal would obey them.
Word = Annotated[str, msgspec.Meta(pattern=r"^[\w .,+-]{1,80}\Z")]
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,2000}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Shape = Annotated[tuple[Count, ...], msgspec.Meta(max_length=8)]
Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Time = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Content:
    """A file of the archive: what it holds, and what that is good for."""

    name: str
    holds: str
    why: str


CONTENTS = (
    Content(
        "manifest.json",
        "versions of this package, Python, NumPy, kernel and macOS; names of the chip and of the compiler target",
        "bits and times belong to a chip and a system",
    ),
    Content(
        "doors.json",
        "every backend, whether it can run here, and why not (without paths, user and host names)",
        "which ways to the engine are open differs between systems",
    ),
    Content(
        "fingerprints.json",
        "hash and first elements of the outputs of the published programs, and their error",
        "they say whether our engine computes what this chip computes",
    ),
    Content(
        "latencies.json",
        "median, 10th and 90th percentile of the times of small programs",
        "predictions are fitted to such times",
    ),
    Content(
        "reductions.json",
        "hash and first elements of sums, softmax and norms of numbers drawn from seeds",
        "the order of their partial sums is not known",
    ),
)
LEFT_OUT = ("host name", "user name", "serial number", "path", "address", "environment variable", "date")
"""What is in none of them."""


class Bits(Entry, frozen=True):
    """An output, by its bits."""

    shape: Shape
    dtype: Annotated[str, msgspec.Meta(pattern=r"^(u?int|float)(8|16|32|64)\Z")]
    sha256: Hash
    """Of all its bytes, little-endian, in C order."""
    first: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}){0,512}\Z")]
    """The bytes of its first elements, in hexadecimal."""

    @property
    def values(self) -> Array:
        """The first elements as numbers."""
        order = np.dtype(self.dtype).newbyteorder("<")
        data = bytes.fromhex(self.first)
        return np.frombuffer(data, order, count=len(data) // order.itemsize)


class Manifest(Entry, frozen=True):
    """`manifest.json`: what the facts belong to."""

    format: str
    version: int
    package: Word
    python: Word
    numpy: Word
    system: Word
    """`Darwin`, `Linux`."""
    kernel: Text
    """Its release."""
    machine: Word
    """The processor's architecture."""
    macos: Text
    """Version and build; empty where this is another system."""
    chip: Word | None
    """Its key in the table of chips; None where the machine names none that is known."""
    target: Word
    """What programs were compiled for."""
    target_from: Word
    """`machine`; `ANEFORGE_TARGET` where that named it; `assumed` where nothing did."""


class Door(Entry, frozen=True):
    """A backend in `doors.json`."""

    name: Word
    title: Text
    device: Text
    available: bool
    reason: Text
    """Why it cannot run here; empty where it can."""
    reaches_device: bool
    """It can run here and passes programs to a framework of macOS; elsewhere, software is what a client reaches."""
    measured: bool
    """The other files have readings of it."""


class FigureReading(Entry, frozen=True):
    """The programs of one published figure on a backend, in `fingerprints.json`."""

    backend: Word
    workload: Word
    size: Count
    batch: Count
    error: float | None
    """Their mean relative error, to twelve digits: the last ones depend on how a machine sums the reference."""
    outputs: tuple[Bits, ...]
    failure: Text
    """Why there is no reading; empty where there is one."""


class LatencyReading(Entry, frozen=True):
    """The time of one program on a backend, in microseconds, in `latencies.json`."""

    backend: Word
    workload: Word
    shape: Shape
    runs: Count
    preparing: Time
    """From the graph to the end of the first run: our compiler and the backend's, and loading."""
    median: Time
    p10: Time
    p90: Time
    failure: Text


class ReductionReading(Entry, frozen=True):
    """A reduction of drawn numbers on a backend, in `reductions.json`."""

    backend: Word
    workload: Word
    shape: Shape
    recipe: Word
    seed: Count
    input_sha256: Hash
    """Of the numbers, in fp16: another NumPy could draw others."""
    output: Bits | None
    failure: Text


@dataclass(frozen=True, slots=True)
class Collection:
    """Facts about one machine."""

    manifest: Manifest
    doors: tuple[Door, ...]
    fingerprints: tuple[FigureReading, ...]
    latencies: tuple[LatencyReading, ...]
    reductions: tuple[ReductionReading, ...]

    @property
    def failures(self) -> int:
        """How many readings failed."""
        return sum(bool(one.failure) for one in (*self.fingerprints, *self.latencies, *self.reductions))


class Head(msgspec.Struct):
    """What distinguishes a manifest from other JSON."""

    format: str
    version: int


def bits_of(output: Array) -> Bits:
    """Return an output by its bits.

    >>> found = bits_of(np.array([1, -2], np.float16))
    >>> found.first, found.values.tolist(), found.sha256[:8]
    ('003c00c0', [1.0, -2.0], '0c82e200')
    """
    import hashlib  # noqa: PLC0415 - readers of collections need none

    ordered = np.ascontiguousarray(output, output.dtype.newbyteorder("<"))
    return Bits(
        tuple(output.shape),
        output.dtype.name,
        hashlib.sha256(ordered.tobytes()).hexdigest(),
        ordered.reshape(-1)[:KEPT].tobytes().hex(),
    )


def collection_to_bytes(collection: Collection) -> bytes:
    """Return the archive of a collection."""
    parts = (
        collection.manifest,
        collection.doors,
        collection.fingerprints,
        collection.latencies,
        collection.reductions,
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.comment = ARCHIVE_COMMENT
        for content, part in zip(CONTENTS, parts, strict=True):
            entry = zipfile.ZipInfo(content.name, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            entry.create_system = 3  # of files with such permissions, on every system
            text = msgspec.json.format(msgspec.json.encode(part), indent=1) + b"\n"
            archive.writestr(entry, text)
    return stream.getvalue()


def read_collection(path: str | os.PathLike[str]) -> Collection:
    """Read a collection.

    Raises:
        GraphError: The file cannot be read, is not a collection, or one of another version, or is too large.
    """
    file = Path(path)
    where = Location(str(file))
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise GraphError("the collection cannot be read", location=where, seen=error.strerror) from None
    if len(content) > LARGEST:
        raise GraphError("the file is too large for a collection", location=where, limit=f"{LARGEST} bytes")
    files = unpack(content, where)
    check_version(files["manifest.json"], where)
    return Collection(
        decode(files, "manifest.json", Manifest, where),
        decode(files, "doors.json", tuple[Door, ...], where),
        decode(files, "fingerprints.json", tuple[FigureReading, ...], where),
        decode(files, "latencies.json", tuple[LatencyReading, ...], where),
        decode(files, "reductions.json", tuple[ReductionReading, ...], where),
    )


def unpack(content: bytes, where: Location) -> dict[str, bytes]:
    """Return the files of an archive, by their names.

    Raises:
        GraphError: It is not an archive, holds other files than a collection, or a file is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_names([one.filename for one in archive.infolist()], where)
            return {one.filename: bounded(archive, one, where) for one in archive.infolist()}
    except GraphError:
        raise
    except UNREADABLE as error:
        raise GraphError(
            "this is not a collection of aneforge",
            location=where,
            seen=ascii(str(error) or type(error).__name__),
            remedy="make one with: aneforge doctor --collect FILE.zip",
        ) from None


def check_names(names: list[str], where: Location) -> None:
    """Refuse an archive of other files than those of a collection.

    Raises:
        GraphError: A file is missing, is there twice, or has another name.
    """
    wanted = [one.name for one in CONTENTS]
    others = sorted(set(names) ^ set(wanted))
    if others or len(names) != len(wanted):
        raise GraphError(
            "the archive must hold the files of a collection, each once, and no other",
            location=where,
            seen=", ".join(map(ascii, others[:4])) or f"{len(names)} files",
            limit=", ".join(wanted),
        )


def bounded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: Location) -> bytes:
    """Return the bytes of a file in an archive.

    Raises:
        GraphError: There are too many.
    """
    with archive.open(entry) as stream:
        data = stream.read(LARGEST + 1)  # what the entry says of its size need not be so
    if len(data) > LARGEST:
        raise GraphError(f"{entry.filename} is too large for a collection", location=where, limit=f"{LARGEST} bytes")
    return data


def check_version(manifest: bytes, where: Location) -> None:
    """Refuse a manifest of something else, or of another version.

    Raises:
        GraphError: It is not of this version.
    """
    head = decode({"manifest.json": manifest}, "manifest.json", Head, where)
    if head.format != FORMAT:
        raise GraphError("manifest.json has another format", location=where, seen=ascii(head.format), limit=FORMAT)
    if head.version != VERSION:
        raise GraphError("the collection has another version", location=where, seen=head.version, limit=VERSION)


def decode(files: dict[str, bytes], name: str, form: type[Item], where: Location) -> Item:
    """Return what a file holds.

    Raises:
        GraphError: It holds something else.
    """
    try:
        return decode_typed(files[name], form)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GraphError(f"{name} is damaged", location=where, seen=ascii(str(error))) from None

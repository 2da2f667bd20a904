"""Samples from .npy and .npz files: rows of arrays, mapped into memory where the archive is not compressed."""

from __future__ import annotations

import math
import zipfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from aneforge.errors import GraphError, Location
from aneforge.evaluation.labels import expect_labels
from aneforge.evaluation.samples import Sample, Shard, spans
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from aneforge.evaluation.labels import Labels
    from aneforge.ops.types import Array

__all__ = ["ArraySource", "open_arrays"]

LABELS = "labels"
"""The array of an archive that holds the labels."""
SUFFIX = ".npy"
LOCAL_HEADER = 30
"""Bytes of a member's header in an archive, before its name."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one array of a file; a compressed one is read from its beginning as far as it is needed."""

    path: Path
    member: str | None
    """The member of an archive; None for a file of one array."""
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    begins: int
    """Where the values begin: in the file where they are not compressed, else in the member."""
    mapped: bool

    @contextmanager
    def open_rows(self) -> Generator[Callable[[range], Array]]:
        """Yield what reads rows; rows of a compressed array are read one after the other, without beginning again."""
        if self.mapped:
            whole = np.memmap(self.path, self.dtype, "r", self.begins, self.shape)
            yield lambda rows: np.array(whole[rows.start : rows.stop])
            return
        row = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        assert self.member is not None  # noqa: S101 - a file of one array is mapped
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as stream:

            def read(rows: range) -> Array:
                stream.seek(self.begins + rows.start * row)
                return np.frombuffer(stream.read(len(rows) * row), self.dtype).reshape(len(rows), *self.shape[1:])

            yield read


@dataclass(frozen=True, slots=True)
class ArraySource:
    """The rows of arrays by the names of the inputs."""

    path: Path
    inputs: Mapping[str, Rows]
    labels: Sequence[int] | None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def count(self) -> int:
        """The rows of its arrays."""
        return next(iter(self.inputs.values())).shape[0]

    @property
    def identity(self) -> str:
        """Size and time of the file, and the labels."""
        stat = self.path.stat()
        return f"{stat.st_size} {stat.st_mtime_ns} {sorted(self.inputs)} {self.labels}"

    def shards(self, size: int, done: Container[int]) -> Iterator[Shard]:
        """Yield the rows that are not done."""
        with ExitStack() as stack:
            readers = {name: stack.enter_context(one.open_rows()) for name, one in self.inputs.items()}
            for number, rows in spans(self.count, size, done):
                arrays = {name: read(rows) for name, read in readers.items()}
                yield Shard(number, tuple(self.sample(row, place, arrays) for place, row in enumerate(rows)))

    def sample(self, row: int, place: int, arrays: Mapping[str, Array]) -> Sample:
        """Return one row."""
        label = None if self.labels is None else self.labels[row]
        return Sample(row, str(row), {name: one[place] for name, one in arrays.items()}, label=label)


def open_arrays(path: Path, wanted: Mapping[str, tuple[int, ...]], labels: Labels | None) -> ArraySource:
    """Open a file of arrays for the inputs of a model, given with the shape of a sample.

    Raises:
        GraphError: It is not such a file, an input has no array, or arrays, labels and inputs do not fit one another.
    """
    place = Location(str(path))
    try:
        found = {"": rows_of_file(path)} if path.suffix == SUFFIX else rows_of_archive(path)
        own = found.pop(LABELS, None) if LABELS not in wanted else None
        own_labels = None if own is None else whole_array(own)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, GraphError):
            raise
        seen = "arrays of objects" if "object" in str(error) else error
        remedy = "write the file again: np.savez(file, **{name of input: np.ascontiguousarray(array)})"
        raise GraphError("the data is not a file of arrays", location=place, seen=seen, remedy=remedy) from None
    inputs = arrays_by_input(found, wanted, place)
    lengths = {name: one.shape[0] for name, one in inputs.items()}
    if len(set(lengths.values())) > 1:
        seen = ", ".join(f"{length} of {name!r}" for name, length in lengths.items())
        remedy = "give every input as many rows as there are samples"
        raise GraphError("the arrays have different numbers of samples", location=place, seen=seen, remedy=remedy)
    count = next(iter(lengths.values()))
    if not count:
        raise GraphError("there is no sample in the data", location=place, seen="0 rows", remedy="give at least one")
    if labels is not None:
        chosen = labels.in_order([str(row) for row in range(count)])
    elif own_labels is not None:
        chosen = expect_labels(own_labels, count, place)
    else:
        chosen = None
    return ArraySource(path, inputs, chosen)


def whole_array(rows: Rows) -> Array:
    """Return every row of an array."""
    with rows.open_rows() as read:
        return read(range(rows.shape[0] if rows.shape else 0))


def arrays_by_input(
    found: Mapping[str, Rows], wanted: Mapping[str, tuple[int, ...]], place: Location
) -> dict[str, Rows]:
    """Return the array of every input; one array is that of one input, whatever its name.

    Raises:
        GraphError: An input has none, or one whose rows have another shape.
    """
    if len(found) == 1 and len(wanted) == 1:
        found = dict(zip(wanted, found.values(), strict=True))
    missing = [name for name in wanted if name not in found]
    if missing:
        raise GraphError(
            "inputs have no data",
            location=place,
            seen=f"missing {', '.join(missing)}; the file has {', '.join(filter(None, found)) or 'one array'}",
            remedy="np.savez with the names of the inputs; labels are the array `labels`",
        )
    for name, shape in wanted.items():
        expect_row(name, found[name].shape, shape, place)
    return {name: found[name] for name in wanted}


def expect_row(name: str, seen: tuple[int, ...], wanted: tuple[int, ...], place: Location) -> None:
    """Refuse an array whose rows are not samples of an input.

    Raises:
        GraphError: They are not.
    """
    if seen[1:] == wanted and seen:
        return
    rows, limit = listed_shape("samples", *seen[1:]), listed_shape("samples", *wanted)
    image = len(wanted) == 3 and len(seen) == 4
    if image and seen[1] == wanted[0]:
        remedy = f"resize the images to {wanted[1]} × {wanted[2]} (height × width) before they are saved"
    elif image and seen[-1] == wanted[0]:
        remedy = "move the channels before height and width: array.transpose(0, 3, 1, 2)"
    else:
        remedy = "give one row for every sample"
    raise GraphError(
        f"the data of input {name!r} has another shape", location=place, seen=rows, limit=limit, remedy=remedy
    )


def listed_shape(*extents: object) -> str:
    """Return a shape in words.

    >>> listed_shape("samples", 3, 32)
    '[samples, 3, 32]'
    """
    return f"[{', '.join(map(str, extents))}]"


def rows_of_file(path: Path) -> Rows:
    """Return the array of an .npy file."""
    with path.open("rb") as stream:
        shape, dtype = read_header(stream)
        begins = stream.tell()
    expect_whole(shape, dtype, path.stat().st_size - begins)
    return Rows(path, None, shape, dtype, begins, mapped=True)


def rows_of_archive(path: Path) -> dict[str, Rows]:
    """Return the arrays of an .npz file."""
    found: dict[str, Rows] = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
        for member in archive.infolist():
            with archive.open(member) as stream:
                shape, dtype = read_header(cast("BinaryIO", stream))
                begins, mapped = stream.tell(), member.compress_type == zipfile.ZIP_STORED
            expect_whole(shape, dtype, member.file_size - begins)
            if mapped:
                raw.seek(member.header_offset)
                header = raw.read(LOCAL_HEADER)
                lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                begins += member.header_offset + LOCAL_HEADER + lengths
            name = member.filename.removesuffix(SUFFIX)
            found[name] = Rows(path, member.filename, shape, dtype, begins, mapped)
    return found


def expect_whole(shape: tuple[int, ...], dtype: np.dtype[np.generic], left: int) -> None:
    """Refuse an array that has fewer bytes than its header says.

    Raises:
        ValueError: It has.
    """
    needed = math.prod(shape) * dtype.itemsize
    if left < needed:
        raise ValueError(f"a truncated array: {left:,} of {needed:,} bytes")


def read_header(stream: BinaryIO) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and type of an array whose values follow.

    Raises:
        ValueError: It is not an array, its rows are not one after the other, or it holds objects.
    """
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("arrays of objects")
    if by_column and len(shape) > 1:
        raise ValueError("an array in the order of Fortran")
    return shape, dtype

"""The records in the header of a saved program, and constants as the parts that a file holds of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aneforge.errors import AneforgeError, ProgramFileError
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.types import DTYPES, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

__all__ = [
    "ALIGNMENT",
    "CautionRecord",
    "ConstantRecord",
    "FactsRecord",
    "Header",
    "PartRecord",
    "Span",
    "SuppliedRecord",
    "aligned",
    "constant_of",
    "part_record",
    "read_part",
]

ALIGNMENT = 64
"""Every section begins at a multiple of it, so that any element type can be read where it lies."""
DTYPE_NAMES = {dtype: name for name, (dtype, _) in DTYPES.items()}


class Span(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A section: where it begins behind the header, how long it is, and its SHA-256."""

    offset: int
    nbytes: int
    sha256: str


class PartRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An array of a constant: its name there, its elements, and where it begins behind the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """How long it is, elements of less than a byte unpacked."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


class ConstantRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A constant: its symbol in the text, its encoding, and its arrays. The text has its hash."""

    symbol: str
    encoding: str
    parts: tuple[PartRecord, ...]


class CautionRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A warning that compiling gave."""

    category: str
    message: str


class SuppliedRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An input that retargeting added."""

    name: str
    op: str
    meaning: str


class FactsRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the model knows of itself."""

    n_ops: int
    several: bool
    warnings: tuple[CautionRecord, ...]
    remarks: tuple[str, ...]
    supplied: tuple[SuppliedRecord, ...]
    weights: msgspec.Raw
    """The report of compression, as that room's own class has it."""


class Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a file holds."""

    made_by: str
    """The version of the package that wrote it."""
    target: str
    nbytes: int
    """The length of everything behind the header."""
    text: Span
    constants: tuple[ConstantRecord, ...]
    facts: FactsRecord


def aligned(place: int) -> int:
    """Return the next place at which a section may begin.

    >>> aligned(0), aligned(1), aligned(64)
    (0, 64, 64)
    """
    return -(-place // ALIGNMENT) * ALIGNMENT


def part_record(name: str, array: Array, offset: int) -> PartRecord:
    """Return the record of an array that is put at a place."""
    return PartRecord(name, DTYPE_NAMES[array.dtype], array.shape, offset)


def read_part(record: PartRecord, body: Array) -> Array:
    """Return an array where it lies in the bytes behind the header, read-only and without a copy."""
    # A plain array over the same memory: who reads constants need not know that it is mapped.
    raw = np.asarray(body[record.offset : record.offset + record.nbytes])
    return raw.view(numpy_dtype(record.dtype)).reshape(record.shape)


def constant_of(record: ConstantRecord, parts: Mapping[str, Array]) -> Constant:
    """Return a constant from its arrays.

    Raises:
        ProgramFileError: They make no constant of that encoding.
    """
    try:
        return assembled(record.encoding, parts)
    except (AneforgeError, KeyError, TypeError, ValueError) as error:
        raise ProgramFileError(f"constant @{record.symbol} is no {record.encoding} constant: {error}") from error


def assembled(encoding: str, parts: Mapping[str, Array]) -> Constant:
    """Return a constant of an encoding."""
    match encoding:
        case "dense":
            return Dense(**parts)
        case "int8":
            held = {name: part for name, part in parts.items() if name != "axis"}
            return Int8Affine(**held, axis=int(parts["axis"]))
        case "sparse":
            return Sparse(**parts)
        case "blockwise":
            return Blockwise(**parts)
        case _ if encoding.startswith("palette"):
            return Palette(parts["indices"], parts["table"], int(parts["bits"]))
        case _:
            raise ProgramFileError("there is no such encoding of constants")

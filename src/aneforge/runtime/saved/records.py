"""The records in the header of a saved program, and constants as the parts that a file holds of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aneforge.errors import AneforgeError, ProgramFileError
from aneforge.ops.constant import Blockwise, Dense, Folded, Int8Affine, Palette, Sparse
from aneforge.ops.types import numpy_dtype, numpy_dtypes
from aneforge.runtime.saved.known_constants import NOTHING_KNOWN
from aneforge.runtime.saved.packing import count_packed_bytes, pack_bits, unpack_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array
    from aneforge.runtime.saved.known_constants import KnownArrays

__all__ = [
    "ALIGNMENT",
    "CautionRecord",
    "ConstantRecord",
    "FactsRecord",
    "Header",
    "PartRecord",
    "Span",
    "SuppliedRecord",
    "align",
    "constant_of",
    "part_records",
    "read_part",
    "store_part",
    "stored_form",
]

ALIGNMENT = 64
"""Every section begins at a multiple of it, so that any element type can be read where it is."""
DTYPE_NAMES = {dtype: name for name, dtype in numpy_dtypes().items()}


class Span(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A section: where it begins after the header, how long it is, and its SHA-256."""

    offset: int
    nbytes: int
    sha256: str


class PartRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """An array of a constant: its name there, its elements, and where it begins after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bits: int = 8
    """Where it is less than 8, elements of one byte are packed, this many bits each."""
    known: str | None = None
    """The name of an array that whoever reads the entry has (`known_constants`): `offset` is a place in that one."""

    @property
    def nbytes(self) -> int:
        """How long it is in the file."""
        if self.known is not None:
            return 0
        return count_packed_bytes(math.prod(self.shape) * numpy_dtype(self.dtype).itemsize, self.bits)


class ConstantRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A constant: its symbol in the text, its encoding, and its arrays. The text has its hash."""

    symbol: str
    encoding: str
    parts: tuple[PartRecord, ...]
    folded: bool = False
    """The program holds it dense."""


class CautionRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A warning that compiling gave."""

    category: str
    message: str
    bounded: bool = False


class SuppliedRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An input that retargeting added."""

    name: str
    op: str
    meaning: str
    shape: tuple[int, ...]
    dtype: str
    attributes: dict[str, bool | int | float | str | tuple[int, ...] | None]
    """Those of the operation, from which the host draws."""


class FactsRecord(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the model knows of itself."""

    n_ops: int
    several: bool
    warnings: tuple[CautionRecord, ...]
    remarks: tuple[str, ...]
    supplied: tuple[SuppliedRecord, ...]
    weights: msgspec.Raw
    """The report of compression, as that room's own class has it."""


class Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What a file holds."""

    made_by: str
    """The version of the package that wrote it."""
    target: str
    nbytes: int
    """The length of everything after the header."""
    text: Span
    constants: tuple[ConstantRecord, ...]
    facts: FactsRecord
    chip: str | None = None
    """The chip, where one was named."""


def align(place: int) -> int:
    """Return the next place at which a section may begin.

    >>> align(0), align(1), align(64)
    (0, 64, 64)
    """
    return -(-place // ALIGNMENT) * ALIGNMENT


def part_records(constant: Constant, offset: int, known: KnownArrays = NOTHING_KNOWN) -> Iterator[PartRecord]:
    """Return the records of a constant's arrays, put one after the other from a place on, but for those `known`."""
    for name, part in constant.parts.items():
        place = known.place(part)
        if place is not None:
            yield PartRecord(name, DTYPE_NAMES[part.dtype], part.shape, place[1], known=place[0])
            continue
        bits = 8
        if isinstance(constant, Palette) and name == "indices":
            bits = constant.bits
        elif part.dtype == np.bool_:
            bits = 1
        record = PartRecord(name, DTYPE_NAMES[part.dtype], part.shape, align(offset), bits)
        offset = record.offset + record.nbytes
        yield record


def store_part(record: PartRecord, array: Array) -> Array:
    """Return an array as a file holds it."""
    return np.ascontiguousarray(array) if record.bits == 8 else pack_bits(array, record.bits)


def read_part(record: PartRecord, body: Array) -> Array:
    """Return an array from the bytes after the header: read-only, and where it is unless it is packed.

    Raises:
        ProgramFileError: Bits are set that belong to no element.
    """
    # A plain array over the same memory: who reads constants need not know that it is mapped.
    raw = np.asarray(body[record.offset : record.offset + record.nbytes])
    if record.bits < 8:
        try:
            raw = unpack_bits(raw, record.bits, math.prod(record.shape))
        except ValueError as error:
            raise ProgramFileError(f"the file is damaged: array {record.name!r}: {error}") from None
        raw.flags.writeable = False
    return raw.view(numpy_dtype(record.dtype)).reshape(record.shape)


def stored_form(constant: Constant) -> Constant:
    """Return the constant whose arrays a file has: of folded weights those in their encoding."""
    return constant.stored if isinstance(constant, Folded) else constant


def constant_of(record: ConstantRecord, parts: Mapping[str, Array]) -> Constant:
    """Return a constant from its arrays.

    Raises:
        ProgramFileError: They make no constant of that encoding.
    """
    try:
        made = assemble(record.encoding, parts)
        return Folded(made) if record.folded else made
    except (AneforgeError, KeyError, TypeError, ValueError) as error:
        raise ProgramFileError(
            f"constant @{record.symbol} is not a valid {record.encoding} constant: {error}"
        ) from error


def assemble(encoding: str, parts: Mapping[str, Array]) -> Constant:
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

"""The records in the header of a saved program, and constants as the parts that a file holds of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from aneforge.errors import AneforgeError, ProgramFileError
from aneforge.ops.constant import Blockwise, Dense, Folded, Int8Affine, Palette, Sparse
from aneforge.ops.packing import Packed, count_packed_bytes, pack_bits
from aneforge.ops.types import numpy_dtype, numpy_dtypes
from aneforge.runtime.saved.known_constants import NOTHING_KNOWN

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
    "array_of",
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
    def stored_bytes(self) -> int:
        """How long it is where it is."""
        return count_packed_bytes(math.prod(self.shape) * numpy_dtype(self.dtype).itemsize, self.bits)

    @property
    def nbytes(self) -> int:
        """How long it is in the file."""
        return 0 if self.known is not None else self.stored_bytes


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
    content = constant.content()
    for name, part in constant.parts.items():
        whole = content[name]
        shape, bits = whole.shape, whole.bits if isinstance(whole, Packed) else 8
        place = known.place(part)
        if place is not None:
            yield PartRecord(name, DTYPE_NAMES[part.dtype], shape, place[1], bits, known=place[0])
            continue
        bits = 1 if part.dtype == np.bool_ else bits
        record = PartRecord(name, DTYPE_NAMES[part.dtype], shape, align(offset), bits)
        offset = record.offset + record.nbytes
        yield record


def store_part(array: Array) -> Array:
    """Return an array as a file holds it: booleans take a bit each, and indices are packed already."""
    return pack_bits(array, 1) if array.dtype == np.bool_ else np.ascontiguousarray(array)


def read_part(record: PartRecord, body: Array) -> Array | Packed:
    """Return an array from the bytes after the header, where it is unless it is of booleans.

    Raises:
        ProgramFileError: Bits are set that belong to no element.
    """
    # A plain array over the same memory: who reads constants need not know that it is mapped.
    return array_of(record, np.asarray(body[record.offset : record.offset + record.nbytes]))


def array_of(record: PartRecord, raw: Array) -> Array | Packed:
    """Return an array from its bytes, read-only; one of indices stays packed.

    Raises:
        ProgramFileError: Bits are set that belong to no element.
    """
    dtype = numpy_dtype(record.dtype)
    if record.bits == 8:
        return raw.view(dtype).reshape(record.shape)
    try:
        packed = Packed(raw, record.shape, record.bits)
    except ValueError as error:
        raise ProgramFileError(f"the file is damaged: array {record.name!r}: {error}") from None
    return packed.unpacked().view(dtype) if dtype == np.bool_ else packed


def stored_form(constant: Constant) -> Constant:
    """Return the constant whose arrays a file has: of folded weights those in their encoding."""
    return constant.stored if isinstance(constant, Folded) else constant


def constant_of(record: ConstantRecord, parts: Mapping[str, Any]) -> Constant:
    """Return a constant from its arrays, some of which may be packed.

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


def assemble(encoding: str, parts: Mapping[str, Any]) -> Constant:
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

"""The weights blob: the file into which the BLOBFILE references of a MIL program point.

All numbers are little-endian. The file begins with 64 bytes: the count of blobs, the version (2), zeros. Each blob is
a descriptor of 64 bytes (a mark, the code of the element type, the bytes of the payload, their place in the file, the
bits that pad its last byte, zeros) and the payload. A reference gives the place of the descriptor; the first is at 64.

Sources of truth: the layout is that of the programs that ANEForge 0.4.0 dispatches; codes beyond its four, and the
padding bits, are those of the storage format that coremltools publishes (`MILBlob/Blob`). Its writer begins every
descriptor at a multiple of 64 bytes, ANEForge's directly after the payload before; its reader takes both, and so does
this one.
"""

from __future__ import annotations

import errno
import io
import math
import mmap
import os
import stat
import struct
from dataclasses import field
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.mil.elements import count_packed_bytes, element_bits, pack, unpack
from aneforge.ops.packing import Packed
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aneforge.ops.types import Array

__all__ = ["CODES", "DESCRIPTOR_BYTES", "FIRST", "BlobEntry", "BlobError", "BlobFault", "BlobFile", "BlobWriter"]

HEADER = struct.Struct("<II56x")
DESCRIPTOR = struct.Struct("<IIQQQ32x")
MARK = 0xDEADBEEF
VERSION = 2
FIRST = HEADER.size
"""Place of the first descriptor."""
DESCRIPTOR_BYTES = DESCRIPTOR.size
CODES = {
    "fp16": 1,
    "fp32": 2,
    "uint8": 3,
    "int8": 4,
    "bf16": 5,
    "int16": 6,
    "uint16": 7,
    "int4": 8,
    "uint1": 9,
    "uint2": 10,
    "uint4": 11,
    "uint3": 12,
    "uint6": 13,
    "int32": 14,
    "uint32": 15,
    "fp8e4m3fn": 16,
    "fp8e5m2": 17,
}
"""Codes of the element types that a blob can hold."""
DTYPE_OF = {code: dtype for dtype, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class BlobFault:
    """What is wrong with a blob: the sort of fault, in a word, and what was found and expected."""

    kind: str
    found: str
    expected: str


class BlobError(GraphError):
    """A weights blob that cannot be read; `fault` says what is wrong with it."""

    def __init__(self, fault: BlobFault) -> None:
        super().__init__(f"the weights blob cannot be read ({fault.kind})", seen=fault.found, limit=fault.expected)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class BlobEntry:
    """One blob: what its descriptor says."""

    offset: int
    """Place of the descriptor, as references give it."""
    dtype: str
    start: int
    nbytes: int
    padding_bits: int

    @property
    def end(self) -> int:
        """Place after the payload."""
        return self.start + self.nbytes

    @property
    def count(self) -> int:
        """How many elements it holds."""
        return (self.nbytes * 8 - self.padding_bits) // element_bits(self.dtype)


class BlobFile:
    """A weights blob, read where it is: arrays look into the file's memory and are read-only.

    >>> writer = BlobWriter()
    >>> place = writer.add(np.array([1, 2], np.float16), "fp16")
    >>> blob = BlobFile(writer.tobytes())
    >>> place, blob.array(place, "fp16", (2,)).tolist()
    (64, [1.0, 2.0])
    """

    def __init__(self, content: bytes | memoryview | mmap.mmap) -> None:
        self.content = memoryview(content).cast("B").toreadonly()
        if self.nbytes < HEADER.size:
            raise BlobError(BlobFault("truncated", f"{self.nbytes} bytes", f"a header of {HEADER.size}"))
        self.count, version = HEADER.unpack_from(self.content)
        if version != VERSION:
            raise BlobError(BlobFault("version", str(version), str(VERSION)))

    @classmethod
    def open(cls, path: Path, *, copy: bool = False) -> BlobFile:
        """Map a file into memory and read it; or copy it there, so that it may be written again.

        Raises:
            OSError: The file cannot be opened.
            BlobError: It is not a weights blob.
        """
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # it may have no end, or nobody who writes it
            raise OSError(errno.EINVAL, "not a regular file")
        with path.open("rb") as file:
            if copy or os.fstat(file.fileno()).st_size < HEADER.size:  # nothing can be mapped that is empty
                return cls(file.read())
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        return self.content.nbytes

    def entry(self, offset: int) -> BlobEntry:
        """Return the blob whose descriptor is at a place.

        Raises:
            BlobError: There is none, or its payload is not inside the file.
        """
        if not FIRST <= offset <= self.nbytes - DESCRIPTOR_BYTES:
            limit = f"a descriptor from {FIRST} to {self.nbytes - DESCRIPTOR_BYTES}"
            raise BlobError(BlobFault("offset", str(offset), limit))
        mark, code, nbytes, start, padding = DESCRIPTOR.unpack_from(self.content, offset)
        if mark != MARK:
            raise BlobError(BlobFault("mark", f"0x{mark:08x} at {offset}", f"0x{MARK:08x}"))
        if code not in DTYPE_OF:
            raise BlobError(BlobFault("code", str(code), f"1 to {max(DTYPE_OF)}"))
        entry = BlobEntry(offset, DTYPE_OF[code], start, nbytes, padding)
        if entry.start < offset + DESCRIPTOR_BYTES or entry.end > self.nbytes:
            limit = f"inside {offset + DESCRIPTOR_BYTES} to {self.nbytes}"
            raise BlobError(BlobFault("payload", f"bytes {entry.start} to {entry.end}", limit))
        if padding > 7 or padding > nbytes * 8 or (nbytes * 8 - padding) % element_bits(entry.dtype):
            raise BlobError(BlobFault("padding", f"{padding} bits of {nbytes} bytes", f"an integer of {entry.dtype}"))
        return entry

    def entries(self) -> Iterator[BlobEntry]:
        """Yield every blob in the order of the file; a descriptor follows a payload, perhaps after zeros.

        Raises:
            BlobError: The header counts more blobs than there are, or one cannot be read.
        """
        offset = FIRST
        for _ in range(self.count):
            entry = self.entry(offset)
            yield entry
            aligned = entry.end + -entry.end % 64
            offset = entry.end if self._marked(entry.end) else aligned

    def array(self, offset: int, dtype: str, shape: tuple[int, ...]) -> Array:
        """Return the values of a blob; they look into the file unless they were packed.

        Raises:
            BlobError: There is none there, or it holds something else.
        """
        entry = self.entry(offset)
        if entry.dtype != dtype:
            raise BlobError(BlobFault("dtype", entry.dtype, dtype))
        count = math.prod(shape)
        if entry.count != count or entry.nbytes != count_packed_bytes(dtype, count):
            expected = f"{count} elements in {count_packed_bytes(dtype, count)} bytes"
            raise BlobError(BlobFault("size", f"{entry.count} elements in {entry.nbytes} bytes", expected))
        stored = np.frombuffer(self.content[entry.start : entry.end], np.uint8) if count else np.empty(0, np.uint8)
        values = unpack(stored, dtype, count).reshape(shape)
        values.flags.writeable = False
        return values

    def _marked(self, offset: int) -> bool:
        return offset <= self.nbytes - DESCRIPTOR_BYTES and DESCRIPTOR.unpack_from(self.content, offset)[0] == MARK


@dataclass(slots=True)
class BlobWriter:
    """A weights blob in the making. It holds the arrays as they were given, and writes them without another copy."""

    alignment: int = 1
    """Descriptors begin at multiples of it: 1 as ANEForge writes them, 64 as coremltools does."""
    parts: list[tuple[BlobEntry, Array | Packed]] = field(default_factory=list[tuple[BlobEntry, "Array | Packed"]])

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file as it is."""
        return self.parts[-1][0].end if self.parts else FIRST

    def add(self, values: Array | Packed, dtype: str) -> int:
        """Add an array, or elements that are packed already, and return the place of its descriptor.

        >>> BlobWriter().add(np.zeros(3, np.float16), "fp16")
        64

        Raises:
            KeyError: A blob cannot hold elements of that type.
        """
        offset = self.nbytes + -self.nbytes % self.alignment
        if dtype not in CODES:
            raise KeyError(dtype)
        nbytes = count_packed_bytes(dtype, values.size)
        padding = nbytes * 8 - values.size * element_bits(dtype)
        entry = BlobEntry(offset, dtype, offset + DESCRIPTOR_BYTES, nbytes, padding)
        self.parts.append((entry, values))
        return offset

    def write_to(self, file: BinaryIO) -> None:
        """Write the file."""
        file.write(HEADER.pack(len(self.parts), VERSION))
        position = FIRST
        for entry, values in self.parts:
            file.write(bytes(entry.offset - position))
            file.write(DESCRIPTOR.pack(MARK, CODES[entry.dtype], entry.nbytes, entry.start, entry.padding_bits))
            file.write((values.stored if isinstance(values, Packed) else pack(values, entry.dtype)).data)
            position = entry.end

    def tobytes(self) -> bytes:
        """Return the file as bytes."""
        buffer = io.BytesIO()
        self.write_to(buffer)
        return buffer.getvalue()

"""The weights blob: bit for bit as it is specified, in both directions, and read where it lies."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.formats.mil.blob import CODES, FIRST, BlobError, BlobFile, BlobWriter
from aneforge.formats.mil.elements import array_dtype, element_bits

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer

Array = npt.NDArray[Any]

PUBLIC_WRITER = (
    "0600000002000000" + "00" * 56
    + "efbeadde010000000600000000000000800000000000000000000000" + "00" * 36 + "003e00410042" + "00" * 58
    + "efbeadde0c00000003000000000000000001000000000000030000000000" + "00" * 34 + "d1581f" + "00" * 61
    + "efbeadde0b00000002000000000000008001000000000000040000000000" + "00" * 34 + "2103" + "00" * 62
    + "efbeadde0900000002000000000000000002000000000000070000000000" + "00" * 34 + "0d01" + "00" * 62
    + "efbeadde0800000002000000000000008002000000000000040000000000" + "00" * 34 + "2f08" + "00" * 62
    + "efbeadde0d00000003000000000000000003000000000000060000000000" + "00" * 34 + "c11f02"
)  # fmt: skip
"""What coremltools 9.0 writes for the arrays below, each after zeros up to a multiple of 64 bytes."""
ARRAYS: list[tuple[Array, str]] = [
    (np.array([1.5, 2.5, 3], np.float16), "fp16"),
    (np.array([1, 2, 3, 4, 5, 6, 7], np.uint8), "uint3"),
    (np.array([1, 2, 3]).astype(ml_dtypes.uint4), "uint4"),
    (np.array([1, 0, 1, 1, 0, 0, 0, 0, 1], np.uint8), "uint1"),
    (np.array([-1, 2, -8]).astype(ml_dtypes.int4), "int4"),
    (np.array([1, 63, 33], np.uint8), "uint6"),
]


def written(alignment: int = 1) -> tuple[bytes, list[int]]:
    writer = BlobWriter(alignment)
    offsets = [writer.add(values, dtype) for values, dtype in ARRAYS]
    assert writer.nbytes == len(writer.tobytes())
    return writer.tobytes(), offsets


def test_the_layout() -> None:
    writer = BlobWriter()
    first, second = writer.add(np.array([1, -2], np.float16), "fp16"), writer.add(np.array([3], np.int8), "int8")
    data = writer.tobytes()
    assert (first, second) == (64, 64 + 64 + 4)
    assert data[:64] == struct.pack("<II", 2, 2) + bytes(56)
    assert data[64:128] == struct.pack("<IIQQ", 0xDEADBEEF, 1, 4, 128) + bytes(40)
    assert data[128:132] == b"\x00\x3c\x00\xc0"
    assert data[132:196] == struct.pack("<IIQQ", 0xDEADBEEF, 4, 1, 196) + bytes(40)
    assert data[196:] == b"\x03"


def test_aligned_blobs_are_those_of_the_public_writer() -> None:
    data, _ = written(64)
    assert data.hex() == PUBLIC_WRITER


@pytest.mark.parametrize("alignment", [1, 64])
def test_what_was_written_is_read(alignment: int) -> None:
    data, offsets = written(alignment)
    blob = BlobFile(data)
    assert [entry.offset for entry in blob.entries()] == offsets
    for (values, dtype), offset in zip(ARRAYS, offsets, strict=True):
        assert blob.array(offset, dtype, values.shape).tobytes() == values.tobytes()


@pytest.mark.parametrize("alignment", [1, 64])
def test_reading_and_writing_gives_the_same_bytes(alignment: int) -> None:
    data, _ = written(alignment)
    blob, writer = BlobFile(data), BlobWriter(alignment)
    for entry in blob.entries():
        writer.add(blob.array(entry.offset, entry.dtype, (entry.count,)), entry.dtype)
    assert writer.tobytes() == data


@pytest.mark.parametrize("dtype", CODES)
@settings(deadline=None)
@given(bits=st.binary(max_size=40))
def test_every_bit_pattern_survives(dtype: str, bits: bytes) -> None:
    count = len(bits) * 8 // max(element_bits(dtype), 8)
    stored = np.frombuffer(bits[: count * max(element_bits(dtype), 8) // 8], np.uint8)
    if element_bits(dtype) >= 8:
        values = stored.view(array_dtype(dtype))
    else:
        kept = stored & ((1 << element_bits(dtype)) - 1)
        values = (kept.astype(np.int8) - (8 if dtype == "int4" else 0)).astype(array_dtype(dtype))
    writer = BlobWriter()
    offset = writer.add(values, dtype)
    assert BlobFile(writer.tobytes()).array(offset, dtype, values.shape).tobytes() == values.tobytes()


def test_a_file_is_read_where_it_lies(tmp_path: Path) -> None:
    writer = BlobWriter()
    offset = writer.add(np.arange(1000, dtype=np.float16), "fp16")
    path = tmp_path / "weights.bin"
    path.write_bytes(writer.tobytes())
    blob = BlobFile.open(path)
    values = blob.array(offset, "fp16", (10, 100))
    assert not values.flags.owndata
    assert not values.flags.writeable
    with path.open("r+b") as file:  # the mapping is of the file itself, not of a copy of it
        file.seek(offset + 64)
        file.write(struct.pack("<e", 77.0))
    assert values[0, 0] == 77.0


def test_arrays_are_written_from_where_they_are() -> None:
    values = np.arange(8, dtype=np.float32)
    writer = BlobWriter()
    writer.add(values, "fp32")
    assert writer.parts[0][1] is values
    pieces: list[memoryview[int]] = []

    class Spy(io.BytesIO):
        def write(self, data: Buffer, /) -> int:
            pieces.append(memoryview(data))
            return super().write(data)

    writer.write_to(Spy())
    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), values) for piece in pieces)


def test_an_array_in_another_order_of_memory_is_written_in_its_own() -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3).T
    writer = BlobWriter()
    offset = writer.add(values, "int16")
    assert BlobFile(writer.tobytes()).array(offset, "int16", (3, 2)).tolist() == values.tolist()


def test_an_element_type_without_a_code_is_refused() -> None:
    with pytest.raises(KeyError):
        BlobWriter().add(np.zeros(1, np.bool_), "bool")


def test_an_empty_blob_is_a_header(tmp_path: Path) -> None:
    data = BlobWriter().tobytes()
    assert data == struct.pack("<II", 0, 2) + bytes(56)
    assert list(BlobFile(data).entries()) == []
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BlobError, match="truncated"):
        BlobFile.open(tmp_path / "empty")


def test_an_array_without_elements() -> None:
    writer = BlobWriter()
    offset = writer.add(np.zeros((0, 3), np.float16), "fp16")
    assert BlobFile(writer.tobytes()).array(offset, "fp16", (0, 3)).shape == (0, 3)


def mutated(place: int, value: bytes) -> bytes:
    writer = BlobWriter()
    writer.add(np.arange(4, dtype=np.float16), "fp16")
    data = bytearray(writer.tobytes())
    data[place : place + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (mutated(4, struct.pack("<I", 1)), "version"),
        (mutated(64, b"\0"), "mark"),
        (mutated(68, struct.pack("<I", 99)), "code"),
        (mutated(68, struct.pack("<I", 2)), "dtype"),
        (mutated(72, struct.pack("<Q", 6)), "size"),
        (mutated(72, struct.pack("<Q", 9)), "payload"),
        (mutated(72, struct.pack("<Q", 2**64 - 1)), "payload"),
        (mutated(80, struct.pack("<Q", 127)), "payload"),
        (mutated(80, struct.pack("<Q", 2**64 - 1)), "payload"),
        (mutated(88, struct.pack("<Q", 1)), "padding"),
        (mutated(88, struct.pack("<Q", 2**63)), "padding"),
        (mutated(0, b"")[:130], "payload"),
        (mutated(0, b"")[:120], "offset"),
        (b"", "truncated"),
    ],
)
def test_every_fault_has_its_name(data: bytes, kind: str) -> None:
    with pytest.raises(BlobError) as caught:
        BlobFile(data).array(FIRST, "fp16", (4,))
    assert caught.value.fault.kind == kind
    assert kind in str(caught.value)


@pytest.mark.parametrize("offset", [-1, 0, 63, 65, 2**64])
def test_offsets_at_which_there_is_nothing(offset: int) -> None:
    with pytest.raises(BlobError):
        BlobFile(mutated(0, b"")).entry(offset)


def test_a_count_that_is_too_high() -> None:
    with pytest.raises(BlobError):
        list(BlobFile(mutated(0, struct.pack("<I", 2**32 - 1))).entries())


def test_a_huge_shape_takes_no_memory() -> None:
    with pytest.raises(BlobError, match="size"):
        BlobFile(mutated(0, b"")).array(FIRST, "fp16", (10**17, 10**17))

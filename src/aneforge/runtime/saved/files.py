"""Saved programs: one file, versioned, hash-checked, without code in it, weights mapped into memory where they are.

| bytes | what |
| --- | --- |
| 0-7 | `89 41 4E 45 50 52 47 0A`: a byte that is not a text, `ANEPRG`, a line feed |
| 8-11 | version of the format, 3 |
| 12-15 | length of the header |
| 16-47 | SHA-256 of the header |
| 48- | header: JSON, as `records.Header` has it |

After the header come the program's text and then every array of every constant, each at the next multiple of 64 bytes
after the one before, zeros between. Numbers are little-endian; palette indices and booleans are packed, the lowest
bit first, and take as many bits as they need. The header gives places relative to the end of the
header, rounded up to 64. The text has the hash of every constant; the header has the text's; so every byte of the
file is checked when it is read.

A file holds no label: how sure the numbers are is found from the program and the target when it is loaded, by the code
that runs it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec
import numpy as np

from aneforge._version import __version__
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.printing import program_text
from aneforge.errors import AneforgeError, ProgramFileError, UnknownNameError
from aneforge.graph.convert import SuppliedInput
from aneforge.ops.constant import Folded
from aneforge.ops.table import find_op
from aneforge.ops.types import DTYPES, TensorType
from aneforge.runtime.facts import CATEGORIES, Caution, ModelFacts
from aneforge.runtime.saved.known_constants import NOTHING_KNOWN, SHARED
from aneforge.runtime.saved.records import (
    CautionRecord,
    ConstantRecord,
    FactsRecord,
    Header,
    PartRecord,
    Span,
    SuppliedRecord,
    align,
    array_of,
    constant_of,
    part_records,
    read_part,
    store_part,
    stored_form,
)
from aneforge.targets import chip
from aneforge.typed_decoding import decode_typed
from aneforge.whole_files import replace_when_written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.ops.packing import Packed
    from aneforge.ops.types import Array
    from aneforge.optimise.compress.graphs import WeightReport
    from aneforge.runtime.saved.known_constants import KnownArrays

__all__ = ["SUFFIX", "VERSION", "read_program_file", "write_program_file"]

MAGIC = b"\x89ANEPRG\n"
VERSION = 3
"""Raised when what is in a file changes its form or its meaning: records, the text, the defaults that a text omits."""
SUFFIX = ".aneprg"
PACKED = ("bool", "uint8")
"""The element types that may take fewer bits than a byte in a file."""
PREFIX = struct.Struct("<8sII32s")


def write_program_file(
    path: str | os.PathLike[str], program: Program, facts: ModelFacts, known: KnownArrays = NOTHING_KNOWN
) -> Path:
    """Write a program and what its model knows; the file appears whole or not at all.

    Arrays of constants that are `known` to whoever reads it are left out.

    Raises:
        OSError: The file cannot be written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replace_when_written(target) as temporary, temporary.open("xb") as file:
        write_content(file, program, facts, known)
    return target


def write_content(file: BinaryIO, program: Program, facts: ModelFacts, known: KnownArrays) -> None:
    """Write the whole content of a file."""
    text = program_text(program).encode()
    constants = program.constants
    SHARED.update({constant.digest: constant for constant in constants.values()})
    made = header_of(program, facts, text, constants, known)
    header = msgspec.json.encode(made)
    file.write(PREFIX.pack(MAGIC, VERSION, len(header), hashlib.sha256(header).digest()))
    file.write(header)
    pad(file)
    file.write(text)
    for held in made.constants:
        for record in (one for one in held.parts if one.known is None):
            pad(file)
            file.write(content_of(store_part(stored_form(constants[held.symbol]).parts[record.name])))


def content_of(array: Array) -> memoryview:
    """Return the bytes of an array in order; `tofile` would report a full disk as bytes requested and written."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def pad(file: BinaryIO) -> None:
    """Write zeros up to the next place at which a section may begin."""
    place = file.tell()
    file.write(bytes(align(place) - place))


def header_of(
    program: Program, facts: ModelFacts, text: bytes, constants: Mapping[str, Constant], known: KnownArrays
) -> Header:
    """Return the header of a program."""
    end = len(text)
    records: list[ConstantRecord] = []
    for symbol, constant in constants.items():
        stored = stored_form(constant)
        parts = tuple(part_records(stored, end, known))
        end = max([end, *(part.offset + part.nbytes for part in parts if part.known is None)])
        records.append(ConstantRecord(symbol, stored.encoding, parts, isinstance(constant, Folded)))
    span = Span(0, len(text), hashlib.sha256(text).hexdigest())
    return Header(__version__, program.target.name, end, span, tuple(records), facts_record(facts), program.chip)


def facts_record(facts: ModelFacts) -> FactsRecord:
    """Return what a model knows as a file holds it."""
    return FactsRecord(
        facts.n_ops,
        facts.several,
        tuple(CautionRecord(one.category, one.message, one.bounded) for one in facts.warnings),
        facts.remarks,
        tuple(map(encode_supplied, facts.supplied)),
        msgspec.Raw(msgspec.json.encode(facts.weights)),
    )


def encode_supplied(one: SuppliedInput) -> SuppliedRecord:
    """Return an input that the host draws as a file holds it."""
    attributes = cast("dict[str, bool | int | float | str | tuple[int, ...] | None]", dict(one.attributes))
    return SuppliedRecord(one.name, one.op, one.meaning, one.type.shape, one.type.dtype, attributes)


def decode_supplied(record: SuppliedRecord) -> SuppliedInput:
    """Return an input that the host draws.

    Raises:
        UnknownNameError: There is no such operation or element type.
    """
    kind = TensorType(record.shape, record.dtype)
    return SuppliedInput(record.name, find_op(record.op).name, record.meaning, kind, record.attributes)


def read_program_file(path: str | os.PathLike[str], known: KnownArrays = NOTHING_KNOWN) -> tuple[Program, ModelFacts]:
    """Read a program back; its weights stay in the file, mapped into memory, but for arrays that are `known`.

    The file must not be changed in place while the program is used; writing it again through a rename is fine.

    Raises:
        ProgramFileError: The file is not a program, damaged, cut off, of another version, or for an unknown target.
        OSError: The file cannot be read.
    """
    place = Path(path)
    try:
        return read_content(place, known)
    except ProgramFileError as error:
        error.operation = error.operation or str(place)
        raise


def read_content(path: Path, known: KnownArrays) -> tuple[Program, ModelFacts]:
    """Read the whole content of a file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(PREFIX.size)
        header_bytes, digest = check_prefix(start, size)
        content = file.read(header_bytes)
    if hashlib.sha256(content).digest() != digest:
        raise build_damaged_error("its header is not the one that was written")
    try:
        header = decode_typed(content, Header)
    except msgspec.MsgspecError as error:
        raise build_damaged_error(f"its header has another form: {error}") from error
    begin = align(PREFIX.size + header_bytes)
    check_size(size, begin + header.nbytes)
    whole = np.memmap(path, np.uint8, "r", shape=(size,))
    check_zeros(cast("Array", whole[PREFIX.size + header_bytes : begin]))
    return program_of(header, cast("Array", whole[begin:]), known)


def check_prefix(start: bytes, size: int) -> tuple[int, bytes]:
    """Return the length and the hash of the header.

    Raises:
        ProgramFileError: It is not such a file, of another version, or cut off.
    """
    if start[: len(MAGIC)] != MAGIC[: len(start)] or not start:
        raise ProgramFileError("this is not a saved program: it has no header", remedy="model.save writes one")
    if len(start) < PREFIX.size:
        raise cut_off(size, PREFIX.size)
    _, version, header_bytes, digest = cast("tuple[bytes, int, int, bytes]", PREFIX.unpack(start))
    if version != VERSION:
        raise other_version(version)
    if PREFIX.size + header_bytes > size:
        raise cut_off(size, PREFIX.size + header_bytes)
    return header_bytes, digest


def other_version(version: int) -> ProgramFileError:
    """Return the error for a file of another version: this code knows the form of one."""
    older = version < VERSION
    return ProgramFileError(
        f"the file has {'an older' if older else 'a later'} version of the format",
        seen=version,
        limit=VERSION,
        remedy="compile the model and save it again"
        if older
        else "read it with the version of the package that wrote it, or compile and save it again",
    )


def check_size(size: int, wanted: int) -> None:
    """Check that a file ends where its header says.

    Raises:
        ProgramFileError: It does not.
    """
    if size < wanted:
        raise cut_off(size, wanted)
    if size > wanted:
        raise build_damaged_error(f"{size - wanted} bytes follow its end")


def program_of(header: Header, body: Array, known: KnownArrays) -> tuple[Program, ModelFacts]:
    """Return the program of a header and the bytes after it.

    Raises:
        ProgramFileError: A section is not what was written, or the target is unknown.
    """
    check_layout(header, body)
    text = body[: header.text.nbytes].tobytes()
    if hashlib.sha256(text).hexdigest() != header.text.sha256:
        raise build_damaged_error("its text is not the one that was written")
    shared = known.shared(text.decode(errors="replace"))
    constants = {
        record.symbol: shared.get(record.symbol)
        or constant_of(record, {part.name: find_part(part, body, known) for part in record.parts})
        for record in header.constants
    }
    try:
        program = of_chip(parse_program(text.decode(), constants), header.chip)
        facts = facts_of(header.facts)
        SHARED.update({constant.digest: constant for constant in constants.values()})  # which the text confirmed
    except UnknownNameError as error:
        raise ProgramFileError(
            f"this version of the package ({__version__}) does not know what version {header.made_by} wrote: "
            f"{error.message}",
            remedy="read it with that version, or compile and save it again",
        ) from error
    except (AneforgeError, ValueError, msgspec.MsgspecError) as error:
        raise build_damaged_error(str(error)) from error
    inputs = {port.name: port.value.type for port in program.inputs}
    if any(inputs.get(one.name) != one.type for one in facts.supplied):
        raise build_damaged_error("an input that the host draws is not one of the program's")
    return program, facts


def find_part(part: PartRecord, body: Array, known: KnownArrays) -> Array | Packed:
    """Return an array of a constant: from the file, or one that is known.

    Raises:
        ProgramFileError: The file does not have it, and it is not known.
    """
    if part.known is None:
        return read_part(part, body)
    found = known.find(part.known, part.offset, part.stored_bytes)
    if found is None:
        raise build_damaged_error(f"array {part.name!r} is not in it")
    return array_of(part, found)


def of_chip(program: Program, key: str | None) -> Program:
    """Return a program with the chip that it was compiled for, where one was named.

    Raises:
        UnknownNameError: There is no such chip.
        ValueError: The chip is of another target.
    """
    if key is None:
        return program
    known = chip(key)
    if known.target != program.target.name:
        raise ValueError(f"its chip {known.key} is not a chip of its target {program.target.name}")
    return replace(program, chip=known.key)


def check_layout(header: Header, body: Array) -> None:
    """Check that sections are one after the other, with zeros between, and end where the header says.

    Raises:
        ProgramFileError: They do not.
    """
    for part in (one for record in header.constants for one in record.parts):
        if part.bits != 8 and not (0 < part.bits < 8 and part.dtype in PACKED):
            raise build_damaged_error(f"array {part.name!r} has elements of {part.bits} bits")
    end = header.text.nbytes
    if header.text.offset != 0 or not 0 <= end <= header.nbytes:
        raise build_damaged_error(
            f"wrong place of the text section (expected offset 0 and at most {header.nbytes} bytes, "
            f"got offset {header.text.offset} and {end} bytes)"
        )
    for part in parts_of(header):
        begin = align(end)
        if part.dtype not in DTYPES or min(part.shape, default=0) < 0:
            raise build_damaged_error(f"array {part.name!r} has the type {part.dtype} {list(part.shape)}")
        if part.offset != begin:
            raise build_damaged_error(f"wrong offset of array {part.name!r} (expected {begin}, got {part.offset})")
        if begin + part.nbytes > header.nbytes:
            raise build_damaged_error(f"array {part.name!r} passes the end")
        check_zeros(body[end:begin])
        end = begin + part.nbytes
    if end != header.nbytes:
        raise build_damaged_error("its sections do not fill it")


def parts_of(header: Header) -> Iterator[PartRecord]:
    """Return every array of every constant that the file has, in order."""
    for record in header.constants:
        yield from (part for part in record.parts if part.known is None)


def facts_of(record: FactsRecord) -> ModelFacts:
    """Return what a model knows.

    Raises:
        ProgramFileError: It is of a form that is never written.
    """
    unknown = [one.category for one in record.warnings if one.category not in CATEGORIES]
    if unknown:
        raise UnknownNameError.of("class of warnings", unknown[0], CATEGORIES)
    return ModelFacts(
        n_ops=record.n_ops,
        several=record.several,
        warnings=tuple(Caution(one.category, one.message, one.bounded) for one in record.warnings),
        remarks=record.remarks,
        supplied=tuple(map(decode_supplied, record.supplied)),
        weights=weights_of(record.weights),
    )


def weights_of(raw: msgspec.Raw) -> tuple[WeightReport, ...]:
    """Return the report of compression; that room is imported where there is one."""
    if bytes(raw) == b"[]":
        return ()
    from aneforge.optimise.compress.graphs import WeightReport as Report  # noqa: PLC0415 - most programs have none

    return decode_typed(raw, tuple[Report, ...])


def check_zeros(gap: Array) -> None:
    """Check the bytes between two sections.

    Raises:
        ProgramFileError: One is set.
    """
    if gap.any():
        raise build_damaged_error("bytes between its sections are set")


def build_damaged_error(how: str) -> ProgramFileError:
    """Return the error for a file that is not as it was written."""
    return ProgramFileError(f"the file is damaged: {how}", remedy="compile and save it again")


def cut_off(size: int, wanted: int) -> ProgramFileError:
    """Return the error for a file that ends too early."""
    return ProgramFileError(
        "the file is cut off", seen=f"{size} bytes", limit=f"{wanted} bytes or more", remedy="copy or save it again"
    )

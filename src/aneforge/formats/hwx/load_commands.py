"""Load commands, each decoded and encoded; what a command says beyond its known meaning is kept word by word."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.container import (
    Identification,
    LoadCommand,
    Note,
    OtherCommand,
    PortBinding,
    ProgramState,
    Relocation,
    Section,
    Segment,
    Symbol,
    SymbolTable,
    TensorState,
    UnnamedWord,
)
from aneforge.formats.hwx.thread_states import (
    PROGRAMS,
    TENSOR_FLAVOR,
    decode_program,
    decode_tensor,
    decode_text,
    encode_program,
    encode_tensor,
    encode_text,
    string_at,
)
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.formats.hwx.container import Body

__all__ = ["RELOCATION", "SYMBOL", "Source", "decode_command", "encode_body", "encode_command"]

SEGMENT_64, SYMTAB, THREAD, BINDING, WIDE_BINDING, IDENT, NOTE = 0x19, 0x2, 0x4, 0x6, 0x40, 0x8, 0x31
HEAD = struct.Struct("<2I")
SEGMENT = struct.Struct("<2I16s4Q4I")
SECTION = struct.Struct("<16s16s2Q8I")
NARROW = struct.Struct("<2I2I1I")
WIDE = struct.Struct("<2I2I1Q")
NOTED = struct.Struct("<2I16s2Q")
TABLE = struct.Struct("<6I")
STATE_HEAD = struct.Struct("<4I")
SYMBOL = struct.Struct("<I2BHQ")
RELOCATION = struct.Struct("<2I")
MOST_ENTRIES = 2**20
"""Symbols or relocations: more than any program has (one for each core of each task), few enough for small machines."""
MOST_UNNAMED = 4096
"""Words beyond its known meaning that a command may have; a tensor state has 842."""


@dataclass(slots=True)
class Source:
    """The bytes of a file, and how many of them tables may still claim: tables that share bytes would fill memory."""

    file: memoryview
    left: int

    def table(self, offset: int, size: int, what: str, at: int) -> memoryview:
        """Return the bytes of a table; `at` is the place of the field that gives its extent.

        Raises:
            HwxError: It is outside the file, or tables together are larger than the file.
        """
        if offset + size > len(self.file):
            raise HwxError.at(at, f"the {what} must end within the file", seen=offset + size, limit=len(self.file))
        if size > self.left:
            raise HwxError.at(at, f"the {what} must not share bytes with another table", seen=size, limit=self.left)
        self.left -= size
        return self.file[offset : offset + size]


def decode_command(source: Source, at: int, size: int) -> LoadCommand:
    """Return the command at a place of a file.

    Raises:
        HwxError: It points outside the file, or its parts are not where they must be.
    """
    data = source.file[at : at + size]
    body = decode_body(source, data, at)
    known = encode_body(body)
    if len(known) > size:
        raise HwxError.at(at + 4, "the command is too small for its content", seen=size, limit=len(known))
    return LoadCommand(body, size, find_unnamed_words(data, known, at))


def decode_body(source: Source, data: memoryview, at: int) -> Body:
    """Return what a command says."""
    command, _ = HEAD.unpack_from(data)
    decode = DECODERS.get(command)
    return OtherCommand(command, bytes(data[HEAD.size :])) if decode is None else decode(source, data, at)


def check_size(data: memoryview, form: struct.Struct, at: int) -> memoryview:
    """Return the bytes of a command that is large enough for its fields.

    Raises:
        HwxError: It is smaller.
    """
    if len(data) < form.size:
        raise HwxError.at(at + 4, "the command is too small for its fields", seen=len(data), limit=form.size)
    return data


def encode_command(command: LoadCommand) -> bytes:
    """Return a command as bytes.

    Raises:
        HwxError: A number does not fit its field, or the content does not fit the command.
    """
    made = bytearray(encode_body(command.body))
    if len(made) > command.size or command.size % 8:
        raise HwxError(
            "the size of a command must be a multiple of 8 and fit its content", seen=command.size, limit=len(made)
        )
    made += bytes(command.size - len(made))
    struct.pack_into("<I", made, 4, command.size)
    for word in command.unnamed:
        struct.pack_into("<I", made, word.offset, word.value)
    return bytes(made)


def encode_body(body: Body) -> bytes:
    """Return what a command says as a command of its own size."""
    try:
        return encode_known(body)
    except struct.error as error:
        raise HwxError(f"a number of {type(body).__name__} does not fit its field: {error}") from None


def encode_known(body: Body) -> bytes:
    """Return what a command says as a command of its own size."""
    match body:
        case Segment():
            made = encode_segment(body)
        case SymbolTable():
            made = TABLE.pack(SYMTAB, 0, body.offset, len(body.symbols), body.string_offset, body.string_size)
        case ProgramState():
            made = encode_program(body, THREAD)
        case TensorState():
            made = encode_tensor(body, THREAD)
        case PortBinding():
            form, command = (WIDE, WIDE_BINDING) if body.wide else (NARROW, BINDING)
            made = form.pack(command, 0, form.size, 0, body.address) + encode_text(body.name) + b"\0"
        case Identification():
            made = HEAD.pack(IDENT, 0) + encode_text(body.text) + b"\0"
        case Note():
            made = NOTED.pack(NOTE, 0, encode_name(body.owner), body.offset, body.size) + body.content
        case OtherCommand():
            made = HEAD.pack(body.command, 0) + body.content
    return pad(made)


def pad(made: bytes) -> bytes:
    """Return a command with its size, a multiple of eight."""
    whole = bytearray(made + bytes(-len(made) % 8))
    struct.pack_into("<I", whole, 4, len(whole))
    return bytes(whole)


def find_unnamed_words(data: memoryview, known: bytes, at: int) -> tuple[UnnamedWord, ...]:
    """Return the words of a command that are not what its known meaning gives; its size is said elsewhere.

    Raises:
        HwxError: They are more than any command has.
    """
    expected = known + bytes(len(data) - len(known))
    if data[HEAD.size :].tobytes() == expected[HEAD.size :]:
        return ()
    words = zip(struct.iter_unpack("<I", data), struct.iter_unpack("<I", expected), strict=True)
    found: list[UnnamedWord] = []
    for place, ((seen,), (wanted,)) in enumerate(words):
        if seen == wanted or place == 1:
            continue
        if len(found) == MOST_UNNAMED:
            raise HwxError.at(at, "too many words of the command have no known meaning", limit=MOST_UNNAMED)
        found.append(UnnamedWord(4 * place, int(seen)))
    return tuple(found)


def decode_segment(source: Source, data: memoryview, at: int) -> Segment:
    """Return a segment with its sections.

    Raises:
        HwxError: Segment or section are outside the file, or the command has no room for the sections.
    """
    fields = SEGMENT.unpack_from(check_size(data, SEGMENT, at))
    _, _, name, address, size, offset, file_size, most, initial, count, flags = fields
    if SEGMENT.size + count * SECTION.size > len(data):
        limit = (len(data) - SEGMENT.size) // SECTION.size
        raise HwxError.at(at + 64, "the sections must end within their command", seen=count, limit=limit)
    if offset + file_size > len(source.file):
        raise HwxError.at(
            at + 40, "the segment must end within the file", seen=offset + file_size, limit=len(source.file)
        )
    if address + size > 2**64:
        raise HwxError.at(at + 24, "the addresses of the segment must end below 2^64", seen=address + size)
    segment = Segment(
        name=decode_name(name),
        address=address,
        size=size,
        file_offset=offset,
        file_size=file_size,
        protection=(most, initial),
        flags=flags,
    )
    places = (at + SEGMENT.size + index * SECTION.size for index in range(count))
    return replace(segment, sections=tuple(decode_section(source, segment, place) for place in places))


def decode_section(source: Source, within: Segment, at: int) -> Section:
    """Return a section with its bytes and relocations.

    Raises:
        HwxError: It is outside its segment, or its relocations are outside the file.
    """
    name, segment, address, size, offset, alignment, table, count, flags, *reserved = SECTION.unpack_from(
        source.file, at
    )
    if address < within.address or address + size > within.address + within.size:
        raise HwxError.at(
            at + 32,
            f"the addresses of section {decode_name(name)!r} must be within its segment",
            seen=f"{address:#x} to {address + size:#x}",
            limit=f"{within.address:#x} to {within.address + within.size:#x}",
        )
    content = None
    if offset:
        if offset < within.file_offset or offset + size > within.file_offset + within.file_size:
            raise HwxError.at(
                at + 48,
                f"the bytes of section {decode_name(name)!r} must be within its segment",
                seen=f"{offset:#x} to {offset + size:#x}",
                limit=f"{within.file_offset:#x} to {within.file_offset + within.file_size:#x}",
            )
        content = source.file[offset : offset + size]
    return Section(
        name=decode_name(name),
        segment=decode_name(segment),
        address=address,
        size=size,
        file_offset=offset,
        alignment=alignment,
        relocation_offset=table,
        flags=flags,
        reserved=(reserved[0], reserved[1], reserved[2]),
        relocations=decode_relocations(source, table, count, at),
        content=content,
    )


def decode_relocations(source: Source, table: int, count: int, at: int) -> tuple[Relocation, ...]:
    """Return the relocations of a section.

    Raises:
        HwxError: They are outside the file, or more than any program has.
    """
    if count > MOST_ENTRIES:
        raise HwxError.at(at + 60, "too many relocations", seen=count, limit=MOST_ENTRIES)
    entries = source.table(table, count * RELOCATION.size, "relocations", at + 56)
    return tuple(Relocation(*entry) for entry in RELOCATION.iter_unpack(entries))


def encode_segment(segment: Segment) -> bytes:
    """Return a segment with its sections as a command."""
    made = SEGMENT.pack(
        SEGMENT_64,
        0,
        encode_name(segment.name),
        segment.address,
        segment.size,
        segment.file_offset,
        segment.file_size,
        *segment.protection,
        len(segment.sections),
        segment.flags,
    )
    return made + b"".join(
        SECTION.pack(
            encode_name(section.name),
            encode_name(section.segment),
            section.address,
            section.size,
            section.file_offset,
            section.alignment,
            section.relocation_offset,
            len(section.relocations),
            section.flags,
            *section.reserved,
        )
        for section in segment.sections
    )


def decode_binding(_: Source, data: memoryview, at: int) -> PortBinding:
    """Return the binding of a port.

    Raises:
        HwxError: The command is too small, or the name is outside it.
    """
    wide = HEAD.unpack_from(data)[0] == WIDE_BINDING
    form = WIDE if wide else NARROW
    _, _, name_at, _, address = form.unpack_from(check_size(data, form, at))
    return PortBinding(string_at(data, name_at, at), address, wide)


def decode_identification(_: Source, data: memoryview, __: int) -> Identification:
    """Return the text of the compiler about itself."""
    return Identification(decode_text(bytes(data[HEAD.size :]).rstrip(b"\0")))


def decode_note(_: Source, data: memoryview, at: int) -> Note:
    """Return a note.

    Raises:
        HwxError: The command is too small.
    """
    _, _, owner, offset, size = NOTED.unpack_from(check_size(data, NOTED, at))
    return Note(decode_name(owner), offset, size, bytes(data[NOTED.size :]))


def decode_state(_: Source, data: memoryview, at: int) -> ProgramState | TensorState | OtherCommand:
    """Return the program or the tensor of a thread state; one of another flavor stays as it is.

    Raises:
        HwxError: The command is too small for its state.
    """
    flavor = STATE_HEAD.unpack_from(check_size(data, STATE_HEAD, at))[2]
    if flavor in PROGRAMS:
        return decode_program(data, at)
    if flavor == TENSOR_FLAVOR:
        return decode_tensor(data, at)
    return OtherCommand(THREAD, bytes(data[HEAD.size :]))


def decode_symbols(source: Source, data: memoryview, at: int) -> SymbolTable:
    """Return the symbols of a file.

    Raises:
        HwxError: They or their names are outside the file, share bytes, or are more than any program has.
    """
    _, _, offset, count, string_offset, string_size = TABLE.unpack_from(check_size(data, TABLE, at))
    if count > MOST_ENTRIES:
        raise HwxError.at(at + 12, "too many symbols", seen=count, limit=MOST_ENTRIES)
    entries = source.table(offset, count * SYMBOL.size, "symbols", at + 8)
    strings = bytes(source.table(string_offset, string_size, "names of symbols", at + 16))
    symbols: list[Symbol] = []
    total = 0
    for index, entry in enumerate(SYMBOL.iter_unpack(entries)):
        symbol = decode_symbol(strings, entry, offset + index * SYMBOL.size)
        total += len(symbol.name)
        if total > string_size:  # real names share no bytes; a table that repeats one long name would fill memory
            raise HwxError.at(at + 16, "names of symbols must not share bytes", seen=total, limit=string_size)
        symbols.append(symbol)
    return SymbolTable(offset=offset, string_offset=string_offset, string_size=string_size, symbols=tuple(symbols))


def decode_symbol(strings: bytes, entry: tuple[int, ...], at: int) -> Symbol:
    """Return a symbol with its name.

    Raises:
        HwxError: The name is outside the table of names.
    """
    name_offset, kind, section, description, value = entry
    end = strings.find(b"\0", name_offset) if name_offset < len(strings) else -1
    if end < 0:
        raise HwxError.at(at, "the name of a symbol must be within the names", seen=name_offset, limit=len(strings))
    return Symbol(
        name=decode_text(strings[name_offset:end]),
        name_offset=name_offset,
        type=kind,
        section=section,
        description=description,
        value=value,
    )


def decode_name(name: bytes) -> str:
    """Return the name of a segment or section."""
    return decode_text(name.rstrip(b"\0"))


def encode_name(name: str) -> bytes:
    """Return the name of a segment or section as its 16 bytes.

    Raises:
        HwxError: It is longer.
    """
    made = encode_text(name)
    if len(made) > 16:
        raise HwxError("the name of a segment or section has at most 16 bytes", seen=name, limit=16)
    return made.ljust(16, b"\0")


DECODERS: Mapping[int, Callable[[Source, memoryview, int], Body]] = {
    SEGMENT_64: decode_segment,
    SYMTAB: decode_symbols,
    THREAD: decode_state,
    BINDING: decode_binding,
    WIDE_BINDING: decode_binding,
    IDENT: decode_identification,
    NOTE: decode_note,
}
"""How commands are read, by their numbers."""

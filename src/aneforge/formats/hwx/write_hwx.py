"""Writes compiled containers: every part at the place that its command gives, zeros between them."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.errors import HwxError, Location
from aneforge.formats.hwx.container import MAGIC, SymbolTable
from aneforge.formats.hwx.load_commands import RELOCATION, SYMBOL, encode_command
from aneforge.formats.hwx.thread_states import encode_text
from aneforge.records import dataclass
from aneforge.whole_files import replace_when_written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from aneforge.formats.hwx.container import Container, Section

__all__ = ["HEADER", "Piece", "pieces_of", "write", "write_bytes", "write_file"]

HEADER = struct.Struct("<8I")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file, with their place and what they are."""

    offset: int
    content: bytes | memoryview
    what: str
    derived: bool = True
    """They are encoded from typed values; otherwise they are content that is kept as it is."""

    @property
    def end(self) -> int:
        """The place after them."""
        return self.offset + len(self.content)


def write(container: Container, path: str | os.PathLike[str]) -> None:
    """Write a container to a file; what was read from a file is written byte for byte.

    The file appears under its name when it is whole, so that a container may be written over the file it was read from.

    >>> import aneforge as af, tempfile
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(container, f"{folder}/relu.hwx")
    ...     af.hwx.read(f"{folder}/relu.hwx").size == container.size
    True

    Raises:
        HwxError: Parts of it do not fit their places, or the file cannot be written.
    """
    write_file(path, container.size, (*pieces_of(container), *stray_pieces(container)))


def write_bytes(container: Container) -> bytes:
    """Return the file of a container.

    Raises:
        HwxError: Parts of it do not fit their places.
    """
    made = bytearray(container.size)
    for piece in (*pieces_of(container), *stray_pieces(container)):
        made[piece.offset : piece.end] = piece.content
    return bytes(made)


def write_file(path: str | os.PathLike[str], size: int, pieces: tuple[Piece, ...]) -> None:
    """Write pieces to a file of a size, which appears under its name when it is whole.

    Raises:
        HwxError: It cannot be written.
    """
    target = Path(path)
    try:
        with replace_when_written(target) as unfinished, unfinished.open("xb") as file:
            file.truncate(size)
            for piece in pieces:
                file.seek(piece.offset)
                file.write(piece.content)
    except OSError as error:
        raise HwxError(f"it cannot be written: {error.strerror}", location=Location(str(path))) from None


def stray_pieces(container: Container) -> tuple[Piece, ...]:
    """Return the bytes that no command points at.

    Raises:
        HwxError: They are outside the file.
    """
    found = tuple(Piece(one.offset, one.content, "bytes without a command", derived=False) for one in container.strays)
    for piece in found:
        check_end(piece, container.size)
    return found


def pieces_of(container: Container) -> tuple[Piece, ...]:
    """Return the parts of a container's file in the order of their places.

    Raises:
        HwxError: Two overlap, or one is outside the file.
    """
    found = sorted((piece for piece in parts_of(container) if piece.content), key=lambda piece: piece.offset)
    for first, second in itertools.pairwise(found):
        if first.end > second.offset:
            raise HwxError.at(
                second.offset, f"{first.what} and {second.what} must not overlap", seen=first.end, limit=second.offset
            )
    for piece in found:
        check_end(piece, container.size)
    return tuple(found)


def check_end(piece: Piece, size: int) -> None:
    """Raise the error for a part that is outside the file."""
    if piece.end > size:
        raise HwxError.at(piece.offset, f"{piece.what} must end within the file", seen=piece.end, limit=size)


def parts_of(container: Container) -> Iterator[Piece]:
    """Yield the parts of a container's file."""
    yield Piece(0, encode_head(container), "the commands")
    for table in container.bodies(SymbolTable):
        yield from parts_of_table(table)
    for section in container.sections:
        entries = b"".join(RELOCATION.pack(one.address, one.info) for one in section.relocations)
        yield Piece(section.relocation_offset, entries, f"the relocations of {section.path}")
        if section.content is not None:
            yield Piece(section.file_offset, build_content(section), f"section {section.path}", derived=False)


def encode_head(container: Container) -> bytes:
    """Return header and commands."""
    commands = b"".join(encode_command(one) for one in container.commands)
    header = container.header
    try:
        head = HEADER.pack(
            MAGIC,
            header.cpu_type,
            header.cpu_subtype,
            header.file_type,
            len(container.commands),
            len(commands),
            header.flags,
            header.reserved,
        )
    except struct.error as error:
        raise HwxError(f"a number of the header does not fit its field: {error}", seen=header) from None
    return head + commands


def build_content(section: Section) -> memoryview:
    """Return the bytes of a section.

    Raises:
        HwxError: They are not as many as the section says.
    """
    content = section.content or memoryview(b"")
    if len(content) != section.size:
        raise HwxError(f"the content of {section.path} must have its size", seen=len(content), limit=section.size)
    return content


def parts_of_table(table: SymbolTable) -> Iterator[Piece]:
    """Yield symbols and their names.

    Raises:
        HwxError: A name does not fit its place.
    """
    names = bytearray(table.string_size)
    entries: list[bytes] = []
    for one in table.symbols:
        name = encode_text(one.name)
        if one.name_offset + len(name) >= table.string_size:
            raise HwxError(f"symbol {one.name!r} does not fit the names", seen=one.name_offset, limit=table.string_size)
        names[one.name_offset : one.name_offset + len(name)] = name
        entries.append(SYMBOL.pack(one.name_offset, one.type, one.section, one.description, one.value))
    yield Piece(table.offset, b"".join(entries), "the symbols")
    yield Piece(table.string_offset, bytes(names), "the names of symbols")

"""Reads compiled containers: a view of the file, checked so that nothing in it can point elsewhere.

The file is mapped, not loaded. Every length is checked before it is used, tables together claim no more bytes than the
file has, and bytes that no command points at are kept, so that what is read can be written again byte for byte.
"""

from __future__ import annotations

import itertools
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError, Location
from aneforge.formats.hwx.container import CPU_TYPE, MAGIC, Container, Header, LoadCommand, Stray
from aneforge.formats.hwx.load_commands import Source, decode_command
from aneforge.formats.hwx.write_hwx import HEADER, pieces_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["map_file", "read", "read_bytes"]

MOST_COMMANDS = 2**16
MOST_COMMAND_BYTES = 2**24
"""A port takes 3.4 kB of commands, the identification 2 kB. Commands are copied, so they may not fill a large file."""
SMALLEST_COMMAND = 8
CHUNK = 2**20


def read(path: str | os.PathLike[str]) -> Container:
    """Read a compiled container.

    >>> import aneforge as af, tempfile
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     af.hwx.write(container, f"{folder}/relu.hwx")
    ...     [port.name for port in read(f"{folder}/relu.hwx").ports]
    ['x', 'y']

    Raises:
        HwxError: It cannot be opened, is not a container, or is damaged.
    """
    try:
        return read_bytes(map_file(path))
    except HwxError as error:
        error.location = Location(str(path))
        raise


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Return the bytes of a file without loading them.

    Raises:
        HwxError: It cannot be opened, or is empty.
    """
    try:
        with Path(path).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise HwxError(f"it cannot be opened: {error.strerror}", location=Location(str(path))) from None
    except ValueError:  # an empty file, or a name with a NUL
        raise HwxError("it is empty, or its name is not one of a file", location=Location(str(path))) from None


def read_bytes(content: bytes | memoryview) -> Container:
    """Read a compiled container from bytes.

    Raises:
        HwxError: They are not a container, or it is damaged.
    """
    file = memoryview(content).cast("B").toreadonly()
    if len(file) < HEADER.size:
        raise HwxError.at(0, "the file is too small for a header", seen=len(file), limit=HEADER.size)
    magic, cpu_type, cpu_subtype, file_type, count, size, flags, reserved = HEADER.unpack_from(file)
    if magic != MAGIC:
        raise HwxError.at(0, f"the file does not begin as a container does, with {MAGIC:#x}", seen=f"{magic:#x}")
    if cpu_type != CPU_TYPE:
        raise HwxError.at(4, "the container must be for a Neural Engine", seen=f"{cpu_type:#x}", limit=f"{CPU_TYPE:#x}")
    header = Header(cpu_subtype, cpu_type, file_type, flags, reserved)
    commands = tuple(read_commands(file, count, size))
    parsed = Container(header, commands, len(file))
    check_addresses(parsed)
    return Container(header, commands, len(file), tuple(strays_of(file, parsed)))


def read_commands(file: memoryview, count: int, size: int) -> Iterator[LoadCommand]:
    """Yield the commands of a file.

    Raises:
        HwxError: They are too many, or do not fill the room that the header gives them.
    """
    end = HEADER.size + size
    if end > len(file):
        raise HwxError.at(0x14, "the commands must end within the file", seen=end, limit=len(file))
    if size > MOST_COMMAND_BYTES:
        raise HwxError.at(0x14, "the commands are too large", seen=size, limit=MOST_COMMAND_BYTES)
    if count > min(MOST_COMMANDS, size // SMALLEST_COMMAND):
        raise HwxError.at(0x10, "too many commands", seen=count, limit=min(MOST_COMMANDS, size // SMALLEST_COMMAND))
    source = Source(file, len(file))
    at = HEADER.size
    for _ in range(count):
        length = int.from_bytes(file[at + 4 : at + 8], "little")
        if length < SMALLEST_COMMAND or length % SMALLEST_COMMAND or at + length > end:
            limit = f"a multiple of {SMALLEST_COMMAND} up to {end - at}"
            raise HwxError.at(at + 4, "wrong size of a command", seen=length, limit=limit)
        yield decode_command(source, at, length)
        at += length
    if at != end:
        raise HwxError.at(0x14, "the commands must fill their stated size", seen=at - HEADER.size, limit=size)


def check_addresses(container: Container) -> None:
    """Raise the error for segments that share addresses; those that nothing may access are left out."""
    used = sorted(
        (one for one in container.segments if one.size and one.protection != (0, 0)), key=lambda one: one.address
    )
    for first, second in itertools.pairwise(used):
        if first.address + first.size > second.address:
            raise HwxError(
                f"the addresses of segments {first.name} and {second.name} must not overlap",
                seen=f"{first.address + first.size:#x}",
                limit=f"{second.address:#x}",
            )


def strays_of(file: memoryview, container: Container) -> Iterator[Stray]:
    """Yield the bytes of a file that its commands do not give.

    Raises:
        HwxError: Parts of the file overlap.
    """
    end = 0
    for piece in pieces_of(container):
        yield from nonzero_range(file, end, piece.offset)
        if piece.derived:
            yield from differing_range(file, piece.offset, piece.content)
        end = piece.end
    yield from nonzero_range(file, end, len(file))


def nonzero_range(file: memoryview, start: int, end: int) -> Iterator[Stray]:
    """Yield the bytes from the first that is not zero to the last, if there is one."""
    chunks = [file[at : min(at + CHUNK, end)] for at in range(start, end, CHUNK)]
    used = [index for index, chunk in enumerate(chunks) if np.frombuffer(chunk, np.uint8).any()]
    if used:
        first, last = used[0], used[-1]
        low = start + first * CHUNK + int(np.flatnonzero(np.frombuffer(chunks[first], np.uint8))[0])
        high = start + last * CHUNK + int(np.flatnonzero(np.frombuffer(chunks[last], np.uint8))[-1]) + 1
        yield Stray(low, file[low:high])


def differing_range(file: memoryview, start: int, content: bytes | memoryview) -> Iterator[Stray]:
    """Yield the bytes from the first that is not as encoded to the last, if there is one."""
    seen = file[start : start + len(content)]
    if seen == content:
        return
    places = np.flatnonzero(np.frombuffer(seen, np.uint8) != np.frombuffer(content, np.uint8))
    low, high = start + int(places[0]), start + int(places[-1]) + 1
    yield Stray(low, file[low:high])

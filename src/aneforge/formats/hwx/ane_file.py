"""Files that the Linux driver of the engine takes (`.ane`): a header, then tasks and constants as a container has them.

The driver binds one buffer for tasks and constants, one for scratch memory, then outputs and then inputs, so only
containers with that order of base registers become such files. Two programs disagree on where the payload begins: the
converter writes it at 0x1000, one version of the library reads it at 0x800. Both are read; 0x1000 is written.
Source: hwx-programs (eiln/ane, eiln/anecc). No such file was run here: that needs an engine under Linux.
"""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError, Location
from aneforge.formats.detection import DRIVER_SUFFIX
from aneforge.formats.hwx.assembly import (
    FIRST_PORT_BASE,
    PAGE,
    SCRATCH_BASE,
    STYLES,
    Parts,
    PlannedPort,
    assemble,
    constants_place,
    round_up,
)
from aneforge.formats.hwx.container import Direction, Element
from aneforge.formats.hwx.descriptors.codec import decode_tasks
from aneforge.formats.hwx.program_tasks import count_events
from aneforge.formats.hwx.read_hwx import map_file, read
from aneforge.formats.hwx.write_hwx import Piece, write_file
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

    from aneforge.formats.hwx.container import Container, Port

__all__ = [
    "PAYLOAD_OFFSETS",
    "AneFile",
    "ane_of",
    "container_of",
    "name_file",
    "read_ane",
    "read_ane_bytes",
    "read_program",
    "write_ane",
]

BUFFERS = 32
HEADER = struct.Struct(f"<Q2I2Q2I{BUFFERS}I{6 * BUFFERS}Q")
PAYLOAD_OFFSETS = (0x1000, 0x800)
"""Where the payload begins: as it is written, and as one version of the library expects it."""
LINE = 16
"""The driver takes the constants to begin at the next multiple of this after the tasks."""
CHAINED = 1
SMALLEST_TASK = 40
CPU_SUBTYPE, GENERATION = 4, 7
"""Of the containers that such files are made from: the driver knows the engine of one generation."""
REMEDY = "containers of compilers before v7 have outputs before inputs; assemble the program in that style"


@dataclass(frozen=True, slots=True, kw_only=True)
class AneFile:
    """A program as the Linux driver takes it.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> file = ane_of(af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container)
    >>> file.task_count, file.task_size, file.sources, file.destinations, file.tiles[:6]
    (1, 628, 1, 1, (2, 0, 0, 0, 1, 1))
    """

    task_size: int
    """Bytes of the first task."""
    task_count: int
    sources: int
    destinations: int
    tiles: tuple[int, ...]
    """Size of each of the 32 buffers, in units of 16 KiB; 0 for one that is not used."""
    shapes: tuple[tuple[int, ...], ...]
    """Batch, channels, height, width, bytes of a channel and of a row, for each of the 32 buffers."""
    text: memoryview = field(repr=False)
    constants: memoryview = field(repr=False)
    payload_offset: int = PAYLOAD_OFFSETS[0]

    @property
    def payload_size(self) -> int:
        """Bytes of tasks and constants."""
        return round_up(len(self.text), LINE) + len(self.constants)


def ane_of(container: Container) -> AneFile:
    """Return the file of the Linux driver for a container.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> ane_of(container).payload_size
    17024

    Raises:
        HwxError: The container has a form that the driver does not take.
    """
    program, text = container.program, container.text
    (constants,) = container.constants.values() if len(container.constants) == 1 else (None,)
    if program.flavor != CHAINED or program.first_task_words is None:
        raise HwxError("the Linux driver takes programs whose tasks are a chain", seen=program.flavor, limit=CHAINED)
    if constants is None or constants.address != text.address + round_up(text.size, LINE):
        raise HwxError(
            "the Linux driver takes one section of constants, at the next multiple of 16 bytes after the tasks",
            seen=[f"{one.path} at {one.address:#x}" for one in container.constants.values()],
        )
    ports = driver_ports(container)
    tiles, shapes = [0] * BUFFERS, [(0,) * 6] * BUFFERS
    for index, port in ports.items():
        tiles[index] = -(-port.shape[0] * port.strides[0] // PAGE)
        shapes[index] = (*port.shape, port.strides[1], port.strides[2])
    scratch = next((one.size for one in container.segments if one.name == "__DATA"), 0)
    size = round_up(text.size, LINE) + constants.size
    tiles[0], tiles[SCRATCH_BASE] = -(-size // PAGE), -(-scratch // PAGE)
    directions = [port.direction for port in ports.values()]
    return AneFile(
        task_size=4 * program.first_task_words,
        task_count=program.task_count,
        sources=directions.count(Direction.INPUT),
        destinations=directions.count(Direction.OUTPUT),
        tiles=tuple(tiles),
        shapes=tuple(shapes),
        text=text.content or memoryview(b""),
        constants=constants.content or memoryview(b""),
    )


def driver_ports(container: Container) -> dict[int, Port]:
    """Return the ports by their buffers: outputs, then inputs.

    Raises:
        HwxError: The base registers have another order, or a port has a form that the library does not pack.
    """
    bases = {port.base: port for port in container.ports if port.base is not None}
    ordered = [bases[index] for index in sorted(bases)]
    expected = list(range(FIRST_PORT_BASE, FIRST_PORT_BASE + len(container.ports)))
    directions = [port.direction for port in ordered]
    if sorted(bases) != expected or directions != sorted(directions, reverse=True):
        seen = [f"{port.name} in register {port.base}" for port in ordered]
        limit = f"outputs, then inputs, from register {FIRST_PORT_BASE} on"
        raise HwxError("the Linux driver needs another order of ports", seen=seen, limit=limit, remedy=REMEDY)
    for port in ordered:
        row = round_up(2 * port.shape[3], 64)
        packed = (row * port.shape[2], row, 2)
        if port.element != Element.FLOAT16 or port.strides[1:] != packed or port.depth != 1:
            raise HwxError(
                f"the Linux library packs fp16 in rows of whole 64 bytes; port {port.name!r} has another form",
                seen=f"{port.element_name}, depth {port.depth}, strides {port.strides}",
                limit=f"float16, depth 1, strides {packed}",
            )
    return {index: bases[index] for index in expected}


def write_ane(file: AneFile, path: str | os.PathLike[str]) -> None:
    """Write a file for the Linux driver.

    >>> import aneforge as af, tempfile
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ane(ane_of(container), f"{folder}/relu.ane")
    ...     read_ane(f"{folder}/relu.ane") == ane_of(container)
    True

    Raises:
        HwxError: A number does not fit its field, or the file cannot be written.
    """
    try:
        head = HEADER.pack(
            file.payload_size,
            file.task_size,
            file.task_count,
            len(file.text),
            len(file.constants),
            file.sources,
            file.destinations,
            *file.tiles,
            *(number for shape in file.shapes for number in shape),
        )
    except struct.error as error:
        raise HwxError(f"a number does not fit its field: {error}", location=Location(str(path))) from None
    constants_at = file.payload_offset + round_up(len(file.text), LINE)
    pieces = (
        Piece(0, head, "the header"),
        Piece(file.payload_offset, file.text, "the tasks"),
        Piece(constants_at, file.constants, "the constants"),
    )
    write_file(path, file.payload_offset + file.payload_size, pieces)


def read_ane(path: str | os.PathLike[str]) -> AneFile:
    """Read a file of the Linux driver; `payload_offset` says where its payload was.

    >>> import aneforge as af, tempfile
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ane(ane_of(container), f"{folder}/relu.ane")
    ...     hex(read_ane(f"{folder}/relu.ane").payload_offset)
    '0x1000'

    Raises:
        HwxError: It cannot be opened, or is damaged.
    """
    try:
        return read_ane_bytes(map_file(path))
    except HwxError as error:
        error.location = Location(str(path))
        raise


def read_ane_bytes(content: bytes | memoryview) -> AneFile:
    """Read a file of the Linux driver from bytes.

    Raises:
        HwxError: It is damaged.
    """
    file = memoryview(content).cast("B").toreadonly()
    if len(file) < HEADER.size:
        raise HwxError.at(0, "the file is too small for a header", seen=len(file), limit=HEADER.size)
    size, task_size, count, text_size, constants_size, sources, destinations, *rest = HEADER.unpack_from(file)
    if size != round_up(text_size, LINE) + constants_size:
        limit = round_up(text_size, LINE) + constants_size
        raise HwxError.at(0, "the payload must have the size of tasks and constants", seen=size, limit=limit)
    if task_size % 4 or not SMALLEST_TASK <= task_size <= text_size:
        limit = f"a multiple of 4 from {SMALLEST_TASK} to {text_size}"
        raise HwxError.at(8, "wrong size of the first task", seen=task_size, limit=limit)
    ports = sum(1 for tiles in rest[FIRST_PORT_BASE:BUFFERS] if tiles)
    if sources + destinations != ports:
        raise HwxError.at(0x20, "each port must have a buffer", seen=sources + destinations, limit=ports)
    start = payload_place(file, size)
    text_end, constants_at = start + text_size, start + round_up(text_size, LINE)
    for low, high in ((HEADER.size, start), (text_end, constants_at)):
        if any(file[low:high]):
            raise HwxError.at(
                low, "the bytes between header, tasks and constants must be zero", limit=f"up to {high:#x}"
            )
    return AneFile(
        task_size=task_size,
        task_count=count,
        sources=sources,
        destinations=destinations,
        tiles=tuple(rest[:BUFFERS]),
        shapes=tuple(tuple(rest[at : at + 6]) for at in range(BUFFERS, len(rest), 6)),
        text=file[start:text_end],
        constants=file[constants_at : start + size],
        payload_offset=start,
    )


def payload_place(file: memoryview, size: int) -> int:
    """Return where the payload begins: there where the file ends with it.

    Raises:
        HwxError: It ends with it from neither place.
    """
    found = next((at for at in PAYLOAD_OFFSETS if at + size == len(file)), None)
    if found is None:
        limit = " or ".join(f"{at + size:#x}" for at in PAYLOAD_OFFSETS)
        raise HwxError.at(0, "the file must end with its payload", seen=f"{len(file):#x}", limit=limit)
    return found


def container_of(file: AneFile) -> Container:
    """Return the container of a file of the Linux driver, so that its tasks can be listed, checked and run.

    Such a file has no names: ports are named by their buffers.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> made = container_of(ane_of(af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container))
    >>> [(port.name, port.shape) for port in made.ports]
    [('input5', (1, 16, 8, 8)), ('output4', (1, 16, 8, 8))]

    Raises:
        HwxError: A port has rows that the library does not pack, constants are where no container has them, or a task
            is damaged.
    """
    ports = [find_planned_port(file, FIRST_PORT_BASE + place) for place in range(file.sources + file.destinations)]
    tasks = decode_tasks(np.frombuffer(file.text, "<u4"), GENERATION, file.task_size // 4)
    parts = Parts(
        cpu_subtype=CPU_SUBTYPE,
        text=file.text,
        first_task_words=file.task_size // 4,
        task_count=file.task_count,
        ports=ports,
        constants=file.constants,
        debug_events=count_events(tasks, "debug_log_events"),
        log_events=count_events(tasks, "log_events"),
        scratch=file.tiles[SCRATCH_BASE] * PAGE,
        identification=f"a file of the Linux driver, payload at {file.payload_offset:#x}",
    )
    if constants_place(parts) != round_up(len(file.text), LINE):
        raise HwxError(
            "this file has constants at a place where a container has none",
            seen=round_up(len(file.text), LINE),
            limit=constants_place(parts),
        )
    return assemble(parts, STYLES["v5"])


def find_planned_port(file: AneFile, index: int) -> PlannedPort:
    """Return the port of a buffer: outputs come first.

    Raises:
        HwxError: Its rows are not packed as the library packs them.
    """
    direction = Direction.OUTPUT if index < FIRST_PORT_BASE + file.destinations else Direction.INPUT
    batch, channels, height, width, plane, row = file.shapes[index]
    port = PlannedPort(f"{direction.name.lower()}{index}", direction, (batch, channels, height, width))
    if port.strides[1:3] != (plane, row):
        raise HwxError(f"buffer {index} has rows of another form", seen=(plane, row), limit=port.strides[1:3])
    return port


@contextmanager
def name_file(path: str | os.PathLike[str]) -> Generator[None]:
    """Let what is raised in a block say in which file it is.

    >>> with name_file("model.hwx"):
    ...     raise HwxError("the list of tasks is cyclic")
    Traceback (most recent call last):
        ...
    aneforge.errors.HwxError: at model.hwx: the list of tasks is cyclic
    """
    try:
        yield
    except HwxError as error:
        error.location = Location(os.fspath(path))
        raise


def read_program(path: str | os.PathLike[str]) -> Container:
    """Read a container, or a file of the Linux driver as the container that it would be.

    Raises:
        HwxError: It cannot be opened, or is damaged.
    """
    if not os.fspath(path).endswith(DRIVER_SUFFIX):
        return read(path)
    with name_file(path):
        return container_of(read_ane(path))

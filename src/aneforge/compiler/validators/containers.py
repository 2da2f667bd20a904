"""A real container as the third layer of validation sees it: as a whole, each port, and each port's matrix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aneforge.compiler.validators.exported import objections, sort_worst_first, with_data
from aneforge.compiler.validators.load import CompiledMatrix, Plane, validate_at_load
from aneforge.compiler.validators.verdict import Validation
from aneforge.errors import HwxError, Location, NoDataError
from aneforge.formats.hwx.container import OtherCommand
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.rules.subject import Operation
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.formats.hwx.container import Container, Port
    from aneforge.targets import Target, TargetLike

__all__ = [
    "CONTAINER",
    "CONTAINER_PORT",
    "matrices_of",
    "subject_of_container",
    "subject_of_port",
    "target_of",
    "validate_container",
]

CONTAINER, CONTAINER_PORT = "container", "container_port"
"""The names under which a container and one of its ports are subjects."""
LOG_EVENTS, DEBUG_EVENTS = 2, 4
"""Header words of a chained task that hold the masks of events."""
CHAINED = 1
TARGET_OPTION = re.compile(r"^\s*-t (\w+)$", re.MULTILINE)
"""Where the identification repeats the command line, it names the target."""


def validate_container(container: Container, target: TargetLike = None, file: str = "") -> tuple[Validation, ...]:
    """Return the verdict on a container, on each of its ports, and on the matrix of each port.

    The target is the one that the container names, where none is given.

    Raises:
        NoDataError: No target with data has containers of this kind.
        HwxError: The container has no program or no task section, or a tensor has no binding.
    """
    resolved = with_data(target_of(container) if target is None else resolve(target), CONTAINER)
    subjects = [("", subject_of_container(container, file))]
    subjects += [(port.name, subject_of_port(container, port, file)) for port in container.ports]
    found = tuple(
        Validation(name, subject.op, None, tuple(sort_worst_first(objections(subject, resolved))), subject.location)
        for name, subject in subjects
    )
    return (*found, *validate_at_load(matrices_of(container), resolved))


def target_of(container: Container) -> Target:
    """Return the target of a container: the one that its compiler was asked for, or the first of its kind.

    Raises:
        NoDataError: No target has containers of this kind.
    """
    if not container.targets:
        raise NoDataError(f"no target has containers of subtype {container.header.cpu_subtype}")
    asked = TARGET_OPTION.search(container.identification)
    return resolve(asked[1] if asked and asked[1] in container.targets else container.targets[0])


def matrices_of(container: Container) -> tuple[CompiledMatrix, ...]:
    """Return the ports of a container as matrices of one uncompressed plane; no file with another form was seen."""
    return tuple(
        CompiledMatrix(
            port.name,
            (Plane(port.shape[3], port.shape[2], row_bytes=port.strides[2], element_bits=8 * port.strides[3]),),
        )
        for port in container.ports
    )


def subject_of_container(container: Container, file: str = "") -> Operation:
    """Return a container as rules see it."""
    program, used = container.program, [one for one in container.segments if one.size]
    places, values, sizes = find_relocated_words(container)
    return Operation(
        CONTAINER,
        attributes={
            "strays": tuple(one.offset for one in container.strays),
            "unnamed": tuple(unnamed_in(container)),
            "program_address": program.text_address,
            "text_address": container.text.address,
            "base_indices": tuple(one.index for one in program.bases),
            "base_addresses": tuple(one.address for one in program.bases),
            "segment_starts": tuple(one.address for one in used),
            "segment_ends": tuple(one.address + one.size for one in used),
            "segment_offsets": tuple(one.file_offset for one in used),
            "relocation_places": places,
            "relocation_values": values,
            "relocation_sizes": sizes,
            "stated log events": program.log_events,
            "stated debug events": program.debug_events,
            **list_tasks(container),
        },
        location=Location(file) if file else None,
    )


def subject_of_port(container: Container, port: Port, file: str = "") -> Operation:
    """Return a port of a container as rules see it."""
    room = next(
        (
            one.address + one.size - port.address
            for one in container.segments
            if one.address <= port.address < one.address + one.size
        ),
        0,
    )
    last = sum((count - 1) * stride for count, stride in zip(port.shape, port.strides, strict=True))
    return Operation(
        CONTAINER_PORT,
        attributes={
            "base": port.base,
            "address": port.address,
            "strides": port.strides,
            "extent": last + port.strides[3] if all(port.shape) else 0,
            "room": room,
        },
        location=Location(file or None, node=port.name),
    )


def list_tasks(container: Container) -> dict[str, int | str]:
    """Return the counts of events that the tasks of a container set, or why they cannot be listed."""
    try:
        tasks = tasks_of(container)
    except HwxError as error:
        return {"task_error": error.message}
    if container.program.flavor != CHAINED:
        return {"task_error": ""}
    return {
        "task_error": "",
        "counted log events": sum(task.header[LOG_EVENTS].bit_count() for task in tasks),
        "counted debug events": sum(task.header[DEBUG_EVENTS].bit_count() for task in tasks),
    }


def unnamed_in(container: Container) -> Iterator[str]:
    """Yield the words of commands, and the commands, that have no known meaning."""
    for command in container.commands:
        if isinstance(command.body, OtherCommand):
            yield f"command {command.body.command:#x}"
        for word in command.unnamed:
            yield f"word {word.offset:#x} of {type(command.body).__name__} ({word.value:#x})"


def find_relocated_words(container: Container) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return places and values of relocated words, and the sizes of the sections that they point into.

    A word outside the task section has the value −1, a section that does not exist the size 0.
    """
    text, sections = container.text, container.sections
    content = text.content or memoryview(b"")
    places = tuple(one.address for one in text.relocations)
    values = tuple(
        int.from_bytes(content[place : place + 4], "little") if place + 4 <= len(content) else -1 for place in places
    )
    numbers = (one.section for one in text.relocations)
    return places, values, tuple(sections[one - 1].size if 1 <= one <= len(sections) else 0 for one in numbers)

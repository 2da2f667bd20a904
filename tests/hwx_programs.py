"""Whole containers for tests: tasks of an oracle or of our own, with ports, constants and scratch memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aneforge.formats.hwx.assembly import STYLES, Parts, PlannedPort, assemble
from aneforge.formats.hwx.container import Direction, Segment
from aneforge.formats.hwx.descriptors.codec import encode_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Body, Container
    from aneforge.formats.hwx.descriptors.task import Task

SUBTYPE = 4
"""Subtype of containers of the generation whose tasks are linked."""
Shape = tuple[int, int, int, int]
SHAPE: Shape = (1, 64, 8, 8)
"""Shape of the tensors of the tasks in `hwx_tasks`."""


def container_of(
    tasks: Sequence[Task], ports: Mapping[str, Shape], *, constants: bytes = bytes(0x4000), scratch: int = 0
) -> Container:
    """Return a program of tasks; base register 4 is the first port, `y` among them is written, the others are read."""
    text = np.array(encode_tasks(tasks), "<u4").tobytes()
    planned = [
        PlannedPort(name, Direction.OUTPUT if name == "y" else Direction.INPUT, shape) for name, shape in ports.items()
    ]
    parts = Parts(
        cpu_subtype=SUBTYPE,
        text=memoryview(text),
        first_task_words=tasks[0].size,
        task_count=len(tasks),
        ports=planned,
        constants=memoryview(constants),
        scratch=scratch,
        identification="made by a test",
    )
    return assemble(parts, STYLES["v9"])


Kind = TypeVar("Kind", bound="Body")


def changed_bodies(
    container: Container, kind: type[Kind], chosen: Callable[[Kind], bool], changes: Mapping[str, object]
) -> Container:
    """Return a container in which some commands of one kind have other values."""
    commands = tuple(
        replace(one, body=replace(one.body, **changes)) if isinstance(one.body, kind) and chosen(one.body) else one
        for one in container.commands
    )
    return replace(container, commands=commands)


def with_words(container: Container, words: NDArray[np.uint32]) -> Container:
    """Return a container with other words in its task section."""
    text = replace(container.text, content=memoryview(words.astype("<u4").tobytes()))
    segment = next(one for one in container.segments if container.text in one.sections)
    sections = tuple(text if one == container.text else one for one in segment.sections)
    return changed_bodies(container, Segment, lambda one: one == segment, {"sections": sections})

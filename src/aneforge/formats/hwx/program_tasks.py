"""The tasks of a container: its task section, decoded, with the number of tasks that its program states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.codec import decode_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.hwx.container import Container
    from aneforge.formats.hwx.descriptors.task import Task

__all__ = ["count_events", "tasks_of"]


def tasks_of(container: Container) -> tuple[Task, ...]:
    """Return the tasks of a container, in the order in which they run.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> [task.size for task in tasks_of(container)]
    [157]

    Raises:
        HwxError: The generation is not known, a task is damaged, or they are not as many as the program states.
    """
    program = container.program
    found = decode_tasks(container.words, container.generation, program.first_task_words)
    if len(found) != program.task_count:
        raise HwxError.at(
            container.text.file_offset,
            "the tasks must be as many as the program states",
            seen=len(found),
            limit=program.task_count,
        )
    return found


def count_events(tasks: Sequence[Task], mask: str) -> int:
    """Return how many events tasks have in a mask of their headers, as the program of a chain states them."""
    return sum((task.integer(f"header.{mask}") or 0).bit_count() for task in tasks)

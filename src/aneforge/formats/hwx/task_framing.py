"""Where the tasks of a container are: its task section, cut into the words of each task.

Programs of flavor 1 chain their tasks: the program gives the size of the first, and each task gives place and size of
the next. Programs of flavor 4 have frames of four words, and each task begins with its own size. Source: hwx-programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aneforge.errors import HwxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Container

__all__ = ["CHAINED", "FRAMED", "TaskWords", "split_tasks"]

CHAINED, FRAMED = 1, 4
"""Flavors of the program state."""
CHAINED_GENERATION = 7
"""The only generation of which real chains were seen; headers of 5 and 6 have other words."""
NEXT_SIZE, NEXT_PLACE = 1, 7
"""Words of a header that give the size of the next task (bits 16 to 24, less one) and its place in bytes."""
SHORTEST = 10
"""Words of the header of a chained task."""
FRAME = 4
"""Words; tasks of framed programs begin at multiples of it."""


@dataclass(frozen=True, slots=True)
class TaskWords:
    """The words of one task."""

    index: int
    offset: int
    """Bytes from the start of the task section."""
    words: NDArray[np.uint32] = field(repr=False)


def split_tasks(container: Container) -> tuple[TaskWords, ...]:
    """Return the words of every task, in the order in which they run: views of the file.

    Raises:
        HwxError: A task is outside the section, the list has a cycle, or there are not as many as the program says.
    """
    program, section = container.program, container.text
    if program.flavor == CHAINED and container.generation != CHAINED_GENERATION:
        raise HwxError(
            "the header of tasks is not known for this generation", seen=container.generation, limit=CHAINED_GENERATION
        )
    found = tuple(
        chained_tasks(container.words, program.first_task_words or 0, section.file_offset)
        if program.flavor == CHAINED
        else framed_tasks(container.words, section.file_offset)
    )
    if len(found) != program.task_count:
        raise HwxError.at(
            section.file_offset,
            "the number of tasks must be that of the program",
            seen=len(found),
            limit=program.task_count,
        )
    return found


def chained_tasks(words: NDArray[np.uint32], size: int, at: int) -> Iterator[TaskWords]:
    """Yield tasks, each of which says where the next is.

    Raises:
        HwxError: One is outside the section or too short, or the list comes back to an earlier one.
    """
    place, index = 0, 0
    seen: set[int] = set()
    while True:
        if place in seen:
            raise HwxError.at(at + place, "the list of tasks has a cycle", seen=f"task {index} at {place:#x} again")
        if size < SHORTEST or place % 4 or place // 4 + size > len(words):
            limit = f"{SHORTEST} words or more within {4 * len(words):#x} bytes"
            raise HwxError.at(
                at + place, f"task {index} is outside the task section", seen=f"{size} words at {place:#x}", limit=limit
            )
        seen.add(place)
        task = words[place // 4 : place // 4 + size]
        yield TaskWords(index, place, task)
        place, size, index = int(task[NEXT_PLACE]), ((int(task[NEXT_SIZE]) >> 16) & 0x1FF) + 1, index + 1
        if not place:
            return


def framed_tasks(words: NDArray[np.uint32], at: int) -> Iterator[TaskWords]:
    """Yield tasks that follow one another, each with its size in its first word; frames of size 0 are passed over.

    Raises:
        HwxError: One does not end within the section.
    """
    place = index = 0
    while place < len(words):
        size = (int(words[place]) >> 16) & 0x7FF
        if place + size > len(words):
            raise HwxError.at(
                at + 4 * place, f"task {index} is outside the task section", seen=size, limit=len(words) - place
            )
        if size:
            yield TaskWords(index, 4 * place, words[place : place + size])
            index += 1
        place += max(FRAME, -(-size // FRAME) * FRAME)

"""Words to tasks and tasks to words, for every generation: what is read is written back unchanged.

Two styles of section are known. Tasks of the linked style name the next one by offset and size; the size of the first
is in the program descriptor. Tasks of the framed style say their own size and start at multiples of four words,
after a frame of four words that belongs to none of them.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.layout import Layout, Style, layout_of
from aneforge.formats.hwx.descriptors.task import Record, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Words", "blank_task", "decode_task", "decode_tasks", "encode_task", "encode_tasks", "pack_records"]

Words: TypeAlias = "Sequence[int] | NDArray[np.uint32]"
FRAME = 4
"""Words of a frame; tasks of the framed style start at multiples of it."""
LONGEST, REACH = 64, 16
"""Registers that a dense record writes at most, and how many after its first a scattered one reaches."""


def decode_task(words: Words, generation: int, offset: int = 0) -> Task:
    """Return the task that fills the words; `offset` is its place in the section, in bytes.

    >>> task = decode_task(encode_task(blank_task(7, "compact")), 7)
    >>> task.size, task.integer("common.source_width")
    (126, 0)

    Raises:
        HwxError: The registers of the generation are not known, or the words end within the header or a record.
    """
    layout = layout_of(generation)
    plain = [int(word) for word in words]
    head = header_length(plain, layout, offset)
    return Task(generation, tuple(plain[:head]), tuple(records_of(plain, head, layout.style, offset)), offset)


def encode_task(task: Task) -> tuple[int, ...]:
    """Return the words of a task."""
    body = (word for record in task.records for word in (record.head, *record.values))
    return (*task.header, *body)


def decode_tasks(words: Words, generation: int, first_words: int | None = None) -> tuple[Task, ...]:
    """Return the tasks of a section, in the order in which they run.

    `first_words` is the size of the first task, which the program descriptor gives for the linked style; the framed
    style does not need it.

    Raises:
        HwxError: The registers of the generation are not known, the list of tasks is cyclic or leaves the section,
            two tasks overlap, or a task is not as it should be.
    """
    section = np.asarray(words, dtype=np.uint32)
    if layout_of(generation).style is Style.FRAMED:
        return tuple(read_framed_tasks(section, generation))
    if first_words is None:
        raise HwxError(f"tasks of generation {generation} need the size of the first: the program descriptor gives it")
    return tuple(read_linked_tasks(section, generation, first_words))


def encode_tasks(tasks: Sequence[Task], section: Words = ()) -> tuple[int, ...]:
    """Return a section with each task at its offset; what is between them is taken from `section`, else 0."""
    end = max((task.offset // 4 + task.size for task in tasks), default=0)
    words = [int(word) for word in section]
    words += [0] * (end - len(words))
    for task in tasks:
        words[task.offset // 4 : task.offset // 4 + task.size] = encode_task(task)
    return tuple(words)


def blank_task(generation: int, form: str) -> Task:
    """Return a task of a generation's form in which every register is written as 0.

    >>> blank_task(7, "full").size
    157

    Raises:
        HwxError: No such form is known.
    """
    layout = layout_of(generation)
    if form not in layout.forms:
        raise HwxError(f"generation {generation} has no form {form!r}", limit=tuple(layout.forms))
    records = tuple(Record.dense(layout.style, address, (0,) * count) for address, count in layout.forms[form])
    return Task(generation, (0,) * layout.header_words, records)


def pack_records(values: Mapping[int, int]) -> tuple[Record, ...]:
    """Return records of the framed style that write registers of one block: as few as can be.

    Of two ways that need as many, a run of two or more registers is written densely and a single one scattered. That
    gives the records of every program that was read (inferred from 51 of them).

    >>> [hex(record.first) for record in pack_records({0x4: 1, 0x8: 1, 0xC: 1, 0x14: 1, 0x34: 1, 0x4C: 1})]
    ['0x4', '0x14']
    """
    addresses = sorted(values)
    best = [0] * (len(addresses) + 1)
    ends = [0] * len(addresses)
    for start in range(len(addresses) - 1, -1, -1):
        dense, scattered = run_end(addresses, start), bisect.bisect_right(addresses, addresses[start] + 4 * REACH)
        if best[dense] == best[scattered]:
            ends[start] = dense if dense - start > 1 else scattered
        else:
            ends[start] = min(dense, scattered, key=lambda end: best[end])
        best[start] = 1 + best[ends[start]]
    return tuple(list_packed_records(addresses, ends, values))


def run_end(addresses: Sequence[int], start: int) -> int:
    """Return where a run of registers ends that one dense record can write."""
    end = start + 1
    while end < len(addresses) and end - start < LONGEST and addresses[end] == addresses[end - 1] + 4:
        end += 1
    return end


def list_packed_records(addresses: Sequence[int], ends: Sequence[int], values: Mapping[int, int]) -> Iterator[Record]:
    """Yield the records between the chosen ends."""
    start = 0
    while start < len(addresses):
        chosen = addresses[start : ends[start]]
        if chosen[-1] - chosen[0] == 4 * (len(chosen) - 1):
            yield Record.dense(Style.FRAMED, chosen[0], tuple(values[address] for address in chosen))
        else:
            yield Record.scattered({address: values[address] for address in chosen})
        start = ends[start]


def header_length(words: Sequence[int], layout: Layout, offset: int) -> int:
    """Return the number of header words: one more where the header says so.

    Raises:
        HwxError: The words end within the header.
    """
    length = layout.header_words
    place = layout.place("header.has_dependent")
    if len(words) > place.register.address // 4:
        length += place.field.raw(words[place.register.address // 4])
    if len(words) < length:
        raise HwxError(f"the task at {offset:#x} ends within its header", seen=len(words), limit=length)
    return length


def records_of(words: Sequence[int], start: int, style: Style, offset: int) -> Iterator[Record]:
    """Yield the records of a task.

    Raises:
        HwxError: A record ends after the task, or writes at an address that is not a multiple of 4.
    """
    at = start
    while at < len(words):
        record = Record(style, words[at], ())
        place = offset + 4 * at
        end = at + 1 + record.count
        if end > len(words):
            ends = offset + 4 * end, offset + 4 * len(words)
            raise HwxError(f"the record at {place:#x} ends after its task", seen=f"{ends[0]:#x}", limit=f"{ends[1]:#x}")
        if record.first % 4:
            raise HwxError(f"the record at {place:#x} must write at a multiple of 4", seen=f"{record.first:#x}")
        yield Record(style, words[at], tuple(words[at + 1 : end]))
        at = end


def read_linked_tasks(section: NDArray[np.uint32], generation: int, first_words: int) -> Iterator[Task]:
    """Yield the tasks of the linked style, following their pointers.

    Raises:
        HwxError: A pointer leaves the section, is not a multiple of 4, or leads into a task that was read before.
    """
    starts: list[int] = []
    ends: list[int] = []
    start, size = 0, first_words
    while True:
        expect_within(section, start, size)
        place = bisect.bisect_right(starts, start)
        if (place and ends[place - 1] > start) or (place < len(starts) and starts[place] < start + size):
            raise HwxError(
                f"the task at {4 * start:#x} overlaps one that was read before: the list is cyclic or damaged"
            )
        starts.insert(place, start)
        ends.insert(place, start + size)
        task = decode_task(section[start : start + size].tolist(), generation, 4 * start)
        yield task
        pointer = task.integer("header.next_offset") or 0
        if not pointer:
            return
        if pointer % 4:
            raise HwxError(f"the task at {4 * start:#x} must name the next at a multiple of 4", seen=f"{pointer:#x}")
        start, size = pointer // 4, (task.integer("header.next_words") or 0) + 1


def expect_within(section: NDArray[np.uint32], start: int, size: int) -> None:
    """Check that a task of so many words is in the section of tasks.

    Raises:
        HwxError: It does not, or has no words.
    """
    if size < 1:
        raise HwxError(f"the task at {4 * start:#x} must have words", seen=size)
    if start + size > len(section):
        end, limit = 4 * (start + size), 4 * len(section)
        raise HwxError(f"the task at {4 * start:#x} leaves the section", seen=f"{end:#x}", limit=f"{limit:#x}")


def read_framed_tasks(section: NDArray[np.uint32], generation: int) -> Iterator[Task]:
    """Yield the tasks of the framed style; frames without a size are skipped.

    Raises:
        HwxError: A task leaves the section.
    """
    place = layout_of(generation).place("header.task_words")
    start = 0
    while start < len(section):
        size = place.field.raw(int(section[start]))
        expect_within(section, start, max(size, 1))
        if size:
            yield decode_task(section[start : start + size].tolist(), generation, 4 * start)
        start += FRAME * max(1, -(-size // FRAME))

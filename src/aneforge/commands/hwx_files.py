"""`hwx lint` and `hwx diff`: what rules find in a compiled container, and what differs between two of them."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.validators import validate_container
from aneforge.errors import HwxError
from aneforge.formats.hwx.ane_file import name_file, read_program
from aneforge.formats.hwx.container import OtherCommand, PortBinding
from aneforge.formats.hwx.descriptors.task_lint import lint_tasks
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from aneforge.formats.hwx.container import Container, Section
    from aneforge.formats.hwx.descriptors.task import Task, Word
    from aneforge.rules.rule import Finding

__all__ = ["Difference", "diff", "lint"]

PROGRAM = ("name", "flavor", "task_count", "first_task_words", "live_scratch", "debug_events", "log_events")
"""Fields of a program that are compared by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two containers differ."""

    place: str
    first: str | None
    """None where the first container has no such place."""
    second: str | None
    detail: str = ""
    """What differs within it, where that is known."""


def lint(path: Path) -> tuple[Finding, ...]:
    """Return what rules find in a container and in its tasks; the worst of the container first, then task by task.

    Raises:
        HwxError: It cannot be read, or has no program.
        NoDataError: No target has containers of its kind.
    """
    container = read_program(path)
    validations = validate_container(container, file=str(path))
    found = [one.finding for validation in validations for one in validation.findings]
    found.sort(key=lambda one: one.severity.rank)
    try:
        tasks = tasks_of(container)
    except HwxError:  # a finding of the container says why
        return tuple(found)
    return (*found, *lint_tasks(tasks, str(path)))


def diff(first: Path, second: Path) -> tuple[Difference, ...]:
    """Return where two containers differ: by field, by register, by place in constants, and in what they say.

    Raises:
        HwxError: One of them cannot be read.
    """
    one, other = read_program(first), read_program(second)
    return (
        *differing_texts(dict(describe(one)), dict(describe(other))),
        *differing_tasks(read_tasks(one, first), read_tasks(other, second)),
        *differing_constants(one, other),
        *differing_texts(dict(describe_rest(one)), dict(describe_rest(other))),
        *differing_identifications(one.identification.splitlines(), other.identification.splitlines()),
    )


def differing_texts(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Difference]:
    """Yield the places that are only in one, or have other texts."""
    for place in dict.fromkeys((*first, *second)):
        if first.get(place) != second.get(place):
            yield Difference(place, first.get(place), second.get(place))


def describe(container: Container) -> Iterator[tuple[str, str]]:
    """Yield where everything of a container is, and the fields of its tensors and its program."""
    for field in fields(container.header):
        yield f"header {field.name}", f"{getattr(container.header, field.name):#x}"
    names = number_names(one.name for one in container.segments)
    for name, segment in zip(names, container.segments, strict=True):
        yield f"segment {name}", f"{segment.address:#x}, {segment.size:#x} bytes, flags {segment.flags:#x}"
        yield f"segment {name} in the file", f"{segment.file_offset:#x}, {segment.file_size:#x} bytes"
        for section in segment.sections:
            yield f"section {name}/{section.name}", section_text(section)
    for binding in container.bodies(PortBinding):
        yield f"port {binding.name}", f"{binding.address:#x}"
    for tensor in container.tensors:
        yield f"tensor {tensor.name} shape", "×".join(map(str, (*tensor.shape, tensor.depth)))
        yield f"tensor {tensor.name} strides", ", ".join(map(str, tensor.strides))
        yield f"tensor {tensor.name} element", str(tensor.element)
        yield f"tensor {tensor.name} bytes", f"{tensor.size}, {tensor.transfer_size}"
    yield from describe_program(container)


def describe_program(container: Container) -> Iterator[tuple[str, str]]:
    """Yield the fields of a container's program."""
    program = container.program
    for name in PROGRAM:
        yield f"program {name}", str(getattr(program, name))
    for base in program.bases:
        yield f"base register {base.index}", f"{base.address:#x}"
    for item in program.items or ():
        yield f"program item {item.tag}", str(item.value)


def describe_rest(container: Container) -> Iterator[tuple[str, str]]:
    """Yield symbols, and what is kept without a meaning."""
    symbols = number_names(one.name for one in container.symbols)
    for name, symbol in zip(symbols, container.symbols, strict=True):
        numbers = f"type {symbol.type:#x}, section {symbol.section}, description {symbol.description}"
        yield f"symbol {name}", f"{symbol.value:#x}, {numbers}"
    for number, command in enumerate(container.commands):
        if isinstance(command.body, OtherCommand):
            yield f"command {number} ({command.body.command:#x})", command.body.content.hex()
        for word in command.unnamed:
            yield f"word {word.offset:#x} of command {number}", f"{word.value:#x}"
    for stray in container.strays:
        yield f"bytes at {stray.offset:#x}", bytes(stray.content[:64]).hex()


def differing_identifications(first: list[str], second: list[str]) -> Iterator[Difference]:
    """Yield the lines that only one compiler writes about itself."""
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    for tag, low, high, other_low, other_high in matcher.get_opcodes():
        if tag == "equal":
            continue
        for line in first[low:high]:
            yield Difference("identification", line.strip(), None)
        for line in second[other_low:other_high]:
            yield Difference("identification", None, line.strip())


def section_text(section: Section) -> str:
    """Return a section in one text."""
    relocations = f", {len(section.relocations)} relocations" if section.relocations else ""
    return f"{section.address:#x}, {section.size:#x} bytes, flags {section.flags:#x}{relocations}"


def number_names(names: Iterator[str]) -> list[str]:
    """Return names, those that come again with a number.

    >>> number_names(iter(["a", "b", "a"]))
    ['a', 'b', 'a (2)']
    """
    seen: Counter[str] = Counter()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def read_tasks(container: Container, path: Path) -> tuple[Task, ...]:
    """Return the tasks of a container that a file has.

    Raises:
        HwxError: They cannot be listed; the error names the file.
    """
    with name_file(path):
        return tasks_of(container)


def differing_tasks(first: Sequence[Task], second: Sequence[Task]) -> Iterator[Difference]:
    """Yield the registers in which tasks differ."""
    for number, (left, right) in enumerate(itertools.zip_longest(first, second)):
        if left is None or right is None:
            before, after = (None if one is None else f"{one.size} words" for one in (left, right))
            yield Difference(f"task {number}", before, after)
            continue
        ours, theirs = words_of(left), words_of(right)
        for label in dict.fromkeys((*ours, *theirs)):
            one, other = ours.get(label), theirs.get(label)
            if text_of(one) != text_of(other):
                yield Difference(f"task {number} {label}", text_of(one), text_of(other), differing_fields(one, other))


def words_of(task: Task) -> dict[str, Word]:
    """Return the words of a task by their names; a register that is written again has a number."""
    return dict(zip(number_names(word.label for word in task.words), task.words, strict=True))


def text_of(word: Word | None) -> str | None:
    """Return a word of a task in one text; None where there is none."""
    if word is None:
        return None
    return f"{word.word:#010x}" + ("" if word.slot is None else f" + slot {word.slot}")


def differing_fields(one: Word | None, other: Word | None) -> str:
    """Return the fields in which two values of a register differ."""
    if one is None or other is None or one.register is None or one.register != other.register:
        return ""
    return ", ".join(
        f"{field.name} {field.text(one.word)} → {field.text(other.word)}"
        for field in one.register.fields
        if field.raw(one.word) != field.raw(other.word)
    )


def differing_constants(first: Container, second: Container) -> Iterator[Difference]:
    """Yield the sections of constants that differ, with the number of bytes and the first place."""
    for path in dict.fromkeys((*first.constants, *second.constants)):
        left, right = first.constants.get(path), second.constants.get(path)
        if left is None or right is None or left.content is None or right.content is None:
            before, after = (None if one is None else f"{one.size} bytes" for one in (left, right))
            yield Difference(f"constants {path}", before, after)
            continue
        shared = min(left.size, right.size)
        unequal = np.frombuffer(left.content[:shared], np.uint8) != np.frombuffer(right.content[:shared], np.uint8)
        count = int(np.count_nonzero(unequal))
        if count or left.size != right.size:
            place = f", the first at {int(np.argmax(unequal)):#x}" if count else ""
            detail = f"{count} of {shared} bytes differ{place}"
            yield Difference(f"constants {path}", f"{left.size} bytes", f"{right.size} bytes", detail)

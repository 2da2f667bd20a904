"""Tasks as text: one line of meaning, then every header word and register by name and field.

Fields that are 0 are left out of the short form. Bits that no field names are marked, inferred fields carry a question
mark, and a footnote says what is wrong with a register. The text is made to be searched: one register is one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.errors import HwxError
from aneforge.evidence import EvidenceKind
from aneforge.formats.hwx.descriptors.layout import patch_places
from aneforge.formats.hwx.descriptors.meaning import meaning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.formats.hwx.descriptors.layout import Field
    from aneforge.formats.hwx.descriptors.task import Task, Word

__all__ = ["disassemble", "meaning_line"]

WIDTH = 38
"""Characters of the column of names."""


def disassemble(tasks: Sequence[Task], *, only: int | None = None, raw: bool = False) -> str:
    """Return tasks as text; `only` chooses one by its place, `raw` shows offsets, heads of records and all fields.

    >>> import aneforge as af
    >>> x = af.input((1, 16, 8, 8), name="x")
    >>> container = af.hwx.emit(x.relu(), af.targets.Family.A13, style="v5").files[0].container
    >>> text = disassemble(af.hwx.tasks_of(container))
    >>> print(text[: text.index(";")])
    task 0 at 0x0: 157 words, generation 7
      NE copy, relu: 16×8×8 → 16×8×8

    Raises:
        HwxError: There is no task at that place.
    """
    if only is not None and not 0 <= only < len(tasks):
        raise HwxError("there is no such task", seen=only, limit=len(tasks) - 1)
    chosen = [(place, task) for place, task in enumerate(tasks) if only in {None, place}]
    lines = [line for place, task in chosen for line in task_lines(place, task, raw=raw)]
    return "\n".join([*lines, *footnotes([task for _, task in chosen])])


def meaning_line(task: Task) -> str:
    """Return what a task computes on one line, or why that cannot be said."""
    try:
        return str(meaning(task))
    except HwxError as error:
        return f"not understood: {error}"


def task_lines(place: int, task: Task, *, raw: bool) -> Iterator[str]:
    """Yield the lines of a task."""
    yield f"task {place} at {task.offset:#x}: {task.size} words, generation {task.generation}"
    yield f"  {meaning_line(task)}"
    words = iter(task.words)
    at = task.offset
    for _ in task.header:
        yield word_line(next(words), at if raw else None)
        at += 4
    for record in task.records:
        if raw or record.unknown_bits:
            unknown = marked(record.unknown_bits)
            yield line(at if raw else None, "record", record.head, f"{record_text(record.count, record.slot)}{unknown}")
        for offset in range(record.count):
            yield word_line(next(words), at + 4 + 4 * offset if raw else None)
        at += 4 + 4 * record.count
    yield ""


def word_line(word: Word, at: int | None) -> str:
    """Return the line of a header word or a register: with its offset and all fields where the offset is given."""
    register = word.register
    fields = [one for one in register.fields if at is not None or one.raw(word.word)] if register else []
    note = " [1]" if register and register.patch_width else ""
    slot = "" if word.slot is None else f" + BAR{word.slot}"
    text = ", ".join(field_text(one, word) for one in fields)
    return line(at, word.label, word.word, f"{text}{slot}{marked(word.unknown_bits)}{note}".strip())


def line(at: int | None, label: str, word: int, text: str) -> str:
    """Return one line: offset if wanted, name, word, text."""
    offset = "" if at is None else f"{at:#06x}  "
    return f"  {offset}{label:<{WIDTH}} {word:08x}  {text}".rstrip()


def field_text(field: Field, word: Word) -> str:
    """Return a field and its value; a question mark says that the field is inferred."""
    mark = "?" if field.evidence.kind is EvidenceKind.INFERRED else ""
    alone = word.register is not None and word.register.name == field.name and len(word.register.fields) == 1
    name = "" if alone else field.name
    return f"{name}{mark}{'=' if name or mark else ''}{field.text(word.word)}"


def record_text(count: int, slot: int | None) -> str:
    """Return what a record writes."""
    registers = number_of(count, "register")
    return f"writes {registers}{'' if slot is None else f', plus the address in BAR{slot}'}"


def marked(unknown: int) -> str:
    """Return the mark of bits that are set and that no field names."""
    return f"  unknown bits {unknown:#x}" if unknown else ""


def footnotes(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield what is said below the tasks."""
    yield "?= marks an inferred field; unknown bits are set, and no source names them."
    marked_tasks = (task for task in tasks if any(word.register and word.register.patch_width for word in task.words))
    generations = dict.fromkeys(task.generation for task in marked_tasks)
    places = patch_places()
    for generation in generations:
        place = places[generation]
        yield f"[1] patch width: offset {place.object_offset:#x} of the compiler's object, generation {generation}."
        if place.defect:
            yield f"    Compiler defect: {place.defect}"

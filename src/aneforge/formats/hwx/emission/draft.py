"""A task in the making: values by the names of the register layout, and how it hangs together with its neighbours."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.layout import Layout, layout_of
from aneforge.formats.hwx.descriptors.task import Record, Task
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.hwx.descriptors.layout import Register

__all__ = ["Draft", "Join", "Values", "words_of"]

Values: TypeAlias = "dict[str, float | tuple[int, ...]]"
"""Fields by name, else whole registers by label, or `block+offset` where no name is known.

A tuple fills registers of one form from the first on.
"""


@dataclass(frozen=True, slots=True)
class Join:
    """How a task hangs together with those before and after it."""

    reads_chip: bool = False
    """Some source was left on chip by an earlier task."""
    leaves_on_chip: bool = False
    """The next task reads what this one leaves on chip."""
    paired_before: bool = False
    """Second of a pair that passes results on chip and also names the scratch base register."""
    paired_after: bool = False
    """First of such a pair."""
    copies: bool = False
    """It moves data and computes nothing."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One task without its place in a program."""

    values: Values
    join: Join = field(default_factory=Join)
    full: bool = False
    """It writes the registers of coefficient streams."""
    kernel_from: int | None = None
    """Number of drafts before this one to the task that made its kernel; None where no task did."""

    def with_values(self, values: Values) -> Draft:
        """Return the draft with values changed."""
        return replace(self, values={**self.values, **values})


@cache
def registers_by_label(generation: int) -> Mapping[str, Register]:
    """Return the registers of a generation by block and name."""
    blocks = layout_of(generation).blocks.values()
    return {register.label: register for block in blocks for register in block.registers}


def words_of(layout: Layout, values: Mapping[str, float | tuple[int, ...]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return header words by number and registers by address.

    Raises:
        UnknownNameError: The generation has neither a field nor a register of a name.
        HwxError: A value does not fit its field.
    """
    labels = registers_by_label(layout.generation)
    header: dict[int, int] = {}
    registers: dict[int, int] = {}
    for name, value in values.items():
        block, _, offset = name.partition("+")
        if offset:
            (word,) = value if isinstance(value, tuple) else (value,)
            registers[layout.blocks[block].address + int(offset, 16)] = int(word)
            continue
        whole = labels.get(name) if name not in layout.fields else None
        register = whole or layout.place(name).register
        held = header if register.block == "header" else registers
        for index, one in enumerate(value if isinstance(value, tuple) else (value,)):
            at = register.address // 4 if held is header else register.address + 4 * index
            held[at] = int(one) if whole else layout.place(name).field.with_value(held.get(at, 0), one)
    return header, registers


def build_linked_task(generation: int, form: str, values: Values, *, extra_words: int = 0, offset: int = 0) -> Task:
    """Return a task of the linked style in one of its forms.

    Raises:
        HwxError: A value is for a register that the form does not write.
    """
    layout = layout_of(generation)
    header, registers = words_of(layout, values)
    records: list[Record] = []
    for address, count in layout.forms[form]:
        held = tuple(registers.pop(address + 4 * place, 0) for place in range(count))
        records.append(Record.dense(layout.style, address, held))
    if registers:
        left = ", ".join(layout.label_at(address) for address in sorted(registers))
        raise HwxError(f"form {form!r} does not write {left}")
    words = tuple(header.get(number, 0) for number in range(layout.header_words + extra_words))
    return Task(generation, words, tuple(records), offset)


def link(drafts: Sequence[Draft], generation: int = 7, *, full: bool = False) -> tuple[Task, ...]:
    """Return the tasks of a program of the linked style: numbered, with events, flags and the place of the next.

    `full` writes every register in every task, as compilers before v7 did.
    """
    forms = ["full" if draft.full or full else "compact" for draft in drafts]
    layout = layout_of(generation)
    extra = [0 if draft.kernel_from is None else 1 for draft in drafts]
    sizes = [
        layout.header_words + more + sum(count + 1 for _, count in layout.forms[form])
        for form, more in zip(forms, extra, strict=True)
    ]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + -(-4 * size // TASK_ALIGNMENT) * TASK_ALIGNMENT)
    made: list[Task] = []
    for index, draft in enumerate(drafts):
        last = index == len(drafts) - 1
        head = header_values(draft, index, len(drafts))
        if not last:
            head["header.next_words"] = sizes[index + 1] - 1
            head["header.next_offset"] = offsets[index + 1]
        task = build_linked_task(
            generation, forms[index], {**draft.values, **head}, extra_words=extra[index], offset=offsets[index]
        )
        made.append(task)
    return tuple(made)


TASK_ALIGNMENT = 0x100
"""Tasks begin at multiples of it."""


def header_values(draft: Draft, index: int, count: int) -> Values:
    """Return identity, events and flags of a task: patterns of the programs that were seen."""
    first, last, join = index == 0, index == count - 1, draft.join
    values: Values = {
        "header.task_id": index,
        "header.later": int(not first),
        "header.last": int(last),
        "header.execution_cycles": estimate(draft.values),
        "header.log_events": EVENTS[first, last],
        "header.debug_log_events": debug_events(draft, first=first, last=last),
        "header.spl": int(join.paired_before or not join.reads_chip),
        "header.tsr": int(join.paired_after or not join.leaves_on_chip),
        "header.tse": int(join.paired_after or not join.leaves_on_chip),
        "header.dpc": int(join.paired_after),
        "header.spc": int(join.paired_before),
        "header.next_bar_enable": int(not last),
    }
    if draft.kernel_from is not None:
        values["header.has_dependent"] = 1
        values["header.dependent_task"] = index - draft.kernel_from
    return values


BYTES_PER_CYCLE = 34_000
MOST_CYCLES = 0xFFFF


def estimate(values: Values) -> int:
    """Return a task's estimate of time: modelled, by the bytes that it moves.

    The compiler's own formula is not known; this gives its number for 77 of the 100 tasks that were read.
    """
    moved = 0.0
    for name in ("source.source1_depth_stride", "source.source2_depth_stride", "destination.result_depth_stride"):
        moved += one if isinstance(one := values.get(name, 0), (int, float)) else 0
    streams = values.get("kernel_source.coefficient_size", ())
    moved += sum(streams) if isinstance(streams, tuple) else 0
    return min(int(moved // BYTES_PER_CYCLE), MOST_CYCLES)


EVENTS = {(True, True): 0x42A, (True, False): 0x408, (False, False): 0x400, (False, True): 0x422}
"""Logged events by whether a task is the first and the last."""
COMPUTING = 0xFFF800
"""Debug events of tasks that compute, in addition to those of the first and last task."""
REDUCED_TABLE = 0x2000
"""Debug event that tasks with the accumulator path of range-reduced tables leave out."""


def debug_events(draft: Draft, *, first: bool, last: bool) -> int:
    """Return the debug events of a task."""
    ends = (0x68 if first else 0) | (0x6A if last else 0)
    if draft.join.copies:
        return ends
    return (COMPUTING | ends) & ~(REDUCED_TABLE if draft.values.get("common.dpe_category") else 0)

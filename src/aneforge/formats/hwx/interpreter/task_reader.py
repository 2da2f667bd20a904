"""Reads the operands of a task: where sources and results are, and which registers have values of no known effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.meaning import TaskOperation
from aneforge.formats.hwx.interpreter.address_views import ELEMENT, Five, View
from aneforge.formats.hwx.interpreter.steps import Source
from aneforge.formats.hwx.interpreter.task_memory import L2, Place
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.formats.hwx.descriptors.meaning import Extents, Operand, Surface, TaskMeaning
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.formats.hwx.interpreter.task_memory import Memory

__all__ = ["TaskReader"]

STAYS_IN_L2 = 1
"""Type code of a source that is read by DMA and kept in L2 for later tasks."""
EXPECTED: Mapping[str, float] = {
    "header.skip": 0,
    "common.element_multiply": 0,
    "kernel_source.auxiliary_enable": 0,
    "source.pixel_offset": 0,
    **{f"source.source{number}_{name}": 0 for number in (1, 2) for name in ("shift", "channel_offset", "compression")},
    **{f"destination.result_{name}": 0 for name in ("shift", "channel_offset", "compression")},
    **{f"l2.{side}_dma_{name}": 0 for side in ("source1", "result") for name in ("compression", "channel_offset")},
}
"""Fields of every task whose other values have no known effect."""
FP16_IN_MEMORY: Mapping[str, float] = {"memory_format": 2, "truncate": 3}
"""Fields of the DMA of a tensor of fp16; others are of other elements."""
COMPUTING_BLOCKS = ("common", "pe", "ne")
"""Blocks in which a bit that no field names may change what is computed."""
HARMLESS = {"source+0x40": 0x100}
"""Words that no field names, by label: set in files whose results are known with them and without."""
SEEN: Mapping[str, int] = {"common.lanes": 0x3F8, "common.config": 0x1_0000, "ne.kernel_config": 0x1_0000}
"""Bits that no field names and that programs of later generations have in tasks whose operation is known."""


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads one task."""

    index: int
    task: Task
    meaning: TaskMeaning
    memory: Memory[Any]

    def refuse(self, register: str, message: str, *, seen: object = None, limit: object = None) -> HwxError:
        """Return the error for a register whose value has no known effect."""
        return HwxError(f"task {self.index}: {register}: {message}", seen=seen, limit=limit)

    def expect_common(self) -> None:
        """Raise the error for a register of any task that has a value of no known effect, or for a task of no group."""
        self.expect(EXPECTED)
        if not self.meaning.groups:
            raise self.refuse("common.groups", "a task must have a group", seen=0, limit=1)
        waited = self.meaning.dependent_task
        if waited is not None and waited >= self.index:
            raise self.refuse(
                "header.dependent_task", "the task that is waited for must be an earlier one", seen=waited
            )

    def expect(self, fields: Mapping[str, float]) -> None:
        """Raise the error for the first field that has a different value than the one whose effect is known."""
        for name, value in fields.items():
            for seen in self.numbers(name):
                if seen != value:
                    raise self.refuse(
                        name, "the effect of this value is not known", seen=f"{seen:g}", limit=f"the value {value:g}"
                    )

    def numbers(self, name: str) -> Iterator[float]:
        """Yield the values of a field, of each register that has it, where they are written or have a default."""
        if not self.task.layout.has(name):
            return
        place = self.task.layout.place(name)
        words = (self.task.word(name, index) for index in range(place.register.count))
        yield from (float(place.field.value(word)) for word in words if word is not None)

    def expect_in_memory(self, side: str, name: str) -> None:
        """Raise the error for a tensor in memory that is not fp16, or whose base register is not enabled."""
        self.expect({f"{side}.{name}_{field}": value for field, value in FP16_IN_MEMORY.items()})
        self.expect({f"header.{name}_bar_enable": 1, f"l2.{name}_dma_format": 1})

    def doubts(self) -> Iterator[str]:
        """Yield what makes the step less sure.

        Raises:
            HwxError: A bit that no field names is set where it may change what is computed.
        """
        for word in self.task.unknown:
            block = word.label.split(".")[0].split("+")[0]
            if block in COMPUTING_BLOCKS and word.unknown_bits & ~SEEN.get(word.label, 0):
                raise self.refuse(word.label, "bits are set that no field names", seen=f"{word.unknown_bits:#x}")
            if block != "header" and HARMLESS.get(word.label) != word.word:
                yield f"task {self.index}: {word.label} has bits that no field names ({word.unknown_bits:#x})"
        if self.meaning.relu_of_source:
            yield f"task {self.index}: l2.input_relu is interpreted only by its name"
        if any(source.transposed for source in self.meaning.sources):
            yield f"task {self.index}: common.planar_layout: no real program exchanges axes of a source"

    # Tensors.

    def memory_view(self, surface: Surface, extents: Five, register: str, bar: str) -> View:
        """Return an operand in memory.

        Raises:
            HwxError: A stride is not known, or the base register points nowhere.
        """
        place = self.memory.find(surface.bar, self.index, bar)
        given = (surface.group, surface.plane, surface.depth, surface.row)
        interleave = surface.interleave or 1
        return self.view(place, surface.base, extents, given, register, interleave)

    def l2_view(self, operand: Operand, extents: Five, register: str) -> View:
        """Return an operand in L2.

        Raises:
            HwxError: A stride is not known.
        """
        place = operand.l2
        given = (place.group, place.channel, place.depth, place.row)
        return self.view(Place(L2, 0), place.base, extents, given, register, 1)

    def view(
        self,
        place: Place,
        base: int,
        extents: Five,
        given: tuple[int | None, int | None, int | None, int | None],
        register: str,
        interleave: int,
    ) -> View:
        """Return a view; a stride that the task does not write belongs to an axis of one element.

        Raises:
            HwxError: It does not.
        """
        for stride, extent in zip(given, extents, strict=False):
            if stride is None and extent > 1:
                raise self.refuse(register, "a stride is not written, and its default is not known", seen=extents)
        strides = tuple(stride or 0 for stride in given)
        group, plane, depth, row = strides
        five = (group, plane, depth, row, ELEMENT * interleave)
        return View(place.space, place.offset + base, extents, five, register, interleave)

    def source(self, number: int, operand: Operand) -> Source:
        """Return a source.

        Raises:
            HwxError: It is not fp16, or is not where a task can read it.
        """
        name = f"source{number}"
        if operand.format != "fp16":
            raise self.refuse(f"common.{name}_format", "only fp16 is understood", seen=operand.format)
        extents = self.source_extents(number, operand)
        if operand.transposed:
            extents = exchange(extents)
        l2 = self.l2_view(operand, extents, f"l2.{name}_l2_base")
        if operand.memory is None:
            return Source(l2, exchanged=operand.transposed)
        self.expect_in_memory("source", name)
        view = self.memory_view(operand.memory, extents, f"source.{name}_base", f"header.{name}_bar")
        stays = number == 1 and operand.l2.kind == STAYS_IN_L2
        fits = l2.strides[1] >= ELEMENT * extents[4] or extents[1] == 1
        return Source(
            view,
            kept=l2 if stays else None,
            buffer=l2 if not stays and fits else None,
            exchanged=operand.transposed,
        )

    def source_extents(self, number: int, operand: Operand) -> Five:
        """Return the extents of a source: statistics are two rows of one element."""
        if self.meaning.operation is TaskOperation.NORMALISE and number > 1:
            return (self.meaning.groups, operand.extents.channels, 1, 2, 1)
        return five_of(self.meaning.groups, operand.extents)

    def results(self) -> tuple[View, ...]:
        """Return where the result goes.

        Raises:
            HwxError: It is not fp16, or goes nowhere.
        """
        operand = self.meaning.result
        if operand.format != "fp16":
            raise self.refuse("common.result_format", "only fp16 is understood", seen=operand.format)
        extents = five_of(self.meaning.groups, operand.extents)
        if operand.transposed:
            extents = exchange(extents)
        views: list[View] = []
        if operand.memory is not None:
            self.expect_in_memory("destination", "result")
            views.append(self.memory_view(operand.memory, extents, "destination.result_base", "header.result_bar"))
        if not operand.streamed:
            views.append(self.l2_view(operand, extents, "l2.result_l2_base"))
        if not views:
            raise self.refuse("destination.result_enable", "the result streams through L2 and is written nowhere")
        return tuple(views)


def five_of(groups: int, extents: Extents) -> Five:
    """Return extents with the groups before them."""
    return groups, extents.channels, extents.depth, extents.height, extents.width


def exchange(extents: Five) -> Five:
    """Return extents with channels and width exchanged."""
    groups, channels, depth, height, width = extents
    return groups, width, depth, height, channels

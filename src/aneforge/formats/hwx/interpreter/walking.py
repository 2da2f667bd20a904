"""Goes through the tasks of a container in their order: reads their sources, has them computed, writes the results.

The caller says what an element is: bits for a run, names for a graph. Order and addresses are the file's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.container import Direction
from aneforge.formats.hwx.descriptors.layout import layout_of
from aneforge.formats.hwx.interpreter.address_views import View
from aneforge.formats.hwx.interpreter.steps import Convolution, RuntimeKernel
from aneforge.formats.hwx.interpreter.task_memory import Memory
from aneforge.formats.hwx.interpreter.understanding import understand
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Container, Port
    from aneforge.formats.hwx.interpreter.steps import Step

__all__ = ["Computer", "Program"]

FP16 = 5
"""Element type of ports that are understood."""
MOST_WORK = 2**38
"""Products and elements of all tasks; the largest real networks for images have a hundredth of that."""
Element = TypeVar("Element", np.uint16, np.int64)


class Computer(Protocol[Element]):
    """What computes a step."""

    def compute(
        self, step: Step, sources: tuple[NDArray[Element], ...], kernel: NDArray[Element] | None
    ) -> NDArray[Element]:
        """Return the result of a step, given its sources and the weights that an earlier task wrote."""
        ...


@dataclass(frozen=True, slots=True)
class PortView:
    """A port, and its tensor in memory."""

    port: Port
    view: View


class Program(Generic[Element]):
    """A container's tasks and the memory that they work on."""

    def __init__(self, container: Container, dtype: type[Element]) -> None:
        base = layout_of(container.generation).place("l2.source1_l2_base").field
        self.container = container
        self.memory: Memory[Element] = Memory(container, (1 << base.width) * base.unit, dtype)
        self.ports = {port.name: self._port(port) for port in container.ports}

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What the program reads."""
        return tuple(one.port for one in self.ports.values() if one.port.direction is Direction.INPUT)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What the program writes."""
        return tuple(one.port for one in self.ports.values() if one.port.direction is Direction.OUTPUT)

    def set_input(self, name: str, values: NDArray[Element]) -> None:
        """Write an input, of the port's shape."""
        view = self.ports[name].view
        self.memory.put(view, values.reshape(view.extents))

    def output(self, name: str) -> NDArray[Element]:
        """Return an output, of the port's shape.

        Raises:
            HwxError: No task wrote it.
        """
        held = self.ports[name]
        return self.memory.read(held.view, held.view.register).reshape(held.port.shape)

    def run(self, computer: Computer[Element]) -> None:
        """Do every step.

        Raises:
            HwxError: A task is not understood, leaves its memory, or reads what was not written.
        """
        spent = 0
        for step in self.steps():
            spent += step.cost
            if spent > MOST_WORK:
                raise HwxError(f"task {step.index}: the program has too much to do", seen=spent, limit=MOST_WORK)
            self.do(step, computer)

    def steps(self) -> Iterator[Step]:
        """Yield the tasks as steps.

        Raises:
            HwxError: One is not understood.
        """
        for index, task in enumerate(tasks_of(self.container)):
            yield understand(index, task, self.memory)

    def do(self, step: Step, computer: Computer[Element]) -> None:
        """Do one step: read, compute, write.

        Raises:
            HwxError: It reads what was not written, or the result has other extents than the task says.
        """
        sources = tuple(
            turn(self.memory.read(one.view, step.place(one.view)), exchanged=one.exchanged) for one in step.sources
        )
        kernel = self._kernel(step)
        for source, values in zip(step.sources, sources, strict=True):
            if source.buffer is not None:
                self.memory.forget(source.buffer)
            if source.kept is not None:
                self.memory.write(source.kept, turn(values, exchanged=source.exchanged), step.place(source.kept))
        result = computer.compute(step, sources, kernel)
        if result.shape != step.result_shape:
            raise HwxError(
                f"task {step.index}: common.result_dimensions: the result has other extents than the work gives",
                seen=step.result_shape,
                limit=result.shape,
            )
        for view in step.results:
            self.memory.write(view, turn(result, exchanged=step.exchanged), step.place(view))

    def _kernel(self, step: Step) -> NDArray[Element] | None:
        work = step.work
        if not isinstance(work, Convolution) or not isinstance(work.kernel, RuntimeKernel):
            return None
        space = self.memory.space(work.kernel.space)
        if not space.written[work.kernel.places].all():
            raise HwxError(f"task {step.index}: {work.kernel.register}: no earlier task wrote the weights")
        return space.values[work.kernel.places]

    def _port(self, port: Port) -> PortView:
        where = f"port {port.name!r}"
        if port.element != FP16:
            raise HwxError(f"{where}: only fp16 is understood", seen=port.element_name)
        if port.depth != 1:
            raise HwxError(f"{where}: only planes are understood", seen=port.depth, limit=1)
        place = self.memory.locate(port.address, where)
        batch, channels, height, width = port.shape
        by_batch, by_channel, by_row, by_element = port.strides
        extents, strides = (batch, channels, 1, height, width), (by_batch, by_channel, 0, by_row, by_element)
        view = View(place.space, place.offset, extents, strides, where)
        return PortView(port, view.checked(where, self.memory.room(place.space)))


def turn(values: NDArray[Element], *, exchanged: bool) -> NDArray[Element]:
    """Return a tensor with channels and width exchanged, where they are."""
    return np.swapaxes(values, 1, 4) if exchanged else values

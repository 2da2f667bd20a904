"""From a task to a step: tensors in memory, and work that an engine or a graph can do.

A task is understood as a whole or refused: the error names the task and the register whose value has no known effect.
Registers that change nothing of what is computed (hints, events, sizes of tiles) are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aneforge.formats.hwx.descriptors.meaning import Engine, meaning
from aneforge.formats.hwx.interpreter.neural_work import neural_work
from aneforge.formats.hwx.interpreter.planar_work import planar_work
from aneforge.formats.hwx.interpreter.steps import Step
from aneforge.formats.hwx.interpreter.task_reader import TaskReader

if TYPE_CHECKING:
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.formats.hwx.interpreter.task_memory import Memory

__all__ = ["understand"]


def understand(index: int, task: Task, memory: Memory[Any]) -> Step:
    """Return a task as a step.

    Raises:
        HwxError: The effect of a register is not known; the error names the task and the register.
    """
    found = meaning(task)
    reader = TaskReader(index, task, found, memory)
    reader.expect_common()
    sources = tuple(reader.source(number, operand) for number, operand in enumerate(found.sources, 1))
    results = reader.results()
    for view in (*(source.view for source in sources), *results):
        view.checked(f"task {index}: {view.register}", memory.room(view.space))
    return Step(
        index=index,
        meaning=found,
        sources=sources,
        results=results,
        exchanged=found.result.transposed,
        relu_of_source=found.relu_of_source,
        work=neural_work(reader) if found.engine is Engine.NEURAL else planar_work(reader),
        doubts=tuple(reader.doubts()),
    )

"""The tasks of a compiled program next to its layers, as a report has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.meaning import meaning
from aneforge.formats.hwx.program_tasks import tasks_of
from aneforge.report.model import Emission, EmittedTask, RefusedLayer
from aneforge.runtime.hwx.emit_program import emit_compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.compile import Compiled
    from aneforge.formats.hwx.descriptors.meaning import TaskMeaning
    from aneforge.formats.hwx.descriptors.task import Task

__all__ = ["emission_of"]


def emission_of(compiled: Compiled, carried: Mapping[str, tuple[int, ...]]) -> Emission:
    """Return the tasks of a program with the layers that they compute, and the layers that no known program computes.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import compile_graph
    >>> compiled = compile_graph(af.input((1, 16, 8, 8)).relu().max_pool(2), af.targets.Family.A13)
    >>> found = emission_of(compiled, {})
    >>> [(one.layer, one.engine) for one in found.tasks], [one.rule for one in found.refused]
    ([('t1', 'NE')], ['ANE-EMIT-001'])
    """
    try:
        made = emit_compiled(compiled)
    except HwxError as error:
        return Emission(failure=str(error))
    tasks = tuple(
        EmittedTask(
            file=number,
            task=place,
            layer=file.layers[place],
            engine=str(found.engine),
            computes=f"{found.formula}: {found.shapes}",
            registers=registers_of(task, found),
            nodes=carried.get(file.layers[place], ()),
        )
        for number, file in enumerate(made.files)
        for place, task in enumerate(tasks_of(file.container))
        for found in (meaning(task),)
    )
    target = compiled.program.target
    refused = tuple(
        RefusedLayer(
            one.name, one.kind, found.rule, one.reason.removeprefix(f"{found.rule}: "), carried.get(one.name, ())
        )
        for one in made.refused
        for found in (one.finding(target),)
    )
    named = {one.layer for one in (*tasks, *refused)}
    idle = tuple(layer.name for layer in compiled.program.layers if layer.name not in named)
    return Emission(tasks, refused, idle)


def registers_of(task: Task, found: TaskMeaning) -> str:
    """Return what a task's registers say of its place: rows on chip, pieces of work, tensors in memory."""
    row, tile = (task.integer(name) or 0 for name in ("l2.source1_l2_row", "common.tile_height"))
    words = [f"row stride {row:#x}", f"tile of {number_of(tile, 'row')}"]
    if found.patch is not None:
        words.append("patch of {}×{}".format(*found.patch))
    elif task.layout.has("common.rows_most_log2"):
        most = task.integer("common.rows_most_log2") or 0
        words.append(f"work unit of up to {number_of(1 << most, 'row')}")
    return f"{', '.join(words)}; {found.places}"

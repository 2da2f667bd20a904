"""Which layer each task of a container of ours computes: lines of its identification text."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TaskLayer", "layer_lines", "layers_noted", "task_runs"]

LINE = re.compile(r"tasks? (\d+)(?: to (\d+))?: (\S+) \((\S+)\)")
MOST_TASKS = 1 << 20
"""Tasks that a line may name; a file that says more is not one of ours."""


@dataclass(frozen=True, slots=True)
class TaskLayer:
    """The layer that a task computes."""

    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def layer_lines(layers: Mapping[int, TaskLayer]) -> Iterator[str]:
    """Yield the lines that say which tasks compute which layer.

    >>> add, norm = TaskLayer("t1", "add"), TaskLayer("t2", "layer_norm")
    >>> list(layer_lines({0: add, 1: norm, 2: norm, 3: norm}))
    ['task 0: t1 (add)', 'tasks 1 to 3: t2 (layer_norm)']
    """
    for layer, first, last in task_runs(layers):
        yield f"task {first}: {layer}" if first == last else f"tasks {first} to {last}: {layer}"


def task_runs(layers: Mapping[int, TaskLayer]) -> Iterator[tuple[TaskLayer, int, int]]:
    """Yield each layer with its first and its last task."""
    for layer, run in itertools.groupby(sorted(layers), key=lambda task: layers[task]):
        tasks = list(run)
        yield layer, tasks[0], tasks[-1]


def layers_noted(identification: str) -> dict[int, TaskLayer]:
    r"""Return the layers that an identification text names, by their tasks; none for files of other compilers.

    >>> layers_noted("aneforge 1\ntasks 1 to 2: t2 (add)")
    {1: TaskLayer(name='t2', kind='add'), 2: TaskLayer(name='t2', kind='add')}
    """
    found: dict[int, TaskLayer] = {}
    for line in identification.splitlines():
        noted = LINE.fullmatch(line.strip())
        if noted is None:
            continue
        first, last = int(noted[1]), int(noted[2] or noted[1])
        if first <= last < MOST_TASKS:
            found |= dict.fromkeys(range(first, last + 1), TaskLayer(noted[3], noted[4]))
    return found

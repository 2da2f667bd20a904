"""Holds tasks against what descriptors of real programs have: rules `ANE-TASK-*` of the rule engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import Location
from aneforge.formats.hwx.descriptors.layout import Style
from aneforge.rules.catalogue import rules
from aneforge.rules.subject import TASK, Operation
from aneforge.targets import database, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.ops.signature import AttributeValue
    from aneforge.rules.rule import Finding

__all__ = ["lint_tasks"]

COMPARED = {
    "later": "header.later",
    "last": "header.last",
    "neural_cores": "header.neural_cores",
    "info_network_id": "common.info_network_id",
    "kernel_bar_enable": "header.kernel_bar_enable",
    "kernel_enable": "kernel_source.enable",
    "result_buffer_mode": "destination.result_buffer_mode",
    "result_streamed": "l2.result_streamed",
    "source_in_memory": "header.source_in_memory",
    "source1_enable": "source.source1_enable",
    "result_in_memory": "header.result_in_memory",
    "result_enable": "destination.result_enable",
    "disallow_abort": "header.disallow_abort",
    "hand_over_producer": "ne.hand_over_producer",
    "next_bar_enable": "header.next_bar_enable",
    "source2_bar_enable": "header.source2_bar_enable",
    "source2_by_dma": "common.source2_by_dma",
    "source2_present": "l2.source2_present",
}
"""Fields that rules hold against one another, by the name of the attribute."""


def lint_tasks(tasks: Sequence[Task], file: str | None = None) -> tuple[Finding, ...]:
    """Return what the rules find in the tasks of a program, in the order of tasks and then the worst first."""
    known = [one for one in rules().values() if one.ops is not None and TASK in one.ops]
    found: list[Finding] = []
    for index, task in enumerate(tasks):
        subject = subject_of_task(task, index, len(tasks), file)
        target = resolve(database().descriptors[task.generation].targets[0])
        judged = (one.check(subject, target) for one in known)
        found += sorted((one for one in judged if one), key=lambda one: (one.severity.rank, one.rule))
    return tuple(found)


def subject_of_task(task: Task, index: int, count: int, file: str | None = None) -> Operation:
    """Return a task as rules see it.

    Relations between registers were checked only in the linked style; of other tasks rules see number and last mark.
    """
    place: dict[str, AttributeValue] = {
        "index": index,
        "task_id": task.integer("header.task_id"),
        "is_later": int(index > 0),
        "is_last": int(index == count - 1),
        "is_followed": int(index < count - 1),
    }
    linked = task.layout.style is Style.LINKED
    names = COMPARED if linked else {"last": COMPARED["last"]}
    fields = {name: task.integer(field) for name, field in names.items() if task.layout.has(field)}
    more: dict[str, AttributeValue] = dict(list_linked_attributes(task, index, count)) if linked else {}
    return Operation(TASK, attributes={**place, **fields, **more}, location=Location(file, node=f"task {index}"))


def list_linked_attributes(task: Task, index: int, count: int) -> Iterator[tuple[str, AttributeValue]]:
    """Yield what rules see of a task in addition to its fields."""
    neural = task.integer("header.neural_cores")
    planar = task.flag("common.task_type")
    yield "is_neural", int(bool(neural))
    yield "cores_of_config", 0 if planar else (task.integer("common.active_cores_log2") or 0) + 1
    yield "first_block", task.layout.blocks["kernel_source"].address
    yield "first_record", task.records[0].first if task.records else -1
    patterns = task.layout.patterns
    if patterns is None:
        return
    words = {"flags": "header.spl", "log_events": "header.log_events", "debug_log_events": "header.debug_log_events"}
    known = {"flags": patterns.flags, "log_events": patterns.log_events, "debug_log_events": patterns.debug_log_events}
    for name, field in words.items():
        yield name, f"{(task.word(field) or 0) & known[name].mask:#x}"
        yield f"usual_{name}", tuple(f"{value:#x}" for value in known[name].values(index, count))

"""Rules about descriptors: tasks of our own making keep them, and each is broken by one field."""

from dataclasses import replace

import pytest

from aneforge.formats.hwx.descriptors.codec import decode_task, encode_task
from aneforge.formats.hwx.descriptors.task import Task
from aneforge.formats.hwx.descriptors.task_lint import lint_tasks
from hwx_tasks import convolution, copy_task, data_folder, framed_add, linked, oracles, planar_add


def chain() -> tuple[Task, ...]:
    """Return two tasks with flags and events of a first and a last one."""
    first, last = linked(copy_task(), convolution())
    return (
        first.with_fields({"header.log_events": 0x408, "header.debug_log_events": 0x68}),
        last.with_fields({"header.log_events": 0x422, "header.debug_log_events": 0xFFF86A}),
    )


def found(*tasks: Task) -> list[str]:
    return [finding.rule for finding in lint_tasks(tasks)]


@pytest.mark.parametrize("tasks", [(planar_add(),), (convolution(),), (copy_task(),), (framed_add(),), chain()])
def test_tasks_as_they_should_be(tasks: tuple[Task, ...]) -> None:
    assert lint_tasks(tasks) == ()


@pytest.mark.parametrize(
    ("rule", "field", "value"),
    [
        ("ANE-TASK-001", "header.task_id", 1),
        ("ANE-TASK-002", "header.later", 1),
        ("ANE-TASK-003", "header.last", 0),
        ("ANE-TASK-004", "header.neural_cores", 4),
        ("ANE-TASK-005", "common.info_network_id", 0),
        ("ANE-TASK-006", "header.kernel_bar_enable", 0),
        ("ANE-TASK-007", "destination.result_buffer_mode", 0),
        ("ANE-TASK-009", "header.source_in_memory", 0),
        ("ANE-TASK-010", "header.result_in_memory", 0),
        ("ANE-TASK-011", "header.disallow_abort", 1),
        ("ANE-TASK-012", "header.next_bar_enable", 1),
        ("ANE-TASK-013", "common.source2_by_dma", 1),
        ("ANE-TASK-013", "l2.source2_present", 1),
        ("ANE-TASK-014", "header.spl", 0),
        ("ANE-TASK-015", "header.log_events", 0x408),
        ("ANE-TASK-016", "header.debug_log_events", 0xFFF868),
    ],
)
def test_one_field_breaks_one_rule(rule: str, field: str, value: int) -> None:
    assert found(convolution().with_fields({field: value})) == [rule]


def test_a_flag_that_claims_one_more_header_word() -> None:
    words = list(encode_task(planar_add().with_fields({"header.has_dependent": 1})))
    assert found(decode_task([*words[:10], 0, *words[10:]], 7)) == []
    swallowed = decode_task(words[:11], 7)
    assert "ANE-TASK-008" in found(replace(swallowed, records=planar_add().records[1:]))
    assert "ANE-TASK-008" in found(swallowed)


def test_places_in_a_chain() -> None:
    first, last = chain()
    assert found(first, last, last) == [
        *("ANE-TASK-003", "ANE-TASK-012", "ANE-TASK-014", "ANE-TASK-015", "ANE-TASK-016"),
        "ANE-TASK-001",
    ]
    assert found(last, first)[0] == "ANE-TASK-001"


def test_a_table_that_needs_the_accumulator_changes_the_debug_events() -> None:
    assert found(convolution().with_fields({"header.debug_log_events": 0xFFD86A, "common.dpe_category": 1})) == []


def test_later_generations_have_numbers_and_no_flags_of_generation_7() -> None:
    task = framed_add()
    assert found(task, task) == ["ANE-TASK-001"]


def test_a_finding_names_file_and_task() -> None:
    (finding,) = lint_tasks((convolution().with_fields({"header.later": 1}),), "model.hwx")
    assert str(finding) == (
        "ANE-TASK-002 reject: task at node 'task 0' of model.hwx on h13: LNID is 1 and must be 0: it is set on every "
        "task but the first. Remedy: set bit 24 of header word 0."
    )
    assert finding.evidence is not None
    assert finding.evidence.kind == "decoded"


def test_real_programs_break_no_rule() -> None:
    for oracle in oracles(data_folder()):
        if ".td" not in oracle.name:
            tasks = [decode_task(words, oracle.generation) for words in oracle.tasks]
            assert lint_tasks(tasks) == (), oracle.name

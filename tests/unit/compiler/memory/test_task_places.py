"""The planner places the tasks of layers on chip; descriptors have what it chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.work import work_of
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.memory.print_plan import plan_from_json, plan_json
from aneforge.runtime.hwx.emit_program import emit_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.graph.tensor import Tensor
    from aneforge.targets.work_units import TaskPlace


def convolution(channels: int, rows: int, width: int, outputs: int, side: int, stride: int = 1) -> Tensor:
    weights = np.ones((outputs, channels, side, side), np.float16)
    return af.conv(af.input((1, channels, rows, width)), weights, pad=side // 2, stride=stride)


def registers(task: Task) -> tuple[int | None, ...]:
    """Return what a task says of its place: strides on chip, rows of a tile, work unit or patch."""
    names = ("l2.source1_l2_channel", "l2.source1_l2_row", "common.tile_height")
    unit = ("common.rows_most_log2", "common.rows_preferred_log2", "common.rows_least_log2")
    planar = ("common.patch_width_log2", "common.patch_height_log2")
    return tuple(task.integer(name) for name in (*names, *(planar if task.integer("common.task_type") else unit)))


def chosen(place: TaskPlace | None) -> tuple[int, ...]:
    assert place is not None
    unit = place.unit
    pieces = (place.patch or ()) if unit is None else (unit.most, unit.preferred, unit.least)
    return (place.channel, place.row, place.tile, *pieces)


MAP = (1, 24, 6, 10)
LAYERS: dict[str, tuple[Callable[[], Tensor], list[str]]] = {
    "convolution": (lambda: convolution(64, 16, 16, 32, 3), ["streamed"]),
    "large map": (lambda: convolution(64, 300, 128, 16, 3), ["streamed"]),
    "several tasks": (lambda: convolution(24, 6, 10, 56, 1, stride=2), ["resident"] * 3),
    "table": (lambda: af.input(MAP).tanh(), ["neural"]),
    "scalar": (lambda: af.input(MAP) * 0.5, ["planar"]),
    "pair": (lambda: af.input(MAP, name="x") + af.input(MAP, name="y"), ["pair"]),
    "repeated": (lambda: af.input(MAP, name="x") * af.input((1, 24, 1, 1), name="y"), ["repeated", "pair"]),
    "table after a convolution": (lambda: convolution(24, 6, 10, 24, 1).sigmoid(), ["streamed", "neural"]),
    "turned": (lambda: af.input(MAP).transpose((0, 2, 1, 3)), ["turned"]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_descriptors_have_the_places_of_the_plan(name: str) -> None:
    graph, expected = LAYERS[name]
    compiled = compile_graph(graph(), "m1")
    (places,) = compiled.plan.places
    (file,) = emit_compiled(compiled).files
    tasks = af.hwx.tasks_of(file.container)
    assert [registers(task) for task in tasks] == [chosen(getattr(places, one)) for one in expected]


def test_rows_that_tiles_share_are_read_again_and_cost_time() -> None:
    small, large = (compile_graph(convolution(64, rows, 128, 16, 3), "m1") for rows in (100, 300))
    assert [one.places[0].overlap for one in (small.plan, large.plan)] == [0, 4]
    (work,) = work_of(large).layers
    assert work.reread_bytes == 4 * 64 * 128 * 2
    (work,) = work_of(small).layers
    assert work.reread_bytes == 0


def test_places_are_kept_with_the_plan() -> None:
    plan = compile_graph(convolution(64, 16, 16, 32, 3), "m1").plan
    assert plan_from_json(plan_json(plan)) == plan


def test_layers_without_a_rule_have_no_place() -> None:
    compiled = compile_graph(af.input((2, 3, 4, 5)).relu(), "m1")
    assert compiled.plan.places == ()

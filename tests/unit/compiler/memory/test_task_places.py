"""The planner places the tasks of layers on chip; descriptors have what it chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.work import work_of
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.memory.print_plan import plan_from_json, plan_json
from aneforge.graph.node import build
from aneforge.runtime.hwx.emit_program import emit_compiled
from aneforge.targets.task_chains import ChainTask
from aneforge.targets.work_units import TaskPlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.graph.tensor import Tensor


def convolution(channels: int, rows: int, width: int, outputs: int, side: int, stride: int = 1) -> Tensor:
    weights = np.ones((outputs, channels, side, side), np.float16)
    return af.conv(af.input((1, channels, rows, width)), weights, pad=side // 2, stride=stride)


def registers(task: Task) -> tuple[int | None, ...]:
    """Return what a task says of its place: strides on chip, rows of a tile, work unit or patch."""
    names = ("l2.source1_l2_channel", "l2.source1_l2_row", "common.tile_height")
    unit = ("common.rows_most_log2", "common.rows_preferred_log2", "common.rows_least_log2")
    planar = ("common.patch_width_log2", "common.patch_height_log2")
    return tuple(task.integer(name) for name in (*names, *(planar if task.integer("common.task_type") else unit)))


def chosen(places: LayerPlaces, path: str) -> tuple[int, ...]:
    """Return the same of a place of the plan, which a path of names and numbers leads to."""
    place: Any = places
    for part in path.split("."):
        place = place[int(part)] if part.isdecimal() else getattr(place, part)
    assert isinstance(place, (TaskPlace, ChainTask))
    unit, rows = place.unit, place if isinstance(place, TaskPlace) else place.source
    pieces = (place.patch or ()) if unit is None else (unit.most, unit.preferred, unit.least)
    return (rows.channel, rows.row, place.tile, *pieces)


def tasks(chain: str, count: int) -> list[str]:
    return [f"{chain}.{number}" for number in range(count)]


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
    "turned": (lambda: af.input(MAP).transpose((0, 2, 1, 3)), ["exchanges.0.with_rows"]),
    "exchanged": (lambda: af.input(MAP).transpose((0, 3, 2, 1)), ["exchanges.0.with_columns.tasks.0"]),
    "softmax": (lambda: af.input(MAP).softmax(-1), ["chain.passes.0", *tasks("chain.tasks", 5)]),
    "softmax of one row": (lambda: af.input((1, 8, 40)).softmax(-1), tasks("chain.tasks", 5)),
    "softmax of channels": (
        lambda: af.input(MAP).softmax(1),
        ["chain.tasks.0", *(f"chain.passes.{number}" for number in (0, 1, 2, 3, 0, 1))],
    ),
    "layer norm": (
        lambda: af.Tensor(build("layer_norm", {"x": af.input((1, 20, 40))}, {"axes": (-1,), "epsilon": 1e-5}, None)),
        tasks("chain.tasks", 3),
    ),
    "sum of rows": (lambda: af.input(MAP).sum(2), tasks("reduction.tasks", 3)),
    "sum of channels": (lambda: af.input((1, 24, 1, 10)).sum(1), tasks("reduction.tasks", 2)),
    "mean of a map": (lambda: af.input((1, 32, 200, 200)).mean((2, 3)), ["reduction.tasks.0"]),
    "least": (lambda: af.input(MAP).amin(3), ["negated", "reduction.tasks.0", "planar"]),
    "product": (
        lambda: af.input((1, 40, 24), name="x") @ af.input((1, 24, 40), name="y"),
        [*tasks("product.parts.0.chain.tasks", 2), *tasks("product.parts.1.chain.tasks", 2)],
    ),
    "square": (lambda: af.input(MAP).square(), ["pair"]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_descriptors_have_the_places_of_the_plan(name: str) -> None:
    graph, expected = LAYERS[name]
    compiled = compile_graph(graph(), "m1")
    (places,) = compiled.plan.places.values()
    (file,) = emit_compiled(compiled).files
    found = [registers(task) for task in af.hwx.tasks_of(file.container)]
    assert found == [chosen(places, path) for path in expected]


def test_rows_that_tiles_share_are_read_again_and_cost_time() -> None:
    small, large = (compile_graph(convolution(64, rows, 128, 16, 3), "m1") for rows in (100, 300))
    assert [places.overlap for one in (small.plan, large.plan) for places in one.places.values()] == [0, 4]
    (work,) = work_of(large).layers
    assert work.reread_bytes == 4 * 64 * 128 * 2
    (work,) = work_of(small).layers
    assert work.reread_bytes == 0


@pytest.mark.parametrize("name", LAYERS)
def test_places_are_kept_with_the_plan(name: str) -> None:
    plan = compile_graph(LAYERS[name][0](), "m1").plan
    assert plan_from_json(plan_json(plan)) == plan


def test_layers_without_a_rule_have_no_place() -> None:
    compiled = compile_graph(af.input((2, 3, 4, 5)).relu(), "m1")
    assert not compiled.plan.places


@pytest.mark.parametrize("reduction", ["reduce_sum", "reduce_mean", "reduce_max"])
def test_reductions_that_name_no_axes_have_the_places_of_all_axes(reduction: str) -> None:
    places: list[list[LayerPlaces]] = []
    for axes in (None, (0, 1, 2, 3)):
        x = af.input((1, 4, 8, 8), name="x")
        made = af.Tensor(build(reduction, {"x": x}, {"axes": axes, "keep_dims": True}))
        compiled = compile_graph(made, "m1")
        places.append([*compiled.plan.places.values()])
        emit_compiled(compiled)
    assert places[0] == places[1]

"""Rows that a written-out loop scatters and gathers: the numbers stay, the scatters go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import aneforge as af
from aneforge.errors import GraphError
from aneforge.formats.mil import rows
from aneforge.formats.mil.rows import with_known_rows
from aneforge.graph.node import build
from aneforge.graph.reference import reference
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from aneforge.graph.node import Value

LENGTH = 4
X = np.random.default_rng(0).standard_normal((LENGTH, 3)).astype(np.float16)


def place(*numbers: int) -> Dense:
    return Dense(np.array(numbers, np.int32))


def counter(number: int) -> af.Tensor:
    """Return a place as loops have it: computed of constants."""
    return af.Tensor(build("add", {"x": place(number - 1), "y": Dense(np.array(1, np.int32))}, {}))


def scatter(data: Value, where: Value, updates: Value, mode: str = "update") -> af.Tensor:
    return af.Tensor(build("scatter", {"data": data, "indices": where, "updates": updates}, {"axis": 0, "mode": mode}))


def gather(x: Value, where: Value) -> af.Tensor:
    return af.Tensor(build("gather", {"x": x, "indices": where}, {"axis": 0}))


def ops_of(graph: af.Graph) -> set[str]:
    return {node.op.name for node in graph.nodes}


def zeros() -> Dense:
    return Dense(np.zeros((LENGTH, 3), np.float16))


@given(
    some.permutations(range(LENGTH)),
    some.integers(0, LENGTH),
    some.lists(some.integers(0, LENGTH - 1), max_size=3),
    some.sampled_from(["update", "add"]),
    some.booleans(),
)
def test_the_numbers_stay_and_the_scatters_go(
    order: list[int],
    count: int,
    reads: list[int],
    mode: str,
    casts: bool,  # noqa: FBT001 - a drawn case
) -> None:
    x = af.input((LENGTH, 3), name="x")
    held: Value = zeros()
    for turn, row in enumerate(order[:count]):
        update = gather(x, counter(turn)) * 2.0
        if turn:
            update = update + gather(held, counter(order[turn - 1]))
        held = scatter(held, counter(row), update, mode)
        if casts:
            held = held.cast("fp32").cast("fp16")
    outputs = {f"y{number}": gather(held, place(row)) for number, row in enumerate(reads)}
    whole = held if isinstance(held, af.Tensor) else x
    graph = af.Graph({"whole": whole, **{name: value for name, value in outputs.items() if count}})
    made = with_known_rows(graph)
    assert "scatter" not in ops_of(made)
    expected, found = reference(graph, {"x": X}), reference(made, {"x": X})
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_several_rows_at_once() -> None:
    x = af.input((LENGTH, 3), name="x")
    graph = af.Graph({"y": scatter(x, place(3, -4), x.slice_by_size([1, 0], [2, 3]))})
    made = with_known_rows(graph)
    assert ops_of(made) == {"input", "slice_by_size", "concat"}
    assert np.array_equal(reference(made, {"x": X})["y"], X[[2, 1, 2, 1]])


@pytest.mark.parametrize("reason", ["added to what is there", "the same row twice", "a place that is not known", "max"])
def test_what_is_not_known_stays(reason: str) -> None:
    x = af.input((LENGTH, 3), name="x")
    row = x.slice_by_size([0, 0], [1, 3])
    two = x.slice_by_size([0, 0], [2, 3])
    made = {
        "added to what is there": lambda: scatter(x, place(1), row, "add"),
        "the same row twice": lambda: scatter(zeros(), place(1, 1), two),
        "a place that is not known": lambda: scatter(zeros(), af.input((1,), name="i").cast("int32"), row),
        "max": lambda: scatter(zeros(), place(1), row, "max"),
    }[reason]()
    graph = af.Graph({"y": made})
    assert str(with_known_rows(graph)) == str(graph)


def test_a_graph_without_scatters_is_left_alone() -> None:
    graph = af.Graph({"y": gather(af.input((LENGTH, 3), name="x"), place(1))})
    assert with_known_rows(graph) is graph


def test_two_scatters_into_one_tensor_do_not_see_each_other() -> None:
    x = af.input((LENGTH, 3), name="x")
    row = x.slice_by_size([0, 0], [1, 3])
    first = scatter(zeros(), place(0), row)
    graph = af.Graph(
        {
            "left": gather(scatter(first, place(1), row * 2.0), place(2)) + gather(first, place(0)),
            "right": scatter(first, place(1), row * 3.0),
        }
    )
    expected, found = reference(graph, {"x": X}), reference(with_known_rows(graph), {"x": X})
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("number", [LENGTH, -LENGTH - 1])
def test_a_place_past_the_axis_is_not_wrapped(number: int) -> None:
    x = af.input((LENGTH, 3), name="x")
    with pytest.raises(GraphError, match="an index is past the axis"):
        gather(x, place(number))
    with pytest.raises(GraphError, match="an index is past the axis"):
        scatter(x, place(number), x.slice_by_size([0, 0], [1, 3]))


def test_a_file_that_asks_for_too_many_pieces_keeps_its_scatters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_PIECES", 2 * LENGTH - 1)
    x = af.input((LENGTH, 3), name="x")
    made = [scatter(x, place(number), x.slice_by_size([0, 0], [1, 3])) for number in range(2)]
    graph = with_known_rows(af.Graph({f"y{number}": one for number, one in enumerate(made)}))
    assert [node.op.name for node in graph.nodes].count("scatter") == 1

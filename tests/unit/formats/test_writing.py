"""Writing at known coordinates is the op table's operation, which a target takes as gathers and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.retarget import retarget
from aneforge.errors import GraphError
from aneforge.formats.shared.emitter import Budget, Emitter
from aneforge.formats.shared.writing import write_updates
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array

EMIT = Emitter(None, Budget())


def places(coordinates: Sequence[object]) -> Dense:
    return Dense(np.array(coordinates, np.int32))


def written_graph(at: Constant, shape: tuple[int, ...], mode: str) -> af.Graph:
    updates = (*at.type.shape[:-1], *shape[at.type.shape[-1] :])
    result = write_updates(EMIT, af.input(shape, name="x"), at, af.input(updates, name="updates"), mode)
    assert isinstance(result, af.Tensor)
    return af.Graph({"y": result})


def for_a_target(graph: af.Graph) -> af.Graph:
    """Return a graph as the first family with MIL programs takes it."""
    return retarget(graph, af.targets.Family.A13).graph


def operations(graph: af.Graph) -> set[str]:
    return {node.op.name for node in graph.nodes} - {"input", "reshape"}


@st.composite
def writes(draw: st.DrawFn) -> tuple[Dense, tuple[int, ...]]:
    """Draw coordinates, some of them the same and some counted from the end, and the shape that they write to."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    depth, count = draw(st.integers(1, len(shape))), draw(st.integers(1, 4))
    rows = [[draw(st.integers(-extent, extent - 1)) for extent in shape[:depth]] for _ in range(count)]
    return places(rows), shape


@given(writes(), st.sampled_from(["update", "add", "mul", "max", "min"]))
def test_it_means_what_the_operation_means(write: tuple[Dense, tuple[int, ...]], mode: str) -> None:
    at, shape = write
    written = written_graph(at, shape, mode)
    assert operations(written) == {"scatter_nd"}
    graph = for_a_target(written)
    generator = np.random.default_rng(5)
    data = generator.standard_normal(shape)
    updates = generator.standard_normal((*at.type.shape[:-1], *shape[at.type.shape[-1] :]))
    feeds: dict[str, Array] = {name: {"x": data, "updates": updates}[name] for name in graph.inputs}
    (found,) = af.reference(graph, feeds).values()
    operands = {"data": Dense(data), "indices": at, "updates": Dense(updates)}
    operation = EMIT.apply("scatter_nd", operands, mode=mode)
    assert isinstance(operation, Constant)
    assert "scatter_nd" not in operations(graph)
    np.testing.assert_allclose(found, operation.dense(), rtol=1e-12)


def test_what_is_written_everywhere_is_not_chosen() -> None:
    assert "select" not in operations(for_a_target(written_graph(places([[1], [0]]), (2, 3), "update")))
    assert "gather" in operations(for_a_target(written_graph(places([[1], [1]]), (2, 3), "update")))


def test_updates_of_another_shape_are_refused() -> None:
    x, updates = af.input((4, 3)), af.input((3, 2))
    with pytest.raises(GraphError, match="updates"):
        write_updates(EMIT, x, places([[0], [1]]), updates, "update")


@pytest.mark.parametrize("coordinates", [[[4]], [[-5]]])
def test_a_coordinate_outside_of_the_tensor_is_an_error(coordinates: list[list[int]]) -> None:
    with pytest.raises(GraphError, match="an index is past the axis"):
        written_graph(places(coordinates), (4,), "update")

"""Views of many axes, merged: the elements go where they went, and no tensor has more than five axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

import aneforge as af
from aneforge.formats.shared.merging import MOST_AXES, merge_axes, merge_moves
from aneforge.graph.node import build
from aneforge.graph.reference import reference

if TYPE_CHECKING:
    from random import Random


def moved(op: str, x: af.Tensor, **how: object) -> af.Tensor:
    return af.Tensor(build(op, {"x": x}, how))


def chain(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[af.Tensor, af.Tensor, af.Tensor]:
    """Return a view, the view transposed, and that in one row."""
    view = moved("reshape", af.input((math.prod(shape),), name="x"), shape=shape)
    turned = moved("transpose", view, perm=order)
    return view, turned, moved("reshape", turned, shape=(math.prod(shape),))


def most_axes(graph: af.Graph) -> int:
    return max(kind.rank for node in graph.nodes for kind in node.types)


@some.composite
def shape_and_order(draw: some.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(some.lists(some.integers(1, 3), min_size=6, max_size=8))
    return tuple(shape), tuple(draw(some.permutations(range(len(shape)))))


@given(shape_and_order())
def test_elements_go_where_they_went(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = case
    graph = af.Graph({"y": chain(shape, order)[-1]})
    merged = merge_axes(graph)
    places = np.arange(math.prod(shape), dtype=np.float16)
    assert most_axes(merged) <= MOST_AXES
    assert np.array_equal(reference(merged, {"x": places})["y"], reference(graph, {"x": places})["y"])


@given(shape_and_order(), some.randoms(use_true_random=False))
def test_several_transposes_are_one(case: tuple[tuple[int, ...], tuple[int, ...]], random: Random) -> None:
    shape, order = case
    again = tuple(random.sample(range(len(shape)), len(shape)))
    turned = moved("transpose", chain(shape, order)[1], perm=again)
    graph = af.Graph({"y": moved("reshape", turned, shape=(math.prod(shape),))})
    merged = merge_axes(graph)
    places = np.arange(math.prod(shape), dtype=np.float16)
    assert most_axes(merged) <= MOST_AXES
    assert np.array_equal(reference(merged, {"x": places})["y"], reference(graph, {"x": places})["y"])


def test_pixels_become_channels_in_one_move() -> None:
    assert merge_moves((1, 3, 4, 2, 4, 2), (0, 1, 3, 5, 2, 4)) == [((3, 4, 2, 4, 2), (0, 2, 4, 1, 3))]


def test_what_somebody_reads_stays() -> None:
    shape, order = (2, 2, 2, 2, 2, 2), (0, 1, 3, 2, 4, 5)
    view, turned, row = chain(shape, order)
    for others in ({"view": view}, {"turned": turned}, {"read": moved("relu", turned)}, {"read": moved("relu", view)}):
        assert most_axes(merge_axes(af.Graph({"y": row, **others}))) == 6
    assert most_axes(merge_axes(af.Graph({"y": row}))) == 4


def test_views_of_five_axes_are_left_alone() -> None:
    graph = af.Graph({"y": chain((2, 2, 2, 2, 2), (0, 1, 3, 2, 4))[-1]})
    assert str(merge_axes(graph)) == str(graph)

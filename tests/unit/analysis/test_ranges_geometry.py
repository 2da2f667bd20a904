"""Ranges of operations on points, vectors and rows, of powers and of casts: sound, and no wider than they must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.ranges.analysis import Edge, ranges
from aneforge.analysis.ranges.interval import RESULTS, Range, of_values
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

GENERATOR = np.random.default_rng(17)


def x(*shape: int) -> af.Tensor:
    return af.input(shape, name="x")


def y(*shape: int) -> af.Tensor:
    return af.input(shape, name="y")


CALLS: dict[str, tuple[Callable[[], af.Tensor], Range]] = {
    "crossed": (lambda: af.cross_product(x(3, 5), y(3, 5)), Range(-12.0, 12.0)),
    "costs": (lambda: af.cost_volume(x(8), y(12), 3), Range(0.0, 5.0)),
    "points": (lambda: af.fps(x(16, 3), 4), Range(-2.0, 2.0)),
    "near": (lambda: af.radius_search(x(16, 3), y(4, 3), 1.0), Range(0.0, 1.0)),
    "levelled": (lambda: af.minmax_norm(x(2, 4, 4)), Range(0.0, 1.0)),
    "correlated": (lambda: af.cross_correlation(x(6, 6), y(3, 2)), Range(-36.0, 36.0)),
}
"""Calls, and their ranges where x is between -2 and 2 and y between -3 and 3."""


@pytest.mark.parametrize("name", CALLS)
def test_a_range_is_what_the_mathematics_allows(name: str) -> None:
    made, expected = CALLS[name]
    graph = af.Graph({"z": made()})
    given = {name: most for name, most in {"x": 2.0, "y": 3.0}.items() if name in graph.inputs}
    found = ranges(graph, given, target="h16").layers[-1].range
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=0.05), pytest.approx(expected.high, abs=0.05))
    program = build_program(graph, "h16")
    for _ in range(8):
        inputs = {name: draw(graph.inputs[name].types[0].shape, most) for name, most in given.items()}
        seen = of_values(run(program, inputs).outputs["z"])
        assert found.low <= seen.low <= seen.high <= found.high


def draw(shape: tuple[int, ...], most: float) -> Array:
    """Draw numbers, many of them at the ends."""
    return np.clip(GENERATOR.standard_normal(shape) * most * 2, -most, most)


@pytest.mark.parametrize("name", ["crossed", "costs", "points", "levelled"])
def test_infinite_operands_can_give_anything(name: str) -> None:
    graph = af.Graph({"z": CALLS[name][0]()})
    given = dict.fromkeys(graph.inputs, float("inf"))
    assert ranges(graph, given, target="h16").layers[-1].range == RESULTS


@pytest.mark.parametrize(
    ("power", "given", "expected"),
    [
        (2.0, (-3.0, 2.0), Range(0.0, 9.0)),
        (3.0, (-3.0, 2.0), Range(-27.0, 27.0)),
        (2.0, (2.0, 3.0), Range(4.0, 9.0)),
        (0.5, (0.0, 4.0), Range(0.0, 2.0)),
        (0.5, (-4.0, 4.0), Range(-2.0, 2.0)),
        (-1.0, (0.5, 4.0), Range(0.25, 2.0)),
        (-2.0, (-4.0, -0.5), Range(0.0, 4.0)),
        (-1.0, (-1.0, 4.0), RESULTS),
    ],
)
def test_powers(power: float, given: tuple[float, float], expected: Range) -> None:
    z = x(1, 64) ** power
    assert ranges(z, {"x": given}, target="h16").layers[-1].range == expected
    values = np.linspace(*given, 64).reshape(1, 64)
    seen = of_values(run(build_program(z, "h16"), {"x": values}).outputs["y"])
    assert expected.low <= seen.low <= seen.high <= expected.high


def test_places_that_are_cast_are_no_larger_than_there_are() -> None:
    _, places = af.topk(x(1, 3000), 5)
    report = ranges(af.cast(places, "fp16") * 2.0, target="h16")
    assert report.layers[-1].range == Range(0.0, 6000.0)


def test_products_inside_attention_lose_their_bits_under_the_grid() -> None:
    query, key, value = (af.input((1, 2, 16, 64), name=name) for name in "qkv")
    attended = af.sdpa(query, key, value, native=True)
    for given, what in (
        ({"q": 0.01, "k": 0.01, "v": 1.0}, "the scores"),
        ({"q": 1.0, "k": 1.0, "v": 0.001}, "the values by their shares"),
    ):
        samples = {name: GENERATOR.uniform(-most, most, (1, 2, 16, 64)) for name, most in given.items()}
        for report in (ranges(attended, given, target="h16"), ranges(attended, inputs=samples, target="h16")):
            first = report.first(Edge.GRID)
            assert first is not None
            assert [concern.what for concern in first.passed] == [what]
            assert "scale the operands up" in first.passed[0].remedy
    assert ranges(attended, {"q": 4.0, "k": 4.0, "v": 4.0}, target="h16").first(Edge.GRID) is None
    assert ranges(attended, {"q": 0.0, "k": 0.0, "v": 0.0}, target="h16").margin(Edge.GRID) == float("inf")


def test_sums_of_values_inside_attention_reach_the_edge_of_the_accumulator() -> None:
    query, key, value = (af.input((1, 2, 16, 64), name=name) for name in "qkv")
    attended = af.sdpa(query, key, value, native=True)
    assert 0 < ranges(attended, {"q": 1.0, "k": 1.0, "v": 16384.0}, target="h16").margin(Edge.ACCUMULATOR) < 1
    first = ranges(attended, {"q": 1.0, "k": 1.0, "v": 40000.0}, target="h16").first(Edge.ACCUMULATOR)
    assert first is not None
    (concern,) = [one for one in first.passed if one.edge is Edge.ACCUMULATOR]
    assert str(concern).startswith("accumulator edge of the values by their shares: 4.")
    assert "scale the values down" in concern.remedy
    same = {name: np.full((1, 2, 16, 64), size) for name, size in (("q", 1.0), ("k", 1.0), ("v", 40000.0))}
    assert np.isinf(af.run(af.build_program(attended, "h16"), same).outputs["y"]).all()

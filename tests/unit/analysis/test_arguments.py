"""Ranges, samples and bits that callers give: one error each for what is none, and NumPy's numbers as Python's."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.ranges.interval import Range
from aneforge.analysis.ranges.program_ranges import read_samples
from aneforge.errors import GraphError, GraphTypeError, UnknownNameError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": (1, 2, 3)}, "has too many entries .got 3, expected at most 2"),
        ({"x": "a"}, "range of input 'x' is not a range .got 'a', expected a magnitude, or a low and a high end"),
        ({"x": (1.0,)}, "range of input 'x' is not a range"),
        ({"x": ()}, "range of input 'x' is not a range"),
        ({"x": None}, "range of input 'x' is not a range"),
        ({"x": True}, "range of input 'x' is not a range"),
        ({"x": np.ones((2, 1))}, "range of input 'x' is not a range"),
        ({"x": (0, "b")}, "an end of the range of input 'x' is not a number"),
        ({"x": 10**400}, "too large for a floating-point number"),
        (5, "the ranges are not given by the names of inputs"),
        ([("x", 1.0)], "the ranges are not given by the names of inputs"),
    ],
)
def test_ranges_of_another_sort(given: Any, message: str) -> None:  # noqa: ANN401 - what a caller may slip in
    graph = af.Graph({"y": af.input((1, 1), name="x").relu()})
    with pytest.raises(GraphError, match=message) as caught:
        af.ranges(graph, given, target="h16")
    assert caught.value.location is not None
    with pytest.raises(GraphError, match=message):
        af.divergence(graph, "h13", "h16", ranges=given)


@pytest.mark.parametrize(
    "given", [2, np.int8(2), np.float16(2.0), np.array(2.0), (-2, 2), [-2.0, 2], np.array([-2, 2])]
)
def test_numbers_and_arrays_of_numpy_mean_the_same(given: Any) -> None:  # noqa: ANN401 - what a caller may give
    x = af.input((1, 1), name="x")
    assert af.ranges(x.relu(), {"x": given}, target="h16").inputs == {"x": Range(-2.0, 2.0)}


@pytest.mark.parametrize("inputs", [5, "x", [5], np.ones((1, 1)), [np.ones((1, 1))]])
def test_samples_of_another_sort(inputs: Any) -> None:  # noqa: ANN401 - what a caller may slip in
    with pytest.raises(GraphTypeError, match="sample inputs are not arrays by the names of inputs"):
        af.rescale(af.input((1, 1), name="x").relu(), inputs=inputs, target="h16")
    with pytest.raises(GraphTypeError, match="sample inputs are not arrays by the names of inputs"):
        af.ranges(af.input((1, 1), name="x").relu(), inputs=inputs, target="h16")


@pytest.mark.parametrize(
    "values", ["a", np.array([["a"]]), np.ones((1, 1), complex), np.ones((1, 1), object), [[1, 2], [3]], {}]
)
def test_samples_that_are_no_real_numbers(values: Any) -> None:  # noqa: ANN401 - what a caller may slip in
    with pytest.raises(GraphTypeError, match="the sample of input 'x' is not an array of real numbers"):
        af.ranges(af.input((1, 1), name="x").relu(), inputs={"x": values}, target="h16")


def test_samples_that_are_missing_or_of_no_input() -> None:
    y = af.input((1, 1), name="x").relu()
    for missing in ({}, {"x": cast("Any", None)}):
        with pytest.raises(GraphError, match="input 'x' has no value"):
            af.ranges(y, inputs=missing, target="h16")
    with pytest.raises(UnknownNameError, match="unknown input 'z'; known: x"):
        af.ranges(y, inputs={"x": np.ones((1, 1)), "z": np.ones(3)}, target="h16")


def test_an_edge_that_there_is_not() -> None:
    found = af.ranges(af.input((1, 1), name="x").relu(), target="h16")
    with pytest.raises(UnknownNameError, match="unknown edge 'fp16'; known: fp16 overflow, accumulator edge"):
        found.first("fp16")


@pytest.mark.parametrize("bits", [1.5, "2", True])
def test_bits_of_another_sort(bits: Any) -> None:  # noqa: ANN401 - what a caller may slip in
    with pytest.raises(GraphTypeError, match="safety_bits is not an integer"):
        af.rescale(af.input((1, 1), name="x").relu(), safety_bits=bits, target="h16")


def test_samples_may_come_one_by_one() -> None:
    one = {"x": np.ones((1, 1))}
    assert read_samples(one) == read_samples([one]) == read_samples(part for part in (one,)) == [one]

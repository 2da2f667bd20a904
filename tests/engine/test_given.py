"""What `run` takes and refuses is what a model takes and refuses: one check for both."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning, UnknownNameError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor


def widened(dtype: str) -> af.Tensor:
    """Return a graph that takes two numbers of a type and gives them in fp16."""
    x = Tensor(build("input", {}, {"shape": (1, 2), "dtype": dtype, "name": "x"}))
    return x.relu() if dtype == "fp16" else Tensor(build("cast", {"x": x}, {"dtype": "fp16"}))


REFUSED: list[tuple[str, Any]] = [
    ("uint8", [[300, 1]]),
    ("uint8", [[-1, 1]]),
    ("uint8", [[np.nan, 1.0]]),
    ("uint8", [[1.5, 1.0]]),
    ("fp16", [["1", "2"]]),
    ("fp16", [[None, 1.0]]),
    ("fp16", np.array([["2026-01-01", "2026-01-02"]], np.datetime64)),
    ("fp16", [[datetime(2026, 1, 1, tzinfo=UTC), 1.0]]),
    ("fp16", [[1j, 1.0]]),
    ("fp16", [1.0, 2.0]),
    ("fp16", np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]])),
]


@pytest.mark.parametrize(("dtype", "value"), REFUSED, ids=[f"{dtype}-{value!r:.30}" for dtype, value in REFUSED])
def test_run_and_model_refuse_the_same_with_the_same_words(dtype: str, value: object) -> None:
    graph = widened(dtype)
    with pytest.raises(GraphError) as by_run:
        af.run(af.build_program(graph, "m4"), {"x": value})  # type: ignore[dict-item]
    with af.compile(graph, target="m4") as model, pytest.raises(GraphError) as by_model:
        model(value)
    assert str(by_run.value) == str(by_model.value)


def test_what_is_not_refused_is_computed() -> None:
    assert af.run(af.build_program(widened("uint8"), "m4"), {"x": np.array([[255, 1]])}).outputs["y"].tolist() == [
        [255.0, 1.0]
    ]


def test_what_fp16_makes_infinite_is_warned_of_by_run_and_model_and_program() -> None:
    graph, large = widened("fp16"), np.array([[1e6, np.inf]])
    said = "input 'x': 1 of 2 values is infinite in fp16, whose largest number is 65504"
    with pytest.warns(PrecisionWarning, match=said):
        af.run(af.build_program(graph, "m4"), {"x": large})
    with af.compile(graph, target="m4") as model:
        with pytest.warns(PrecisionWarning, match=said):
            model(large)
        with pytest.warns(PrecisionWarning, match=f"samples of {said}"):
            model.run_many(large[None])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(np.array([[65504.0, np.inf]]))


def test_names_that_there_are_not_are_an_error() -> None:
    program = af.build_program(af.input((1, 2), name="x").relu(), "m4")
    with pytest.raises(UnknownNameError, match="unknown input 'X'"):
        af.run(program, {"x": np.ones((1, 2)), "X": np.ones((1, 2))})
    with pytest.raises(UnknownNameError, match="unknown state 'cache'"):
        af.run(program, {"x": np.ones((1, 2))}, {"cache": np.ones((1, 2))})
    with pytest.raises(GraphError, match="input 'x' has no value"):
        af.run(program, {})


def test_run_refuses_what_is_not_compiled() -> None:
    with pytest.raises(GraphTypeError, match=r"runs a compiled program .got Tensor.*af\.compile"):
        af.run(widened("fp16"), {"x": np.ones((1, 2))})  # type: ignore[arg-type]

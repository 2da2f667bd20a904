"""A model as people use it: compiled from a file, called by name, priced, and shown in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.schedule import schedule
from aneforge.display import MOST_LINES
from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.report import check, explain

if TYPE_CHECKING:
    from pathlib import Path


def two_inputs() -> af.Graph:
    return af.Graph({"y": af.input((1, 4), name="a") - af.input((1, 4), name="b")})


def test_a_file_is_compiled_by_its_path(tmp_path: Path) -> None:
    path = af.save_mil(two_inputs(), tmp_path)
    model = af.compile(path, target="m4")
    assert (model.target, model.inputs) == ("h16g", ("a", "b"))
    result = af.compile(str(path), target="m4")(np.ones((1, 4)), np.ones((1, 4)))
    assert isinstance(result, np.ndarray)
    assert result.tolist() == [[0.0] * 4]


def test_inputs_are_given_by_name() -> None:
    model = af.compile(two_inputs(), target="m4")
    one, two = np.ones((1, 4)), np.full((1, 4), 2.0)
    for called in (model(one, two), model(b=two, a=one), model(one, b=two)):
        assert isinstance(called, np.ndarray)
        assert called.tolist() == [[-1.0] * 4]
    with pytest.raises(UnknownNameError, match="unknown input 'c'"):
        model(one, c=two)
    with pytest.raises(GraphError, match="'a' is given twice"):
        model(one, a=two)
    with pytest.raises(GraphError, match="missing a"):
        model(b=two)
    several = af.compile_multi({"y": af.input((1, 2), name="x").relu()}, target="m4")
    assert several(x=np.array([[-1.0, 2.0]]))["y"].tolist() == [[0.0, 2.0]]


def test_a_model_has_its_cost() -> None:
    graph = two_inputs()
    assert af.compile(graph, target="m4-pro").cost.microseconds == af.cost(graph, "m4-pro").microseconds


def test_a_module_is_pointed_to_its_reader() -> None:
    with pytest.raises(GraphTypeError, match=r"af\.from_torch"):
        af.compile(len, target="m4")  # pyright: ignore[reportCallIssue, reportArgumentType] - what is no graph
    with pytest.raises(GraphTypeError, match=r"af\.from_torch"):
        af.load_model(object())  # pyright: ignore[reportArgumentType] - what is not a path


def test_what_is_shown_is_a_screen_and_has_a_page() -> None:
    x = af.input((1, 8, 1, 20_000), name="x<y>")
    for _ in range(60):
        x = x.relu()
    graph = af.Graph({"y": x})
    shown = [af.compile(two_inputs(), target="m4"), af.preflight(graph, "m1"), af.cost(graph, "m1"), check(graph, "m1")]
    for one in shown:
        assert len(str(one).splitlines()) <= MOST_LINES
        assert getattr(one, "_repr_html_")().startswith("<div><strong>")  # noqa: B009 - the protocol of notebooks
    assert "more lines" in str(shown[1])
    program = af.build_program(graph, "m1")
    made = schedule(program)
    listed = [
        made,
        plan(program, made),
        af.ranges(graph, target="m1"),
        af.divergence(graph, "m1", "m4"),
        af.placement(graph, "m1"),
    ]
    for one in (*listed, explain(["conv"])):
        assert len(str(one).splitlines()) <= MOST_LINES
        assert getattr(one, "_repr_html_")().startswith("<div><strong>")  # noqa: B009 - as above
    page = af.build_program(graph, "m1")._repr_html_()  # pyright: ignore[reportPrivateUsage] - as above
    assert "x&lt;y&gt;" in page

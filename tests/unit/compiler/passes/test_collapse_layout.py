"""Layouts that join, cancel and sink: programs keep their meaning, however many layers read a layout."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.passes.collapse_layout import CollapseLayout
from aneforge.compiler.pipeline import FUSION
from aneforge.engine.execution.run import run
from aneforge.targets import Target, group
from program_tools import expect_same_meaning, lowered

BEFORE = FUSION[: [one.name for one in FUSION].index(CollapseLayout.name)]


def resident(x: af.Tensor) -> af.Tensor:
    """Multiply by a matrix: a layer with slots, between layouts of its own."""
    return x.linear(np.eye(x.shape[-1], dtype=np.float16))


SHAPES = ((1, 6, 4), (6, 4), (2, 3, 4))


def laid_out(x: af.Tensor, draw: st.DrawFn) -> af.Tensor:
    """Draw one or two layouts of a tensor: reshapes more often than transposes."""
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 2)):
            x = x.reshape(*draw(st.sampled_from(SHAPES)))
        else:
            x = x.transpose(draw(st.sampled_from(list(permutations(range(len(x.shape)))))))
    return x


@st.composite
def layouts(draw: st.DrawFn) -> af.Graph:
    """Draw layouts between products, activations and sums over 24 elements, read by one layer or by many."""
    made = [resident(af.input((6, 4), name="x"))]
    for _ in range(draw(st.integers(1, 3))):
        x = laid_out(draw(st.sampled_from(made[-2:])), draw)
        match draw(st.sampled_from(["gate", "single", "pair", "resident", "scale"])):
            case "single":
                made.append(draw(st.sampled_from([x.relu, x.sigmoid, x.tanh]))())
            case "gate":
                made.append(x.sigmoid() * x)
            case "scale":
                made.append(x * np.linspace(0.5, 1.0, x.shape[-1]))
            case "pair":
                made.append(x + draw(st.sampled_from([one for one in (*made, x) if one.shape == x.shape])))
            case _:
                made.append(resident(x))
    leaving = [made[-1], *draw(st.lists(st.sampled_from(made), max_size=1))]
    return af.Graph({f"y{number}": one for number, one in enumerate(dict.fromkeys(leaving))})


@settings(max_examples=150, deadline=None, derandomize=True)
@given(layouts())
def test_it_keeps_the_meaning_of_layouts_that_many_read(graph: af.Graph) -> None:
    before = lowered(graph)
    for one in BEFORE:
        before = one(before).program
    after = CollapseLayout()(before).program
    values = {"x": np.linspace(-1.0, 1.0, 24).reshape(6, 4)}
    expect_same_meaning(before, after, values, 1e-6)
    build_program(graph, af.targets.Family.A13)


@pytest.mark.parametrize("target", group("families"), ids=lambda one: one.name)
def test_a_reshape_that_cancels_gives_its_readers_to_the_layout_before_it(target: Target) -> None:
    weight = np.arange(32, dtype=np.float16).reshape(8, 4) / 32
    h = af.input((3, 4), name="x").linear(weight).reshape(1, 3, 8)
    graph = af.Graph({"y": h.sigmoid() * h})
    sample = {"x": np.linspace(-1, 1, 12, dtype=np.float16).reshape(3, 4)}
    found = run(build_program(graph, target), sample).outputs["y"]
    assert np.allclose(found, af.reference(graph, sample)["y"], atol=1e-2)

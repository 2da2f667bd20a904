"""The text form: read back exactly, for every operation of the table; mistakes in it are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.errors import GraphError, Location
from aneforge.graph.node import build
from aneforge.graph.strategies import DrawnGraph, graphs, one_operation
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops

if TYPE_CHECKING:
    from aneforge.ops.op import Op
    from conftest import Golden

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("op", ops().values(), ids=lambda op: op.name)
def test_every_operation_reads_back(op: Op) -> None:
    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
    @given(one_operation(op))
    def round_trip(drawn: DrawnGraph) -> None:
        text = str(drawn.graph)
        again = af.Graph.parse(text, drawn.graph.constants)
        assert str(again) == text
        assert again == drawn.graph
        assert [node.location for node in again.nodes] == [node.location for node in drawn.graph.nodes]

    round_trip()


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(graphs())
def test_graphs_of_several_operations_read_back(drawn: DrawnGraph) -> None:
    assert af.Graph.parse(str(drawn.graph), drawn.graph.constants) == drawn.graph


def example() -> af.Graph:
    place = Location("model.py", 12)
    x = af.Tensor(build("input", {}, {"shape": (1, 4), "name": "x"}, place))
    y = af.Tensor(build("add", {"x": x, "y": Dense(np.arange(4, dtype=np.float16)[None])}, {}, place))
    node = build("split", {"x": y}, {"num_splits": 2, "axis": 1}, Location("model.onnx", node='odd "name"'))
    joined = build("concat", {"values": (af.Tensor(node, 1), af.Tensor(node, 0))}, {"axis": -1}, place)
    return af.Graph({"y": af.Tensor(joined), "not an identifier": y})


def test_the_form(golden: Golden) -> None:
    golden(str(example()))


def test_states_are_part_of_the_text(golden: Golden) -> None:
    x = af.Tensor(build("state", {}, {"name": "total", "shape": (2,)}, Location()))
    y = af.Tensor(build("adds", {"x": x}, {"k": 0.1}, Location()))
    graph = af.Graph({"y": y}, states={"total": y})
    golden(str(graph))
    assert af.Graph.parse(str(graph)) == graph


@pytest.mark.parametrize("number", [0.1, -0.0, 1e-300, 1e22, float("inf"), float("-inf"), float("nan"), 3.0])
def test_numbers_keep_every_bit(number: float) -> None:
    x = af.input((1,))
    graph = af.Graph({"y": x * number})
    again = af.Graph.parse(str(graph))
    (node,) = [node for node in again.nodes if node.op.name == "muls"]
    assert repr(node.attributes["k"]) == repr(number)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("graph {", "graf {", "this is not a graph"),
        ("%1 = add", "%1 = ad", "unknown operation 'ad'; nearest: .*add"),
        ("fp16[1, 4] at", "fp16[1, 5] at", "the types are not those that the operation gives"),
        ("x = %0", "x = %7", "%7 is used before it is defined"),
        ("%2#1", "%2#5", "%2 has no result 5"),
        ("%1 = add", "%0 = add", "%0 is defined twice"),
        ("@c0)", "@c9)", "constant @c9 is not given"),
        ("axis = 1}", "axes = 1}", "there is no attribute 'axes'"),
        ("axis = 1}", "axis = yes}", "this is no value of an attribute"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, message: str) -> None:
    graph = example()
    text = str(graph)
    assert old in text
    with pytest.raises((GraphError, ValueError), match=message.replace("(", r"\(")):
        af.Graph.parse(text.replace(old, new, 1), graph.constants)


def test_another_constant_under_the_symbol_is_refused() -> None:
    graph = example()
    other = {symbol: Dense(np.zeros((1, 4), np.float16)) for symbol in graph.constants}
    with pytest.raises(GraphError, match="constant @c0 is not the one of the text"):
        af.Graph.parse(str(graph), other)


def test_a_syntax_error_shows_the_place() -> None:
    with pytest.raises(GraphError, match=r"(?s)graph text:2.*%0 = = input"):
        af.Graph.parse("graph {\n  %0 = = input()\n}\n")

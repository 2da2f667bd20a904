"""Graphs, nodes and tensors never change: no assignment, copies that are the thing itself, exact pickles."""

from __future__ import annotations

import copy
import pickle
import timeit
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense, Palette
from aneforge.ops.table import find_op, ops

if TYPE_CHECKING:
    from aneforge.ops.constant import Constant


def example() -> af.Graph:
    total = af.state("total", (1, 2))
    x = af.input((1, 2), name="in put")
    palette = Palette(np.array([[0, 1], [1, 1]], np.uint8), table=np.array([0, 2], np.float16), bits=4)
    y = af.Tensor(build("linear", {"x": x + total, "weight": palette}))
    return af.Graph({"y": y, "write": (y + np.ones(2, np.float16)) * 0.1}, states={"total": y})


@pytest.mark.parametrize("name", ["node", "index", "shape", "new"])
def test_a_tensor_cannot_be_assigned_to(name: str) -> None:
    x = af.input((2,))
    with pytest.raises(AttributeError):
        setattr(x, name, 1)
    with pytest.raises(AttributeError):
        delattr(x, name)


@pytest.mark.parametrize("name", ["outputs", "states", "nodes", "inputs", "text", "new"])
def test_a_graph_cannot_be_assigned_to(name: str) -> None:
    graph = example()
    before = str(graph)
    with pytest.raises(FrozenInstanceError, match="a graph never changes"):
        setattr(graph, name, {})
    with pytest.raises(FrozenInstanceError, match="a graph never changes"):
        delattr(graph, name)
    assert str(graph) == before


@pytest.mark.parametrize("name", ["outputs", "states", "inputs", "state_placeholders", "constants", "consumers"])
def test_the_mappings_of_a_graph_are_read_only(name: str) -> None:
    mapping = cast("dict[object, object]", getattr(example(), name))
    with pytest.raises(TypeError, match="does not support item assignment"):
        mapping[next(iter(mapping))] = None
    with pytest.raises(AttributeError):
        mapping.clear()


def test_the_mappings_of_a_node_are_read_only_and_its_own() -> None:
    x = af.input((2,))
    operands, attributes = {"x": x}, {"alpha": 0.5}
    node = build("leaky_relu", operands, attributes)
    operands["x"], attributes["alpha"] = af.input((3,)), 7.0
    assert (node.operands["x"], node.attributes["alpha"]) == (x, 0.5)
    for mapping in (node.operands, node.attributes):
        with pytest.raises(TypeError, match="does not support item assignment"):
            cast("dict[str, object]", mapping)["x"] = None


def test_a_graph_does_not_follow_the_mapping_that_it_was_made_of() -> None:
    x = af.input((2,))
    outputs: dict[str, af.Tensor] = {"y": x.relu()}
    graph = af.Graph(outputs)
    outputs["z"] = x
    assert list(graph.outputs) == ["y"]


def test_a_tensor_is_a_result_of_a_node() -> None:
    node = af.input((2,)).node
    with pytest.raises(GraphError, match=r"input: it has no result -1 \(got -1, limit 0 to 0\)"):
        af.Tensor(node, -1)
    with pytest.raises(GraphError, match="it has no result 1"):
        af.Tensor(node, 1)
    for arguments in [(5,), (node, "0"), (node, True), (node, 0.0)]:
        with pytest.raises(GraphTypeError):
            af.Tensor(*cast("Any", arguments))


def test_making_a_tensor_is_cheap() -> None:
    node = af.input((2,)).node
    seconds = min(timeit.repeat(lambda: af.Tensor(node), number=2_000, repeat=5)) / 2_000
    assert seconds < 5e-6, "about half a microsecond on the machine on which it was written"


def test_a_copy_is_the_thing_itself() -> None:
    graph = example()
    tensor = graph.outputs["y"]
    for thing in (graph, tensor, tensor.node, tensor.node.op):
        assert copy.copy(thing) is thing
        assert copy.deepcopy(thing) is thing
    assert copy.deepcopy({"a": [tensor]})["a"][0] is tensor


def test_an_operation_is_pickled_by_its_name() -> None:
    assert all(pickle.loads(pickle.dumps(op)) is op for op in ops().values())  # noqa: S301 - its own pickle
    assert len(pickle.dumps(find_op("conv"))) < 100


def test_a_graph_is_pickled_with_its_constants() -> None:
    graph = example()
    again: af.Graph = pickle.loads(pickle.dumps(graph))  # noqa: S301 - its own pickle
    assert again == graph
    assert hash(again) == hash(graph)
    assert list(again.inputs) == ["in put"]
    assert [node.location for node in again.nodes] == [node.location for node in graph.nodes]
    values = [np.array([[1.0, 2.0]])]
    for name, value in af.reference(graph, values).items():
        assert af.reference(again, values)[name].tolist() == value.tolist()
    constant: Constant = again.constants["c1"]
    assert isinstance(constant, Dense)
    with pytest.raises(ValueError, match="read-only"):
        constant.values[0] = 5


def test_a_deep_graph_is_pickled_without_recursion() -> None:
    y = af.input((1,))
    for _ in range(5_000):
        y = y.relu()
    graph = af.Graph({"y": y})
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 - its own pickle


def test_a_part_of_a_graph_is_not_pickled_alone() -> None:
    tensor = af.input((1,)).relu()
    with pytest.raises(
        GraphTypeError, match=r"a tensor is pickled only as part of its graph.*Remedy: pickle af\.Graph"
    ):
        pickle.dumps(tensor)
    with pytest.raises(GraphTypeError, match="a node is pickled only as part of its graph"):
        pickle.dumps(tensor.node)


def test_the_text_is_printed_once() -> None:
    graph = example()
    first, second = str(graph), str(graph)
    assert first is second
    assert graph == af.Graph(graph.outputs, graph.states)
    assert len({graph, af.Graph(graph.outputs, graph.states)}) == 1
    assert graph != af.Graph(graph.outputs)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_layers_of_one_array_share_its_memory_until_it_changes(dtype: type[np.floating[Any]]) -> None:
    """Sixty layers over one array were sixty copies of it."""
    weights = np.ones((4, 4), dtype)
    x = af.input((1, 4))
    first, second = (cast("Dense", x.linear(weights).node.operands["weight"]) for _ in range(2))
    assert first is second
    assert not np.may_share_memory(first.values, weights)
    weights[0, 0] = 2
    changed = cast("Dense", x.linear(weights).node.operands["weight"])
    assert (first.values[0, 0], changed.values[0, 0]) == (1, 2)
    weights[0, 0] = -0.0
    again = cast("Dense", x.linear(weights).node.operands["weight"])
    weights[0, 0] = 0.0
    assert cast("Dense", x.linear(weights).node.operands["weight"]) is not again, "zeros of other signs are other bits"

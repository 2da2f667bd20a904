"""Graphs and tensors: immutable, ordered, located, general."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.display import MOST_LINES
from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.graph import work_of
from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import rewrite
from aneforge.ops.constant import Dense


def test_a_tensor_tells_what_made_it() -> None:
    x = af.input((1, 3, 8, 8))
    y = af.conv(x, np.ones((4, 3, 3, 3), np.float32), pad=1).relu()
    assert (y.op, y.shape, y.dtype) == ("relu", (1, 4, 8, 8), "fp16")
    (convolved,) = y.srcs
    assert convolved.op == "conv"
    assert convolved.srcs == (x,)
    assert convolved.attrs["pad"] == (1, 1, 1, 1)
    assert str(getattr(convolved.attrs["weight"], "dtype", None)) == "float16"
    assert repr(y) == "<tensor fp16[1, 4, 8, 8] of relu>"


def test_a_node_knows_where_the_user_made_it() -> None:
    x = af.input((2,))
    y = x.relu()
    assert y.node.location is not None
    assert Path(str(y.node.location.file)).name == "test_graph.py"
    assert x.node.location is not None
    assert (y.node.location.line or 0) == (x.node.location.line or 0) + 1


def test_an_error_names_the_users_line() -> None:
    x = af.input((2, 3))
    with pytest.raises(
        GraphError, match=r"^add at .*test_graph\.py:\d+: the shapes \[2, 3\] and \[4\] do not broadcast"
    ):
        _ = x + af.input((4,))


def test_inputs_are_fed_in_the_order_of_their_making() -> None:
    first, second = af.input((1,)), af.input((1,))
    graph = af.Graph({"y": second - first})
    assert list(graph.inputs) == ["x0", "x1"]
    assert af.reference(graph, [np.array([1.0]), np.array([5.0])])["y"].tolist() == [4.0]


def test_a_graph_orders_nodes_after_those_that_they_read() -> None:
    x = af.input((4,))
    shared = x.relu()
    graph = af.Graph({"a": shared + shared.tanh(), "b": shared.sigmoid()})
    place = {node: number for number, node in enumerate(graph.nodes)}
    assert all(place[source.node] < place[node] for node in graph.nodes for source in node.sources())
    assert len(graph.nodes) == 5
    assert [reader.op.name for reader in graph.consumers[shared.node]] == ["tanh", "add", "sigmoid"]


def test_a_deep_graph_needs_no_recursion() -> None:
    x = af.input((1,))
    y = x
    for _ in range(20_000):
        y = y.relu()
    graph = af.Graph({"y": y})
    assert len(graph.nodes) == 20_001
    assert af.reference(graph, [np.array([3.0])])["y"].tolist() == [3.0]


def test_constants_are_named_once() -> None:
    x = af.input((2,))
    ones = np.ones(2, np.float16)
    graph = af.Graph({"y": (x + ones) * (x.relu() + ones) + np.zeros(2)})
    assert list(graph.constants) == ["c0", "c1"]


def test_a_constant_cannot_be_changed_from_outside() -> None:
    weights = np.ones((2, 2), np.float16)
    y = af.input((1, 2)).linear(weights)
    weights[:] = 7
    stored = y.attrs["weight"]
    assert isinstance(stored, np.ndarray)
    assert stored.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        stored[0, 0] = 3


def test_states_are_read_at_the_start_and_written_at_the_end() -> None:
    total = af.state("total", (2,))
    x = af.input((2,))
    graph = af.Graph({"before": total}, states={"total": total + x})
    from aneforge.graph.reference import evaluate  # noqa: PLC0415 - the states' end is no public result yet

    outputs, states = evaluate(graph, [np.array([1.0, 2.0])], {"total": np.array([10.0, 20.0])})
    assert outputs["before"].tolist() == [10.0, 20.0]
    assert states["total"].tolist() == [11.0, 22.0]


def test_a_state_that_is_written_must_be_read() -> None:
    with pytest.raises(GraphError, match="state 'lost' is written and never read"):
        af.Graph({}, states={"lost": af.input((2,))})


def test_a_state_keeps_its_type() -> None:
    held = af.state("held", (2,))
    with pytest.raises(GraphError, match=r"state 'held' changes its type \(got fp16\[1, 2\], expected fp16\[2\]\)"):
        af.Graph({"y": held}, states={"held": held.expand_dims(0)})


def test_two_inputs_of_one_name_are_refused() -> None:
    x, y = af.input((1,), name="x"), af.input((1,), name="x")
    with pytest.raises(
        GraphError, match=r"^at .*test_graph\.py:\d+: two inputs are called 'x'\. Remedy: give them different names"
    ):
        af.Graph({"y": x + y})


@pytest.mark.parametrize("shape", [(1,), (2,)])
def test_two_states_of_one_name_are_refused(shape: tuple[int, ...]) -> None:
    one, other = af.state("kept", (1,)), af.state("kept", shape)
    with pytest.raises(GraphError, match=r"two states are called 'kept'\. Remedy: read the state once"):
        af.Graph({"a": one, "b": other})


def test_a_state_and_an_input_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="an input and a state are called 'x'"):
        af.Graph({"a": af.state("x", (1,)), "b": af.input((1,), name="x")})
    with pytest.raises(GraphError, match="an input and a state are called 'x'"):
        af.Graph({"b": af.input((1,), name="x"), "a": af.state("x", (1,))})


def test_inputs_without_a_name_avoid_the_names_that_are_given() -> None:
    first, named, third = af.input((1,)), af.input((1,), name="x0"), af.input((1,))
    kept = af.state("x2", (1,))
    graph = af.Graph({"y": (first - named) * third + kept})
    assert list(graph.inputs) == ["x1", "x0", "x3"]
    assert list(af.Graph({"y": af.input((1,), name="x1") - af.input((1,))}).inputs) == ["x1", "x2"]
    values = {"x1": np.array([5.0]), "x0": np.array([3.0]), "x3": np.array([10.0])}
    assert af.reference(graph, values)["y"].tolist() == [20.0]
    assert list(af.Graph.parse(str(graph)).inputs) == list(graph.inputs)


def test_a_graph_needs_an_output() -> None:
    with pytest.raises(GraphError, match="a graph needs an output"):
        af.Graph({})


@pytest.mark.parametrize("out", [3, "text", [1, 2], {"y": None}])
def test_a_graph_is_made_of_tensors(out: object) -> None:
    with pytest.raises(GraphTypeError, match="tensor"):
        af.preflight(out, 5)  # pyright: ignore[reportArgumentType] - what an untyped caller may pass


@pytest.mark.parametrize(
    ("outputs", "states", "message"),
    [
        ({"y": 5}, None, r"output 'y' is not a tensor \(got int\)"),
        ([1], None, r"the outputs of a graph are not tensors by name \(got list\)\. Remedy: give a dict"),
        (af.input((1,)), None, r"the outputs of a graph are not tensors by name \(got Tensor\)"),
        (None, None, "the outputs of a graph are not tensors by name"),
        ({5: af.input((1,))}, None, r"the name of output 5 is not text \(got int\)"),
        ({}, {"s": 5}, "state 's' is not a tensor"),
        ({"y": af.input((1,))}, [af.input((1,))], "the states of a graph are not tensors by name"),
        ({"y": af.input((1,))}, 0, "the states of a graph are not tensors by name"),
    ],
)
def test_outputs_and_states_are_tensors_by_name(outputs: object, states: object, message: str) -> None:
    with pytest.raises(GraphTypeError, match=message):
        af.Graph(cast("Any", outputs), cast("Any", states))


def test_a_name_that_text_cannot_hold_is_refused() -> None:
    with pytest.raises(GraphError, match="has half of a surrogate pair in its name"):
        af.Graph({"\ud83d\ude00": af.input((1,))})
    with pytest.raises(GraphError, match=r"input .* has half of a surrogate pair"):
        af.Graph({"y": af.Tensor(build("input", {}, {"shape": (1,), "name": "\ud83d\ude00"}))})


def test_operands_may_be_bare_outputs() -> None:
    x = af.input((2,))
    y = af.Tensor(build("relu", {"x": Output(x.node)}))
    (source,) = y.srcs
    assert isinstance(source, af.Tensor)
    assert source.node is x.node


def test_a_constant_in_a_list_counts_as_a_weight() -> None:
    x = af.input((1, 4))
    y = af.Tensor(build("concat", {"values": (x, Dense(np.ones((1, 2), np.float16)), x)}, {"axis": 1}))
    work = work_of(y.node)
    assert (work.bytes_in, work.bytes_weights, work.bytes_out) == (16, 4, 20)
    total = af.Graph({"y": y}).work()
    assert (total.bytes_in, total.bytes_weights) == (16, 4)


def test_a_replacement_has_the_type_of_what_it_replaces() -> None:
    x = af.input((2,))
    with pytest.raises(GraphTypeError, match=r"relu at .*: a node was replaced by a tensor of another type \(got fp16"):
        rewrite(af.Graph({"y": x.relu()}), lambda node, _: [x.expand_dims(0)] if node.op.name == "relu" else None)


def test_a_graph_of_which_nothing_is_replaced_is_that_graph() -> None:
    x = af.input((2,), name="x")
    state = af.state("kept", (2,))
    graph = af.Graph({"y": x.relu(), "z": x.abs() + state}, {"kept": x})
    assert rewrite(graph, lambda _, __: None) is graph
    changed = rewrite(graph, lambda node, _: [x.tanh()] if node.op.name == "relu" else None)
    assert changed is not graph
    assert changed.outputs["z"].node is graph.outputs["z"].node
    exchanged = rewrite(graph, lambda node, _: [x] if node.op.name == "relu" else None)
    assert exchanged.outputs["y"].node is x.node


def test_a_file_beside_the_package_is_the_users() -> None:
    """A user's folder may begin with the name of this package's."""
    file = str(Path(af.__file__).parent) + "_models/net.py"
    names: dict[str, Any] = {"af": af}
    exec(compile("y = af.input((1,)).relu()", file, "exec"), names)  # noqa: S102 - code of a file that need not be there
    assert names["y"].node.location.file == file


def test_graphs_are_general_in_type_and_rank() -> None:
    node = build("input", {}, {"shape": (1,) * 6, "dtype": "int64", "name": "x"})
    doubled = build("add", {"x": af.Tensor(node), "y": af.Tensor(node)})
    result = af.reference(af.Graph({"y": af.Tensor(doubled)}), [np.full((1,) * 6, 2**40)])["y"]
    assert result.dtype == np.int64
    assert result.item() == 2**41


def test_reference_names_what_is_wrong_with_the_values() -> None:
    graph = af.Graph({"y": af.input((2,), name="x").relu()})
    with pytest.raises(GraphError, match=r"the inputs do not match \(got 2, limit 1 values\)"):
        af.reference(graph, [np.zeros(2), np.zeros(2)])
    with pytest.raises(GraphError, match="there is no input 'z'"):
        af.reference(graph, {"z": np.zeros(2)})
    with pytest.raises(GraphError, match="input 'x' has no value"):
        af.reference(graph, {})
    with pytest.raises(GraphError, match=r"input 'x' has the wrong shape \(got \[3\], expected \[2\]\)"):
        af.reference(graph, {"x": np.zeros(3)})


def test_summary_and_representations() -> None:
    graph = af.Graph({"y": af.input((1, 4)).linear(np.zeros((8, 4), np.float16)).relu()})
    assert str(graph.summary()) == "3 nodes (1 input, 1 linear, 1 relu); 1 constant, 64 bytes; 32 multiply-accumulates"
    assert repr(graph) == "<graph of 3 nodes: x0 -> y>"
    in_a_notebook = getattr(graph, "_repr_html_")()  # noqa: B009 - the notebook's protocol
    assert in_a_notebook.startswith("<div><strong>&lt;graph of 3 nodes: x0 -&gt; y&gt;</strong><pre>graph {")
    y = af.input((1, 4))
    for _ in range(MOST_LINES):
        y = y.tanh()
    assert len(getattr(af.Graph({"y": y}), "_repr_html_")().splitlines()) <= MOST_LINES  # noqa: B009 - as above


def test_building_from_several_threads() -> None:
    results: list[af.Graph] = []

    def work() -> None:
        x = af.input((1, 4))
        y = x
        for _ in range(200):
            y = (y * 1.5).tanh()
        results.append(af.Graph({"y": y}))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [af.reference(graph, [np.ones((1, 4))])["y"].tolist() for graph in results]
    assert len(values) == 8
    assert all(value == values[0] for value in values)

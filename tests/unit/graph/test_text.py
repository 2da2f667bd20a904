"""The text form: read back exactly, for every operation of the table; mistakes in it are named."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.errors import AneforgeError, GraphError, GraphTypeError, Location
from aneforge.graph.node import build
from aneforge.graph.printing import KEYWORDS
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops
from aneforge.testing.graphs import DrawnGraph, graphs, one_operation

if TYPE_CHECKING:
    from aneforge.ops.op import Op
    from golden_text import Golden

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


def sample_graph() -> af.Graph:
    place = Location("model.py", 12)
    x = af.Tensor(build("input", {}, {"shape": (1, 4), "name": "x"}, place))
    y = af.Tensor(build("add", {"x": x, "y": Dense(np.arange(4, dtype=np.float16)[None])}, {}, place))
    node = build("split", {"x": y}, {"num_splits": 2, "axis": 1}, Location("model.onnx", node='odd "name"'))
    joined = build("concat", {"values": (af.Tensor(node, 1), af.Tensor(node, 0))}, {"axis": -1}, place)
    return af.Graph({"y": af.Tensor(joined), "not an identifier": y})


def test_the_form(golden: Golden) -> None:
    golden(str(sample_graph()))


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


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
@example("é", "ﬁ")  # a letter beyond ASCII, and one that Python's own names would change
@example("", " ")
@example("a\nb", 'quoted "name" \\')
@example("a" * 64, "sha256")
def test_every_name_reads_back(first: str, second: str) -> None:
    check_names([first, second])


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_a_word_of_the_grammar_is_a_name_too(name: str) -> None:
    check_names([name])
    x = af.state(name, (1,))
    assert f'return "{name}" = %0' in str(af.Graph({name: x}))


def check_names(names: list[str]) -> None:
    held = {name: af.Tensor(build("state", {}, {"name": name, "shape": (1,)})) for name in names}
    written = {name: value.relu() for name, value in held.items()}
    graph = af.Graph(held, states=written)
    again = af.Graph.parse(str(graph))
    assert str(again) == str(graph)
    assert list(again.outputs) == list(graph.outputs) == list(held)
    assert list(again.states) == list(graph.states) == list(held)


MISTAKES = [
    (1, "graph {", "graf {", "this is not a graph:\ngraf {\n^"),
    (1, "graph {", "graph", "this is not a graph:\ngraph\n"),
    (1, "graph {", "graph { %0", "this is not a graph:\ngraph { %0\n        ^"),
    (3, "%1", "!1", "this is not a graph:\n!1 = add"),
    (3, "%1 = add", "%1 = = add", "this is not a graph:\n%1 = = add"),
    (3, "%1 = add", "%1 = ad", "unknown operation 'ad'; nearest: "),
    (3, "%1 = add", "%1#0 = add", "a node is defined by its number only (got %1#0, expected %1)"),
    (3, "%1 = add", "%0 = add", "%0 is defined twice"),
    (3, "fp16[1, 4] at", "fp16[1, 5] at", "the types are not those that the operation gives"),
    (3, "fp16[1, 4] at", "fp17[1, 4] at", "unknown element type 'fp17'"),
    (3, "fp16[1, 4] at", "fp16[1, 4", "this is not a graph"),
    (3, "fp16[1, 4] at", f"fp16[1, {'9' * 5000}] at", "the number is too long (got 5000 digits, limit 4300 digits)"),
    (3, "x = %0", "x = %7", "%7 is used before it is defined"),
    (3, "x = %0", f"x = %{'7' * 5000}", "the number is too long"),
    (3, "x = %0", "x = %0#1", "%0 has no result 1"),
    (3, "x = %0", "x = %0#-1", "this is not a graph"),
    (3, "x = %0", "x = %\u0660", "this is not a graph"),  # an Arabic digit, which Python reads as one
    (3, "x = %0", "x = %0, x = %0", "operand 'x' is given twice"),
    (3, "x = %0", "z = %0", "there is no operand 'z'"),
    (3, "x = %0", "x = [%0]", "operand 'x' is not one tensor"),
    (3, "x = %0, ", "", "operand 'x' is missing"),
    (3, "@c0)", "@c9)", "constant @c9 is not given"),
    (3, "@c0)", "@c0", "this is not a graph"),
    (3, " line 12", f" line {'1' * 5000}", "the number is too long"),
    (3, '"model.py"', r'"model\q.py"', "this text cannot be read: Invalid"),
    (3, '"model.py"', '"model\t.py"', "this text cannot be read: Invalid control character"),
    (3, '"model.py"', r'"model\u12.py"', "this text cannot be read: Invalid"),
    (4, "axis = 1}", "axes = 1}", "there is no attribute 'axes'"),
    (4, "axis = 1}", "axis = yes}", "this is not the value of an attribute"),
    (4, "axis = 1}", "axis = 1, axis = 1}", "attribute 'axis' is given twice"),
    (4, "axis = 1}", "axis = \u0661}", "this is not a graph"),
    (4, "axis = 1}", "axis = 1e999}", "the number is too large (got 1e999"),
    (4, "axis = 1}", f"axis = {'9' * 400}.0}}", "the number is too large"),
    (4, "axis = 1}", f"axis = {'9' * 5000}}}", "the number is too long"),
    (4, "axis = 1}", f"axis = {'[' * 900}{']' * 900}}}", "this is not a graph"),
    (4, "axis = 1}", f"axis = {'[' * 100_000}}}", "this is not a graph"),
    (5, "%2#1", "%2#5", "%2 has no result 5"),
    (6, "return y = ", "return y = %0, y = ", "two outputs are called 'y'"),
    (6, '"not an', r'"not\xan', "this text cannot be read"),
    (6, "return", "write", "the line does not belong here"),
    (7, "constant @c0", "constant @c1", "constant @c1 is never used"),
    (7, "fp16[1, 4] dense", "fp16[4, 1] dense", "constant @c0 is not the one of the text"),
    (7, "fp16[1, 4] dense", "fp16[1, 4] sparse", "constant @c0 is not the one of the text"),
    (7, "sha256:", "sha256:0", "this is not a graph"),
    (7, "constant", "return y = %0", "the line does not belong here"),
    (8, "}", "}}", "this is not a graph"),
]


@pytest.mark.parametrize(("line", "old", "new", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_line(line: int, old: str, new: str, message: str) -> None:
    graph = sample_graph()
    lines = str(graph).split("\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    with pytest.raises(AneforgeError, match=re.escape(message)) as caught:
        af.Graph.parse("\n".join(lines), graph.constants)
    assert isinstance(caught.value, ValueError)
    assert caught.value.location == Location("graph text", line)


def lines_without(*left_out: int) -> str:
    return "".join(
        f"{text}\n" for number, text in enumerate(str(sample_graph()).split("\n"), 1) if number not in left_out
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the text ends before its closing brace"),
        ("\n \n", 1, "the text ends before its closing brace"),
        (lines_without(8), 7, "the text ends before its closing brace"),
        (lines_without(1), 1, "the line does not belong here"),
        (lines_without(6), 6, "the line does not belong here"),
        (lines_without(7), 3, "constant @c0 has no line at the end that says which it is"),
        (lines_without(3), 3, "%1 is used before it is defined"),
        (lines_without() + "}\n", 10, "the line does not belong here"),
        (lines_without() + "more\n", 10, "this is not a graph"),
        ("graph {\n  return\n}\n", 3, "a graph needs an output"),
        (
            "graph {\n %0 = input() {shape = [1]} : fp16[1]\n return y = %0\n write s = %0\n}",
            5,
            "is written and never read",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        af.Graph.parse(text, sample_graph().constants)
    assert caught.value.location == Location("graph text", line)


@pytest.mark.parametrize("text", [None, b"", b"graph {", 5, ["graph {"]])
def test_only_text_is_read(text: object) -> None:
    with pytest.raises(GraphTypeError, match="a graph is read from text"):
        af.Graph.parse(cast("Any", text))


def test_only_constants_stand_for_symbols() -> None:
    graph = sample_graph()
    with pytest.raises(GraphTypeError, match="@c0 is given something that is not a constant"):
        af.Graph.parse(str(graph), cast("Any", {"c0": np.zeros((1, 4), np.float16)}))
    with pytest.raises(GraphTypeError, match="constants are given by their symbols"):
        af.Graph.parse(str(graph), cast("Any", [1]))


def test_another_constant_under_the_symbol_is_refused() -> None:
    graph = sample_graph()
    other = {symbol: Dense(np.zeros((1, 4), np.float16)) for symbol in graph.constants}
    with pytest.raises(GraphError, match="constant @c0 is not the one of the text"):
        af.Graph.parse(str(graph), other)


def test_blanks_and_line_ends_may_differ() -> None:
    graph = sample_graph()
    spread = str(graph).replace("(", " ( ").replace(" = ", "=").replace("\n", " \r\n\n\t")
    assert af.Graph.parse(spread, graph.constants) == graph


def test_a_long_line_is_shown_in_part() -> None:
    text = f"graph {{\n  %0 = input() {{shape = [{'1, ' * 5000}!]}} : fp16[1]\n"
    with pytest.raises(GraphError) as caught:
        af.Graph.parse(text)
    assert len(str(caught.value)) < 300
    assert "1, !]} : fp16[1]" in str(caught.value)


def test_reading_keeps_little_beside_the_graph() -> None:
    """Memory grows with the graph and not with the tree of the whole text, which is seven times as much."""
    y = af.input((1, 8))
    for _ in range(2_000):
        y = (y * 1.5).relu()
    graph = af.Graph({"y": y})
    text = str(graph)
    tracemalloc.start()
    af.Graph.parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / len(graph.nodes) < 2_500, "bytes per node; about 1,000 when this was written"

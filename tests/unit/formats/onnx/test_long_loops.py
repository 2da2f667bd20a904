"""Long loops: one operation of the graph, which unrolls to what the import of every iteration gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared import unrolling
from aneforge.formats.shared.findings import TooLargeModelError, UnsupportedModelError
from aneforge.formats.shared.unrolling import UNROLLED_MOST
from aneforge.graph.convert import unroll
from unit.formats.onnx.onnx_models import made, node, numbers, port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unit.formats.onnx.onnx_models import Port

STEPS = UNROLLED_MOST + 1
HIDDEN, FEATURES = 4, 3
ROW: dict[str, Port] = {"h": ("fp32", [1, HIDDEN]), "r": ("fp32", [1, FEATURES])}
LOOP: dict[str, Port] = {"i": ("int64", []), "c": ("bool", []), "v": ("fp32", [2, 3])}
RECURRENCE = [
    node("MatMul", ["r", "W"], ["a"]),
    node("MatMul", ["h", "R"], ["b"]),
    node("Add", ["a", "b"], ["s"]),
    node("Tanh", ["s"], ["t"]),
    node("Identity", ["t"], ["o"]),
]
WEIGHTS = {"W": numbers(FEATURES, HIDDEN) / 8, "R": numbers(HIDDEN, HIDDEN) / 8}
ZERO = {"zero": np.zeros((1, HIDDEN), np.float32)}
PASS = node("Identity", ["c"], ["d"])
DOUBLE = node("Add", ["v", "v"], ["w"])


def inner(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], inputs: Mapping[str, Port]) -> onnx.GraphProto:
    ports = [port(name, kind) for name, kind in inputs.items()]
    return helper.make_graph(list(nodes), "inner", ports, [onnx.ValueInfoProto(name=name) for name in outputs])


def recurrent(
    steps: int = STEPS, nodes: Sequence[onnx.NodeProto] = RECURRENCE, start: str = "start", **attributes: object
) -> onnx.ModelProto:
    """Return a recurrent network as a scan."""
    body = inner(nodes, ["t", "o"], ROW)
    scan = node("Scan", [start, "x"], ["y", "all"], {"body": body, "num_scan_inputs": 1, **attributes})
    shape = [steps, 1, FEATURES] if not attributes.get("scan_input_axes") else [1, steps, FEATURES]
    fed: dict[str, Port] = {"x": ("fp32", shape), "start": ("fp32", [1, HIDDEN])}
    return made([scan], fed if start == "start" else {"x": fed["x"]}, ["y", "all"], {**WEIGHTS, **ZERO})


def counted(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], count: int = STEPS, condition: str = ""
) -> onnx.ModelProto:
    """Return a loop of a known count, whose first variable is the input."""
    loop = node(
        "Loop", ["n", condition, "x"], ["y", *("all",) * (len(outputs) - 2)], {"body": inner(nodes, outputs, LOOP)}
    )
    weights = {
        "n": np.array(count), "yes": np.array(1, np.bool_), "five": np.array(5), "table": numbers(STEPS, 2, 3),
    }  # fmt: skip
    return made([loop], {"x": ("fp32", [2, 3])}, list(loop.output), weights)


def both_ways(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> tuple[af.Graph, af.Graph]:
    """Return the graph of a model, and that in which every iteration was imported."""
    one = from_onnx(model)
    monkeypatch.setattr(unrolling, "UNROLLED_MOST", 10**9)
    return one, from_onnx(model)


def operations(graph: af.Graph) -> list[str]:
    return [one.op.name for one in graph.nodes if one.op.name != "input"]


COUNTED = {
    "a variable alone": ([DOUBLE, PASS], ["d", "w"], ""),
    "a condition that always holds": ([DOUBLE, PASS], ["d", "w"], "yes"),
    "what iterations give": ([DOUBLE, PASS], ["d", "w", "w"], ""),
    "the number of the iteration": (
        [node("Cast", ["i"], ["f"], {"to": 1}), node("Add", ["v", "f"], ["w"]), PASS],
        ["d", "w"],
        "",
    ),
    "a row by the number of the iteration": (
        [node("Gather", ["table", "i"], ["g"]), node("Add", ["v", "g"], ["w"]), PASS],
        ["d", "w"],
        "",
    ),
    "something else in one iteration": (
        [
            node("Equal", ["i", "five"], ["e"]),
            node("Where", ["e", "v", "x"], ["g"]),
            node("Add", ["v", "g"], ["w"]),
            PASS,
        ],
        ["d", "w"],
        "",
    ),
}
SCANNED = {
    "forwards": {},
    "from zeros": {"start": "zero"},
    "backwards": {"scan_input_directions": [1]},
    "backwards, its outputs too": {"scan_input_directions": [1], "scan_output_directions": [1]},
    "along another axis": {"scan_input_axes": [1], "nodes": [node("Identity", ["r"], ["q"]), *RECURRENCE]},
    "to another axis": {"scan_output_axes": [1]},
}


@pytest.mark.parametrize("name", SCANNED)
def test_a_long_scan_is_one_operation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both_ways(recurrent(**SCANNED[name]), monkeypatch)  # pyright: ignore[reportArgumentType] - as above
    assert operations(one).count("scan") == 1
    assert len(operations(one)) <= 2
    assert str(unroll(one).graph) == str(other)
    expect_same_programs(one, other)


@pytest.mark.parametrize("name", COUNTED)
def test_a_long_loop_is_one_operation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both_ways(counted(*COUNTED[name][:2], condition=COUNTED[name][2]), monkeypatch)
    assert operations(one) == ["scan"]
    assert str(unroll(one).graph) == str(other)


def expect_same_programs(one: af.Graph, other: af.Graph) -> None:
    """Check that two graphs compile to one program, with the same bits."""
    programs = [af.build_program(af.to_fp16(graph).graph, af.targets.Family.A15) for graph in (one, other)]
    assert str(programs[0]) == str(programs[1])
    feeds = {name: numbers(*node.types[0].shape) / 4 for name, node in other.inputs.items()}
    found = [af.run(program, feeds).outputs for program in programs]
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[1])


def test_the_graph_of_a_scan_does_not_grow_with_its_steps() -> None:
    short, long = (str(from_onnx(recurrent(steps))) for steps in (STEPS, 30 * STEPS))
    assert len(long) - len(short) < 20


STAY: dict[str, tuple[onnx.NodeProto, Port]] = {
    "a counter among the variables": (node("Add", ["k", "one"], ["k1"]), ("int64", [])),
    "a variable that grows": (node("Concat", ["k", "v"], ["k1"], {"axis": 0}), ("fp32", [None, 3])),
}


@pytest.mark.parametrize("name", STAY)
def test_a_loop_whose_turns_differ_in_more_than_values_is_unrolled(name: str) -> None:
    changed, kind = STAY[name]
    body = inner([DOUBLE, changed, PASS], ["d", "w", "k1"], {**LOOP, "k": kind})
    start = "one" if kind[0] == "int64" else "x"
    loop = node("Loop", ["n", "", "x", start], ["y", "k_out"], {"body": body})
    model = made([loop], {"x": ("fp32", [2, 3])}, ["y", "k_out"], {"n": np.array(STEPS), "one": np.array(1, np.int64)})
    assert operations(from_onnx(model)).count("add") == STEPS


def test_a_turn_that_does_something_else_is_unrolled() -> None:
    other = helper.make_graph([node("Tanh", ["v"], ["then"])], "then", [], [onnx.ValueInfoProto(name="then")])
    same = helper.make_graph([node("Identity", ["v"], ["else"])], "else", [], [onnx.ValueInfoProto(name="else")])
    branch = node("If", ["e"], ["w"], {"then_branch": other, "else_branch": same})
    graph = from_onnx(counted([node("Equal", ["i", "five"], ["e"]), branch, PASS], ["d", "w"]))
    assert operations(graph) == ["tanh"]


def test_short_loops_are_unrolled() -> None:
    assert operations(from_onnx(recurrent(UNROLLED_MOST))).count("tanh") == UNROLLED_MOST


def test_loops_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = node(
        "Scan",
        ["h", "x"],
        ["t", "o"],
        {"body": inner([*RECURRENCE[:-1], node("Identity", ["t"], ["u"])], ["t", "u"], ROW), "num_scan_inputs": 1},
    )
    body = inner([scan], ["t", "o"], {"h": ("fp32", [1, HIDDEN]), "z": ("fp32", [1])})
    outer = node("Scan", ["start", "q"], ["y", "all"], {"body": body, "num_scan_inputs": 1})
    fed: dict[str, Port] = {
        "x": ("fp32", [STEPS, 1, FEATURES]),
        "start": ("fp32", [1, HIDDEN]),
        "q": ("fp32", [STEPS, 1]),
    }
    one, other = both_ways(made([outer], fed, ["y", "all"], WEIGHTS), monkeypatch)
    assert operations(one) == ["scan"]
    assert str(unroll(one).graph) == str(other)
    assert af.Graph.parse(str(one), one.constants) == one


def test_what_stops_a_turn_is_said_once() -> None:
    listed = [node("SequenceConstruct", ["s"], ["l"]), node("ConcatFromSequence", ["l"], ["t"], {"axis": 0})]
    with pytest.raises(UnsupportedModelError) as raised:
        from_onnx(recurrent(nodes=[*RECURRENCE[:-2], *listed, RECURRENCE[-1]]))
    assert str(raised.value).count("Scan_y/") == 1


def test_places_in_a_loop_are_those_of_the_file() -> None:
    graph = unroll(from_onnx(recurrent())).graph
    places = {one.location.node for one in graph.nodes if one.op.name == "tanh" and one.location}
    assert places == {"Scan_y/Tanh_t"}


def test_a_loop_of_too_many_turns_is_one_error() -> None:
    with pytest.raises(TooLargeModelError, match="unrolls to too many operations"):
        from_onnx(counted([DOUBLE, PASS], ["d", "w"], 2**40))
    with pytest.raises(TooLargeModelError, match="unrolls to too many operations"):
        from_onnx(recurrent(2**20))

"""Integers in `to_fp16`: 64 bits become 32, computed ones too, and a number without room keeps all of them."""

from __future__ import annotations

import numpy as np
import pytest

import aneforge as af
from aneforge.graph.node import build
from aneforge.ops.constant import Dense

SHORT = "the model's integers of 64 bits were taken as 32 bits wide"
KEPT = "the model's integers of 64 bits were kept: "


def port(dtype: str = "int64", name: str = "m") -> af.Tensor:
    return af.Tensor(build("input", {}, {"name": name, "shape": (2, 4), "dtype": dtype}))


def dtypes(graph: af.Graph) -> set[str]:
    tensors = {kind.dtype for node in graph.nodes for kind in node.types}
    return tensors | {constant.type.dtype for node in graph.nodes for constant in node.constants()}


COMPUTED: dict[str, tuple[dict[str, Dense], dict[str, object]]] = {
    "cumsum": ({}, {"axis": -1}),
    "reduce_sum": ({}, {"axes": (1,)}),
    "floor_div": ({"y": Dense(np.array([3]))}, {}),
    "mod": ({"y": Dense(np.array(3, np.int64))}, {}),
    "minimum": ({"y": Dense(np.array([2**63 - 1]))}, {}),
    "maximum": ({"y": Dense(np.array([-(2**63)]))}, {}),
}


@pytest.mark.parametrize("op", COMPUTED)
def test_computed_whole_numbers_become_shorter(op: str) -> None:
    operands, attributes = COMPUTED[op]
    graph = af.Graph({"y": af.Tensor(build(op, {"x": port(), **operands}, attributes))})
    made = af.to_fp16(graph)
    assert dtypes(made.graph) == {"int32"}
    assert made.notes == (SHORT,)
    numbers = np.random.default_rng(1).integers(-9, 9, (2, 4))
    assert np.array_equal(af.reference(made.graph, [numbers])["y"], af.reference(graph, [numbers])["y"])


def test_an_unsigned_bound_becomes_the_largest_whole_number() -> None:
    bound = build("minimum", {"x": port("uint64"), "y": Dense(np.array([2**64 - 1], np.uint64))}, {})
    made = af.to_fp16(af.Graph({"y": af.Tensor(bound)})).graph
    assert [constant.dense().tolist() for node in made.nodes for constant in node.constants()] == [[2**31 - 1]]


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_a_number_without_room_keeps_all_and_is_named(number: int) -> None:
    graph = af.Graph({"y": af.Tensor(build("add", {"x": port(), "y": Dense(np.array([1, 1, 1, number]))}, {}))})
    made = af.to_fp16(graph)
    assert made.graph is graph
    (note,) = made.notes
    assert note.startswith(f"{KEPT}add at {__file__}:")
    assert note.endswith(f" has the number {number}, which does not fit in int32")


@pytest.mark.parametrize(("op", "number"), [("minimum", -(2**40)), ("maximum", 2**40)])
def test_a_bound_that_always_holds_is_no_end_of_a_range(op: str, number: int) -> None:
    graph = af.Graph({"y": af.Tensor(build(op, {"x": port(), "y": Dense(np.array([number]))}, {}))})
    made = af.to_fp16(graph)
    assert made.graph is graph
    assert str(number) in made.notes[0]


def test_floating_tensors_are_halved_beside_numbers_without_room() -> None:
    large = af.Tensor(build("fill", {}, {"shape": (2, 4), "value": 2.0**40, "dtype": "int64"}))
    total = af.Tensor(build("add", {"x": port(), "y": large}, {}))
    made = af.to_fp16(af.Graph({"y": total, "z": af.Tensor(build("relu", {"x": port("fp32", "x")}, {}))}))
    assert dtypes(made.graph) == {"fp16", "int64"}
    assert made.notes[0].startswith("the model's floating-point tensors were taken as fp16")
    assert made.notes[1].startswith(KEPT)


def test_an_element_type_that_is_left_out_stays_so() -> None:
    wide = af.Tensor(build("input", {}, {"shape": (2, 3), "dtype": "fp32", "name": "x"}))
    filled = af.Tensor(build("fill_like", {"ref_tensor": wide}, {"value": 2.0}))
    assert filled.node.attributes["dtype"] is None
    assert af.to_fp16(filled).graph.outputs["y"].dtype == "fp16"

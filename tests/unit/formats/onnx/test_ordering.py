"""Nodes that stand out of order are put in one; only cycles are refused."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from aneforge.errors import GraphError
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.onnx.ordering import run_order
from unit.formats.onnx.onnx_models import made, node, numbers, results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unit.formats.onnx.onnx_models import Port

X = numbers(2, 3)
FED: dict[str, Port] = {"x": ("fp32", [2, 3])}
CONDITION = np.array(1, bool)


def chain(length: int) -> list[onnx.NodeProto]:
    """Return nodes each of which adds the input to what the one before it made."""
    names = ["x", *(f"v{place}" for place in range(length - 1)), "y"]
    return [node("Add", ["x", read], [name]) for read, name in pairwise(names)]


def inner(nodes: Sequence[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inner", [], [onnx.ValueInfoProto(name=output)])


def test_casts_that_a_converter_appends_are_run_first() -> None:
    """The usual converter to fp16 leaves its casts of inputs at the end; onnxruntime runs such models."""
    nodes = [
        node("Relu", ["half"], ["kept"]),
        node("Cast", ["x"], ["half"], {"to": onnx.TensorProto.FLOAT16}),
        node("Cast", ["kept"], ["y"], {"to": onnx.TensorProto.FLOAT}),
    ]
    model = made(nodes, FED)
    before = model.SerializeToString()
    with pytest.warns(UserWarning, match=r"not in order.*'Relu_kept' reads what a node after it makes.*do: 1"):
        found = results(model, {"x": X})["y"]
    np.testing.assert_allclose(found, np.maximum(X, 0), rtol=1e-3)
    assert model.SerializeToString() == before


def test_nodes_in_order_are_not_reported() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_onnx(made(chain(5), FED))


@given(st.permutations(range(9)))
def test_any_order_means_the_same(order: list[int]) -> None:
    nodes = [chain(9)[place] for place in order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = results(made(nodes, FED), {"x": X})["y"]
    np.testing.assert_allclose(found, 10 * X, rtol=1e-6)


@given(st.permutations(range(7)))
def test_every_node_comes_after_those_that_it_reads_and_the_rest_stays(order: list[int]) -> None:
    chained = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["c"])]
    alone = [node(name, ["x"], [name]) for name in ("Exp", "Sin", "Cos", "Tan")]
    nodes = [[*chained, *alone][place] for place in order]
    places = list(run_order(nodes))
    assert sorted(places) == list(range(7))
    found = [nodes[place].op_type for place in places]
    assert found.index("Relu") < found.index("Neg") < found.index("Abs")
    free = [name for name in found if name in ("Exp", "Sin", "Cos", "Tan")]
    assert free == [one.op_type for one in nodes if one.op_type in free]


def test_only_what_is_read_too_early_moves() -> None:
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Neg", ["a"], ["b"]),
        node("Sin", ["x"], ["s"]),
        node("Relu", ["x"], ["a"]),
    ]
    assert list(run_order(nodes)) == [0, 3, 1, 2]


def test_a_long_chain_backwards_needs_no_stack() -> None:
    nodes = chain(20_000)[::-1]
    assert list(run_order(nodes)) == list(range(len(nodes)))[::-1]


def test_graphs_within_nodes_and_functions_are_put_in_order() -> None:
    body = [node("Neg", ["p"], ["q"]), node("Relu", ["a"], ["p"])]
    function = helper.make_function("own", "F", ["a"], ["q"], body, [helper.make_opsetid("", 20)])
    taken = inner([node("Add", ["i", "late"], ["o"]), node("F", ["x"], ["i"], domain="own")], "o")
    nodes = [
        node("If", ["c"], ["y"], {"then_branch": taken, "else_branch": taken}),
        node("Exp", ["x"], ["late"]),
    ]
    model = made(nodes, FED, weights={"c": CONDITION}, functions=[function], domains={"own": 1})
    with pytest.warns(UserWarning, match="'If_y' reads what a node after it makes.*do: 4"):
        found = results(model, {"x": X})["y"]
    np.testing.assert_allclose(found, np.exp(X) - np.maximum(X, 0), rtol=1e-6)


def test_a_name_that_a_graph_within_makes_itself_is_no_cycle() -> None:
    own = inner([node("Relu", ["x"], ["t"])], "t")
    nodes = [
        node("If", ["c"], ["a"], {"then_branch": own, "else_branch": own}),
        node("Neg", ["a"], ["t"]),
        node("Exp", ["t"], ["y"]),
    ]
    found = results(made(nodes, FED, weights={"c": CONDITION}), {"x": X})["y"]
    np.testing.assert_allclose(found, np.exp(-np.maximum(X, 0)), rtol=1e-6)


def test_a_cycle_through_a_graph_within_is_refused() -> None:
    taken = inner([node("Relu", ["late"], ["o"])], "o")
    nodes = [
        node("If", ["c"], ["a"], {"then_branch": taken, "else_branch": taken}),
        node("Exp", ["a"], ["late"]),
        node("Neg", ["late"], ["y"]),
    ]
    with pytest.raises(GraphError, match=r"node 'If_a': it reads 'late', which node 'Exp_late' computes later"):
        from_onnx(made(nodes, FED, weights={"c": CONDITION}))


def test_a_long_cycle_is_named_in_part() -> None:
    nodes = chain(40)
    nodes[0].input[1] = "y"
    with pytest.raises(GraphError) as caught:
        from_onnx(made(nodes, FED))
    assert str(caught.value.seen).startswith("a cycle: 'Add_v0' reads from 'Add_y' reads from 'Add_v38' reads from")
    assert str(caught.value.seen).endswith("reads from 29 more nodes reads from 'Add_v0'")

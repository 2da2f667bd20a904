"""Conversion into dialects: what is expanded, what is listed, what is refused, and that it ends."""

from __future__ import annotations

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError, NotSupportedError
from aneforge.formats.mil.dialect import mil_dialect
from aneforge.formats.netplist.writing import netplist
from aneforge.graph.convert import convert, expand
from aneforge.graph.dialect import Dialect, Objection
from aneforge.graph.node import Node, build
from aneforge.ops.constant import Dense
from aneforge.ops.decomposition import Limits
from aneforge.ops.table import ops


def against(*names: str, **details: object) -> Dialect:
    """Return a dialect that takes everything but some operations."""

    def objection(node: Node) -> Objection | None:
        return Objection("not here", **details) if node.op.name in names else None  # pyright: ignore[reportArgumentType]

    return Dialect("a test's", objection)


def op_names(graph: af.Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.op.name != "input"]


def test_a_graph_without_objections_is_itself() -> None:
    graph = af.Graph({"y": af.input((1, 4)).silu()})
    made = convert(graph, against("tanh"))
    assert made.graph is graph
    assert made.changes == ()


def test_a_decomposition_is_decomposed_again_and_listed_once() -> None:
    graph = af.Graph({"y": af.input((2, 3)).l2_norm()})
    made = convert(graph, against("l2_norm", "reduce_l2_norm", "threshold", "real_div"))
    assert op_names(made.graph) == ["mul", "reduce_sum", "sqrt", "clip", "inverse", "mul"]
    (change,) = made.changes
    assert (change.op, change.decomposition, change.why) == ("l2_norm", "length", "not here")
    assert change.location is not None
    assert change.location.line is not None


def test_new_nodes_stand_where_the_user_made_the_old_one() -> None:
    y = af.input((2, 3)).silu()
    made = convert(af.Graph({"y": y}), against("silu"))
    assert {node.location for node in made.graph.nodes if node.op.name != "input"} == {y.node.location}


def test_what_has_no_decomposition_is_refused_with_the_reason() -> None:
    with pytest.raises(NotSupportedError, match=r"relu at .*: not here"):
        convert(af.Graph({"y": af.input((2,)).relu()}), against("relu"))


def test_a_dialect_may_ask_for_one_decomposition_or_none() -> None:
    graph = af.Graph({"y": af.input((1, 3, 4, 4)).prelu(np.ones(3, np.float16))})
    assert "clip" in op_names(convert(graph, against("prelu")).graph)
    assert "clip" not in op_names(convert(graph, against("prelu", decomposition="relu")).graph)
    with pytest.raises(NotSupportedError, match="not here"):
        convert(graph, against("prelu", final=True))


def test_a_decomposition_that_never_ends_is_found() -> None:
    with pytest.raises(RuntimeError, match="decompositions of conv go deeper than 16"):
        convert(
            af.Graph({"y": af.conv(af.input((1, 1, 4, 4)), np.ones((1, 1, 1, 1), np.float16))}),
            against("conv", decomposition="bias added"),
        )


def test_a_restatement_keeps_the_operation() -> None:
    graph = af.Graph({"y": af.Tensor(build("cumsum", {"x": af.input((2, 3))}, {"axis": -1}))})

    def objection(node: Node) -> Objection | None:
        return Objection("from the front", restated={"axis": 1}) if node.attributes.get("axis") == -1 else None

    made = convert(graph, Dialect("a test's", objection))
    assert made.graph.nodes[-1].attributes["axis"] == 1
    assert made.changes == ()


def test_constants_are_rounded_once_and_said_so() -> None:
    gamma = Dense(np.array([0.1, 0.2, 0.3], np.float32))
    graph = af.Graph({"y": af.Tensor(build("rms_norm", {"x": af.input((2, 3)), "gamma": gamma}))})
    (change,) = convert(graph, mil_dialect()).changes
    assert change.detail.endswith("gamma times the root of the extent is rounded to fp16")


def test_a_constant_beyond_the_element_type_is_an_error_at_the_users_line() -> None:
    gamma = np.full(4096, 60_000, np.float16)
    with pytest.raises(GraphError, match=r"rms_norm at .*test_convert.py:\d+.*numbers that fp16 cannot hold"):
        convert(af.Graph({"y": af.input((2, 4096)).rms_norm(gamma)}), mil_dialect())


def test_limits_reach_the_decomposition() -> None:
    graph = af.Graph({"y": af.Tensor(build("global_arg_min_max", {"x": af.input((40,))}, {"mode": "max"}))})

    def objection(node: Node) -> Objection | None:
        return Objection("not here") if node.op.name == "global_arg_min_max" else None

    with pytest.raises(NotSupportedError, match=r"too many elements.*got 40, limit 32"):
        convert(graph, Dialect("a test's", objection, Limits(arg_reduction=32)))
    assert "reduce_argmax" in op_names(convert(graph, Dialect("a test's", objection)).graph)


def test_expand_is_the_first_decomposition() -> None:
    y = expand("silu", {"x": af.input((2,), name="x")})
    assert af.reference(y, [np.array([1.0, -2.0])])["y"].tolist() == pytest.approx([0.731058579, -0.238405844])


@pytest.mark.parametrize("name", sorted(name for name, op in ops().items() if op.decompositions()))
def test_decompositions_say_what_they_are(name: str) -> None:
    names = [one.name for one in ops()[name].decompositions()]
    assert len(set(names)) == len(names)
    for one in ops()[name].decompositions():
        assert one.form
        assert one.evidence.source


def test_the_documented_spelling_of_group_norm_means_the_same_and_overflows_on_the_engine() -> None:
    """Sums of 16,384 numbers around 4 pass 65,504, and means do not: that is why means are written."""
    generator = np.random.default_rng(1)
    gamma, beta = generator.standard_normal((2, 32)).astype(np.float16)
    graph = af.Graph({"y": af.input((1, 32, 64, 64), name="x").group_norm(gamma, beta, num_groups=8)})
    by_sums = convert(graph, against("group_norm", decomposition="sums")).graph
    assert "reduce_mean" not in op_names(by_sums)
    values = {"x": generator.normal(4, 8, (1, 32, 64, 64)).astype(np.float16)}
    exact = af.reference(graph, {"x": values["x"].astype(np.float64)})["y"]
    assert np.abs(af.reference(by_sums, {"x": values["x"].astype(np.float64)})["y"] - exact).max() < 1e-9
    errors = [
        np.abs(af.run(af.build_program(one, "h13"), values).outputs["y"] - exact).max() for one in (graph, by_sums)
    ]
    assert errors[0] < 0.02
    assert errors[1] > 1


def test_numbers_that_are_rounded_deep_inside_are_said() -> None:
    gamma = Dense(np.array([0.1, 0.2, 0.3], np.float32))
    x = af.input((1, 3, 5))
    statistics = {"mean": Dense(np.zeros(3, np.float32)), "variance": Dense(np.ones(3, np.float32))}
    graph = af.Graph({"y": af.Tensor(build("batch_norm", {"x": x, **statistics, "gamma": gamma}))})
    (change,) = [one for one in netplist(graph).changes if one.op == "batch_norm"]
    assert "gamma over the deviation is rounded to fp16" in change.detail

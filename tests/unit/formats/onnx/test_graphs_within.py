"""Functions, branches, loops, scans; what belongs on the host."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared.findings import InvalidModelError, Reason, UnsupportedModelError
from aneforge.ops.constant import Dense
from unit.formats.onnx.onnx_models import made, node, numbers, port, results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unit.formats.onnx.onnx_models import Port

X = numbers(2, 3)
FED: dict[str, Port] = {"x": ("fp32", [2, 3])}


def inner(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], inputs: Mapping[str, Port] | None = None
) -> onnx.GraphProto:
    ports = [port(name, kind) for name, kind in (inputs or {}).items()]
    return helper.make_graph(list(nodes), "inner", ports, [onnx.ValueInfoProto(name=name) for name in outputs])


def function(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Sequence[str] = (),
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, list(inputs), list(outputs), list(nodes), imports, list(attributes))


def referring(made_node: onnx.NodeProto, attribute: str, to: str, kind: str = "FLOAT") -> onnx.NodeProto:
    """Return a node whose attribute is one of its function's."""
    made_node.attribute.append(onnx.AttributeProto(name=attribute, ref_attr_name=to, type=kind))
    return made_node


# Functions of the model.


def test_a_function_of_the_model_is_expanded() -> None:
    leaky = referring(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")
    functions = [
        function("Inner", [leaky], ["a"], ["b"], ["slope"]),
        function(
            "Outer",
            [referring(node("Inner", ["a"], ["b"], domain="own"), "slope", "slope")],
            ["a"],
            ["b"],
            ["slope"],
        ),
    ]
    nodes = [node("Outer", ["x"], ["y"], {"slope": 0.5}, "own")]
    model = made(nodes, FED, functions=functions, domains={"own": 1})
    graph = from_onnx(model)
    assert str(graph.outputs["y"].node.location) == "node 'Outer_y/Inner_b/LeakyRelu_b'"
    np.testing.assert_allclose(results(model, {"x": X})["y"], np.where(X >= 0, X, 0.5 * X))


def test_an_attribute_that_a_function_is_not_given_has_the_default() -> None:
    leaky = referring(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")
    one = function("F", [leaky], ["a"], ["b"])
    one.attribute_proto.append(helper.make_attribute("slope", 0.25))
    model = made([node("F", ["x"], ["y"], domain="own")], FED, functions=[one], domains={"own": 1})
    np.testing.assert_allclose(results(model, {"x": X})["y"], np.where(X >= 0, X, 0.25 * X))


def test_an_input_that_a_function_is_not_given_is_left_out_inside() -> None:
    one = function("F", [node("Clip", ["a", "low", "high"], ["b"])], ["a", "low", "high"], ["b"])
    weights = {"h": np.array(0.5, np.float32)}
    model = made(
        [node("F", ["x", "", "h"], ["y"], domain="own")], FED, weights=weights, functions=[one], domains={"own": 1}
    )
    np.testing.assert_allclose(results(model, {"x": X})["y"], np.minimum(X, 0.5))


def test_a_function_comes_before_an_operator_of_its_name() -> None:
    one = function("Relu", [node("Neg", ["a"], ["b"])], ["a"], ["b"])
    one.domain = ""
    assert np.array_equal(results(made([node("Relu", ["x"], ["y"])], FED, functions=[one]), {"x": X})["y"], -X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (node("F", ["x", "x"], ["y"], domain="own"), "takes fewer inputs"),
        (node("F", ["x"], ["y", "z"], domain="own"), "has fewer outputs"),
        (node("F", ["x"], ["y"], {"slope": 1.0}, "own"), "has no attribute 'slope'"),
        (node("G", ["x"], ["y"], domain="own"), "attribute 'slope' of function 'G' is missing"),
    ],
)
def test_a_function_that_is_called_wrongly_is_told(call: onnx.NodeProto, message: str) -> None:
    functions = [
        function("F", [node("Relu", ["a"], ["b"])], ["a"], ["b"]),
        function("G", [node("Relu", ["a"], ["b"])], ["a"], ["b"], ["slope"]),
    ]
    with pytest.raises(InvalidModelError, match=message):
        from_onnx(made([call], FED, functions=functions, domains={"own": 1}))


def test_an_operator_of_an_unknown_set_is_told_and_one_that_its_set_does_not_have() -> None:
    nodes = [
        node("FusedGelu", ["x"], ["y"], domain="com.example"),
        node("Relux", ["x"], ["z"]),
        node("Gelu", ["x"], ["w"]),
    ]
    model = made(nodes, FED, ["y", "z", "w"], domains={"com.example": 1}, opset=13)
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    remedy = "Workaround: check the model's operator-set version, or convert it with onnx.version_converter"
    assert str(caught.value).split("\n  ")[1:] == [
        "FusedGelu 'FusedGelu_y': no operator set 'com.example' is known. Workaround: export the model with standard operators, or with the operator's body as a model function",  # noqa: E501 - one line of a message
        f"Relux 'Relux_z': operator set ai.onnx 13 has no such operator. {remedy}",
        f"Gelu 'Gelu_w': operator set ai.onnx 13 has no such operator. {remedy}",
    ]


def test_everything_that_stops_an_import_is_told_at_once() -> None:
    nodes = [
        node("Unique", ["x"], ["u"]),
        node("Relu", ["u"], ["r"]),
        node("StringConcat", ["s", "s"], ["t"]),
        node("Cast", ["x"], ["c"], {"to": TensorProto.FLOAT4E2M1}),
        node("NonZero", ["x"], ["n"]),
        node("Relu", ["x"], ["y"]),
    ]
    model = made(nodes, FED, ["r", "t", "c", "n", "y"])
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    found = [(finding.operator, finding.reason) for finding in caught.value.findings]
    assert found == [
        ("Unique", Reason.DATA_SHAPE),
        ("StringConcat", Reason.STRING),
        ("Cast", Reason.DTYPE),
        ("NonZero", Reason.DATA_SHAPE),
    ]
    assert isinstance(caught.value, NotImplementedError)


def test_a_node_that_no_output_needs_does_not_matter() -> None:
    nodes = [node("Unique", ["x"], ["u"]), node("Relu", ["x"], ["y"])]
    assert from_onnx(made(nodes, FED)).outputs["y"].node.op.name == "relu"


# Branches.


def branched(condition: np.ndarray[tuple[()], np.dtype[np.bool_]] | None) -> onnx.ModelProto:
    then_branch = inner([node("Add", ["x", "x"], ["t"])], ["t"])
    else_branch = inner([node("Neg", ["x"], ["e"])], ["e"])
    nodes = [node("If", ["c"], ["y"], {"then_branch": then_branch, "else_branch": else_branch})]
    if condition is None:
        return made(nodes, {**FED, "c": ("bool", [])})
    return made(nodes, FED, weights={"c": condition})


def test_a_known_condition_takes_one_branch() -> None:
    for value, wanted in ((True, X + X), (False, -X)):
        model = branched(np.array(value))
        assert len(from_onnx(model).nodes) == 2
        assert np.array_equal(results(model, {"x": X})["y"], wanted)


def test_a_computed_condition_chooses_between_both() -> None:
    for value, wanted in ((True, X + X), (False, -X)):
        assert np.array_equal(results(branched(None), {"x": X, "c": np.array(value)})["y"], wanted)


def test_branches_of_different_shapes_need_a_known_condition() -> None:
    then_branch = inner([node("Identity", ["x"], ["t"])], ["t"])
    else_branch = inner([node("Transpose", ["x"], ["e"])], ["e"])
    nodes = [node("If", ["c"], ["y"], {"then_branch": then_branch, "else_branch": else_branch})]
    with pytest.raises(UnsupportedModelError, match=r"branches give fp32\[2, 3\] and fp32\[3, 2\]") as caught:
        from_onnx(made(nodes, {**FED, "c": ("bool", [])}))
    assert caught.value.findings[0].inputs == ("c",)


def test_a_branch_that_makes_no_sense_is_told_with_the_condition() -> None:
    then_branch = inner([node("Squeeze", ["x", "axes"], ["t"])], ["t"])
    then_branch.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axes"))
    else_branch = inner([node("Identity", ["x"], ["e"])], ["e"])
    nodes = [node("If", ["c"], ["y"], {"then_branch": then_branch, "else_branch": else_branch})]
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(made(nodes, {**FED, "c": ("bool", [])}))
    (finding,) = caught.value.findings
    assert finding.operator == "If"
    assert "a branch cannot be expressed: Squeeze 'If_y/Squeeze_t': axis 0 cannot be squeezed" in finding.message


# Loops.


def looped(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], inputs: Sequence[str], count: int = 2
) -> onnx.ModelProto:
    ports: dict[str, Port] = {"i": ("int64", []), "c": ("bool", []), "v": ("fp32", [2, 3])}
    body = inner(nodes, outputs, ports)
    names = [f"y{place}" if place else "y" for place in range(count)]
    loop = node("Loop", list(inputs), names, {"body": body})
    weights = {"three": np.array(3), "yes": np.array(1, np.bool_), "no": np.array(0, np.bool_)}
    return made([loop], {**FED, "b": ("bool", []), "n": ("int64", [])}, names, weights)


DOUBLED = [node("Add", ["v", "v"], ["w"]), node("Identity", ["c"], ["d"])]


def test_a_loop_with_a_known_count_is_unrolled() -> None:
    model = looped(DOUBLED, ["d", "w", "w"], ["three", "yes", "x"])
    found = results(model, {"x": X})
    np.testing.assert_allclose(found["y"], 8 * X)
    np.testing.assert_allclose(found["y1"], np.stack([2 * X, 4 * X, 8 * X]))


def test_the_turns_of_a_loop_share_what_is_made_of_their_weights(tmp_path: Path) -> None:
    matrix = np.arange(9, dtype=np.float32).reshape(3, 3) / 8
    given = {
        name: node("Constant", [], [name], {"value": numpy_helper.from_array(array)})
        for name, array in (("m", matrix), ("flat", X.reshape(-1)), ("shape", np.array([2, 3])))
    }
    turn = [
        *given.values(),
        node("MatMul", ["v", "m"], ["p"]),
        node("Reshape", ["flat", "shape"], ["q"]),
        node("Add", ["p", "q"], ["w"]),
        node("Identity", ["c"], ["d"]),
    ]
    model = looped(turn, ["d", "w"], ["three", "yes", "x"], 1)
    wanted = X
    for _ in range(3):
        wanted = wanted @ matrix + X
    np.testing.assert_allclose(results(model, {"x": X})["y"], wanted, atol=1e-5)
    graph = from_onnx(model)
    constants = [one for made in graph.nodes for one in made.operands.values() if isinstance(one, Dense)]
    assert (len(constants), len({id(one.values) for one in constants})) == (6, 2)
    af.save_mil(graph, tmp_path / "net.mil")
    assert (tmp_path / "net.mil" / "weights.bin").stat().st_size < 512


def test_a_loop_ends_by_a_condition_that_is_known_in_every_turn() -> None:
    nodes = [node("Add", ["v", "v"], ["w"]), node("Less", ["i", "two"], ["d"])]
    model = looped(nodes, ["d", "w"], ["", "yes", "x"], 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(2), "two"))
    np.testing.assert_allclose(results(model, {"x": X})["y"], 8 * X)


def test_a_loop_that_is_not_entered_keeps_its_variables() -> None:
    model = looped(DOUBLED, ["d", "w"], ["three", "no", "x"], 1)
    assert np.array_equal(results(model, {"x": X})["y"], X)


@pytest.mark.parametrize("declared", [True, False])
def test_what_a_loop_without_a_turn_stacks_is_empty(*, declared: bool) -> None:
    model = looped(DOUBLED, ["d", "w", "w"], ["three", "no", "x"])
    if declared:
        model.graph.node[0].attribute[0].g.output[2].CopyFrom(port("w", ("fp32", [2, 3])))
    found = results(model, {"x": X})
    np.testing.assert_allclose(found["y"], X)
    assert found["y1"].shape == (0, 2, 3)


def test_a_scan_without_a_turn_stacks_nothing() -> None:
    body = inner([node("Concat", ["v", "v"], ["w"], {"axis": 0})], ["w"], {"v": ("fp32", [3])})
    model = made([node("Scan", ["x"], ["y"], {"body": body, "num_scan_inputs": 1})], {"x": ("fp32", [0, 3])})
    assert from_onnx(model).outputs["y"].shape == (0, 6)


def test_a_shape_that_a_turn_would_compute_is_told() -> None:
    nodes = [
        node("Cast", ["v"], ["s"], {"to": TensorProto.INT64}),
        node("ConstantOfShape", ["s"], ["w"]),
    ]
    body = inner(nodes, ["w"], {"v": ("fp32", [3])})
    model = made([node("Scan", ["x"], ["y"], {"body": body, "num_scan_inputs": 1})], {"x": ("fp32", [0, 3])})
    with pytest.raises(UnsupportedModelError, match="without iterations stacks values of unknown shape: ConstantOfSh"):
        from_onnx(model)


def test_a_loop_with_a_computed_condition_keeps_its_variables_from_its_end_on() -> None:
    nodes = [
        node("Add", ["v", "v"], ["w"]),
        node("ReduceMax", ["w"], ["m"], {"keepdims": 0}),
        node("Less", ["m", "limit"], ["d"]),
    ]
    model = looped(nodes, ["d", "w"], ["three", "yes", "x"], 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3, np.float32), "limit"))
    for x, wanted in ((np.full((2, 3), 1, np.float32), 4), (np.full((2, 3), 9, np.float32), 18), (np.zeros((2, 3)), 0)):
        assert results(model, {"x": x.astype(np.float32)})["y"].max() == wanted


def test_a_loop_whose_turns_are_computed_is_told() -> None:
    with pytest.raises(UnsupportedModelError, match="the trip count is computed at run time") as caught:
        from_onnx(looped(DOUBLED, ["d", "w"], ["n", "yes", "x"], 1))
    assert caught.value.findings[0].inputs == ("n",)
    for inputs, outputs, count in ((["", "b", "x"], ["d", "w"], 1), (["three", "b", "x"], ["d", "w", "w"], 2)):
        with pytest.raises(UnsupportedModelError, match="its number of iterations is computed"):
            from_onnx(looped(DOUBLED, outputs, inputs, count))


def test_a_loop_whose_variable_changes_its_shape_needs_known_turns() -> None:
    grown = [node("Concat", ["v", "v"], ["w"], {"axis": 0}), node("Identity", ["c"], ["d"])]
    assert results(looped(grown, ["d", "w"], ["three", "yes", "x"], 1), {"x": X})["y"].shape == (16, 3)
    with pytest.raises(UnsupportedModelError, match="changes its shape"):
        from_onnx(looped(grown, ["d", "w"], ["three", "b", "x"], 1))


def test_a_body_with_other_ports_is_told() -> None:
    with pytest.raises(InvalidModelError, match="does not give a condition and every variable"):
        from_onnx(looped(DOUBLED, ["d"], ["three", "yes", "x"], 1))
    with pytest.raises(InvalidModelError, match="another number of inputs"):
        from_onnx(looped(DOUBLED, ["d", "w", "w"], ["three", "yes", "x", "x"], 2))


# Scans.


def scanned(
    directions: Sequence[int], out_directions: Sequence[int], axes: Sequence[int], out_axes: Sequence[int]
) -> onnx.ModelProto:
    nodes = [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["o"])]
    body = inner(nodes, ["t", "o"], {"s": ("fp32", [2]), "e": ("fp32", [2])})
    attributes = {
        "body": body,
        "num_scan_inputs": 1,
        "scan_input_directions": directions,
        "scan_output_directions": out_directions,
        "scan_input_axes": axes,
        "scan_output_axes": out_axes,
    }
    weights = {"zero": np.zeros(2, np.float32)}
    return made([node("Scan", ["zero", "x"], ["y", "y1"], attributes)], {"x": ("fp32", [2, 4])}, ["y", "y1"], weights)


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("out_back", [0, 1])
def test_a_scan_goes_along_an_axis_either_way(back: int, out_back: int) -> None:
    x = numbers(2, 4)
    found = results(scanned([back], [out_back], [1], [-1]), {"x": x})
    sums = np.cumsum(x[:, ::-1] if back else x, axis=1)
    np.testing.assert_allclose(found["y"], x.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found["y1"], sums[:, ::-1] if out_back else sums, rtol=1e-6)


# What belongs on the host.


HOST_NODES = {
    "lists": node("SequenceConstruct", ["x", "x"], ["y"]),
    "parts as a list": node("SplitToSequence", ["x"], ["y"], {"axis": 1}),
    "optionals": node("Optional", ["x"], ["y"]),
    "scaled features": node("Scaler", ["x"], ["y"], {"offset": [1.0], "scale": [2.0]}, "ai.onnx.ml"),
    "categories": node("OneHotEncoder", ["x"], ["y"], {"cats_int64s": [1, 3]}, "ai.onnx.ml"),
    "trees": node("TreeEnsembleRegressor", ["x"], ["y"], {"n_targets": 1}, "ai.onnx.ml"),
    "classes": node("SVMClassifier", ["x"], ["y", "z"], {}, "ai.onnx.ml"),
}


@pytest.mark.parametrize("name", HOST_NODES)
def test_what_is_no_engine_operation_is_told_once_with_the_remedy(name: str) -> None:
    one = HOST_NODES[name]
    domains = {one.domain: 3} if one.domain else None
    after = node("Identity", ["y"], ["last"])
    with pytest.raises(UnsupportedModelError) as raised:
        from_onnx(made([one, after], FED, ["last"], domains=domains))
    (finding,) = raised.value.findings
    assert finding.reason is Reason.HOST
    assert finding.message == f"{one.op_type} is not an engine operation"
    assert "on the host with onnxruntime, and import the rest of the network" in finding.workaround


def test_counts_of_words_are_no_engine_operation() -> None:
    attributes: dict[str, object] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": [0],
        "pool_int64s": [7],
    }
    model = made([node("TfIdfVectorizer", ["n"], ["y"], attributes)], {"n": ("int64", [4])})
    with pytest.raises(UnsupportedModelError, match="TfIdfVectorizer is not an engine operation"):
        from_onnx(model)


def test_a_branch_that_reads_what_is_lost_is_not_told_again() -> None:
    then = inner([node("Mul", ["t", "t"], ["o"])], ["o"])
    other = inner([node("Identity", ["x"], ["p"])], ["p"])
    nodes = [
        node("SequenceLength", ["s"], ["t"]),
        node("If", ["c"], ["y"], {"then_branch": then, "else_branch": other}),
    ]
    model = made([node("SequenceConstruct", ["x"], ["s"]), *nodes], {**FED, "c": ("bool", [])})
    with pytest.raises(UnsupportedModelError) as raised:
        from_onnx(model)
    assert [finding.operator for finding in raised.value.findings] == ["SequenceConstruct"]


# Statements that hold for every converter.


def test_the_emitters_location_is_the_nodes() -> None:
    nodes = [node("Celu", ["x"], ["y"], {"alpha": 2.0})]
    graph = from_onnx(made(nodes, FED))
    places = {str(one.location) for one in graph.nodes if one.op.name != "input"}
    assert places == {"node 'Celu_y'"}


def test_folding_gives_what_the_graph_would() -> None:
    nodes = [node("Celu", ["x"], ["a"], {"alpha": 2.0}), node("Softmax", ["a"], ["y"])]
    model = made(nodes, FED)
    constant = af.reference(from_onnx(model, values={"x": X}))["y"]
    np.testing.assert_allclose(constant, results(model, {"x": X})["y"], rtol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_computed_choice_between_branches_runs_on_an_engine(sign: int) -> None:
    nodes = [
        node("ReduceSum", ["x"], ["s"], {"keepdims": 0}),
        node("Greater", ["s", "zero"], ["c"]),
        node(
            "If",
            ["c"],
            ["y"],
            {
                "then_branch": inner([node("Relu", ["x"], ["p"])], ["p"]),
                "else_branch": inner([node("Neg", ["x"], ["q"])], ["q"]),
            },
        ),
    ]
    x = sign * np.array([[1, -2, 4]], np.float32)
    model = made(nodes, {"x": ("fp32", [1, 3])}, weights={"zero": np.zeros((), np.float32)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a network is mostly dispatch
        found = np.asarray(af.load_onnx(model, target="m1")(x))
    assert np.array_equal(found, np.maximum(x, 0) if sign > 0 else -x)

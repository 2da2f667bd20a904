"""Shapes bound, values fixed; every open dimension in one error."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, UnknownNameError
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared.findings import Reason, UnsupportedModelError
from unit.formats.onnx.onnx_models import made, node, numbers, results


def added() -> onnx.ModelProto:
    return made(
        [node("Add", ["x", "z"], ["y"])], {"x": ("fp32", ["batch", 3, "length"]), "z": ("fp32", [None, 3, "length"])}
    )


def test_symbolic_dimensions_are_bound_by_their_names() -> None:
    graph = from_onnx(added(), {"batch": 2, "length": 5, "z": [2, 3, 5]})
    assert graph.outputs["y"].shape == (2, 3, 5)
    assert [list(one.types[0].shape) for one in graph.inputs.values()] == [[2, 3, 5], [2, 3, 5]]


def test_lengths_may_be_numpys() -> None:
    model = made([node("Relu", ["x"], ["y"])], {"x": ("fp32", ["n"])})
    lengths: dict[str, object] = {"n": np.int32(7)}
    assert from_onnx(model, lengths).outputs["y"].shape == (7,)  # pyright: ignore[reportArgumentType] - the subject


def test_every_open_dimension_is_in_one_error() -> None:
    with pytest.raises(GraphError) as caught:
        from_onnx(added())
    assert str(caught.value) == (
        "the model has 4 open dimensions: axis 0 of input 'x' is 'batch'; axis 2 of input 'x' is "
        "'length'; axis 0 of input 'z' is open; axis 2 of input 'z' is 'length'. Remedy: bind them, such as "
        'shapes={"batch": 1, "length": 1, "z": (1, 1, 1,)} (--shape at the command line); for lengths that vary, read '
        "one graph for each of a few fixed ones and pad the data up to the next"
    )


def test_an_input_without_a_shape_needs_a_whole_one() -> None:
    model = made([node("Relu", ["x"], ["y"])], {"x": ("fp32", None)})
    with pytest.raises(GraphError, match=r"input 'x' has no shape.*shapes=\{\"x\": \(\.\.\.\)\}"):
        from_onnx(model)
    assert from_onnx(model, {"x": (4, 2)}).outputs["y"].shape == (4, 2)


def test_the_shape_of_one_input_binds_the_symbols_of_others() -> None:
    graph = from_onnx(added(), {"x": (2, 3, 5), "z": (2, 3, 5)})
    assert graph.outputs["y"].shape == (2, 3, 5)
    model = made([node("Add", ["x", "w"], ["y"])], {"x": ("fp32", ["n", 3]), "w": ("fp32", ["n", 3])})
    assert [one.types[0].shape for one in from_onnx(model, {"x": (2, 3)}).inputs.values()] == [(2, 3), (2, 3)]
    assert from_onnx(model, {"x": (2, 3), "n": 2}).outputs["y"].shape == (2, 3)


def test_a_fixed_value_has_the_lengths_that_shapes_give() -> None:
    model = made([node("Add", ["x", "w"], ["y"])], {"x": ("fp32", ["n"]), "w": ("fp32", ["n"])})
    assert from_onnx(model, {"x": (2,)}, values={"w": [1.0, 2.0]}).outputs["y"].shape == (2,)
    with pytest.raises(GraphError, match="a different shape than the input"):
        from_onnx(model, {"x": (2,)}, values={"w": [1.0]})


def test_an_input_may_have_the_name_of_a_dimension() -> None:
    model = made([node("Add", ["x", "n"], ["y"])], {"x": ("fp32", ["n"]), "n": ("fp32", [3])})
    assert from_onnx(model, {"n": (3,), "x": (3,)}).outputs["y"].shape == (3,)


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        (
            {"x": (2, 3, 4)},
            GraphError,
            r"'length' two lengths \(got 5 by shapes\['length'\] and 4 by",
        ),
        ({"bacth": 2}, UnknownNameError, "unknown symbolic dimension or input 'bacth'; nearest: batch"),
        ({"x": 2}, GraphTypeError, "is for an input and is not a list"),
        ({"batch": [2]}, GraphError, "is for an axis and is a list"),
        ({"batch": True}, GraphTypeError, "neither an integer nor a list"),
        ({"batch": "2"}, GraphTypeError, "neither an integer nor a list"),
        ({"x": (1, 2.0, 3)}, GraphTypeError, "neither an integer nor a list"),
        ({"batch": -1}, GraphError, "negative length"),
        ({"batch": 2**31}, GraphError, "too long"),
        ({"x": (2, 4, 5)}, GraphError, "contradicts the model"),
        ({"x": (2, 3)}, GraphError, "contradicts the model"),
        ({7: 2}, GraphTypeError, "a name in shapes is not text"),
        ([1, 3], GraphTypeError, "shapes is not a mapping"),
    ],
)
def test_shapes_that_make_no_sense_are_told(shapes: object, error: type[Exception], message: str) -> None:
    rest = {"length": 5, "z": (2, 3, 5)}
    given = {**rest, **shapes} if isinstance(shapes, dict) else shapes  # pyright: ignore[reportUnknownVariableType] - the subject
    with pytest.raises(error, match=message):
        from_onnx(added(), given)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType] - the subject


# Values that are fixed.


def reshaped() -> onnx.ModelProto:
    return made([node("Reshape", ["x", "s"], ["y"])], {"x": ("fp32", [2, 6]), "s": ("int64", [2])})


def test_a_computed_shape_is_told_with_the_input_to_fix() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(reshaped())
    (finding,) = caught.value.findings
    assert (finding.reason, finding.inputs) == (Reason.DATA_SHAPE, ("s",))
    assert str(finding) == (
        "Reshape 'Reshape_y': the shape is computed at run time. "
        "Workaround: fix inputs of the model with values={'s': ...}"
    )


def test_a_fixed_value_is_not_an_input() -> None:
    graph = from_onnx(reshaped(), values={"s": [3, -1]})
    assert list(graph.inputs) == ["x"]
    assert graph.outputs["y"].shape == (3, 4)


def test_a_computed_value_names_all_inputs_that_it_comes_from() -> None:
    nodes = [node("Add", ["a", "b"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    model = made(nodes, {"x": ("fp32", [4]), "b": ("int64", [1]), "a": ("int64", [1])})
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    assert caught.value.findings[0].inputs == ("b", "a")


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"q": [1]}, UnknownNameError, "unknown input 'q'"),
        ({"s": [[1, 2]]}, GraphError, "a different shape than the input"),
        ({"s": [1.5, 2]}, GraphTypeError, "does not fit an input of int64"),
        ({"s": [[1], [2, 3]]}, GraphTypeError, "is not an array"),
        ({"s": ["1", "2"]}, GraphTypeError, "does not fit an input of int64"),
        ({"s": np.array([object(), 1])}, GraphTypeError, "does not fit an input of int64"),
        ({"s": np.array([2**63, 1], np.uint64)}, GraphError, "out of range for int64"),
        ("s", GraphTypeError, "values is not a mapping"),
    ],
)
def test_values_that_make_no_sense_are_told(values: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_onnx(reshaped(), values=values)  # pyright: ignore[reportArgumentType] - the subject


def test_a_value_may_have_any_length_of_an_open_axis() -> None:
    model = made([node("Add", ["x", "z"], ["y"])], {"x": ("fp32", ["n"]), "z": ("fp32", ["n"])})
    graph = from_onnx(model, {"n": 3}, values={"z": [1, 2, 3]})
    assert af.reference(graph, [np.ones(3)])["y"].tolist() == [2, 3, 4]
    with pytest.raises(GraphError, match="a different shape"):
        from_onnx(model, {"n": 3}, values={"z": [1, 2]})


def test_a_fixed_value_needs_no_shape() -> None:
    model = made([node("Neg", ["x"], ["y"])], {"x": ("fp32", ["n"])})
    assert results(model, {}, values={"x": numbers(4)})["y"].shape == (4,)


# Inputs of other kinds.


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])), Reason.SEQUENCE),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])), Reason.OPTIONAL),
        (helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(1, [2])), Reason.MAP),
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), Reason.STRING),
        (helper.make_tensor_type_proto(TensorProto.COMPLEX64, [2]), Reason.DTYPE),
    ],
)
def test_an_input_that_is_no_tensor_of_numbers_is_told_where_it_is_read(kind: onnx.TypeProto, reason: Reason) -> None:
    model = made([node("Identity", ["x"], ["y"])], {})
    model.graph.input.append(onnx.ValueInfoProto(name="x", type=kind))
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    assert [finding.reason for finding in caught.value.findings] == [reason]


def test_an_input_of_such_a_kind_that_nobody_reads_does_not_matter() -> None:
    model = made([node("Relu", ["x"], ["y"])], {"x": ("fp32", [2])})
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.STRING, [2]))
    assert list(from_onnx(model).inputs) == ["x"]


def test_an_input_without_a_type_is_told() -> None:
    model = made([node("Relu", ["x"], ["y"])], {})
    model.graph.input.append(onnx.ValueInfoProto(name="x"))
    with pytest.raises(GraphError, match="input 'x' has no type"):
        from_onnx(model)


def test_two_shapes_that_disagree_are_told() -> None:
    with pytest.raises(GraphError) as caught:
        from_onnx(added(), {"x": (2, 3, 5), "z": (2, 3, 4)})
    assert str(caught.value) == (
        "shapes= gives the dimension 'length' two lengths (got 5 by axis 2 of shapes['x'] and 4 by axis 2 of "
        "shapes['z']). Remedy: give one length for each name"
    )

"""Models as they come in: paths, bytes, messages; weights looked into and not copied."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import aneforge as af
from aneforge.errors import GraphError, GraphTypeError, Location, MissingPackageError
from aneforge.formats.onnx.onnx_model import from_onnx, onnx_to_features, onnx_to_tensor
from aneforge.formats.onnx.wire import cut_weights, varint, varint_bytes
from aneforge.formats.shared.findings import InvalidModelError
from aneforge.ops.constant import Constant, Dense, Sparse
from unit.formats.onnx.onnx_models import made, node, numbers, one_node

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.ops.types import Array


def linear_model(width: int = 64) -> onnx.ModelProto:
    return made([node("MatMul", ["x", "w"], ["y"])], {"x": ("fp32", [1, width])}, weights={"w": numbers(width, 32)})


def weights_of(graph: af.Graph) -> list[Array]:
    return [constant.dense() for constant in graph.constants.values()]


# Three ways in.


def test_path_bytes_and_message_give_one_graph(tmp_path: Path) -> None:
    model = linear_model()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    contents = model.SerializeToString()
    for sources in ([path, str(path)], [contents, bytearray(contents), memoryview(contents), model]):
        assert len({from_onnx(source).text for source in sources}) == 1


def test_nodes_know_their_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(linear_model().SerializeToString())
    output = from_onnx(path).outputs["y"]
    assert output.node.location == Location(str(path), node="MatMul_y")


def test_a_node_without_a_name_is_called_by_its_operator_and_place() -> None:
    model = linear_model()
    model.graph.node[0].name = ""
    assert from_onnx(model).outputs["y"].node.location == Location(node="MatMul_0")


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(GraphTypeError, match="path, its bytes or a ModelProto"):
        from_onnx(7)  # pyright: ignore[reportArgumentType] - the subject
    with pytest.raises(GraphError, match="cannot be read: No such file"):
        from_onnx(tmp_path / "nothing.onnx")
    with pytest.raises(GraphError, match="cannot be read: Is a directory"):
        from_onnx(tmp_path)
    with pytest.raises(GraphError, match="null byte"):
        from_onnx("a\0b.onnx")


def nothing_found(_: str) -> None:
    """Say that no package is installed."""


def test_onnx_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", nothing_found)
    with pytest.raises(MissingPackageError, match=r"aneforge-open\[onnx\]") as caught:
        from_onnx(b"")
    assert isinstance(caught.value, ImportError)


def test_an_operator_set_of_the_future_is_told() -> None:
    model = linear_model()
    model.opset_import[0].version = 9999
    with pytest.raises(GraphError, match=r"ai\.onnx 9999 is newer than the installed onnx"):
        from_onnx(model)
    model.opset_import[0].version = 0
    with pytest.raises(GraphError, match="has no such version"):
        from_onnx(model)
    del model.opset_import[:]
    with pytest.raises(GraphError, match="names no operator set"):
        from_onnx(model)


def test_an_output_of_another_type_than_declared_is_warned_of() -> None:
    model = linear_model()
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 33]))
    with pytest.warns(UserWarning, match=r"declares output 'y' as fp32\[1, 33\], and its nodes make fp32\[1, 32\]"):
        from_onnx(model)


# Weights without a copy.


def test_the_weights_of_a_file_are_looked_into() -> None:
    contents = linear_model(256).SerializeToString()
    (weight,) = weights_of(from_onnx(contents))
    base = weight
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base.base, memoryview)
    assert base.base.obj is contents
    assert not weight.flags.writeable


@given(sizes=st.lists(st.integers(1, 3000), max_size=4), listed=st.booleans())
def test_cutting_weights_out_leaves_the_model(sizes: list[int], *, listed: bool) -> None:
    arrays = {f"w{place}": np.arange(size, dtype=np.float32) for place, size in enumerate(sizes)}
    model = made([node("Relu", ["x"], ["y"])], {"x": ("fp32", [1])}, weights=arrays)
    if listed:
        for tensor in model.graph.initializer:
            tensor.float_data.extend(numpy_helper.to_array(tensor).tolist())
            tensor.ClearField("raw_data")
    cut = cut_weights(model.SerializeToString())
    rest = onnx.ModelProto.FromString(cut.rest)
    assert set(cut.data) == {place for place, size in enumerate(sizes) if 4 * size >= 4096}
    for place, (field, view) in cut.data.items():
        assert field == ("float_data" if listed else "raw_data")
        assert not rest.graph.initializer[place].raw_data
        rest.graph.initializer[place].ClearField(field)
        if listed:
            rest.graph.initializer[place].float_data.extend(np.frombuffer(view, np.float32).tolist())
        else:
            rest.graph.initializer[place].raw_data = bytes(view)
    assert rest == model


def test_a_field_that_comes_twice_is_left_to_the_library() -> None:
    model = linear_model(256)
    tensor = model.graph.initializer[0].SerializeToString()
    doubled = tensor + message(9, numbers(256, 32, seed=1).tobytes())
    del model.graph.initializer[:]
    graph = model.graph.SerializeToString() + message(5, doubled)
    model.ClearField("graph")
    contents = model.SerializeToString() + message(7, graph)
    assert not cut_weights(contents).data
    (weight,) = weights_of(from_onnx(contents))
    assert np.array_equal(weight, numbers(256, 32, seed=1).T)  # the last one counts
    assert not cut_weights(contents + message(7, b"")).data  # so does a graph in two parts


def message(number: int, contents: bytes) -> bytes:
    """Return a field of the wire that holds a message or bytes."""
    return varint_bytes(number << 3 | 2) + varint_bytes(len(contents)) + contents


@given(st.integers(0, 2**64 - 1))
def test_numbers_of_the_wire_round_trip(value: int) -> None:
    encoded = varint_bytes(value)
    assert varint(memoryview(encoded), 0, len(encoded)) == (value, len(encoded))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_cut_or_refused(contents: bytes) -> None:
    with contextlib.suppress(GraphError):
        assert cut_weights(contents).rest == contents


# The kinds of tensors.


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("float32", TensorProto.FLOAT),
        ("float64", TensorProto.DOUBLE),
        ("float16", TensorProto.FLOAT16),
        ("int8", TensorProto.INT8),
        ("uint8", TensorProto.UINT8),
        ("int16", TensorProto.INT16),
        ("uint16", TensorProto.UINT16),
        ("int32", TensorProto.INT32),
        ("uint32", TensorProto.UINT32),
        ("int64", TensorProto.INT64),
        ("uint64", TensorProto.UINT64),
        ("bool", TensorProto.BOOL),
        ("bfloat16", TensorProto.BFLOAT16),
        ("float8_e4m3fn", TensorProto.FLOAT8E4M3FN),
        ("float8_e5m2", TensorProto.FLOAT8E5M2),
        ("int4", TensorProto.INT4),
        ("uint4", TensorProto.UINT4),
    ],
)
@pytest.mark.parametrize("raw", [True, False])
def test_every_element_type_in_both_forms(dtype: str, number: int, *, raw: bool) -> None:
    wanted = np.array([0, 1, 3, 5, 1], np.float32).astype(dtype)
    values = wanted.astype(np.float32).tolist()
    tensor = numpy_helper.from_array(wanted, "w") if raw else helper.make_tensor("w", number, [5], values)
    model = made([node("Identity", ["w"], ["y"])], {})
    model.graph.initializer.append(tensor)
    (constant,) = from_onnx(model).constants.values()
    assert constant.dense().dtype == wanted.dtype
    assert np.array_equal(constant.dense().astype(np.float32), values)


def test_negative_numbers_of_four_bits() -> None:
    tensor = helper.make_tensor("w", TensorProto.INT4, [3], [-8, -1, 7])
    model = made([node("Cast", ["w"], ["y"], {"to": TensorProto.INT8})], {})
    model.graph.initializer.append(tensor)
    assert af.reference(from_onnx(model))["y"].tolist() == [-8, -1, 7]


def test_a_sparse_weight_stays_sparse() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    for indices, dims in (([1, 5], [2]), ([0, 1, 1, 2], [2, 2])):
        places = helper.make_tensor("i", TensorProto.INT64, dims, indices)
        model = made([node("Mul", ["x", "w"], ["y"])], {"x": ("fp32", [2, 3])})
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
        (constant,) = from_onnx(model).constants.values()
        assert isinstance(constant, Sparse)
        assert constant.dense().tolist() == [[0, 1.5, 0], [0, 0, -2]]


@pytest.mark.parametrize(
    ("indices", "dims", "shape", "message"),
    [
        ([1, 1], [2], [2, 3], "not in order"),
        ([1, 9], [2], [2, 3], "outside of it"),
        ([0, 5, 1, 0], [2, 2], [2, 3], "coordinates outside"),
        ([0, 1, 2], [3, 1], [2, 3], "neither places nor coordinates"),
        ([1], [1], [2, 3], "one place for each value"),
        ([1, 5], [2], [2**16, 2**16], "too large"),
    ],
)
def test_a_damaged_sparse_weight_is_told(indices: list[int], dims: list[int], shape: list[int], message: str) -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    model = made([node("Identity", ["w"], ["y"])], {})
    places = helper.make_tensor("i", TensorProto.INT64, dims, indices)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, shape))
    with pytest.raises(GraphError, match=message):
        from_onnx(model)


# Tensors to build on.


def test_an_output_as_a_tensor() -> None:
    inputs, output = onnx_to_tensor(linear_model())
    assert [tensor.shape for tensor in inputs] == [(1, 64)]
    assert af.Graph({"z": output.relu()}).outputs["z"].shape == (1, 32)


def test_several_outputs_need_a_name() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Neg", ["x"], ["n"])]
    model = made(nodes, {"x": ("fp32", [2])}, ["r", "n"])
    with pytest.raises(GraphError, match="several outputs"):
        onnx_to_tensor(model)
    with pytest.raises(af.errors.UnknownNameError, match="unknown output 'q'"):
        onnx_to_tensor(model, output="q")
    assert onnx_to_tensor(model, output="r")[1].op == "relu"


def test_features_are_what_the_last_layer_with_weights_reads() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Tanh", ["a"], ["t"]),
        node("Gemm", ["t", "v"], ["b"], {"transB": 1}),
        node("Softmax", ["b"], ["y"]),
    ]
    weights = {"w": numbers(4, 3), "v": numbers(2, 3)}
    inputs, features = onnx_to_features(made(nodes, {"x": ("fp32", [1, 4])}, weights=weights))
    assert len(inputs) == 1
    assert (features.op, features.shape) == ("tanh", (1, 3))


def test_a_model_without_weights_has_no_features() -> None:
    with pytest.raises(GraphError, match="no layer of the model has constant weights"):
        onnx_to_features(one_node("Relu", {"a": numbers(2)}))


# What is damaged.


def test_data_that_does_not_fit_its_shape_is_told() -> None:
    model = linear_model()
    model.graph.initializer[0].raw_data = b"\0" * 12
    with pytest.raises(GraphError, match=r"got 12 bytes, limit 8192 bytes for fp32\[64, 32\]"):
        from_onnx(model)
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    tensor.float_data.append(3.0)
    model.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(GraphError, match="got 3 numbers in float_data, limit 2"):
        from_onnx(model)


def test_a_long_list_of_the_wrong_kind_is_told() -> None:
    model = linear_model()
    tensor = TensorProto(name="w", data_type=TensorProto.INT8, dims=[2000], float_data=[0.5] * 2000)
    model.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(GraphError, match="of int8 has its data in float_data"):
        from_onnx(model.SerializeToString())


def test_a_number_that_its_type_does_not_hold_is_told() -> None:
    model = linear_model()
    tensor = TensorProto(name="w", data_type=TensorProto.INT8, dims=[1], int32_data=[300])
    model.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(GraphError, match="int8 does not hold"):
        from_onnx(model)


def test_an_element_type_that_is_none_is_told() -> None:
    model = linear_model()
    model.graph.initializer[0].data_type = 99
    with pytest.raises(GraphError, match=r"no known element type \(got element type 99\)"):
        from_onnx(model)


def test_a_segment_is_told() -> None:
    model = linear_model()
    model.graph.initializer[0].segment.begin = 0
    with pytest.raises(GraphError, match="segment of another"):
        from_onnx(model)


def test_constants_that_nothing_reads_cost_nothing() -> None:
    model = made([node("Relu", ["x"], ["y"])], {"x": ("fp32", [1])}, weights={"unused": numbers(3)})
    assert not from_onnx(model).constants


def test_an_output_may_be_an_input_or_a_weight() -> None:
    model = made([node("Relu", ["x"], ["r"])], {"x": ("fp32", [2])}, ["x", "w", "r"], {"w": numbers(3)})
    graph = from_onnx(model)
    assert [graph.outputs[name].node.op.name for name in ("x", "w", "r")] == ["input", "identity", "relu"]


def test_an_input_with_an_initialiser_is_a_constant() -> None:
    model = made([node("Add", ["x", "w"], ["y"])], {"x": ("fp32", [3]), "w": ("fp32", [3])}, weights={"w": numbers(3)})
    graph = from_onnx(model)
    assert list(graph.inputs) == ["x"]
    assert isinstance(next(iter(graph.constants.values())), Constant | Dense)


def test_both_errors_carry_their_findings() -> None:
    model = made([node("Relu", ["x"], ["y"], {"alpha": 1.0})], {"x": ("fp32", [2])})
    with pytest.raises(InvalidModelError) as caught:
        from_onnx(model)
    assert [finding.node for finding in caught.value.findings] == ["Relu_y"]

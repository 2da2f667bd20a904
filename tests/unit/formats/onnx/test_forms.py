"""Which operations nodes become: those of the op table where it has them, weights in their own encodings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper

from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.ops.constant import Blockwise, Dense, Int8Affine
from unit.formats.onnx.onnx_models import made, node, numbers, one_node, results

if TYPE_CHECKING:
    import onnx

    import aneforge as af
    from golden_text import Golden

IMAGE = numbers(1, 4, 6, 6)
ROW = numbers(2, 8)
FOUR = numbers(4)
HEADS = numbers(1, 4, 6, 8)


def made_of(model: onnx.ModelProto) -> list[str]:
    return [one.op.name for one in from_onnx(model).nodes if one.op.name != "input"]


def resized(mode: str, transform: str, nearest: str = "floor") -> onnx.ModelProto:
    attributes = {"mode": mode, "coordinate_transformation_mode": transform, "nearest_mode": nearest}
    nodes = [node("Resize", ["x", "", "s"], ["y"], attributes)]
    return made(nodes, {"x": ("fp32", IMAGE.shape)}, weights={"s": np.array([1, 1, 2, 2], np.float32)})


def attended(heads: int, **attributes: object) -> onnx.ModelProto:
    keys = numbers(1, heads, 6, 8)
    return one_node("Attention", {"a": HEADS, "b": keys, "c": keys}, None, attributes)


FORMS: dict[str, tuple[onnx.ModelProto, list[str]]] = {
    "convolution": (one_node("Conv", {"a": IMAGE}, {"b": numbers(8, 4, 3, 3), "c": numbers(8)}), ["conv"]),
    "transposed convolution": (one_node("ConvTranspose", {"a": IMAGE}, {"b": numbers(4, 2, 3, 3)}), ["conv_transpose"]),
    "batch norm": (
        one_node("BatchNormalization", {"a": IMAGE}, {"b": FOUR, "c": FOUR, "d": FOUR, "e": np.abs(FOUR)}),
        ["batch_norm"],
    ),
    "instance norm": (one_node("InstanceNormalization", {"a": IMAGE}, {"b": FOUR, "c": FOUR}), ["instance_norm"]),
    "group norm": (
        one_node("GroupNormalization", {"a": IMAGE}, {"b": FOUR, "c": FOUR}, {"num_groups": 2}),
        ["group_norm"],
    ),
    "group norm before 21": (
        one_node("GroupNormalization", {"a": IMAGE}, {"b": FOUR[:2], "c": FOUR[:2]}, {"num_groups": 2}, opset=18),
        ["group_norm"],
    ),
    "layer norm": (one_node("LayerNormalization", {"a": ROW}, {"b": numbers(8), "c": numbers(8)}), ["layer_norm"]),
    "matrix": (one_node("MatMul", {"a": ROW}, {"b": numbers(8, 3)}), ["linear"]),
    "square": (one_node("Pow", {"a": ROW}, {"b": np.array([2], np.float32)}), ["square"]),
    "power": (one_node("Pow", {"a": ROW}, {"b": np.array([3], np.float32)}), ["pow"]),
    "two matrices": (one_node("MatMul", {"a": ROW, "b": numbers(8, 3)}), ["matmul"]),
    "layer": (one_node("Gemm", {"a": ROW}, {"b": numbers(8, 3), "c": numbers(3)}), ["linear"]),
    "turned layer": (one_node("Gemm", {"a": ROW}, {"b": numbers(3, 8), "c": numbers(3)}, {"transB": 1}), ["linear"]),
    "scaled layer": (
        one_node("Gemm", {"a": ROW}, {"b": numbers(8, 3), "c": numbers(3)}, {"alpha": 0.5}),
        ["linear", "muls", "add"],
    ),
    "bounds": (one_node("Clip", {"a": ROW}, {"b": np.array(0, np.float32), "c": np.array(6, np.float32)}), ["clip"]),
    "crossed bounds": (
        one_node("Clip", {"a": ROW}, {"b": np.array(6, np.float32), "c": np.array(0, np.float32)}),
        ["maximum", "minimum"],
    ),
    "largest": (one_node("MaxPool", {"a": IMAGE}, None, {"kernel_shape": [2, 2], "strides": [2, 2]}), ["max_pool"]),
    "average": (one_node("AveragePool", {"a": IMAGE}, None, {"kernel_shape": [2, 2]}), ["avg_pool"]),
    "length": (one_node("LpPool", {"a": IMAGE}, None, {"kernel_shape": [2, 2]}), ["l2_pool"]),
    "global average": (one_node("GlobalAveragePool", {"a": IMAGE}), ["reduce_mean"]),
    "nearest": (resized("nearest", "asymmetric"), ["resize_nearest_neighbor"]),
    "nearest, by the middle": (resized("nearest", "half_pixel", "round_prefer_floor"), ["resize_nearest_neighbor"]),
    "linear": (resized("linear", "half_pixel"), ["resize_bilinear"]),
    "linear, corners": (resized("linear", "align_corners"), ["resize_bilinear"]),
    "cubic": (resized("cubic", "half_pixel"), ["matmul", "linear"]),
    "attention": (attended(4), ["sdpa"]),
    "causal attention": (attended(4, is_causal=1), ["sdpa"]),
    "shared heads": (attended(2), ["reshape", "tile", "reshape", "reshape", "tile", "reshape", "sdpa"]),
    "grid": (one_node("GridSample", {"a": IMAGE, "b": numbers(1, 3, 3, 2)}), ["resample"]),
    "flat": (one_node("Flatten", {"a": IMAGE}), ["reshape"]),
    "blocks first": (one_node("DepthToSpace", {"a": IMAGE}, None, {"blocksize": 2}), ["depth_to_space"]),
    "channels first": (
        one_node("DepthToSpace", {"a": IMAGE}, None, {"blocksize": 2, "mode": "CRD"}),
        ["pixel_shuffle"],
    ),
    "region": (
        one_node("Slice", {"a": ROW}, {"b": np.array([1]), "c": np.array([9]), "d": np.array([1])}),
        ["slice_by_size"],
    ),
    "backwards": (
        one_node(
            "Slice", {"a": ROW}, {"b": np.array([9]), "c": np.array([-9]), "d": np.array([1]), "e": np.array([-2])}
        ),
        ["slice_by_index"],
    ),
    "embedding": (one_node("Gather", {"b": np.array([[1, 3]])}, {"a": ROW}), ["gather"]),
    "identity": (one_node("Identity", {"a": ROW}), []),
    "shape arithmetic": (
        made(
            [
                node("Shape", ["x"], ["s"]),
                node("Gather", ["s", "zero"], ["n"]),
                node("Unsqueeze", ["n", "zeros"], ["u"]),
                node("Concat", ["u", "rest"], ["t"], {"axis": 0}),
                node("Reshape", ["x", "t"], ["y"]),
            ],
            {"x": ("fp32", IMAGE.shape)},
            weights={"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])},
        ),
        ["reshape"],
    ),
    "dropout": (one_node("Dropout", {"a": ROW}), []),
    "whole tile": (one_node("Tile", {"a": ROW}, {"b": np.array([1, 1])}), []),
    "long pad": (one_node("Pad", {"a": FOUR}, {"b": np.array([9, 9])}, {"mode": "reflect"}), ["gather"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_node_becomes_the_operation_that_the_table_has(name: str) -> None:
    model, wanted = FORMS[name]
    assert made_of(model) == wanted


# Weights.


def only_weight(graph: af.Graph) -> object:
    (constant,) = graph.constants.values()
    return constant


def dequantised(
    data: onnx.TensorProto, scale: np.ndarray[tuple[int, ...], np.dtype[np.float32]], **attributes: object
) -> onnx.ModelProto:
    nodes = [node("DequantizeLinear", ["q", "s"], ["w"], attributes), node("MatMul", ["x", "w"], ["y"])]
    model = made(nodes, {"x": ("fp32", [1, 4])}, weights={"s": scale})
    model.graph.initializer.append(data)
    return model


def test_quantised_weights_of_eight_bits_stay_so() -> None:
    values = list(range(-4, 4))
    data = helper.make_tensor("q", TensorProto.INT8, [4, 2], values)
    for scale, attributes in ((np.array(0.5, np.float32), {}), (np.array([0.5, 0.25], np.float32), {"axis": 1})):
        model = dequantised(data, scale, **attributes)
        constant = only_weight(from_onnx(model))
        assert isinstance(constant, Int8Affine)
        x = numbers(1, 4)
        np.testing.assert_allclose(
            results(model, {"x": x})["y"], x @ (np.array(values).reshape(4, 2) * scale), rtol=1e-5
        )


def test_quantised_weights_of_four_bits_in_blocks_stay_so() -> None:
    values = list(range(-4, 4))
    data = helper.make_tensor("q", TensorProto.INT4, [4, 2], values)
    scale = np.array([[0.5, 1.0], [0.25, 2.0]], np.float32)
    model = dequantised(data, scale, axis=0, block_size=2)
    assert isinstance(only_weight(from_onnx(model)), Blockwise)
    x = numbers(1, 4)
    wanted = np.array(values).reshape(4, 2) * np.repeat(scale, 2, axis=0)
    np.testing.assert_allclose(results(model, {"x": x})["y"], x @ wanted, rtol=1e-5)


def test_a_pair_around_an_activation_is_quantise_and_dequantise() -> None:
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    weights = {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    assert made_of(made(nodes, {"x": ("fp32", [4])}, weights=weights)) == ["quantize", "dequantize"]


def test_weights_keep_their_element_type_and_are_turned_in_place() -> None:
    weight = numbers(256, 64).astype(np.float16)
    contents = one_node("MatMul", {"a": ROW.astype(np.float16).repeat(32, 1)}, {"b": weight}).SerializeToString()
    constant = only_weight(from_onnx(contents))
    assert isinstance(constant, Dense)
    assert str(constant.type) == "fp16[64, 256]"
    assert not constant.values.flags.owndata


def test_text_of_a_small_network(golden: Golden) -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "v", "d"], ["g"], {"transB": 1}),
        node("Softmax", ["g"], ["y"]),
    ]
    weights = {"w": numbers(4, 3, 3, 3), "b": numbers(4), "v": numbers(2, 4), "d": numbers(2)}
    model = made(nodes, {"x": ("fp32", ["batch", 3, 8, 8])}, weights=weights)
    golden(from_onnx(model, {"batch": 1}).text)


def test_corners_that_are_aligned_at_a_fraction_are_told() -> None:
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    nodes = [node("Resize", ["x", "", "s"], ["y"], attributes)]
    scales = np.array([1, 1, 1.7, 2], np.float32)
    model = made(nodes, {"x": ("fp32", IMAGE.shape)}, weights={"s": scales})
    with pytest.warns(UserWarning, match=r"aligns corners at a length of 10\.2, fraction included"):
        assert from_onnx(model).outputs["y"].shape == (1, 4, 10, 12)


def test_a_finite_number_over_an_infinity_is_its_own_remainder() -> None:
    x = np.array([5, -5, 0], np.float32)
    model = one_node("Mod", {"a": x}, {"b": np.array([np.inf], np.float32)}, {"fmod": 1})
    assert results(model, {"a": x})["y"].tolist() == [5, -5, 0]


def test_a_convolution_over_no_channels_is_its_bias() -> None:
    x, weight = np.zeros((1, 0, 4), np.float32), np.zeros((2, 0, 3), np.float32)
    model = one_node("Conv", {"a": x}, {"b": weight, "c": np.array([1, 2], np.float32)}, {"group": 1})
    assert results(model, {"a": x})["y"].tolist() == [[[1, 1], [2, 2]]]


def test_a_layer_norm_that_also_gives_its_mean_is_the_tables_own() -> None:
    scale = np.ones(8, np.float32)
    model = one_node("LayerNormalization", {"a": ROW}, {"b": scale}, None, outputs=3)
    found = results(model, {"a": ROW})
    assert made_of(model).count("layer_norm") == 1
    np.testing.assert_allclose(found["y1"], ROW.mean(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(found["y2"], 1 / np.sqrt(ROW.var(axis=1, keepdims=True) + 1e-5), rtol=1e-5)


@pytest.mark.parametrize("largest", [True, False])
def test_the_last_of_equal_extremes(*, largest: bool) -> None:
    mask = np.array([[1, 0, 1], [0, 0, 0]], np.uint8)
    model = one_node("ArgMax" if largest else "ArgMin", {"a": mask}, None, {"axis": 1, "select_last_index": 1})
    assert results(model, {"a": mask})["y"].tolist() == ([[2], [2]] if largest else [[1], [2]])

"""What the fuzzer (tools/fuzz_onnx.py) found, in its smallest form: nodes that keep their schema and make no sense.

Each once ended in a converter's own exception, in another library's, or did not end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aneforge.errors import AneforgeError
from aneforge.formats.onnx.onnx_model import from_onnx
from unit.formats.onnx.onnx_models import made, node, numbers, one_node, port, results

if TYPE_CHECKING:
    from aneforge.ops.types import Array

IMAGE = numbers(1, 2, 4, 4)
ROW = numbers(3)
ONE = np.array(1.0, np.float32)
RUNTIME = "com.microsoft"


def whole(*values: int) -> Array:
    return np.array(values, np.int64)


def scanned(attributes: dict[str, object]) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["e"], ["o"])], "body", [port("e", ("fp32", []))], [onnx.ValueInfoProto(name="o")]
    )
    return one_node("Scan", {"a": ROW}, None, {"body": body, "num_scan_inputs": 1, **attributes})


def batched() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["e"], ["o"])], "body", [port("e", ("fp32", []))], [onnx.ValueInfoProto(name="o")]
    )
    nodes = [node("Scan", ["", "x"], ["y"], {"body": body, "num_scan_inputs": 1})]
    return made(nodes, {"x": ("fp32", [])}, opset=8)


def looped(condition: Array) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["v"], ["w"])],
        "body",
        [port("i", ("int64", [])), port("c", ("bool", [])), port("v", ("fp32", [3]))],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="w")],
    )
    nodes = [node("Loop", ["m", "k", "x"], ["y"], {"body": body})]
    return made(nodes, {"x": ("fp32", [3])}, weights={"m": np.array(2), "k": condition})


def flexible() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Add", ["scores", "odd$name"], ["out"])],
        "body",
        [port("scores", ("fp32", [1, 1, 2, 2]))],
        [onnx.ValueInfoProto(name="out")],
        [helper.make_tensor("odd$name", TensorProto.FLOAT, [], [1.0])],
    )
    heads = numbers(1, 1, 2, 2)
    feeds = {"a": heads, "b": heads, "c": heads}
    return one_node("FlexAttention", feeds, None, {"score_mod": body}, domain="ai.onnx.preview")


MODELS: dict[str, tuple[onnx.ModelProto, str]] = {
    "bounds of several numbers": (one_node("Clip", {"a": ROW}, {"b": ROW}), "a bound is not one number"),
    "bound of no number": (one_node("Clip", {"a": ROW}, {"b": ROW[:0]}), "a bound is not one number"),
    "training of several": (
        one_node("Dropout", {"a": ROW}, {"b": ONE, "c": np.array([True, False])}),
        "whether it is training is not one number",
    ),
    "product of rows": (one_node("Gemm", {"b": ROW}, {"a": ROW}, {"transA": 1}), "A and B are not matrices"),
    "unpooled": (
        one_node("MaxUnpool", {"a": IMAGE, "b": IMAGE.astype(np.int64)}, None, {"kernel_shape": [2]}),
        "one length for each spatial axis",
    ),
    "group of nothing": (
        one_node("GroupNormalization", {"a": ROW, "b": ROW, "c": ROW}, None, {"num_groups": 1}),
        "no channels to group",
    ),
    "group by a table": (
        one_node("GroupNormalization", {"a": IMAGE, "b": IMAGE, "c": IMAGE}, None, {"num_groups": 1}, opset=18),
        "does not broadcast",
    ),
    "deformed": (
        one_node("DeformConv", {"a": IMAGE, "b": IMAGE, "c": IMAGE}, None, {"pads": [1]}),
        "pads must have two widths",
    ),
    "norm of order 0": (one_node("LpNormalization", {"a": ROW}, None, {"p": 0}), "p must be 1 or more"),
    "sequence of one axis": (
        one_node("RNN", {"a": ROW, "b": numbers(1, 1, 1), "c": numbers(1, 1, 1)}, None, {"hidden_size": 1}),
        "three axes",
    ),
    "one-hot values": (one_node("OneHot", {"a": whole(1)}, {"b": whole(3), "c": ROW}), "the values are not two"),
    "one-hot depth": (
        one_node("OneHot", {"a": whole(1)}, {"b": whole(), "c": ROW[:2]}),
        "the depth is not one number",
    ),
    "one-hot depth without an end": (
        one_node("OneHot", {"a": whole(1)}, {"b": np.array(np.inf, np.float32), "c": ROW[:2]}),
        "the depth is not finite",
    ),
    "long list": (one_node("Reshape", {"a": ROW}, {"b": np.ones(2**17, np.int64)}), "the shape is too long"),
    "regions": (
        one_node(
            "RoiAlign", {"a": IMAGE, "b": numbers(1, 4), "c": whole(0).reshape(1, 1)}, None, {"sampling_ratio": 1}
        ),
        "images or regions are not",
    ),
    "cache": (one_node("TensorScatter", {"a": ROW, "b": ROW}, None, {"axis": 0}), "the same axes"),
    "scan of nothing": (scanned({"num_scan_inputs": -(2**62)}), "fewer inputs than are to be scanned"),
    "scan along more than there is": (
        scanned({"scan_output_axes": [0, 7]}),
        "scan_output_axes must have one number for",
    ),
    "scan in more directions": (
        scanned({"scan_input_directions": [0, 1]}),
        "scan_input_directions must have one number",
    ),
    "scan without a batch": (batched(), "the inputs differ in batch size"),
    "transposed": (
        one_node("ConvTranspose", {"a": IMAGE, "b": IMAGE[:, :, :1, :1].repeat(2, 0)}, None, {"output_padding": [1]}),
        "output_padding must have 2 widths",
    ),
    "condition of several": (looped(np.array([True, True])), "the condition is not one bool"),
    "signal": (
        one_node("STFT", {"a": numbers(1, 1, 4, 1)}, {"b": np.array(1), "c": numbers(2)}),
        "are not .batch, length, parts. and a list",
    ),
    "signal without parts": (
        one_node("STFT", {"a": numbers(1, 4, 0)}, {"b": np.array(1), "c": numbers(2)}),
        "frames do not fit the signal",
    ),
    "expanded to many axes": (one_node("Expand", {"a": ROW}, {"b": np.ones(48, np.int64)}), "too many axes"),
    "triangle without rows": (
        made([node("Trilu", ["x"], ["y"])], {"x": ("fp32", [0, 2**31 - 1])}),
        "needs a table of",
    ),
    "many frames": (
        made(
            [node("STFT", ["x", "s", "w"], ["y"])],
            {"x": ("fp32", [1, 2**31 - 1, 1])},
            weights={"s": np.array(1), "w": ROW},
        ),
        "needs a table of",
    ),
    "past of one number": (
        made(
            [node("Attention", ["q", "q", "q", "", "p", "q"], ["y"])],
            {"q": ("fp32", [1, 1, 2, 2]), "p": ("fp32", [])},
        ),
        "the past is not",
    ),
    "name that onnx cannot write": (flexible(), "onnx cannot make the function that defines it"),
    "pooled shape": (
        one_node("MaxRoiPool", {"a": IMAGE}, {"b": numbers(1, 5)}, {"pooled_shape": [1]}),
        "pooled_shape is not a height and a width",
    ),
    "angles for rows": (
        one_node(
            "RotaryEmbedding", {"a": ROW}, {"b": whole(1), "c": numbers(5, 2), "d": numbers(5, 2)}, domain=RUNTIME
        ),
        "input 0 has the wrong rank .*limit 3 to 4",
    ),
    "tables without places": (
        one_node("RotaryEmbedding", {"a": numbers(1, 2, 4)}, {"b": whole(1), "c": ROW, "d": ROW}, domain=RUNTIME),
        "input 2 has the wrong rank .*limit 2",
    ),
    "shared keys of one line": (
        one_node(
            "GroupQueryAttention",
            {"a": numbers(1, 3)},
            {"b": ROW, "c": ROW, "d": ROW, "e": ROW, "f": whole(2), "g": whole(3)},
            {"num_heads": 4, "kv_num_heads": 2},
            domain=RUNTIME,
        ),
        "input 0 has the wrong rank",
    ),
    "words of many axes": (
        one_node(
            "EmbedLayerNormalization",
            {"a": whole(1, 2)},
            {name: numbers(4, 8) for name in "bcdefg"},
            domain=RUNTIME,
        ),
        "input 0 has the wrong rank",
    ),
    "zero points of half the blocks": (
        one_node(
            "MatMulNBits",
            {"a": numbers(2, 32)},
            {"b": np.zeros((3, 2, 8), np.uint8), "c": numbers(6), "d": numbers(3, 1)},
            {"K": 32, "N": 3, "bits": 4, "block_size": 16},
            domain=RUNTIME,
        ),
        "the zero points have the wrong size",
    ),
    "channels after no places": (
        one_node("NhwcMaxPool", {"a": np.array(1, np.uint8)}, None, {"kernel_shape": [1]}, domain=RUNTIME),
        "not an axis of a tensor of rank 0",
    ),
    "axis beyond the end": (
        one_node("ExpandDims", {"a": ROW}, {"b": np.array(7, np.int32)}, domain=RUNTIME),
        "not an axis of a tensor of rank 2",
    ),
    "order of axes": (
        one_node("LSTM", {"a": ROW, "b": ROW, "c": ROW}, None, {"hidden_size": 1, "layout": 1}),
        "three axes",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_makes_no_sense_is_one_clear_error(name: str) -> None:
    model, message = MODELS[name]
    with pytest.raises(AneforgeError, match=message) as caught:
        from_onnx(model.SerializeToString())
    assert "its converter cannot read it" not in str(caught.value)


def test_a_mask_of_whole_numbers_is_added() -> None:
    heads, mask = numbers(1, 1, 2, 2), np.array([[1, 5], [0, -3]], np.int32)
    feeds = {"a": heads, "b": heads, "c": heads}
    scores = heads[0, 0] @ heads[0, 0].T / np.sqrt(2) + mask
    powers = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = results(one_node("Attention", feeds, {"d": mask}), feeds)["y"]
    np.testing.assert_allclose(found[0, 0], powers @ heads[0, 0], rtol=1e-5)

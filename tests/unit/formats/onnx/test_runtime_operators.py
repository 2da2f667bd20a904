"""Operators that ONNX Runtime adds to ONNX's own give the runtime's own numbers, or say what is in the way."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# onnxruntime has no types.

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.onnx.registry import converters
from aneforge.formats.shared.findings import InvalidModelError, UnsupportedModelError
from aneforge.ops.constant import Blockwise
from unit.formats.onnx.onnx_models import dtype_name, made, node, numbers, results
from unit.formats.onnx.runtime_results import of_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import onnx

    from aneforge.ops.types import Array

RUNTIME = "com.microsoft"
ROW = numbers(2, 3, 8)
WIDE = numbers(8)
IMAGE = numbers(1, 4, 6, 6)
FILTERS = numbers(4, 4, 3, 3, seed=2)
CODES = np.arange(96, dtype=np.uint8).reshape(1, 4, 4, 6)
TENTH, FIFTH, THREE, FOUR = np.float32(0.1), np.float32(0.2), np.uint8(3), np.uint8(4)
STEP = (np.array(TENTH), np.array(THREE))
WIDER = (np.array(FIFTH), np.array(FOUR))
IDS = np.array([[1, 2, 0], [3, 1, 1]], np.int32)
MASK = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
ANGLES = numbers(5, 2), numbers(5, 2, seed=1)


def runtime_model(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, object],
    *,
    outputs: int = 1,
    fed: int = 1,
    domain: str = RUNTIME,
    opset: int = 17,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    names = ["" if one is None else f"x{place}" for place, one in enumerate(inputs)]
    arrays = {name: np.asarray(one) for name, one in zip(names, inputs, strict=True) if one is not None}
    feeds = dict(list(arrays.items())[:fed])
    weights = {name: one for name, one in arrays.items() if name not in feeds}
    made_node = node(operator, names, [f"y{place}" for place in range(outputs)], attributes, domain)
    ports = {name: (dtype_name(one), list(one.shape)) for name, one in feeds.items()}
    model = made([made_node], ports, list(made_node.output), weights, opset=opset, domains={RUNTIME: 1})
    model.ir_version = 10
    return model, feeds


CASES: dict[str, tuple[str, list[Array | None], dict[str, object]]] = {
    "Gelu": ("Gelu", [ROW], {}),
    "BiasGelu": ("BiasGelu", [ROW, WIDE], {}),
    "FastGelu": ("FastGelu", [ROW], {}),
    "FastGelu with a bias": ("FastGelu", [ROW, WIDE], {}),
    "QuickGelu": ("QuickGelu", [ROW], {"alpha": 1.5}),
    "FusedMatMul": ("FusedMatMul", [ROW, numbers(2, 3, 4)], {"transA": 1, "alpha": 0.5}),
    "FusedMatMul around batches": (
        "FusedMatMul",
        [numbers(3, 2, 8), numbers(2, 8, 4)],
        {"transBatchA": 1},
    ),
    "FusedMatMul of weights": ("FusedMatMul", [ROW, numbers(4, 8)], {"transB": 1}),
    "FusedConv": (
        "FusedConv",
        [IMAGE, FILTERS, numbers(4), numbers(1, 4, 6, 6, seed=3)],
        {"activation": "LeakyRelu", "activation_params": [0.3], "pads": [1, 1, 1, 1]},
    ),
    "FusedConv, bounded": (
        "FusedConv",
        [IMAGE, FILTERS],
        {"activation": "Clip", "activation_params": [0.0, 6.0], "strides": [2, 2]},
    ),
    "FusedConv, plain": ("FusedConv", [IMAGE, FILTERS], {"activation": "Relu"}),
    "FusedGemm": (
        "FusedGemm",
        [numbers(2, 8), numbers(3, 8), numbers(3)],
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    "SkipLayerNormalization": ("SkipLayerNormalization", [ROW, numbers(2, 3, 8, seed=1), WIDE, WIDE, WIDE], {}),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization",
        [ROW, numbers(2, 3, 8, seed=1), WIDE, WIDE],
        {"epsilon": 1e-5},
    ),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization",
        [IDS, IDS % 2, numbers(4, 8), numbers(5, 8, seed=1), numbers(2, 8, seed=2), WIDE, WIDE],
        {},
    ),
    "EmbedLayerNormalization of words alone": (
        "EmbedLayerNormalization",
        [IDS, None, numbers(4, 8), numbers(5, 8, seed=1), None, WIDE, WIDE],
        {"epsilon": 1e-3},
    ),
    "Pad": ("Pad", [ROW, np.array([0, 1, 0, 0, 0, 2], np.int64)], {"mode": "edge"}),
    "ExpandDims": ("ExpandDims", [ROW, np.array(1, np.int32)], {}),
    "Trilu": ("Trilu", [ROW, np.array(1, np.int64)], {"upper": 0}),
    "CDist": ("CDist", [numbers(3, 4), numbers(5, 4, seed=1)], {"metric": "euclidean"}),
    "NhwcMaxPool": ("NhwcMaxPool", [CODES], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
    "QLinearAdd": ("QLinearAdd", [CODES, *STEP, CODES[:, :1], *WIDER, *WIDER], {}),
    "QLinearMul": ("QLinearMul", [CODES, *STEP, CODES, *WIDER, np.array(np.float32(1.3)), np.array(FOUR)], {}),
    "QLinearSigmoid": ("QLinearSigmoid", [CODES, *STEP, np.array(np.float32(1 / 256)), np.array(np.uint8(0))], {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", [CODES, *STEP, *WIDER], {"alpha": 0.3}),
    "QLinearSoftmax": (
        "QLinearSoftmax",
        [CODES, *STEP, np.array(np.float32(1 / 256)), np.array(np.uint8(0))],
        {"axis": 2, "opset": 13},
    ),
    "QLinearSoftmax over several axes": (
        "QLinearSoftmax",
        [CODES, *STEP, np.array(np.float32(1 / 256)), np.array(np.uint8(0))],
        {"axis": 2, "opset": 11},
    ),
    "QLinearConcat": ("QLinearConcat", [*WIDER, CODES, *STEP, CODES, *WIDER], {"axis": 1}),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", [CODES, *STEP, *WIDER], {}),
    "QLinearGlobalAveragePool after": ("QLinearGlobalAveragePool", [CODES, *STEP, *WIDER], {"channels_last": 1}),
    "QLinearAveragePool": (
        "QLinearAveragePool",
        [CODES, *STEP, *WIDER],
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 0, 0]},
    ),
    "QLinearWhere": (
        "QLinearWhere",
        [CODES % 2 == 0, CODES, *STEP, CODES, *WIDER, *WIDER],
        {},
    ),
    "QLinearConv": (
        "QLinearConv",
        [CODES, *STEP, np.arange(144, dtype=np.uint8).reshape(4, 4, 3, 3), *STEP, np.array(np.float32(9)), WIDER[1]],
        {"pads": [1, 1, 1, 1]},
    ),
    "QGemm": (
        "QGemm",
        [
            CODES[0, 0],
            *STEP,
            CODES[0, 1],
            np.array([0.1, 0.2, 0.1, 0.3], np.float32),
            np.full(4, 7, np.uint8),
            np.array([3, -5, 100, 7], np.int32),
            np.array(np.float32(3)),
            np.array(np.uint8(9)),
        ],
        {"transB": 1},
    ),
    "MatMulIntegerToFloat": (
        "MatMulIntegerToFloat",
        [CODES, CODES[0, 0].T, np.array(TENTH), numbers(4), np.array(THREE), np.full(4, 7, np.uint8), numbers(4)],
        {},
    ),
    "DynamicQuantizeMatMul": (
        "DynamicQuantizeMatMul",
        [ROW, CODES.reshape(8, 12), np.array(TENTH), np.array(THREE), numbers(12)],
        {},
    ),
    "QuantizeLinear": ("QuantizeLinear", [ROW, np.array(np.float32(0.01)), np.array(np.uint16(32768))], {}),
    "DequantizeLinear": ("DequantizeLinear", [CODES.astype(np.uint16), *STEP[:1], np.array(np.uint16(9))], {}),
    "Attention": ("Attention", [ROW, numbers(8, 24), numbers(24), MASK], {"num_heads": 2}),
    "Attention, lengths": (
        "Attention",
        [ROW, numbers(8, 24), numbers(24), np.array([2, 3], np.int32)],
        {"num_heads": 2, "scale": 0.3},
    ),
    "Attention, one way, with a bias of scores": (
        "Attention",
        [ROW, numbers(8, 20), numbers(20), None, None, numbers(1, 2, 3, 3)],
        {"num_heads": 2, "unidirectional": 1, "qkv_hidden_sizes": [8, 8, 4]},
    ),
    "MultiHeadAttention": (
        "MultiHeadAttention",
        [
            ROW,
            numbers(2, 4, 8, seed=1),
            numbers(2, 4, 8, seed=2),
            numbers(24),
            np.array([[1, 1, 1, 0]] * 2, np.int32),
        ],
        {"num_heads": 2},
    ),
    "RotaryEmbedding": (
        "RotaryEmbedding",
        [ROW, np.array([[0, 1, 2], [2, 3, 4]]), *ANGLES],
        {"num_heads": 2},
    ),
    "RotaryEmbedding of neighbours": (
        "RotaryEmbedding",
        [numbers(2, 2, 3, 4), np.array([1]), *ANGLES],
        {"interleaved": 1},
    ),
    "RotaryEmbedding of a part": (
        "RotaryEmbedding",
        [ROW, np.array([[0, 1, 2], [2, 3, 4]]), *ANGLES],
        {"num_heads": 1, "rotary_embedding_dim": 4},
    ),
    "CDist, squared": ("CDist", [numbers(3, 4), numbers(5, 4, seed=1)], {"metric": "sqeuclidean"}),
    "TransposeMatMul": ("TransposeMatMul", [ROW, numbers(2, 4, 8)], {"transB": 1}),
    "FusedGemm, plain": ("FusedGemm", [numbers(2, 8), numbers(8, 3)], {"activation": "Tanh"}),
    "MatMulNBits of bytes": (
        "MatMulNBits",
        [numbers(2, 32), np.arange(96, dtype=np.uint8).reshape(3, 2, 16), numbers(6)],
        {"K": 32, "N": 3, "bits": 8, "block_size": 16},
    ),
    "MatMulNBits with real zero points": (
        "MatMulNBits",
        [
            numbers(2, 32),
            np.arange(48, dtype=np.uint8).reshape(3, 2, 8),
            numbers(6),
            numbers(3, 2, seed=4),
            None,
            numbers(3),
        ],
        {"K": 32, "N": 3, "bits": 4, "block_size": 16},
    ),
    "MatMulNBits": (
        "MatMulNBits",
        [numbers(2, 32), np.arange(48, dtype=np.uint8).reshape(3, 2, 8), numbers(6)],
        {"K": 32, "N": 3, "bits": 4, "block_size": 16},
    ),
    "MatMulNBits with zero points": (
        "MatMulNBits",
        [
            numbers(2, 30),
            np.arange(48, dtype=np.uint8).reshape(3, 2, 8),
            numbers(6),
            np.array([0x79, 0x12, 0x83], np.uint8),
        ],
        {"K": 30, "N": 3, "bits": 4, "block_size": 16},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_of_the_runtime_gives_its_numbers(name: str) -> None:
    operator, inputs, attributes = CASES[name]
    model, feeds = runtime_model(operator, inputs, attributes, outputs=2 if operator.startswith("Embed") else 1)
    found = list(results(model, feeds).values())
    for one, wanted in zip(found, of_runtime(model, feeds), strict=True):
        assert one.dtype == wanted.dtype
        tolerance = 1 if wanted.dtype.kind in "iu" and operator.startswith("Q") else 2e-5
        np.testing.assert_allclose(
            one.astype(np.float64), wanted.astype(np.float64), rtol=0 if tolerance == 1 else 2e-5, atol=tolerance
        )


def test_the_sum_that_a_skipped_layer_adds_is_a_result() -> None:
    model, feeds = runtime_model("SkipLayerNormalization", [ROW, ROW, WIDE], {}, outputs=4)
    del model.graph.node[0].output[1:3]
    model.graph.node[0].output[:] = ["y0", "", "", "y3"]
    del model.graph.output[1:3]
    found = results(model, feeds)
    np.testing.assert_allclose(found["y3"], ROW + ROW, rtol=1e-6)


@pytest.mark.parametrize(("operator", "opset"), [("LayerNormalization", 13), ("SimplifiedLayerNormalization", 17)])
def test_normalisations_that_the_runtime_adds_to_the_default_set(operator: str, opset: int) -> None:
    inputs = [ROW, WIDE, WIDE] if operator == "LayerNormalization" else [ROW, WIDE]
    model, feeds = runtime_model(operator, inputs, {"epsilon": 1e-3}, domain="", opset=opset)
    np.testing.assert_allclose(results(model, feeds)["y0"], of_runtime(model, feeds)[0], rtol=1e-5, atol=1e-5)


def test_packed_weights_stay_packed() -> None:
    operator, inputs, attributes = CASES["MatMulNBits"]
    graph = from_onnx(runtime_model(operator, inputs, attributes)[0])
    assert [type(one.operands["weight"]) for one in graph.nodes if one.op.name == "linear"] == [Blockwise]


@pytest.mark.parametrize("past", [0, 2])
def test_grouped_attention_with_a_past(past: int) -> None:
    length = 3 if not past else 1
    query, shared = numbers(1, length, 64), numbers(1, length, 32, seed=1)
    before = [numbers(1, 2, past, 16, seed=place) for place in (2, 3)]
    lengths = np.array([past + length - 1], np.int32)
    angles = numbers(5, 8), numbers(5, 8, seed=1)
    inputs = [query, shared, shared, *before, lengths, np.array([past + length], np.int32), *angles]
    attributes: dict[str, object] = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    model, feeds = runtime_model("GroupQueryAttention", inputs, attributes, outputs=3, fed=5)
    found = results(model, feeds)
    for one, wanted in zip(found.values(), of_runtime(model, feeds), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


def compare_all(operator: str, inputs: Sequence[Array | None], attributes: dict[str, object], outputs: int) -> None:
    model, feeds = runtime_model(operator, inputs, attributes, outputs=outputs)
    for one, wanted in zip(results(model, feeds).values(), of_runtime(model, feeds), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


def test_attention_to_a_past_gives_it_back_with_what_was_added() -> None:
    past = numbers(2, 2, 2, 5, 4, seed=3)
    attributes: dict[str, object] = {"num_heads": 2, "unidirectional": 1}
    compare_all("Attention", [ROW, numbers(8, 24), numbers(24), None, past], attributes, 2)
    inputs = [ROW, ROW * 2, ROW + 1, None, None, None, past[0], past[1]]
    compare_all("MultiHeadAttention", inputs, {"num_heads": 2}, 3)


def test_grouped_attention_of_packed_queries_keys_and_values() -> None:
    lengths, total = np.array([2], np.int32), np.array([3], np.int32)
    inputs = [numbers(1, 3, 128), None, None, None, None, lengths, total]
    compare_all("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": 2}, 3)


LOWEST = float(np.finfo(np.float32).min)
HIDDEN_LINE = np.array([[1, 1, 0], [0, 0, 0]], np.int32)


@pytest.mark.parametrize("fed", [1, 4])
@pytest.mark.parametrize(
    ("mask", "value"), [(MASK, -1e4), (MASK, LOWEST), (MASK, -np.inf), (HIDDEN_LINE, -1e4), (HIDDEN_LINE, LOWEST)]
)
def test_keys_that_are_hidden_by_any_value(mask: Array, value: float, fed: int) -> None:
    attributes: dict[str, object] = {"num_heads": 2, "mask_filter_value": value}
    model, feeds = runtime_model("Attention", [ROW, numbers(8, 24), numbers(24), mask], attributes, fed=fed)
    found, wanted = results(model, feeds)["y0"], of_runtime(model, feeds)[0]
    assert np.all(np.isfinite(wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [-1e4, LOWEST, -np.inf])
def test_hidden_keys_leave_numbers_on_an_engine(value: float) -> None:
    attributes: dict[str, object] = {"num_heads": 2, "mask_filter_value": value}
    model, feeds = runtime_model("Attention", [ROW, numbers(8, 24), numbers(24), MASK], attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a network is mostly dispatch
        net = af.load_onnx(model, target="h13")
    np.testing.assert_allclose(np.asarray(net(feeds["x0"])), of_runtime(model, feeds)[0], rtol=0, atol=0.02)
    assert any("infinite in fp16" in one for one in net.remarks) == (value == LOWEST)


# Operators that the runtime has for other processors alone, by their published formulas.

BY_FORMULA = {"BiasAdd", "BiasSoftmax", "BiasSplitGelu", "GroupNorm", "QLinearReduceMean"}
COMPARED = {operator for operator, _, _ in CASES.values()} | {"GroupQueryAttention"}


def test_the_page_names_the_operators_that_are_compared_with_formulas(repository: Path) -> None:
    named = {name for domain, name in converters() if domain == RUNTIME}
    assert named - COMPARED == BY_FORMULA
    text = " ".join((repository / "docs" / "onnx.md").read_text(encoding="utf-8").split())
    *most, last = (f"`{name}`" for name in sorted(BY_FORMULA))
    assert f"it has none on a CPU for {', '.join(most)} and {last}" in text


def alone(operator: str, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> Array:
    return results(*runtime_model(operator, inputs, attributes))["y0"]


def test_attention_of_packed_tensors_is_that_of_their_parts() -> None:
    packed = numbers(2, 3, 2, 3, 4)
    parts = [packed[:, :, :, place].reshape(2, 3, 8) for place in range(3)]
    wanted = alone("MultiHeadAttention", parts, {"num_heads": 2})
    np.testing.assert_allclose(alone("MultiHeadAttention", [packed], {"num_heads": 2}), wanted, rtol=1e-6)
    together = [parts[0], packed[:, :, :, 1:]]
    np.testing.assert_allclose(alone("MultiHeadAttention", together, {"num_heads": 2}), wanted, rtol=1e-6)


def test_layers_of_other_processors() -> None:
    halves = (ROW + WIDE)[..., :4], (ROW + WIDE)[..., 4:]
    gelu = alone("Gelu", [halves[1]], {})
    np.testing.assert_allclose(alone("BiasSplitGelu", [ROW, WIDE], {}), halves[0] * gelu, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(alone("BiasAdd", [ROW, WIDE, ROW], {}), ROW + WIDE + ROW, rtol=1e-6)
    bias = numbers(2, 1, 8)
    powers = np.exp(ROW + bias)
    softmax = alone("BiasSoftmax", [ROW, bias], {"axis": 1, "is_inner_broadcast": 0})
    np.testing.assert_allclose(softmax, powers / powers.sum((1, 2), keepdims=True), rtol=1e-5)
    behind = np.moveaxis(IMAGE, 1, -1)
    grouped = alone("GroupNorm", [behind, WIDE[:4], WIDE[4:]], {"groups": 2, "activation": 1})
    pairs = IMAGE.reshape(1, 2, -1).astype(np.float64)
    centred = (pairs - pairs.mean(-1, keepdims=True)) / np.sqrt(pairs.var(-1, keepdims=True) + 1e-5)
    normal = np.moveaxis(centred.reshape(IMAGE.shape), 1, -1) * WIDE[:4] + WIDE[4:]
    np.testing.assert_allclose(grouped, normal / (1 + np.exp(-normal)), rtol=1e-5, atol=1e-6)
    mean = alone("QLinearReduceMean", [CODES, *STEP, *STEP], {"axes": [3], "keepdims": 0})
    np.testing.assert_allclose(mean, np.round(CODES.mean(3)), atol=1)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("FusedConv", [IMAGE, FILTERS], {"activation": "Swish"}, "its activation is not supported"),
        ("QLinearConv", [CODES, *STEP, CODES, *STEP, *STEP], {"channels_last": 1}, "its channels are last"),
        ("BiasSoftmax", [ROW, numbers(3, 3, 8)], {"is_inner_broadcast": 0}, "repeated along outer axes"),
        ("Attention", [ROW, numbers(8, 24)], {"num_heads": 2, "do_rotary": 1}, "it rotates its queries"),
        (
            "Attention",
            [ROW, numbers(8, 24), None, np.zeros(8, np.int32)],
            {"num_heads": 2},
            "its mask has another form",
        ),
        ("RotaryEmbedding", [ROW, IDS.astype(np.int64), *ANGLES], {"scale": 2.0}, "it scales its angles"),
        ("MatMulNBits", [ROW[0], FILTERS, WIDE], {"K": 8, "N": 3, "bits": 3, "block_size": 16}, "not supported here"),
        (
            "GroupQueryAttention",
            [ROW, ROW, ROW, None, None, np.array([1, 2], np.int32), np.array([3], np.int32)],
            {"num_heads": 2, "kv_num_heads": 2},
            "sequences are shorter than their tensors",
        ),
        (
            "GroupQueryAttention",
            [ROW, ROW, ROW, None, None, np.array([2, 2], np.int32), np.array([3], np.int32)],
            {"num_heads": 2, "kv_num_heads": 2, "softcap": 5.0},
            "it bounds its scores",
        ),
    ],
)
def test_forms_that_are_not_taken_say_why(
    operator: str, inputs: list[Array | None], attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        from_onnx(runtime_model(operator, inputs, attributes)[0])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("QLinearConcat", [*STEP, CODES, *STEP, CODES], {"axis": 1}, "must have a scale and a zero point"),
        ("FusedConv", [IMAGE, FILTERS], {"activation": "Relu", "activation_params": [1.0]}, "takes fewer parameters"),
        ("Attention", [ROW[0], numbers(8, 24)], {"num_heads": 2}, "input 0 has the wrong rank"),
        ("Attention", [ROW, numbers(8, 24)], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}, "not all of the last"),
        ("MultiHeadAttention", [ROW, ROW], {"num_heads": 2}, "keys or values are missing"),
        ("MultiHeadAttention", [numbers(2, 3, 2, 4, 4)], {"num_heads": 2}, "does not hold this many tensors"),
        ("MultiHeadAttention", [ROW[None], ROW, ROW], {"num_heads": 2}, "it is not .batch, length, width."),
        ("RotaryEmbedding", [numbers(2, 2, 3, 2), np.array([1]), *ANGLES], {}, "the angles are for wider heads"),
        (
            "MatMulNBits",
            [ROW[0], CODES, WIDE],
            {"K": 8, "N": 3, "block_size": 16},
            "packed numbers have the wrong size",
        ),
        ("SkipLayerNormalization", [ROW, ROW], {}, "wrong number of inputs"),
        ("BiasSplitGelu", [ROW[..., :7], WIDE[:7]], {}, "the last axis into two halves is not divisible"),
        ("BiasSplitGelu", [ROW[..., :3], WIDE[:3]], {}, "the last axis into two halves is not divisible"),
    ],
)
def test_what_breaks_the_rules_of_an_operator_is_told(
    operator: str, inputs: list[Array | None], attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidModelError, match=message):
        from_onnx(runtime_model(operator, inputs, attributes)[0])


def test_statistics_of_training_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="its mean and deviation are read"):
        from_onnx(runtime_model("SkipLayerNormalization", [ROW, ROW, WIDE], {}, outputs=2)[0])


@pytest.mark.parametrize(
    ("operator", "domain", "message"),
    [
        (
            "Sampling",
            RUNTIME,
            (
                "Sampling 'Sampling_y0': it is an operator that ONNX Runtime adds in 'com.microsoft', and it is not "
                "supported here. Workaround: save the model with graph_optimization_level ORT_ENABLE_BASIC, which "
                "keeps standard operators"
            ),
        ),
        (
            "ReorderInput",
            "com.microsoft.nchwc",
            (
                "ReorderInput 'ReorderInput_y0': operator set 'com.microsoft.nchwc' is for the memory layout of one "
                "processor. Workaround: save the optimised model with ORT_ENABLE_EXTENDED or less instead of "
                "ORT_ENABLE_ALL"
            ),
        ),
    ],
)
def test_what_has_no_form_says_how_to_save_the_model(operator: str, domain: str, message: str) -> None:
    model, _ = runtime_model(operator, [ROW], {}, domain=domain)
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    assert str(caught.value).split("\n  ")[1:] == [message]

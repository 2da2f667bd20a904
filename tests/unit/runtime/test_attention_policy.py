"""One policy for attention, whatever its origin: products and softmax in one program, unless its layer is asked for."""

import numpy as np
import onnx.helper
import pytest
import torch

import aneforge as af
from aneforge.errors import GraphError, IllegalGraphError, NotSupportedError
from aneforge.formats.mil.program import parse_mil
from aneforge.formats.mil.text import mil_text
from aneforge.graph.graph import GraphLike
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.optimise.forms import native_attention

RANDOM = np.random.default_rng(2)
CHIPS = ("m1", "m2", "m4", "m5")


def heads(count: int, length: int, width: int = 8) -> af.Tensor:
    return af.input((1, count, length, width))


def attention_of(count: int, length: int, width: int = 8, *, native: bool = False) -> af.Tensor:
    q, k, v = (heads(count, length, width) for _ in range(3))
    return af.sdpa(q, k, v, native=native)


def attended(length: int, origin: str) -> GraphLike:
    """Return attention of two heads as each front end makes it."""
    shape = [1, 2, length, 8]
    if origin == "builder":
        return attention_of(2, length)
    if origin == "torch":

        class Attention(torch.nn.Module):
            def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
                return torch.nn.functional.scaled_dot_product_attention(q, k, v)

        return af.from_torch(Attention(), tuple(torch.zeros(shape, dtype=torch.float16) for _ in "qkv"))
    if origin == "mil":
        return parse_mil(mil_text(af.Graph({"y": attention_of(2, length)})).text).graph()
    half = onnx.TensorProto.FLOAT16
    ports = [onnx.helper.make_tensor_value_info(name, half, shape) for name in "qkvy"]
    node = onnx.helper.make_node("Attention", ["q", "k", "v"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ports[:3], ports[3:])
    return af.from_onnx(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]))


@pytest.mark.parametrize("length", [64, 600])
def test_every_origin_is_one_program_with_the_same_bits(length: int) -> None:
    values = [RANDOM.standard_normal((1, 2, length, 8)).astype(np.float16) for _ in range(3)]
    models = [af.compile(attended(length, origin), target="m1") for origin in ("builder", "torch", "onnx", "mil")]
    assert [len(model.segments) for model in models] == [1, 1, 1, 1]
    results = [np.asarray(model(*values)) for model in models]
    assert all(np.array_equal(one, results[0]) for one in results)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_layer_is_not_taken_where_products_are_faster(chip: str) -> None:
    y = attention_of(8, 128, 64)
    own = af.cost(attention_of(8, 128, 64, native=True), chip)
    model = af.compile(y, target=chip)
    assert type(model) is af.Model
    assert af.cost(y, chip).microseconds < own.microseconds


def taken(*_: object, **__: object) -> str:
    return "attention of [1, 2, 16, 8] runs as the layer"


def test_the_layer_is_taken_where_it_is_predicted_to_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_attention, "why_native", taken)
    model = af.compile(attention_of(2, 16), target="m1")
    assert isinstance(model, af.SegmentedModel)
    assert model.remarks == ("attention of [1, 2, 16, 8] runs as the layer",)
    plain = af.compile(attention_of(2, 16), target="m1", opt=0)
    assert type(plain) is af.Model


@pytest.mark.parametrize("lengths", [(512, 512), (8, 4096)])
def test_the_layer_is_refused_where_it_is_known_to_be_wrong(lengths: tuple[int, int]) -> None:
    q, k = heads(1, lengths[0]), heads(1, lengths[1])
    with pytest.raises(IllegalGraphError, match=r"ANE-SDPA-00[67]"):
        af.compile(af.sdpa(q, k, k, native=True), target="m1")
    assert af.preflight(af.sdpa(q, k, k), "m1").ok


def test_the_layer_cannot_be_written_in_mil() -> None:
    with pytest.raises(NotSupportedError, match="cannot be written in MIL"):
        af.to_mil(attention_of(1, 8, native=True))


def test_shared_heads_and_values_of_another_width() -> None:
    q, k, v = heads(8, 16), heads(2, 16), af.input((1, 2, 16, 24))
    values = [RANDOM.standard_normal(one.shape).astype(np.float16) for one in (q, k, v)]
    model = af.compile(af.sdpa(q, k, v), target="m1")
    scores = values[0].astype(np.float64) @ np.repeat(values[1], 4, 1).swapaxes(-1, -2) / np.sqrt(8)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = shares / shares.sum(-1, keepdims=True) @ np.repeat(values[2], 4, 1).astype(np.float64)
    assert np.abs(np.asarray(model(*values)) - wanted).max() < 0.01
    with pytest.raises(GraphError, match="heads of k do not divide"):
        af.sdpa(heads(8, 16), heads(3, 16), heads(3, 16))


def test_masks_of_booleans_hide() -> None:
    q = heads(1, 4)
    seen = np.tri(4, dtype=np.bool_)
    known = af.Tensor(build("sdpa", {"query": q, "key": q, "value": q, "attn_mask": Dense(seen)}))
    causal = af.sdpa(q, q, q, is_causal=True)
    x = RANDOM.standard_normal((1, 1, 4, 8))
    results = [np.asarray(af.compile(y, target="m1")(x)) for y in (known, causal)]
    assert np.array_equal(results[0], results[1])

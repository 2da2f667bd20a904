"""An ONNX model read and compiled in one call: its options, and attention that is fused or left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import AneforgeError, StrictCompileError, UnknownNameError
from aneforge.graph.node import build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.runtime.load import with_attention

if TYPE_CHECKING:
    from pathlib import Path

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
TARGET = af.targets.Family.A15
HALF = 10
"""ONNX's number of half precision."""


def model(nodes: list[Any], inputs: dict[str, list[int]], output: list[int]) -> Any:  # noqa: ANN401 - onnx has few types
    """Return a model of half precision with one output, y."""
    helper = onnx.helper
    ports = [helper.make_tensor_value_info(name, HALF, shape) for name, shape in inputs.items()]
    result = helper.make_tensor_value_info("y", HALF, output)
    return helper.make_model(helper.make_graph(nodes, "g", ports, [result]))


def attention_model() -> Any:  # noqa: ANN401 - as above
    """Return softmax(q · kᵀ) · v, as exporters spell it."""
    node = onnx.helper.make_node
    shape = [1, 2, 4, 8]
    nodes = [
        node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "turned"], ["scores"]),
        node("Softmax", ["scores"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["y"]),
    ]
    return model(nodes, dict.fromkeys("qkv", shape), shape)


def resize_model() -> Any:  # noqa: ANN401 - as above
    """Return a doubling of height and width, half a pixel between elements."""
    scales = onnx.helper.make_tensor("scales", 1, [4], [1.0, 1.0, 2.0, 2.0])
    made = model(
        [onnx.helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")], {"x": [1, 1, 2, 2]}, [1, 1, 4, 4]
    )
    made.graph.initializer.append(scales)
    return made


def relu() -> Any:  # noqa: ANN401 - as above
    return model([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4]}, [1, 4])


def softmaxes(net: object) -> int:
    """Return how many layers of a compiled model are a softmax of their own."""
    return sum(layer.kind.name == "softmax" for layer in cast("Any", net).layers)


def test_a_model_is_taken_as_a_message_a_path_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(relu(), path)
    for source in (relu(), path, str(path), path.read_bytes()):
        net = cast("Any", af.load_onnx(source, target=TARGET))
        assert net(np.array([[-1.0, 0, 1, 2]], np.float16)).tolist() == [[0, 0, 1, 2]]


def test_attention_is_fused_where_it_is_asked_for() -> None:
    apart = af.load_onnx(attention_model(), target=TARGET)
    fused = af.load_onnx(attention_model(), fuse_attention=True, target=TARGET)
    by_place = af.load_onnx(attention_model(), True, target=TARGET)  # noqa: FBT003 - the documented order
    assert [softmaxes(net) for net in (apart, fused, by_place)] == [1, 0, 0]
    generator = np.random.default_rng(0)
    values = [generator.uniform(-1, 1, (1, 2, 4, 8)).astype(np.float16) for _ in "qkv"]
    one, two = (np.asarray(cast("Any", net)(*values)) for net in (apart, fused))
    np.testing.assert_allclose(one, two, atol=4e-3)


def test_resizing_is_exact_with_the_flag_and_without() -> None:
    image = np.array([[[[0.0, 1], [2, 3]]]], np.float16)
    for flag in (False, True):
        net = cast("Any", af.load_onnx(resize_model(), approx_resize=flag, target=TARGET))
        assert net(image)[0, 0, 0].tolist() == [0, 0.25, 0.75, 1]


def test_options_are_those_of_compile(tmp_path: Path) -> None:
    stored = np.linspace(-1, 1, 1024).astype(np.float16).tobytes()
    weight = onnx.helper.make_tensor("w", HALF, [32, 32], stored, raw=True)
    made = model([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 32]}, [1, 32])
    made.graph.initializer.append(weight)
    plain = af.load_onnx(made, target=TARGET)
    with pytest.warns(af.SaturationWarning, match="linear at node 'MatMul_0' .* with int8 weights"):
        small = af.load_onnx(made, target=TARGET, compress="int8")
    assert not cast("Any", plain).weights
    assert [report.encoding for report in cast("Any", small).weights] == ["int8"]
    af.load_onnx(relu(), target=TARGET, build_dir=tmp_path / "build", opt=0)
    assert any((tmp_path / "build").iterdir())
    with pytest.raises(StrictCompileError, match="a strict compile lets none of this pass"):
        af.load_onnx(relu(), target=TARGET, strict=True)


def test_an_unknown_option_is_named_before_the_model_is_read() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown option of load_onnx 'fuse_atention'.*fuse_attention"):
        af.load_onnx("there is no such file.onnx", fuse_atention=True)
    with pytest.raises(UnknownNameError, match="unknown option of load_onnx 'shape'"):
        af.load_onnx(relu(), shape=(1, 4))
    with pytest.raises(UnknownNameError, match="unknown option of load_onnx 'out'"):
        af.load_onnx(relu(), out=3)


def test_bad_values_and_bad_models_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown way of compressing 'zip'"):
        af.load_onnx(relu(), target=TARGET, compress="zip")
    with pytest.raises(AneforgeError, match=r"none\.onnx"):
        af.load_onnx(tmp_path / "none.onnx", target=TARGET)


def product(x: Tensor, y: Tensor, **flags: bool) -> Tensor:
    return Tensor(build("matmul", {"x": x, "y": y}, dict(flags)))


def test_parts_that_are_read_elsewhere_are_not_fused() -> None:
    q, k, v = (af.input((1, 2, 4, 8), name=name) for name in "qkv")
    scores = product(q, k, transpose_y=True)
    weights = scores.softmax()
    for outputs in ({"y": product(weights, v), "w": weights}, {"y": product(weights, v), "s": scores}):
        assert with_attention(af.Graph(outputs)) == af.Graph(outputs)
    twice = product(weights, v) + product(weights, v * 2.0)
    assert with_attention(af.Graph({"y": twice})) == af.Graph({"y": twice})


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_a_softmax_along_another_axis_is_no_attention(axis: int) -> None:
    q, k, v = (af.input((4, 4, 4), name=name) for name in "qkv")
    weights = Tensor(build("softmax", {"x": product(q, k, transpose_y=True)}, {"axis": axis}))
    graph = af.Graph({"y": product(weights, v)})
    assert with_attention(graph) == graph


def test_products_that_are_turned_otherwise_are_no_attention() -> None:
    q, k, v = (af.input((1, 4, 4), name=name) for name in "qkv")
    kept = [
        product(product(q, k, transpose_x=True).softmax(), v),
        product(product(q, k).softmax(), v),
        product(product(q, k, transpose_y=True).softmax(), v, transpose_y=True),
        product(product(q, k, transpose_y=True).softmax(), v, transpose_x=True),
    ]
    for y in kept:
        assert with_attention(af.Graph({"y": y})) == af.Graph({"y": y})


def test_what_is_fused_means_the_same() -> None:
    q, k, v = (af.input((2, 3, 8), name=name) for name in "qkv")
    turned = Tensor(build("transpose", {"x": k}, {"perm": (0, 2, 1)}))
    for products in (product(q, k, transpose_y=True), product(q, turned)):
        for scores in (products, products * 0.25):
            graph = af.Graph({"y": product(scores.softmax(), v)})
            fused = with_attention(graph)
            assert [node.op.name for node in fused.nodes if node.op.name not in ("input", "transpose")] == ["sdpa"]
            generator = np.random.default_rng(1)
            values = {name: generator.uniform(-2, 2, (2, 3, 8)) for name in "qkv"}
            np.testing.assert_allclose(evaluate(fused, values)[0]["y"], evaluate(graph, values)[0]["y"], rtol=1e-12)


def test_a_model_of_fp32_with_an_open_dimension_compiles_and_warns_at_the_users_line() -> None:
    helper = onnx.helper
    ports = [helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in "xy"]
    made = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:]))
    with pytest.warns(af.DispatchFloorWarning) as caught:
        net = cast("af.Model", af.load_onnx(made, shapes={"batch": 2}, target=TARGET))
    assert {one.filename for one in caught} == {__file__}
    assert net(np.array([[-1.0, 0, 1, 2], [3, -4, 5, -6]])).tolist() == [[0, 0, 1, 2], [3, 0, 5, 0]]
    assert "taken as fp16" in net.remarks[0]

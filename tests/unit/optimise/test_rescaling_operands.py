"""Rescaling: encoded weights, computed kernels, the values of attention, and products that can only be listed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.graph.node import Node, Output, build
from aneforge.graph.tensor import Tensor
from aneforge.ops.composed import Composed, Recipe
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.optimise.rescaling.engine_errors import evaluate_exactly
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.scale_tensors import TensorProducts, find_tensor_products, find_unscalable
from aneforge.optimise.rescaling.scaled_constants import scale_constant

Array = npt.NDArray[Any]


def drawn(*shape: int, seed: int = 7, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def same_meaning(graph: af.Graph, other: af.Graph, inputs: dict[str, Array]) -> bool:
    before, after = evaluate_exactly(graph, inputs), evaluate_exactly(other, inputs)
    return all(np.allclose(before[name], after[name], rtol=1e-13, atol=0) for name in before)


def encoded_weights(encoding: str) -> Constant:
    whole = np.random.default_rng(1).integers(-127, 128, (32, 512)).astype(np.int8)
    scales = (np.random.default_rng(2).uniform(1.0, 2.0, 32) * 2.0**-11).astype(np.float16)
    match encoding:
        case "int8":
            return Int8Affine(whole, scales)
        case "int8, one scale":
            return Int8Affine(whole, scales[:1])
        case "blockwise":
            return Blockwise(whole, np.repeat(scales.reshape(-1, 1), 4, 1))
        case "blockwise, two rows of blocks":
            return Blockwise(whole, scales[:2].reshape(2, 1))
        case "palette":
            return Palette(whole.astype(np.uint8) & 15, drawn(16, scale=0.05), bits=4)
        case _:
            return Sparse(whole > 64, drawn(int((whole > 64).sum()), scale=0.05))


@pytest.mark.parametrize(
    "encoding",
    ["int8", "int8, one scale", "blockwise", "blockwise, two rows of blocks", "palette", "sparse"],
)
def test_encoded_weights_are_rescaled_in_their_encoding(encoding: str) -> None:
    weights = encoded_weights(encoding)
    x = af.input((8, 512), name="x")
    graph = af.Graph({"y": x.apply("linear", {"x": x, "weight": weights, "bias": Dense(drawn(32, scale=0.01))})})
    inputs = {"x": drawn(8, 512, seed=8, scale=0.01)}
    found = af.rescale(graph, inputs=inputs, target="h16")
    (report,) = found.applied
    assert (found.outputs[0].before > 0.004, found.outputs[0].after < 0.0005) == (True, True)
    (made,) = (node.operands["weight"] for node in found.graph.nodes if node.op.name == "linear")
    assert isinstance(made, Constant)
    assert (made.encoding, made.nbytes) == (weights.encoding, weights.nbytes)
    factors = 2.0 ** np.array(report.exponents, np.float64).reshape(-1, 1)
    assert np.array_equal(made.dense().astype(np.float64), weights.dense().astype(np.float64) * factors)
    assert same_meaning(graph, found.graph, inputs)


def test_encodings_take_a_factor_for_every_channel() -> None:
    whole = np.random.default_rng(1).integers(-127, 128, (8, 64)).astype(np.int8)
    blocks = np.repeat(np.linspace(0.01, 0.02, 8).reshape(-1, 1), 4, 1).astype(np.float16)
    factors = 2.0 ** np.arange(8)
    for weights in (
        Int8Affine(whole, blocks[:, 0]),
        Int8Affine(whole, blocks[:1, 0]),
        Blockwise(whole, blocks),
        Sparse(whole > 0, drawn(int((whole > 0).sum()))),
    ):
        made = scale_constant(weights, factors)
        assert made is not None
        assert made.encoding == weights.encoding
        assert np.array_equal(made.dense().astype(np.float64), weights.dense() * factors.reshape(-1, 1))


def test_what_encodings_cannot_hold_is_not_scaled() -> None:
    whole = np.array([[127, 1]], np.int8)
    large = Int8Affine(whole, np.array([16.0], np.float16))
    assert scale_constant(large, np.array([64.0])) is None  # 127 · 1,024 is not a number of fp16
    rounded = Int8Affine(whole, np.array([2.0**-24 * 3], np.float16))
    halved = Int8Affine(whole, np.array([2.0**-24], np.float16))
    assert scale_constant(rounded, np.array([2.0])) is not None
    assert scale_constant(halved, np.array([0.5])) is None
    table = Palette(np.array([[0, 1]], np.uint8), np.array([1.0, 60000.0], np.float16), bits=1)
    assert scale_constant(table, np.array([2.0])) is None
    indices, tables = Dense(np.array([[0, 1]], np.uint8)), Dense(np.ones((1, 1, 2, 1), np.float16))
    composed = Composed(Recipe("constexpr_lut_to_dense", {"indices": indices, "lut": tables}, bits=1))
    assert scale_constant(composed, np.array([2.0])) is None


@pytest.mark.parametrize("given", ["ranges", "inputs"])
def test_a_kernel_that_is_computed_is_rescaled(given: str) -> None:
    graph = af.Graph({"y": af.dynamic_conv(af.input((1, 4, 9, 9), name="a"), af.input((4, 4, 3, 3), name="w"))})
    inputs = {"a": drawn(1, 4, 9, 9, scale=0.005), "w": drawn(4, 4, 3, 3, seed=8, scale=0.005)}
    asked = (
        {"inputs": inputs, "ranges": None} if given == "inputs" else {"inputs": None, "ranges": {"a": 0.01, "w": 0.01}}
    )
    found = cast("Any", af.rescale)(graph, target="h16s", **asked)
    assert [(one.op, one.operand) for one in found.applied] == [("dynamic_conv", "weight")]
    assert (found.outputs[0].before > 0.3, found.outputs[0].after < 0.003) == (True, True)
    assert same_meaning(graph, found.graph, inputs)


LENGTH, WIDTH = 128, 16


def projected(x: af.Tensor, seed: int) -> af.Tensor:
    return x.linear(drawn(WIDTH, WIDTH, seed=seed, scale=0.25))


def attended(values: str = "made", mask: str = "none") -> af.Graph:
    """Return attention that is one operation, of queries, keys and values that are projections of one input."""
    x = af.input((1, 2, LENGTH, WIDTH), name="x")
    query, key = projected(x, 1), projected(x, 2)
    value = {"made": projected(x, 3), "keys": key, "queries": query, "given": x}[values]
    hidden = np.where(np.tri(LENGTH, dtype=np.bool_), 0.0, -np.inf).reshape(1, 1, LENGTH, LENGTH).astype(np.float16)
    masks = {"added": hidden, "input": af.input(hidden.shape, name="mask")}
    y = af.sdpa(query, key, value, is_causal=mask == "causal", attn_mask=masks.get(mask))
    return af.Graph({"y": projected(y, 4)})


def small_inputs(graph: af.Graph) -> dict[str, Array]:
    given = {"x": drawn(1, 2, LENGTH, WIDTH, seed=9, scale=0.02)}
    mask = np.where(np.tri(LENGTH, dtype=np.bool_), 0.0, -10000.0).reshape(1, 1, LENGTH, LENGTH).astype(np.float16)
    return given | ({"mask": mask} if "mask" in graph.inputs else {})


def attention_of(graph: af.Graph) -> Node:
    (found,) = (node for node in graph.nodes if node.op.name == "sdpa")
    return found


def operands_read(graph: af.Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Return what attention reads, in float64."""
    operands = dict(attention_of(graph).operands)
    probes = af.Graph({name: Tensor(one.node, one.index) for name, one in operands.items() if isinstance(one, Output)})
    constants = {name: one.dense() for name, one in operands.items() if isinstance(one, Constant)}
    return constants | evaluate_exactly(probes, {name: inputs[name] for name in probes.inputs})


@pytest.mark.parametrize(
    ("mask", "target"), [("none", "h13"), ("none", "h17"), ("causal", "h13"), ("added", "h17"), ("input", "h13")]
)
def test_the_values_of_attention_are_rescaled_where_they_are_made(mask: str, target: str) -> None:
    graph = attended(mask=mask)
    inputs = small_inputs(graph)
    found = af.rescale(graph, inputs=inputs, target=target)
    (report,) = (one for one in found.products if one.op == "sdpa")
    assert (report.applied, report.operand, report.exponents[0] >= 8, report.margin > 0) == (True, "value", True, True)
    assert (found.outputs[0].before > 0.005, found.outputs[0].after < 0.0015) == (True, True)
    assert found.layers_after == found.layers_before
    assert attention_of(found.graph).attributes == attention_of(graph).attributes
    before, after = operands_read(graph, inputs), operands_read(found.graph, inputs)
    for name, values in before.items():
        factor = 2.0 ** report.exponents[0] if name == "value" else 1.0
        assert np.array_equal(after[name], values * factor)
    assert same_meaning(graph, found.graph, inputs)


@pytest.mark.parametrize("values", ["keys", "queries", "given"])
def test_values_that_others_read_are_multiplied_by_a_layer_of_their_own(values: str) -> None:
    graph = attended(values)
    inputs = small_inputs(graph)
    found = af.rescale(graph, inputs=inputs, target="h15")
    (report,) = (one for one in found.applied if one.op == "sdpa")
    assert (found.outputs[0].before > 0.02, found.outputs[0].after < 0.0015) == (True, True)
    query, key, value = (one.node for one in attention_of(found.graph).sources())
    shared = {"keys": key, "queries": query, "given": found.graph.inputs["x"]}[values]
    assert (value.op.name, value.attributes["k"]) == ("muls", 2.0 ** report.exponents[0])
    assert [one.node for one in value.sources()] == [shared]
    assert same_meaning(graph, found.graph, inputs)


def test_attention_and_products_that_share_values_take_one_factor() -> None:
    x = af.input((1, 2, LENGTH, WIDTH), name="x")
    query, key, value = (projected(x, seed) for seed in (1, 2, 3))
    both = {"y": af.sdpa(query, key, value), "z": query.transpose(0, 1, 3, 2) @ value}
    (group,) = find_tensor_products(af.Graph(both))
    assert ([place for _, place in group.members], group.host) == (["value", "y"], value.node)
    keys = {"y": af.sdpa(query, key, value), "z": query.transpose(0, 1, 3, 2) @ key}
    assert [shape_of(group) for group in find_tensor_products(af.Graph(keys))] == [(["value"], True), (["y"], False)]
    leaving = {"y": af.sdpa(query, key, value), "value": value}
    assert [shape_of(group) for group in find_tensor_products(af.Graph(leaving))] == [(["value"], False)]


def shape_of(group: TensorProducts) -> tuple[list[str], bool]:
    return [place for _, place in group.members], group.host is not None


@pytest.mark.parametrize("target", ["h13", "h17"])
def test_declared_ranges_bound_the_values_of_attention(target: str) -> None:
    graph = attended()
    inputs, bound = small_inputs(graph), 0.1
    found = af.rescale(graph, ranges={"x": bound}, target=target)
    (report,) = (one for one in found.applied if one.op == "sdpa")
    (exponent,) = report.exponents
    assert (found.source, found.outputs[0].before > 0.01, found.outputs[0].after < 0.0015) == ("declared", True, True)
    largest = bound * float(np.abs(drawn(WIDTH, WIDTH, seed=3, scale=0.25).astype(np.float64)).sum(1).max())
    margin = 15 - np.log2(policy().softmax_row.sum * largest * 2.0**exponent)
    assert report.margin == pytest.approx(margin, abs=0.1)
    assert same_meaning(graph, found.graph, inputs)


def test_large_values_of_attention_are_scaled_off_the_edge() -> None:
    x, value = af.input((1, 1, 4, 8), name="x"), af.input((1, 1, 64, 8), name="v")
    key = af.input((1, 1, 64, 8), name="k")
    graph = af.Graph({"y": af.sdpa(x, key, value)})
    inputs = {"x": drawn(1, 1, 4, 8), "k": drawn(1, 1, 64, 8, seed=8), "v": np.full((1, 1, 64, 8), 40000.0, np.float16)}
    found = af.rescale(graph, inputs=inputs, target="h16")
    (report,) = found.products
    assert (report.applied, report.operand, report.exponents[0] < 0) == (True, "value", True)
    assert (found.outputs[0].before > 0.1, found.outputs[0].after < 0.002) == (True, True)
    assert same_meaning(graph, found.graph, inputs)


def test_queries_and_masks_of_zeros_hide_nothing_of_the_values() -> None:
    x, memory = af.input((1, 1, 4, 16), name="x"), af.input((1, 1, 256, 16), name="memory")
    y = af.sdpa(x, memory.linear(drawn(16, 16)), memory, attn_mask=af.input((1, 1, 4, 256), name="mask"))
    small = drawn(1, 1, 256, 16, seed=8, scale=0.02)
    inputs = {"x": np.zeros((1, 1, 4, 16)), "memory": small, "mask": np.zeros((1, 1, 4, 256))}
    found = af.rescale(y, inputs=inputs, target="h16")
    (report,) = (one for one in found.products if one.op == "sdpa")
    assert (report.applied, report.operand, report.error_after < 0.002) == (True, "value", True)
    nothing = af.rescale(y, inputs=inputs | {"memory": np.zeros(small.shape)}, target="h16").products
    assert {one.reason for one in nothing} == {"its operands were zero throughout"}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            "sdpa",
            "its values are constants, and the sums of its scores are inside the operation, where no factor can go",
        ),
        ("einsum", "its sums are inside the operation, where no factor can go"),
        ("twice", "both operands are the same tensor"),
        ("bias", "its sums start at a bias that a factor does not reach"),
        ("vector", "an operand is a vector or empty, which is not multiplied"),
        ("composed", "its weights are encoded as lut_to_dense, which is not multiplied"),
    ],
)
def test_every_product_is_listed(made: str, reason: str) -> None:
    x, y = af.input((1, 2, 8, 8), name="x"), af.input((1, 2, 8, 8), name="y")
    match made:
        case "sdpa":
            values = Dense(drawn(1, 2, 8, 8))
            result = Tensor(build("sdpa", {"query": x, "key": y, "value": values}))
        case "einsum":
            result = Tensor(build("einsum", {"values": (x, y)}, {"equation": "abcd,abde->abce"}))
        case "twice":
            result = x @ x
        case "bias":
            kernel = af.input((2, 2, 3, 3), name="w")
            result = x.apply("dynamic_conv", {"x": x, "weight": kernel, "bias": Dense(np.ones(2, np.float16))})
        case "vector":
            result = x.apply("matmul", {"x": x, "y": Dense(drawn(8))})
        case _:
            indices, tables = Dense(np.eye(8, dtype=np.uint8)), Dense(drawn(8, 1, 2, 1))
            recipe = Recipe("constexpr_lut_to_dense", {"indices": indices, "lut": tables}, bits=1)
            result = x.apply("linear", {"x": x, "weight": Composed(recipe)})
    found = find_unscalable(af.Graph({"z": result}))
    assert [told for _, told in found] == [reason]
    if made in {"sdpa", "twice"}:
        (report,) = af.rescale(result, target="h16").products
        assert (report.applied, report.reason) == (False, reason)

"""Rescaling: weights that are encoded, kernels that are computed, and products that can only be listed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.ops.composed import Composed, Recipe
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.runtime.rescaling.encoded import scaled_constant
from aneforge.runtime.rescaling.measuring import results_of
from aneforge.runtime.rescaling.products import left_alone

Array = npt.NDArray[Any]


def drawn(*shape: int, seed: int = 7, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def same_meaning(graph: af.Graph, other: af.Graph, inputs: dict[str, Array]) -> bool:
    before, after = results_of(graph, inputs), results_of(other, inputs)
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
        made = scaled_constant(weights, factors)
        assert made is not None
        assert made.encoding == weights.encoding
        assert np.array_equal(made.dense().astype(np.float64), weights.dense() * factors.reshape(-1, 1))


def test_what_encodings_cannot_hold_is_not_scaled() -> None:
    whole = np.array([[127, 1]], np.int8)
    large = Int8Affine(whole, np.array([16.0], np.float16))
    assert scaled_constant(large, np.array([64.0])) is None  # 127 · 1,024 is no number of fp16
    rounded = Int8Affine(whole, np.array([2.0**-24 * 3], np.float16))
    halved = Int8Affine(whole, np.array([2.0**-24], np.float16))
    assert scaled_constant(rounded, np.array([2.0])) is not None
    assert scaled_constant(halved, np.array([0.5])) is None
    table = Palette(np.array([[0, 1]], np.uint8), np.array([1.0, 60000.0], np.float16), bits=1)
    assert scaled_constant(table, np.array([2.0])) is None
    indices, tables = Dense(np.array([[0, 1]], np.uint8)), Dense(np.ones((1, 1, 2, 1), np.float16))
    composed = Composed(Recipe("constexpr_lut_to_dense", {"indices": indices, "lut": tables}, bits=1))
    assert scaled_constant(composed, np.array([2.0])) is None


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


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("sdpa", "its sums lie within the operation, where no factor can go"),
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
            result = af.sdpa(x, y, y)
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
    found = left_alone(af.Graph({"z": result}))
    assert [one[2] for one in found] == [reason]
    if made in {"sdpa", "twice"}:
        (report,) = af.rescale(result, target="h16").products
        assert (report.applied, report.reason) == (False, reason)

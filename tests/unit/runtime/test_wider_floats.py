"""Graphs of wider floating-point tensors, as model files hold them: compiled in fp16, and never silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import aneforge as af
from aneforge._compile import cross_compile_check
from aneforge.errors import GraphError, StrictCompileError
from aneforge.graph.node import build
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse
from aneforge.rules.preflight import preflight as judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.types import Array

WEIGHT = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
SAMPLE = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
TAKEN = "the model's floating-point tensors were taken as fp16, the engine's own precision"


def layer(dtype: str, weight: Array = WEIGHT) -> af.Tensor:
    """Return one linear layer of a dtype."""
    x = af.Tensor(build("input", {}, {"name": "x", "shape": (2, 16), "dtype": dtype}))
    numpy_type = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}[dtype]
    product = af.Tensor(build("linear", {"x": x, "weight": Dense(weight.astype(numpy_type))}, {}))
    return product.relu()


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_it_compiles_to_the_program_of_fp16(dtype: str) -> None:
    wide, half = (af.compile(layer(one), target="m1") for one in (dtype, "fp16"))
    assert np.array_equal(wide(SAMPLE), half(SAMPLE))
    assert wide.facts.remarks[0] == TAKEN
    assert TAKEN not in half.facts.remarks


def test_a_constant_that_becomes_infinite_is_warned_of_and_fatal_where_that_was_asked_for() -> None:
    large = layer("fp32", np.where(WEIGHT > 0, WEIGHT, np.float32(1e6)))
    with pytest.warns(af.PrecisionWarning, match=r"a constant of linear at .* holds 1e\+06, which is infinite in fp16"):
        af.compile(large, target="m1")
    with pytest.raises(GraphError, match="infinite in fp16"):
        af.compile(large, target="m1", validate=True)
    with pytest.warns(af.PrecisionWarning), pytest.raises(StrictCompileError, match="infinite in fp16"):
        af.compile(large, target="m1", strict=True)


def predictions(graph: af.Tensor) -> Iterator[object]:
    """Return what every function that compiles a graph to predict something says of it."""
    yield af.cost(graph, "m1").microseconds
    yield af.estimate(graph, target="m1")
    yield af.divergence(graph, "m1", "m5").verdict
    yield af.ranges(graph, {"x": 1.0}, target="m1").margin("fp16 overflow")
    yield [entry.layers for entry in af.compile_matrix(graph).entries]
    yield [one.device for one in af.placement(graph, "m1").operations]
    yield cross_compile_check(graph, "m5", host="m5")
    yield af.rescale(graph, inputs={"x": SAMPLE.astype(np.float16)}, target="m1").outputs


def test_what_predicts_takes_it_as_fp16_too() -> None:
    assert list(predictions(layer("fp32"))) == list(predictions(layer("fp16")))


def test_what_tries_forms_takes_it_as_fp16_too() -> None:
    for made in (af.tune(layer("fp32"), target="m1"), af.tune_precision(layer("fp32"), 0.01, target="m1")[0]):
        assert made.facts.remarks.count(TAKEN) == 1
        assert np.array_equal(cast("af.Model", made)(SAMPLE), af.compile(layer("fp16"), target="m1")(SAMPLE))


def test_preflight_judges_the_graph_that_compile_compiles() -> None:
    """The rules refuse the wider type; preflight, like every other door, takes it as fp16."""
    found = judge(layer("fp32"), "m1")
    assert {finding.rule for finding in found.findings} == {"ANE-DTYPE-001", "ANE-DTYPE-002", "ANE-DTYPE-003"}
    assert af.preflight(layer("fp32"), "m1").ok


def test_places_of_64_bits_leave_as_places() -> None:
    """Segmentation networks end so: exporters spell the place of the largest score in 64 bits."""
    scores = af.input((1, 5, 4, 4), name="x")
    place = af.Tensor(build("reduce_argmax", {"x": scores}, {"axis": 1}))
    for out in (place.cast("int64"), place.cast("int64").cast("fp32")):
        half = af.to_fp16(out)
        assert "the model's integers of 64 bits were taken as 32 bits wide" in half.notes
        sample = np.random.default_rng(2).standard_normal((1, 5, 4, 4)).astype(np.float16)
        assert np.array_equal(af.compile(out, target="m4")(sample), sample.argmax(1))


def test_whole_numbers_that_need_64_bits_keep_them() -> None:
    large = Dense(np.array([1, 2**40]))
    kept = af.Graph({"y": af.Tensor(build("add", {"x": af.input((2,)).cast("int64"), "y": large}, {}))})
    assert af.to_fp16(kept).graph is kept


def test_a_cast_that_tells_an_output_from_an_input_stays() -> None:
    made = af.to_fp16(af.cast(af.input((2,), name="x"), "fp32").cast("fp64").cast("fp32")).graph
    assert [node.op.name for node in made.nodes] == ["input", "cast"]


def test_whole_numbers_of_64_bits_that_something_computes_are_said_to_be_shorter() -> None:
    product = build("mul", {"x": af.input((1,), name="x").cast("int64"), "y": Dense(np.array(100_000))}, {})
    made = af.to_fp16(af.Graph({"y": af.Tensor(product)}))
    assert [node.types[0].dtype for node in made.graph.nodes] == ["fp16", "int32", "int32"]
    assert made.notes == ("the model's integers of 64 bits were taken as 32 bits wide",)


def test_a_port_may_be_called_like_an_element_type() -> None:
    x = af.Tensor(build("input", {}, {"name": "fp32", "shape": (2, 2), "dtype": "fp32"}))
    assert list(af.to_fp16(af.Graph({"fp32": af.Tensor(build("relu", {"x": x}, {}))})).graph.inputs) == ["fp32"]


ENCODED = {
    "int8": Int8Affine(np.arange(128, dtype=np.int8).reshape(8, 16), np.full(8, 0.01, np.float32)),
    "blockwise": Blockwise(np.ones((8, 16), np.int8), np.full((8, 2), 0.01, np.float32)),
    "palette": Palette(np.zeros((8, 16), np.uint8), np.linspace(-1, 1, 4).astype(np.float32), 2),
    "sparse": Sparse(np.eye(8, 16, dtype=bool), np.full(8, 0.5, np.float32)),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encoded_weights_keep_their_encoding(name: str) -> None:
    x = af.Tensor(build("input", {}, {"name": "x", "shape": (2, 16), "dtype": "fp32"}))
    half = af.to_fp16(af.Tensor(build("linear", {"x": x, "weight": ENCODED[name]}, {})))
    (weight,) = half.graph.constants.values()
    assert (weight.encoding, weight.type.dtype) == (ENCODED[name].encoding, "fp16")
    assert np.allclose(weight.dense(), ENCODED[name].dense(), rtol=1e-3)
    assert half.notes == (TAKEN,)


def test_an_encoding_whose_scale_is_infinite_in_fp16_is_said_to_be_lost() -> None:
    x = af.Tensor(build("input", {}, {"name": "x", "shape": (2, 16), "dtype": "fp32"}))
    weight = Int8Affine(np.ones((8, 16), np.int8), np.full(8, 1e6, np.float32))
    half = af.to_fp16(af.Tensor(build("linear", {"x": x, "weight": weight}, {})))
    assert any(note.startswith("1 encoded weights became dense") for note in half.notes)
    assert len(half.faults) == 1

"""Ordinary nodes are spelled so that engines have them: what is imported means the same, and compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx
from unit.formats.onnx.onnx_models import made, node, numbers, one_node

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx

    from aneforge.ops.types import Array

IMAGE = numbers(1, 4, 9, 10)
HEADS = numbers(1, 2, 6, 8)
ROUNDED_UP = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
PADDED = {**ROUNDED_UP, "pads": [1, 1, 1, 1]}
TABLE = np.array([[0, 2, 4], [1, 3, 5]], np.int64)
COORDINATES = np.array([[[0, 1], [0, 3]]], np.int64)


def windows_of_an_image() -> onnx.ModelProto:
    """Return columns of windows as exporters write them: two gathers, six axes in between."""
    nodes = [
        node("Gather", ["x", "table"], ["rows"], {"axis": 2}),
        node("Gather", ["rows", "table"], ["both"], {"axis": 4}),
        node("Transpose", ["both"], ["turned"], {"perm": [0, 1, 2, 4, 3, 5]}),
        node("Reshape", ["turned", "shape"], ["y"]),
    ]
    return made(nodes, {"x": ("fp32", IMAGE.shape)}, weights={"table": TABLE, "shape": np.array([1, 16, 9], np.int64)})


def recurrent(kind: str, gates: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a layer of five steps both ways, of which the outputs are taken, and what it is fed."""
    x = numbers(5, 2, 3)
    weights = {"b": numbers(2, gates * 4, 3, seed=1), "c": numbers(2, gates * 4, 4, seed=2)}
    return one_node(kind, {"a": x}, weights, {"hidden_size": 4, "direction": "bidirectional"}), {"a": x}


MODELS: dict[str, tuple[onnx.ModelProto, dict[str, Array]]] = {
    "mask of booleans": (
        one_node("Attention", {"a": HEADS, "b": HEADS, "c": HEADS}, {"d": np.tri(6, dtype=np.bool_)}),
        {"a": HEADS, "b": HEADS, "c": HEADS},
    ),
    "largest, rounded up": (one_node("MaxPool", {"a": IMAGE}, None, PADDED), {"a": IMAGE}),
    "largest with gaps": (
        one_node("MaxPool", {"a": IMAGE}, None, {"kernel_shape": [3, 3], "dilations": [2, 2]}),
        {"a": IMAGE},
    ),
    "average, rounded up": (one_node("AveragePool", {"a": IMAGE}, None, ROUNDED_UP), {"a": IMAGE}),
    "average with padding, rounded up": (
        one_node("AveragePool", {"a": IMAGE}, None, {**PADDED, "count_include_pad": 1}),
        {"a": IMAGE},
    ),
    "average without padding, rounded up": (one_node("AveragePool", {"a": IMAGE}, None, PADDED), {"a": IMAGE}),
    "windows": (windows_of_an_image(), {"x": IMAGE}),
    "written slices": (
        one_node("ScatterND", {"a": IMAGE, "c": numbers(1, 2, 9, 10, seed=1)}, {"b": COORDINATES}),
        {"a": IMAGE, "c": numbers(1, 2, 9, 10, seed=1)},
    ),
    "added elements": (
        one_node(
            "ScatterElements",
            {"a": IMAGE[0, 0], "c": numbers(2, 3, seed=1)},
            {"b": np.array([[0, 2, -1], [1, 1, 5]], np.int64)},
            {"axis": 1, "reduction": "add"},
        ),
        {"a": IMAGE[0, 0], "c": numbers(2, 3, seed=1)},
    ),
    "largest elements": (
        one_node(
            "ScatterElements",
            {"a": IMAGE[0, 0], "c": numbers(2, 3, seed=1)},
            {"b": np.array([[0, 2, -1], [1, 1, 5]], np.int64)},
            {"axis": 1, "reduction": "max"},
        ),
        {"a": IMAGE[0, 0], "c": numbers(2, 3, seed=1)},
    ),
    "remainder": (one_node("Mod", {"a": IMAGE}, {"b": np.array(0.75, np.float32)}, {"fmod": 1}), {"a": IMAGE}),
    "sequences turned round": (
        one_node("ReverseSequence", {"a": IMAGE[0, 0]}, {"b": np.array([9, 0, 4, 1, 2, 3, 5, 6, 7, 8], np.int64)}),
        {"a": IMAGE[0, 0]},
    ),
    "triangle": (one_node("Trilu", {"a": IMAGE}, {"b": np.array(1, np.int64)}), {"a": IMAGE}),
    "lstm": recurrent("LSTM", 4),
    "gru": recurrent("GRU", 3),
    "rnn": recurrent("RNN", 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_ordinary_node_means_the_same_and_compiles_for_all_families(name: str) -> None:
    model, feeds = MODELS[name]
    graph = from_onnx(model)
    (found,) = af.reference(graph, feeds).values()
    run = cast("Callable[[None, dict[str, Array]], list[Array]]", ReferenceEvaluator(model).run)  # pyright: ignore[reportUnknownMemberType] - onnx types it in part
    np.testing.assert_allclose(found, run(None, feeds)[0], rtol=1e-5, atol=1e-6)
    assert [entry.reasons for entry in af.compile_matrix(graph).entries] == [()] * 4

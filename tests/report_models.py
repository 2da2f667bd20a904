"""Small ONNX models for tests of reports and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

    from onnx import ModelProto

__all__ = ["masked_model", "saved"]


def masked_model(length: int = 64, batch: int | str = 1) -> ModelProto:
    """Return a convolution, a mask of −1e9 and a softmax, in fp32."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, 1, length])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = np.random.default_rng(0).standard_normal((16, 8, 1, 3)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([-1e9], np.float32), "m")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv1"),
        helper.make_node("Add", ["a", "m"], ["b"], name="mask"),
        helper.make_node("Softmax", ["b"], ["y"], name="softmax", axis=3),
    ]
    graph = helper.make_graph(nodes, "masked", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def saved(path: Path, length: int = 64, batch: int | str = 1) -> Path:
    """Write the model and return its path."""
    path.write_bytes(masked_model(length, batch).SerializeToString())
    return path

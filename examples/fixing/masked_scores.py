"""Write a small ONNX model that masks scores before a softmax: `python masked_scores.py FILE.onnx [MASK]`.

With the mask that many exporters write, -1e9, it has a finding on every chip: in fp16 that is minus infinity. The page
docs/tour.md repairs it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LENGTH, FEATURES = 64, 32


def model_bytes(mask: float) -> bytes:
    """Return the model: scores of every place, later places masked, and their softmax."""
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((FEATURES, LENGTH)).astype(np.float32) / np.float32(np.sqrt(FEATURES))
    masked = np.triu(np.full((LENGTH, LENGTH), mask, np.float32), 1)
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["scores"], name="scores"),
        helper.make_node("Add", ["scores", "mask"], ["masked"], name="mask"),
        helper.make_node("Softmax", ["masked"], ["y"], name="softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "masked_scores",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, LENGTH, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, LENGTH, LENGTH])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(masked, "mask")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(model_bytes(float(sys.argv[2]) if len(sys.argv) > 2 else -1e9))
    print(f"wrote {path}")

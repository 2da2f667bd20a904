"""What onnxruntime gives for a model, without its optimisations."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# onnxruntime has no types.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import onnx
import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

__all__ = ["of_runtime"]

NEWEST_FORMAT = 10
"""The newest version of the file format that every onnxruntime that is taken reads."""


def of_runtime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of a model in order."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    typed.ir_version = min(typed.ir_version, NEWEST_FORMAT)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # networks of a few nodes: more would only wait
    session = onnxruntime.InferenceSession(typed.SerializeToString(), options)
    return cast("list[Array]", session.run(None, dict(feeds)))

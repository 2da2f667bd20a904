"""`from_onnx`, `onnx_to_tensor` and `onnx_to_features`: an ONNX model as a graph, or as tensors to go on from.

Nothing of onnx is imported before one of them is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, UnknownNameError
from aneforge.graph.graph import Graph
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant
from aneforge.packages import expect_package

if TYPE_CHECKING:
    from aneforge.formats.onnx.binding import Shapes, Values
    from aneforge.formats.onnx.reading import ModelSource
    from aneforge.graph.node import Node, Output

__all__ = ["from_onnx", "onnx_to_features", "onnx_to_tensor"]

WEIGHTED = {"conv": ("x", "weight"), "linear": ("x", "weight"), "matmul": ("x", "y")}
"""Operations that multiply by weights: the operand that is data, and the one that is the weights."""


def from_onnx(model: ModelSource, shapes: Shapes | None = None, *, values: Values | None = None) -> Graph:
    """Return the graph of an ONNX model: a path, the bytes of a file, or a `ModelProto`.

    Shapes are static. `shapes` binds symbolic dimensions by name, or sets whole shapes of inputs by name; `values`
    fixes inputs whose values decide shapes, for example the target of a reshape, and removes them from the graph.

    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    >>> made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g", [x], [y])
    >>> graph = from_onnx(helper.make_model(made), shapes={"batch": 2})
    >>> print(graph.outputs["y"].type, graph.outputs["y"].node.location)
    fp32[2, 4] node 'r'

    Raises:
        GraphError: The model cannot be read, breaks ONNX's own rules (`InvalidModelError` lists all such nodes), or has
            dimensions without a length.
        NotSupportedError: Nodes are not supported here: `UnsupportedModelError` lists all of them, with reason and
            workaround.
        GraphTypeError: An argument has the wrong type.
        UnknownNameError: `shapes` or `values` names something that the model does not have.
        MissingPackageError: onnx is not installed.
    """
    expect_package("onnx")
    from aneforge.formats.onnx.conversion import graph_of  # noqa: PLC0415 - it imports onnx

    return graph_of(model, shapes, values)


def onnx_to_tensor(
    model: ModelSource, shapes: Shapes | None = None, *, values: Values | None = None, output: str | None = None
) -> tuple[list[Tensor], Tensor]:
    """Return the inputs of an ONNX model and its output as tensors, to which operations can be added.

    A model with several outputs needs `output` to say which.

    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    >>> made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    >>> inputs, result = onnx_to_tensor(helper.make_model(made))
    >>> len(inputs), result.op
    (1, 'relu')

    Raises:
        GraphError: As for `from_onnx`; or the model has several outputs and `output` is missing.
        UnknownNameError: It has no such output.
    """
    graph = from_onnx(model, shapes, values=values)
    chosen = choose_output(graph, output)
    alone = Graph({"y": chosen})
    return [Tensor(node) for node in alone.inputs.values()], as_tensor(chosen)


def onnx_to_features(
    model: ModelSource, shapes: Shapes | None = None, *, values: Values | None = None, output: str | None = None
) -> tuple[list[Tensor], Tensor]:
    """Return the inputs of an ONNX model and the input of its last layer with weights: the features that it classifies.

    >>> import numpy as np
    >>> from onnx import TensorProto, helper, numpy_helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    >>> nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    >>> made = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.ones((4, 2), np.float32), "w")])
    >>> inputs, features = onnx_to_features(helper.make_model(made))
    >>> features.op, features.shape
    ('relu', (1, 4))

    Raises:
        GraphError: As for `onnx_to_tensor`; or no layer has weights.
    """
    inputs, result = onnx_to_tensor(model, shapes, values=values, output=output)
    for node in reversed(Graph({"y": result}).nodes):
        features = find_weighted_input(node)
        if features is not None:
            return inputs, features
    raise GraphError("no layer of the model has constant weights, so there are no features before the last one")


def choose_output(graph: Graph, name: str | None) -> Output:
    """Return the output that a user means.

    Raises:
        GraphError: There are several, and none is named.
        UnknownNameError: There is none of that name.
    """
    if name is None and len(graph.outputs) == 1:
        return next(iter(graph.outputs.values()))
    if name is None:
        raise GraphError(
            "the model has several outputs",
            seen=", ".join(graph.outputs),
            remedy="name one with output=..., or use from_onnx",
        )
    if name not in graph.outputs:
        raise UnknownNameError.of("output", name, graph.outputs)
    return graph.outputs[name]


def find_weighted_input(node: Node) -> Tensor | None:
    """Return the data that a layer with constant weights reads; nothing for any other node."""
    if node.op.name not in WEIGHTED:
        return None
    data, weights = WEIGHTED[node.op.name]
    constant = isinstance(node.operands[weights], Constant)
    computed = node.operands[data]
    return as_tensor(cast("Output", computed)) if constant and not isinstance(computed, Constant) else None


def as_tensor(output: Output) -> Tensor:
    """Return a result of a node as a tensor."""
    return output if isinstance(output, Tensor) else Tensor(output.node, output.index)

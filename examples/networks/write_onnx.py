"""Writes the example ResNet-18 and transformer encoder as ONNX files (float32, seeded weights, opset 20).

    python examples/networks/write_onnx.py FOLDER

Nothing is downloaded: the files are for tests and benchmarks that need a real model file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aneforge.graph.node import Node, Output
from aneforge.ops.constant import Constant
from resnet18 import resnet18
from transformer import encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    import aneforge as af

OPSET = 20


class Writer:
    """Turns a graph of the operations that the example networks use into an ONNX model."""

    def __init__(self, graph: af.Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names: dict[Node, str] = {node: name for name, node in graph.inputs.items()}
        self.symbols = {constant: symbol for symbol, constant in graph.constants.items()}

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        for constant, symbol in self.symbols.items():
            self.constants.append(numpy_helper.from_array(constant.dense().astype(np.float32), symbol))
        for number, node in enumerate(self.graph.nodes):
            if node not in self.names:
                self.names[node] = f"t{number}"
                EMITTERS[node.op.name](self, node)
        outputs = self.graph.outputs.items()
        self.nodes += [helper.make_node("Identity", [self.names[one.node]], [name]) for name, one in outputs]
        made = helper.make_graph(
            self.nodes,
            "network",
            [port(name, node.types[0].shape) for name, node in self.graph.inputs.items()],
            [port(name, output.shape) for name, output in outputs],
            self.constants,
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])

    def operand(self, node: Node, name: str) -> str:
        """Return the name of an operand's value."""
        value = node.operands[name]
        if isinstance(value, Constant | Output):
            return self.value(value)
        raise TypeError(f"{node.op.name} has a list of operands")

    def value(self, value: Constant | Output) -> str:
        """Return the name of a constant or of a node's result."""
        return self.symbols[value] if isinstance(value, Constant) else self.names[value.node]

    def emit(self, op: str, node: Node, inputs: list[str], *, step: str = "", **attributes: object) -> str:
        """Add one ONNX node whose result is the node's, or a step on the way to it; return the name of that result."""
        name = f"{self.names[node]}_{step}" if step else self.names[node]
        made = helper.make_node(op, inputs, [name], name=name)
        made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(made)
        return name

    def numbers(self, node: Node, label: str, values: object) -> str:
        """Add a constant of integers or of float32 and return its name."""
        name = f"{self.names[node]}_{label}"
        array = np.asarray(values)
        kind = np.float32 if np.issubdtype(array.dtype, np.floating) else np.int64
        self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name


def port(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    """Return the description of an input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def onnx_pads(node: Node) -> list[int]:
    """Return padding in the order of ONNX: all beginnings, then all ends."""
    top, bottom, left, right = numbers_of(node, "pad")
    return [top, left, bottom, right]


def numbers_of(node: Node, name: str) -> list[int]:
    """Return an attribute that is a list of integers."""
    value = node.attributes[name]
    if not isinstance(value, tuple):
        raise TypeError(f"{name} of {node.op.name} is {value!r}")
    return [int(item) for item in value]


def simple(op: str, *operands: str) -> Callable[[Writer, Node], None]:
    """Return the emitter of an operation that has the same operands and no attributes."""

    def emit(writer: Writer, node: Node) -> None:
        writer.emit(op, node, [writer.operand(node, name) for name in operands])

    return emit


def conv(writer: Writer, node: Node) -> None:
    """Emit a convolution."""
    inputs = [writer.operand(node, name) for name in ("x", "weight", "bias") if name in node.operands]
    strides, dilations = numbers_of(node, "strides"), numbers_of(node, "dilations")
    groups = node.attributes["groups"]
    writer.emit("Conv", node, inputs, strides=strides, dilations=dilations, group=groups, pads=onnx_pads(node))


def conv_transpose(writer: Writer, node: Node) -> None:
    """Emit a transposed convolution."""
    inputs = [writer.operand(node, name) for name in ("x", "weight", "bias") if name in node.operands]
    strides, dilations = numbers_of(node, "strides"), numbers_of(node, "dilations")
    groups = node.attributes["groups"]
    writer.emit("ConvTranspose", node, inputs, strides=strides, dilations=dilations, group=groups, pads=onnx_pads(node))


def concat(writer: Writer, node: Node) -> None:
    """Emit a concatenation."""
    values = node.operands["values"]
    if not isinstance(values, tuple):
        raise TypeError(f"the operands of {node.op.name} are {values!r}")
    writer.emit("Concat", node, [writer.value(value) for value in values], axis=node.attributes["axis"])


def relu6(writer: Writer, node: Node) -> None:
    """Emit a rectifier with a bound."""
    bounds = [writer.numbers(node, label, np.float32(bound)) for label, bound in (("low", 0.0), ("high", 6.0))]
    writer.emit("Clip", node, [writer.operand(node, "x"), *bounds])


def silu(writer: Writer, node: Node) -> None:
    """Emit x times its logistic function."""
    x = writer.operand(node, "x")
    writer.emit("Mul", node, [x, writer.emit("Sigmoid", node, [x], step="sigmoid")])


def group_norm(writer: Writer, node: Node) -> None:
    """Emit a normalisation of groups of channels: ONNX's own has a gain for every group before opset 21."""
    groups, shape = int(str(node.attributes["num_groups"])), node.types[0].shape
    by_group = writer.numbers(node, "by_group", (shape[0], groups, -1))
    rows = writer.emit("Reshape", node, [writer.operand(node, "x"), by_group], step="groups")
    plain = [writer.numbers(node, label, np.full(groups, value)) for label, value in (("ones", 1.0), ("zeros", 0.0))]
    epsilon = node.attributes["epsilon"]
    normed = writer.emit("InstanceNormalization", node, [rows, *plain], step="normed", epsilon=epsilon)
    back = writer.emit("Reshape", node, [normed, writer.numbers(node, "shape", shape)], step="back")
    along = writer.numbers(node, "along", (-1, *(1,) * (len(shape) - 2)))
    gain, offset = (
        writer.emit("Reshape", node, [writer.operand(node, name), along], step=f"{name}_along")
        for name in ("gamma", "beta")
    )
    writer.emit("Add", node, [writer.emit("Mul", node, [back, gain], step="scaled"), offset])


def max_pool(writer: Writer, node: Node) -> None:
    """Emit a pooling."""
    kernel, strides = numbers_of(node, "kernel_sizes"), numbers_of(node, "strides")
    writer.emit(
        "MaxPool", node, [writer.operand(node, "x")], kernel_shape=kernel, strides=strides, pads=onnx_pads(node)
    )


def batch_norm(writer: Writer, node: Node) -> None:
    """Emit a normalisation with given statistics."""
    inputs = [writer.operand(node, name) for name in ("x", "gamma", "beta", "mean", "variance")]
    writer.emit("BatchNormalization", node, inputs, epsilon=node.attributes["epsilon"])


def layer_norm(writer: Writer, node: Node) -> None:
    """Emit a normalisation of the last axis."""
    inputs = [writer.operand(node, name) for name in ("x", "gamma", "beta")]
    writer.emit("LayerNormalization", node, inputs, axis=-1, epsilon=node.attributes["epsilon"])


def linear(writer: Writer, node: Node) -> None:
    """Emit a product with constant weights."""
    inputs = [writer.operand(node, name) for name in ("x", "weight", "bias") if name in node.operands]
    writer.emit("Gemm", node, inputs, transB=1)


def reduce_mean(writer: Writer, node: Node) -> None:
    """Emit a mean."""
    axes = writer.numbers(node, "axes", numbers_of(node, "axes"))
    writer.emit("ReduceMean", node, [writer.operand(node, "x"), axes], keepdims=int(bool(node.attributes["keep_dims"])))


def reshape(writer: Writer, node: Node) -> None:
    """Emit a reshape."""
    shape = writer.numbers(node, "shape", node.types[0].shape)
    writer.emit("Reshape", node, [writer.operand(node, "x"), shape])


def transpose(writer: Writer, node: Node) -> None:
    """Emit a transpose."""
    writer.emit("Transpose", node, [writer.operand(node, "x")], perm=numbers_of(node, "perm"))


def softmax(writer: Writer, node: Node) -> None:
    """Emit a softmax."""
    writer.emit("Softmax", node, [writer.operand(node, "x")], axis=node.attributes["axis"])


def muls(writer: Writer, node: Node) -> None:
    """Emit a product with a number."""
    k = writer.numbers(node, "k", np.float32(node.attributes["k"]))  # pyright: ignore[reportArgumentType] - k is a number
    writer.emit("Mul", node, [writer.operand(node, "x"), k])


def matmul(writer: Writer, node: Node) -> None:
    """Emit a product of matrices as they are; ONNX's own does not transpose.

    Raises:
        NotImplementedError: One of them is to be transposed.
    """
    if node.attributes["transpose_x"] or node.attributes["transpose_y"]:
        raise NotImplementedError("matmul with a transposed operand: write a transpose before it")
    simple("MatMul", "x", "y")(writer, node)


EMITTERS: dict[str, Callable[[Writer, Node], None]] = {
    "add": simple("Add", "x", "y"),
    "batch_norm": batch_norm,
    "bmm": simple("MatMul", "x", "y"),
    "matmul": matmul,
    "concat": concat,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "gelu": simple("Gelu", "x"),
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "linear": linear,
    "max_pool": max_pool,
    "muls": muls,
    "reduce_mean": reduce_mean,
    "relu": simple("Relu", "x"),
    "relu6": relu6,
    "reshape": reshape,
    "silu": silu,
    "softmax": softmax,
    "transpose": transpose,
}


def main(folder: Path) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, graph in (("resnet18", resnet18()), ("encoder", encoder())):
        path = folder / f"{name}.onnx"
        unfinished = path.with_suffix(".tmp")
        unfinished.write_bytes(Writer(graph).model().SerializeToString())
        unfinished.replace(path)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

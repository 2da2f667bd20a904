"""Small ONNX models for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

import aneforge as af
from aneforge.formats.onnx.dtypes import onnx_element_type
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.onnx.binding import Shapes
    from aneforge.ops.types import Array

__all__ = ["Port", "made", "node", "numbers", "one_node", "port", "results"]

NEWEST = onnx.defs.onnx_opset_version()
Port = tuple[str, "Sequence[int | str | None] | None"]
"""An element type and a shape."""


def port(name: str, kind: Port) -> onnx.ValueInfoProto:
    """Return the description of an input or output."""
    dtype, shape = kind
    return helper.make_tensor_value_info(name, onnx_element_type(dtype), shape)


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, object] | None = None,
    domain: str = "",
) -> onnx.NodeProto:
    """Return a node, called after its operator and its first output."""
    found = helper.make_node(operator, list(inputs), list(outputs), name=f"{operator}_{outputs[0]}", domain=domain)
    found.attribute.extend(helper.make_attribute(name, value) for name, value in (attributes or {}).items())
    return found


def made(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Port],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = NEWEST,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model; its outputs are declared without a type's details."""
    graph = helper.make_graph(
        list(nodes),
        "tested",
        [port(name, kind) for name, kind in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def one_node(
    operator: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
    attributes: Mapping[str, object] | None = None,
    *,
    outputs: int = 1,
    opset: int = NEWEST,
    domain: str = "",
) -> onnx.ModelProto:
    """Return a model of one node: `inputs` are fed, `constants` are its weights; names are in the operator's order."""
    fixed = constants or {}
    names = sorted({*inputs, *fixed})
    made_node = node(operator, names, [f"y{place}" if place else "y" for place in range(outputs)], attributes, domain)
    ports: dict[str, Port] = {name: (dtype_name(array), list(array.shape)) for name, array in inputs.items()}
    known = onnx.defs.has(operator, domain)
    domains = {domain: onnx.defs.get_schema(operator, domain=domain).since_version if known else 1} if domain else None
    return made([made_node], ports, list(made_node.output), fixed, opset=opset, domains=domains)


def dtype_name(array: Array) -> str:
    """Return the element type of an array."""
    return Dense(array).type.dtype


def results(
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    shapes: Shapes | None = None,
    values: Mapping[str, object] | None = None,
) -> dict[str, Array]:
    """Return what the graph of a model gives, in the element types of its outputs."""
    graph = from_onnx(model, shapes, values=values)
    found = af.reference(graph, {name: feeds[name] for name in graph.inputs})
    with np.errstate(all="ignore"):
        return {name: np.asarray(value).astype(numpy_dtype(graph.outputs[name].dtype)) for name, value in found.items()}


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Return numbers between −2 and 2 that are the same each time."""
    generator = np.random.default_rng([seed, *shape])
    return (generator.integers(-200, 200, shape) / 100).astype(dtype)

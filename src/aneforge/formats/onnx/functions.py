"""Operators that ONNX, or the model itself, defines by other operators."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import onnx

from aneforge.errors import GraphError
from aneforge.formats.onnx.dtypes import onnx_element_type
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held

__all__ = ["bind_attributes", "function_of"]


def bind_attributes(
    function: onnx.FunctionProto, given: Mapping[str, onnx.AttributeProto]
) -> dict[str, onnx.AttributeProto]:
    """Return the attributes of a function of the model: those that a node gives, and its defaults.

    Raises:
        GraphError: The node gives one that the function does not have, or leaves one out.
    """
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    for name in given:
        if name not in defaults and name not in function.attribute:
            raise GraphError(f"function {function.name!r} has no attribute {name!r}")
    for name in function.attribute:
        if name not in given:
            raise GraphError(f"attribute {name!r} of function {function.name!r} is missing")
    return {**defaults, **given}


def function_of(call: Call) -> tuple[onnx.FunctionProto, dict[str, onnx.AttributeProto]]:
    """Return the function by which ONNX defines the operator of a node, and its attributes.

    Raises:
        UnsupportedNodeError: ONNX defines it by none.
    """
    defaults = {name: rule.default for name, rule in call.rules.attributes.items() if rule.default is not None}
    body = function_body(call)
    if body is None:
        raise UnsupportedNodeError(
            Reason.OPERATOR,
            f"version {call.rules.since} of the operator has no converter here, and ONNX has no function for it",
            workaround="convert the model to another operator-set version, or replace the operator before export",
        )
    return parse(body), {**defaults, **call.attributes}


@lru_cache(256)
def parse(body: bytes) -> onnx.FunctionProto:
    """Return a function from its wire form; nodes alike share one."""
    return onnx.FunctionProto.FromString(body)


def function_body(call: Call) -> bytes | None:
    """Return the function of an operator in its wire form, for the model's version of it; None if there is none.

    Raises:
        GraphError: onnx cannot make it for this node.
    """
    schema = call.rules.bodies
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        node = onnx.NodeProto()
        node.CopyFrom(call.node)
        del node.attribute[:]
        for name, attribute in call.attributes.items():
            copy = node.attribute.add()
            copy.CopyFrom(attribute)
            copy.name = name
        types = [type_of(held).SerializeToString() for held in call.inputs]
        version = choose(schema.context_dependent_function_opset_versions, call.version)
        try:
            body = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
        except (RuntimeError, ValueError) as error:  # onnx writes such functions as text, and reads them again
            problem = " ".join(str(error).split())[:200]
            raise GraphError(f"onnx cannot make the function that defines it: {problem}") from None
        if body:
            return body
    if schema.has_function:
        return schema.get_function_with_opset_version(choose(schema.function_opset_versions, call.version))
    return None


def choose(versions: Sequence[int], wanted: int) -> int:
    """Return the newest version that is not newer than the wanted one, or the oldest."""
    return max((one for one in versions if one <= wanted), default=min(versions))


def type_of(held: Held | None) -> onnx.TypeProto:
    """Return the type of a value as ONNX says it; empty for what is left out."""
    found = onnx.TypeProto()
    if isinstance(held, Output | Constant):
        found.tensor_type.elem_type = onnx_element_type(held.type.dtype)
        found.tensor_type.shape.SetInParent()
        for extent in held.type.shape:
            found.tensor_type.shape.dim.add().dim_value = extent
    return found

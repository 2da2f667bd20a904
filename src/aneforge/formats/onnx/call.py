"""One node of the model as its converter sees it: inputs, attributes, and the emitter that makes operations for it.

The node was checked against its operator's schema, so an input or attribute that the schema asks for is there, and has
one of the types that the schema allows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.dtypes import ELEMENT_TYPES, FOREIGN_TYPES, element_type_name
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.operands import Operands
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalise_axis
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx

    from aneforge.formats.onnx.onnx_values import Held, Value
    from aneforge.formats.onnx.rules import Rules
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.ops.types import Array

__all__ = ["Call", "Surroundings", "build_computed_error", "single_number", "source_inputs"]

LIST_MOST = 2**16
"""Longest list of axes, lengths or parts that is looked at."""


class Surroundings(Protocol):
    """What a node may ask of the model around it."""

    def constant(self, tensor: onnx.TensorProto) -> Constant | Foreign:
        """Return a tensor that the model carries."""
        ...

    def sparse_constant(self, tensor: onnx.SparseTensorProto) -> Constant | Foreign:
        """Return a sparse tensor that the model carries."""
        ...

    def run_body(self, graph: onnx.GraphProto, inputs: Sequence[Held]) -> tuple[Held, ...]:
        """Return the outputs of a graph that is an attribute of the node."""
        ...

    def try_body(self, graph: onnx.GraphProto, inputs: Sequence[Held]) -> tuple[tuple[Held, ...], str]:
        """Return the outputs of a graph, and the text of the first finding that stops it; none is gathered."""
        ...

    def run_function(self, call: Call) -> tuple[Held, ...]:
        """Return the outputs of the function by which ONNX itself defines the node's operator."""
        ...

    def run_operator(
        self, operator: str, inputs: Sequence[Held | None], attributes: Mapping[str, object], outputs: int
    ) -> tuple[Held, ...]:
        """Return the outputs of an operator of ONNX's default set, as if the node were made of it."""
        ...


@dataclass(frozen=True, slots=True)
class Call(Operands[int]):
    """One node."""

    node: onnx.NodeProto
    rules: Rules
    version: int
    """The version of the operator set that the model uses."""
    inputs: tuple[Held | None, ...]
    attributes: Mapping[str, onnx.AttributeProto]
    emit: Emitter
    surroundings: Surroundings

    @property
    def operator(self) -> str:
        """Name of the operator."""
        return self.node.op_type

    @property
    def outputs(self) -> int:
        """How many outputs the node has, those without a name counted."""
        return len(self.node.output)

    def wants(self, place: int) -> bool:
        """Return whether an output may be read."""
        return place < len(self.node.output) and bool(self.node.output[place])

    # Inputs.

    def held_at(self, key: int) -> Held | None:
        """Return an input of any kind; None where it is left out."""
        return self.inputs[key] if key < len(self.inputs) else None

    def describe_key(self, key: int) -> str:
        """Return how a message names an input."""
        return f"input {key}"

    def no_tensor(self, key: int, held: object) -> GraphError:
        """Return the error of an input that is not a tensor."""
        if isinstance(held, Foreign):
            return UnsupportedNodeError(held.reason, f"input {key} is {held.what}")
        return GraphError(f"input {key} is not a tensor")

    def computed(self, value: Output, message: str) -> GraphError:
        """Return the error of a value that would have to be known, with the inputs that it is computed from."""
        return build_computed_error(value, message)

    def values(self) -> list[Value]:
        """Return all inputs of an operator that takes a list of tensors."""
        return [self.value(place) for place in range(len(self.inputs))]

    def known_integers(self, place: int, what: str) -> tuple[int, ...] | None:
        """Return a list of integers that must be known; None where it is left out.

        Raises:
            GraphError: It is longer than any list of axes, lengths or parts.
        """
        if self.optional(place) is None:
            return None
        found = np.ravel(self.expect_known(place, what))
        if found.size > LIST_MOST:
            raise GraphError(f"{what} is too long", seen=found.size, limit=LIST_MOST)
        return tuple(int(item) for item in found.tolist())

    def known_integer(self, place: int, what: str) -> int:
        """Return one integer that must be known.

        Raises:
            GraphError: There are several or none, or it is not finite.
        """
        found = self.known_number(place, what)
        if not math.isfinite(found):
            raise GraphError(f"{what} is not finite", seen=found)
        return int(found)

    def known_number(self, place: int, what: str) -> float:
        """Return one number that must be known: whole, real or a boolean, as its element type has it."""
        return single_number(self.expect_known(place, what), what)

    def standard(self, operator: str, *inputs: Value | None, **attributes: object) -> Value:
        """Return the first result of an operator of ONNX's default set: a node may be made of several.

        Raises:
            GraphError: It is not a tensor.
        """
        found = self.surroundings.run_operator(operator, inputs, attributes, 1)[0]
        if isinstance(found, Output | Constant):
            return found
        raise GraphError(f"{operator} gives no tensor")

    # Attributes.

    def has(self, name: str) -> bool:
        """Return whether an attribute is given."""
        return name in self.attributes

    def attribute(self, name: str) -> onnx.AttributeProto:
        """Return an attribute, or the schema's default for it.

        Raises:
            GraphError: There is neither.
        """
        if name in self.attributes:
            return self.attributes[name]
        rule = self.rules.attributes.get(name)
        if rule is None or rule.default is None:
            raise GraphError(f"attribute {name!r} is missing")
        return rule.default

    def integer(self, name: str) -> int:
        """Return an integer."""
        return self.attribute(name).i

    def flag(self, name: str) -> bool:
        """Return an integer that is used as a boolean."""
        return bool(self.attribute(name).i)

    def number(self, name: str) -> float:
        """Return a number."""
        return self.attribute(name).f

    def text(self, name: str) -> str:
        """Return a text.

        Raises:
            GraphError: It is not UTF-8.
        """
        try:
            return self.attribute(name).s.decode()
        except UnicodeDecodeError:
            raise GraphError(f"attribute {name!r} is not UTF-8", seen=repr(self.attribute(name).s)[:80]) from None

    def choice(self, name: str, *choices: str) -> str:
        """Return a text that must be one of several.

        Raises:
            GraphError: It is another.
        """
        found = self.text(name)
        if found not in choices:
            raise GraphError(
                f"attribute {name!r} is not one of its choices", seen=repr(found), limit=", ".join(choices)
            )
        return found

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers; None where it is not given and has no default."""
        rule = self.rules.attributes.get(name)
        if name not in self.attributes and (rule is None or rule.default is None):
            return None
        return tuple(self.attribute(name).ints)

    def dtype(self, name: str) -> str:
        """Return an element type that is given by its number.

        Raises:
            UnsupportedNodeError: It has no meaning here.
            GraphError: There is none.
        """
        number = self.integer(name)
        if number in FOREIGN_TYPES:
            spelled, reason = FOREIGN_TYPES[number]
            raise UnsupportedNodeError(reason, f"its result is a tensor of {spelled}")
        if number not in ELEMENT_TYPES:
            raise GraphError(f"attribute {name!r} is not an element type", seen=element_type_name(number))
        return ELEMENT_TYPES[number]

    def axis(self, rank: int, name: str = "axis") -> int:
        """Return an axis counted from the front."""
        return normalise_axis(self.integer(name), rank, name)


def single_number(array: Array, what: str) -> float:
    """Return the only number of an array.

    Raises:
        GraphError: It has several or none.
    """
    if array.size != 1:
        raise GraphError(f"{what} is not one number", seen=list(array.shape))
    return array.reshape(()).item()


def build_computed_error(value: Output, message: str) -> UnsupportedNodeError:
    """Return the error of a value that would have to be known, with the inputs that it is computed from."""
    inputs = source_inputs(value)
    named = ", ".join(f"{name!r}: ..." for name in inputs)
    return UnsupportedNodeError(
        Reason.DATA_SHAPE,
        message,
        workaround=f"fix inputs of the model with values={{{named}}}" if inputs else "",
        inputs=inputs,
    )


def source_inputs(value: Output) -> tuple[str, ...]:
    """Return the names of the model's inputs that a value is computed from."""
    seen = {value.node}
    stack = [value.node]
    names: list[tuple[int, str]] = []
    while stack:
        node = stack.pop()
        if node.op.name == "input":
            names.append((node.created, node.text("name")))
        for source in node.sources():
            if source.node not in seen:
                seen.add(source.node)
                stack.append(source.node)
    return tuple(name for _, name in sorted(names))

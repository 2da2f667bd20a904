"""Writes one graph as a function of a MIL program.

Every node is one statement, in the order of the graph; its constants and lists come before it as consts of their own,
as ANEForge 0.4.0 writes them, and its numbers and booleans are in the call. Nodes are called t0, t1, …; inputs,
states and outputs keep their names as far as identifiers can have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from aneforge.errors import AneforgeError
from aneforge.formats.mil.attributes import attribute_literals, scalar
from aneforge.formats.mil.constants import MINUS_ZERO, ConstantForms
from aneforge.formats.mil.constexpr import CONSTEXPR
from aneforge.formats.mil.dialect import OPSET, mil_dialect
from aneforge.formats.mil.elements import TEXT
from aneforge.formats.mil.metadata import Hints
from aneforge.formats.mil.names import Namer
from aneforge.formats.mil.ports import ENGINE, HOST
from aneforge.formats.mil.syntax import (
    Argument,
    Function,
    ListType,
    Literal,
    NamedType,
    Reference,
    Statement,
    StateType,
    Tuple,
    ValueType,
)
from aneforge.graph.convert import convert
from aneforge.graph.graph import INPUT, STATE
from aneforge.graph.node import Output
from aneforge.ops.composed import Composed
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine
from aneforge.ops.op import Trait
from aneforge.ops.signature import OperandKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.formats.mil.syntax import Blob, Type, Value
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.graph.node import Value as NodeValue
    from aneforge.ops.composed import Recipe
    from aneforge.ops.types import TensorType

__all__ = ["FunctionWriter"]

BLOCKWISE = f"{CONSTEXPR}blockwise_shift_scale"
FALSE = Literal(ValueType("bool"), "false")
UPSAMPLE = "upsample_nearest_neighbor"
UPSAMPLED = ("scale_factor_height", "scale_factor_width")
TEXT_TYPE = ValueType(TEXT)


class FunctionWriter:
    """Writes the statements of a graph and remembers what its values are called."""

    def __init__(
        self,
        name: str,
        graph: Graph,
        forms: ConstantForms,
        *,
        port_casts: bool,
        rounded: bool,
        for_package: bool = False,
    ) -> None:
        self.for_package = for_package
        """Every value is a const of its own, and no output has the name of an input, as ML packages have it."""
        self.name = name
        self.graph = convert(graph, mil_dialect()).graph
        self.forms = forms
        self.port_casts = port_casts
        self.rounded = rounded
        self.namer = Namer()
        self.statements: list[Statement] = []
        self.values: dict[tuple[Node, int], Reference] = {}
        self.constants: dict[tuple[int, bool], Reference] = {}
        self.recipes: dict[int, list[Reference]] = {}
        self.input_ports: dict[str, str] = {}
        self.output_ports: dict[str, str] = {}
        self.max_abs: dict[str, float] = {}
        self.nodes: set[str] = set()
        self.places: dict[str, Location] = {}
        """Where the user made the nodes that results and constants were written for, by name."""

    def function(self) -> Function:
        """Return the graph as a function.

        Raises:
            NotSupportedError: A constant has no form in MIL.
        """
        names = {node: name for name, node in (*self.graph.inputs.items(), *self.graph.state_placeholders.items())}
        for node in self.graph.placeholders:
            self.input_ports[names[node]] = self.namer.new(names[node])
        for name, value in self.graph.outputs.items():
            direct = value.node.op.name == INPUT and names[value.node] == name
            same = direct and not self.is_cast(value.type) and not self.for_package
            self.output_ports[name] = self.input_ports[name] if same else self.namer.new(name)
        inputs = tuple(self.placeholder(node, self.input_ports[names[node]]) for node in self.graph.placeholders)
        self.write_nodes()
        outputs = tuple(self.output(value, self.output_ports[name]) for name, value in self.graph.outputs.items())
        for name, value in self.graph.states.items():
            port = self.input_ports[name]
            arguments: dict[str, Value] = {"data": self.values[value.node, value.index], "input": Reference(port)}
            self.add([], "write_state", arguments, self.namer.new(f"{port}_write"))
        return Function(self.name, OPSET, inputs, tuple(self.statements), outputs)

    def hints(self) -> Hints:
        """Return what the text has no place for."""
        ports = (*self.input_ports.items(), *self.output_ports.items())
        return Hints({port: name for name, port in ports if port != name}, self.max_abs, frozenset(self.nodes))

    # Ports.

    def placeholder(self, node: Node, port: str) -> NamedType:
        """Return an input of the function, and write the statement that makes a tensor of it where one is needed."""
        kind = node.types[0]
        if node.op.name == STATE:
            direct = [self.output_ports[name] for name, value in self.graph.outputs.items() if value.node is node]
            called = direct[0] if direct and not self.is_cast(kind) else self.namer.new(f"{port}_read")
            results = [(ValueType.of(kind), called)]
            (self.values[node, 0],) = self.add(results, "read_state", {"input": Reference(port)})
            return NamedType(StateType(ValueType(kind.dtype, kind.shape)), port)
        if node.attributes["max_abs"] is not None:
            self.max_abs[port] = node.number("max_abs")
        if not self.is_cast(kind):
            self.values[node, 0] = Reference(port)
            return NamedType(ValueType.of(kind), port)
        self.values[node, 0] = self.cast(kind, self.namer.new(f"{port}_{ENGINE}"), Reference(port))
        return NamedType(ValueType.of(kind.with_dtype(HOST)), port)

    def output(self, value: Output, port: str) -> Reference:
        """Return what the function returns under a name: a result, a cast, or a copy of one that has another."""
        source, kind = self.values[value.node, value.index], value.type
        if self.is_cast(kind):
            return self.cast(kind.with_dtype(HOST), port, source)
        if source.name == port:
            return source
        return self.add([(ValueType.of(kind), port)], "identity", {"x": source})[0]

    def is_cast(self, kind: TensorType) -> bool:
        """Return whether a port is of the host's element type in the text."""
        return self.port_casts and kind.dtype == ENGINE

    def cast(self, kind: TensorType, name: str, value: Value) -> Reference:
        """Write a cast at a port."""
        word = self.const(scalar(kind.dtype, TEXT), f"{name}_dtype")
        return self.add([(ValueType.of(kind), name)], "cast", {"dtype": word, "x": value})[0]

    # Nodes.

    def write_nodes(self) -> None:
        """Write every node that is not a placeholder; a result that is an output has the output's name."""
        wished: dict[tuple[Node, int], str] = {}
        for name, value in self.graph.outputs.items():
            if value.node.op.name not in (INPUT, STATE) and not self.is_cast(value.type):
                wished.setdefault((value.node, value.index), self.output_ports[name])
        for number, node in enumerate(self.graph.nodes[len(self.graph.placeholders) :]):
            single = len(node.types) == 1
            names = [
                wished.get((node, index)) or self.namer.new(f"t{number}" if single else f"t{number}_{index}")
                for index in range(len(node.types))
            ]
            written = len(self.statements)
            try:
                self.write(node, f"t{number}", names)
            except AneforgeError as error:
                error.operation, error.location = error.operation or node.op.name, error.location or node.location
                raise
            if node.location is not None:
                results = (result.name for statement in self.statements[written:] for result in statement.results)
                self.places.update(dict.fromkeys(results, node.location))

    def write(self, node: Node, base: str, names: list[str]) -> None:
        """Write one node."""
        arguments: dict[str, Value] = {}
        for operand in node.op.operands:
            argument = node.operands.get(operand.name)
            hint = f"{base}_{operand.name}"
            if isinstance(argument, tuple):
                arguments[operand.name] = Tuple(tuple(self.value(one, operand.kind, hint) for one in argument))
            elif argument is not None:
                arguments[operand.name] = self.value(argument, operand.kind, hint)
        for name, literal in attribute_literals(node, rounded=self.rounded):
            arguments[name] = self.const(literal, f"{base}_{name}") if stands_alone(literal) else literal
        op, arguments = self.as_in_mil(node, base, arguments)
        if self.for_package:
            arguments = {name: self.name_of(value, f"{base}_{name}") for name, value in arguments.items()}
        results = [(result_type(node, kind), name) for kind, name in zip(node.types, names, strict=True)]
        references = self.add(results, op, arguments, names[0] if len(names) == 1 else base)
        self.values.update({(node, index): reference for index, reference in enumerate(references)})
        if op.startswith(CONSTEXPR):
            self.nodes.add(names[0])

    def as_in_mil(self, node: Node, base: str, arguments: dict[str, Value]) -> tuple[str, dict[str, Value]]:
        """Return the name and the parameters by which MIL calls an operation that it has under another name."""
        match node.op.name:
            case "adds" | "muls":
                number = self.const(cast("Literal", arguments["k"]), f"{base}_k")
                return str(node.op.mil), {"x": arguments["x"], "y": number}
            case "bmm" | "bmm_w":
                return "matmul", {**arguments, "transpose_x": FALSE, "transpose_y": FALSE}
            case "upsample":
                return UPSAMPLE, {"x": arguments["x"], **dict.fromkeys(UPSAMPLED, arguments["scale"])}
            case "read_state":  # of a state that is here a tensor: what it holds
                return "identity", {"x": arguments["input"]}
            case "write_state":
                return "identity", {"x": arguments["data"]}
            case _:
                return str(node.op.mil_name), arguments

    def add(
        self, results: Sequence[tuple[Type, str]], op: str, arguments: Mapping[str, Value], name: str | None = None
    ) -> list[Reference]:
        """Write a statement and return its results."""
        called = name or results[0][1]
        given = tuple(Argument(key, arguments[key]) for key in sorted(arguments))
        attributes = (Argument("name", Literal(TEXT_TYPE, f'"{called}"')),)
        named = tuple(NamedType(kind, result) for kind, result in results)
        self.statements.append(Statement(named, op, given, attributes))
        return [Reference(result) for _, result in results]

    # Constants.

    def value(self, value: NodeValue, kind: OperandKind, hint: str) -> Reference:
        """Return an operand by its name."""
        if isinstance(value, Output):
            return self.values[value.node, value.index]
        fed = in_blocks(value) and kind is not OperandKind.CONSTANT
        key = id(value), fed
        if key not in self.constants:
            self.constants[key] = self.fed(value, hint) if fed else self.constant(value, hint)
        return self.constants[key]

    def constant(self, constant: Constant, hint: str) -> Reference:
        """Write a constant."""
        if isinstance(constant, Dense):
            return self.const(self.forms.dense(constant.values), hint)
        if isinstance(constant, Composed):
            return self.composed(constant.recipe, hint)[constant.index]
        op, parameters = self.forms.parameters(constant)
        name = self.namer.new(hint)
        results = [(ValueType.of(constant.type), name)]
        if not isinstance(constant, Int8Affine) and "shape" not in parameters:
            parts = {
                key: self.const(cast("Literal | Blob", value), f"{name}_{key}") for key, value in parameters.items()
            }
            return self.add(results, op, parts)[0]
        inside = {**parameters, "name": Literal(TEXT_TYPE, f'"{name}"')}
        attributes = tuple(Argument(key, inside[key]) for key in sorted(inside))
        self.statements.append(Statement((NamedType(*results[0]),), op, (), attributes))
        return Reference(name)

    def composed(self, recipe: Recipe, hint: str) -> list[Reference]:
        """Write an operation over constants, once, and return its results."""
        if id(recipe) in self.recipes:
            return self.recipes[id(recipe)]
        name = self.namer.new(hint)
        parts: dict[str, Value] = {}
        for key, operand in recipe.operands.items():
            inner = f"{name}_{key}"
            if isinstance(operand, Dense):
                parts[key] = self.const(self.forms.composed(recipe, key), inner)
            else:
                parts[key] = self.value(operand, OperandKind.CONSTANT, inner)
        if recipe.vector_axis is not None:
            parts["vector_axis"] = self.const(scalar(recipe.vector_axis, "int32"), f"{name}_vector_axis")
        types = recipe.types
        names = [name] if len(types) == 1 else [self.namer.new(f"{name}_{index}") for index in range(len(types))]
        results = [(stored_type(kind), one) for kind, one in zip(types, names, strict=True)]
        self.recipes[id(recipe)] = self.add(results, recipe.op, parts, name)
        return self.recipes[id(recipe)]

    def fed(self, constant: Constant, hint: str) -> Reference:
        """Write weights in blocks as they are fed to an operation: through a sum with −0, which changes no number."""
        blocks = self.value(constant, OperandKind.CONSTANT, f"{hint}_blocks")
        if self.for_package:
            return blocks  # Core ML feeds them by itself
        kind = ValueType.of(constant.type)
        zero = Literal(ValueType(kind.dtype), MINUS_ZERO)
        return self.add([(kind, self.namer.new(hint))], "add", {"x": blocks, "y": zero})[0]

    def name_of(self, value: Value, hint: str) -> Value:
        """Return a value by name: a literal becomes a const."""
        if isinstance(value, Tuple):
            return Tuple(tuple(self.name_of(item, hint) for item in value.items))
        return self.const(value, hint) if isinstance(value, Literal) else value

    def const(self, value: Literal | Blob, hint: str) -> Reference:
        """Write a const."""
        name = self.namer.new(hint)
        attributes = (Argument("name", Literal(TEXT_TYPE, f'"{name}"')), Argument("val", value))
        self.statements.append(Statement((NamedType(value.type, name),), "const", (), attributes))
        return Reference(name)


def in_blocks(value: NodeValue) -> bool:
    """Return whether a constant is made dense by scales of blocks."""
    return isinstance(value, Blockwise) or (isinstance(value, Composed) and value.recipe.op == BLOCKWISE)


def stored_type(kind: TensorType) -> ValueType:
    """Return the type of what a constexpr operation gives; a mask is of bits."""
    return ValueType("uint1", kind.shape) if kind.dtype == "bool" else ValueType.of(kind)


def stands_alone(value: Literal | Tuple) -> TypeGuard[Literal]:
    """Return whether an attribute is a const of its own: a text, or a list in one tensor."""
    return isinstance(value, Literal) and (value.type.rank > 0 or value.type.dtype == TEXT)


def result_type(node: Node, kind: TensorType) -> Type:
    """Return the type of a result, as MIL spells it."""
    if Trait.LIST in node.op.traits:
        return ListType(ValueType(kind.dtype, kind.shape[1:]), kind.shape[0])
    return ValueType.of(kind)

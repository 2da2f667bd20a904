"""Lowers a graph for one target to a program: layers in the order of the graph's text, named by its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.catalogue import kind_of_op
from aneforge.compiler.ir.layer import Argument, Ref, Value
from aneforge.compiler.ir.program import Note, Port, Program, State
from aneforge.compiler.lower import known, lower_pointwise, lower_products, lower_regions
from aneforge.compiler.lower.emitter import Emitter, Rule
from aneforge.errors import AneforgeError, NotSupportedError
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.node import Output
from aneforge.ops.composed import Composed
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.graph.node import Argument as NodeArgument
    from aneforge.graph.node import Node
    from aneforge.graph.node import Value as NodeValue
    from aneforge.ops.constant import Constant
    from aneforge.targets import Target

__all__ = ["lower"]

STAGE = "lower"
RULES: Mapping[str, Rule] = {**known.RULES, **lower_pointwise.RULES, **lower_products.RULES, **lower_regions.RULES}


def lower(graph: Graph, target: Target) -> Program:
    """Return the program of a graph that was made ready for a target.

    Raises:
        NotSupportedError: An operation has no layers; retargeting refuses all of them beforehand.
    """
    lowering = Lowering()
    for number, node in enumerate(graph.nodes):
        if node.op.name in PLACEHOLDERS:
            lowering.now[node] = (Value(f"t{number}", node.types[0]),)
        else:
            lowering.add(node, f"t{number}")
    inputs = [Port(name, lowering.value(node)) for name, node in graph.inputs.items()]
    states = [
        State(
            name,
            lowering.value(node),
            lowering.leaving(graph.states[name], f"state_{place}") if name in graph.states else None,
        )
        for place, (name, node) in enumerate(graph.state_placeholders.items())
    ]
    outputs = [
        Port(name, lowering.leaving(output, f"output_{place}"))
        for place, (name, output) in enumerate(graph.outputs.items())
    ]
    return Program(target, tuple(inputs), tuple(lowering.layers), tuple(outputs), tuple(states), tuple(lowering.notes))


class Lowering:
    """Holds what the nodes that were lowered have become."""

    def __init__(self) -> None:
        self.now: dict[Node, tuple[Ref, ...]] = {}
        self.decoded: dict[Constant, Dense] = {}
        self.layers: list[Layer] = []
        self.notes: list[Note] = []

    def add(self, node: Node, name: str) -> None:
        """Lower one node."""
        emit = Emitter(node, name, {operand: self.argument(value) for operand, value in node.operands.items()})
        for operand, value in node.values():
            if not isinstance(value, Output) and isinstance(value, Composed):
                emit.note(f"{operand} is decoded before compilation: no encoding of weights has {value.encoding}")
        try:
            self.now[node] = self.lowered(emit)
        except AneforgeError as error:
            error.operation = error.operation or node.op.name
            error.location = error.location or node.location
            raise
        self.layers += emit.layers
        self.notes += [Note(STAGE, name, text) for text in emit.notes]

    def lowered(self, emit: Emitter) -> tuple[Ref, ...]:
        """Add the layers of a node and return what its results are now."""
        op = emit.node.op
        if (rule := RULES.get(op.name)) is not None and op.name in known.RULES:
            return rule(emit)
        if (constants := known.fold(emit)) is not None:
            return constants
        if rule is not None:
            return rule(emit)
        kind = kind_of_op(op.name)
        if kind is None:
            raise NotSupportedError("no layers of the engine make this operation", operation=op.name)
        return emit.add_several(kind, emit.operands, emit.node.attributes)

    def leaving(self, output: Output, name: str) -> Value:
        """Return the value that leaves the program; a constant leaves through a layer that copies it."""
        found = self.now[output.node][output.index]
        if isinstance(found, Value):
            return found
        emit = Emitter(output.node, name, {})
        value = emit.add("identity", {"x": found})
        self.layers += emit.layers
        return value

    def value(self, node: Node) -> Value:
        """Return the value of a placeholder."""
        (found,) = self.now[node]
        assert isinstance(found, Value), "a placeholder is live"  # noqa: S101 - it was made so above
        return found

    def argument(self, argument: NodeArgument) -> Argument:
        """Return what an operand is now."""
        return tuple(map(self.ref, argument)) if isinstance(argument, tuple) else self.ref(argument)

    def ref(self, value: NodeValue) -> Ref:
        """Return what a value is now; a constant that operations make of others is decoded, once."""
        if isinstance(value, Output):
            return self.now[value.node][value.index]
        if not isinstance(value, Composed):
            return value
        if value not in self.decoded:
            self.decoded[value] = Dense.owning(value.dense())
        return self.decoded[value]

"""From a graph to the units of a network: what has no layer is rebuilt, then every operation is written in order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import AneforgeError, GraphError, NotSupportedError
from aneforge.formats.netplist.call import Call
from aneforge.formats.netplist.document import RESERVED
from aneforge.formats.netplist.draft import Payload, Port
from aneforge.formats.netplist.emit import WRITERS
from aneforge.formats.netplist.emit.emit_movement import emit_rearrangement
from aneforge.formats.netplist.emit.emit_ranking import columns
from aneforge.formats.netplist.emitter import Emitter
from aneforge.formats.netplist.netplist_dialect import netplist_dialect
from aneforge.formats.netplist.netplist_values import Known, canonical
from aneforge.formats.netplist.patterns import Blocks, find_patterns
from aneforge.formats.netplist.schema import layer_table
from aneforge.graph.convert import Change, choose, resolve_objections, unroll
from aneforge.graph.graph import INPUT
from aneforge.graph.node import Output
from aneforge.ops.constant import Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.netplist.document import Network, Procedure
    from aneforge.formats.netplist.netplist_values import Held
    from aneforge.formats.netplist.patterns import Pattern
    from aneforge.graph.convert import Converted
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["Lowered", "lower"]

HELD_TYPES = ("fp16", "uint16", "uint8", "int8", "bool", "int32")
"""Element types that are held: those of the table of layers, booleans as numbers, and places of elements."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph as a network, and the procedure that runs it."""

    network: Network
    procedure: Procedure
    changes: tuple[Change, ...]
    """Where it differs from the graph."""
    graph: Graph
    """The graph after conversion, whose operations the units were written for."""
    sources: Mapping[int, Node]
    """The operation that each unit was written for, by the identity of the unit's location."""


def lower(graph: Graph, name: str, payload: Payload, *, subtract_max: bool) -> Lowered:
    """Return the network of a graph.

    Raises:
        NotSupportedError: A description cannot express an operation; the error names the nearest form.
        GraphError: A number or a tensor has no form in a description.
    """
    made = converted(graph)
    changes = list(made.changes)
    lowering = Lowering(made.graph, graph.inputs, subtract_max=subtract_max)
    ports = lowering.run(changes)
    network, procedure = lowering.emitter.draft.network(name, ports, payload)
    found = (*changes, *lowering.emitter.changes)
    return Lowered(network, procedure, found, made.graph, lowering.emitter.draft.sources)


def converted(graph: Graph) -> Converted:
    """Return a graph in which every operation has a layer, or ends a pattern that is one.

    Raises:
        NotSupportedError: A description cannot express an operation.
        GraphError: A number or a tensor has no form in a description.
    """
    flat = unroll(graph)
    graph = flat.graph
    dialect = netplist_dialect(find_patterns(graph))
    operations = [node for node in graph.nodes if node.op.name != INPUT]
    objections = {node: found for node in operations if (found := dialect.objection(node)) is not None}
    for node, objection in objections.items():
        if objection.restated is None and choose(node.op, objection, dialect) is None:
            raise dialect.refusal(node, objection)
    for node in graph.nodes:
        check_types(node)
    made = resolve_objections(graph, dialect, objections)
    return replace(made, changes=(*flat.changes, *made.changes))


class Lowering:
    """Writes the operations of one graph; its inputs are those of the graph as the user made it."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Node], *, subtract_max: bool) -> None:
        self.graph = graph
        self.emitter = Emitter(graph.nodes[0], subtract_max=subtract_max)
        self.patterns = find_patterns(graph)
        self.held: dict[tuple[Node, int], Held] = {}
        self.inputs = {node: name for name, node in inputs.items()}

    def run(self, changes: list[Change]) -> list[Port]:
        """Write everything that the outputs need, and return the outputs."""
        needed = self.needed_nodes()
        for node in (*self.inputs, *self.graph.nodes):
            if node in needed and (node, 0) not in self.held:
                self.write(node)
        return self.ports(changes)

    def needed_nodes(self) -> set[Node]:
        """Return the nodes that are written: inputs, and what outputs need once patterns are one layer."""
        found = {output.node for output in self.graph.outputs.values()} | set(self.inputs)
        for node in reversed(self.graph.nodes):
            if node in found:
                pattern = self.patterns.get(node)
                read = node.sources() if pattern is None else [pattern.source]
                found |= {value.node for value in read if isinstance(value, Output)}
        return found

    def write(self, node: Node) -> None:
        """Write one operation; the location of an error is that of the user's code."""
        self.emitter.node = node
        try:
            results = self.results(node)
        except AneforgeError as error:
            error.operation = error.operation or node.op.name
            error.location = error.location or node.location
            raise
        for index, result in enumerate(results):
            self.held[node, index] = result

    def results(self, node: Node) -> Sequence[Held]:
        """Return what an operation gives."""
        if node.op.name == INPUT:
            return [self.placeholder(node)]
        pattern = self.patterns.get(node)
        if pattern is not None:
            return [self.pattern(pattern, node)]
        operands = {name: self.argument(value) for name, value in node.operands.items()}
        results = WRITERS[node.op.name](Call(self.emitter, node, operands))
        return results if isinstance(results, tuple) else [results]

    def placeholder(self, node: Node) -> Held:
        """Write an input port.

        Raises:
            NotSupportedError: A description has no such element type, or no such number of axes.
        """
        kind = node.types[0]
        spellings = {entry.dtype: name for name, entry in layer_table().element_types.items()}
        if kind.dtype not in spellings:
            raise self.emitter.refuse(
                "a port of a description has no such element type",
                seen=kind.dtype,
                limit=", ".join(spellings),
                nearest="an input of fp16",
            )
        like = self.emitter.result(kind.shape, canonical(kind.shape), kind.dtype, spellings[kind.dtype])
        symbol = self.emitter.draft.input(self.inputs[node], like.dims, like.stored)
        return type(like)(symbol, like.shape, like.axes, like.dtype, like.stored)

    def pattern(self, pattern: Pattern, node: Node) -> Held:
        """Write several operations that are one layer."""
        source, shape = self.value(pattern.source), node.types[0].shape
        if isinstance(pattern, Blocks):
            return emit_rearrangement(self.emitter, pattern.kind, source, pattern.factors, shape)
        return columns(self.emitter, pattern, source, shape)

    def argument(self, argument: Argument) -> Held | tuple[Held, ...]:
        """Return an operand as it is held."""
        return tuple(map(self.value, argument)) if isinstance(argument, tuple) else self.value(argument)

    def value(self, value: Value) -> Held:
        """Return a value as it is held; a constant of any encoding is written dense."""
        if isinstance(value, Output):
            return self.held[value.node, value.index]
        if not isinstance(value, Dense):
            self.emitter.note(f"a constant of encoding {value.encoding} is written dense")
        return Known(value.dense(), value.type.dtype)

    def ports(self, changes: list[Change]) -> list[Port]:
        """Return the output ports, laid out by default and named apart from inputs and keys.

        Raises:
            NotSupportedError: An output is of booleans or of places of elements.
        """
        keys = {*RESERVED, *self.inputs.values()}
        taken = {*keys, *self.graph.outputs}
        ports: list[Port] = []
        for name, output in self.graph.outputs.items():
            self.emitter.node = output.node
            held = self.held[output.node, output.index]
            if held.dtype == "bool":
                raise self.emitter.refuse(
                    f"output {name!r} is of booleans, which a description keeps as numbers",
                    seen="bool",
                    nearest="a cast of the output to fp16",
                )
            placed = self.emitter.place(held, canonical(held.shape))
            if layer_table().element_types[placed.stored].dtype != held.dtype:
                raise self.emitter.refuse(
                    f"output {name!r} would be returned as {placed.stored}",
                    seen=held.dtype,
                    nearest="a cast of the output to fp16",
                )
            symbol = name
            while symbol in keys or (symbol != name and symbol in taken):
                symbol += "_"
            if symbol != name:
                taken.add(symbol)
                changes.append(
                    Change(output.node.op.name, output.node.location, f"output {name!r} is called {symbol!r}")
                )
            ports.append(Port(symbol, placed.symbol, placed.stored))
        return ports


def check_types(node: Node) -> None:
    """Check that a description can hold what an operation gives.

    Raises:
        GraphError: A result is empty.
        NotSupportedError: It gives elements that a description does not have.
    """
    for kind in node.types:
        if kind.dtype not in HELD_TYPES:
            raise NotSupportedError(
                "a description has no such element type",
                operation=node.op.name,
                location=node.location,
                seen=kind.dtype,
                limit=", ".join(HELD_TYPES),
                remedy="nearest form: the same in fp16",
            )
        if 0 in kind.shape:
            raise GraphError(
                "a description has no empty tensors",
                operation=node.op.name,
                location=node.location,
                seen=list(kind.shape),
                limit="at least 1 along an axis",
            )

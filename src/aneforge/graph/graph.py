"""A graph: named outputs, what they reach, the inputs in their order, and the states that are read and written."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.node import Node, Output
from aneforge.graph.printing import graph_text
from aneforge.ops.op import Work

if TYPE_CHECKING:
    from aneforge.ops.constant import Constant

__all__ = ["INPUT", "STATE", "Graph", "GraphLike", "as_graph"]

INPUT, STATE = "input", "state"
PLACEHOLDERS = {INPUT, STATE}


class Graph:
    """What a user means: an immutable graph of operations.

    A state is read at the start of a run, through the value of its placeholder, and written at the end, with the value
    that `states` gives for its name.

    >>> import aneforge as af
    >>> x = af.input((1, 4))
    >>> graph = af.Graph({"y": x.relu()})
    >>> [node.op.name for node in graph.nodes]
    ['input', 'relu']
    """

    def __init__(self, outputs: Mapping[str, Output], states: Mapping[str, Output] | None = None) -> None:
        if not outputs and not states:
            raise GraphError("a graph needs an output")
        self.outputs = dict(outputs)
        self.states = dict(states or {})
        self._check_states()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, each after those that it reads; placeholders first, in the order of their making."""
        ordered = topological_order([*self.outputs.values(), *self.states.values()])
        placeholders = sorted((node for node in ordered if node.op.name in PLACEHOLDERS), key=lambda node: node.created)
        return (*placeholders, *(node for node in ordered if node.op.name not in PLACEHOLDERS))

    @cached_property
    def inputs(self) -> Mapping[str, Node]:
        """The input placeholders by name, in the order in which values are fed."""
        nodes = [node for node in self.nodes if node.op.name == INPUT]
        names: dict[str, Node] = {}
        for number, node in enumerate(nodes):
            name = str(node.attributes["name"] or f"x{number}")
            if name in names:
                raise GraphError(f"two inputs are called {name!r}", location=node.location, remedy="name them apart")
            names[name] = node
        return names

    @cached_property
    def constants(self) -> Mapping[str, Constant]:
        """Every constant by its symbol, in the order of first use; equal constants share one symbol."""
        symbols: dict[Constant, str] = {}
        for node in self.nodes:
            for constant in node.constants():
                symbols.setdefault(constant, f"c{len(symbols)}")
        return {symbol: constant for constant, symbol in symbols.items()}

    @cached_property
    def consumers(self) -> Mapping[Node, tuple[Node, ...]]:
        """The nodes that read each node."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for source in dict.fromkeys(value.node for value in node.sources()):
                readers[source].append(node)
        return {node: tuple(found) for node, found in readers.items()}

    def work(self) -> Work:
        """Return what one run costs, whatever the target."""
        works = [work_of(node) for node in self.nodes]
        return Work(
            macs=sum(work.macs for work in works),
            bytes_in=sum(work.bytes_in for work in works),
            bytes_out=sum(work.bytes_out for work in works),
            bytes_weights=sum(constant.nbytes for constant in self.constants.values()),
        )

    def summary(self) -> Summary:
        """Return the graph in figures."""
        counts: dict[str, int] = {}
        for node in self.nodes:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        return Summary(
            nodes=len(self.nodes),
            operations=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
            constants=len(self.constants),
            work=self.work(),
        )

    def __str__(self) -> str:
        return graph_text(self)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @classmethod
    def parse(cls, text: str, constants: Mapping[str, Constant] | None = None) -> Graph:
        """Read a graph back from its text; `constants` gives the value of every symbol in it.

        Raises:
            GraphError: The text is not a graph, or a constant is missing or not the one that was meant.
        """
        from aneforge.graph.parsing import parse_graph  # noqa: PLC0415 - it makes graphs, so it imports this module

        return parse_graph(text, constants or {})

    def _check_states(self) -> None:
        placeholders = {str(node.attributes["name"]): node for node in self.nodes if node.op.name == STATE}
        for name, value in self.states.items():
            if name not in placeholders:
                raise GraphError(f"state {name!r} is written and never read", remedy="read it, or make it an output")
            if placeholders[name].types[0] != value.type:
                raise GraphError(f"state {name!r} changes its type", seen=value.type, limit=placeholders[name].types[0])


GraphLike = Graph | Output | Sequence[Output] | Mapping[str, Output]


def as_graph(out: GraphLike) -> Graph:
    """Return a graph with the given outputs; unnamed ones are called y, or y0, y1, ….

    Raises:
        GraphTypeError: It is not a tensor, nor several.
    """
    match out:
        case Graph():
            return out
        case Output():
            return Graph({"y": out})
        case Mapping():
            outputs = dict(out)
        case _ if isinstance(out, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            outputs = {f"y{number}": value for number, value in enumerate(out)}
        case _:
            raise GraphTypeError("a graph is made of tensors", seen=type(out).__name__)
    for name, value in outputs.items():
        if not isinstance(value, Output):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(f"output {name!r} is not a tensor", seen=type(value).__name__)
    return Graph(outputs)


@dataclass(frozen=True, slots=True)
class Summary:
    """A graph in figures."""

    nodes: int
    operations: Mapping[str, int]
    constants: int
    work: Work

    def __str__(self) -> str:
        most = ", ".join(f"{count} {name}" for name, count in list(self.operations.items())[:8])
        return (
            f"{self.nodes} nodes ({most}); {self.constants} constants, {self.work.bytes_weights:,} bytes; "
            f"{self.work.macs:,} multiply-accumulates"
        )


def work_of(node: Node) -> Work:
    """Return what one run of a node costs."""
    types = {
        name: tuple(one.type for one in argument) if isinstance(argument, tuple) else argument.type
        for name, argument in node.operands.items()
    }
    constants = {
        name: argument.nbytes for name, argument in node.operands.items() if not isinstance(argument, tuple | Output)
    }
    return node.op.work(types, node.attributes, constants)


def topological_order(outputs: Iterable[Output]) -> list[Node]:
    """Return every node that outputs reach, each after those that it reads, without recursion."""
    ordered: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(output.node, False) for output in reversed(list(outputs))]
    while stack:
        node, ready = stack.pop()
        if node in ordered:
            continue
        if ready:
            ordered[node] = None
            continue
        stack.append((node, True))
        stack.extend((source.node, False) for source in reversed(node.sources()) if source.node not in ordered)
    return list(ordered)

"""States of a graph as ports: each becomes an input and an output, which share a buffer once the program is loaded.

Devices have no states, only ports; a key-value cache stays on them because the output that holds the new cache has the
buffer of the input that holds the old one (aneforge docs, capabilities: paired state tensors).
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.graph.graph import STATE, Graph, as_graph
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Node
    from aneforge.runtime.streams.operations import Operation

__all__ = ["ResidentGraph", "with_state_ports"]

NEXT = "_next"


@dataclass(frozen=True, slots=True)
class ResidentGraph:
    """A graph without states, and which output is to share its buffer with which input."""

    graph: Graph
    pairs: Mapping[str, str]
    """The input's name by the output's."""

    def share(self, operation: Operation, into: Operation | None = None) -> None:
        """Let an operation's next execution, or another operation after it, read what it writes.

        Raises:
            RuntimeStateError: One of them is in use in a stream, or ran already.
        """
        for output, to_input in self.pairs.items():
            operation.share_buffer(output, operation if into is None else into, to_input)


def with_state_ports(graph: GraphLike) -> ResidentGraph:
    """Return a graph whose states are ports: `name` in, `name_next` out.

    A state that is only read becomes only an input.

    >>> import aneforge as af
    >>> total = af.state("total", (1, 2))
    >>> made = with_state_ports(af.Graph({"y": total * 2.0}, states={"total": total + af.input((1, 2), name="x")}))
    >>> list(made.graph.inputs), list(made.graph.outputs), dict(made.pairs)
    (['total', 'x'], ['y', 'total_next'], {'total_next': 'total'})

    Raises:
        GraphError: The graph has an output of a name that a state's new port would have.
    """
    whole = as_graph(graph)
    for name in whole.states:
        if name + NEXT in whole.outputs:
            raise GraphError(
                f"state {name!r} would become the output {name + NEXT!r}, which the graph has", remedy="rename it"
            )

    called = {node: name for name, node in whole.inputs.items()}

    def exchanged(node: Node, operands: Mapping[str, Argument]) -> list[Tensor] | None:
        del operands  # a placeholder has none
        if whole.states and node in called:
            # One without a name would be called after its place, which states before it change.
            return [Tensor(replace(node, attributes={**node.attributes, "name": called[node]}))]
        if node.op.name != STATE:
            return None
        kind = node.types[0]
        attributes = {"name": node.attributes["name"], "shape": kind.shape, "dtype": kind.dtype}
        # It keeps its place in the order in which values are fed.
        return [Tensor(replace(build("input", {}, attributes, node.location), created=node.created))]

    # A state that is written with what it was, or with an input, is a value of the graph like any other.
    outputs = {**whole.outputs, **{name + NEXT: value for name, value in whole.states.items()}}
    unwritten = Graph(outputs)
    return ResidentGraph(rewrite(unwritten, exchanged), MappingProxyType({name + NEXT: name for name in whole.states}))

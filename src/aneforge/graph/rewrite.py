"""A new graph from an old one, some nodes replaced. The old one stays as it was."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError
from aneforge.graph.graph import Graph
from aneforge.graph.node import Node, Output
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.node import Argument, Value

    Replace = Callable[[Node, Mapping[str, Argument]], Sequence[Tensor] | None]

__all__ = ["rewrite"]


def rewrite(graph: Graph, replace: Replace) -> Graph:
    """Return a graph in which `replace` was asked about every node, each after those that it reads.

    It is given the node and its operands as they are now; it returns a tensor for every result, of the same type, or
    nothing to keep the node. A node that is kept and whose operands did not change is shared with the old graph; where
    all of them are, it is the old graph that is returned.
    """
    now: dict[tuple[Node, int], Tensor] = {}

    def value_now(value: Value) -> Value:
        return now[value.node, value.index] if isinstance(value, Output) else value

    def argument_now(argument: Argument) -> Argument:
        return tuple(map(value_now, argument)) if isinstance(argument, tuple) else value_now(argument)

    for node in graph.nodes:
        operands = {name: argument_now(argument) for name, argument in node.operands.items()}
        results = replace(node, operands)
        if results is None:
            kept = node if keeps_operands(node, operands) else dataclasses.replace(node, operands=operands)
            results = [Tensor(kept, index) for index in range(len(node.types))]
        for index, (result, kind) in enumerate(zip(results, node.types, strict=True)):
            if result.type != kind:
                raise GraphTypeError(
                    "a node was replaced by a tensor of another type",
                    operation=node.op.name,
                    location=node.location,
                    seen=result.type,
                    limit=kind,
                )
            now[node, index] = result
    outputs, states = (
        {name: now[output.node, output.index] for name, output in ports.items()}
        for ports in (graph.outputs, graph.states)
    )
    before = (*graph.outputs.values(), *graph.states.values())
    kept = all(map(same, before, (*outputs.values(), *states.values())))
    return graph if kept else Graph(outputs, states)


def keeps_operands(node: Node, operands: Mapping[str, Argument]) -> bool:
    """Return whether operands are still those of a node."""
    return all(
        same(before, after)
        for name, argument in node.operands.items()
        for before, after in zip(each(argument), each(operands[name]), strict=True)
    )


def each(argument: Argument) -> tuple[Value, ...]:
    """Return the values of an operand."""
    return argument if isinstance(argument, tuple) else (argument,)


def same(one: Value, other: Value) -> bool:
    """Return whether two values are one: the same result of the same node, or the same constant."""
    if isinstance(one, Output) and isinstance(other, Output):
        return one.node is other.node and one.index == other.index
    return one is other

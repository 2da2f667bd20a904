"""The nodes of a report, and which of them each layer of a compiled program carries out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aneforge.graph.graph import PLACEHOLDERS
from aneforge.graph.node import Output
from aneforge.report.model import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node as GraphNode

__all__ = ["origins", "report_nodes", "trace_layers"]

NUMBER = re.compile(r"t(\d+)(?:\.|$)")
"""How the compiler names a layer: by the number of a node of the retargeted graph, and what was done to it."""


def report_nodes(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes of a graph as a report holds them.

    >>> import aneforge as af
    >>> [(node.name, node.op, node.inputs) for node in report_nodes(af.Graph({"y": af.input((1, 4), name="x").relu()}))]
    [('x', 'input', ()), ('relu_1', 'relu', (0,))]
    """
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    placeholders = {node: name for name, node in (*graph.inputs.items(), *graph.state_placeholders.items())}
    return tuple(
        Node(
            name=placeholders.get(node) or name_of(node, number),
            op=node.op.name,
            dtype=node.types[0].dtype,
            shape=node.types[0].shape,
            inputs=tuple(dict.fromkeys(numbers[source.node] for source in node.sources())),
            place=node.location,
        )
        for node, number in numbers.items()
    )


def name_of(node: GraphNode, number: int) -> str:
    """Return what a node is called: as in the user's file, or by its operation and number."""
    named = node.location.node if node.location is not None else None
    return named or f"{node.op.name}_{number}"


def origins(original: Graph, retargeted: Graph) -> tuple[tuple[int, ...], ...]:
    """Return for every node of a retargeted graph the node of the original that it stands for, if there is one.

    A node that was kept has the stamp of its making. One that was made for another is known by where its result goes:
    to an output, to an operand of a node that was kept, or to others that were made with it.
    """
    numbers = {node.created: number for number, node in enumerate(original.nodes)}
    found: dict[GraphNode, int] = {node: numbers[node.created] for node in retargeted.nodes if node.created in numbers}
    leaving = {output.node: name for name, output in retargeted.outputs.items()}
    for node in reversed(retargeted.nodes):
        if node in found:
            continue
        if node in leaving and leaving[node] in original.outputs:
            found[node] = numbers[original.outputs[leaving[node]].node.created]
            continue
        for reader in retargeted.consumers[node]:
            source = find_replacement(node, reader, original.nodes[found[reader]]) if reader in found else None
            if source is not None:
                found[node] = numbers[source.created]
                break
            if reader in found and reader.created not in numbers:
                found[node] = found[reader]
                break
    return tuple((found[node],) if node in found else () for node in retargeted.nodes)


def find_replacement(node: GraphNode, reader: GraphNode, before: GraphNode) -> GraphNode | None:
    """Return the node that the reader read, when it was in the original graph, where it now reads another one."""
    if reader.created != before.created:
        return None
    for (_, now), (_, then) in zip(reader.values(), before.values(), strict=True):
        if isinstance(now, Output) and now.node is node and isinstance(then, Output):
            return then.node
    return None


def trace_layers(
    program: Program, retargeted: Graph, origin: Iterable[tuple[int, ...]]
) -> Mapping[str, tuple[int, ...]]:
    """Return the nodes of the original graph that each layer carries out, by the layer's name.

    A node without a layer of its own was taken into the layer that its result flows to.
    """
    numbers = {node: number for number, node in enumerate(retargeted.nodes)}
    named: dict[int, list[str]] = {}
    for layer in program.layers:
        if match := NUMBER.match(layer.name):
            named.setdefault(int(match[1]), []).append(layer.name)
    owner: dict[int, int] = {}
    for node in reversed(retargeted.nodes):
        number = numbers[node]
        if number in named:
            owner[number] = number
        elif node.op.name not in PLACEHOLDERS:
            readers = [owner[numbers[reader]] for reader in retargeted.consumers[node] if numbers[reader] in owner]
            if readers:
                owner[number] = readers[0]
    found: dict[str, list[int]] = {layer.name: [] for layer in program.layers}
    for (node, number), nodes in zip(numbers.items(), origin, strict=True):
        if node.op.name in PLACEHOLDERS or number not in owner:
            continue
        for name in named[owner[number]]:
            found[name] += [one for one in nodes if one not in found[name]]
    return {name: tuple(nodes) for name, nodes in found.items()}

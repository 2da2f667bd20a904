"""The nodes of a graph or function in an order in which they can be run.

ONNX asks for nodes in order, and tools that patch models (converters to fp16 that append casts, for one) do not always
keep it; runtimes order nodes by themselves. So does this: the model's own order stays wherever it is one, and a node
that is read too early comes just before its first reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError, Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import onnx

__all__ = [
    "DEPTH_MOST",
    "every_node",
    "find_misplaced_nodes",
    "free_names",
    "live_nodes",
    "node_name",
    "run_order",
    "subgraphs",
]

DEPTH_MOST = 24
"""Graphs within graphs; protobuf itself reads 100 messages within one another, which is about 33 graphs."""
CYCLE_SHOWN = 12
"""Nodes of a cycle that its error names."""


def node_name(node: onnx.NodeProto, place: int) -> str:
    """Return a node's name, or one made of its operator and its place where it has none."""
    return node.name or f"{node.op_type}_{place}"


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Return the graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return nodes and those of the graphs in them."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from every_node(inner.node)


def find_names_read(node: onnx.NodeProto, depth: int = 0) -> set[str]:
    """Return the names that a node reads: its inputs, and what the graphs in it read from around them."""
    names = {name for name in node.input if name}
    for inner in subgraphs(node):
        names |= free_names(inner, depth + 1)
    return names


def free_names(graph: onnx.GraphProto, depth: int = 0) -> set[str]:
    """Return the names that a graph reads and does not make; of graphs nested too deeply, which are refused, none."""
    if depth > DEPTH_MOST:
        return set()
    read = {value.name for value in graph.output}
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(one.values.name for one in graph.sparse_initializer)
    for node in graph.node:
        read |= find_names_read(node, depth)
        own.update(node.output)
    return read - own


def sources_of(nodes: Sequence[onnx.NodeProto]) -> list[list[int]]:
    """Return for every node the places of the nodes whose results it reads."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    return [sorted({makers[name] for name in find_names_read(node) if name in makers}) for node in nodes]


def run_order(nodes: Sequence[onnx.NodeProto], file: str | None = None) -> Sequence[int]:
    """Return the places of nodes in an order in which each comes after those that it reads.

    Raises:
        GraphError: There is none, because nodes read one another in a cycle.
    """
    sources = sources_of(nodes)
    if all(source < place for place, listed in enumerate(sources) for source in listed):
        return range(len(nodes))
    ordered: list[int] = []
    opened, done = [False] * len(nodes), [False] * len(nodes)
    for first in range(len(nodes)):
        path = [] if opened[first] else [(first, iter(sources[first]))]
        opened[first] = True
        while path:
            place, rest = path[-1]
            source = next((one for one in rest if not done[one]), None)
            if source is None:
                path.pop()
                done[place] = True
                ordered.append(place)
            elif opened[source]:
                cycle = [one for one, _ in path]
                raise cycle_error(nodes, cycle[cycle.index(source) :], file)
            else:
                opened[source] = True
                path.append((source, iter(sources[source])))
    return ordered


def cycle_error(nodes: Sequence[onnx.NodeProto], cycle: Sequence[int], file: str | None) -> GraphError:
    """Return the error of nodes each of which reads the next, and the last the first; it names the earliest."""
    start = cycle.index(min(cycle))
    turned = [*cycle[start:], *cycle[:start], cycle[start]]
    reader, maker = turned[:2]
    known = find_names_read(nodes[reader])
    read = next(name for name in nodes[maker].output if name in known)
    names = [repr(node_name(nodes[place], place)) for place in turned]
    left_out = len(names) - CYCLE_SHOWN
    listed = names if left_out <= 0 else [*names[: CYCLE_SHOWN - 1], f"{left_out} more nodes", names[-1]]
    return GraphError(
        f"it reads {read!r}, which node {names[1]} computes later, from the result of this node",
        location=Location(file, node=node_name(nodes[reader], reader)),
        seen="a cycle: " + " reads from ".join(listed),
        remedy="nodes must be free of cycles; export the model again",
    )


def find_misplaced_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    """Return the names of nodes that come before one that they read, in graphs within them too."""
    for place, (node, sources) in enumerate(zip(nodes, sources_of(nodes), strict=True)):
        if any(source > place for source in sources):
            yield node_name(node, place)
        for inner in subgraphs(node):
            yield from find_misplaced_nodes(inner.node)


def live_nodes(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[tuple[int, onnx.NodeProto]]:
    """Return the nodes that some wanted values need, in an order in which they can be run, with their places."""
    needed = set(wanted)
    live: list[tuple[int, onnx.NodeProto]] = []
    for place in reversed(run_order(nodes)):
        node = nodes[place]
        if needed.isdisjoint(node.output):
            continue
        live.append((place, node))
        needed |= find_names_read(node)
    return live[::-1]

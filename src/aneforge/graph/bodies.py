"""Bodies of loops as graphs, and graphs as bodies: what reads and writes graphs works on the one, loops on the other.

The inputs of such a graph have the names of the body's; its outputs are y0, y1 and so on, in the order of the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.graph.graph import INPUT, PLACEHOLDERS, Graph
from aneforge.graph.node import CREATION, Node, Output, new_node
from aneforge.graph.tensor import Tensor
from aneforge.ops.body import Body, Call, Reference
from aneforge.ops.constant import Constant
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.graph.node import Value
    from aneforge.ops.body import Source
    from aneforge.ops.types import TensorType

    Named = dict[tuple[Node, int], str]
    """What a body reads, by name."""

__all__ = ["are_alike", "body_input", "body_of", "enclose", "graph_of"]


def body_input(name: str, kind: TensorType) -> Tensor:
    """Return a new tensor that stands for what a body is given under a name."""
    attributes = {"shape": kind.shape, "dtype": kind.dtype, "name": name}
    return Tensor(new_node(find_op(INPUT), {}, attributes, None))


def enclose(inputs: Mapping[str, Output], results: Sequence[Output]) -> tuple[Body, tuple[Output, ...]]:
    """Return the body that was built upon inputs, and the tensors of the graph around that it reads.

    What was made before the first of the inputs is around it; the body reads these tensors as `fixed0` and so on.

    Raises:
        GraphError: The body reads an input or a state that was made in it.
    """
    names = {(one.node, one.index): name for name, one in inputs.items()}
    first = min(one.node.created for one in inputs.values())
    inside, outside = split_nodes(results, {one.node for one in inputs.values()}, first)
    for node in inside:
        if node.op.name in PLACEHOLDERS:
            raise GraphError(
                f"the body of a loop makes an {node.op.name} of its own",
                location=node.location,
                remedy="make it before the loop",
            )
    names.update({(one.node, one.index): f"fixed{place}" for place, one in enumerate(outside)})
    return body_from(inside, names, results), outside


def split_nodes(results: Sequence[Output], inputs: set[Node], first: int) -> tuple[list[Node], tuple[Output, ...]]:
    """Return the nodes that results need, each after those that it reads, and what they read of earlier ones."""
    inside: dict[Node, None] = {}
    outside: dict[tuple[Node, int], Output] = {}
    stack: list[tuple[Output, bool]] = [(one, False) for one in reversed(results)]
    while stack:
        value, ready = stack.pop()
        node = value.node
        if node in inside or node in inputs:
            continue
        if node.created < first:
            outside.setdefault((node, value.index), value)
        elif ready:
            inside[node] = None
        else:
            stack.append((value, True))
            stack.extend((source, False) for source in reversed(node.sources()))
    return list(inside), tuple(outside.values())


def body_of(graph: Graph) -> Body:
    """Return a graph as a body.

    Raises:
        GraphError: It reads or writes a state.
    """
    if graph.states or graph.state_placeholders:
        raise GraphError("the body of a loop has a state of its own", remedy="carry it from one iteration to the next")
    names = {(node, 0): name for name, node in graph.inputs.items()}
    return body_from(graph.nodes[len(graph.placeholders) :], names, tuple(graph.outputs.values()))


def body_from(nodes: Iterable[Node], names: Named, results: Sequence[Output]) -> Body:
    """Return the body of nodes that are in their order; inputs that nothing reads are not among its inputs."""
    places: dict[Node, int] = {}
    calls: list[Call] = []
    read: dict[str, TensorType] = {}

    def source_of(value: Value) -> Source:
        if isinstance(value, Constant):
            return value
        name = names.get((value.node, value.index))
        if name is None:
            return Reference(places[value.node], value.index)
        read[name] = value.type
        return name

    for node in nodes:
        operands = {
            name: tuple(map(source_of, argument)) if isinstance(argument, tuple) else source_of(argument)
            for name, argument in node.operands.items()
        }
        places[node] = len(calls)
        calls.append(Call(node.op, operands, dict(node.attributes), node.types, node.location))
    found = [source_of(result) for result in results]
    given = tuple(one for one in found if not isinstance(one, Constant))
    return Body({name: read[name] for name in names.values() if name in read}, tuple(calls), given)


def graph_of(body: Body) -> Graph:
    """Return a body as a graph.

    >>> import aneforge as af
    >>> total, _ = af.scan(lambda total, row: (total + row, total), [af.input((4,))], [af.input((3, 4))])
    >>> sorted(graph_of(total.node.body).inputs)
    ['row0', 'state0']
    """
    inputs = {name: body_input(name, kind) for name, kind in body.inputs.items()}
    nodes: list[Node] = []

    def value_of(source: Source) -> Value:
        if isinstance(source, str):
            return inputs[source]
        return source if isinstance(source, Constant) else Tensor(nodes[source.call], source.index)

    for call in body.calls:
        operands = call.read(value_of)
        nodes.append(Node(call.op, operands, call.attributes, call.types, call.location, next(CREATION)))
    results = [value_of(result) for result in body.results]
    return Graph({f"y{place}": one for place, one in enumerate(results) if isinstance(one, Output)})


def are_alike(pairs: Iterable[tuple[Value, Value]]) -> bool:
    """Return whether values are pairwise the same: equal constants, or results of nodes alike in all but identity."""
    known: dict[Node, Node] = {}
    stack = list(pairs)
    while stack:
        one, other = stack.pop()
        if isinstance(one, Constant) or isinstance(other, Constant):
            if one is not other and not (isinstance(one, Constant) and one == other):
                return False
            continue
        node, second = one.node, other.node
        if one.index != other.index:
            return False
        if node is second or known.get(node) is second:
            continue
        if node in known or not is_same_call(node, second):
            return False
        known[node] = second
        stack.extend((value, now) for (_, value), (_, now) in zip(node.values(), second.values(), strict=True))
    return True


def is_same_call(one: Node, other: Node) -> bool:
    """Return whether two nodes are the same operation at the same place, of as many operands."""
    return (
        (one.op, one.types, one.location) == (other.op, other.types, other.location)
        and dict(one.attributes) == dict(other.attributes)
        and [name for name, _ in one.values()] == [name for name, _ in other.values()]
    )

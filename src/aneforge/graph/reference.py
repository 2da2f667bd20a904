"""What the mathematics says: a graph evaluated in float64, whole numbers and bool in their own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.graph import PLACEHOLDERS, STATE, Graph, as_graph
from aneforge.ops.constant import Constant
from aneforge.ops.op import meaning_dtype

if TYPE_CHECKING:
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Node, Output
    from aneforge.ops.types import Array, TensorType

__all__ = ["Feed", "evaluate", "reference"]

Feed = Mapping[str, "Array"] | Sequence["Array"]
"""Values for the inputs: by name, or in the order in which the inputs were made."""


def reference(graph: GraphLike, inputs: Feed = (), states: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return the outputs of a graph as the mathematics gives them, without any rounding of the engine's.

    States start from `states`, or from zeros.

    >>> import aneforge as af
    >>> x = af.input((2,))
    >>> af.reference(x * 3.0, [np.array([1.0, -2.0])])["y"].tolist()
    [3.0, -6.0]

    Raises:
        GraphError: A value is missing, unknown or of the wrong shape; or an operation has no meaning of its own.
    """
    results, _ = evaluate(as_graph(graph), inputs, states)
    return results


def evaluate(
    graph: Graph, inputs: Feed = (), states: Mapping[str, Array] | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return outputs and final states. A value is dropped after its last reader, so memory follows the widest cut."""
    given = placeholder_values(graph, inputs, states or {})
    results = [*graph.outputs.values(), *graph.states.values()]
    remaining = {node: len(readers) for node, readers in graph.consumers.items()}
    for output in results:
        remaining[output.node] += 1
    values: dict[Node, tuple[Array, ...]] = {}
    for node in graph.nodes:
        values[node] = given[node] if node.op.name in PLACEHOLDERS else evaluate_node(node, values)
        for source in dict.fromkeys(value.node for value in node.sources()):
            remaining[source] -= 1
            if not remaining[source]:
                del values[source]
    named = [
        {name: values[output.node][output.index] for name, output in outputs.items()}
        for outputs in (graph.outputs, graph.states)
    ]
    return named[0], named[1]


def evaluate_node(node: Node, values: Mapping[Node, tuple[Array, ...]]) -> tuple[Array, ...]:
    """Return the results of one node, given those of the nodes it reads."""

    def array_of(value: Output | Constant) -> Array:
        if isinstance(value, Constant):
            return value.dense().astype(meaning_dtype(value.type.dtype))
        return values[value.node][value.index]

    def argument_of(argument: Argument) -> Array | tuple[Array, ...]:
        return tuple(map(array_of, argument)) if isinstance(argument, tuple) else array_of(argument)

    operands = {name: argument_of(argument) for name, argument in node.operands.items()}
    try:
        return node.op.evaluate(operands, node.attributes)
    except GraphError as error:
        error.operation = error.operation or node.op.name
        error.location = error.location or node.location
        raise


def placeholder_values(graph: Graph, inputs: Feed, states: Mapping[str, Array]) -> Mapping[Node, tuple[Array, ...]]:
    """Return the value of every input and state placeholder."""
    named = inputs if isinstance(inputs, Mapping) else dict(zip(graph.inputs, inputs, strict=False))
    if not isinstance(inputs, Mapping) and len(inputs) != len(graph.inputs):
        raise GraphError("the inputs do not match", seen=len(inputs), limit=f"{len(graph.inputs)} values")
    if unknown := sorted(set(named) - set(graph.inputs)):
        raise GraphError(f"there is no input {unknown[0]!r}", limit=", ".join(graph.inputs) or "no inputs")
    found: dict[Node, tuple[Array, ...]] = {}
    for name, node in graph.inputs.items():
        if name not in named:
            raise GraphError(f"input {name!r} has no value", limit=", ".join(graph.inputs))
        found[node] = (fitted(f"input {name!r}", named[name], node.types[0]),)
    for node in graph.nodes:
        if node.op.name == STATE:
            name = str(node.attributes["name"])
            start = states[name] if name in states else np.zeros(node.types[0].shape)
            found[node] = (fitted(f"state {name!r}", start, node.types[0]),)
    return found


def fitted(what: str, value: Array, wanted: TensorType) -> Array:
    """Return a value in the type of the mathematics; its shape must be right."""
    array = np.asarray(value)
    if array.shape != wanted.shape:
        raise GraphError(f"{what} has the wrong shape", seen=list(array.shape), limit=list(wanted.shape))
    return array.astype(meaning_dtype(wanted.dtype))

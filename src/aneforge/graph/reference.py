"""What the mathematics says: a graph evaluated in float64, integers and bool in their own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.graph import PLACEHOLDERS, Graph, as_graph
from aneforge.graph.node import all_types
from aneforge.ops.constant import Constant
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.types import is_float, is_integer, numpy_dtypes, value_range

if TYPE_CHECKING:
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Node, Output
    from aneforge.ops.types import Array, TensorType

__all__ = ["Feed", "evaluate", "fit_value", "reference"]

MOST_ELEMENTS = 2**30
"""Largest tensor that the reference evaluates: 8 GiB of float64."""
Feed = Mapping[str, "Array"] | Sequence["Array"]
"""Values for the inputs: by name, or in the order in which the inputs were made."""


def reference(graph: GraphLike, inputs: Feed = (), states: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return the mathematical outputs of a graph, without the rounding of the engine.

    States start from `states`, or from zeros. A floating-point input takes real numbers of any type, an integer input
    takes integers that it can hold, and a boolean input takes booleans.

    >>> import aneforge as af
    >>> x = af.input((2,))
    >>> af.reference(x * 3.0, [np.array([1.0, -2.0])])["y"].tolist()
    [3.0, -6.0]

    Raises:
        GraphError: A value is missing, unknown, of the wrong shape or out of range; or an operation has no meaning of
            its own.
        GraphTypeError: A value has a type that its input does not take, or the values are neither list nor mapping.
    """
    results, _ = evaluate(as_graph(graph), inputs, states)
    return results


def evaluate(
    graph: Graph, inputs: Feed = (), states: Mapping[str, Array] | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return outputs and final states. A value is dropped after its last reader, so memory follows the widest cut."""
    given = placeholder_values(graph, inputs, {} if states is None else states)
    results = [*graph.outputs.values(), *graph.states.values()]
    remaining = {node: len(readers) for node, readers in graph.consumers.items()}
    for output in results:
        remaining[output.node] += 1
    values: dict[Node, tuple[Array, ...]] = {}
    for node in graph.nodes:
        check_size(node)
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


def check_size(node: Node) -> None:
    """Refuse a node whose result would not fit any memory that is likely here.

    Raises:
        GraphError: It is too large.
    """
    elements = max(kind.size for kind in all_types(node))
    if elements > MOST_ELEMENTS:
        raise GraphError(
            "a tensor is too large to be evaluated",
            operation=node.op.name,
            location=node.location,
            seen=f"{elements} elements",
            limit=MOST_ELEMENTS,
        )


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
    values = check_named_values("input", in_order(inputs, graph.inputs), graph.inputs)
    starts = check_named_values("state", states, graph.state_placeholders)
    found: dict[Node, tuple[Array, ...]] = {}
    for name, node in graph.inputs.items():
        if name not in values:
            raise GraphError(f"input {name!r} has no value", limit=", ".join(graph.inputs))
        found[node] = (fit_value(f"input {name!r}", values[name], node.types[0]),)
    for name, node in graph.state_placeholders.items():
        kind = node.types[0]
        start = starts[name] if name in starts else np.zeros(kind.shape, meaning_dtype(kind.dtype))
        found[node] = (fit_value(f"state {name!r}", start, kind),)
    return found


def in_order(inputs: Feed, known: Mapping[str, Node]) -> object:
    """Return values by name, where they were given in the order of the inputs.

    Raises:
        GraphError: There are more or fewer of them than inputs.
    """
    if not isinstance(inputs, Sequence) or isinstance(inputs, str | bytes):
        return inputs
    if len(inputs) != len(known):
        raise GraphError("the inputs do not match", seen=len(inputs), limit=f"{len(known)} values")
    return dict(zip(known, inputs, strict=True))


def check_named_values(what: str, given: object, known: Mapping[str, Node]) -> Mapping[str, object]:
    """Return values that are given by name, every name a known one.

    Raises:
        GraphTypeError: It is not a mapping, or a name is not text.
        GraphError: A name is unknown.
    """
    if not isinstance(given, Mapping):
        forms = "a list or a mapping" if what == "input" else "a mapping"
        remedy = f"give {forms} of arrays"
        raise GraphTypeError(f"the values of the {what}s are not {forms}", seen=type(given).__name__, remedy=remedy)
    for name in cast("Mapping[object, object]", given):
        if not isinstance(name, str):
            raise GraphTypeError(f"the name of {what} {name!r} is not text", seen=type(name).__name__)
        if name not in known:
            raise GraphError(f"there is no {what} {name!r}", limit=", ".join(known) or f"no {what}s")
    return cast("Mapping[str, object]", given)


def fit_value(what: str, value: object, wanted: TensorType) -> Array:
    """Return a value in the type of the mathematics, its shape, element type and range checked.

    Raises:
        GraphTypeError: Its elements are of a sort that the type does not take.
        GraphError: Its shape is wrong, or an integer is out of range.
    """
    array = array_of(what, value)
    if array.shape != wanted.shape:
        raise GraphError(f"{what} has the wrong shape", seen=list(array.shape), limit=list(wanted.shape))
    takes, sorts = describe_taken(wanted.dtype)
    if sort_of(array) not in sorts:
        raise GraphTypeError(f"{what} is {wanted.dtype} and takes {takes}", seen=str(array.dtype))
    if is_integer(wanted.dtype):
        check_range(what, array, wanted.dtype)
    with np.errstate(over="ignore"):  # a number beyond float64 is infinite there
        return array.astype(meaning_dtype(wanted.dtype))


def array_of(what: str, value: object) -> Array:
    """Return a value as an array.

    Raises:
        GraphTypeError: NumPy makes none of it.
    """
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise GraphTypeError(f"{what} is not an array: {error}", seen=type(value).__name__) from None


def describe_taken(dtype: str) -> tuple[str, tuple[str, ...]]:
    """Return which elements a placeholder of an element type takes: in words, and their sorts."""
    if is_float(dtype):
        return "real numbers", ("float", "integer")
    return ("integers", ("integer",)) if is_integer(dtype) else ("bool", ("bool",))


def sort_of(array: Array) -> str:
    """Return the sort of an array's elements: float, integer, bool, or other."""
    name = next((name for name, dtype in numpy_dtypes().items() if dtype == array.dtype), "")
    if name:  # also the types that are not NumPy's own
        return "float" if is_float(name) else "integer" if is_integer(name) else "bool"
    return {"f": "float", "i": "integer", "u": "integer"}.get(array.dtype.kind, "other")


def check_range(what: str, array: Array, dtype: str) -> None:
    """Check that a type of integers holds all of an array's.

    Raises:
        GraphError: It does not.
    """
    least, most = value_range(dtype)
    for extreme in (array.min(), array.max()) if array.size else ():
        if not least <= int(extreme) <= most:
            raise GraphError(f"{what} is out of range for {dtype}", seen=int(extreme), limit=f"{least} to {most}")

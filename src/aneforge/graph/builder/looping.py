"""Loops: one operation for all iterations, with the body as a graph of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError
from aneforge.graph.bodies import body_input, enclose
from aneforge.graph.builder.arguments import tensor_list
from aneforge.graph.methods.base import build_checked
from aneforge.graph.methods.method_arguments import misuse
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["scan"]


def scan(
    body: Callable[..., Tensor | Sequence[Tensor]], states: Sequence[Tensor], rows: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Run a function once for every slice of tensors along their first axis, with states carried between iterations.

    `body` is called once, with a tensor for each state and for one slice of each row; it returns the next states and
    then what every iteration gives. The results are the final states and the rest, stacked along a new first axis.
    Other tensors that the function reads are the same in every iteration. However many iterations there are, the graph
    has one operation.

    >>> import aneforge as af
    >>> x = af.input((3, 2), name="x")
    >>> def add(total, row):
    ...     total = total + row
    ...     return total, total
    >>> total, sums = af.scan(add, [af.input((2,), name="start")], [x])
    >>> af.reference(sums, {"x": [[1, 2], [3, 4], [5, 6]], "start": [0, 0]})["y"].tolist()
    [[1.0, 2.0], [4.0, 6.0], [9.0, 12.0]]

    Raises:
        GraphTypeError: Something is not a tensor, or `body` is not a function.
        GraphError: The rows have different lengths or none, a state changes its type, or the body makes an input.
    """
    if not callable(body):
        raise misuse("scan", "the body must be a function of tensors", seen=type(body).__name__, error=GraphTypeError)
    carried = () if isinstance(states, list | tuple) and not states else tensor_list(states, "scan")
    sliced = tensor_list(rows, "scan")
    inputs = {f"state{place}": body_input(f"state{place}", one.type) for place, one in enumerate(carried)}
    for place, one in enumerate(sliced):
        inputs[f"row{place}"] = body_input(f"row{place}", one.type.with_shape(*one.shape[1:]))
    given = body(*inputs.values())
    results = [given] if isinstance(given, Output) else list(given)
    made, fixed = enclose(inputs, tensor_list(results, "scan"))
    node = build_checked("scan", {"states": tuple(carried), "rows": tuple(sliced), "fixed": fixed}, body=made)
    return tuple(Tensor(node, index) for index in range(len(node.types)))

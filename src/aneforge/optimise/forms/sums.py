"""Sums as products with ones: the accumulator of a product adds in fixed point, a sum rounds as it goes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, overload

import numpy as np

from aneforge.graph.graph import Graph, as_graph
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.types import is_float
from aneforge.targets.queries import least_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Node, Output

__all__ = ["reduce_sum_to_matmul"]


@overload
def reduce_sum_to_matmul(out: Output) -> Tensor: ...
@overload
def reduce_sum_to_matmul(out: GraphLike) -> Graph | Tensor: ...
def reduce_sum_to_matmul(out: GraphLike) -> Graph | Tensor:
    """Return a graph whose sums are matrix products with ones; of a tensor it is a tensor.

    >>> import aneforge as af
    >>> y = reduce_sum_to_matmul(af.input((4, 1024)).sum(-1))
    >>> y.shape, [node.op.name for node in af.Graph({"y": y}).nodes]
    ((4, 1), ['input', 'matmul'])

    Raises:
        GraphError: There is no output.
        GraphTypeError: It is not a graph.
    """
    made = rewrite(as_graph(out), product_of_sum)
    if isinstance(out, Tensor):
        (only,) = made.outputs.values()
        return Tensor(only.node, only.index)
    return made


def product_of_sum(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Return the product that stands for a sum; None for anything else, and for a sum that is too long."""
    x = operands.get("x")
    if node.op.name != "reduce_sum" or not isinstance(x, Tensor) or not is_float(x.type.dtype):
        return None
    rank = x.type.rank
    given = node.optional_integers("axes")
    axes = sorted({normalise_axis(axis, rank) for axis in (range(rank) if given is None else given)})
    terms = math.prod(x.shape[axis] for axis in axes)
    if not axes or terms > least_limit("max_tensor_dim"):  # of a contraction it is the longest that every family takes
        return None
    order = (*(axis for axis in range(rank) if axis not in axes), *axes)
    moved = x if order == tuple(range(rank)) else x.transpose(order)
    rows = moved.reshape(x.type.size // terms, terms) if moved.shape != (x.type.size // terms, terms) else moved
    total = rows @ np.ones((terms, 1), np.float16)
    shape = node.types[0].shape
    return [total if total.shape == shape else total.reshape(shape)]

"""Values that a program computes and that are nevertheless known when it is read: they depend on constants and shapes.

Programs with flexible shapes compute their parameters from the `shape` of a tensor. A graph has fixed shapes, so what
such statements give is a constant, and is accepted where MIL requires one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.graph import INPUT, STATE, work_of
from aneforge.graph.reference import evaluate_node
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from aneforge.graph.node import Node
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

__all__ = ["fold_tensor"]

SHAPE = "shape"
MOST_ELEMENTS = 2**22
"""Elements of any tensor on the way: weights that are transposed are within it, a computation is not."""
MOST_MACS = 10**8
MOST_NODES = 4096
UNKNOWN = {INPUT, STATE}


def fold_tensor(tensor: Tensor) -> Dense | None:
    """Return a value that only constants and shapes decide; None for any other, and for one that is much work.

    >>> import aneforge as af
    >>> x = af.input((2, 3))
    >>> from aneforge.graph.node import build
    >>> from aneforge.graph.tensor import Tensor
    >>> fold_tensor(Tensor(build("shape", {"x": x}, {}))).values.tolist(), fold_tensor(x.relu())
    ([2, 3], None)
    """
    nodes = nodes_before(tensor)
    if nodes is None:
        return None
    values: dict[Node, tuple[Array, ...]] = {}
    for node in nodes:
        values[node] = shape_of(node) if node.op.name == SHAPE else evaluate_node(node, values)
    with np.errstate(over="ignore"):
        found = np.array(values[tensor.node][tensor.index]).astype(numpy_dtype(tensor.type.dtype))
    return Dense.owning(found)


def nodes_before(tensor: Tensor) -> list[Node] | None:
    """Return the nodes that decide a value, each after those that it reads; None if they are not to be evaluated."""
    ordered: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(tensor.node, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            ordered[node] = None
        if ready or node in ordered:
            continue
        if len(stack) + len(ordered) > MOST_NODES or not is_light(node):
            return None
        stack.append((node, True))
        sources = () if node.op.name == SHAPE else node.sources()
        stack.extend((source.node, False) for source in sources if source.node not in ordered)
    return list(ordered)


def is_light(node: Node) -> bool:
    """Return whether a node can be evaluated while a program is read."""
    if node.op.name in UNKNOWN or node.op.meaning is None or node.op.name.startswith("random"):
        return False
    return max(kind.size for kind in node.types) <= MOST_ELEMENTS and work_of(node).macs <= MOST_MACS


def shape_of(node: Node) -> tuple[Array]:
    """Return the lengths that a shape operation gives."""
    x = node.operands["x"]
    if isinstance(x, tuple):
        raise TypeError("shape reads one tensor")
    return (np.array(x.type.shape, np.int32),)

"""The operands of products: which can be multiplied, who reads them, and where a factor goes without a layer more."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.graph.graph import STATE
from aneforge.graph.node import Output
from aneforge.ops.results import Taking
from aneforge.ops.types import is_float
from aneforge.optimise.compress.weighted_products import CONVOLUTIONS, MATRIX_PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Value

    Key = tuple[Node, int]

__all__ = [
    "ATTENTION", "PRODUCTS", "bound_growth", "find_contracted_axis", "find_host", "find_leaving", "find_readers",
    "find_state_readers", "get_bias", "get_second", "get_sizing_tensors",
]  # fmt: skip

PRODUCTS = CONVOLUTIONS | MATRIX_PRODUCTS | {"linear", "conv_transpose"}
"""Operations whose sums are of products of two operands, and nothing else."""
ATTENTION = frozenset({"sdpa"})
"""Operations that weigh the rows of their values by softmax rows: linear in the values, and in nothing else."""
HOSTS = PRODUCTS | {"add", "sub", "mul"}
"""Operations with a gain slot after them, into which a factor goes without a layer more."""
WINOGRAD_GROWTH = 4.0
"""A transformed column of data is at most twice, and the four of weights together twice, what they are made of."""
WINOGRAD_WIDTH = 3


def get_second(node: Node) -> str:
    """Return the name of the operand with which a product multiplies x, and attention its weights."""
    if node.op.name in ATTENTION:
        return "value"
    return "y" if node.op.name in MATRIX_PRODUCTS else "weight"


def get_bias(node: Node) -> Value | None:
    """Return the operand at which sums start."""
    return cast("Value | None", node.operands.get("bias"))


def get_sizing_tensors(node: Node) -> tuple[Output, ...]:
    """Return the tensors whose sizes bound the sums that are rescaled: of attention only its values.

    Its weights add up to one, whatever queries, keys and mask are.

    >>> import aneforge as af
    >>> x, y = af.input((1, 1, 2, 4)), af.input((1, 1, 2, 4))
    >>> [value.node is y.node for value in get_sizing_tensors(af.sdpa(x, x, y).node)]
    [True]
    """
    return (cast("Output", node.operands["value"]),) if node.op.name in ATTENTION else node.sources()


def find_contracted_axis(node: Node, operand: str) -> int:
    """Return the axis of an operand along which a matrix product adds."""
    return -1 if (operand == "x") != node.is_set(f"transpose_{operand}") else -2


def bound_growth(weights: Value) -> float:
    """Return by how much partial sums may grow where a convolution takes the Winograd form."""
    shape = weights.type.shape
    return WINOGRAD_GROWTH if len(shape) > 2 and shape[-1] == WINOGRAD_WIDTH else 1.0


def find_readers(graph: Graph) -> Mapping[Key, list[tuple[Node, str]]]:
    """Return who reads each value, and as which operand."""
    found: dict[Key, list[tuple[Node, str]]] = {}
    for node in graph.nodes:
        for name, value in node.values():
            if isinstance(value, Output):
                found.setdefault((value.node, value.index), []).append((node, name))
    return found


def find_leaving(graph: Graph) -> set[Key]:
    """Return the values that leave a graph as outputs or states."""
    return {(output.node, output.index) for output in (*graph.outputs.values(), *graph.states.values())}


def find_host(value: Output, graph: Graph, leaving: set[Key]) -> Node | None:
    """Return the operation with a gain slot that makes a value, alone or with movements that nothing else reads.

    A value that leaves the graph has none, for a factor would change it.
    """
    if (value.node, value.index) in leaving:
        return None
    node = value.node
    while moves_one_tensor(node):
        node = node.sources()[0].node
        if len(graph.consumers[node]) != 1 or (node, 0) in leaving:
            return None
    return node if node.op.name in HOSTS and is_float(node.types[0].dtype) else None


def moves_one_tensor(node: Node) -> bool:
    """Return whether every result of a node is an element of the one tensor that it reads, or zero.

    >>> import aneforge as af
    >>> x = af.input((2, 4))
    >>> [moves_one_tensor(y.node) for y in (x.reshape((8,)), x.reverse((1,)), af.split(x, 2, axis=1)[0], x.relu())]
    [True, True, False, False]
    """
    movement = node.op.movement
    if movement is None or movement.taking is not Taking.PLACED or any(movement.added(node.attributes)):
        return False
    moved = all(isinstance(node.operands.get(name), Output) for name in movement.operands)
    return moved and len(node.sources()) == len(node.types) == 1


def find_state_readers(graph: Graph) -> frozenset[Node]:
    """Return the nodes whose values depend on what a state holds."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op.name == STATE or any(value.node in found for value in node.sources()):
            found.add(node)
    return frozenset(found)

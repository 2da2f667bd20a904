"""Which constants of a graph are weights, and which of their axes are output and input channels.

Weights are the constant operands of convolutions, linear layers and matrix products with something that is computed at
run time. Everything else stays dense: biases, norms and tables are small; recurrent operations and einsum are taken
apart before any layer could stream their weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.op import Trait
from aneforge.ops.table import ops_with
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node

__all__ = ["Axes", "Use", "axes_of", "uses"]

CONVOLUTIONS = ops_with(Trait.FORWARD_CONVOLUTION)
MATRIX_PRODUCTS = ops_with(Trait.MATRIX_PRODUCT)


@dataclass(frozen=True, slots=True)
class Axes:
    """The axis of the output channels of a weight, and that of the input channels."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Use:
    """A weight where it is read."""

    node: Node
    operand: str
    name: str
    """The operand's name after the number of its node, as programs call the weight: `t3.weight`."""
    weight: Constant
    axes: Axes


def uses(graph: Graph) -> tuple[Use, ...]:
    """Return every weight of a graph where it is read, in the order of the nodes.

    >>> import numpy as np, aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 4)).linear(np.ones((8, 4)), bias=np.ones(8))})
    >>> [(use.name, use.axes.rows) for use in uses(graph)]
    [('t1.weight', 0)]
    """
    found: list[Use] = []
    for number, node in enumerate(graph.nodes):
        if not node.sources():
            continue
        for operand, argument in node.operands.items():
            axes = axes_of(node, operand) if isinstance(argument, Constant) else None
            if isinstance(argument, Constant) and axes is not None:
                found.append(Use(node, operand, f"t{number}.{operand}", argument, axes))
    return tuple(found)


def axes_of(node: Node, operand: str) -> Axes | None:
    """Return the channels of an operand; None for one that is not a weight."""
    if operand == "weight":
        return weight_axes(node)
    if node.op.name not in MATRIX_PRODUCTS or operand not in ("x", "y"):
        return None
    if rank_of(node.operands, operand) < 2:
        return None  # a vector has no channels
    transposed = node.is_set(f"transpose_{operand}")
    # What is not contracted is the output channels: of the right operand the last axis, of the left the one before.
    rank = rank_of(node.operands, operand)
    last, before = rank - 1, rank - 2
    return Axes(last, before) if (operand == "y") != transposed else Axes(before, last)


def weight_axes(node: Node) -> Axes | None:
    """Return the channels of the operand that is called weight."""
    if node.op.name in CONVOLUTIONS or node.op.name == "linear":
        return Axes(0, 1)
    return Axes(1, 0) if node.op.name == "conv_transpose" else None


def rank_of(operands: Mapping[str, object], operand: str) -> int:
    """Return how many axes an operand has."""
    value = operands[operand]
    return value.type.rank if isinstance(value, Output | Constant) else 0

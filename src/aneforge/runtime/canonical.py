"""Rewritings that change no bit on any target: movements that undo one another, casts to the type there is.

Products with 1 and sums with 0 stay, although the mathematics would let them go: on the engine they turn NaN into
infinity, and −0 into 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node

    Rule = Callable[[Node, Tensor], Tensor | None]

__all__ = ["canonical"]


def cast_same(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a cast to the type that its operand has."""
    return x if node.types[0] == x.type else None


def reshape_same(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a reshape to the shape that its operand has, and one of two in a row."""
    if node.types[0] == x.type:
        return x
    before = x.node.operands.get("x") if x.node.op.name == "reshape" else None
    if not isinstance(before, Tensor):
        return None
    if before.type == node.types[0]:
        return before
    return Tensor(build("reshape", {"x": before}, {"shape": node.types[0].shape}, node.location))


def transpose_chain(node: Node, x: Tensor) -> Tensor | None:
    """Join two transposes in a row, and leave out one that moves nothing."""
    moved = permutation(node)
    source = x
    before = x.node.operands.get("x") if x.node.op.name == "transpose" else None
    if isinstance(before, Tensor):
        inner = permutation(x.node)
        moved, source = tuple(inner[axis] for axis in moved), before
    if moved == tuple(range(len(moved))):
        return source
    if source is x:
        return None
    return Tensor(build("transpose", {"x": source}, {"perm": moved}, node.location))


def permutation(node: Node) -> tuple[int, ...]:
    """Return where each axis of a transpose comes from."""
    perm = cast("Sequence[int]", node.attributes["perm"])
    return tuple(axis % len(perm) for axis in perm)


def not_not(_: Node, x: Tensor) -> Tensor | None:
    """Leave out two negations in a row."""
    before = x.node.operands.get("x") if x.node.op.name == "logical_not" else None
    return before if isinstance(before, Tensor) else None


RULES: Mapping[str, Rule] = {
    "cast": cast_same,
    "logical_not": not_not,
    "reshape": reshape_same,
    "transpose": transpose_chain,
}


def canonical(graph: Graph) -> Graph:
    """Return a graph without movements that undo one another; it gives the same bits.

    >>> import aneforge as af
    >>> x = af.input((2, 3))
    >>> len(canonical(af.Graph({"y": x.transpose((1, 0)).transpose((1, 0)).relu()})).nodes)
    2
    """

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        rule, x = RULES.get(node.op.name), operands.get("x")
        if rule is None or not isinstance(x, Tensor):
            return None
        found = rule(node, x)
        return None if found is None else [found]

    return rewrite(graph, replaced)

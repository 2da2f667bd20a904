"""Rewritings that change no bit on any target: what undoes itself, and what does nothing.

A product with 1 and a sum with 0 do something: the engine turns NaN into infinity, and a sum −0 into 0. So they go only
after operations that give neither: functions of one element are asked for every fp16 number. Their arithmetic is one
for all targets, which a test looks at on every family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.engine.dispatch import UNARY, arithmetic
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.attributed import axis_order
from aneforge.targets import Family, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node

    Numbers = npt.NDArray[np.float16]
    Mask = npt.NDArray[np.bool_]
    Rule = Callable[[Node, Tensor], Tensor | None]
    """What stands for a node, given its operand as it is now; None to keep it."""

__all__ = ["CANON", "by_rules", "canonical"]


def cast_same(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a cast to the type that its operand has."""
    return x if node.types[0] == x.type else None


def reshape_same(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a reshape to the shape that its operand has."""
    return x if node.types[0] == x.type else None


def reshape_chain(node: Node, x: Tensor) -> Tensor | None:
    """Leave out the first of two reshapes in a row."""
    before = x.node.operands.get("x") if x.node.op.name == "reshape" else None
    if not isinstance(before, Tensor):
        return None
    if before.type == node.types[0]:
        return before
    return Tensor(build("reshape", {"x": before}, {"shape": node.types[0].shape}, node.location))


def transpose_chain(node: Node, x: Tensor) -> Tensor | None:
    """Join two transposes in a row, and leave out one that moves nothing."""
    moved = axis_order(node)
    source = x
    before = x.node.operands.get("x") if x.node.op.name == "transpose" else None
    if isinstance(before, Tensor):
        inner = axis_order(x.node)
        moved, source = tuple(inner[axis] for axis in moved), before
    if moved == tuple(range(len(moved))):
        return source
    if source is x:
        return None
    return Tensor(build("transpose", {"x": source}, {"perm": moved}, node.location))


def not_not(_: Node, x: Tensor) -> Tensor | None:
    """Leave out two negations in a row."""
    before = x.node.operands.get("x") if x.node.op.name == "logical_not" else None
    return before if isinstance(before, Tensor) else None


def mul_one(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a product with 1 after an operation that gives no NaN."""
    return x if node.attributes["k"] == 1 and not gives(x.node, np.isnan) else None


def add_zero(node: Node, x: Tensor) -> Tensor | None:
    """Leave out a sum with 0 after an operation that gives neither NaN nor −0."""
    return x if node.attributes["k"] == 0 and not gives(x.node, is_nan_or_minus_zero) else None


def gives(node: Node, number: Callable[[Numbers], Mask]) -> bool:
    """Return whether an operation may give such a number on the engine; a function of one element is asked for all."""
    if node.op.name not in UNARY:
        return True
    results = arithmetic(node.op.name, resolve(Family.A16)).table(node.attributes).view(np.float16)
    return bool(number(results).any())


def is_nan_or_minus_zero(numbers: Numbers) -> Mask:
    """Return for every number whether a sum with 0 changes it."""
    return np.isnan(numbers) | (np.signbit(numbers) & (numbers == 0))


CANON: Mapping[str, Sequence[Rule]] = {
    "adds": (add_zero,),
    "cast": (cast_same,),
    "logical_not": (not_not,),
    "muls": (mul_one,),
    "reshape": (reshape_same, reshape_chain),
    "transpose": (transpose_chain,),
}
"""The rules by the operation that each looks at."""


def canonical(graph: Graph) -> Graph:
    """Return a graph without what undoes itself or does nothing; it gives the same bits.

    >>> import aneforge as af
    >>> x = af.input((2, 3))
    >>> len(canonical(af.Graph({"y": x.transpose((1, 0)).transpose((1, 0)).relu()})).nodes)
    2
    """
    return by_rules(graph, CANON)


def by_rules(graph: Graph, rules: Mapping[str, Sequence[Rule]]) -> Graph:
    """Return a graph in which every node was replaced by what the first rule that applies to it says."""

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        x = operands.get("x")
        if not isinstance(x, Tensor):
            return None
        found = (rule(node, x) for rule in rules.get(node.op.name, ()))
        first = next((one for one in found if one is not None), None)
        return None if first is None else [first]

    return rewrite(graph, replaced)

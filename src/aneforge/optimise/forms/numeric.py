"""Rewritings that mean the same and may round otherwise: scalars joined, constants computed ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.graph import Graph
from aneforge.graph.node import Output, build
from aneforge.graph.reference import reference
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import numpy_dtype
from aneforge.optimise.forms.canonical import by_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.optimise.forms.canonical import Rule

__all__ = ["NUMERIC", "const_fold", "simplify_scalars"]


def muls_chain(node: Node, x: Tensor) -> Tensor | None:
    """Join two products with scalars in a row into one with their product."""
    return chain(node, x, scalar(x.node) * scalar(node)) if x.node.op.name == "muls" else None


def adds_chain(node: Node, x: Tensor) -> Tensor | None:
    """Join two sums with scalars in a row into one with their sum."""
    return chain(node, x, scalar(x.node) + scalar(node)) if x.node.op.name == "adds" else None


def chain(node: Node, x: Tensor, k: float) -> Tensor | None:
    """Return one operation with a scalar in place of two; None where fp16 does not hold the scalar."""
    with np.errstate(over="ignore"):
        held = np.float16(k)
    if not np.isfinite(held) or (held == 0) != (k == 0):
        return None
    return Tensor(build(node.op, {"x": x.node.operands["x"]}, {"k": k}, node.location))


def scalar(node: Node) -> float:
    """Return the scalar of an operation."""
    return node.number("k")


NUMERIC: Mapping[str, Sequence[Rule]] = {"adds": (adds_chain,), "muls": (muls_chain,)}
"""The rules by the operation that each looks at."""


def simplify_scalars(graph: Graph) -> Graph:
    """Return a graph with scalars joined and constants computed ahead.

    >>> import aneforge as af
    >>> x = af.input((1, 4))
    >>> [node.op.name for node in simplify_scalars(af.Graph({"y": x * 2.0 * 3.0 + 1.0 + 1.0})).nodes]
    ['input', 'muls', 'adds']
    """
    return const_fold(by_rules(graph, NUMERIC))


def const_fold(graph: Graph) -> Graph:
    """Return a graph in which what depends on constants only is a constant, computed in float64 and rounded once.

    >>> import numpy as np, aneforge as af
    >>> from aneforge.graph.node import build
    >>> two = af.Tensor(build("muls", {"x": Dense(np.ones((1, 4), np.float16))}, {"k": 2.0}))
    >>> [node.op.name for node in const_fold(af.Graph({"y": af.input((1, 4)) + two.exp()})).nodes]
    ['input', 'add']
    """
    known: dict[Node, Constant] = {}

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        now = {name: fold(argument, known) for name, argument in operands.items()}
        if all(argument is operands[name] for name, argument in now.items()):
            made, results = node, None
        else:
            made = build(node.op, now, node.attributes, node.location)
            results = [Tensor(made, index) for index in range(len(made.types))]
        if operands and len(made.types) == 1 and all(isinstance(one, Constant) for one in now.values()):
            known[made] = compute_node(made)
        return results

    return rewrite(graph, replaced)


def fold(argument: Argument, known: Mapping[Node, Constant]) -> Argument:
    """Return an operand, as a constant where it is known to be one."""
    if isinstance(argument, tuple):
        values = tuple(cast("Value", fold(one, known)) for one in argument)
        return argument if values == argument else values
    return known.get(argument.node, argument) if isinstance(argument, Output) else argument


def compute_node(node: Node) -> Constant:
    """Return what a node of constants gives."""
    made = reference(Graph({"y": Tensor(node)}), {})["y"]
    with np.errstate(over="ignore"):
        return Dense.owning(np.array(made.astype(numpy_dtype(node.types[0].dtype))))

"""What is known before compiling to lose precision: long sums of signed numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.graph.node import Output
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node

__all__ = ["PrecisionRisk", "find_precision_risks"]

LONG_SUM = 256
"""Sums of as many signed numbers are at risk (aneforge docs, precision risk)."""


@dataclass(frozen=True, slots=True)
class PrecisionRisk:
    """An operation whose result may be far from the mathematics."""

    op: str
    location: Location | None
    terms: int
    error: float
    """The relative error to expect, at most 1."""

    def __str__(self) -> str:
        place = f" at {self.location}" if self.location else ""
        return (
            f"{self.op}{place} adds {self.terms} signed numbers: an error of about {self.error:.2g} of the result is "
            "to be expected; a product with ones adds them in fixed point"
        )


def find_precision_risks(graph: Graph) -> tuple[PrecisionRisk, ...]:
    """Return every operation of a graph whose result is at risk, whatever the target.

    >>> import aneforge as af
    >>> [risk.terms for risk in find_precision_risks(af.Graph({"y": af.input((4, 1024)).sum(-1)}))]
    [1024]
    >>> find_precision_risks(af.Graph({"y": af.input((4, 1024)).relu().sum(-1)}))
    ()
    """
    return tuple(iterate_risks(graph))


def iterate_risks(graph: Graph) -> Iterator[PrecisionRisk]:
    """Return the long sums of signed numbers; the error grows with the root of their length."""
    for node in graph.nodes:
        if node.op.name != "reduce_sum":
            continue
        source = node.operands["x"]
        terms = size_of(source) // max(1, node.types[0].size)
        if terms >= LONG_SUM and is_signed(source):
            yield PrecisionRisk("reduce_sum", node.location, terms, min(1.0, 1e-3 * math.sqrt(terms)))


def size_of(argument: Argument) -> int:
    """Return the number of elements of an operand that is one tensor."""
    return 0 if isinstance(argument, tuple) else argument.type.size


def is_signed(argument: Argument) -> bool:
    """Return whether an operand may hold negative numbers, as far as the operation that makes it says."""
    if not isinstance(argument, Output):
        return True
    node = argument.node
    never_negative = node.op.codomain_for(node.attributes).is_never_negative
    return not (never_negative or is_square(node) or node.types[0].dtype.startswith("uint"))


def is_square(node: Node) -> bool:
    """Return whether a node is the product of a tensor with itself."""
    x, y = (node.operands.get(name) for name in ("x", "y"))
    return (
        node.op.name == "mul"
        and isinstance(x, Output)
        and isinstance(y, Output)
        and (x.node, x.index) == (y.node, y.index)
    )

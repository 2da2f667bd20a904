"""The names that users know: which operation of their graph a layer or a finding stands for, by its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.graph import PLACEHOLDERS
from aneforge.ops.op import Trait
from aneforge.ops.table import names, ops_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.errors import Location
    from aneforge.graph.graph import Graph

    Places = Mapping[Location, frozenset[str]]

__all__ = ["name_at", "operations_by_place"]

PRODUCTS = ops_with(Trait.CONVOLUTION) | ops_with(Trait.MATRIX_PRODUCT) | {"linear"}
"""Operations that users write and that become products."""


def operations_by_place(graph: Graph) -> Places:
    """Return the operations of a graph by their places."""
    found: dict[Location, frozenset[str]] = {}
    for node in graph.nodes:
        if node.location is not None and node.op.name not in PLACEHOLDERS:
            found[node.location] = found.get(node.location, frozenset()) | {node.op.name}
    return found


def name_at(op: str, location: Location | None, places: Places) -> str:
    """Return the user's operation that an operation at a place was made of, or its own name where several could be.

    >>> import aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 8)).linear([[1.0] * 8]).relu()})
    >>> [name_at(op, graph.nodes[1].location, operations_by_place(graph)) for op in ("conv", "relu", "sqr")]
    ['linear', 'relu', 'sqr']
    """
    there = frozenset[str]() if location is None else places.get(location, frozenset())
    if op in there or not there:
        return op
    if len(there) == 1:
        return next(iter(there))
    traits = names()[op].traits if op in names() else frozenset[Trait]()
    alike = there & PRODUCTS if op in PRODUCTS else frozenset(one for one in there if names()[one].traits & traits)
    return next(iter(alike)) if len(alike) == 1 else op

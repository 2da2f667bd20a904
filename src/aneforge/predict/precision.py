"""Which operations of a graph may lose more precision than a user expects, whatever the target.

The documented estimate of the original system, which looks at operations alone; `ranges` looks at magnitudes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict, cast

from aneforge.graph.graph import as_graph
from aneforge.graph.node import Output
from aneforge.runtime.precision import precision_risks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.errors import Location
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Node
    from aneforge.runtime.precision import PrecisionRisk

__all__ = ["PrecisionReport", "RiskyNode", "precision_risk"]

MANY = 64
"""A difference of two tensors of at least so many elements is named (aneforge docs, precision risk)."""
LONGEST_GROUP = 65536
"""A group norm over more elements has no form (aneforge docs, precision risk)."""


class RiskyNode(TypedDict):
    """One operation at risk."""

    op: str
    shape: tuple[int, ...]
    location: str | None
    error: float
    """The relative error to expect; 0 where the node is only named."""
    reason: str


class PrecisionReport(TypedDict):
    """The documented form of the answer."""

    graph_error: float
    """The largest expected error of all nodes, at most 1."""
    nodes: list[RiskyNode]
    """In the order of the graph."""
    hotspots: list[RiskyNode]
    """Those with an error, the worst first."""


def precision_risk(out: GraphLike) -> PrecisionReport:
    """Return the operations of a graph that may lose precision, and the error to expect of the whole.

    >>> import aneforge as af
    >>> found = precision_risk(af.input((4, 1024)).sum(-1))
    >>> round(found["graph_error"], 4), [node["op"] for node in found["hotspots"]]
    (0.032, ['reduce_sum'])
    """
    graph = as_graph(out)
    risks = {(risk.location, risk.terms): risk for risk in precision_risks(graph)}
    nodes = [found for node in graph.nodes if (found := risk_of(node, risks)) is not None]
    hotspots = sorted((node for node in nodes if node["error"] > 0), key=lambda node: -node["error"])
    return {"graph_error": hotspots[0]["error"] if hotspots else 0.0, "nodes": nodes, "hotspots": hotspots}


def risk_of(node: Node, risks: Mapping[tuple[Location | None, int], PrecisionRisk]) -> RiskyNode | None:
    """Return what is at risk in a node, if anything is."""
    source = node.operands.get("x")
    if node.op.name == "reduce_sum" and isinstance(source, Output):
        risk = risks.get((node.location, source.type.size // max(1, node.types[0].size)))
        return (
            None if risk is None else risky(node, risk.error, f"adds {risk.terms} signed numbers in fp16 partial sums")
        )
    if node.op.name == "sub" and node.types[0].size >= MANY and len(node.sources()) == len(node.operands):
        return risky(node, 0.0, "the difference of two tensors: where they are close, few bits are left")
    if node.op.name == "group_norm" and isinstance(source, Output):
        channels, places = source.shape[1], math.prod(source.shape[2:])
        longest = max(channels // int(cast("int", node.attributes["num_groups"])), places)
        if longest > LONGEST_GROUP:
            return risky(node, 0.0, f"an axis of {longest} within a group is longer than {LONGEST_GROUP}")
    return None


def risky(node: Node, error: float, reason: str) -> RiskyNode:
    """Return a node at risk in the documented form."""
    place = str(node.location) if node.location else None
    return {"op": node.op.name, "shape": node.types[0].shape, "location": place, "error": error, "reason": reason}

"""Which operations of a graph may lose more precision than a user expects.

The documented estimate of the original system looks only at operations, whatever the target. Where magnitudes of
inputs are given or promised, `ranges` is asked too: a result that can be infinite, or a sum that can pass the
accumulator's edge, loses everything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

from aneforge.analysis.long_sums import find_precision_risks
from aneforge.analysis.ranges.analysis import Edge
from aneforge.analysis.ranges.analysis import ranges as range_report
from aneforge.graph.convert import unroll
from aneforge.graph.graph import as_graph, read_promises
from aneforge.graph.node import Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.analysis.long_sums import PrecisionRisk
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.targets import TargetLike

__all__ = ["PrecisionReport", "RiskyNode", "precision_risk"]

MANY = 64
"""A difference of two tensors of at least this many elements is named (aneforge docs, precision risk)."""
FATAL = (Edge.FP16, Edge.ACCUMULATOR, Edge.CROP, Edge.INT8)
"""Edges beyond which values are infinite."""
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
    """In the order of the graph; last come those that can pass an edge."""
    hotspots: list[RiskyNode]
    """Those with an error, the worst first."""


def precision_risk(
    out: GraphLike, *, ranges: Mapping[str, tuple[float, float] | float] | None = None, target: TargetLike = None
) -> PrecisionReport:
    """Return the operations of a graph that may lose precision, and the expected error of the whole graph.

    `ranges` are magnitudes or ends of inputs; the default is the `max_abs` that an input promises. With either,
    operations that can exceed an edge of the target (by default this machine's) are included.

    >>> import aneforge as af
    >>> found = precision_risk(af.input((4, 1024)).sum(-1))
    >>> round(found["graph_error"], 4), [node["op"] for node in found["hotspots"]]
    (0.032, ['reduce_sum'])
    >>> promised = af.input((4, 8), max_abs=300.0)
    >>> [node["reason"] for node in precision_risk(promised * promised, target=af.targets.Family.A16)["hotspots"]]
    ['fp16 overflow: 9e+04 against 65504, margin -0.5 bits']

    Raises:
        UnknownNameError: There is no input with a given name.
        IllegalGraphError: Magnitudes are known, and the graph cannot run on the target.
    """
    graph = unroll(as_graph(out)).graph
    risks = {(risk.location, risk.terms): risk for risk in find_precision_risks(graph)}
    nodes = [found for node in graph.nodes if (found := risk_of(node, risks)) is not None]
    if ranges or read_promises(graph):
        nodes += passing(graph, ranges, target)
    hotspots = sorted((node for node in nodes if node["error"] > 0), key=lambda node: -node["error"])
    return {"graph_error": hotspots[0]["error"] if hotspots else 0.0, "nodes": nodes, "hotspots": hotspots}


def passing(
    graph: Graph, ranges: Mapping[str, tuple[float, float] | float] | None, target: TargetLike
) -> Iterator[RiskyNode]:
    """Yield the operations that can pass an edge beyond which nothing is left of a result, not those after them."""
    shapes = {(node.location, node.op.name): node.types[0].shape for node in graph.nodes}
    for layer in range_report(graph, ranges, target=target).layers:
        for concern in layer.passed:
            if concern.edge in FATAL and not concern.inherited:
                place = str(layer.location) if layer.location else None
                shape = shapes.get((layer.location, layer.op), ())
                yield {"op": layer.op, "shape": shape, "location": place, "error": 1.0, "reason": str(concern)}


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
        longest = max(channels // node.integer("num_groups"), places)
        if longest > LONGEST_GROUP:
            return risky(node, 0.0, f"an axis of {longest} within a group is longer than {LONGEST_GROUP}")
    return None


def risky(node: Node, error: float, reason: str) -> RiskyNode:
    """Return a node at risk in the documented form."""
    place = str(node.location) if node.location else None
    return {"op": node.op.name, "shape": node.types[0].shape, "location": place, "error": error, "reason": reason}

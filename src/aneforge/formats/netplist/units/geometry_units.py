"""Layers of points in space that need more than their row of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.formats.netplist.plist import quote_value
from aneforge.formats.netplist.units.read_row import read_row

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["GEOMETRY"]


def furthest_points(layer: Layer) -> Value:
    """Return the points that are farthest from those chosen before; the distance is Euclidean whatever is asked for."""
    if layer.params.text("DistanceMetric") == "L1":
        warn(
            f"unit {quote_value(layer.unit.name)}: DistanceMetric L1 computes L2, as the engine was seen to do",
            UserWarning,
        )
    return read_row(layer)


GEOMETRY: dict[str, LayerReader] = {"FurthestPointSampling": furthest_points}

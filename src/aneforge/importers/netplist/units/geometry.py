"""Layers of vectors, points and image rows. Coordinates lie along channels, points along width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.importers.netplist.layer import dims_of
from aneforge.importers.netplist.schema import Dim

if TYPE_CHECKING:
    from aneforge.graph.node import Value
    from aneforge.importers.netplist.layer import Layer, LayerReader

__all__ = ["GEOMETRY"]

POINTS_FIRST = (1, 0)


def cross_product(layer: Layer) -> Value:
    """Return the cross products of vectors along the channels."""
    a, b = layer.bottoms
    for what, value in (("the first tensor", a), ("the second tensor", b)):
        layer.expect_one(Dim.BATCH, value=value, what=what)
    shapes = [layer.reshaped(value, value.type.shape[1:]) for value in (a, b)]
    result = layer.build("cross_product", {"a": shapes[0], "b": shapes[1]})
    return layer.reshaped(result, (1, *result.shape))


def cost_volume(layer: Layer) -> Value:
    """Return the costs of all disparities of a row."""
    rows = [row(layer, value, what) for value, what in zip(layer.bottoms, ("aux", "ref"), strict=True)]
    reach = layer.params.whole("DisparityRange")
    result = layer.build("cost_volume", {"aux": rows[0], "ref": rows[1]}, disparity_range=reach)
    return layer.reshaped(result, (1, reach + 1, 1, result.shape[1]))


def row(layer: Layer, value: Value, what: str) -> Value:
    """Return a tensor of one row as a vector.

    Raises:
        GraphError: It has more rows.
    """
    layer.expect_one(Dim.BATCH, Dim.CHANNEL, Dim.DEPTH, Dim.HEIGHT, value=value, what=what)
    return layer.reshaped(value, (dims_of(value).width,))


def points(layer: Layer, value: Value, what: str) -> Value:
    """Return points [points, coordinates].

    Raises:
        GraphError: They lie otherwise.
    """
    layer.expect_one(Dim.BATCH, Dim.DEPTH, Dim.HEIGHT, value=value, what=what)
    dims = dims_of(value)
    return layer.transposed(layer.reshaped(value, (dims.channel, dims.width)), POINTS_FIRST)


def farthest_points(layer: Layer) -> Value:
    """Return points that are far from each other."""
    given = points(layer, layer.x, "points")
    result = layer.build("fps", {"points": given}, k=layer.params.whole("CentroidCount"))
    return layer.reshaped(layer.transposed(result, POINTS_FIRST), (1, 3, 1, result.shape[0]))


def radius_search(layer: Layer) -> Value:
    """Return which points (rows) lie within the radius of which centroids (columns)."""
    centroids, searched = (
        points(layer, value, what) for value, what in zip(layer.bottoms, ("centroids", "points"), strict=True)
    )
    operands = {"points": searched, "centroids": centroids}
    result = layer.build("radius_search", operands, radius=layer.params.number("Radius"))
    return layer.reshaped(result, (1, 1, *result.shape))


def matrix_decomposition(layer: Layer) -> Value:
    """Return a decomposition, the operation whose mathematics no source gives."""
    layer.expect_one(Dim.BATCH)
    x = layer.reshaped(layer.x, layer.x.type.shape[1:])
    epsilon = layer.params.number("Epsilon") if layer.params.has("Epsilon") else None
    axis = layer.params.wholes("RotationAxis") if layer.params.has("RotationAxis") else None
    kind = layer.params.text("Type")
    result = layer.build("matrix_decomposition", {"x": x}, type=kind, epsilon=epsilon, rotation_axis=axis)
    return layer.reshaped(result, (1, *result.shape))


GEOMETRY: dict[str, LayerReader] = {
    "CostVolume": cost_volume,
    "CrossProduct": cross_product,
    "FurthestPointSampling": farthest_points,
    "MatrixDecomposition": matrix_decomposition,
    "RadiusSearch": radius_search,
}

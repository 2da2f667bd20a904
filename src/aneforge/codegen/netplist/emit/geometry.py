"""Vectors, points and image rows: coordinates along channels, points along width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.importers.netplist.schema import Dim

if TYPE_CHECKING:
    from aneforge.codegen.netplist.call import Call, Writer
    from aneforge.codegen.netplist.values import Held
    from aneforge.importers.netplist.document import Parameter

__all__ = ["GEOMETRY"]

POINTS = (Dim.WIDTH, Dim.CHANNEL)
VECTOR_PLACES = (Dim.DEPTH, Dim.HEIGHT, Dim.WIDTH)


def vector_axes(call: Call, rank: int) -> tuple[Dim, ...]:
    """Return where vectors along the first axis lie.

    Raises:
        NotSupportedError: There are more axes than dimensions.
    """
    if rank > 1 + len(VECTOR_PLACES):
        raise call.to.refuse(
            "vectors lie along channels, and there are three more dimensions",
            seen=f"{rank} axes",
            limit=4,
            nearest="reshape the other axes into three",
        )
    return Dim.CHANNEL, *VECTOR_PLACES[len(VECTOR_PLACES) - rank + 1 :]


def cross_product(call: Call) -> Held:
    """Write cross products."""
    axes = vector_axes(call, len(call.shape))
    bottoms = [call.to.place(call.to.floats(call.operand(name)), axes) for name in ("a", "b")]
    return call.to.unit("CrossProduct", bottoms, {}, bottoms[0])


def cost_volume(call: Call) -> Held:
    """Write the costs of all disparities."""
    to = call.to
    bottoms = [to.place(to.floats(call.operand(name)), (Dim.WIDTH,)) for name in ("aux", "ref")]
    params: dict[str, Parameter] = {
        "DisparityDirection": 0,
        "DisparityRange": call.whole("disparity_range"),
        "ScaleFactorX": 1,
        "ScaleFactorY": 1,
    }
    return to.unit("CostVolume", bottoms, params, to.result(call.shape, (Dim.CHANNEL, Dim.WIDTH)))


def farthest_points(call: Call) -> Held:
    """Write points that are far from each other."""
    to = call.to
    points = to.place(to.floats(call.operand("points")), POINTS)
    params: dict[str, Parameter] = {"CentroidCount": call.whole("k"), "DistanceMetric": "L2"}
    return to.unit("FurthestPointSampling", [points], params, to.result(call.shape, POINTS))


def radius_search(call: Call) -> Held:
    """Write which points lie within the radius of which centroids."""
    to = call.to
    bottoms = [to.place(to.floats(call.operand(name)), POINTS) for name in ("centroids", "points")]
    like = to.result(call.shape, (Dim.HEIGHT, Dim.WIDTH))
    return to.unit("RadiusSearch", bottoms, {"Radius": call.number("radius")}, like)


def matrix_decomposition(call: Call) -> Held:
    """Write a decomposition; that no source gives its mathematics does not matter here."""
    to = call.to
    axes = vector_axes(call, len(call.shape))
    x = to.place(to.floats(call.x), axes)
    params: dict[str, Parameter] = {"Type": call.text("type")}
    if call.node.attributes["epsilon"] is not None:
        params["Epsilon"] = to.number(call.number("epsilon"), "epsilon")
    axis = call.wholes("rotation_axis")
    if axis is not None:
        params["RotationAxis"] = axis
    return to.unit("MatrixDecomposition", [x], params, to.result(call.shape, axes))


GEOMETRY: dict[str, Writer] = {
    "cost_volume": cost_volume,
    "cross_product": cross_product,
    "fps": farthest_points,
    "matrix_decomposition": matrix_decomposition,
    "radius_search": radius_search,
}

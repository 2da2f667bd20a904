"""Layers that order elements or return where an extreme one is.

Sort and TopK order the columns of a tensor by one channel's elements. Where there is one channel, that is the table's
operation; else the places of that channel's order are gathered from all channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.schema import Dim
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["RANKING"]

WIDTH, CHANNEL = 3, 1


def sort(layer: Layer) -> Value:
    """Return the columns in order, or their places."""
    ascending = layer.params.text("Direction") == "Ascending"
    key = key_row(layer)
    if layer.params.flag("Indices"):
        return layer.converted(layer.build("argsort", {"x": key}, axis=WIDTH, ascending=ascending))
    if layer.dims.channel == 1:
        return layer.build("sort", {"x": layer.x}, axis=WIDTH, descending=not ascending)
    return columns(layer, layer.build("argsort", {"x": key}, axis=WIDTH, ascending=ascending))


def topk(layer: Layer) -> Value:
    """Return the first columns in order, or their places."""
    ascending, count = layer.params.text("Type") == "Min", layer.params.integer("K")
    if count > layer.dims.width:
        raise layer.error("there are fewer columns than K", seen=count, limit=layer.dims.width)
    key, indices = key_row(layer), layer.params.flag("Indices")
    if layer.dims.channel == 1 and not indices:
        return layer.build("topk", {"x": layer.x}, k=count, axis=WIDTH, ascending=ascending, return_indices=False)
    best = layer.build("topk", {"x": key}, k=count, axis=WIDTH, ascending=ascending)
    places = Tensor(best.node, 1)
    return layer.converted(places) if indices else columns(layer, places)


def key_row(layer: Layer) -> Value:
    """Return the channel by whose elements the columns are ordered.

    Raises:
        GraphError: There is no such channel, or the tensor has rows.
    """
    (lane,) = layer.params.integers("SortIndices")
    layer.expect_one(Dim.BATCH, Dim.DEPTH, Dim.HEIGHT)
    if lane >= layer.dims.channel:
        raise layer.error("SortIndices names no channel", seen=lane, limit=f"less than {layer.dims.channel}")
    if layer.dims.channel == 1:
        return layer.x
    return layer.build("input_view", {"x": layer.x}, axis=CHANNEL, offset=lane, size=1)


def columns(layer: Layer, places: Value) -> Value:
    """Return the columns of all channels at places."""
    shape = (1, layer.dims.channel, 1, places.type.shape[WIDTH])
    repeated = layer.build("broadcast", {"x": places}, shape=shape)
    return layer.build("gather_along_axis", {"x": layer.x, "indices": repeated}, axis=WIDTH)


def arg_extreme(layer: Layer) -> Value:
    """Return the place of the extreme element of every channel's rows and columns, or of the channels at every place.

    Whatever the kernel: so the layer's authors test it on devices (inferred).
    """
    mode = layer.params.text("Mode")
    layer.expect_one(Dim.DEPTH)
    op = "reduce_argmax" if mode.endswith("Max") else "reduce_argmin"
    if mode.startswith("Channel"):
        return build_places(layer, op, layer.x, CHANNEL)
    if layer.dims.width == 1:
        return build_places(layer, op, layer.x, WIDTH - 1)
    batch, channel, _, height, width = layer.dims.extents
    return build_places(layer, op, layer.reshaped(layer.x, (batch, channel, 1, height * width)), WIDTH)


def global_arg_extreme(layer: Layer) -> Value:
    """Return the place of the extreme element along one dimension."""
    op = "reduce_argmax" if layer.params.text("Type") == "Max" else "reduce_argmin"
    return build_places(layer, op, layer.x, layer.axis(layer.params.dim("Dimension")))


def build_places(layer: Layer, op: str, x: Value, axis: int) -> Value:
    """Return places along an axis, which stays with length 1, in the unit's element type."""
    dtype = "uint16" if layer.unit.output_type == "UInt16" else "int32"
    return layer.converted(layer.build(op, {"x": x}, axis=axis, keep_dims=True, output_dtype=dtype))


RANKING: dict[str, LayerReader] = {
    "ArgMinMax": arg_extreme,
    "GlobalArgMinMax": global_arg_extreme,
    "Sort": sort,
    "TopK": topk,
}

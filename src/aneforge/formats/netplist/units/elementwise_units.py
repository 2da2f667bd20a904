"""Layers that compute every element by itself and are more than one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.layer import dims_of
from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.units.read_row import read_row
from aneforge.graph.node import Output

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["ELEMENTWISE"]


def elementwise(layer: Layer) -> Value:
    """Return a function of one tensor, or of two of one shape; booleans become numbers."""
    result = read_row(layer)
    return layer.converted(result) if len(layer.bottoms) > 1 else result


def dynamic_gain_and_offset(layer: Layer) -> Value:
    """Return a product with a gain for every channel, a sum with an offset, or both."""
    x, *others = layer.bottoms
    vectors = [channel_vector(layer, value) for value in others]
    if len(vectors) == 1:
        names = ("offset",) if layer.params.flag("BiasOnly") else ("gain",)
    elif layer.params.flag("BiasOnly"):
        raise layer.error("BiasOnly goes with two bottoms, x and the offset", seen=len(layer.bottoms), limit=2)
    else:
        names = ("gain", "offset")
    given = dict(zip(names, vectors, strict=True))
    if all(isinstance(value, Output) for value in vectors):
        return layer.build("dynamic_goc", {"x": x, **given})
    # The operation of the table takes only tensors of run time, and that of constants takes both.
    shape = [1] * len(x.type.shape)
    shape[1] = dims_of(x).channel
    result = x
    for name, value in given.items():
        op = "mul" if name == "gain" else "add"
        result = layer.build(op, {"x": result, "y": layer.reshaped(value, shape)})
    return result


def channel_vector(layer: Layer, value: Value) -> Value:
    """Return a gain or an offset as a vector with one number for every channel of x.

    Raises:
        GraphError: It has other elements.
    """
    layer.expect_one(Dim.BATCH, Dim.DEPTH, Dim.HEIGHT, Dim.WIDTH, value=value, what="a gain or an offset")
    channels = dims_of(value).channel
    if channels != layer.dims.channel:
        raise layer.error("a gain or an offset has other channels than x", seen=channels, limit=layer.dims.channel)
    return layer.reshaped(value, (channels,))


ELEMENTWISE: dict[str, LayerReader] = {
    "DynamicGOC": dynamic_gain_and_offset,
    "ElementWise": elementwise,
}

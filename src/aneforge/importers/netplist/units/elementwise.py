"""Layers that compute every element by itself: activations, pairs, gain and offset, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.node import Output
from aneforge.importers.netplist.layer import dims_of
from aneforge.importers.netplist.schema import Dim, layer_table

if TYPE_CHECKING:
    from aneforge.graph.node import Value
    from aneforge.importers.netplist.layer import Layer, LayerReader

__all__ = ["ELEMENTWISE"]


def neuron(layer: Layer) -> Value:
    """Return an activation."""
    entry = layer_table().neurons[layer.params.text("Type")]
    numbers = {attribute: layer.params.number(name) for name, attribute in entry.numbers.items()}
    return layer.build(entry.op, {"x": layer.x}, **numbers, **entry.fixed)


def elementwise(layer: Layer) -> Value:
    """Return a function of one tensor, or of two of one shape."""
    kind = layer.params.text("Type")
    entry = layer_table().elementwise[kind]
    if len(layer.bottoms) != entry.bottoms:
        raise layer.error(f"{kind} reads another number of tensors", seen=len(layer.bottoms), limit=entry.bottoms)
    if entry.bottoms == 1:
        return layer.build(entry.op, {"x": layer.x})
    return layer.converted(layer.build(entry.op, pair(layer)))


def scaled(layer: Layer) -> Value:
    """Return a scaled function of two tensors of one shape."""
    mode = layer_table().scaled[layer.params.text("Type")]
    return layer.build("scaled_elementwise", pair(layer), mode=mode, scale=layer.params.number("Scale"))


def pair(layer: Layer) -> dict[str, Value]:
    """Return the two tensors of a unit, which must have one shape.

    Raises:
        GraphError: They differ.
    """
    x, y = layer.bottoms
    if x.type.shape != y.type.shape:
        raise layer.error(
            "the two tensors differ in shape, and no source says that one is repeated",
            seen=f"{dims_of(x)} and {dims_of(y)}",
            remedy="put a Broadcast unit before it",
        )
    return {"x": x, "y": y}


def gain_and_offset(layer: Layer) -> Value:
    """Return a product with a number, a sum with one, or both; an offset of 0 adds nothing."""
    scale, offset = layer.params.number("ScaleScalar"), layer.params.number("BiasScalar")
    if not offset:
        return layer.build("muls", {"x": layer.x}, k=scale)
    if scale == 1:
        return layer.build("adds", {"x": layer.x}, k=offset)
    return layer.build("linear_activation", {"x": layer.x}, alpha=scale, beta=offset)


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
    # The operation of the table takes tensors of run time alone, and that of constants takes both.
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


def dropout(layer: Layer) -> Value:
    """Return a dropout that drops nothing."""
    rate, seed = layer.params.number("DropoutRate"), layer.params.whole("Seed")
    return layer.build("dropout", {"x": layer.x}, rate=rate, seed=seed)


ELEMENTWISE: dict[str, LayerReader] = {
    "Dropout": dropout,
    "DynamicGOC": dynamic_gain_and_offset,
    "ElementWise": elementwise,
    "GOC": gain_and_offset,
    "Neuron": neuron,
    "ScaledElementWise": scaled,
}

"""Layers that move elements or repeat them: concat, reshape, transpose, broadcast, views, gather, slices, flatten."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.formats.netplist.document import Dims
from aneforge.formats.netplist.layer import AXES, dims_of
from aneforge.formats.netplist.schema import Dim
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["MOVEMENT"]


def concat(layer: Layer) -> Value:
    """Return tensors one after another; they must agree on all other dimensions."""
    dim = layer.params.dim("Dimension")
    first = dims_of(layer.x)
    for place, value in enumerate(layer.bottoms):
        other = dims_of(value)
        if any(other.at(one) != first.at(one) for one in Dim if one is not dim):
            raise layer.error(
                f"tensor {place} differs from the first along a different dimension than {dim.spelling}",
                seen=other,
                limit=first,
            )
    if dim is Dim.DEPTH:
        values = tuple(map(layer.five, layer.bottoms))
        return layer.settled(layer.build("concat", {"values": values}, axis=int(dim)))
    return layer.build("concat", {"values": layer.bottoms}, axis=layer.axis(dim))


def reshape(layer: Layer) -> Value:
    """Return the elements in another shape."""
    layer.expect_one(Dim.DEPTH)
    shape = tuple(layer.params.integer(f"Reshaped{dim.spelling}") for dim in AXES[4])
    return layer.reshaped(layer.x, shape)


def transpose(layer: Layer) -> Value:
    """Return a tensor whose dimensions have changed places."""
    pairs = layer.params.pairs("TransposeDimensions")
    moves = {Dim.named(cast("str", destination)): source for source, destination in pairs}
    if len(moves) < len(pairs) or set(moves) != set(moves.values()):
        shown = ", ".join(f"{source.spelling} to {destination.spelling}" for destination, source in moves.items())
        raise layer.error("TransposeDimensions does not give every dimension a place of its own", seen=shown)
    sources = {dim: moves.get(dim, dim) for dim in Dim}
    if len(layer.x.type.shape) == 4 and sources[Dim.DEPTH] is Dim.DEPTH:
        axes = AXES[4]
        return layer.transposed(layer.x, [axes[sources[dim]] for dim in axes])
    return layer.settled(layer.transposed(layer.five(layer.x), [int(sources[dim]) for dim in Dim]))


def broadcast(layer: Layer) -> Value:
    """Return a tensor repeated along dimensions of length 1."""
    pairs = layer.params.pairs("BroadcastInfo")
    sizes = {dim: cast("int", size) for dim, size in pairs}
    if len(sizes) < len(pairs):
        raise layer.error("BroadcastInfo names a dimension twice")
    extents = {dim: layer.dims.at(dim) for dim in Dim}
    for dim, size in sizes.items():
        if extents[dim] not in (1, size):
            raise layer.error(
                f"{dim.spelling} is repeated and does not have length 1", seen=extents[dim], limit=f"1 or {size}"
            )
        extents[dim] = size
    wanted = Dims.of(extents).shape
    x = layer.x if len(wanted) == len(layer.x.type.shape) else layer.five(layer.x)
    return layer.build("broadcast", {"x": x}, shape=wanted)


def gather(layer: Layer) -> Value:
    """Return the elements along one dimension that a row of indices names.

    Raises:
        NotSupportedError: Several dimensions are named at once.
    """
    x, indices = layer.bottoms
    dims = layer.params.dims("GatherNDAxes")
    if len(dims) > 1:
        raise layer.without_meaning(
            "no source says how the result of a gather over several dimensions is laid out", seen=len(dims), limit=1
        )
    layer.expect_one(Dim.BATCH, Dim.CHANNEL, Dim.DEPTH, Dim.HEIGHT, value=indices, what="the index")
    row = layer.reshaped(indices, (dims_of(indices).width,))
    source, axes = layer.along(*dims, value=x)
    return layer.settled(layer.build("gather", {"x": source, "indices": row}, axis=axes[0]))


def dynamic_slice(layer: Layer) -> Value:
    """Return a part of every row whose begin is given by a tensor."""
    x, begin = layer.bottoms
    ((_, size),) = layer.params.pairs("DynamicSliceInfo")
    if begin.type.size != 1:
        raise layer.error("the index is not one number", seen=dims_of(begin), limit="one element")
    index = layer.reshaped(begin, (1,))
    if is_float(index.type.dtype):
        index = layer.build("cast", {"x": index}, dtype="int32")
    background = layer.params.number("BackgroundValue")
    operands = {"x": x, "begin": index}
    return layer.build("dynamic_slice", operands, size=size, background_value=background)


def flatten(layer: Layer) -> Value:
    """Return all elements of one image along one dimension."""
    layer.expect_one(Dim.BATCH, Dim.DEPTH)
    size, channels = layer.dims.size, layer.unit.output_channels
    if channels not in (1, size):
        raise layer.error(
            "OutputChannels does not say where the elements go",
            seen=channels,
            limit=f"{size} for channels, or 1 for a row",
        )
    flat = layer.build("flatten", {"x": layer.reshaped(layer.x, layer.x.type.shape[1:])})
    return layer.reshaped(flat, (1, size, 1, 1) if channels == size else (1, 1, 1, size))


MOVEMENT: dict[str, LayerReader] = {
    "Broadcast": broadcast,
    "Concat": concat,
    "DynamicSlice": dynamic_slice,
    "Flatten": flatten,
    "Gather": gather,
    "Reshape": reshape,
    "Transpose": transpose,
}

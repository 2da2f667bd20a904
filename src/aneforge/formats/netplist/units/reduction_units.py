"""The two normalisations that have a layer of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.units.read_row import read_row

if TYPE_CHECKING:
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["REDUCTION"]


def minmax_normalisation(layer: Layer) -> Value:
    """Return the range along a dimension brought to 0 and 1."""
    dim, epsilon = layer.params.dim("Dimension"), layer.params.number("Epsilon")
    layer.expect_one(Dim.DEPTH)
    if dim is Dim.CHANNEL or layer.dims.batch != 1:
        return compose_minmax(layer, layer.axis(dim), epsilon)
    return read_row(layer)


def compose_minmax(layer: Layer, axis: int, epsilon: float) -> Value:
    """Return the same from the operation's parts, for what the operation of the table does not take.

    The quotient is a product with an inverse, as descriptions have it, so that it is the same when it is written.
    """
    x = layer.x
    least = layer.build("reduce_min", {"x": x}, axes=(axis,), keep_dims=True)
    most = layer.build("reduce_max", {"x": x}, axes=(axis,), keep_dims=True)
    span = layer.build("sub", {"x": most, "y": least})
    span = layer.build("adds", {"x": span}, k=epsilon) if epsilon else span
    above = layer.build("sub", {"x": x, "y": least})
    return layer.build("mul", {"x": above, "y": layer.build("inverse", {"x": span}, epsilon=0.0)})


def response_normalisation(layer: Layer) -> Value:
    """Return the normalisation by neighbouring channels.

    Raises:
        NotSupportedError: The window is not as long as there are channels.
    """
    size, channels = layer.params.integer("KernelChannel"), layer.dims.channel
    layer.expect_one(Dim.DEPTH)
    if size != channels:
        raise layer.without_meaning(
            "the layer was seen to normalise only the first KernelChannel channels, by a window that no source gives",
            seen=f"KernelChannel {size}",
            limit=f"{channels}, the channels of its tensor",
        )
    return read_row(layer)


REDUCTION: dict[str, LayerReader] = {
    "LocalResponseNormalization": response_normalisation,
    "MinMaxNormalization": minmax_normalisation,
}

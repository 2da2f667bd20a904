"""Layers between blocks of an image and its channels or batch: one table of how each cuts, orders and joins axes.

The op table has operations for square blocks of one factor. Blocks of two factors are a reshape, a transpose and a
reshape; the writer knows them by the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.schema import Dim
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.document import Dims
    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Node, Value

__all__ = ["REARRANGEMENT", "REARRANGEMENTS", "Rearrangement"]


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A layer that moves blocks: how its tensor is cut into axes, in which order they go on, and what it becomes.

    Letters: n images, c channels, h rows, w columns of the result or the tensor, y and x the factors of a block.
    """

    cut: str
    """Axes of the tensor before, those of one dimension together, in the order batch, channel, height, width."""
    joined: str
    """The same axes after."""
    square: str
    """The operation of the table for one factor."""
    attribute: str
    one_image: bool = False
    """The operation of the table takes only one image."""

    @property
    def perm(self) -> tuple[int, ...]:
        """The order in which the axes go on."""
        before, after = self.cut.replace(" ", ""), self.joined.replace(" ", "")
        return tuple(before.index(letter) for letter in after)

    def attributes(self, height: int, width: int) -> dict[str, object]:
        """Return the attributes of the operation for the factors of height and width."""
        return {self.attribute: (height, width) if self.attribute == "block_shape" else height}

    def takes(self, height: int, width: int) -> bool:
        """Return whether the operation has attributes for these factors: some operations move only square blocks."""
        return self.attribute == "block_shape" or height == width

    def factors(self, node: Node) -> tuple[int, int]:
        """Return the factors of height and width that the attributes of the operation give."""
        if self.attribute == "block_shape":
            height, width = node.integers(self.attribute)
            return height, width
        factor = node.integer(self.attribute)
        return factor, factor

    def extents(self, dims: Dims, x: int, y: int) -> dict[str, int] | None:
        """Return the extent of every letter, or None where the factors do not divide the tensor."""
        found = {"x": x, "y": y}
        whole = (dims.batch, dims.channel, dims.height, dims.width)
        for group, extent in zip(self.cut.split(" "), whole, strict=True):
            factor = 1
            for letter in group:
                factor *= found.get(letter, 1)
            if extent % factor:
                return None
            (own,) = (letter for letter in group if letter not in "xy")
            found[own] = extent // factor
        return found

    def cut_shape(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the tensor cut into axes."""
        return tuple(extents[letter] for letter in self.cut.replace(" ", ""))

    def joined_shape(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the result."""
        shape: list[int] = []
        for group in self.joined.split(" "):
            extent = 1
            for letter in group:
                extent *= extents[letter]
            shape.append(extent)
        return tuple(shape)


REARRANGEMENTS: dict[str, Rearrangement] = {
    "PixelShuffle": Rearrangement("n cyx h w", "n c hy wx", "pixel_shuffle", "upscale_factor"),
    "PixelUnshuffle": Rearrangement("n c hy wx", "n cyx h w", "pixel_unshuffle", "downscale_factor"),
    "ChannelToSpace": Rearrangement("n yxc h w", "n c hy wx", "channel_to_space", "block_size", one_image=True),
    "SpaceToChannel": Rearrangement("n c hy wx", "n yxc h w", "space_to_channel", "block_size", one_image=True),
    "SpaceToBatch": Rearrangement("n c hy wx", "nyx c h w", "space_to_batch", "block_shape"),
    "BatchToSpace": Rearrangement("nyx c h w", "n c hy wx", "batch_to_space", "block_shape"),
}


def rearrange(layer: Layer) -> Value:
    """Return a tensor with blocks moved."""
    table = REARRANGEMENTS[layer.unit.type]
    layer.expect_one(Dim.DEPTH)
    x, y = layer.params.integer("FactorX"), layer.params.integer("FactorY")
    extents = table.extents(layer.dims, x, y)
    if extents is None:
        raise layer.error("the factors do not divide the tensor", seen=layer.dims, limit=f"FactorX {x}, FactorY {y}")
    if table.takes(y, x) and (layer.dims.batch == 1 or not table.one_image):
        return layer.build(table.square, {"x": layer.x}, **table.attributes(y, x))
    # The writer knows these three operations as one layer, so none of them is joined with what comes before.
    cut = layer.build("reshape", {"x": layer.x}, shape=table.cut_shape(extents))
    moved = layer.build("transpose", {"x": cut}, perm=table.perm)
    return layer.build("reshape", {"x": moved}, shape=table.joined_shape(extents))


REARRANGEMENT: dict[str, LayerReader] = dict.fromkeys(REARRANGEMENTS, rearrange)

"""Convolutions over patches whose kernel a target refuses: blocks of pixels become channels, and a kernel of 1 is left.

The patches of a vision transformer are such a convolution: its stride is its kernel. The compiler takes so large a
stride apart in the same way, so the program is the same. But a file that is written for Core ML says what the graph
says, and Core ML runs nothing on the engine whose kernel is refused there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.passes.phases import factors_of
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.declared import Declared
from aneforge.ops.windows import slides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.types import Array
    from aneforge.ops.windows import WindowAttributes
    from aneforge.targets import Target

__all__ = ["patches_as_blocks"]

IMAGE_RANK = 4


def patches_as_blocks(graph: Graph, target: Target) -> tuple[Graph, tuple[str, ...]]:
    """Return a graph in which convolutions over patches fit the target, and a line for each; the bits are the same.

    >>> import numpy as np
    >>> import aneforge as af
    >>> kernel = Dense.owning(np.ones((8, 3, 16, 16), np.float16))
    >>> y = build("conv", {"x": af.input((1, 3, 64, 64)), "weight": kernel}, {"strides": (16, 16)})
    >>> made, lines = patches_as_blocks(af.Graph({"y": Tensor(y)}), af.targets.resolve(af.targets.Family.A16))
    >>> [node.op.name for node in made.nodes], len(lines)
    (['input', 'pixel_unshuffle', 'pixel_unshuffle', 'conv'], 1)
    """
    lines: list[str] = []

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        factors = block_factors(node, target)
        x, weight = operands.get("x"), operands.get("weight")
        if not factors or not isinstance(x, Tensor) or not isinstance(weight, Constant):
            return None
        kernel = weight.dense()
        for factor in factors:
            x = Tensor(build("pixel_unshuffle", {"x": x}, {"downscale_factor": factor}, node.location))
            kernel = unshuffled(kernel, factor)
        side = weight.type.shape[-1]
        place = f" {node.location.node!r}" if node.location is not None and node.location.node else ""
        lines.append(f"conv{place}: its patches of {side}x{side} are channels of a 1x1 convolution now, the same bits")
        given = {**operands, "x": x, "weight": Dense.owning(kernel)}
        return [Tensor(build("conv", given, {**node.attributes, "strides": (1, 1)}, node.location))]

    return rewrite(graph, replaced), tuple(lines)


def block_factors(node: Node, target: Target) -> tuple[int, ...]:
    """Return the factors by which patches become channels; none for what is not a convolution over patches, or fits."""
    if node.op.name != "conv":
        return ()
    x, weight = node.operands["x"], node.operands["weight"]
    if (
        isinstance(x, tuple)
        or not isinstance(weight, Constant)
        or isinstance(weight, Declared)
        or weight.encoding != "dense"
    ):
        return ()
    shape = weight.type.shape
    widest = target.limits.known_integer("conv_kw_max")
    if len(shape) != IMAGE_RANK or widest is None or shape[-1] <= widest or shape[-1] != shape[-2]:
        return ()
    side, extents = shape[-1], x.type.shape[2:]
    attributes: WindowAttributes = {
        "strides": node.optional_integers("strides"),
        "dilations": node.optional_integers("dilations"),
        "pad_type": node.text("pad_type"),
        "pad": node.optional_integers("pad"),
    }
    for extent, slide in zip(extents, slides(extents, shape[2:], attributes), strict=True):
        if slide.stride != side or slide.span != side or slide.before or extent != slide.places * side:
            return ()
    return factors_of(side, target.limits.integers("pixel_shuffle_factors"), 2) or ()


def unshuffled(images: Array, factor: int) -> Array:
    """Return images whose blocks have become channels, as `pixel_unshuffle` orders them."""
    batch, channels, height, width = images.shape
    blocks = images.reshape(batch, channels, height // factor, factor, width // factor, factor)
    return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(batch, -1, height // factor, width // factor)

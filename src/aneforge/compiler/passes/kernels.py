"""What a product keeps in kernel memory: which operand, how many output channels, and how large each is.

Convolutions, deconvolutions and linear layers keep their weights there. A matrix product keeps its constant operand,
and the left one where both are live, as compiled programs do (hwx-programs).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.compiler.decisions import decision
from aneforge.errors import DataFileError
from aneforge.ops.constant import Constant
from aneforge.ops.declared import PALETTES
from aneforge.ops.types import bits, is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.targets import Target

__all__ = ["Kernel", "count_held_bytes", "encoding_of", "kernel_of", "unmet_preconditions"]

DENSE_BYTES = 2
"""Bytes of a weight that is held dense: the multiply-accumulate array takes fp16."""
STREAMS = {"palette4": "int4", "palette8": "palette8", "int8": "int8", "sparse": "sparse", "blockwise": "blockwise"}
"""The stream of the target database that an encoding of constants is."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a layer keeps in kernel memory."""

    operand: str
    ref: Ref
    channels: int
    """Output channels."""
    inner: int
    """Weights of one output channel."""
    groups: int
    cut_axis: int
    """The axis of the result that the output channels are."""

    @property
    def constant(self) -> Constant | None:
        """The weights, where they are known when the program is compiled."""
        return self.ref if isinstance(self.ref, Constant) else None

    def channel_bytes(self, *, streams: bool) -> int:
        """Return the bytes of one output channel, in its encoding where that streams."""
        if not streams or self.constant is None or not self.constant.is_encoded:
            return self.inner * count_held_bytes(self.ref)
        # What an encoding stores in addition to the elements, such as scales, is shared out over the channels.
        table = table_bytes(self.constant)
        return -(-(self.constant.nbytes - table) // max(self.channels, 1))


def count_held_bytes(ref: Ref) -> int:
    """Return the bytes of a weight as the array reads it."""
    return DENSE_BYTES if is_float(ref.type.dtype) else max(1, bits(ref.type.dtype) // 8)


def table_bytes(constant: Constant) -> int:
    """Return the bytes of a palette's table, which all channels share."""
    width = PALETTES.get(constant.encoding)
    return 0 if width is None else ((1 << width) * bits(constant.type.dtype) + 7) // 8


def kernel_of(layer: Layer) -> Kernel | None:
    """Return what a layer keeps in kernel memory; None for one that is not a product."""
    match layer.kind.name:
        case "convolution":
            weights = layer.operand("weights")
            inner = math.prod(weights.type.shape[1:])
            return Kernel("weights", weights, weights.type.shape[0], inner, layer.integer("groups"), 1)
        case "deconvolution":
            weights, groups = layer.operand("weights"), layer.integer("groups")
            first, outer, *kernel = weights.type.shape
            return Kernel("weights", weights, outer * groups, first // groups * math.prod(kernel), groups, 1)
        case "linear":
            weights = layer.operand("weight")
            outer, inner = weights.type.shape
            return Kernel("weight", weights, outer, inner, 1, layer.core_types[0].rank - 1)
        case "matmul":
            return matmul_kernel(layer)
        case _:
            return None


def matmul_kernel(layer: Layer) -> Kernel | None:
    """Return what a matrix product keeps; None for one of vectors, which has no channels to share out."""
    lhs, rhs = layer.operand("lhs"), layer.operand("rhs")
    if lhs.type.rank < 2 or rhs.type.rank < 2:
        return None
    rank, (rows, columns) = layer.core_types[0].rank, layer.core_types[0].shape[-2:]
    inner = lhs.type.shape[-2 if layer.flag("transpose_lhs") else -1]
    if isinstance(rhs, Constant) and not isinstance(lhs, Constant):
        return Kernel("rhs", rhs, columns, inner, 1, rank - 1)
    return Kernel("lhs", lhs, rows, inner, 1, rank - 2)


def encoding_of(constant: Constant) -> str:
    """Return the name of the stream that an encoding is, or of the encoding where it is none."""
    return STREAMS.get(constant.encoding, constant.encoding)


def unmet_preconditions(layer: Layer, kernel: Kernel, target: Target) -> list[str]:
    """Return what a layer lacks for its weights to stream, in the words of the target database.

    Raises:
        DataFileError: The database names a condition that nothing here checks.
    """
    strides = layer.integers("strides") if "strides" in layer.attributes else (1,)
    dilations = layer.integers("dilation_rates") if "dilation_rates" in layer.attributes else (1,)
    sizes = layer.integers("kernel_sizes") if "kernel_sizes" in layer.attributes else (1,)
    met: Mapping[str, bool] = {
        "immutable weight": kernel.constant is not None,
        "unit stride": max(strides) == 1,
        "no dilation": max(dilations) == 1,
        "no tile overlap": max(sizes) == 1 or not tiles_overlap(layer, target),
    }
    needed = target.geometry.words("streaming_preconditions")
    if unchecked := [words for words in needed if words not in met]:
        raise DataFileError(f"streaming_preconditions: nothing checks {', '.join(unchecked)}")
    return [words for words in needed if not met[words]]


def tiles_overlap(layer: Layer, target: Target) -> bool:
    """Return whether a kernel over 1×1 makes the tiles of its layer overlap."""
    rule = decision("tile_overlap").text()
    if rule in ("always", "never"):
        return rule == "always"
    resident = target.hal.get("max_operand_bytes")
    return isinstance(resident, int) and any(value.type.nbytes > resident for value in layer.bottoms)

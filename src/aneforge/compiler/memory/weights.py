"""How many bytes of weights every core gets: the blocks into which the outputs of a product are packed.

The rule for dense weights reproduces compiled programs byte for byte where those have one tile per core; the rest is
from the same programs with less certainty, and weights that stay compressed have no known layout. `basis` says which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of, rounded_up
from aneforge.ops.constant import Constant
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.targets import Target

__all__ = ["Basis", "PackedWeights", "dense_lanes", "pack_layer"]

BLOCK = 64
"""Bytes: a core's block begins at a multiple of it (base registers of coefficients, bits 31:6)."""
HALF = 2
"""Bytes of a weight or bias in fp16."""
MOST_LANES = 16
MOST_LANES_SMALL = 32
SMALL_SOURCE = 8
"""Up to so many rows and columns a source is small, and more lanes are used."""
PLANES = 64
"""Blocks into which a convolution of several groups is packed."""
STREAM_NAMES = {"palette4": "int4"}
"""What the target database calls an encoding, where that is another name."""


class Basis(StrEnum):
    """How the bytes are known."""

    DECODED = "decoded"
    """The rule reproduces the section of a compiled program."""
    SEEN = "seen in programs"
    """Compiled programs have this form; no section was reproduced."""
    ESTIMATED = "estimated"
    """The layout is not known: the stored bytes, spread over the cores."""
    CHOSEN = "chosen"
    """Lanes and cores are those that legalisation chose."""


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The weights of one layer as its cores get them."""

    layer: str
    operand: str
    outputs: int
    reduction: int
    """Weights of one output."""
    lanes: tuple[int, ...]
    """Outputs that a core makes at a time, tile by tile; empty where the form has no tiles."""
    core_bytes: tuple[int, ...]
    """The block of every core that gets one."""
    affine_bytes: int
    """Gains and offsets for each channel, where they are not in the blocks."""
    fits_kernel_memory: bool
    """No block is larger than the memory for weights that one core has."""
    resident: bool
    """The weight stays on chip: it is no larger than the largest resident operand."""
    basis: Basis

    @property
    def total_bytes(self) -> int:
        """All blocks together."""
        return sum(self.core_bytes) + self.affine_bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """A weight as outputs and what each is made from."""

    operand: str
    weight: Constant
    outputs: int
    reduction: int
    groups: int
    depthwise: bool


def weight_shape(layer: Layer) -> Shape | None:
    """Return the constant weight of a product; None where a layer has none."""
    kind = layer.kind.name
    if kind == "matmul":
        return matrix_shape(layer)
    operand = {"convolution": "weights", "deconvolution": "weights", "linear": "weight"}.get(kind)
    weight = layer.operands.get(operand) if operand else None
    if operand is None or not isinstance(weight, Constant):
        return None
    groups = cast("int", layer.attributes.get("groups", 1))
    first, second, *kernel = weight.type.shape
    outputs, inputs = (second * groups, first // groups) if kind == "deconvolution" else (first, second)
    return Shape(operand, weight, outputs, inputs * math.prod(kernel), groups, depthwise=1 < groups == outputs)


def matrix_shape(layer: Layer) -> Shape | None:
    """Return the constant side of a matrix product; None where both are live."""
    operand = "rhs" if isinstance(layer.operand("lhs"), Value) else "lhs"
    weight = layer.operand(operand)
    if not isinstance(weight, Constant):
        return None
    *batch, rows, columns = (1, *weight.type.shape)
    outputs_last = layer.attributes["transpose_lhs"] if operand == "lhs" else not layer.attributes["transpose_rhs"]
    outputs, reduction = (columns, rows) if outputs_last else (rows, columns)
    return Shape(operand, weight, math.prod(batch) * outputs, reduction, 1, depthwise=False)


def dense_lanes(outputs: int, cores: int, *, small: bool) -> tuple[tuple[int, int], ...]:
    """Return the tiles of dense weights: lanes of a core, and the cores that have them.

    The largest power of two that every core can fill, up to 16, or 32 for a small source; what is left over goes into
    smaller tiles, and single outputs to one core each.

    >>> dense_lanes(768, 16, small=True), dense_lanes(3, 16, small=False)
    (((32, 16), (16, 16)), ((1, 3),))
    """
    most = MOST_LANES_SMALL if small else MOST_LANES
    tiles: list[tuple[int, int]] = []
    left = outputs
    while left >= cores:
        lanes = min(most, 1 << ((left // cores).bit_length() - 1))
        whole, left = divmod(left, lanes * cores)
        tiles += [(lanes, cores)] * whole
    return (*tiles, (1, left)) if left else tuple(tiles)


def chosen_lanes(layer: Layer) -> tuple[tuple[int, int], ...] | None:
    """Return the tiles that legalisation chose: lanes and cores; None where it chose none."""
    lanes, cores = layer.choices.get("lanes"), layer.choices.get("active_cores")
    if not isinstance(cores, int):
        return None
    tiles = layer.choices.get("tiles", 1)
    if isinstance(lanes, int) and isinstance(tiles, int):
        return ((lanes, cores),) * tiles
    if isinstance(lanes, tuple):
        return tuple((int(cast("int", lane)), cores) for lane in lanes)
    return None


def pack_layer(layer: Layer, target: Target, rules: Rules) -> PackedWeights | None:
    """Return how the weights of a layer are packed; None where it has none."""
    shape = weight_shape(layer)
    if shape is None:
        return None
    known = target.hal.get("nes_per_ane")
    cores = known if isinstance(known, int) else rules.cores_where_unknown
    affine = layer.epilogue.gain_offset
    biases = affine is not None and "offset" in affine.operands and "gain" not in affine.operands
    affine_bytes = 0
    if affine is not None and any(constant.type.rank for constant in affine.operands.values()) and not biases:
        affine_bytes = rounded_up(2 * HALF * shape.outputs, BLOCK)
    if not shape.weight.encoding.startswith("dense") and stays_stored(shape.weight, target):
        share = rounded_up(-(-shape.weight.nbytes // cores), BLOCK)
        return made(layer, shape, (), (share,) * cores, affine_bytes, Basis.ESTIMATED, target)
    per_output = HALF * (shape.reduction + int(biases))
    if bits(shape.weight.type.dtype) == 8:
        per_output = shape.reduction + HALF * int(biases)
    if shape.depthwise:
        blocks = spread(shape.outputs, cores, per_output)
        return made(layer, shape, (), blocks, affine_bytes, Basis.SEEN, target)
    if shape.groups > 1:
        planes = spread(shape.outputs, PLANES, per_output)
        blocks = tuple(sum(planes[core::cores]) for core in range(min(cores, len(planes))))
        return made(layer, shape, (), blocks, affine_bytes, Basis.SEEN, target)
    chosen = chosen_lanes(layer)
    tiles = chosen or dense_lanes(shape.outputs, cores, small=is_small(layer))
    basis = Basis.CHOSEN if chosen else Basis.DECODED if len(tiles) == 1 else Basis.SEEN
    lanes = tuple(lane for lane, _ in tiles)
    return made(layer, shape, lanes, dense_blocks(tiles, per_output), affine_bytes, basis, target)


def dense_blocks(tiles: Sequence[tuple[int, int]], per_output: int) -> tuple[int, ...]:
    """Return the block of every core: its tiles one after another, each with all its lanes."""
    most = max(cores for _, cores in tiles)
    return tuple(
        rounded_up(sum(lanes * per_output for lanes, cores in tiles if core < cores), BLOCK) for core in range(most)
    )


def spread(outputs: int, parts: int, per_output: int) -> tuple[int, ...]:
    """Return the bytes of parts that get as many outputs each as the others, or one more."""
    used = min(parts, outputs)
    return tuple(rounded_up((outputs // used + (part < outputs % used)) * per_output, BLOCK) for part in range(used))


def is_small(layer: Layer) -> bool:
    """Tell whether a layer's source has few rows and columns."""
    if not layer.bottoms:
        return False
    extents = extents_of(layer.bottoms[0].shape)
    if layer.kind.name in ("linear", "matmul"):
        return extents.channels <= SMALL_SOURCE
    return extents.rows <= SMALL_SOURCE and extents.width <= SMALL_SOURCE


def stays_stored(weight: Constant, target: Target) -> bool:
    """Tell whether a target streams an encoding as it is; others are made dense before the program is built."""
    stream = target.streams.get(STREAM_NAMES.get(weight.encoding, weight.encoding))
    return stream is not None and stream.streams


def made(
    layer: Layer,
    shape: Shape,
    lanes: tuple[int, ...],
    blocks: tuple[int, ...],
    affine_bytes: int,
    basis: Basis,
    target: Target,
) -> PackedWeights:
    """Return packed weights, with the limits of the target that they keep or not."""
    limit, largest = target.hal.get("dense_kernel_memory"), target.hal.get("max_operand_bytes")
    return PackedWeights(
        layer=layer.name,
        operand=shape.operand,
        outputs=shape.outputs,
        reduction=shape.reduction,
        lanes=lanes,
        core_bytes=blocks,
        affine_bytes=affine_bytes,
        fits_kernel_memory=isinstance(limit, int) and max(blocks) <= limit,
        resident=isinstance(largest, int) and shape.weight.nbytes <= largest,
        basis=basis,
    )

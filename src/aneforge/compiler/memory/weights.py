"""How many bytes of weights every core gets: the blocks into which the outputs of a product are packed.

Lanes and tiles are those that legalisation chose, or would choose. The rule for dense weights reproduces compiled
programs byte for byte where those have one tile per core; the rest is from the same programs with less certainty, and
weights that stay compressed have no known layout. `basis` says which it is.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from aneforge.compiler.memory.layout import round_up
from aneforge.compiler.passes.choose_output_groups import output_groups
from aneforge.compiler.passes.kernels import count_held_bytes, encoding_of, kernel_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.passes.kernels import Kernel
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.ops.constant import Constant
    from aneforge.targets import Target

__all__ = ["Basis", "PackedWeights", "pack_layer"]

BLOCK = 64
"""Bytes: a core's block begins at a multiple of it (base registers of coefficients, bits 31:6)."""
HALF = 2
"""Bytes of a gain or offset in fp16."""
PLANES = 64
"""Blocks into which a convolution of several groups is packed."""


class Basis(StrEnum):
    """How the bytes are known."""

    DECODED = "decoded"
    """The rule reproduces the section of a compiled program."""
    SEEN = "seen in programs"
    """Compiled programs have this form; no section was reproduced."""
    ESTIMATED = "estimated"
    """The layout is not known: the stored bytes, spread over the cores."""


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
class Blocks:
    """The blocks of all cores."""

    core_bytes: tuple[int, ...]
    basis: Basis
    lanes: tuple[int, ...] = ()


def pack_layer(layer: Layer, target: Target, rules: Rules) -> PackedWeights | None:
    """Return how the weights of a layer are packed; None where it has none that are constant."""
    kernel = kernel_of(layer)
    weight = None if kernel is None else kernel.constant
    if kernel is None or weight is None:
        return None
    affine = layer.epilogue.gain_offset
    vectors = affine is not None and any(constant.type.rank for constant in affine.operands.values())
    # Offsets without gains are biases and are in the blocks; with gains, both are separate.
    biased = affine is not None and set(affine.operands) == {"offset"}
    blocks = blocks_of(layer, kernel, weight, int(biased) * HALF, target, rules)
    limit, largest = target.hal.known_integer("dense_kernel_memory"), target.hal.known_integer("max_operand_bytes")
    return PackedWeights(
        layer=layer.name,
        operand=kernel.operand,
        outputs=kernel.channels,
        reduction=kernel.inner,
        lanes=blocks.lanes,
        core_bytes=blocks.core_bytes,
        affine_bytes=round_up(2 * HALF * kernel.channels, BLOCK) if vectors and not biased else 0,
        fits_kernel_memory=limit is not None and max(blocks.core_bytes) <= limit,
        resident=largest is not None and weight.nbytes <= largest,
        basis=blocks.basis,
    )


def blocks_of(layer: Layer, kernel: Kernel, weight: Constant, bias: int, target: Target, rules: Rules) -> Blocks:
    """Return the blocks of a layer's weights: by tiles, by planes of a grouped convolution, or by what is stored."""
    cores = target.hal.known_integer("nes_per_ane") or rules.cores_where_unknown
    if stays_stored(layer, weight, target):
        share = round_up(-(-weight.nbytes // cores), BLOCK)
        return Blocks((share,) * cores, Basis.ESTIMATED)
    each = kernel.inner * count_held_bytes(weight) + bias
    lanes = tiles_chosen(layer, kernel, target)
    if lanes:
        depthwise = kernel.groups > 1
        basis = Basis.DECODED if len(lanes) == 1 and not depthwise else Basis.SEEN
        return Blocks(tile_blocks(kernel.channels, lanes, cores, each), basis, () if depthwise else lanes)
    if kernel.groups > 1:
        planes = spread(kernel.channels, PLANES, each)
        return Blocks(tuple(sum(planes[core::cores]) for core in range(min(cores, len(planes)))), Basis.SEEN)
    return Blocks(spread(kernel.channels, cores, each), Basis.ESTIMATED)


def tiles_chosen(layer: Layer, kernel: Kernel, target: Target) -> tuple[int, ...]:
    """Return the lanes of every tile that legalisation chose, or would choose; none where they are unknown."""
    if "lanes" in layer.choices:
        lanes, tiles = layer.choices["lanes"], layer.choices.get("tiles")
        if not isinstance(lanes, tuple) or not isinstance(tiles, tuple):
            return ()
        return every_tile(cast("tuple[int, ...]", lanes), cast("tuple[int, ...]", tiles))
    groups = output_groups(layer, kernel, target)
    return () if groups is None else every_tile(groups.lanes, groups.tiles)


@lru_cache(maxsize=4096)
def every_tile(lanes: tuple[int, ...], tiles: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lanes of every tile, given the number of tiles of each number of lanes.

    >>> every_tile((32, 16), (2, 1))
    (32, 32, 16)
    """
    return tuple(lane for lane, count in zip(lanes, tiles, strict=True) for _ in range(count))


@lru_cache(maxsize=4096)
def tile_blocks(outputs: int, lanes: tuple[int, ...], cores: int, each: int) -> tuple[int, ...]:
    """Return the block of every core: its tiles one after another. The last tile may not have work for all cores.

    >>> tile_blocks(20, (1, 1), 16, 6)[:5]
    (64, 64, 64, 64, 64)
    """
    held = [0] * min(cores, outputs)
    left = outputs
    for lane in lanes:
        used = min(cores, -(-left // lane))
        for core in range(used):
            held[core] += lane * each
        left -= used * lane
    return tuple(round_up(size, BLOCK) for size in held)


def spread(outputs: int, parts: int, each: int) -> tuple[int, ...]:
    """Return the bytes of parts that get as many outputs each as the others, or one more.

    >>> spread(5, 4, 40)
    (128, 64, 64, 64)
    """
    used = min(parts, outputs)
    return tuple(round_up((outputs // used + (part < outputs % used)) * each, BLOCK) for part in range(used))


def stays_stored(layer: Layer, weight: Constant, target: Target) -> bool:
    """Return whether weights are kept in their encoding, as far as that is known; others are made dense beforehand."""
    if not weight.is_encoded:
        return False
    stream = target.streams.get(encoding_of(weight))
    return layer.choices.get("weights", "streams" if stream is not None and stream.streams else "folds") != "folds"

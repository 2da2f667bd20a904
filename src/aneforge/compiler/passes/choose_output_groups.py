"""Chooses how the output channels of products are shared out over cores and lanes.

A core computes `lanes` output channels together; a tile is what all cores compute in one pass. Tiles have as many
lanes as the channels fill, the leftover channels take smaller tiles, and fewer channels than cores have one lane each.
The rule fits compiled programs of dense fp16 weights (hwx-programs).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.kernels import Kernel
    from aneforge.targets import Target

__all__ = ["ChooseOutputGroups", "OutputGroups", "output_groups", "tiles_of"]


class OutputGroups(NamedTuple):
    """How output channels are shared out: there are `tiles` tiles of each number of lanes."""

    lanes: tuple[int, ...]
    tiles: tuple[int, ...]
    active_cores: int


def tiles_of(channels: int, cores: int, most: int) -> list[tuple[int, int]]:
    """Return the tiles of so many output channels as (lanes, channels), each with at most so many lanes.

    >>> tiles_of(768, 16, 32), tiles_of(3, 16, 16)
    ([(32, 512), (16, 256)], [(1, 3)])
    """
    found: list[tuple[int, int]] = []
    lanes = most
    while channels:
        lanes = min(lanes, 1 << (max(channels // cores, 1).bit_length() - 1))
        whole = channels // (lanes * cores)
        found += [(lanes, lanes * cores)] * whole
        channels -= whole * lanes * cores
        if lanes == 1 and channels:
            found.append((1, channels))
            return found
    return found


def most_lanes(layer: Layer, kernel: Kernel, memory: int | None) -> int:
    """Return how many lanes a tile of a layer has at most."""
    if layer.kind.name in ("linear", "matmul"):
        most = decision("lanes_of_matrices").integer()
    else:
        small = decision("lanes_small_source_side").integer()
        spatial = layer.operand("input").type.shape[2:]
        name = "lanes_small_source" if max(spatial) <= small else "lanes"
        most = decision(name).integer()
    if memory is None:
        return most
    room = max(memory // max(kernel.channel_bytes(streams=False), 1), 1)
    return min(most, 1 << (room.bit_length() - 1))


@lru_cache(maxsize=4096)
def groups_of(channels: int, cores: int, most: int) -> OutputGroups:
    """Return how so many output channels are shared out, each tile with at most so many lanes.

    >>> groups_of(768, 16, 32)
    OutputGroups(lanes=(32, 16), tiles=(1, 1), active_cores=16)
    """
    counts = [
        (lanes, len(list(some))) for lanes, some in groupby(lanes for lanes, _ in tiles_of(channels, cores, most))
    ]
    lanes, tiles = (tuple(column) for column in zip(*counts, strict=True)) if counts else ((), ())
    return OutputGroups(lanes, tiles, min(cores, channels))


def output_groups(layer: Layer, kernel: Kernel, target: Target) -> OutputGroups | None:
    """Return how the output channels of a product are shared out; None where that is not known."""
    cores = target.hal.known_integer("nes_per_ane")
    depthwise = kernel.groups > 1 and kernel.groups == layer.operand("input").type.shape[1] == kernel.channels
    if cores is None or layer.choices.get("weights") in ("streams", "unknown") or (kernel.groups > 1 and not depthwise):
        return None
    most = 1 if depthwise else most_lanes(layer, kernel, target.hal.known_integer("dense_kernel_memory"))
    return groups_of(kernel.channels, cores, most)


def choose(layer: Layer, target: Target) -> Layer | None:
    """Return a product with its tiles chosen; None for what is none, or says so already."""
    kernel = None if "lanes" in layer.choices else kernel_of(layer)
    if kernel is None:
        return None
    groups = output_groups(layer, kernel, target)
    if groups is None:
        return layer.choosing(lanes="unknown")
    return layer.choosing(
        lanes=groups.lanes, tiles=groups.tiles, passes=sum(groups.tiles), active_cores=groups.active_cores
    )


@dataclass(frozen=True)
class ChooseOutputGroups(Pass):
    """Choose lanes, tiles, passes and active cores of products.

    On 16 cores:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, kernel_sizes = [1, 1]} : fp16[1, 768, 7, 7]

    After:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, kernel_sizes = [1, 1]} : fp16[1, 768, 7, 7]
          chosen: {lanes = [32, 16], tiles = [1, 1], passes = 2, active_cores = 16}

    There are `tiles` tiles of each number of lanes. Convolutions in groups, other than of single channels, and encoded
    weights that stream are packed in ways that are not known: their lanes are `unknown`.
    """

    name: ClassVar[str] = "choose-output-groups"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose for every product."""

        def grouped(layer: Layer) -> list[Layer] | None:
            made = choose(layer, program.target)
            return None if made is None else [made]

        return replace_layers(program, grouped)

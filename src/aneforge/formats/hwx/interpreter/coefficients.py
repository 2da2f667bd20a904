"""Where the weights and biases of a convolution are in the constants of its cores (hwx-programs, section 4.1).

Output channels go to cores in tiles: a core computes as many together as it has lanes, the next core those after them,
and the next tile begins after the last core. Channels that do not fill a tile use half the lanes, and so on. In a core
tiles follow one another; each holds the biases of its lanes, if there are any, then for every place of the reduction
(input channel slowest, kernel column fastest) the weights of its lanes. In a task of groups every core has a block for
each group, padded to 64 bytes. Order within one tile was checked by a published hash; that of several tiles, of groups
and of channels that each read their own input rests on one source.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Bits = NDArray[np.uint16]
    Numbers = NDArray[np.int64]

__all__ = ["BLOCK", "KernelShape", "Packing", "Tile", "packing_of", "sparse_kernel", "stream_bytes", "tiles_of"]

BLOCK = 64
"""Bytes to which blocks of coefficients are padded."""
HALF = 2
MASK_LANES = 8
"""Lanes that a byte of a sparse kernel's mask stands for."""


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What a convolution reads: channels of a group, and the window."""

    groups: int
    outer: int
    """Output channels of a group."""
    inner: int
    """Input channels that an output channel reads."""
    height: int
    width: int
    lanes: int
    bias: bool

    @property
    def length(self) -> int:
        """Products of one sum."""
        return self.inner * self.height * self.width


@dataclass(frozen=True, slots=True)
class Tile:
    """Output channels that the cores compute at one time."""

    first: int
    lanes: int
    channels: int
    offset: int
    """Halfwords from the start of a group's block in a core."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Places of weights and biases: numbers of halfwords from the kernel's base register."""

    weights: Numbers
    """By group, output channel and place of the reduction."""
    biases: Numbers | None
    """By group and output channel."""


def tiles_of(shape: KernelShape, cores: int) -> Iterator[Tile]:
    """Yield the tiles of a group.

    >>> [(tile.first, tile.lanes) for tile in tiles_of(KernelShape(1, 768, 4, 1, 1, 32, False), 16)]
    [(0, 32), (512, 16)]
    """
    first, lanes, offset = 0, shape.lanes, 0
    while first < shape.outer:
        rest = shape.outer - first
        while lanes > 1 and lanes * cores > rest:
            lanes //= 2
        channels = min(rest, lanes * cores)
        yield Tile(first, lanes, channels, offset)
        first += channels
        offset += lanes * (shape.length + shape.bias)


def block_bytes(shape: KernelShape, cores: int) -> int:
    """Return the bytes of a group's block in a core.

    >>> hex(block_bytes(KernelShape(4, 16, 16, 3, 3, 1, False), 16))
    '0x140'
    """
    halves = sum(tile.lanes * (shape.length + shape.bias) for tile in tiles_of(shape, cores))
    return math.ceil(HALF * halves / BLOCK) * BLOCK


def stream_bytes(shape: KernelShape, cores: int) -> int:
    """Return the bytes of a core's coefficients, without the room after the last."""
    halves = sum(tile.lanes * (shape.length + shape.bias) for tile in tiles_of(shape, cores))
    return (shape.groups - 1) * block_bytes(shape, cores) + HALF * halves


def packing_of(shape: KernelShape, bases: Sequence[int]) -> Packing:
    """Return where the coefficients are, given the base of every core in bytes.

    >>> packing_of(KernelShape(1, 2, 3, 1, 1, 1, True), (0, 64)).weights.tolist()
    [[[1, 2, 3], [33, 34, 35]]]
    """
    cores, stride = np.asarray(bases, np.int64) // HALF, block_bytes(shape, len(bases)) // HALF
    weights = np.empty((shape.groups, shape.outer, shape.length), np.int64)
    biases = np.empty((shape.groups, shape.outer), np.int64)
    starts = stride * np.arange(shape.groups, dtype=np.int64)[:, None]
    places = np.arange(shape.length, dtype=np.int64)
    for tile in tiles_of(shape, len(bases)):
        within = np.arange(tile.channels, dtype=np.int64)
        lane = within % tile.lanes
        begin = starts + cores[within // tile.lanes] + tile.offset
        chosen = slice(tile.first, tile.first + tile.channels)
        biases[:, chosen] = begin + lane
        first = begin + (tile.lanes if shape.bias else 0) + lane
        weights[:, chosen] = first[..., None] + tile.lanes * places
    return Packing(weights, biases if shape.bias else None)


def sparse_kernel(shape: KernelShape, streams: Sequence[Bits], task: int) -> tuple[Bits, Bits | None]:
    """Return weights and biases of a kernel in the form that leaves zeros out, one tile per core.

    A core has its biases, the bytes of the body, and for every place of the reduction a zero byte, a mask of the lanes
    whose weight is not zero, those weights, and zeros after them where there are more than four lanes. One source, and
    only for 1×1 kernels of four or eight lanes.

    Raises:
        HwxError: The kernel has another form, or a core's body is not as its masks say.
    """
    tiles = list(tiles_of(shape, len(streams)))
    if shape.height * shape.width != 1 or shape.groups != 1 or len(tiles) != 1 or tiles[0].lanes > MASK_LANES:
        raise HwxError(
            f"task {task}: ne.sparse_kernel: kernels stored without zeros are known only for 1×1, one group and one "
            f"tile of up to {MASK_LANES} lanes",
            seen=f"{shape.height}×{shape.width}, {shape.groups} groups, {len(tiles)} tiles of {tiles[0].lanes} lanes",
        )
    lanes = tiles[0].lanes
    weights = np.zeros((1, shape.outer, shape.length), np.uint16)
    biases = np.zeros((1, shape.outer), np.uint16)
    for core, stream in enumerate(streams):
        chosen = slice(core * lanes, min((core + 1) * lanes, shape.outer))
        count = chosen.stop - chosen.start
        if shape.bias:
            biases[0, chosen] = stream[:count]
        body = stream[lanes if shape.bias else 0 :].tobytes()
        weights[0, chosen] = sparse_body(
            body, lanes, shape.length, f"task {task}: kernel_source.coefficient_base[{core}]"
        )[:count]
    return weights, biases if shape.bias else None


def sparse_body(body: bytes, lanes: int, length: int, where: str) -> Bits:
    """Return the weights of a core's lanes, by lane and place of the reduction.

    Raises:
        HwxError: The body ends before its last weight, or has a different size than it says.
    """
    found = np.zeros((lanes, length), np.uint16)
    size, at = int.from_bytes(body[:HALF], "little"), HALF
    tail = max(0, lanes // 2 - 2)
    for place in range(length):
        if at + 2 > len(body):
            raise HwxError(f"{where}: the kernel ends within place {place} of the reduction", limit=length)
        chosen = [lane for lane in range(lanes) if body[at + 1] >> lane & 1]
        at += 2
        values = np.frombuffer(body[at : at + HALF * len(chosen)], "<u2")
        if len(values) != len(chosen):
            raise HwxError(f"{where}: the kernel ends within place {place} of the reduction", limit=length)
        found[chosen, place] = values
        at += HALF * len(chosen) + tail
    if size != at - HALF:
        raise HwxError(f"{where}: the kernel's masks must give the bytes that it states", seen=at - HALF, limit=size)
    return found

"""What a tensor of a graph is in a description that is being written.

A graph's tensor has axes, a description's has five dimensions. `Placed` says which dimension every axis is, so
a transpose that only renames axes, or an axis of length 1 that comes or goes, writes nothing. A reshape waits in
`Reshaped` until someone needs its elements, and a `Known` constant is laid out when it is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.errors import NotSupportedError
from aneforge.formats.netplist.document import Dims
from aneforge.formats.netplist.schema import Dim
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.types import Array

__all__ = [
    "FLOAT",
    "IMAGE",
    "MATRIX",
    "Held",
    "Known",
    "Placed",
    "Places",
    "Reshaped",
    "Truncated",
    "canonical",
    "in_order",
]

FLOAT = "Float16"
IMAGE = (Dim.BATCH, Dim.CHANNEL, Dim.HEIGHT, Dim.WIDTH)
"""The dimensions of an image's axes, and, from the right, those of any tensor of fewer axes."""
MATRIX = (Dim.BATCH, Dim.HEIGHT, Dim.CHANNEL, Dim.WIDTH)
"""The dimensions of batches of matrices: rows along channels, as products and attention have them."""
Axes = tuple[Dim | None, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A symbol, and the dimension of every axis of its tensor; None for an axis of length 1."""

    symbol: int
    shape: tuple[int, ...]
    axes: Axes
    dtype: str = "fp16"
    """The element type in the graph; booleans are kept as 1 and 0."""
    stored: str = FLOAT
    """The element type in the description."""

    @property
    def dims(self) -> Dims:
        """The five extents."""
        extents = [1] * len(Dim)
        for dim, extent in zip(self.axes, self.shape, strict=True):
            if dim is not None:
                extents[dim] = extent
        return Dims(*extents)

    def transposed(self, perm: Sequence[int]) -> Placed:
        """Return the same symbol with its axes in another order."""
        shape = tuple(self.shape[axis] for axis in perm)
        return replace(self, shape=shape, axes=tuple(self.axes[axis] for axis in perm))

    def reshaped(self, shape: tuple[int, ...]) -> Placed | Reshaped:
        """Return the same elements in another shape: the same symbol where only axes of length 1 come or go."""
        kept = [dim for dim in self.axes if dim is not None]
        if [extent for extent in shape if extent != 1] != [extent for extent in self.shape if extent != 1]:
            return Reshaped(self, shape)
        order = iter(kept)
        return replace(self, shape=shape, axes=tuple(None if extent == 1 else next(order) for extent in shape))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A symbol whose elements, in order, are meant in another shape."""

    base: Placed
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The element type in the graph."""
        return self.base.dtype

    def reshaped(self, shape: tuple[int, ...]) -> Placed | Reshaped:
        """Return the same elements in yet another shape."""
        return self.base.reshaped(shape)


@dataclass(frozen=True, slots=True)
class Known:
    """A constant, in the order of the graph's axes."""

    values: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(self.values.shape)

    def reshaped(self, shape: tuple[int, ...]) -> Known:
        """Return the same elements in another shape."""
        return Known(self.values.reshape(shape), self.dtype)

    def transposed(self, perm: Sequence[int]) -> Known:
        """Return the same constant with its axes in another order."""
        return Known(self.values.transpose(perm), self.dtype)


@dataclass(frozen=True, slots=True)
class Places:
    """Integers, such as places of elements: a description has them as Float16 or as UInt16, as the reader asks."""

    source: Callable[[str], Placed]
    """Writes them in an element type of the description, in whichever shape."""
    shape: tuple[int, ...]
    dtype: str

    def write_as(self, stored: str) -> Placed | Reshaped:
        """Write them in an element type of the description."""
        return self.source(stored).reshaped(self.shape)

    def reshaped(self, shape: tuple[int, ...]) -> Places:
        """Return the same elements in another shape."""
        return replace(self, shape=shape)


@dataclass(frozen=True, slots=True)
class Truncated:
    """Numbers of fp16 that are still to be cut towards zero. No layer does that; only an index may be such numbers."""

    source: Placed | Reshaped
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self.source.shape

    def reshaped(self, shape: tuple[int, ...]) -> Truncated:
        """Return the same elements in another shape."""
        return Truncated(self.source.reshaped(shape), self.dtype)


Held = Placed | Reshaped | Known | Places | Truncated


def canonical(shape: Sequence[int]) -> tuple[Dim, ...]:
    """Return the default dimensions of a tensor's axes: the last along the width, then height, channel, batch.

    >>> [dim.spelling for dim in canonical((5, 7))]
    ['Height', 'Width']

    Raises:
        NotSupportedError: There are more axes than dimensions.
    """
    rank = len(shape)
    if rank <= len(IMAGE):
        return IMAGE[len(IMAGE) - rank :]
    if rank == len(Dim):
        return tuple(Dim)
    long = [axis for axis, extent in enumerate(shape) if extent != 1]
    if len(long) > len(Dim):
        raise NotSupportedError(
            "a tensor of a description has five dimensions", seen=list(shape), limit=5, remedy="merge axes with reshape"
        )
    places = dict(zip(long, canonical([shape[axis] for axis in long]), strict=True))
    # An axis of length 1 has any dimension; what is returned for it is not used.
    return tuple(places.get(axis, Dim.BATCH) for axis in range(rank))


def in_order(axes: Sequence[Dim | None]) -> bool:
    """Return whether axes are in memory in their own order, none along the depth."""
    used = [dim for dim in axes if dim is not None]
    return used == sorted(used) and Dim.DEPTH not in used

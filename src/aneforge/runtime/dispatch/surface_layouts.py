"""Where the elements of a port are on a surface (aneforge docs, dispatch backends)."""

from __future__ import annotations

from aneforge.records import dataclass

__all__ = ["Layout"]

DEFAULT_SURFACE_BYTES = 65536
"""The size of a surface whose strides the model does not give."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a port are on a surface."""

    symbol: str
    extents: tuple[int, ...]
    """Batches, channels, depth, height, width."""
    strides: tuple[int, ...]
    """Of the same, in bytes."""

    @classmethod
    def without_gaps(cls, symbol: str, extents: tuple[int, ...], given: tuple[int, ...] = (0, 0, 0, 0)) -> Layout:
        """Return a layout whose strides are given where they are not 0, and else leave no gaps."""
        batches, channels, depth, height, width = extents
        batch, plane, slice_, row = given
        row = row or 2 * width
        plane = plane or row * height
        slice_ = slice_ or plane * channels
        whole = slice_ * depth
        if batches > 1 or whole > DEFAULT_SURFACE_BYTES:
            batch = batch or whole
        return cls(symbol, extents, (batch, plane, slice_, row, 2))

    @property
    def nbytes(self) -> int:
        """How many bytes the surface needs."""
        return self.strides[0] * self.extents[0] or DEFAULT_SURFACE_BYTES

    @property
    def dense(self) -> bool:
        """True where elements follow one another without gaps, in the order in which values cross."""
        wanted = 2
        for extent, stride in zip(reversed(self.extents), reversed(self.strides), strict=True):
            if extent > 1 and stride != wanted:
                return False
            wanted *= extent
        return True

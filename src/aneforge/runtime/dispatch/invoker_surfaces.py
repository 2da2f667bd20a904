"""Ports of a network description as bytes: the order of elements outside, and the strides that are reported of it.

Elements are in the order batch, channel, depth, height, width, without gaps. Real surfaces pad rows; clients take the
strides from the answer, and dense ones are as good to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.formats.netplist.document import Dims
from aneforge.records import dataclass
from aneforge.runtime.dispatch.invoker_stages import InvokerError, Stage

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["Surface", "dims_of"]


@dataclass(frozen=True, slots=True)
class Surface:
    """A port: its symbol, its extents and its elements.

    >>> surface = Surface("x", Dims(channel=3, height=4, width=8), np.dtype(np.float16))
    >>> surface.nbytes, surface.described()["PlaneStride"], surface.described()["RowStride"]
    (192, 64, 16)
    """

    symbol: str
    dims: Dims
    element: np.dtype[Any]
    interleave: int = 1
    flags: bool = False
    """The layer writes flags of one byte: n of them at the front of a row of 2n bytes, as RadiusSearch does."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.dims.size * self.element.itemsize

    @property
    def wire(self) -> np.dtype[Any]:
        """The element type in files and pipes: little-endian."""
        return self.element.newbyteorder("<")

    def described(self) -> dict[str, str | int]:
        """Return what an answer says of the port."""
        row = self.dims.width * self.element.itemsize
        slab = self.dims.height * row
        plane = self.dims.depth * slab
        return {
            "Symbol": self.symbol,
            "Batches": self.dims.batch,
            "Channels": self.dims.channel,
            "Depth": self.dims.depth,
            "Height": self.dims.height,
            "Width": self.dims.width,
            "BatchStride": self.dims.channel * plane,
            "PlaneStride": plane,
            "DepthStride": slab,
            "RowStride": row,
        }

    def decode(self, data: bytes) -> Array:
        """Return the elements that bytes hold, in the shape of the graph's tensor."""
        return np.frombuffer(data, self.wire).reshape(self.dims.shape)

    def encode(self, values: Array) -> bytes:
        """Return the bytes of an output.

        >>> near = Surface("y", Dims(height=2, width=3), np.dtype(np.float16), flags=True)
        >>> near.encode(np.array([[1, 0, 1], [0, 0, 1]])).hex(" ", 6)
        '010001000000 000001000000'
        """
        if not self.flags:
            # Places of elements leave the program in fp16, which holds them all: a search is at most 2048 long.
            return values.astype(self.wire, copy=False).tobytes()
        rows = np.zeros((*values.shape[:-1], values.shape[-1] * self.element.itemsize), np.uint8)
        rows[..., : values.shape[-1]] = values
        return rows.tobytes()

    def encode_raw(self, values: Array, nbytes: int | None = None) -> bytes:
        """Return the bytes of an output's surface, of so many bytes where that is said: zeros follow the elements.

        Raises:
            InvokerError: The elements do not fit, or no source says where they are.
        """
        if self.interleave != 1:
            raise InvokerError(
                Stage.SURFACE,
                f"output {self.symbol!r} interleaves {self.interleave} channels: the layout of its surface is unknown",
            )
        if nbytes is not None and nbytes < self.nbytes:
            raise InvokerError(
                Stage.SURFACE,
                f"output {self.symbol!r} must have a surface of {self.nbytes} bytes or more, got {nbytes}",
            )
        return self.encode(values).ljust(nbytes or 0, b"\0")


def dims_of(shape: tuple[int, ...]) -> Dims:
    """Return the extents of a tensor that was read from a description: its depth is left out where that is 1.

    >>> print(dims_of((1, 3, 4, 8)))
    batch 1, channel 3, depth 1, height 4, width 8
    """
    batch, channel, *depth, height, width = shape
    return Dims(batch, channel, depth[0] if depth else 1, height, width)

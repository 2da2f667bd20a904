"""Tensors in an address space: which element is at which address, with every bound checked before anything is read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from aneforge.errors import HwxError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AXES", "ELEMENT", "MOST_ELEMENTS", "Five", "View"]

Five: TypeAlias = tuple[int, int, int, int, int]
Element = TypeVar("Element", bound=np.generic)

AXES = ("groups", "channels", "depth", "height", "width")
"""Axes of a view, in the order of its extents and strides."""
CHANNELS, WIDTH = 1, 4
ELEMENT = 2
"""Bytes of an element: fp16."""
MOST_ELEMENTS = 2**26
"""Elements of one tensor of a task, however large its space is."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of a task in an address space.

    Element (g, c, d, h, w) is at base + g·group + (c // interleave)·plane + d·depth + h·row + (w·interleave + c %
    interleave)·2. The last stride is that of columns: twice the interleave, or 0 where the width is repeated.
    """

    space: str
    base: int
    """Bytes from the start of the space."""
    extents: Five
    strides: Five
    """Bytes from one to the next, in the order of `AXES`; that of channels is from one block of them to the next."""
    register: str
    """The register that gives its base, for messages."""
    interleave: int = 1
    """Channels that are side by side."""

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.extents)

    @property
    def end(self) -> int:
        """First byte of the space after its last element."""
        last = [extent - 1 for extent in self.extents]
        last[CHANNELS] //= self.interleave
        side = min(self.extents[CHANNELS], self.interleave) - 1
        steps = sum(count * stride for count, stride in zip(last, self.strides, strict=True))
        return self.base + steps + (side + 1) * ELEMENT

    @property
    def is_distinct(self) -> bool:
        """Whether every element has an address of its own, by the strides: larger ones step over smaller ones."""
        covered = ELEMENT * min(self.interleave, self.extents[CHANNELS])
        counts = [(stride, extent) for stride, extent in zip(self.strides, self.blocks, strict=True) if extent > 1]
        for stride, extent in sorted(counts):
            if stride < covered:
                return False
            covered = stride * (extent - 1) + covered
        return True

    @property
    def blocks(self) -> Five:
        """Its extents, with blocks of channels that are side by side in the place of channels."""
        groups, channels, depth, height, width = self.extents
        return groups, -(-channels // self.interleave), depth, height, width

    def checked(self, where: str, room: int) -> View:
        """Return the view if it has elements, not too many, and all of them within a space of so many bytes.

        Raises:
            HwxError: It does not.
        """
        if min(self.extents) < 1:
            axis = AXES[self.extents.index(min(self.extents))]
            raise HwxError(f"{where}: a tensor must have an element along {axis}", seen=self.extents)
        most = min(MOST_ELEMENTS, room // ELEMENT)  # no real tensor reads an element twice
        if self.elements > most:
            raise HwxError(f"{where}: the tensor has too many elements", seen=self.elements, limit=most)
        if self.base % ELEMENT or any(stride % ELEMENT for stride in self.strides):
            raise HwxError(f"{where}: base and strides must be multiples of {ELEMENT}", seen=self.strides)
        if self.end > room:
            raise HwxError(
                f"{where}: the tensor leaves {self.space}", seen=f"{self.base:#x} to {self.end:#x}", limit=f"{room:#x}"
            )
        return self

    def exchanged(self) -> View:
        """Return the view of a tensor whose channels and width are exchanged when it is stored."""
        groups, channels, depth, height, width = self.extents
        return replace(self, extents=(groups, width, depth, height, channels))

    def of(self, memory: NDArray[Element]) -> NDArray[Element]:
        """Return its elements as a view of a space's elements; it must have been checked, and have no interleave."""
        steps = tuple(stride // ELEMENT * memory.itemsize for stride in self.strides)
        return as_strided(memory[self.base // ELEMENT :], self.extents, steps)

    def places(self) -> NDArray[np.int64]:
        """Return the numbers of its elements in the space; it must have been checked."""
        channel = np.arange(self.extents[CHANNELS], dtype=np.int64)
        along = [
            np.arange(extent, dtype=np.int64) * stride
            for extent, stride in zip(self.extents, self.strides, strict=True)
        ]
        along[CHANNELS] = channel // self.interleave * self.strides[CHANNELS] + channel % self.interleave * ELEMENT
        shaped = (
            values.reshape([-1 if axis == place else 1 for axis in range(len(along))])
            for place, values in enumerate(along)
        )
        total = np.asarray(sum(shaped), dtype=np.int64)
        return (self.base + total) // ELEMENT

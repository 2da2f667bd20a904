"""The memory that tasks work on: sections of the container by their base registers, and L2.

A space holds elements of any type: bits when a file runs, names of elements when it is read as a graph. Each element
is known to have been written or not: a task that reads what no earlier one wrote has its tasks in the wrong order, or
addresses that are wrong.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.interpreter.address_views import ELEMENT, View
from aneforge.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Container, Section

__all__ = ["L2", "MOST_BYTES", "Memory", "Place"]

Element = TypeVar("Element", bound=np.generic)

L2 = "L2"
FRAMED, SLOTS = 4, 2
"""Flavor of programs whose tasks name slots, and the slots of a base register."""
MOST_BYTES = 2**30
"""Bytes of all spaces of a program together."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a space."""

    space: str
    offset: int


@dataclass(slots=True)
class Space(Generic[Element]):
    """One range of addresses."""

    values: NDArray[Element]
    written: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Its bytes."""
        return ELEMENT * len(self.values)


@dataclass(slots=True)
class Memory(Generic[Element]):
    """Spaces by name; those of sections are made when they are first used."""

    container: Container
    l2_bytes: int
    dtype: type[Element]
    spaces: dict[str, Space[Element]] = field(default_factory=dict[str, "Space[Element]"])
    bytes: int = 0

    def find(self, bar: int | None, task: int, register: str) -> Place:
        """Return where a base register points.

        Raises:
            HwxError: The program does not set it, or it points into no section that a task may read or write.
        """
        program = self.container.program
        named = {SLOTS * base.index if program.flavor == FRAMED else base.index: base.address for base in program.bases}
        address = None if bar is None else named.get(bar)
        if address is None:
            raise HwxError(f"task {task}: {register}: the program does not set base register {bar}")
        return self.locate(address, f"task {task}: {register}: base register {bar}")

    def locate(self, address: int, where: str) -> Place:
        """Return the place of an address.

        Raises:
            HwxError: It is in no section.
        """
        for section in self.container.sections:
            if section.address <= address < section.address + section.size:
                return Place(name_of(section), address - section.address)
        raise HwxError(f"{where} points into no section", seen=f"{address:#x}")

    def room(self, space: str) -> int:
        """Return the bytes of a space."""
        return self.space(space).size

    def space(self, name: str) -> Space[Element]:
        """Return a space, made if it is not there yet.

        Raises:
            HwxError: The spaces of the program are too large.
        """
        if name not in self.spaces:
            size = self.l2_bytes if name == L2 else self.section(name).size
            self.bytes += size
            if self.bytes > MOST_BYTES:
                raise HwxError("the memory of the program is too large", seen=self.bytes, limit=MOST_BYTES)
            self.spaces[name] = Space(np.zeros(size // ELEMENT, self.dtype), np.zeros(size // ELEMENT, np.bool_))
        return self.spaces[name]

    def section(self, name: str) -> Section:
        """Return the section that a space is made of."""
        return next(one for one in self.container.sections if name_of(one) == name)

    def read(self, view: View, where: str) -> NDArray[Element]:
        """Return the elements of a tensor.

        Raises:
            HwxError: It leaves its space, or an element was not written before.
        """
        space = self.space(view.space)
        view.checked(where, space.size)
        if view.interleave == 1:
            written, values = view.of(space.written), view.of(space.values)
        else:
            places = view.places()
            written, values = space.written[places], space.values[places]
        if not written.all():
            first = tuple(int(index) for index in np.argwhere(~written)[0])
            raise HwxError(
                f"{where}: no earlier task wrote what is read from {view.space}",
                seen=f"element {first} of {view.extents} at {view.base:#x}",
            )
        return np.array(values)

    def write(self, view: View, values: NDArray[Element], where: str) -> None:
        """Write the elements of a tensor.

        Raises:
            HwxError: It leaves its space, two elements have one address, or the space is constant.
        """
        space = self.space(view.space)
        view.checked(where, space.size)
        if not view.is_distinct:
            raise HwxError(f"{where}: elements of the result share addresses", seen=view.strides, limit=view.extents)
        if view.space != L2 and self.section(view.space).content is not None:
            raise HwxError(f"{where}: the result would be written over {view.space}")
        self.put(view, values)

    def put(self, view: View, values: NDArray[Element]) -> None:
        """Write the elements of a tensor that was checked before."""
        space = self.space(view.space)
        if view.interleave == 1:
            view.of(space.values)[...] = values
            view.of(space.written)[...] = True
        else:
            places = view.places()
            space.values[places] = values
            space.written[places] = True

    def forget(self, view: View) -> None:
        """Make elements unwritten again where a buffer is laid over them, as far as they are within the space."""
        space = self.space(view.space)
        if view.interleave == 1 and view.end <= space.size and view.is_distinct:
            view.of(space.written)[...] = False


def name_of(section: Section) -> str:
    """Return the name of a section's space; sections of one name are distinguished by their addresses."""
    return f"{section.path}@{section.address:#x}"

"""Backends that reach Apple's frameworks: which device serves each, found out when it is asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from aneforge.records import dataclass
from aneforge.runtime.devices import Device, DeviceBackend
from aneforge.runtime.dispatch.abi import LIBRARY_VARIABLE, AbiDevice, find_dispatch_library
from aneforge.runtime.dispatch.espresso import EspressoDevice
from aneforge.runtime.dispatch.in_memory_model import InMemoryModelDevice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.runtime.devices import DeviceExecutable

__all__ = ["DeviceDoor", "e5rt_device", "in_memory_model_device"]

SERVES = f"a dispatch library that {LIBRARY_VARIABLE} names serves on any system"


@dataclass(frozen=True, slots=True)
class DeviceDoor:
    """A backend whose device is found when it is asked for."""

    name: str
    title: str
    find: Callable[[], Device]
    otherwise: str = ""
    """What else would open the door, where it is shut."""

    def obstacle(self) -> str | None:
        """Return why the device cannot be used here."""
        found = self.find().obstacle()
        return f"{found}; {self.otherwise}" if found is not None and self.otherwise else found

    def load(self, program: Program, graph: Graph | None) -> DeviceExecutable:
        """Let the device compile and load a program, as `DeviceBackend.load` does."""
        return DeviceBackend(self.name, self.title, self.find()).load(program, graph)


def e5rt_device() -> Device:
    """Return the dispatch library that there is, else Espresso.framework itself.

    >>> e5rt_device().obstacle() is None or "macOS" in str(e5rt_device().obstacle())
    True
    """
    path = find_dispatch_library()
    return espresso() if path is None else library_at(path)


@cache
def library_at(path: Path) -> AbiDevice:
    """Return the dispatch library at a path, loaded once."""
    return AbiDevice(path)


@cache
def espresso() -> EspressoDevice:
    """Return Espresso.framework, loaded once."""
    return EspressoDevice()


@cache
def in_memory_model_device() -> InMemoryModelDevice:
    """Return the classes of Path A, loaded once."""
    return InMemoryModelDevice()

"""Fake frameworks for tests of the clients on a Mac: C libraries with the real names, before our own engine.

They are built here with the C compiler of the machine and are no part of the package. Each counts the objects that were
not released, and the fake Objective-C runtime counts messages to dead ones.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.runtime.dispatch import library
from aneforge.runtime.dispatch.abi import AbiDevice
from aneforge.runtime.dispatch.espresso import EspressoDevice
from aneforge.runtime.dispatch.in_memory_model import Frameworks, InMemoryModelDevice
from dispatch_tools import COMPILER

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from aneforge.runtime.devices import Device

SOURCES = Path(__file__).parent / "apple" / "frameworks"
FLAGS = ("-shared", "-fPIC", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fvisibility=hidden")


def in_one_library(path: str) -> Frameworks:
    """Return the frameworks where one library has them all."""
    return Frameworks(path, path, path, path, path)


def build_fake(name: str, folder: Path, *flags: str) -> str:
    """Compile a fake framework and return its path."""
    assert COMPILER is not None
    built = folder / f"{name}.so"
    subprocess.run(
        [COMPILER, *FLAGS, *flags, str(SOURCES / f"{name}.c"), "-o", str(built), "-ldl", "-pthread"], check=True
    )
    return str(built)


def why_there_are_none() -> str | None:
    """Return why there are no fake frameworks here, or None where there are."""
    if COMPILER is None:
        return "there is no C compiler for the fake frameworks"
    return None if library.PATH.exists() else "the dispatch library is not built"


@dataclass(frozen=True)
class Way:
    """A way to the engine: a device, and how many of its objects nobody released, misuses among them."""

    name: str
    device: Device
    leaks: Callable[[], int]


@dataclass(frozen=True)
class Fakes:
    """The fake frameworks, and the library that they are before."""

    espresso: EspressoDevice
    in_memory: InMemoryModelDevice
    library: AbiDevice

    @classmethod
    def build(cls, folder: Path, patch: pytest.MonkeyPatch) -> Fakes:
        """Compile them into a folder; they find our engine as long as the patch holds."""
        assert library.record_interpreter() is None
        patch.setenv("FAKE_ENGINE_LIBRARY", str(library.PATH))
        return cls(
            EspressoDevice(build_fake("fake_espresso", folder)),
            InMemoryModelDevice(in_one_library(build_fake("fake_neural_engine", folder))),
            AbiDevice(library.library_path()),
        )

    def ways(self) -> dict[str, Way]:
        """Return every way to the engine by its name."""
        e5rt, objc = self.espresso.library, self.in_memory.objc.library
        return {
            "library": Way("library", self.library, lambda: 0),
            "e5rt": Way("e5rt", self.espresso, e5rt.fake_espresso_live),
            "path_a": Way("path_a", self.in_memory, lambda: objc.fake_objc_live() + objc.fake_objc_misuse()),
        }

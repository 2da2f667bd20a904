"""What tests of the dispatch library share: MIL files, a C client, and the library as ctypes sees it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import native_build
from aneforge.runtime.dispatch import library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMPILER = os.environ.get("CC") or shutil.which("cc")
INCREMENT = """program(1.3) { func main<ios18>(tensor<fp16, [1, 64]> x) {
  fp16 one = const()[name = string("one"), val = fp16(0x1p+0)];
  tensor<fp16, [1, 64]> y = add(x = x, y = one)[name = string("y")];
} -> (y); }
"""
needs_library = pytest.mark.skipif(not library.PATH.exists(), reason="the dispatch library is not built")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


def build_client(source: Path, folder: Path) -> Path:
    """Compile a C program against the library and return its path."""
    assert COMPILER is not None
    built, where = folder / source.stem, library.PATH.parent
    subprocess.run(
        [
            *(COMPILER, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{native_build.DISPATCH.sources}"),
            *(str(source), "-o", str(built), str(library.PATH), f"-Wl,-rpath,{where}"),
        ],
        check=True,
    )
    return built


def environment(**given: str) -> dict[str, str]:
    """Return the environment of a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANEFORGE_")}
    return {**kept, "ANEFORGE_TARGET": "h13", **given}


def workers() -> set[int]:
    """Return the processes of workers, whoever's they are."""
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and b"dispatch.worker" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue
    return found


@dataclass(frozen=True)
class Abi:
    """The library through ctypes, as clients in Python bind it."""

    library: ctypes.CDLL

    @classmethod
    def load(cls) -> Abi:
        """Load the library."""
        assert library.record_interpreter() is None
        loaded = ctypes.CDLL(str(library.library_path()))
        loaded.ane_e5rt_program_compile.restype = ctypes.c_void_p
        loaded.ane_e5rt_program_get_op_count.restype = ctypes.c_size_t
        return cls(loaded)

    def compile(
        self,
        mil: str | Path | None,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        *,
        mask: int = 4,
        cache: str | Path | None = None,
    ) -> ctypes.c_void_p | None:
        """Compile a program; None where that fails."""
        handle = self.library.ane_e5rt_program_compile(
            None if mil is None else os.fsencode(mil),
            None if cache is None else os.fsencode(cache),
            ctypes.c_uint64(mask),
            *port_arrays(inputs),
            *port_arrays(outputs),
        )
        return None if handle is None else ctypes.c_void_p(handle)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function of the ABI that gives a status."""
        return getattr(self.library, f"ane_e5rt_{name}")(*arguments)


def port_arrays(ports: Mapping[str, int]) -> Sequence[object]:
    """Return names, sizes and number of ports as C has them."""
    names = (ctypes.c_char_p * len(ports))(*(name.encode() for name in ports))
    return names, (ctypes.c_size_t * len(ports))(*ports.values()), ctypes.c_size_t(len(ports))

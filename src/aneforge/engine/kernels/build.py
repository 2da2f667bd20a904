"""Compiles the kernels into one shared library; needs a C compiler and nothing else.

The build of the package runs it by its file (`hatch_build.py`), so it imports nothing but the standard library; the
test of the paths of other processors uses it too. No build system is asked: an editable install stays a plain entry of
the path, which PYTHONPATH can override, and nothing is rebuilt or looked up at import. What was compiled from the same
sources in the same way is not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BuildError", "Toolchain", "build_library", "compile_objects", "library_name"]

SOURCES = Path(__file__).parent / "native"
COMMON = ("library", "multiply", "workers", "path_portable")
FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-ffp-contract=off",  # roundings are the subject: nothing may fuse what is written apart
    "-fno-math-errno",  # nobody looks at errno or at traps, and then more loops become vectors
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
)
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512")
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"path_avx512": AVX512, "path_avx2": ("-mavx2", "-mfma")},
    "aarch64": {"path_neon": ()},
}
"""Sources of each machine besides the common ones, and the flags of each."""
DEFINITIONS = {"x86_64": "-DANEFORGE_X86", "aarch64": "-DANEFORGE_NEON"}
SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64"}
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}


class BuildError(Exception):
    """The kernels cannot be built here; the message says why."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler and the machine that it compiles for."""

    compiler: str
    machine: str

    @classmethod
    def of_host(cls) -> Toolchain:
        """Return the compiler of this machine: that of the variable CC, or the first usual one.

        Raises:
            BuildError: There is none, or it is of a kind that does not know these sources.
        """
        if sys.platform == "win32":
            raise BuildError("the sources are for compilers like gcc and clang; this system has another")
        wanted = os.environ.get("CC")
        for name in [wanted] if wanted else ["cc", "gcc", "clang"]:
            if shutil.which(name):
                return cls(name, machine_name(platform.machine()))
        raise BuildError(f"there is no C compiler ({wanted or 'cc, gcc or clang'})")

    @property
    def definitions(self) -> tuple[str, ...]:
        """Flags that say what machine it is."""
        return (DEFINITIONS[self.machine],) if self.machine in DEFINITIONS else ()

    def run(self, *arguments: str) -> None:
        """Run the compiler.

        Raises:
            BuildError: It fails.
        """
        command = [self.compiler, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the compiler's own
        if done.returncode:
            raise BuildError(f"{' '.join(command)}\n{done.stderr}")


def machine_name(name: str) -> str:
    """Return the one name of a machine that has several."""
    return SPELLINGS.get(name.lower(), name.lower())


def library_name() -> str:
    """Return the file name of the library on this system."""
    return "aneforge_kernels" + SUFFIXES.get(sys.platform, ".so")


def compile_objects(toolchain: Toolchain, folder: Path) -> list[Path]:
    """Compile every source for a machine into a folder, several at a time.

    Raises:
        BuildError: The compiler fails.
    """
    flags = dict.fromkeys(COMMON, ()) | PATHS.get(toolchain.machine, {})

    def compiled(source: str) -> Path:
        result = folder / f"{source}.o"
        common = (*FLAGS, *toolchain.definitions, *flags[source])
        toolchain.run(*common, "-c", str(SOURCES / f"{source}.c"), "-o", str(result))
        return result

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compiled, flags))


def fingerprint(machine: str) -> str:
    """Return a text that changes with the sources, the flags and the machine."""
    digest = hashlib.sha256(repr((machine, FLAGS, PATHS)).encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def build_library(folder: Path) -> Path:
    """Build the library into a folder, or find it there, built from the same sources in the same way.

    A library of other sources is removed first: none is better than a wrong one.

    Raises:
        BuildError: It cannot be built.
    """
    library, stamp = folder / library_name(), folder / "aneforge_kernels.stamp"
    key = fingerprint(machine_name(platform.machine()))
    if library.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key:
        return library
    library.unlink(missing_ok=True)
    toolchain = Toolchain.of_host()
    with tempfile.TemporaryDirectory(prefix="aneforge_kernels.", dir=folder) as work:
        objects = compile_objects(toolchain, Path(work))
        built = Path(work) / library.name
        toolchain.run("-shared", "-pthread", *map(str, objects), "-lm", "-o", str(built))
        built.replace(library)
    stamp.write_text(key, encoding="utf-8")
    return library

"""Compiles the package's C libraries, each into one shared library; needs a C compiler and nothing else.

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
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "DISPATCH",
    "KERNELS",
    "LIBRARIES",
    "BuildError",
    "Library",
    "Toolchain",
    "build_library",
    "compile_objects",
    "record_reason",
]

PACKAGE = Path(__file__).parent.parent / "src" / "aneforge"
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512")
DEFINITIONS = {"x86_64": "-DANEFORGE_X86", "aarch64": "-DANEFORGE_NEON"}
SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64"}
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}


class BuildError(Exception):
    """A library cannot be built here; the message says why."""


@dataclass(frozen=True)
class Library:
    """A library: its name, where it and its sources are, and how it is compiled."""

    name: str
    folder: Path
    """Where it is put, next to its binding; the sources are in `native` there."""
    common: tuple[str, ...]
    """Sources of every machine."""
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    paths: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict[str, "dict[str, tuple[str, ...]]"])
    """Sources of each machine besides the common ones, and the flags of each."""
    systems: tuple[str, ...] | None = None
    """The systems that it is for, as `sys.platform` has them; None for all."""

    @property
    def sources(self) -> Path:
        """The folder of the sources."""
        return self.folder / "native"

    @property
    def file_name(self) -> str:
        """The file name of the library on this system."""
        return self.name + SUFFIXES.get(sys.platform, ".so")

    @property
    def stamp_name(self) -> str:
        """The name of the file that says what the library was built from."""
        return f"{self.name}.stamp"

    @property
    def reason_name(self) -> str:
        """The name of the file that says why the library is not there; its binding tells the user."""
        return f"{self.name}.missing"

    @property
    def is_for_this_system(self) -> bool:
        """Whether it can be built here at all."""
        return self.systems is None or sys.platform in self.systems

    def fingerprint(self, machine: str) -> str:
        """Return a text that changes with the sources, the flags and the machine."""
        digest = hashlib.sha256(repr((machine, self.flags, self.link_flags, self.paths)).encode())
        for source in sorted(self.sources.glob("*.[ch]")):
            digest.update(source.name.encode() + source.read_bytes())
        return digest.hexdigest()


KERNELS = Library(
    "aneforge_kernels",
    PACKAGE / "engine" / "kernels",
    ("library", "multiply", "workers", "path_portable"),
    (
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
    ),
    ("-lm",),
    {
        "x86_64": {"path_avx512": AVX512, "path_avx2": ("-mavx2", "-mfma")},
        "aarch64": {"path_neon": ()},
    },
)
DISPATCH = Library(
    "libane_open",
    PACKAGE / "runtime" / "dispatch",
    ("abi", "blocks", "bytes", "programs", "queue", "report", "trace", "worker"),
    ("-std=gnu11", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra"),
    # It registers what is done at a fork, and has threads: a client that closes it must not unmap their code.
    ("-ldl", "-Wl,-z,nodelete"),
    systems=("linux",),  # memory by descriptors (memfd), and a Mac has the engine itself
)
LIBRARIES = (KERNELS, DISPATCH)


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
            raise BuildError(f"the C compiler failed\n{' '.join(command)}\n{done.stderr}")


def machine_name(name: str) -> str:
    """Return the one name of a machine that has several."""
    return SPELLINGS.get(name.lower(), name.lower())


def compile_objects(library: Library, toolchain: Toolchain, folder: Path) -> list[Path]:
    """Compile every source of a library for a machine into a folder, several at a time.

    Raises:
        BuildError: The compiler fails.
    """
    flags = dict.fromkeys(library.common, ()) | library.paths.get(toolchain.machine, {})

    def compiled(source: str) -> Path:
        result = folder / f"{source}.o"
        common = (*library.flags, *toolchain.definitions, *flags[source])
        toolchain.run(*common, "-c", str(library.sources / f"{source}.c"), "-o", str(result))
        return result

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compiled, flags))


def build_library(library: Library, folder: Path | None = None) -> Path:
    """Build a library into its folder or another, or find it there, built from the same sources in the same way.

    A library of other sources is removed first: none is better than a wrong one.

    Raises:
        BuildError: It cannot be built.
    """
    folder = folder or library.folder
    if not library.is_for_this_system:
        raise BuildError(f"{library.name} is for {', '.join(library.systems or ())}, and this is {sys.platform}")
    built, stamp = folder / library.file_name, folder / library.stamp_name
    key = library.fingerprint(machine_name(platform.machine()))
    if built.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key:
        return built
    built.unlink(missing_ok=True)
    toolchain = Toolchain.of_host()
    with tempfile.TemporaryDirectory(prefix=f"{library.name}.", dir=folder) as work:
        objects = compile_objects(library, toolchain, Path(work))
        fresh = Path(work) / built.name
        toolchain.run("-shared", "-pthread", *map(str, objects), *library.link_flags, "-o", str(fresh))
        fresh.replace(built)
    stamp.write_text(key, encoding="utf-8")
    (folder / library.reason_name).unlink(missing_ok=True)
    return built


def record_reason(library: Library, error: BuildError, folder: Path | None = None) -> Path:
    """Write next to the binding why its library is missing, and return that file."""
    record = (folder or library.folder) / library.reason_name
    record.write_text(f"{error}\n", encoding="utf-8")
    return record

"""Programs that were compiled before, on disk, by the content of what they were made of.

An entry is a saved program whose name is the hash of everything that went into it: the graph with its weights, the
target, the options, and this very build of the package. So an entry is never out of date, only unused. It leaves out
the weights that the graph has: who looks it up has them. Entries appear
whole, through a rename, and are checked when they are read; one that is damaged is thrown away and made again. Two
processes may use one folder at a time: at worst both compile, and the second rename wins with the same content. The
entries that were used longest ago go when the folder passes its bound.

ANEFORGE_CACHE_DIR chooses the folder, ANEFORGE_CACHE_BYTES the bound; 0 switches the cache off.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

import aneforge
from aneforge._version import __version__
from aneforge.errors import GraphError, ProgramFileError
from aneforge.records import dataclass
from aneforge.runtime.saved.files import SUFFIX, VERSION, read_program_file, write_program_file
from aneforge.whole_files import ABANDONED_SECONDS, UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.ir.program import Program
    from aneforge.runtime.facts import ModelFacts
    from aneforge.runtime.saved.known_constants import KnownArrays

__all__ = ["DEFAULT_BYTES", "Found", "ProgramCache", "key_of", "program_cache"]

FOLDER_VARIABLE, BYTES_VARIABLE = "ANEFORGE_CACHE_DIR", "ANEFORGE_CACHE_BYTES"
DEFAULT_BYTES = 2 << 30
CODE = {".py", ".toml", ".so", ".dylib", ".pyd"}


@dataclass(frozen=True, slots=True)
class Found:
    """What the cache had for a key."""

    entry: tuple[Program, ModelFacts] | None
    remarks: tuple[str, ...] = ()
    """What a reader should know: an entry that was damaged, a folder that cannot be read."""


@dataclass(frozen=True, slots=True)
class ProgramCache:
    """A folder of compiled programs with a bound on its size."""

    folder: Path
    most_bytes: int = DEFAULT_BYTES

    def place(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / f"{key}{SUFFIX}"

    def get(self, key: str, known: KnownArrays) -> Found:
        """Return the program of a key, if there is one that is whole; it takes constants that are `known`."""
        if not self.most_bytes:
            return Found(None)
        file = self.place(key)
        try:
            entry = read_program_file(file, known)
        except FileNotFoundError:
            return Found(None)
        except ProgramFileError as error:
            remove(file)
            return Found(None, (f"a damaged entry of the cache was made again: {error.message}",))
        except OSError as error:
            return Found(None, (f"the cache cannot be read: {error}",))
        with suppress(OSError):  # a folder that is only read from has no order of use
            os.utime(file)
        return Found(entry)

    def put(self, key: str, program: Program, facts: ModelFacts, known: KnownArrays) -> tuple[str, ...]:
        """Keep a program without what is `known`; return what a reader should know: nothing, where all went well."""
        if not self.most_bytes:
            return ()
        try:
            file = write_program_file(self.place(key), program, facts, known)
            self.shrink(keep=file)
        except OSError as error:
            return (f"the cache cannot be written: {error}",)
        return ()

    def shrink(self, keep: Path | None = None) -> None:
        """Remove what a killed process left, and the entries used longest ago until the bound holds.

        An entry that is larger than the bound by itself goes as well; `keep` goes last.
        """
        now = time.time()
        entries: list[tuple[bool, float, int, Path]] = []
        for file, stat in list_files(self.folder):
            if file.name.endswith(UNFINISHED):
                if now - stat.st_mtime > ABANDONED_SECONDS:
                    remove(file)
            elif file.suffix == SUFFIX:
                entries.append((file == keep, stat.st_mtime, stat.st_size, file))
        total = sum(size for _, _, size, _ in entries)
        for _, _, size, file in sorted(entries):
            if total <= self.most_bytes:
                return
            remove(file)
            total -= size

    def clear(self) -> None:
        """Remove every entry."""
        for file, _ in list_files(self.folder):
            if file.suffix == SUFFIX or file.name.endswith(UNFINISHED):
                remove(file)


def list_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the files of a folder; one that another process removes meanwhile is left out."""
    found: list[tuple[Path, os.stat_result]] = []
    for file in folder.iterdir() if folder.is_dir() else ():
        try:
            found.append((file, file.stat()))
        except FileNotFoundError:
            continue
    return found


def remove(file: Path) -> None:
    """Remove a file, if it is there and the system lets go of it; a mapped file stays on some systems."""
    with suppress(PermissionError):
        file.unlink(missing_ok=True)


def program_cache() -> ProgramCache:
    """Return the cache of this user, as the environment has it.

    Raises:
        GraphError: The bound is not a number of bytes.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    bound = os.environ.get(BYTES_VARIABLE)
    if bound is not None and not (bound.isascii() and bound.isdecimal()):
        raise GraphError(f"{BYTES_VARIABLE} is not a number of bytes", seen=repr(bound), limit="0 or more")
    root = Path(folder).expanduser() if folder else Path(platformdirs.user_cache_dir("aneforge", appauthor=False))
    return ProgramCache(root / "programs", DEFAULT_BYTES if bound is None else int(bound))


def key_of(parts: Iterable[str]) -> str:
    """Return the name of an entry: the hash of all that it is made of, and of this build of the package.

    >>> len(key_of(["graph", "target"]))
    64
    """
    state = hashlib.sha256(f"{VERSION} {build()}".encode())
    for part in parts:
        content = part.encode()
        state.update(f" {len(content)} ".encode())
        state.update(content)
    return state.hexdigest()


@cache
def build() -> str:
    """Return what identifies this build of the package: version, and size and time of every file of code."""
    root = Path(aneforge.__file__).parent
    state = hashlib.sha256(__version__.encode())
    for file in sorted(root.rglob("*")):
        if file.suffix in CODE:
            stat = file.stat()
            state.update(f"{file.relative_to(root)} {stat.st_size} {stat.st_mtime_ns} ".encode())
    return state.hexdigest()

"""The library of fast kernels: where it is, which paths it has, and the settings of a call.

It is plain C, built with the package and loaded through ctypes, so one build serves every Python and no Python headers
are needed to build it. Where it is missing the golden model runs, and one warning says so.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import GraphError, UnknownNameError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

    import numpy as np
    import numpy.typing as npt

__all__ = [
    "MissingKernelsWarning",
    "Settings",
    "address",
    "available",
    "call",
    "library",
    "paths",
    "reason_missing",
    "using",
]

INTERFACE = 11
"""Number of the C interface (`ANEFORGE_INTERFACE` of kernels.h) that this module speaks."""
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
PATH = Path(__file__).parent / ("aneforge_kernels" + SUFFIXES.get(sys.platform, ".so"))
"""Where the build puts the library, in an editable install too."""
NO_MEMORY = 1
INEXACT = 3
REASON = "aneforge_kernels.missing"
"""Written by the build next to this module if it could not make the library: why."""
REMEDY = "install a C compiler, then the package again with pip install --force-reinstall --no-cache-dir"


class MissingKernelsWarning(RuntimeWarning):
    """The library of fast kernels is not there; the golden model runs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How kernels run: the path, None for the best, and the number of threads, None for one on each processor.

    `golden` says that they do not run at all, and the golden model in their place.
    """

    path: str | None = None
    threads: int | None = None
    golden: bool = False


DEFAULT = Settings()
CURRENT: ContextVar[Settings] = ContextVar("settings of the kernels", default=DEFAULT)


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None if it is not built, cannot be loaded or is of another version.

    >>> library() is library()
    True
    """
    try:
        found = ctypes.CDLL(str(PATH))
        number = found.aneforge_interface()
    except (OSError, AttributeError):
        return None
    if number != INTERFACE:
        return None
    found.aneforge_path.restype = ctypes.c_char_p
    return found


@cache
def paths() -> tuple[str, ...]:
    """Return the names of the paths that this processor has, the best first; none if the library is missing.

    >>> paths()[-1:] in {("portable",), ()}
    True
    """
    found = library()
    names: list[str] = []
    while found is not None:
        name = found.aneforge_path(len(names))
        if name is None:
            break
        names.append(name.decode())
    return tuple(names)


def processors() -> int:
    """Return how many processors this process may use."""
    found = library()
    return 1 if found is None else found.aneforge_processors()


def reason_missing() -> str:
    """Return why there is no library, as its build recorded it; the first line of what a compiler printed."""
    if PATH.exists():
        return f"{PATH.name} cannot be loaded by this system, or belongs to another version"
    record = PATH.with_name(REASON)
    if not record.exists():
        return f"there is no {PATH.name} in the package (folder engine/kernels)"
    first, _, more = record.read_text(encoding="utf-8").strip().partition("\n")
    return f"{first}; see {record}" if more else first


def missing_text() -> str:
    """Return what is said where the library is missing."""
    return (
        f"the fast kernels are not built ({reason_missing()}): the golden model runs instead, bit for bit the same and "
        f"hundreds of times slower. Remedy: {REMEDY}"
    )


@cache
def warn_once() -> None:
    """Warn that the library is missing, once for each process."""
    warn(missing_text(), MissingKernelsWarning)


def available() -> bool:
    """Return whether kernels run: the golden model was not asked for, and the library is there; if not, warn once."""
    if CURRENT.get().golden:
        return False
    if library() is None:
        warn_once()
        return False
    return True


@contextmanager
def using(*, path: str | None = None, threads: int | None = None, golden: bool = False) -> Generator[Settings]:
    """Force a path, a number of threads or the golden model within a block; results are the same with any.

    >>> with using(threads=1) as settings:
    ...     settings
    Settings(path=None, threads=1, golden=False)

    Raises:
        UnknownNameError: This processor or this build has no such path.
        GraphError: The number of threads is not positive.
    """
    if path is not None and path not in paths():
        raise UnknownNameError.of("path of the kernels", path, paths())
    if threads is not None and threads < 1:
        raise GraphError("kernels run on one thread at least", seen=threads, limit=1)
    settings = Settings(path, threads, golden)
    token = CURRENT.set(settings)
    try:
        yield settings
    finally:
        CURRENT.reset(token)


def call(name: str, *arguments: object) -> bool:
    """Call a function of the library with the current path and threads.

    Return False where it leaves the answer to the golden model: sums are so large that their order may matter.

    Raises:
        MemoryError: The kernels ran out of memory.
        RuntimeError: The library is missing, or refuses.
    """
    found = library()
    if found is None:
        raise RuntimeError(missing_text())
    settings = CURRENT.get()
    path = 0 if settings.path is None else paths().index(settings.path)
    threads = processors() if settings.threads is None else settings.threads
    function = getattr(found, name)  # an attribute is looked up in the library once, an index every time
    status = function(*arguments, ctypes.c_int32(path), ctypes.c_int32(threads))
    if status == NO_MEMORY:
        raise MemoryError(f"{name} ran out of memory")
    if status not in {0, INEXACT}:
        raise RuntimeError(f"{name} gave status {status}")
    return status == 0


def address(array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    """Return where the elements of an array are."""
    flags = array.flags
    if flags.c_contiguous and flags.writeable and array.size:  # the way that takes a third of the time
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(array)))  # pyright: ignore[reportArgumentType] - arrays are buffers
    return ctypes.c_void_p(array.__array_interface__["data"][0])

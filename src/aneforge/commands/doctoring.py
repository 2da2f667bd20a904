"""`doctor`: what is installed here, which backends work and why others do not, and how this machine is seen."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import TYPE_CHECKING

from aneforge._version import __version__
from aneforge.engine.kernels.library import REMEDY, library, paths, processors, reason_missing
from aneforge.packages import PACKAGES, install_line
from aneforge.records import dataclass
from aneforge.runtime.backends import backends
from aneforge.targets.host import ENVIRONMENT_VARIABLE, Host

if TYPE_CHECKING:
    from aneforge.runtime.backends import BackendStatus

__all__ = ["Doctor", "Package", "doctor"]


@dataclass(frozen=True, slots=True)
class Package:
    """A package that some command uses."""

    name: str
    version: str | None
    """None where it is not installed."""
    use: str
    install: str
    """The line that installs it; empty where it is there."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """What is installed here, and what works."""

    version: str
    python: str
    system: str
    kernels: str
    """Which instructions the fast kernels use, or why there are none."""
    threads: int
    host: str
    """What this machine says of its own engine."""
    gpu: str
    """The NVIDIA GPU that the backend `cuda` runs on, with its driver; empty where it cannot run."""
    packages: tuple[Package, ...]
    backends: tuple[BackendStatus, ...]

    @property
    def ok(self) -> bool:
        """The exact engine runs at its full speed."""
        return not self.kernels.startswith("none")


def doctor() -> Doctor:
    """Return what is installed here, and what works.

    >>> found = doctor()
    >>> [backend.name for backend in found.backends if backend.available]
    ['software', 'reference', 'cpu_fp16']
    """
    found = backends()
    return Doctor(
        version=__version__,
        python=f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        kernels=kernels_text(),
        threads=processors(),
        host=host_text(),
        gpu=gpu_text() if any(one.name == "cuda" and one.available for one in found) else "",
        packages=(package("numpy", "everything"), *(package(name, use.purpose) for name, use in PACKAGES.items())),
        backends=found,
    )


def package(name: str, use: str) -> Package:
    """Return whether a package is installed."""
    try:
        return Package(name, importlib.metadata.version(name), use, "")
    except importlib.metadata.PackageNotFoundError:
        return Package(name, None, use, install_line(name))


def kernels_text() -> str:
    """Return which instructions the fast kernels use, or why there are none and what to do."""
    if library() is not None:
        return ", ".join(paths())
    return f"none ({reason_missing()}): the golden model runs instead, hundreds of times slower. Remedy: {REMEDY}"


def gpu_text() -> str:
    """Return what the GPU says of itself."""
    from aneforge.engine.cuda.device import device_facts  # noqa: PLC0415 - loaded where there is one

    facts = device_facts()
    return (
        f"{facts['device']}, {facts['memory']}, {facts['multiprocessors']} multiprocessors; "
        f"driver of {facts['driver']}, CuPy {facts['cupy']} of {facts['runtime']}; fp64 at {facts['fp64']}"
    )


def host_text() -> str:
    """Return what this machine says of its engine."""
    override = os.environ.get(ENVIRONMENT_VARIABLE)
    if override:
        return f"{ENVIRONMENT_VARIABLE}={override}"
    host = Host.this_machine()
    seen = host.cpu_brand or ", ".join(host.compatible)
    return seen or f"no Apple silicon; set {ENVIRONMENT_VARIABLE} to choose the target that stands for this machine"

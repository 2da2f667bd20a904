"""Backends: what can run a program, and for each whether it can here, or why not.

A backend that a caller chose and that is not available is an error. Nothing is ever run elsewhere instead: a number
that came from another arithmetic than the one asked for would be worse than none. What reaches Apple's frameworks is in
`dispatch`, over the `Device` interface of `devices`; a device of a caller's own plugs in through `DeviceBackend`.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from aneforge.analysis.routes import standing_of
from aneforge.errors import BackendUnavailableError, GraphTypeError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.executables import HalfPrecisionReference, MathematicalReference, SoftwareEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.analysis.routes import RouteFigure, RouteStatus
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.runtime.executables import Executable

__all__ = [
    "Backend",
    "BackendStatus",
    "SoftwareBackend",
    "UnavailableBackend",
    "backends",
    "choose_backend",
    "default_backend",
    "list_known_backends",
    "status_of",
]


@runtime_checkable
class Backend(Protocol):
    """Something that runs programs."""

    @property
    def name(self) -> str:
        """The word by which it is chosen."""
        ...

    @property
    def title(self) -> str:
        """What it is, and on which silicon it computes, in a few words."""
        ...

    def obstacle(self) -> str | None:
        """Return why it cannot run here, or None where it can."""
        ...

    def load(self, program: Program, graph: Graph | None) -> Executable:
        """Make a program ready to run.

        The graph that it was made of is there unless the program was read from a file.

        Raises:
            BackendUnavailableError: It cannot run here.
        """
        ...


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """A backend, and whether it can run here."""

    name: str
    title: str
    available: bool
    reason: str
    """Why it cannot run here; empty where it can."""
    latency: RouteFigure | None
    """The published time of one program, the same for all; None where there is none. `af.routes()` has more."""
    device: str
    """What it computes on."""
    status: RouteStatus
    """What to make of it where it can run."""
    recommendation: str

    def __str__(self) -> str:
        here = "available" if self.available else f"not available: {self.reason}"
        latency = "no published latency" if self.latency is None else f"published latency {self.latency}"
        return f"{self.name}: {self.title}; {self.status}; {here}; {latency}"


@dataclass(frozen=True, slots=True)
class SoftwareBackend:
    """A backend that computes here, on any machine."""

    name: str
    title: str
    prepare: Callable[[Program], Executable]

    def obstacle(self) -> str | None:
        """Return nothing: it runs everywhere."""
        return None

    def load(self, program: Program, graph: Graph | None) -> Executable:
        """Make a program ready to run."""
        del graph  # the program says it all
        return self.prepare(program)


@dataclass(frozen=True, slots=True)
class UnavailableBackend:
    """A backend of which it is known why it cannot run here."""

    name: str
    title: str
    framework: str | None
    """The framework of macOS that it needs; None where the reason is the same on every system."""
    reason: str
    """Why not, on a Mac."""

    def obstacle(self) -> str | None:
        """Return why it cannot run here."""
        if self.framework is not None and sys.platform != "darwin":
            return f"{self.framework} is part of macOS, and this is {sys.platform}"
        return self.reason

    def load(self, program: Program, graph: Graph | None) -> Executable:
        """Refuse.

        Raises:
            BackendUnavailableError: Always.
        """
        del program, graph  # whatever they are
        raise unavailable(self)


GPU_BASELINE = "it keeps programs on the GPU: a baseline for comparisons, not a way to the Neural Engine"

SOFTWARE: tuple[SoftwareBackend, ...] = (
    SoftwareBackend("software", "software engine: the engine's arithmetic, bit for bit where known", SoftwareEngine),
    SoftwareBackend("reference", "float64 reference: the mathematics, on the CPU", MathematicalReference),
    SoftwareBackend(
        "cpu_fp16", "CPU fp16 reference: every layer rounded once, ties to even, on the CPU", HalfPrecisionReference
    ),
)
"""What computes here, the default first."""


@cache
def list_known_backends() -> tuple[Backend, ...]:
    """Return every backend that is known, the default first."""
    from aneforge.runtime.chaining.chaining_study import ENTITLEMENT  # noqa: PLC0415 - few programs leave this process
    from aneforge.runtime.dispatch.coreml import CoreMlBackend  # noqa: PLC0415 - as above
    from aneforge.runtime.dispatch.doors import (  # noqa: PLC0415 - as above
        SERVES,
        DeviceDoor,
        e5rt_device,
        in_memory_model_device,
    )
    from aneforge.runtime.gpu import CudaBackend  # noqa: PLC0415 - as above

    return (
        *SOFTWARE,
        CudaBackend(),
        DeviceDoor("e5rt", "e5rt execution streams, on the Neural Engine", e5rt_device, SERVES),
        DeviceDoor("in_memory_model", "_ANEInMemoryModel (Path A), on the Neural Engine", in_memory_model_device),
        UnavailableBackend("mpsgraph", "MPSGraph, on the GPU", "MetalPerformanceShadersGraph", GPU_BASELINE),
        CoreMlBackend(),
        UnavailableBackend(
            "path_b",
            "_ANEChainingRequest and _ANESharedEvents (Path B)",
            None,
            f"it needs the entitlement {ENTITLEMENT}, which no third-party process is given",
        ),
    )


def backends() -> tuple[BackendStatus, ...]:
    """Return every known backend, each available or with the reason why not; the first is the default.

    Device, status, recommendation and latency are published information (`af.routes()`), whether it can run or not.

    >>> import aneforge as af
    >>> [status.name for status in af.backends() if status.available]
    ['software', 'reference', 'cpu_fp16']
    >>> print(next(status for status in af.backends() if status.name == "path_b").reason)
    it needs the entitlement com.apple.aned.private.allow, which no third-party process is given
    >>> e5rt = next(status for status in af.backends() if status.name == "e5rt")
    >>> e5rt.device, str(e5rt.status), e5rt.latency.microseconds
    ('Neural Engine', 'recommended', (80.0, 110.0))
    """
    return tuple(map(status_of, list_known_backends()))


def status_of(backend: Backend) -> BackendStatus:
    """Return whether a backend can run here."""
    obstacle = backend.obstacle()
    known = standing_of(backend.name)
    return BackendStatus(
        name=backend.name,
        title=backend.title,
        available=obstacle is None,
        reason=obstacle or "",
        latency=known.latency,
        device=known.device,
        status=known.status,
        recommendation=known.recommendation,
    )


def choose_backend(choice: str | Backend | None) -> Backend:
    """Return the backend that a caller chose: by name, one of his own, or None for the software engine.

    Raises:
        UnknownNameError: None has that name.
        GraphTypeError: It is neither a name nor a backend.
        BackendUnavailableError: It cannot run here.
    """
    if choice is None:
        return default_backend()
    if isinstance(choice, str):
        found = find_backend(choice)
    elif isinstance(choice, Backend):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        found = choice
    else:
        raise GraphTypeError("backend is neither a name nor a backend", seen=type(choice).__name__)
    if found.obstacle() is not None:
        raise unavailable(found)
    return found


def default_backend() -> Backend:
    """Return the backend of a caller who chose none: the software engine."""
    return SOFTWARE[0]


def find_backend(name: str) -> Backend:
    """Return the backend of a name; what reaches other devices is loaded only where none of ours has it.

    Raises:
        UnknownNameError: None has that name.
    """
    here = next((backend for backend in SOFTWARE if backend.name == name), None)
    if here is not None:
        return here
    known = {backend.name: backend for backend in list_known_backends()}
    if name not in known:
        raise UnknownNameError.of("backend", name, list(known))
    return known[name]


def unavailable(backend: Backend) -> BackendUnavailableError:
    """Return the error for a backend that cannot run here."""
    return BackendUnavailableError(
        f"backend {backend.name!r} ({backend.title}) is not available: {backend.obstacle()}",
        remedy='af.backends() says what is; "software" computes the engine\'s arithmetic on any machine',
    )

"""Which path to take for what: the table "Choosing a path" of the documentation of backends, as a function."""

from __future__ import annotations

from enum import StrEnum

from aneforge.errors import UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.backends import list_known_backends, status_of
from aneforge.runtime.chaining.chaining_study import ENTITLEMENT

__all__ = ["Need", "PathChoice", "choose_path"]


class Need(StrEnum):
    """What a caller needs."""

    HOT_LOOP = "hot_loop"
    """Inference in a hot loop, at a fixed shape."""
    QUICK_TRY = "quick_try"
    """A quick try from Python."""
    SINGLE_SHOT = "single_shot"
    """One inference, whose latency does not matter."""
    STREAMING = "streaming"
    """Streaming inference with a cache of keys and values."""
    PIPELINE = "pipeline"
    """A compiled pipeline of several operations."""
    ROUTING_AUDIT = "routing_audit"
    """The truth about which device each operation is routed to."""
    SILICON_PROBE = "silicon_probe"
    """Which silicon really ran, by its counters."""
    CHAINING = "chaining"
    """Chained requests and shared events, without the host between them."""


@dataclass(frozen=True, slots=True)
class PathChoice:
    """The path for a need, and whether it can be taken here."""

    need: Need
    use: str
    """What to use, in a few words."""
    reason: str
    backends: tuple[str, ...]
    """The backends that serve the need, the best first; none where the answer is a tool."""
    available: bool
    """One of these backends can run here."""
    why_not: str
    """Why the best of them cannot run here; empty where it can, or where the answer is a tool."""
    software: str
    """What does the same on the software engine, on any machine; empty where nothing does."""

    def __str__(self) -> str:
        here = f" Not here: {self.why_not}." if self.why_not else ""
        instead = f" On any machine: {self.software}." if self.why_not and self.software else ""
        return f"{self.use}: {self.reason}.{here}{instead}"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    use: str
    reason: str
    backends: tuple[str, ...] = ()
    software: str = ""


TABLE = {
    Need.HOT_LOOP: Row(
        "e5rt: compile once, reuse the model",
        'the program stays resident, so a call costs two copies and one execution; af.route("e5rt") has the figures',
        ("e5rt", "software"),
        "the same model on the software engine, compiled once; the bits are the engine's where known, the time is not",
    ),
    Need.QUICK_TRY: Row(
        "build a graph, af.compile, call the model",
        "the same call runs on the engine and on the software engine",
        ("e5rt", "software"),
        "the software engine runs the same program, with the same bits where its arithmetic is known",
    ),
    Need.SINGLE_SHOT: Row(
        "e5rt or the in-memory model",
        "both reach the same silicon without an entitlement, and latency does not matter",
        ("e5rt", "in_memory_model", "software"),
        "the software engine runs the same program",
    ),
    Need.STREAMING: Row(
        "e5rt with paired state tensors",
        "an output buffer is made an input's before the first execution, so the cache never leaves the engine",
        ("e5rt", "software"),
        "a software stream whose state stays in shared buffers (af.with_state_ports, af.ExecutionStream)",
    ),
    Need.PIPELINE: Row(
        "e5rt with several operations on one stream",
        "operations that are encoded on one stream run in order under one call",
        ("e5rt", "software"),
        "a software stream (af.ExecutionStream, af.execute_multi) runs them in the same order under one call",
    ),
    Need.ROUTING_AUDIT: Row(
        "MLComputePlan over a compiled .mlmodelc",
        "it reports which device Apple's compiler prefers for each operation; it is an oracle, not a way to dispatch",
    ),
    Need.SILICON_PROBE: Row(
        "sudo powermetrics --samplers ane_power,cpu_power,gpu_power",
        "power on the rail of a unit shows that it ran",
    ),
    Need.CHAINING: Row(
        "nothing that a third party may use; K steps in one call on e5rt come closest",
        f"Path B needs the entitlement {ENTITLEMENT}; a bounded loop on e5rt does the same, neither faster nor slower",
        ("path_b",),
        "chained requests in simulation (aneforge.runtime.chaining, simulate=True)",
    ),
}


def choose_path(need: str) -> PathChoice:
    """Return the path for a need, the reason, and whether it can be taken here.

    >>> import aneforge as af
    >>> choice = af.choose_path("quick_try")
    >>> choice.available, choice.backends
    (True, ('e5rt', 'software'))
    >>> af.choose_path("chaining").available
    False

    Raises:
        UnknownNameError: There is no such need.
    """
    if need not in set(Need):
        raise UnknownNameError.of("need", need, Need)
    row = TABLE[Need(need)]
    states = {backend.name: status_of(backend) for backend in list_known_backends()}
    found = [states[name] for name in row.backends]
    return PathChoice(
        Need(need),
        row.use,
        row.reason,
        row.backends,
        available=any(status.available for status in found),
        why_not=found[0].reason if found else "",
        software=row.software,
    )

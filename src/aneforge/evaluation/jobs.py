"""A job: everything that a task needs in addition to its samples, as plain values that any process can be sent."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import aneforge
from aneforge._version import __version__
from aneforge.errors import GraphError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.evaluation.images import ImageOptions
    from aneforge.evaluation.metrics import Metric
    from aneforge.graph.graph import Graph

__all__ = ["ChipProgram", "Job", "digest_of", "expect_same_build", "this_build"]

CODE = {".py", ".toml"}
"""Files that decide what a task computes; libraries are built for each machine, and have the same bits."""


@dataclass(frozen=True, slots=True)
class ChipProgram:
    """The program of one target, as a file holds it."""

    target: str
    label: str
    """As users call it, with the chip where one was named."""
    exactness: str
    content: bytes
    microseconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The predicted time of a batch on the chip itself, and the ends of its interval; 0 where nothing runs there."""
    cautions: tuple[str, ...] = ()
    """What compiling warned of."""


@dataclass(frozen=True, slots=True)
class Job:
    """What runs on every sample."""

    programs: tuple[ChipProgram, ...]
    reference: Graph | None
    """The model as its file has it, for the mathematics; None where it is not asked for."""
    inputs: Mapping[str, tuple[int, ...]]
    """The shape of a sample of every input, in the order in which values are fed."""
    batch: int
    output: str
    """The output that answers are read from."""
    classes: int | None
    """How many values a sample's output has; None where it is not one vector."""
    metric: Metric | None
    images: ImageOptions | None
    build: str
    """The package that made it: all tasks of one run are computed by the same build."""
    digest: str = ""
    """What identifies the job, so that a process loads its programs once."""

    @property
    def chips(self) -> tuple[str, ...]:
        """The labels of the chips, in order."""
        return tuple(one.label for one in self.programs)


@cache
def this_build() -> str:
    """Return what identifies the package in this process: its version, and a hash of its code and data.

    Times of files do not count: machines of one cluster installed the same package at different times.
    """
    root, state = Path(aneforge.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*")):
        if file.suffix in CODE:
            state.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{__version__} ({state.hexdigest()[:12]})"


def expect_same_build(job: Job, worker: str | None = None) -> None:
    """Refuse to compute a part of a run whose other parts another package computes; `worker` names this process.

    Raises:
        GraphError: This process has another package than the one that the run was started with.
    """
    if job.build != this_build():
        raise GraphError(
            "this process has a different version of aneforge than the one that started the run",
            operation=worker,
            seen=this_build(),
            limit=job.build,
            remedy="install the same version on every worker, and restart the workers",
        )


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a hash of texts and contents in their order.

    >>> digest_of(["a", "b"]) == digest_of(["ab"])
    False
    """
    state = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        state.update(f"{len(content)} ".encode())
        state.update(content)
    return state.hexdigest()

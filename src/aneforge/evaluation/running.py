"""How the shards of a run are computed: here one after the other, or by the workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aneforge.errors import GraphError
from aneforge.evaluation.shard_run import run_shard
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aneforge.evaluation.jobs import Job
    from aneforge.evaluation.samples import Shard

__all__ = ["FailedShard", "Finished", "Local", "Runner", "StoppedError"]


class StoppedError(GraphError):
    """What stops a run whatever its model: the scheduler is gone, say. The same command goes on from there."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The bytes of a shard."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class FailedShard:
    """A shard that no worker could compute: the run is not whole, and going on with it tries again."""

    number: int
    first: str
    last: str
    """The names of its first and last sample."""
    reason: str


class Runner(Protocol):
    """What computes shards."""

    def run(self, job: Job, shards: Iterable[Shard]) -> Iterator[Finished | FailedShard]:
        """Yield shards as they are finished, in any order; only as many samples are read ahead as are needed."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """This process."""

    threads: int | None = None
    """Threads of the engine; None is one for each processor."""
    device: str = "cpu"
    """What programs run on: cpu or cuda."""

    def run(self, job: Job, shards: Iterable[Shard]) -> Iterator[Finished | FailedShard]:
        """Compute one shard after the other."""
        for shard in shards:
            yield Finished(shard.number, run_shard(job, shard, self.threads, self.device))

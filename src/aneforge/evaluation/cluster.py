"""Tasks on the workers of a Dask cluster, which schedules, retries and moves data.

A task is a shard of an evaluation (`run_shard`) or one of several models (`Cluster.map`). The job of an evaluation is
sent to every worker once; one that joins late fetches it from another. As many shards are under way as keep the workers
busy, so that memory does not grow with the data. A shard whose worker dies is run by another; one that ends several
workers in turn is given up and reported, and the rest goes on.
"""
# distributed is an extra whose types do not distinguish synchronous answers from those that are awaited:
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingTypeArgument=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from aneforge.errors import GraphError
from aneforge.evaluation.jobs import expect_same_build, this_build
from aneforge.evaluation.metrics import describe
from aneforge.evaluation.running import FailedShard, Finished, StoppedError
from aneforge.evaluation.shard_run import run_shard
from aneforge.packages import expect_package
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from distributed import Client, Future

    from aneforge.evaluation.jobs import Job
    from aneforge.evaluation.samples import Shard

__all__ = ["Cluster"]

Item = TypeVar("Item")
Result = TypeVar("Result")

LOST = "the workers that ran it, or held its data, ended one after the other"
AHEAD = 2
"""Shards for each worker that are sent before it asks, so that none waits."""
TRIES = 3
"""How often a shard is sent again after the workers that held the job were lost."""
PATIENCE = "20s"
"""How long a scheduler has to answer, and workers have to appear."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers of a scheduler, or processes that are started on this machine for one run."""

    scheduler: str | None
    workers: int = 1
    """Processes that are started where no scheduler is named."""

    def run(self, job: Job, shards: Iterable[Shard]) -> Iterator[Finished | FailedShard]:
        """Yield shards as workers finish them.

        Raises:
            GraphError: The scheduler is not there, goes away or has no worker, or a worker has another version.
            MissingPackageError: Dask is not installed.
        """
        expect_package("distributed")
        expect_same_build(job)
        with self.client() as client, connected(client):
            expect_one_version(client)
            yield from run_on(client, job, shards)

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result | Exception]]:
        """Yield what workers made of items, by their numbers, as they finish: a result, or the error instead.

        Raises:
            GraphError: The scheduler is not there, goes away or has no worker, or a worker has another version.
            MissingPackageError: Dask is not installed.
        """
        expect_package("distributed")
        with self.client() as client, connected(client):
            expect_one_version(client)
            yield from map_on(client, function, items)

    @contextmanager
    def client(self) -> Generator[Client]:
        """Yield a connection to the scheduler."""
        import distributed  # noqa: PLC0415 - an extra

        if self.scheduler is None:
            with (
                distributed.LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=threads_for(self.workers),
                    processes=True,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,  # what a worker says when its scheduler ends first is not an error
                ) as local,
                distributed.Client(local, set_as_default=False) as client,
            ):
                yield client
            return
        with without_log():
            try:
                client = distributed.Client(self.scheduler, timeout=PATIENCE, set_as_default=False)
            except (OSError, ValueError) as error:
                raise StoppedError(
                    "the scheduler does not answer",
                    operation=self.scheduler,
                    seen=describe(error),
                    remedy="start one with `dask scheduler` and workers with `dask worker`, or use --workers",
                ) from None
            with client:
                yield client


@contextmanager
def without_log() -> Generator[None]:
    """Keep Dask from writing the tracebacks of its client, whose errors are raised too."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def connected(client: Client) -> Generator[None]:
    """Turn whatever a client raises once its scheduler is gone into one sentence.

    Raises:
        GraphError: The scheduler went away.
    """
    from distributed.comm.core import CommClosedError  # noqa: PLC0415 - an extra

    try:
        yield
    except GraphError:
        raise
    except Exception as error:
        # The status of a client says so a moment after the connection was lost.
        if client.status == "running" and not isinstance(error, CommClosedError):
            raise
        raise StoppedError(
            "the scheduler went away",
            seen=describe(error),
            remedy="start it again; computed results are kept, and the same command goes on from there",
        ) from None


def run_on(client: Client, job: Job, shards: Iterable[Shard]) -> Iterator[Finished | FailedShard]:
    """Yield shards as workers finish them, with a bounded number under way."""
    from distributed import as_completed  # noqa: PLC0415 - an extra
    from distributed.client import FutureCancelledError  # noqa: PLC0415 - as above

    sent = client.scatter(job, broadcast=True, hash=False)
    waiting = iter(shards)
    under_way: dict[str, Shard] = {}
    lost: Counter[int] = Counter()

    def submit(shard: Shard) -> Future:
        future = client.submit(run_on_worker, sent, shard, pure=False)
        under_way[future.key] = shard
        return future

    submitted = [submit(one) for one in itertools.islice(waiting, count_wanted_shards(client))]
    completed = as_completed(submitted, loop=client.loop)
    for future in completed:
        shard = under_way.pop(future.key)
        found = None
        with suppress(FutureCancelledError):
            found = outcome(future, shard)
        if found is None and lost[shard.number] < TRIES:
            # The workers that held the job or its result are gone, and it with them.
            lost[shard.number] += 1
            sent = client.scatter(job, broadcast=True, hash=False)
            completed.add(submit(shard))
            continue
        yield found or build_failed_shard(shard, LOST)
        future.release()
        # A worker that joined meanwhile is given work too.
        for one in itertools.islice(waiting, max(0, count_wanted_shards(client) - len(under_way))):
            completed.add(submit(one))


def map_on(
    client: Client, function: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[tuple[int, Result | Exception]]:
    """Yield what workers made of items, by their numbers, as they finish; a lost worker's items go to others."""
    from distributed import as_completed  # noqa: PLC0415 - an extra
    from distributed.client import FutureCancelledError  # noqa: PLC0415 - as above

    numbers: dict[str, int] = {}
    submitted: list[Future] = []
    for number, item in enumerate(items):
        future = client.submit(function, item, pure=False)
        numbers[future.key] = number
        submitted.append(future)
    for future in as_completed(submitted, loop=client.loop):
        try:
            found = result_of(future)
        except FutureCancelledError:
            yield numbers[future.key], GraphError(LOST)
            continue
        yield numbers[future.key], GraphError(describe(found)) if isinstance(found, Exception) else found


def count_wanted_shards(client: Client) -> int:
    """Return how many shards keep the workers busy that are there now."""
    return AHEAD * max(1, len(client.nthreads()))


def run_on_worker(job: Job, shard: Shard) -> bytes:
    """Run a shard with as many threads as the worker was given."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    expect_same_build(job, get_worker().address)
    return run_shard(job, shard, get_worker().state.nthreads)


def outcome(future: Future, shard: Shard) -> Finished | FailedShard:
    """Return what became of a shard.

    Raises:
        FutureCancelledError: The workers that held the job are gone.
        GraphError: A worker refused the job: it has another version, or cannot import the metric.
    """
    found = result_of(future)
    if isinstance(found, GraphError):
        raise found
    return build_failed_shard(shard, describe(found)) if isinstance(found, Exception) else Finished(shard.number, found)


def result_of(future: Future) -> Any:  # noqa: ANN401 - Dask has no types
    """Return what a worker gave, or the error that it raised there.

    The future is waited for: it was completed, but where the worker that held its result ended, another computes it
    again, and its status does not say "finished" until then.

    Raises:
        FutureCancelledError: The workers that held what it needs are gone.
    """
    try:
        return future.result()
    except Exception as error:
        if future.status != "error":  # it is the client's, not the worker's
            raise
        return error


def build_failed_shard(shard: Shard, reason: str) -> FailedShard:
    """Return a shard that was given up, by its samples."""
    return FailedShard(shard.number, shard.samples[0].name, shard.samples[-1].name, reason)


def expect_one_version(client: Client) -> None:
    """Refuse workers that would compute something other than this process; those that join later refuse by themselves.

    Raises:
        GraphError: There is no worker, or one has another version of the package, or none.
    """
    from distributed import TimeoutError as TooLate  # noqa: PLC0415 - an extra

    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TooLate:
        raise StoppedError("the scheduler has no worker", remedy="start some: dask worker ADDRESS") from None
    found = client.run(worker_build, on_error="return")
    other = {worker: describe(build) if isinstance(build, Exception) else build for worker, build in found.items()}
    wrong = {worker: build for worker, build in other.items() if build != this_build()}
    if wrong:
        worker, build = next(iter(wrong.items()))
        raise StoppedError(
            f"{len(wrong)} of {len(found)} workers have another version of aneforge",
            operation=worker,
            seen=build,
            limit=this_build(),
            remedy="install the same version on every worker, and restart the workers",
        )


def worker_build() -> str:
    """Return what identifies the package of a worker."""
    return this_build()


def threads_for(workers: int) -> int:
    """Return the threads of each of several processes that share this machine."""
    return max(1, (os.cpu_count() or 1) // workers)

"""Several models of one command: one after the other here, or by the workers of a cluster, with the same answers.

A task is everything that a process needs to answer for one model, as plain values. A model that cannot be read is the
answer of only that model: the others go on.
"""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import chdir
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from aneforge.errors import GraphError
from aneforge.packages import expect_package
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from aneforge.evaluation.cluster import Cluster

    Progress = Callable[[str, int, int], None]

__all__ = ["Answer", "Task", "answer_all", "cluster_for"]

Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)
ONE_AT_A_TIME = threading.Lock()
"""Warnings and the current folder are a whole process's, of which a worker may have several threads."""


class Task(Protocol[Made_co]):
    """What is done for one model."""

    @property
    def model(self) -> Path:
        """The file of the model."""
        ...

    def __call__(self, progress: Progress | None = None) -> Made_co:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class Answer(Generic[Made]):
    """What came of one model: a result or an error, and what was warned of on the way."""

    made: Made | None
    error: Exception | None = None
    cautions: tuple[str, ...] = ()


def cluster_for(scheduler: str | None, workers: int | None) -> Cluster | None:
    """Return the cluster that is asked for; None is this process.

    Raises:
        GraphError: Both a scheduler and workers are named, or no worker at all.
        MissingPackageError: Dask is not installed.
    """
    if scheduler is None and workers is None:
        return None
    if scheduler is not None and workers is not None:
        raise GraphError(
            "a scheduler has its own workers", seen=f"workers {workers}", remedy="give --scheduler or --workers"
        )
    if workers is not None and workers < 1:
        raise GraphError("a run needs at least one worker", seen=f"workers {workers}")
    from aneforge.evaluation.cluster import Cluster  # noqa: PLC0415 - an extra

    expect_package("distributed")
    return Cluster(scheduler, workers or 1)


def answer_all(
    tasks: Sequence[Task[Made]], cluster: Cluster | None, progress: Progress | None = None
) -> Iterator[Answer[Made]]:
    """Yield the answer of every task in their order, each as soon as it and those before it are there."""
    if cluster is None:
        yield from (answer(task, progress) for task in tasks)
        return
    waiting: dict[int, Answer[Made]] = {}
    following = 0
    for number, found in cluster.map(partial(answer_on_worker, os.getcwd()), tasks):  # noqa: PTH109 - as text
        waiting[number] = found if isinstance(found, Answer) else Answer(None, found)
        if progress is not None:
            progress("models", following + len(waiting), len(tasks))
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def answer(task: Task[Made], progress: Progress | None = None) -> Answer[Made]:
    """Do one task, and keep what went wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made, error = task(progress), None
        except Exception as wrong:  # noqa: BLE001 - shown as every error is, and the other models go on
            made, error = None, wrong
    return Answer(made, error, tuple(dict.fromkeys(str(one.message) for one in caught)))


def answer_on_worker(folder: str, task: Task[Made]) -> Answer[Made]:
    """Do one task where other threads may have others, in the folder in which it was asked for.

    Reports have the paths that the user gave, and those are often relative.
    """
    with ONE_AT_A_TIME:
        try:
            with chdir(folder):
                return answer(task)
        except OSError as error:
            return Answer(None, error)

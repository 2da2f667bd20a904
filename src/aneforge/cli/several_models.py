"""One command over several models: their results in order, and one exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from aneforge.cli.error_messages import complain, reason_of, report_error
from aneforge.cli.waiting import Relay, progress
from aneforge.commands.many_models import answer_all, cluster_for
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from aneforge.commands.many_models import Task

__all__ = ["MODEL_NAME", "Results", "expect_own_names", "own_name"]

Made = TypeVar("Made")
MODEL_NAME = "{model}"
"""What stands for the name of a model in the names of files."""


class Results(Generic[Made]):
    """The results of models, as they come; the error of one of several is printed, and the others go on."""

    def __init__(self, tasks: Sequence[Task[Made]], scheduler: str | None, workers: int | None, what: str) -> None:
        self.tasks = tasks
        self.cluster = cluster_for(scheduler, workers)
        self.what = what
        """What is being done, for the user who waits."""
        self.errors: list[tuple[int, str]] = []
        """The numbers of the tasks that have no result, and why."""
        self.code = 0
        """The largest exit code of the errors so far."""

    def __iter__(self) -> Iterator[tuple[int, Made]]:
        """Yield the number of every task that has a result, and the result.

        Raises:
            AneforgeError: There is only one model, and it cannot be read or refuses what is asked of it.
        """
        relay = Relay()
        answers = answer_all(self.tasks, self.cluster, relay)
        for number, task in enumerate(self.tasks):
            with progress(self.what) as relay.tell:
                found = next(answers)
            for caution in found.cautions:
                complain(f"warning: {caution}")
            if found.made is not None:
                yield number, found.made
            elif found.error is not None and len(self.tasks) > 1:
                self.errors.append((number, reason_of(found.error)))
                self.code = max(self.code, report_error(found.error, task.model))
            elif found.error is not None:
                raise found.error


def expect_own_names(option: str, path: str, models: Sequence[Path]) -> None:
    """Refuse names of files under which several models would overwrite one another.

    Raises:
        GraphError: The name is the same for two models.
    """
    if len(models) > 1 and MODEL_NAME not in path:
        raise GraphError(
            "several models would be written to the same file",
            seen=f"{option} {path}",
            remedy=f"{option} with {MODEL_NAME}, which is replaced by the name of each",
        )
    stems = [model.stem for model in models]
    if MODEL_NAME in path and (same := next((one for one in stems if stems.count(one) > 1), None)) is not None:
        raise GraphError(
            "two models have the same name and would be written to the same file",
            seen=same,
            remedy="run the command once for each",
        )


def own_name(path: str | Path, model: Path) -> str:
    """Return the name of one model's file.

    >>> from pathlib import Path
    >>> own_name("reports/{model}.html", Path("zoo/resnet.onnx"))
    'reports/resnet.html'
    """
    return str(path).replace(MODEL_NAME, model.stem)

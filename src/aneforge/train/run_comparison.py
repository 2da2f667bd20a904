"""The same training run on two targets, step by step: where they first differ, and how far apart they end."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.ops.types import Array
    from aneforge.train.parameter import Parameter
    from aneforge.train.training_run import StepValues, TrainingRun

__all__ = ["Difference", "RunComparison", "compare_runs", "label_of"]


PARAMETERS_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor that two runs have with different bits."""

    step: int
    tensor: str
    elements: int
    """How many elements differ."""
    size: int
    largest: float
    """The largest difference; infinite or NaN where one of the values is."""

    def __str__(self) -> str:
        share = f"{self.elements} of {self.size} elements differ"
        return f"step {self.step}, {self.tensor}: {share}, by {self.largest:.3g} at most"


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs from the same state."""

    targets: tuple[str, str]
    steps: int
    first: Difference | None
    """The first tensor that differs, in the order in which a step computes them; None where all bits are equal."""
    last: tuple[Difference, ...]
    """Parameters that differ after the last step."""
    losses: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def equal(self) -> bool:
        """True where every tensor of every step has the same bits."""
        return self.first is None

    def __str__(self) -> str:
        one, other = self.targets
        head = f"{self.steps} steps on {one} and {other}: "
        ends = f"loss of the last step {self.losses[0][-1]:.6g} and {self.losses[1][-1]:.6g}"
        if self.first is None:
            return f"{head}equal bits in every tensor; {ends}"
        lines = [f"{head}first difference at {self.first}", ends]
        lines += [f"after {found}" for found in self.last[:PARAMETERS_SHOWN]]
        more = len(self.last) - PARAMETERS_SHOWN
        return "\n".join([*lines, *([f"and {more} parameters more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def compare_runs(one: TrainingRun, other: TrainingRun, steps: int) -> RunComparison:
    """Run both for some steps, and compare every tensor that leaves a program or the optimiser."""
    first: Difference | None = None
    losses: tuple[list[float], list[float]] = ([], [])
    for step in range(1, steps + 1):
        values = one.step(), other.step()
        for place, value in enumerate(values):
            losses[place].append(value.loss)
        if first is None:
            first = next(differences(step, tensors(one, values[0]), tensors(other, values[1])), None)
    last = tuple(differences(steps, parameters(one), parameters(other)))
    targets = one.programs.target, other.programs.target
    return RunComparison(targets, steps, first, last, (tuple(losses[0]), tuple(losses[1])))


def tensors(run: TrainingRun, values: StepValues) -> list[tuple[str, Array]]:
    """Return the tensors of a step by name, in the order in which they are computed."""
    params = run.optimizer.params
    return [
        *((run.objective.name, result) for result in values.results),
        *((f"gradient of {label_of(params, place)}", one) for place, one in enumerate(values.gradients)),
        *((one.name, run.module_state.values[one.name]) for one in run.module_state.moved),
        *parameters(run),
    ]


def parameters(run: TrainingRun) -> list[tuple[str, Array]]:
    """Return the parameters by name."""
    run.read_back()
    params = run.optimizer.params
    return [(label_of(params, place), one.value) for place, one in enumerate(params)]


def label_of(params: Sequence[Parameter], place: int) -> str:
    """Return how a parameter is called: by its own name, or by its place."""
    name = params[place].node.attributes["name"]
    return name if isinstance(name, str) and name else f"params[{place}]"


def differences(
    step: int, one: Sequence[tuple[str, Array]], other: Sequence[tuple[str, Array]]
) -> Iterator[Difference]:
    """Yield the tensors whose bits differ."""
    for (name, value), (_, against) in zip(one, other, strict=True):
        unequal = value.view(np.uint32) != against.view(np.uint32)
        if unequal.any():
            with np.errstate(invalid="ignore"):
                largest = float(np.abs(value[unequal] - against[unequal]).max())
            yield Difference(step, name, int(unequal.sum()), value.size, largest)

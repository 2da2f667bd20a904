"""One training run: programs, parameters, optimiser and data, without the checks of the public trainer."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.records import dataclass
from aneforge.train.checkpoints import SCALE_CHANGES, Header, Snapshot, network_lines
from aneforge.train.interrupts import hold_interrupts
from aneforge.train.module_state import ModuleState
from aneforge.train.run_comparison import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.train.batches import Dataset
    from aneforge.train.loss_scale import DynamicLossScale
    from aneforge.train.objectives import Objective
    from aneforge.train.optimisers import Optimizer
    from aneforge.train.step_programs import Programs

__all__ = ["StepValues", "TrainingRun"]


@dataclass(frozen=True, slots=True)
class StepValues:
    """What a step computed, before the update."""

    loss: float
    results: tuple[Array, ...]
    """The logits or the loss of every mini-batch."""
    gradients: tuple[Array, ...]
    """Of the scaled loss, in the order of the parameters; the mean of the mini-batches, in float32."""
    taken: bool
    """False where a gradient was not finite, and the step was skipped."""


@dataclass
class TrainingRun:
    """The state of one run on one target."""

    objective: Objective
    programs: Programs
    optimizer: Optimizer
    accumulate: int
    """Mini-batches of one update."""
    fixed: Mapping[Node, Array]
    """Values of inputs that stay the same."""
    dataset: Dataset | None = None
    scaling: DynamicLossScale | None = None
    """How the loss scale changes; None where it stays the same."""
    module_state: ModuleState = field(default_factory=ModuleState)
    """Masks of dropout and buffers that the run changes."""

    def step(self) -> StepValues:
        """Run the mini-batches of one step and update the parameters; Ctrl-C waits until it is complete."""
        with hold_interrupts():
            return self.step_once()

    def step_once(self) -> StepValues:
        """Run the mini-batches of one step and update the parameters."""
        losses: list[float] = []
        results: list[Array] = []
        sums: list[Array] = []
        for _ in range(self.accumulate):
            data = {} if self.dataset is None else self.dataset.draw()
            feeds = self.feeds(data, self.module_state.draw())
            found = self.programs.step.run(feeds)
            self.module_state.move(found)
            results.append(found[self.objective.name])
            losses.append(self.objective.loss_of(results[-1], feeds))
            gradients = [found[name] for name in self.programs.gradients]
            # Infinite values of either sign may meet here; the optimiser skips what comes of it.
            with np.errstate(invalid="ignore"):
                sums = [one + more for one, more in zip(sums, gradients, strict=True)] if sums else gradients
        means = tuple(one / np.float32(self.accumulate) for one in sums)
        taken = self.optimizer.step(means)
        if self.scaling is not None:
            self.scaling.adjust(self.optimizer)
        return StepValues(sum(losses) / len(losses), tuple(results), means, taken)

    def loss(self) -> float:
        """Return the loss of the last mini-batch with the current parameters."""
        feeds = self.feeds({} if self.dataset is None else self.dataset.last())
        return self.objective.loss_of(self.forward(feeds), feeds)

    def forward(self, feeds: Mapping[Node, Array]) -> Array:
        """Return what the forward pass gives: the logits, or the loss."""
        return self.programs.forward.run(feeds)[self.objective.name]

    def read_back(self) -> None:
        """Bring parameters and moments to the host; they are there where the host, or a program of its own, updates."""

    def release(self) -> None:
        """Give back what the programs of the run hold."""
        self.programs.release()
        self.optimizer.release()

    def feeds(self, data: Mapping[Node, Array], masks: Mapping[Node, Array] | None = None) -> dict[Node, Array]:
        """Return the values of all inputs; without masks, dropout leaves nothing out."""
        masters = {one.node: one.value for one in self.optimizer.params}
        masks = self.module_state.without_dropout() if masks is None else masks
        return {**self.fixed, **data, **masters, **masks, **self.fed_scale()}

    def fed_scale(self) -> dict[Node, Array]:
        """Return the value of the input that takes the loss scale, where there is one."""
        if self.programs.scale is None:
            return {}
        return {self.programs.scale: np.full((1, 1), self.objective.seed_of(self.optimizer.loss_scale), np.float32)}

    def snapshot(self) -> Snapshot:
        """Return the state of the run: parameters, moments, counters, and where the order of mini-batches is."""
        params, kept = self.optimizer.params, self.optimizer.kept
        tensors: dict[str, Array] = {}
        for place, (one, moments) in enumerate(zip(params, kept, strict=True)):
            label = f"{place}.{label_of(params, place)}"
            tensors[f"parameter.{label}"] = one.value
            tensors |= {f"moment.{label}.{number}": moment for number, moment in enumerate(moments)}
        tensors |= {f"buffer.{name}": value for name, value in self.module_state.values.items()}
        if self.dataset is not None:
            tensors |= self.dataset.rows_to_come()
        header = Header(
            network=network_lines(self.programs.forward.graph),
            optimizer=type(self.optimizer).__name__,
            numbers=self.optimizer.numbers
            | self.module_state.numbers
            | ({} if self.programs.scale is None else {SCALE_CHANGES: 1}),
            order=None if self.dataset is None else self.dataset.batches.place(),
        )
        return Snapshot(header, tensors)

    def restore(self, state: Snapshot) -> None:
        """Go on from a state that was taken of a run of the same network; Ctrl-C waits until it is complete."""
        with hold_interrupts():
            self.take(state)

    def take(self, state: Snapshot) -> None:
        """Replace the state of the run."""
        if self.dataset is not None and state.header.order is not None:
            self.dataset.go_to(state.header.order, state.tensors)
        for name, value in self.snapshot().tensors.items():
            if name.startswith(("parameter.", "moment.", "buffer.")):
                np.copyto(value, state.tensors[name])
        self.optimizer.set_numbers(state.header.numbers)
        self.module_state.set_numbers(state.header.numbers)

    def twin(self, programs: Programs) -> TrainingRun:
        """Return a run in the same state that goes on by itself, with other programs or the same."""
        owners = [one.with_own_value() for one in self.optimizer.params]
        return TrainingRun(
            self.objective,
            programs,
            self.optimizer.copy_for(owners),
            self.accumulate,
            self.fixed,
            None if self.dataset is None else self.dataset.in_same_place(),
            self.scaling,
            self.module_state.copy(),
        )

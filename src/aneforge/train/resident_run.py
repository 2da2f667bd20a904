"""A training run whose parameters and moments stay on the engine: forward, backward and update are one program.

The host feeds the mini-batch and the rate of the step. Parameters are read where a caller asks for a loss, an accuracy
or a checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.builder.inputs import input as build_input
from aneforge.records import dataclass
from aneforge.train.device_optimisers import DeviceOptimizer
from aneforge.train.optimisers import rate_at
from aneforge.train.resident_program import ResidentProgram, compile_with_states, warn_of_states
from aneforge.train.run_comparison import label_of
from aneforge.train.step_programs import Programs, compile_forward, compute_scaled_gradients
from aneforge.train.training_run import StepValues, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike
    from aneforge.train.checkpoints import Snapshot
    from aneforge.train.objectives import Objective
    from aneforge.train.optimisers import Optimizer

__all__ = ["ResidentPrograms", "ResidentRun", "build_resident_programs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentPrograms(Programs):
    """The programs of a run whose states stay on the engine."""

    rate: Node
    """The input that takes the rate of a step."""
    moments: tuple[Node, ...]
    """The inputs that are moments, in the order of the parameters."""

    @property
    def fed_by_host(self) -> frozenset[Node]:
        """The inputs of a step that the trainer feeds in addition to data and parameters."""
        scale = () if self.scale is None else (self.scale,)
        return frozenset({*scale, self.rate, *self.moments})


def build_resident_programs(
    objective: Objective,
    optimizer: Optimizer,
    loss_scale: float | None,
    target: TargetLike,
    backend: str | Backend | None,
) -> ResidentPrograms:
    """Compile a step with its update, and the forward pass; a scale of None is an input of the step.

    Raises:
        GraphError: An option is the host's.
        AneforgeError: Whatever `backward` and `compile` raise.
    """
    update = expect_on_engine(optimizer)
    rate = build_input((1, 1), name="rate")
    weights: list[Tensor] = []
    updated: list[Tensor] = []
    moments: list[Tensor] = []
    gradients, scale = compute_scaled_gradients(objective, update.params, loss_scale)
    for param, gradient in zip(update.params, gradients, strict=True):
        kept = [build_input(param.shape) for _ in range(update.moments)]
        weight, *rest = update.results(param, gradient, rate, kept)
        weights.append(weight)
        updated += rest
        moments += kept
    results = {objective.name: objective.result, **objective.further_results()}
    step = compile_with_states("step", results, [*weights, *updated], target, backend)
    return ResidentPrograms(
        step=step,
        forward=compile_forward(objective.name, objective.result, target, backend),
        gradients=(),
        scale=scale,
        rate=rate.node,
        moments=tuple(one.node for one in moments),
    )


def expect_on_engine(optimizer: Optimizer) -> DeviceOptimizer:
    """Return an optimiser whose update is part of the program.

    Raises:
        GraphError: It, or an option, is the host's.
    """
    if optimizer.clip_norm is not None:
        raise GraphError(
            "a resident state has no clip_norm: the host does not see gradients",
            seen=optimizer.clip_norm,
            remedy="use resident_state=False",
        )
    assert isinstance(optimizer, DeviceOptimizer)  # noqa: S101 - the trainer builds no other one
    return optimizer


@dataclass
class ResidentRun(TrainingRun):
    """The state of one run on one target, in buffers of its program."""

    def __post_init__(self) -> None:
        """Put parameters and moments into the buffers."""
        if self.accumulate != 1:
            raise GraphError(
                "a resident state is updated by every mini-batch", seen=f"accumulate={self.accumulate}", limit=1
            )
        self.update = expect_on_engine(self.optimizer)
        assert isinstance(self.programs, ResidentPrograms)  # noqa: S101 - built for it
        self.rate = self.programs.rate
        states = [*(one.node for one in self.update.params), *self.programs.moments]
        self.resident = ResidentProgram(self.programs.step, states, self.values())
        self.is_ahead = False

    def values(self) -> list[Array]:
        """Return parameters and moments as the host has them."""
        moments = [moment for kept in self.update.kept for moment in kept]
        return [*(one.value for one in self.update.params), *moments]

    def step_once(self) -> StepValues:
        """Run one step; parameters and moments stay where they are."""
        rate = rate_at(self.update.lr, self.update.steps + 1)  # a schedule may fail, and then nothing was drawn
        data = {} if self.dataset is None else self.dataset.draw()
        feeds = {**self.fixed, **data, **self.module_state.draw(), **self.fed_scale()}
        self.resident.check_fed({**feeds, self.rate: np.empty(0)})
        self.update.steps += 1
        fed = self.update.rounded_rate(rate)
        found = self.resident.run({**feeds, self.rate: fed})
        self.is_ahead = True
        self.module_state.move(found)
        result = found[self.objective.name]
        return StepValues(self.objective.loss_of(result, feeds), (result,), (), taken=True)

    def read_back(self) -> None:
        """Bring parameters and moments to the host, if steps ran since; warn of what is not finite or vanished."""
        if not self.is_ahead:
            return
        self.is_ahead = False
        params, found = self.update.params, self.resident.read()
        for one, value in zip(self.values(), found, strict=True):
            np.copyto(one, value)
        warn_of_states([label_of(params, place) for place in range(len(params))], found[: len(params)])
        for place in range(len(params)):
            self.update.check_moments(place)

    def feeds(self, data: Mapping[Node, Array], masks: Mapping[Node, Array] | None = None) -> dict[Node, Array]:
        """Return the values of all inputs of the forward pass, with the current parameters."""
        self.read_back()
        return super().feeds(data, masks)

    def snapshot(self) -> Snapshot:
        """Return the state of the run."""
        self.read_back()
        return super().snapshot()

    def take(self, state: Snapshot) -> None:
        """Replace the state of the run, in the buffers too."""
        super().take(state)
        self.resident.write(self.values())

    def twin(self, programs: Programs) -> ResidentRun:
        """Return a run in the same state that goes on by itself, with other programs or the same."""
        self.read_back()
        made = super().twin(programs)
        return ResidentRun(
            made.objective,
            programs,
            made.optimizer,
            made.accumulate,
            made.fixed,
            made.dataset,
            made.scaling,
            made.module_state,
        )

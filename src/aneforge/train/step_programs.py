"""The two programs of a training run: a step, forward and backward in one, and only the forward pass.

Weights are inputs of both, so that each is compiled once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import keep_warnings
from aneforge.errors import RuntimeStateError
from aneforge.graph.builder.inputs import input as build_input
from aneforge.graph.graph import Graph
from aneforge.records import dataclass
from aneforge.runtime.compile import compile_multi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Node
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.runtime.model import MultiModel
    from aneforge.targets import TargetLike
    from aneforge.train.objectives import Objective
    from aneforge.train.parameter import Parameter

__all__ = [
    "SCALE_INPUT",
    "FedProgram",
    "Programs",
    "StepGraph",
    "build_programs",
    "compile_forward",
    "compute_scaled_gradients",
    "step_graph",
]

SCALE_INPUT = "loss_scale"
"""The name of the input that takes the loss scale."""


@dataclass(frozen=True, slots=True)
class FedProgram:
    """A compiled graph that is fed by the nodes of its inputs."""

    name: str
    graph: Graph
    model: MultiModel

    def run(self, feeds: Mapping[Node, Array]) -> dict[str, Array]:
        """Run once.

        Raises:
            RuntimeStateError: An input has no value.
        """
        self.check_fed(feeds)
        return self.model(*(feeds[node] for node in self.graph.inputs.values()))

    def check_fed(self, feeds: Mapping[Node, Array]) -> None:
        """Check that every input has a value.

        Raises:
            RuntimeStateError: One has none.
        """
        missing = [name for name, node in self.graph.inputs.items() if node not in feeds]
        if missing:
            raise RuntimeStateError(
                f"there is no data for input {', '.join(map(repr, missing))}",
                operation=self.name,
                remedy="call set_dataset first, or give data_inputs to the trainer",
            )


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of a run on one target."""

    step: FedProgram
    forward: FedProgram
    gradients: tuple[str, ...]
    """The outputs of a step that are gradients, in the order of the parameters."""
    scale: Node | None = None
    """The input that takes the loss scale, where it is not a constant of the program."""

    @property
    def target(self) -> str:
        """The name of the target that they were compiled for."""
        return self.step.model.target

    @property
    def fed_by_host(self) -> frozenset[Node]:
        """The inputs of a step that the trainer feeds in addition to data and parameters."""
        return frozenset() if self.scale is None else frozenset({self.scale})

    def release(self) -> None:
        """Give back what the programs hold."""
        self.step.model.release()
        self.forward.model.release()


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Forward and backward pass of a step as one graph."""

    graph: Graph
    gradients: tuple[str, ...]
    """The outputs that are gradients, in the order of the parameters."""
    scale: Node | None
    """The input that takes the loss scale, where it is not a constant."""


def step_graph(objective: Objective, params: Sequence[Parameter], loss_scale: float | None) -> StepGraph:
    """Return the graph of a step; a scale of None is an input of it.

    Raises:
        AneforgeError: Whatever `backward` raises.
    """
    found, scale = compute_scaled_gradients(objective, params, loss_scale)
    names = tuple(f"gradient{place}" for place in range(len(found)))
    gradients = dict(zip(names, found, strict=True))
    graph = Graph({objective.name: objective.result, **gradients, **objective.further_results()})
    return StepGraph(graph, names, scale)


def compute_scaled_gradients(
    objective: Objective, params: Sequence[Parameter], loss_scale: float | None
) -> tuple[list[Tensor], Node | None]:
    """Return the gradients of the scaled loss, and the input that takes the scale where it is None.

    Raises:
        AneforgeError: Whatever `backward` raises.
    """
    if loss_scale is not None:
        return objective.gradients(params, loss_scale), None
    seed = build_input((1, 1), name=SCALE_INPUT)
    return objective.gradients_from(params, seed), seed.node


def build_programs(
    objective: Objective,
    params: Sequence[Parameter],
    loss_scale: float | None,
    target: TargetLike,
    backend: str | Backend | None,
) -> Programs:
    """Compile a step and the forward pass; a scale of None is an input of the step, so that it may change in a run.

    Raises:
        AneforgeError: Whatever `backward` and `compile` raise.
    """
    step = step_graph(objective, params, loss_scale)
    return Programs(
        FedProgram("step", step.graph, compile_multi(step.graph, target=target, backend=backend)),
        compile_forward(objective.name, objective.result, target, backend),
        step.gradients,
        step.scale,
    )


def compile_forward(name: str, result: Tensor, target: TargetLike, backend: str | Backend | None) -> FedProgram:
    """Compile only the forward pass.

    What it warns of, the step said already, of which it is a part; the report lists the warnings of both.

    Raises:
        AneforgeError: Whatever `compile` raises.
    """
    graph = Graph({name: result})
    with keep_warnings():
        return FedProgram("forward", graph, compile_multi(graph, target=target, backend=backend))

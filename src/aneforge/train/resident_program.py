"""A program that keeps its states: what one run writes, the next one reads, from the same buffers.

Every updated state has the buffer of its own input, through an operation of a stream that is encoded once. The host
feeds what is not a state, and reads states when it is asked for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.graph.graph import Graph
from aneforge.runtime.compile import compile_multi
from aneforge.runtime.ports import Direction
from aneforge.runtime.streams.operations import Operation
from aneforge.runtime.streams.stream import ExecutionStream
from aneforge.train.step_programs import FedProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Node
    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.targets import TargetLike

__all__ = ["PassedStates", "ResidentProgram", "compile_with_states", "state_output", "warn_of_states"]


def state_output(place: int) -> str:
    """Return the name of the output that holds the next value of a state, by its place."""
    return f"state{place}"


def compile_with_states(
    name: str,
    results: Mapping[str, Tensor],
    updated: Sequence[Tensor],
    target: TargetLike,
    backend: str | Backend | None,
) -> FedProgram:
    """Compile results and the next values of states as one program.

    Raises:
        AneforgeError: Whatever `compile` raises.
    """
    graph = Graph({**results, **{state_output(place): one for place, one in enumerate(updated)}})
    return FedProgram(name, graph, compile_multi(graph, target=target, backend=backend))


class ResidentProgram:
    """One program whose states stay in buffers that inputs and outputs share."""

    def __init__(self, program: FedProgram, states: Sequence[Node], values: Sequence[Array]) -> None:
        self.program = program
        self.names = dict(zip(program.graph.inputs.values(), program.model.inputs, strict=True))
        """The names of the ports, by the node of their input."""
        self.states = tuple(states)
        self.operation = Operation(program.model.loaded, program.name)
        for place, node in enumerate(self.states):
            self.operation.share_buffer(state_output(place), self.operation, self.names[node])
        self.write(values)
        self.stream = ExecutionStream()
        self.stream.encode(self.operation)

    def run(self, feeds: Mapping[Node, Array]) -> dict[str, Array]:
        """Run once with values for the inputs that are not states; return what is not a state, in float32.

        Raises:
            RuntimeStateError: An input has no value, or the program was released.
        """
        self.check_fed(feeds)
        for node, name in self.names.items():
            if node not in self.states:
                self.operation.set_input(name, feeds[node])
        self.stream.execute()
        kept = {state_output(place) for place in range(len(self.states))}
        outputs = [name for name in self.program.model.outputs if name not in kept]
        return {name: self.operation.read_output(name).astype(np.float32) for name in outputs}

    def check_fed(self, feeds: Mapping[Node, Array]) -> None:
        """Check that every input that is not a state has a value.

        Raises:
            RuntimeStateError: One has none.
        """
        self.program.check_fed({**feeds, **dict.fromkeys(self.states, np.empty(0))})

    def read(self) -> list[Array]:
        """Return copies of the states."""
        return [self.operation.port(self.names[node], Direction.INPUT).buffer.copy() for node in self.states]

    def write(self, values: Sequence[Array]) -> None:
        """Replace the states."""
        for node, value in zip(self.states, values, strict=True):
            self.operation.set_input(self.names[node], value)


class PassedStates:
    """One program whose states the host passes on from run to run."""

    def __init__(self, program: FedProgram, states: Sequence[Node], values: Sequence[Array]) -> None:
        self.program = program
        self.states = tuple(states)
        self.kept = [np.asarray(one, np.float16) for one in values]

    def run(self, feeds: Mapping[Node, Array]) -> dict[str, Array]:
        """Run once with values for the inputs that are not states; return what is not a state, in float32.

        Raises:
            RuntimeStateError: An input has no value, or the program was released.
        """
        found = self.program.run({**feeds, **dict(zip(self.states, self.kept, strict=True))})
        self.kept = [found.pop(state_output(place)).astype(np.float16) for place in range(len(self.states))]
        return found

    def read(self) -> list[Array]:
        """Return copies of the states."""
        return [one.copy() for one in self.kept]

    def write(self, values: Sequence[Array]) -> None:
        """Replace the states."""
        self.kept = [np.asarray(one, np.float16) for one in values]


def warn_of_states(labels: Sequence[str], values: Sequence[Array]) -> None:
    """Warn of parameters that are not finite any more: on the engine no step is skipped."""
    wrong = [label for label, value in zip(labels, values, strict=True) if not np.isfinite(value).all()]
    if wrong:
        warn(
            f"parameters read back from the engine are non-finite: {', '.join(wrong)}. A step of a resident state is "
            "never skipped; go back to a checkpoint, and use a smaller loss_scale or learning rate"
        )

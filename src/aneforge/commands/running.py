"""`run`: a model on the exact engine of one or several targets, or a program that was compiled and saved."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.feeding import feed_inputs, feed_ports
from aneforge.commands.model_and_targets import chip_of, chosen_targets, is_path, subject_of, with_chip
from aneforge.compiler.compile import compile_graph
from aneforge.errors import GraphError, Location
from aneforge.formats.detection import is_program_file
from aneforge.records import dataclass
from aneforge.runtime.backends import choose_backend
from aneforge.targets.names import known_as

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.ops.types import Array
    from aneforge.runtime.backends import Backend
    from aneforge.runtime.executables import Executable
    from aneforge.targets import TargetLike

__all__ = ["Ran", "hand_over", "run_model"]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a model gave on one target."""

    target: str
    backend: str
    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    exactness: str
    reason: str
    seconds: float
    """Time of the run on this machine; it says nothing of the chip's."""
    notes: tuple[str, ...] = ()
    """What was done to the model before it ran, such as the change to fp16; the same on every target."""
    chip: str = ""
    """The chip that was named, else the best known with the target's engine; empty where no chip has it."""

    @property
    def label(self) -> str:
        """The target as users write it."""
        return with_chip(self.target, self.chip)


def run_model(
    model: GraphLike | str | os.PathLike[str],
    targets: TargetLike | Iterable[TargetLike] = None,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int | None = None,
    backend: str | None = None,
    shapes: Shapes | None = None,
) -> tuple[Ran, ...]:
    """Run a model on the exact engine, or on another backend; a seed draws the inputs that are not given.

    A path may be that of a saved program, which has a target of its own: none need be named then.

    >>> import numpy as np
    >>> import aneforge as af
    >>> y = af.input((1, 2), name="x") * 3.0
    >>> ran = run_model(y, af.targets.Family.A13, {"x": np.array([[1.0, 2.0]])})
    >>> ran[0].outputs["y"].tolist()
    [[3.0, 6.0]]

    Raises:
        GraphError: The model cannot be read, or an input has no value or one of another shape.
        IllegalGraphError: It cannot run on one of the targets.
        BackendUnavailableError: The backend cannot run here.
    """
    chosen = choose_backend(backend)
    if is_path(model) and is_program_file(model):
        return (run_program(model, targets, inputs, chosen, seed=seed, shapes=shapes),)
    subject = subject_of(model, shapes=shapes)
    values, states = feed_inputs(subject.graph, inputs, seed)
    runs: list[Ran] = []
    for one in chosen_targets(targets):
        made = compile_graph(subject.graph, one.target, route=subject.route(one.target))
        ran = ran_on(chosen, made.program, subject.graph, made.feed(values), states)
        runs.append(replace(ran, notes=subject.notes, chip=chip_of(one)))
    return tuple(runs)


def run_program(
    path: str | os.PathLike[str],
    targets: TargetLike | Iterable[TargetLike],
    inputs: Mapping[str, Array] | None,
    backend: Backend,
    *,
    seed: int | None,
    shapes: Shapes | None,
) -> Ran:
    """Run a saved program on the target that it was compiled for.

    Raises:
        ProgramFileError: It is damaged, or of another version.
        GraphError: Another target is named, shapes are given, or an input has no value or one that does not fit.
    """
    from aneforge.runtime.saved.files import read_program_file  # noqa: PLC0415 - most runs begin with a model

    program, facts = read_program_file(path)
    name = program.target.name
    others = [] if targets is None else [one.target.name for one in chosen_targets(targets) if one.target.name != name]
    if others:
        raise GraphError(
            "a saved program is for one target",
            location=Location(str(path)),
            seen=others,
            limit=name,
            remedy="leave --target out, or compile the model for the other target",
        )
    if shapes:
        raise GraphError(
            "a saved program has fixed shapes",
            location=Location(str(path)),
            seen=dict(shapes),
            remedy="give --shape when the model is compiled",
        )
    drawn = {one.name: one.draw() for one in facts.supplied}
    values, states = feed_ports(
        {port.name: port.value.type for port in program.inputs if port.name not in drawn},
        {state.name: state.read.type for state in program.states},
        inputs,
        seed,
    )
    ran = ran_on(backend, program, None, {**drawn, **values}, states)
    return replace(ran, chip=known_as(program.target))


def ran_on(
    backend: Backend,
    program: Program,
    graph: Graph | None,
    values: Mapping[str, Array],
    states: Mapping[str, Array],
) -> Ran:
    """Run a program once; the graph that it was made of is for backends that compile it again."""
    ready = backend.load(program, graph)
    try:
        given = hand_over(program, ready, values, states)
        began = time.perf_counter()
        ran = ready.execute(*given)
        seconds = time.perf_counter() - began
    finally:
        ready.release()
    return Ran(
        target=program.target.name,
        backend=backend.name,
        outputs=ran.outputs,
        states=ran.states,
        exactness=str(ran.label.exactness),
        reason=ran.label.reason,
        seconds=seconds,
    )


def hand_over(
    program: Program, ready: Executable, values: Mapping[str, Array], states: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return inputs and states in the types in which a backend takes them; a state that is not given starts at zero."""
    with np.errstate(over="ignore"):
        inputs = {
            port.name: np.asarray(values[port.name]).astype(ready.element(port.value.type)) for port in program.inputs
        }
        started = {
            state.name: np.asarray(states.get(state.name, np.zeros(state.read.type.shape))).astype(
                ready.element(state.read.type)
            )
            for state in program.states
        }
    return inputs, started

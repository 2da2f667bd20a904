"""`run`: a model on the exact engine of one or several targets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.pipeline import build_program
from aneforge.report.feeding import fed
from aneforge.report.subjects import chosen_targets, subject_of
from aneforge.runtime.backends import chosen_backend

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import GraphLike
    from aneforge.importers.shapes import Shapes
    from aneforge.ops.types import Array
    from aneforge.runtime.executables import Executable
    from aneforge.targets import TargetLike

__all__ = ["Ran", "handed", "run_model"]


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
    chosen = chosen_backend(backend)
    subject = subject_of(model, shapes=shapes)
    values, states = fed(subject.graph, inputs, seed)
    found: list[Ran] = []
    for one in chosen_targets(targets):
        program = build_program(subject.graph, one.target)
        ready = chosen.load(program, subject.graph)
        given = handed(program, ready, values, states)
        began = time.perf_counter()
        ran = ready.execute(*given)
        seconds = time.perf_counter() - began
        found.append(
            Ran(
                target=one.target.name,
                backend=chosen.name,
                outputs=ran.outputs,
                states=ran.states,
                exactness=str(ran.label.exactness),
                reason=ran.label.reason,
                seconds=seconds,
            )
        )
        ready.release()
    return tuple(found)


def handed(
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

"""The engine's error: of a whole graph on some inputs, and of one product on the operands that it was seen to read."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.pipeline import build_program
from aneforge.engine.execution.run import prepare
from aneforge.errors import PrecisionWarning
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import Output, build
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor
from aneforge.runtime.rescaling.choosing import RESULT_STEP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.execution.run import Executable, Run
    from aneforge.graph.node import Argument, Node
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = [
    "LOST", "Measured", "Whole", "alone", "error_of", "errors_of", "measured_alone", "quietly", "results_of",
    "rounding_of",
]  # fmt: skip

SUBNORMAL_STEP = 2.0**-25
"""Half the distance of neighbours of fp16 below its normal numbers."""
LOST = 0.1
"""An error from which on a result is lost."""


def error_of(given: Array, exact: Array) -> float:
    """Return ‖given − exact‖ / ‖exact‖; of an exact zero, ‖given‖. It is infinite where the engine's is and exact not.

    >>> error_of(np.array([1.0, 2.2]), np.array([1.0, 2.0])) < 0.1, error_of(np.array([np.inf]), np.array([1.0]))
    (True, inf)
    """
    with np.errstate(invalid="ignore", over="ignore"):
        apart, size = given.astype(np.float64) - exact, norm(exact)
    if not np.all(np.isfinite(apart)):
        return float("inf")
    return norm(apart) / (size or 1.0)


def rounding_of(exact: Array) -> float:
    """Return the largest error that rounding a result to fp16 makes: small numbers have absolute steps, not relative.

    A result whose rounding is as large as itself is lost, which excuses nothing: a tenth is the most that is returned.

    >>> [rounding_of(np.array([size, 0.0])) for size in (1.0, 2.0**-20, 1e-9)]
    [0.00048828125, 0.03125, 0.1]
    """
    steps = np.maximum(np.abs(exact) * RESULT_STEP, np.where(exact == 0, 0.0, SUBNORMAL_STEP))
    return min(norm(steps) / (norm(exact) or 1.0), LOST)


def norm(values: Array) -> float:
    """Return the root of the sum of squares; NumPy's own wakes all threads of its linear algebra for every call."""
    with np.errstate(over="ignore"):
        return math.sqrt(float(np.square(values, dtype=np.float64).sum()))


def quietly(ready: Executable, inputs: Mapping[str, Array]) -> Run:
    """Run a program; what is to be warned of, whoever compiles the graph is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return ready.run(inputs)


def results_of(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs and states as the mathematics gives them.

    Raises:
        GraphError: An input has no value or one that does not fit, or an operation has no meaning of its own.
    """
    outputs, states = evaluate(graph, inputs)
    return {**outputs, **{f"state {name}": value for name, value in states.items()}}


@dataclass(frozen=True, slots=True)
class Whole:
    """A graph on the engine: the errors of its outputs for every set of inputs, and the layers of its program."""

    errors: Mapping[str, tuple[float, ...]]
    layers: int

    @classmethod
    def of(
        cls,
        graph: Graph,
        target: Target,
        sets: Sequence[Mapping[str, Array]],
        exact: Sequence[Mapping[str, Array]],
    ) -> Whole:
        """Return what the engine makes of a graph, held against what the mathematics gives."""
        ready = prepare(build_program(graph, target))
        return cls.joined(ready, [errors_of(ready, *pair) for pair in zip(sets, exact, strict=True)])

    @classmethod
    def joined(cls, ready: Executable, found: Sequence[Mapping[str, float]]) -> Whole:
        """Return the errors of several sets of inputs together."""
        errors = {name: tuple(one[name] for one in found) for name in found[0]}
        return cls(errors, len(ready.program.layers))


def errors_of(ready: Executable, inputs: Mapping[str, Array], exact: Mapping[str, Array]) -> dict[str, float]:
    """Return the errors of outputs and states for one set of inputs."""
    ran = quietly(ready, inputs)
    given = {**ran.outputs, **{f"state {name}": value for name, value in ran.states.items()}}
    return {name: error_of(given[name], value) for name, value in exact.items()}


@dataclass(frozen=True, slots=True)
class Measured:
    """One product alone on the engine."""

    error: float
    layers: int
    channels: tuple[float, ...] = ()
    """The errors of single channels, where they were asked for."""


def alone(node: Node, operands: Mapping[str, Argument]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a node whose tensors are inputs, and those inputs by the names of its operands."""
    inputs = {
        name: Tensor(
            build(INPUT, {}, {"shape": value.shape, "dtype": value.dtype, "name": name}, node.location),
        )
        for name, value in operands.items()
        if isinstance(value, Output)
    }
    return Tensor(replace(node, operands={**operands, **inputs})), inputs


def measured_alone(
    result: Tensor, values: Mapping[str, Array], exact: Array, target: Target, axis: int | None = None
) -> Measured:
    """Return the error of a product alone, and of every channel where its axis is told."""
    program = build_program(Graph({"y": result}), target)
    given = quietly(prepare(program), values).outputs["y"]
    pairs = () if axis is None else zip(np.moveaxis(given, axis, 0), np.moveaxis(exact, axis, 0), strict=True)
    return Measured(error_of(given, exact), len(program.layers), tuple(error_of(*pair) for pair in pairs))

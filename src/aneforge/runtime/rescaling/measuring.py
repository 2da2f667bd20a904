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
from aneforge.runtime.rescaling.policy import policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.engine.execution.run import Executable, Run
    from aneforge.graph.node import Argument, Node
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["Improvement", "Measured", "Whole", "alone", "error_of", "measured_alone", "quietly", "results_of"]


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

    def improved(
        self,
        graph: Graph,
        target: Target,
        sets: Sequence[Mapping[str, Array]],
        exact: Sequence[Mapping[str, Array]],
    ) -> Improvement:
        """Return the errors of a graph that are better than these; none as soon as one set of inputs shows no gain."""
        ready = prepare(build_program(graph, target))
        found: list[Mapping[str, float]] = []
        moved = 0.0
        for place, pair in enumerate(zip(sets, exact, strict=True)):
            found.append(errors_of(ready, *pair))
            before = {name: errors[place] for name, errors in self.errors.items()}
            moved = max(moved, *(moved_by(error, before[name]) for name, error in found[-1].items()))
            if any(error != before[name] and not is_smaller(error, before[name]) for name, error in found[-1].items()):
                return Improvement(None, moved)
        after = Whole.joined(ready, found)
        return Improvement(after if after.better_than(self) else None, moved)

    def better_than(self, other: Whole) -> bool:
        """Tell whether every output has a smaller error for every set of inputs, or is the same for all of them.

        A gain that some inputs show and others do not is luck of rounding, and would be a loss on the next inputs. What
        changes no output at all gains nothing either, and the next inputs may show that it changes one for the worse.
        """
        return self.errors != other.errors and all(
            errors == other.errors[name]
            or all(is_smaller(*pair) for pair in zip(errors, other.errors[name], strict=True))
            for name, errors in self.errors.items()
        )


@dataclass(frozen=True, slots=True)
class Improvement:
    """What a change did to a graph: its errors now, where all are better, and how far the farthest error moved."""

    whole: Whole | None
    moved: float


def moved_by(after: float, before: float) -> float:
    """Return by which part of it an error changed, for better or worse.

    >>> moved_by(0.5, 0.5), moved_by(0.25, 0.5), moved_by(1.0, 0.0), moved_by(0.5, float("inf"))
    (0.0, 0.5, inf, inf)
    """
    if after == before:
        return 0.0
    return math.inf if not before or math.inf in (after, before) else abs(after / before - 1)


def errors_of(ready: Executable, inputs: Mapping[str, Array], exact: Mapping[str, Array]) -> dict[str, float]:
    """Return the errors of outputs and states for one set of inputs."""
    ran = quietly(ready, inputs)
    given = {**ran.outputs, **{f"state {name}": value for name, value in ran.states.items()}}
    return {name: error_of(given[name], value) for name, value in exact.items()}


def is_smaller(after: float, before: float) -> bool:
    """Tell whether an error is smaller by as much as counts; infinite ones are alike, and so are those of nothing.

    >>> is_smaller(0.5, 1.0), is_smaller(0.999, 1.0), is_smaller(1.0, float("inf")), is_smaller(0.0, 0.0)
    (True, False, True, True)
    """
    return after <= before * policy().smaller.part or after == before == 0.0 or after == before == math.inf


@dataclass(frozen=True, slots=True)
class Measured:
    """One product alone on the engine."""

    error: float
    layers: int


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


def measured_alone(result: Tensor, values: Mapping[str, Array], exact: Array, target: Target) -> Measured:
    """Return the error of a product alone."""
    program = build_program(Graph({"y": result}), target)
    given = quietly(prepare(program), values).outputs["y"]
    return Measured(error_of(given, exact), len(program.layers))

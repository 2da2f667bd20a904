"""The engine's error: of a whole graph on some inputs, and of one node on the operands that it was seen to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.callsite import keep_warnings
from aneforge.compiler.compile import build, compile_graph
from aneforge.engine.execution.run import prepare
from aneforge.errors import PrecisionWarning
from aneforge.graph.node import Output
from aneforge.graph.reference import evaluate
from aneforge.ops.constant import Constant
from aneforge.optimise.rescaling.graph_edits import isolate_node
from aneforge.optimise.rescaling.power_exponents import RESULT_STEP
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.compiler.compile import Compiled
    from aneforge.engine.execution.run import Executable, Run
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.graph_edits import Edit
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]

__all__ = [
    "LOST", "GraphErrors", "NodeError", "Reading", "Ready", "evaluate_exactly", "evaluate_node", "measure_error",
    "measure_errors", "measure_node", "measure_rounding",
]  # fmt: skip

SUBNORMAL_STEP = 2.0**-25
"""Half the distance of neighbours of fp16 below its normal numbers."""
LOST = 0.1
"""An error from which on a result is lost."""


def measure_error(given: Array, exact: Array) -> float:
    """Return ‖given − exact‖ / ‖exact‖; of an exact zero, ‖given‖. It is infinite where the engine's is and exact not.

    >>> measure_error(np.array([1.0, 2.2]), np.array([1.0, 2.0])) < 0.1
    True
    >>> measure_error(np.array([np.inf]), np.array([1.0]))
    inf
    """
    return float(measure_errors_along(given, exact, tuple(range(exact.ndim))))


def measure_errors_along(given: Array, exact: Array, axes: tuple[int, ...]) -> Array:
    """Return the errors of results that are along some axes: one for every place of the other axes.

    >>> measure_errors_along(np.array([[1.0, 0.5], [np.inf, 1.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), (0,)).tolist()
    [inf, 0.5]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        apart, size = given.astype(np.float64) - exact, measure_norm(exact, axes)
        errors = measure_norm(apart, axes) / np.where(size == 0, 1.0, size)
    return np.where(np.all(np.isfinite(apart), axis=axes), errors, np.inf)


def measure_rounding(exact: Array) -> float:
    """Return the largest error that rounding a result to fp16 makes: small numbers have absolute steps, not relative.

    A result whose rounding is as large as itself is lost, which excuses nothing: a tenth is the most that is returned.

    >>> [measure_rounding(np.array([size, 0.0])) for size in (1.0, 2.0**-20, 1e-9)]
    [0.00048828125, 0.03125, 0.1]
    """
    steps = np.maximum(np.abs(exact) * RESULT_STEP, np.where(exact == 0, 0.0, SUBNORMAL_STEP))
    return min(float(measure_norm(steps)) / (float(measure_norm(exact)) or 1.0), LOST)


def measure_norm(values: Array, axes: tuple[int, ...] | None = None) -> Array:
    """Return roots of sums of squares; NumPy's own wakes all threads of its linear algebra for every call."""
    with np.errstate(over="ignore"):
        return np.sqrt(np.square(values, dtype=np.float64).sum(axis=axes))


@dataclass(frozen=True, slots=True)
class Ready:
    """A compiled graph that is run on many inputs: what the host draws for it is drawn once, as a model does."""

    executable: Executable
    drawn: Sample

    @classmethod
    def of(cls, graph: Graph, target: Target) -> Ready:
        """Return a graph compiled for a target.

        Raises:
            IllegalGraphError: An operation cannot run there.
            NotSupportedError: An operation has no form there.
        """
        return cls.of_compiled(compile_graph(graph, target))

    @classmethod
    def of_node(cls, node: Node, edit: Edit, target: Target) -> Ready:
        """Return only an edited node, compiled for a target that takes its graph: the validators are not asked again.

        Raises:
            IllegalGraphError: It cannot run there.
            NotSupportedError: It has no form there.
        """
        return cls.of_compiled(build(isolate_node(node, edit), target))

    @classmethod
    def of_compiled(cls, compiled: Compiled) -> Ready:
        """Return what was compiled, ready to run."""
        return cls(prepare(compiled.program), compiled.feed({}))

    @property
    def layers(self) -> int:
        """How many layers its program has."""
        return len(self.executable.program.layers)

    def run(self, inputs: Sample) -> Run:
        """Run it without warnings; compiling the graph warns."""
        with keep_warnings(PrecisionWarning):
            return self.executable.run({**self.drawn, **inputs})


def evaluate_exactly(graph: Graph, inputs: Sample) -> dict[str, Array]:
    """Return outputs and states as the mathematics gives them.

    Raises:
        GraphError: An input has no value or one that does not fit, or an operation has no meaning of its own.
    """
    outputs, states = evaluate(graph, inputs)
    return {**outputs, **{f"state {name}": value for name, value in states.items()}}


@dataclass(frozen=True, slots=True)
class GraphErrors:
    """A graph on the engine: the errors of its outputs for every set of inputs, and the layers of its program."""

    errors: Mapping[str, tuple[float, ...]]
    layers: int

    @classmethod
    def measure(cls, graph: Graph, target: Target, sets: Sequence[Sample], exact: Sequence[Sample]) -> GraphErrors:
        """Return what the engine makes of a graph, compared with what the mathematics gives."""
        ready = Ready.of(graph, target)
        return cls.join(ready, [measure_errors(ready, *pair) for pair in zip(sets, exact, strict=True)])

    @classmethod
    def join(cls, ready: Ready, found: Sequence[Mapping[str, float]]) -> GraphErrors:
        """Return the errors of several sets of inputs together."""
        errors = {name: tuple(one[name] for one in found) for name in found[0]}
        return cls(errors, ready.layers)


def measure_errors(ready: Ready, inputs: Sample, exact: Sample) -> dict[str, float]:
    """Return the errors of outputs and states for one set of inputs."""
    ran = ready.run(inputs)
    given = {**ran.outputs, **{f"state {name}": value for name, value in ran.states.items()}}
    return {name: measure_error(given[name], value) for name, value in exact.items()}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a node reads, by its operands, and its result in float64."""

    values: Sample
    exact: Array

    @classmethod
    def take(cls, node: Node, seen: Mapping[tuple[Node, int], Array]) -> Reading:
        """Return what a node reads of values that were seen."""
        values = {name: seen[value.node, value.index] for name, value in node.values() if isinstance(value, Output)}
        return cls(values, evaluate_node(node, values))


def evaluate_node(node: Node, values: Sample) -> Array:
    """Return the result of a node in float64, given its tensors."""
    operands = {
        name: value.dense().astype(np.float64) if isinstance(value, Constant) else values[name]
        for name, value in node.operands.items()
        if not isinstance(value, tuple)
    }
    with np.errstate(over="ignore", invalid="ignore"):  # an operand that was seen to be infinite shows in the error
        return node.op.evaluate(cast("Any", operands), node.attributes)[0]


@dataclass(frozen=True, slots=True)
class NodeError:
    """The error of one node by itself on the engine."""

    error: float
    layers: int
    channels: tuple[float, ...] = ()
    """The errors of single channels, where they were asked for."""


def measure_node(node: Node, edit: Edit, reading: Reading, target: Target, axis: int | None = None) -> NodeError:
    """Return the error of an edited node by itself, and of every channel where their axis is given."""
    ready = Ready.of_node(node, edit, target)
    given, exact = ready.run(reading.values).outputs["y"], reading.exact
    error = measure_error(given, exact)
    if axis is None:
        return NodeError(error, ready.layers)
    others = tuple(other for other in range(exact.ndim) if other != axis % exact.ndim)
    return NodeError(error, ready.layers, tuple(measure_errors_along(given, exact, others).tolist()))

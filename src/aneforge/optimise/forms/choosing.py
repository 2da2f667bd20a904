"""The choice among forms of a graph: by the cost model, and by the error that each shows on inputs.

Nothing is timed, for there is no device here: what the original measured is predicted, and the report says so. Errors
are not predicted: every form that is tried runs on the software engine and is compared with the mathematics.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.analysis.cost import cost_of
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import engine_element, run
from aneforge.errors import AneforgeError, GraphError
from aneforge.graph.reference import reference
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array
    from aneforge.optimise.forms.variants import Variant
    from aneforge.targets import Place, Target

__all__ = ["MIN_LOSSY_SPEEDUP", "TOLERANCE", "Choice", "Search", "Trial", "cheapest", "search_forms", "try_forms"]

TOLERANCE = 5e-3
"""The error up to which a form is accepted (aneforge docs, tune)."""
MIN_LOSSY_SPEEDUP = 1.10
"""How much faster a form with other weights must be (aneforge docs, tune)."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Search:
    """How forms are searched; the defaults are the documented ones."""

    budget: int = 8
    """How many forms are tried at most."""
    prune_factor: float = 1.5
    """Forms that are predicted to take this many times as long as the fastest are not tried."""
    most_error: float = TOLERANCE
    min_lossy_speedup: float = MIN_LOSSY_SPEEDUP
    inputs: Mapping[str, Array] | None = None
    """What errors are measured on; drawn where there is nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A form that was looked at."""

    form: str
    lossy: bool
    predicted_us: float | None
    """By the cost model, `af.cost`; None where the form does not compile."""
    error: float | None = None
    """Largest relative error of an output, in the norm of its elements; None where it was not tried."""
    why_not: str = ""
    """Why it could not be chosen; empty where it could."""

    def __str__(self) -> str:
        seen = self.form if self.error is None else f"{self.form}: error {self.error:.2g}"
        return f"{seen}{': ' if self.error is None else ', '}{self.why_not}" if self.why_not else seen


@dataclass(frozen=True, slots=True)
class Choice:
    """The form that was chosen, why, and all that were looked at."""

    chosen: Variant
    reason: str
    trials: tuple[Trial, ...]


def cheapest(found: Sequence[Variant], where: Place, min_lossy_speedup: float = MIN_LOSSY_SPEEDUP) -> Choice:
    """Return the form that the cost model predicts to be the fastest; the first if it predicts nothing.

    A form with other weights must be so many times as fast as the fastest of those with the user's own.
    """
    trials = [Trial(form.name, form.lossy, predict(form, where)) for form in found]
    known = [(trial.predicted_us, place) for place, trial in enumerate(trials) if trial.predicted_us is not None]
    if not known:
        reason = f"{found[0].name}: no form compiles for {where.target.name}"
        return Choice(found[0], reason, tuple(trials))
    own = min([one for one in known if not found[one[1]].lossy], default=None)
    other = min([one for one in known if found[one[1]].lossy], default=None)
    least = own or other
    if own is not None and other is not None and own[0] >= min_lossy_speedup * other[0]:
        least = other
    assert least is not None  # noqa: S101 - something is known
    time, place = least
    listed = ", ".join(f"{found[one].name} {microseconds:.0f} µs" for microseconds, one in known)
    reason = f"{found[place].name}: predicted {time:.0f} µs by the cost model, nothing was measured ({listed})"
    return Choice(found[place], reason, tuple(trials))


def search_forms(found: Sequence[Variant], where: Place, search: Search) -> Choice:
    """Return the fastest form whose error is small enough; what the user wrote, the first, where none is."""
    trials = try_forms(found, where, search)
    kept = [form for form, trial in zip(found, trials, strict=True) if not trial.why_not] or [found[0]]
    choice = cheapest(kept, where, search.min_lossy_speedup)
    return Choice(choice.chosen, choice.reason, trials)


def try_forms(found: Sequence[Variant], where: Place, search: Search) -> tuple[Trial, ...]:
    """Return what came of trying forms, in their order: the fastest by prediction, as many as the budget allows."""
    times = [predict(form, where) for form in found]
    slow = search.prune_factor * min((time for time in times if time is not None), default=math.inf)
    fast = sorted((time or 0.0, place) for place, time in enumerate(times) if place and (time or 0.0) <= slow)
    within = {0, *(place for _, place in fast[: search.budget - 1])}
    inputs = search.inputs if search.inputs is not None else draw_inputs(found[0].graph)
    wanted = reference(found[0].graph, inputs)
    trials: list[Trial] = []
    for place, (form, time) in enumerate(zip(found, times, strict=True)):
        trial = Trial(form.name, form.lossy, time)
        if place and (time or 0.0) > slow:
            why = f"not tried, predicted {time or 0.0:.0f} µs, over {search.prune_factor:g} times the fastest"
            trials.append(replace(trial, why_not=why))
        elif place not in within:
            trials.append(replace(trial, why_not=f"not tried, the budget is {search.budget}"))
        else:
            trials.append(with_error(trial, form, where.target, inputs, wanted, search.most_error))
    return tuple(trials)


def with_error(
    trial: Trial, form: Variant, target: Target, inputs: Mapping[str, Array], wanted: Mapping[str, Array], most: float
) -> Trial:
    """Return a trial with the error that the form shows."""
    try:
        error = error_of(wanted, outputs(form.graph, target, inputs))
    except AneforgeError as stopped:
        return replace(trial, why_not=f"left out, {stopped.message}")
    return replace(trial, error=error, why_not="" if error <= most else f"above {most:g}")


def predict(form: Variant, place: Place) -> float | None:
    """Return how long a form takes by the cost model: the time that `af.cost` gives; None where it does not compile."""
    try:
        return cost_of(compile_graph(form.graph, place)).microseconds
    except GraphError:
        return None


def outputs(graph: Graph, target: Target, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return what the software engine gives for a graph.

    Raises:
        IllegalGraphError: The target does not take it.
        NotSupportedError: An operation has no form there.
    """
    made = compile_graph(graph, target)
    program, fed = made.program, made.feed(inputs)
    with np.errstate(over="ignore"):
        given = {port.name: fed[port.name].astype(engine_element(port.value.type)) for port in program.inputs}
    states = {state.name: np.zeros(state.read.type.shape, engine_element(state.read.type)) for state in program.states}
    return run(program, given, states).outputs


def draw_inputs(graph: Graph) -> dict[str, Array]:
    """Return inputs of moderate size that keep what they promise, the same on every machine."""
    random = np.random.default_rng(SEED)

    def draw(node: Node) -> Array:
        kind, most = node.types[0], node.attributes["max_abs"]
        if not is_float(kind.dtype):
            return random.integers(0, 2, kind.shape).astype(numpy_dtype(kind.dtype))
        values = random.standard_normal(kind.shape)
        if isinstance(most, int | float):
            values = np.clip(values, -float(most), float(most))
        return values.astype(np.float16).astype(np.float64)

    return {name: draw(node) for name, node in graph.inputs.items()}


def error_of(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> float:
    """Return the largest relative error of any output, in the norm of its elements."""
    errors = [0.0]
    for name, exact in wanted.items():
        with np.errstate(invalid="ignore"):
            apart = np.linalg.norm((given[name].astype(np.float64) - exact).reshape(-1))
        errors.append(float(apart / max(float(np.linalg.norm(exact.astype(np.float64).reshape(-1))), 1e-12)))
    return float("inf") if not np.isfinite(errors).all() else max(errors)

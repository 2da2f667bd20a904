"""`tune` and `tune_precision`: the fastest form of a graph that is exact enough.

The original system compiled candidates, timed them on the device and compared their results. Here times come from the
cost model, which the report says, and errors from running every candidate on the software engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.callsite import warn
from aneforge.engine.execution.given import expect_fitting
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning
from aneforge.graph.precision import to_fp16
from aneforge.optimise.forms.canonical import canonical
from aneforge.optimise.forms.choosing import MIN_LOSSY_SPEEDUP, TOLERANCE, Search, search_forms, try_forms
from aneforge.optimise.forms.variants import more_exact_forms, variants
from aneforge.records import dataclass
from aneforge.runtime.compile import build_model, lost_constants
from aneforge.runtime.facts import give_warnings
from aneforge.runtime.options import Options, check_options
from aneforge.targets import place_of

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.precision import Halved
    from aneforge.ops.types import Array
    from aneforge.optimise.forms.choosing import Trial
    from aneforge.runtime.backends import Backend
    from aneforge.runtime.facts import ModelFacts
    from aneforge.runtime.model import AnyModel
    from aneforge.targets import TargetLike

    Feed = Mapping[str, object] | Sequence[object]

__all__ = ["PrecisionTuning", "tune", "tune_precision"]


@dataclass(frozen=True, slots=True)
class PrecisionTuning:
    """What came of looking for a form that is exact enough."""

    target_error: float
    cost_budget_us: float | None
    chosen: str
    """The name of the form."""
    error: float | None
    """Its error on the inputs; None where it could not be tried."""
    met: bool
    """It is exact enough, and predicted to be fast enough."""
    trials: tuple[Trial, ...]


def tune(  # noqa: PLR0913, PLR0917 - the documented signature
    out: GraphLike,
    budget: int = 8,
    inputs: Feed | None = None,
    prune_factor: float = 1.5,
    reps: int = 20,
    atol: float = TOLERANCE,
    min_lossy_speedup: float = MIN_LOSSY_SPEEDUP,
    verbose: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    target_error: float | None = None,
    *,
    target: TargetLike = None,
    backend: str | Backend | None = None,
) -> AnyModel:
    """Compile the form of a graph that is predicted to be the fastest, among those whose error is at most `atol`.

    At most `budget` forms are tried, and none that is predicted to take `prune_factor` times as long as the fastest; a
    form with other weights must be `min_lossy_speedup` times as fast as the best with the user's own. Errors are
    relative, on `inputs` (by name, or in order) or on random inputs. `target_error` replaces `atol` if it is given.
    `reps` is the number of times that the original timed a candidate: nothing is timed here. The model's remarks say
    what was tried.

    >>> import aneforge as af
    >>> q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    >>> net = af.tune(af.sdpa(q, k, v, native=True), target=af.targets.Family.A16)
    >>> print(net.remarks[-1].partition(" (")[0])
    attention of products and softmax: predicted 80 µs by the cost model, nothing was measured

    Raises:
        GraphError: A number is out of range, or an input does not fit.
        GraphTypeError: A value that must be a number is not one.
        AneforgeError: Whatever `compile` raises.
    """
    whole("budget", budget)
    whole("reps", reps)
    half, place = to_fp16(out), place_of(target)
    graph = canonical(half.graph)
    most = number("atol", atol) if target_error is None else number("target_error", target_error)
    search = Search(
        budget,
        number("prune_factor", prune_factor, least=1.0),
        most,
        number("min_lossy_speedup", min_lossy_speedup, least=1.0),
        None if inputs is None else name_inputs(graph, inputs),
    )
    found, remarks = variants(graph, place.target)
    choice = search_forms(found, place, search)
    lines = (*remarks, *map(str, choice.trials), choice.reason)
    if verbose:
        print("\n".join(lines))  # noqa: T201 - that is what verbose is for
    options = replace(PLAIN, target=place, backend=backend)
    model = build_model(choice.chosen.graph, options, several=len(graph.outputs) > 1)
    model.facts = with_halving(model.facts, half, remarks=lines)
    return model


def tune_precision(
    out: GraphLike,
    target_error: float,
    cost_budget_us: float | None = None,
    inputs: Feed | None = None,
    *,
    target: TargetLike = None,
    backend: str | Backend | None = None,
) -> tuple[AnyModel, PrecisionTuning]:
    """Compile the fastest form of a graph whose error is at most `target_error`, and report what was tried.

    A form that is predicted to take longer than `cost_budget_us` is not used. If no form is accurate enough, the most
    accurate one is compiled, the report says so, and a `PrecisionWarning` is given.

    >>> import aneforge as af
    >>> net, report = af.tune_precision(af.input((4, 4096)).sum(-1), 5e-4, target=af.targets.Family.A13)
    >>> report.chosen, report.met
    ('sums as products with ones', True)

    Raises:
        GraphError: A number is out of range, or an input does not fit.
        GraphTypeError: A value that must be a number is not one.
        AneforgeError: Whatever `compile` raises.
    """
    most = number("target_error", target_error)
    longest = math.inf if cost_budget_us is None else number("cost_budget_us", cost_budget_us)
    half, place = to_fp16(out), place_of(target)
    graph = canonical(half.graph)
    given = None if inputs is None else name_inputs(graph, inputs)
    forms = more_exact_forms(graph)
    trials = try_forms(forms, place, Search(len(forms), math.inf, most, inputs=given))

    def rank(place: int) -> tuple[bool, float, float]:
        trial = trials[place]
        error = math.inf if trial.error is None else trial.error
        time = math.inf if trial.predicted_us is None else trial.predicted_us
        enough = error <= most
        return not enough, time if enough else error, error if enough else time

    within = [place for place, trial in enumerate(trials) if (trial.predicted_us or 0.0) <= longest] or [0]
    best = min(within, key=rank)
    trial = trials[best]
    met = trial.error is not None and trial.error <= most and (trial.predicted_us or 0.0) <= longest
    if not met:
        warn(
            f"no form of the graph has an error of at most {most:g} within the budget: the best that there is, "
            f"{trial.form}, has {'an unknown one' if trial.error is None else f'{trial.error:.2g}'}",
            PrecisionWarning,
        )
    options = replace(PLAIN, target=place, backend=backend)
    model = build_model(forms[best].graph, options, several=len(graph.outputs) > 1)
    model.facts = with_halving(model.facts, half, remarks=tuple(map(str, trials)))
    return model, PrecisionTuning(most, cost_budget_us, trial.form, trial.error, met, trials)


def with_halving(facts: ModelFacts, half: Halved, remarks: tuple[str, ...]) -> ModelFacts:
    """Return what a model knows of itself, with what taking its graph as fp16 did, and more remarks; warn of it."""
    lost = lost_constants(half)
    give_warnings(lost)
    return replace(facts, warnings=(*lost, *facts.warnings), remarks=(*half.notes, *facts.remarks, *remarks))


PLAIN = check_options(Options(opt=0))
"""The form is chosen already: it is compiled as it is."""


def name_inputs(graph: Graph, inputs: Feed) -> Mapping[str, Array]:
    """Return sample inputs by name.

    Raises:
        GraphTypeError: One is of a type that its input does not take.
        GraphError: There are more or fewer than the graph has, or one does not fit.
    """
    names = list(graph.inputs)
    given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
    if set(given) != set(names) or len(inputs) != len(names):
        raise GraphError("the sample inputs are not those of the graph", seen=len(inputs), limit=", ".join(names))
    ports = {name: graph.inputs[name].types[0] for name in names}
    return {name: expect_fitting(f"the sample of input {name!r}", given[name], ports[name]) for name in names}


def number(name: str, value: object, least: float = 0.0) -> float:
    """Return an option that is a number.

    Raises:
        GraphTypeError: It is none.
        GraphError: It is too small, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise GraphTypeError(f"{name} is not a number", seen=repr(value))
    found = float(cast("float", value))
    if not least <= found < math.inf:
        raise GraphError(f"{name} is out of range", seen=found, limit=f"{least:g} or more")
    return found


def whole(name: str, value: object) -> None:
    """Check an option that is a positive integer.

    Raises:
        GraphTypeError: It is not an integer.
        GraphError: It is less than one.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise GraphTypeError(f"{name} is not an integer", seen=repr(value))
    if value < 1:
        raise GraphError(f"{name} is out of range", seen=repr(cast("object", value)), limit="1 or more")

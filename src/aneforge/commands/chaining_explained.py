"""`explain chaining`: what blocks it, the rules of a request, classes, experiments, and what a chain would save."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aneforge.analysis.route_sizes import production_answer, sizes_for
from aneforge.analysis.routes import production_size, route
from aneforge.commands.explanation import Explanation, Row
from aneforge.errors import UnknownNameError
from aneforge.runtime.chaining.chaining_study import ENTITLEMENT, study
from aneforge.runtime.chaining.chaining_ways import ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aneforge.runtime.chaining.chaining_study import StudiedClass

__all__ = ["explain_chaining", "explain_part"]

SUMMARY = (
    "Chained requests would let the engine run layer after layer without the host between them. The classes exist, a "
    "request validates, and preparing it ends in Code 15; no chained call was published. aneforge has the classes as "
    "a model, and runs chains in simulation only (aneforge.runtime.chaining, simulate=True; docs/chaining.md)."
)
TIMES = "times"
"""What can be asked for other than the parts of the study."""
CHAIN = "chain"
"""The way of `chaining_ways` that the study looked at."""
SIGNS = "_+-"
"""What names begin with: private classes, methods of classes, methods of objects."""


def explain_chaining() -> Explanation:
    """Return all that is known of chaining.

    >>> explain_chaining().rows[0].label
    'status'
    """
    return Explanation("study", "chaining", SUMMARY, tuple(chaining_rows()))


def chaining_rows() -> Iterator[Row]:
    """Yield what blocks chaining, the savings, the rules, the classes, the states, and the experiments."""
    known, blocked = study(), route("chaining")
    yield Row("status", f"{blocked.status}; it needs the entitlement {ENTITLEMENT}", str(blocked.evidence))
    for name, failure in known.failures.items():
        said = failure.system.format(url="…")
        yield Row(
            f"ends with {name.replace('_', ' ')}", f"{said}. {failure.why}", str(known.evidence(failure.experiments))
        )
    yield from saving_rows()
    for name, rule in known.rules.items():
        yield Row(name, f"{rule.parameter}: {rule.rule}", str(known.evidence(rule.experiments, rule.kind)))
    for name, one in known.encodings.items():
        yield Row(f"types of {name}", f"{one.encoding}: {one.text}", str(known.evidence(one.experiments)))
    for name, studied in known.classes.items():
        yield Row(name, f"{studied.summary} Works: {studied.works}.", str(known.evidence(studied.experiments)))
    for name, state in known.states.items():
        number = "number unknown" if state.number is None else f"state {state.number}"
        yield Row(f"model is {name}", f"{number}: {state.text}", str(known.evidence(state.experiments)))
    for name, experiment in known.experiments.items():
        yield Row(f"experiment {name}", f"{experiment.title} ({experiment.outcome}): {experiment.found}")
    for name, one in known.replaced.items():
        yield Row(f"Core ML's {name}", f"{one.before}; since macOS 15 {one.since}", str(known.evidence(("Q",))))
    for correction in known.corrections:
        yield Row("corrected", f"{correction.said} {correction.holds}", str(known.evidence(correction.experiments)))


def saving_rows() -> Iterator[Row]:
    """Yield which route pays at which size, and what a chain would save of the study's model."""
    model, sizes = study().model, sizes_for(study().on[0])
    yield from (Row("size", str(one)) for one in sizes)
    yield Row("routes", production_answer(sizes))
    yield Row(model_text(), f"`aneforge explain chaining {TIMES}` predicts their time by each route")
    estimate = f"the study estimates {model.milliseconds_per_token} ms one call after the other (standard)"
    saved = f"saves {model.round_trips_saved} of {model.evaluations} round trips; {estimate}"
    yield Row("a chain", f"{saved}. {ways()[CHAIN].why}")


def model_text() -> str:
    """Return what the model is that the study has in mind."""
    return f"{study().model.layers} layers, {study().model.evaluations} evaluations"


def explain_times() -> Explanation:
    """Return the predicted time of the study's model by each route, one call after the other and as a chain.

    The model is as many evaluations of the kernel that the study calls production. It is compiled for the study's chip
    and priced, as a check does, which no other explanation needs.

    >>> explain_times().rows[0].label
    'e5rt'
    """
    from aneforge.commands.measured_programs import build_measured_program  # noqa: PLC0415 - this one compiles
    from aneforge.compiler.compile import build_program  # noqa: PLC0415 - as above
    from aneforge.runtime.chaining.chaining_plan import plan_chaining  # noqa: PLC0415 - as above

    chip = study().on[0]
    program = build_program(build_measured_program(*production_size()), chip)
    plan = plan_chaining([program] * study().model.evaluations, chip)
    times = (str(time).partition(": ") for time in plan.times)
    summary = f"The time that the model of the study takes on {plan.chip} by each route: {model_text()}."
    return Explanation("prediction", f"chaining {TIMES}", summary, tuple(Row(by, time) for by, _, time in times))


def explain_part(name: str) -> Explanation:
    """Return what is known of a class, a method, a rule or an experiment of the study, whatever its case; or the times.

    >>> explain_part("anebuffer").name, explain_part("chain-nil-001").kind, explain_part("W1").kind
    ('_ANEBuffer', 'rule of a chaining request', 'experiment')
    >>> explain_part("setProgramHandle:").name, explain_part("MLE5Engine").kind
    ('_ANEModel', "class of Core ML's runtime")

    Raises:
        UnknownNameError: The name is unknown.
    """
    known = study()
    parts: dict[str, Callable[[], Explanation]] = {
        **{selector: partial(explain_class, one) for one, selector in selectors_of_classes()},
        **{one: partial(explain_runtime_class, one) for one in known.runtime_classes},
        **{one: partial(explain_class, one) for one in known.classes},
        **{one: partial(explain_rule, one) for one in known.rules},
        **{one: partial(explain_experiment, one) for one in known.experiments},
        TIMES: explain_times,
    }
    spelt = {one.lstrip(SIGNS).casefold(): part for one, part in parts.items()}
    key = name.lstrip(SIGNS).casefold()
    if key not in spelt:
        raise UnknownNameError.of("class, method, rule or experiment of chaining", name, parts)
    return spelt[key]()


def selectors_of_classes() -> Iterator[tuple[str, str]]:
    """Yield every selector with its class, except for that which every class has."""
    for name, one in study().classes.items():
        selectors = (one.factory, *(method.selector for method in one.methods))
        yield from ((name, selector) for selector in selectors if selector != "-init")


def explain_runtime_class(name: str) -> Explanation:
    """Return what was listed of a class of Core ML's runtime."""
    listed = study().runtime_classes[name]
    rows = [Row("not modelled", "listed by the study, never used to chain", str(study().evidence(listed.experiments)))]
    rows += count_rows(listed.counts)
    rows += [Row("names", ", ".join(listed.methods))] if listed.methods else []
    return Explanation("class of Core ML's runtime", name, listed.summary, tuple(rows))


def count_rows(counts: dict[str, int]) -> list[Row]:
    """Return how many methods and other parts of a class were listed; nothing where they were not counted."""
    if not counts:
        return []
    return [Row("listed", ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items()))]


def member_rows(studied: StudiedClass) -> Iterator[Row]:
    """Yield the methods and properties of a class, and what it does not have."""
    for method in studied.methods:
        python = f"; in Python {method.python}" if method.python else ""
        yield Row(method.selector, f"{method.answer}{python}", str(study().evidence(method.experiments)))
    if studied.properties:
        yield Row("properties", ", ".join(studied.properties))
    if studied.missing:
        yield Row("does not have", ", ".join(studied.missing))
    yield from count_rows(studied.counts)


def explain_class(name: str) -> Explanation:
    """Return what is known of a class."""
    studied = study().classes[name]
    rows = [Row("factory", studied.factory), Row("works", studied.works, str(study().evidence(studied.experiments)))]
    rows += [Row("simulation adds", studied.modelled)] if studied.modelled else []
    rows += member_rows(studied)
    rows += [Row("in Python", f"aneforge.runtime.chaining.{name.lstrip('_')}")]
    rows += [Row(f"experiment {one}", study().experiments[one].found) for one in studied.experiments]
    return Explanation("class", name, studied.summary, tuple(rows))


def explain_rule(name: str) -> Explanation:
    """Return a rule of requests."""
    rule = study().rules[name]
    rows = [Row("parameter", rule.parameter), Row("the system says", rule.system or "not known"), Row("why", rule.why)]
    rows += [Row("remedy", rule.remedy), Row("seen in", ", ".join(rule.experiments))]
    evidence = str(study().evidence(rule.experiments, rule.kind))
    return Explanation("rule of a chaining request", name, rule.rule, (*rows, Row("evidence", evidence)))


def explain_experiment(name: str) -> Explanation:
    """Return what came of an experiment, and what rests on it."""
    known, experiment = study(), study().experiments[name]
    resting = [one for one, part in (*known.classes.items(), *known.rules.items()) if name in part.experiments]
    rows = [Row("outcome", experiment.outcome), Row("found", experiment.found)]
    rows += [Row("program", experiment.file)] if experiment.file else []
    rows += [Row("date", experiment.date)] if experiment.date else []
    rows += [Row(what, f"{value:g}") for what, value in experiment.figures.items()]
    rows += [Row("rests on it", ", ".join(resting))] if resting else []
    return Explanation("experiment", name, experiment.title, tuple(rows))

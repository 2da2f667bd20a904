"""What fusing or chaining programs would save on a chip, by which route: dispatches, at the figure of every prediction.

The dispatch and its interval are those of the cost model's machine (`aneforge.analysis.machine`), which says whether
they were measured, fitted or scaled. `chaining_ways` has the ways with their sources; a way whose gain was not
measured gets no estimate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.cost import price
from aneforge.analysis.machine import INTERVAL, machine_of
from aneforge.analysis.route_sizes import production_answer, sizes_for
from aneforge.analysis.routes import calls_on, is_assumed, range_text, routes
from aneforge.analysis.work import plan_program, work_of
from aneforge.compiler.ir.program import Program
from aneforge.errors import GraphError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_items
from aneforge.runtime.chaining.chaining_ways import ways
from aneforge.targets import chip as chip_named
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.machine import Basis, Machine
    from aneforge.analysis.route_sizes import SizeComparison
    from aneforge.analysis.routes import RouteFigure
    from aneforge.runtime.chaining.chaining_ways import Way

__all__ = ["ChainingOption", "ChainingPlan", "RouteTime", "plan_chaining"]


PREDICTED = "predicted"
PUBLISHED = "published calls"
BOUNDED = "no longer than the fastest published program"


@dataclass(frozen=True, slots=True)
class ChainingOption:
    """One way, and what it would save in a call of all programs."""

    name: str
    title: str
    available: bool
    dispatches: int
    """What is dispatched then."""
    saving_us: tuple[float, float] | None
    """Minimum and maximum; None where it was not measured."""
    why: str
    source: str

    def __str__(self) -> str:
        saved = "saving unknown" if self.saving_us is None else f"saves {range_text(self.saving_us)} µs"
        standing = saved if self.available else f"not available, {saved}"
        return f"{self.name} ({self.title}): {format_count(self.dispatches)}, {standing}. {self.why} [{self.source}]"


@dataclass(frozen=True, slots=True)
class RouteTime:
    """All programs by one route: a call for each, and as one chain."""

    route: str
    call_us: tuple[float, float]
    """What one call takes, minimum and maximum, as `basis` says."""
    calls: int
    """Without those of programs that are a layer of their own and are timed as a whole."""
    own_us: tuple[float, float]
    """What these take in all, minimum and maximum, calls included; 0 where there are none."""
    sequential_us: tuple[float, float]
    """One call after the other, minimum and maximum."""
    chained_us: tuple[float, float]
    """With one call for each run between programs of their own; copies are left in, though a chain would save some.

    Modelled: no chain was measured.
    """
    expected_us: float | None
    """One call after the other, as `af.cost` predicts it; None by routes that it does not assume."""
    basis: str
    """How the calls are known: predicted, published, or bounded by the fastest program that was published."""

    def __str__(self) -> str:
        expected = "" if self.expected_us is None else f"{self.expected_us:.0f} µs, "
        own = f", programs timed as a whole {span_text(self.own_us)} µs" if self.own_us[1] else ""
        return (
            f"{self.route}: {format_count(self.calls)} of {range_text(self.call_us)} µs ({self.basis}){own}: {expected}"
            f"{span_text(self.sequential_us)} µs; as one chain (modelled) {span_text(self.chained_us)} µs"
        )


@dataclass(frozen=True, slots=True)
class ChainingPlan:
    """Every way for programs that run one after the other on a chip."""

    chip: str
    dispatches: int
    """What is dispatched now."""
    own_programs: int
    """How many of these are a layer that is a program of its own, timed as a whole instead of at `expected_us`."""
    dispatch_us: tuple[float, float]
    """What one dispatch costs, minimum and maximum."""
    source: str
    """Where it comes from."""
    options: tuple[ChainingOption, ...]
    expected_us: float
    """What one dispatch is predicted to cost: the figure of `af.cost`."""
    basis: Basis
    """Whether it was measured, fitted or scaled."""
    route: str
    """The way to the engine that is assumed."""
    other_routes: tuple[str, ...]
    """What calls were published to take by other routes, which predictions do not assume."""
    times: tuple[RouteTime, ...]
    """All programs by each route, the assumed one first; a route without a figure of the chip is left out."""
    sizes: tuple[SizeComparison, ...]
    """Programs that were timed by several routes: on the chip, or on others where it is not among them."""

    @property
    def answer(self) -> str:
        """Whether another route pays, by size, in a sentence."""
        return production_answer(self.sizes)

    @property
    def best(self) -> ChainingOption | None:
        """The available way with the largest measured saving; None where none saves anything that was measured."""
        saving = [one for one in self.options if one.available and one.saving_us is not None and one.saving_us[1] > 0]
        return max(saving, key=lambda one: one.saving_us or (0.0, 0.0), default=None)

    def __str__(self) -> str:
        own = f"; programs of a single layer, timed as a whole: {self.own_programs}" if self.own_programs else ""
        head = (
            f"{self.chip}: {format_count(self.dispatches)}, {self.expected_us:.0f} µs each "
            f"({span_text(self.dispatch_us)}) by {self.route}; {self.basis} {self.source}{own}"
        )
        others = (f"by another route: {one}" for one in self.other_routes)
        return "\n".join([head, *others, *map(str, self.options), *map(str, self.times), self.answer])


def plan_chaining(programs: Sequence[Program], chip: str) -> ChainingPlan:
    """Return the ways to run programs one after the other in fewer dispatches, and the time that they save.

    Layers that need a program of their own keep it; the layers between them, also across programs, can become one
    program if it can hold the weights. Only dispatches are saved: the computation is the same. Other routes are listed
    with the published times of their calls, and with the sizes at which they were compared.

    >>> import aneforge as af
    >>> from aneforge.targets import database
    >>> chip = next(one for one in database().chips if one.startswith("m"))
    >>> step = af.build_program(af.input((1, 8)).relu(), chip)
    >>> plan = plan_chaining([step, step, step], chip)
    >>> plan.dispatches, plan.best.name, plan.best.dispatches
    (3, 'fuse', 1)
    >>> plan.answer.startswith("Other routes that pay: none reliably at any size")
    True

    Raises:
        GraphTypeError: The programs are not a list of programs, or the chip is not text.
        GraphError: There is no program, or they are for different targets, or for a different family than the chip's.
        UnknownNameError: There is no such chip.
    """
    check_items(programs, Program, "programs", "af.build_program(graph, chip) makes a program of a graph; give a list")
    check_instance(chip, str, "the chip")
    if not programs:
        raise GraphError("there is no program to plan for", operation="plan_chaining")
    targets = sorted({program.target.name for program in programs})
    if len(targets) > 1:
        raise GraphError("the programs are for different targets", operation="plan_chaining", seen=", ".join(targets))
    known = chip_named(chip)
    family = resolve(known.target).family
    if programs[0].target.family is not family:
        raise GraphError(
            f"the programs are not for the family of {known.name}",
            operation="plan_chaining",
            seen=targets[0],
            limit=known.target,
            remedy=f"compile them for {known.key}",
        )
    machine = machine_of(known.key)
    called = next(rate for rate in machine.rates if rate.name == "dispatch")
    bridges = [segment.bridge for program in programs for segment in program.segments]
    now, chained = len(bridges), count_fused(bridges)
    costs = priced(programs, machine)
    own = sum(one.bridge is not None for cost in costs for one in cost.programs)
    weights = sum(constant.nbytes for program in programs for constant in program.constants.values())
    then = count_fused(bridges, weights, programs[0].target.limits.integer("program_weight_bytes"))
    left = {"dispatches": then, "nothing": now, "unknown": chained}
    options = tuple(option(name, way, now, left[way.saves], machine) for name, way in ways().items())
    return ChainingPlan(
        known.name,
        now,
        own,
        machine.dispatch_interval,
        called.text,
        options,
        machine.dispatch,
        called.basis,
        machine.route,
        other_routes(known.key),
        tuple(route_times(costs, machine, known.key, (now - own, chained - own))),
        sizes_for(known.key),
    )


def priced(programs: Sequence[Program], machine: Machine) -> list[Cost]:
    """Return the cost of each program; one that is there several times is priced once."""
    different = {id(program): program for program in programs}
    costs = {key: price(work_of(plan_program(program)), machine) for key, program in different.items()}
    return [costs[id(program)] for program in programs]


def route_times(costs: Sequence[Cost], machine: Machine, chip: str, counts: tuple[int, int]) -> Iterator[RouteTime]:
    """Yield the time of all programs by each route: what `af.cost` predicts, with the calls of the route in it.

    `counts` are the calls now and as chains; programs that are timed as a whole have none of either.
    """
    calls, chained = counts
    whole = [one for cost in costs for one in cost.programs if one.bridge is not None]
    own = tuple(sum(one.dispatch * math.exp(end * INTERVAL * one.spread) for one in whole) for end in (-1, 1))
    total = sum(cost.microseconds for cost in costs)
    work = max(0.0, total - calls * machine.dispatch - sum(one.dispatch for one in whole))
    known = {machine.route: (machine.dispatch_interval, PREDICTED)}
    known |= {route: ((min(ends(group)), max(ends(group))), PUBLISHED) for route, group in other_calls(chip).items()}
    for route, figure in fastest_programs(chip).items():
        disputed = f", disputed: {figure.evidence.conflict}" if figure.evidence.conflict else ""
        known.setdefault(route, ((0.0, figure.microseconds[0]), f"{BOUNDED}{disputed}"))
    for route, ((least, most), basis) in known.items():
        yield RouteTime(
            route,
            rounded((least, most)),
            calls,
            rounded((own[0], own[1])),
            rounded((work + own[0] + calls * least, work + own[1] + calls * most)),
            rounded((work + own[0] + chained * least, work + own[1] + chained * most)),
            round(total, 1) if route == machine.route else None,
            basis,
        )


def fastest_programs(chip: str) -> dict[str, RouteFigure]:
    """Return the fastest program that was published of a chip, by route: a call takes no longer."""
    return {
        known.name: min(figures, key=lambda one: one.microseconds)
        for known in routes()
        if (figures := [one for one in known.figures if is_program_on(one, chip)])
    }


def is_program_on(figure: RouteFigure, chip: str) -> bool:
    """Return whether a figure is of a program that ran on a chip, and that was not withdrawn."""
    return figure.chip == chip and figure.measures.repeated and not figure.withdrawn


def other_routes(chip: str) -> tuple[str, ...]:
    """Return what calls were published to take on a chip by routes that predictions do not assume, one line each."""
    return tuple(
        f"{route} {range_text((min(ends(group)), max(ends(group))))} µs "
        f"({'; '.join(dict.fromkeys(one.evidence.source for one in group))})"
        for route, group in other_calls(chip).items()
    )


def other_calls(chip: str) -> dict[str, list[RouteFigure]]:
    """Return the published calls of a chip by routes that predictions do not assume."""
    groups: dict[str, list[RouteFigure]] = {}
    for figure in calls_on([chip]):
        if not is_assumed(figure.route):
            groups.setdefault(figure.route, []).append(figure)
    return groups


def ends(figures: Sequence[RouteFigure]) -> list[float]:
    """Return the ends of all figures."""
    return [end for figure in figures for end in figure.microseconds]


def rounded(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return a range without digits that mean nothing."""
    return round(bounds[0], 1), round(bounds[1], 1)


def count_fused(bridges: Sequence[bool], weight_bytes: int = 0, most_bytes: int = 1) -> int:
    """Return how many programs are left when neighbours that are not bridges become one.

    There are as many as the weights need, of which a program holds so many bytes.

    >>> count_fused([False, False, True, False]), count_fused([True, True]), count_fused([False] * 9, 500, 200)
    (3, 2, 3)
    """
    runs = sum(bridge or not place or bridges[place - 1] for place, bridge in enumerate(bridges))
    return min(len(bridges), max(runs, -(-weight_bytes // most_bytes)))


def option(name: str, way: Way, now: int, then: int, machine: Machine) -> ChainingOption:
    """Return a way with what it saves."""
    saving: tuple[float, float] | None = None
    if way.saves == "nothing":
        saving = (0.0, 0.0)
    elif way.saves == "dispatches":
        least, most = machine.dispatch_interval
        saving = rounded(((now - then) * least, (now - then) * most))
    where = f"{way.source}, on {', '.join(way.on)}" if way.on else way.source
    return ChainingOption(name, way.title, way.available, then, saving, way.why, where)


def span_text(span: tuple[float, float]) -> str:
    """Return a range of times without decimals.

    >>> span_text((1234.4, 2345.6))
    '1234 to 2346'
    """
    return range_text((round(span[0]), round(span[1])))


def format_count(dispatches: int) -> str:
    """Return so many dispatches in words."""
    return "1 dispatch" if dispatches == 1 else f"{dispatches} dispatches"

"""Compiles a graph for many targets, each distinct program once.

Two targets with the same verdict on every operation that give the same answer to every question that the compiler asked
get the same program, so the questions are noted while it compiles. Where some answers differ, passes that did not ask
for them are not run again: what each made is kept with the answers that it was given. What a target says of itself by
name only (its verdict, its notes, its evidence) is its own.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from aneforge.compiler.compile import Compiled, Later, build, expect_accepted
from aneforge.compiler.dialect import Route
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.schedule.chaining import chaining_enabled
from aneforge.compiler.schedule.rules import rules
from aneforge.errors import GraphError
from aneforge.records import dataclass
from aneforge.rules.preflight import preflight
from aneforge.targets.watching import Answers, Watch, answers_alike, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.rules.preflight import Preflight, Status
    from aneforge.targets import Target

    Found = TypeVar("Found")

__all__ = ["Compiler", "Made", "mil_alone"]


def mil_alone(_: Target) -> Route:
    """Return the route of every model that is not a network description."""
    return Route.MIL


@dataclass(frozen=True, slots=True)
class Made:
    """What a graph became on one target: a compiled program, or the reason why there is none."""

    compiled: Compiled | None
    failure: GraphError | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """One compile, with everything that decided it."""

    kind: tuple[object, ...]
    statuses: tuple[Status, ...]
    """What happens to each operation: no more of a verdict shows in a program."""
    answers: Answers
    made: Made


@dataclass(slots=True, eq=False)
class Stage:
    """A program somewhere in the pipeline, and what became of it."""

    program: Program
    passed: dict[int, list[tuple[Answers, Stage]]] = field(default_factory=dict[int, "list[tuple[Answers, Stage]]"])
    """What each pass made of it, by the number of the pass, with the answers that it was given."""
    laid_out: list[tuple[Answers, Later]] = field(default_factory=list["tuple[Answers, Later]"])
    """Its schedules and memory plans, with the answers that they rest on."""


class Compiler:
    """Compiles one graph; programs that several targets share are made once, and so is what passes share."""

    def __init__(self, graph: Graph, reached: Callable[[Target], Route] = mil_alone) -> None:
        """Prepare for a graph; `reached` returns the route by which a target is reached."""
        self.graph, self.reached = graph, reached
        self.shared: list[Shared] = []
        self.lowered: dict[int, tuple[Graph, Program]] = {}
        """What graphs after conversion are lowered to, by their identity: no target changes it."""
        self.started: list[Stage] = []

    def compile(self, target: Target) -> Made:
        """Return what the graph becomes on a target.

        A refusal is compiled for every target, because its text names the target.
        """
        kind, verdict = kind_of(target), preflight(self.graph, target)
        statuses = tuple(report.status for report in verdict.reports)
        for one in self.shared:
            if one.kind == kind and one.statuses == statuses and answers_alike(target, one.answers):
                return check(rename(one.made, target, verdict))
        passing = Passing(self, Watch(target))
        made = passing.compiled(verdict)
        if made.compiled is not None:
            self.shared.append(Shared(kind, statuses, passing.watch.all_answers, made))
            made = check(rename(made, target, verdict))
        return made

    def lower(self, graph: Graph, target: Target) -> Program:
        """Return the program of a converted graph, each lowered once."""
        if id(graph) not in self.lowered:
            self.lowered[id(graph)] = graph, lower(graph, target)
        return replace(self.lowered[id(graph)][1], target=target)

    def start(self, program: Program) -> Stage:
        """Return the stage of a program that was lowered: that of an earlier one with the same layers and notes."""
        for one in self.started:
            if one.program.layers is program.layers and one.program.notes == program.notes:
                return one
        self.started.append(Stage(program))
        return self.started[-1]


class Passing:
    """Compiles for one target; stages that were given the same answers for another are not run again."""

    def __init__(self, compiler: Compiler, watch: Watch) -> None:
        self.compiler, self.watch = compiler, watch
        self.stage: Stage

    def compiled(self, verdict: Preflight) -> Made:
        """Compile the graph, whose verdict is given; a target that its route does not reach is refused."""
        graph, target = self.compiler.graph, self.watch.target
        try:
            route = self.compiler.reached(target)
            found = build(graph, target, route=route, lower=self.compiler.lower, run=self.run, verdict=verdict)
            return Made(replace(found, later=self.lay_out(found)))
        except GraphError as refusal:
            return Made(None, failure=refusal)

    def run(self, program: Program) -> Program:
        """Return what the passes make of a lowered program."""
        self.stage = self.compiler.start(program)
        own: Program | None = program
        for number, one in enumerate(PIPELINE.passes):
            known = self.stage.passed.setdefault(number, [])
            following = self.look_up(known)
            if following is None:
                given = self.of_target(own)
                self.watch.begin()
                own = one(given).program
                following = self.stage if own is given else Stage(own)
                known.append((self.watch.answers(), following))
            elif following is not self.stage:
                own = None
            self.stage = following
        return self.of_target(own)

    def of_target(self, own: Program | None) -> Program:
        """Return the program of the stage for this target, where it is not there yet."""
        return own or replace(self.stage.program, target=self.watch.target)

    def lay_out(self, compiled: Compiled) -> Later:
        """Return schedule and memory plan of what was compiled, and what the validators see in it."""
        later = self.look_up(self.stage.laid_out)
        if later is None:
            self.watch.begin()
            observed = compiled.observed  # no target changes it
            later = Later(compiled.schedule, compiled.plan, observed)
            self.stage.laid_out.append((self.watch.answers(), later))
        return later

    def look_up(self, found: Iterable[tuple[Answers, Found]]) -> Found | None:
        """Return what a stage made for a target that gave the same answers."""
        return next((made for answers, made in found if self.watch.knows(answers)), None)


def check(made: Made) -> Made:
    """Return what was made, if the validators accept it on its target."""
    try:
        return made if made.compiled is None else Made(expect_accepted(made.compiled))
    except GraphError as refusal:
        return Made(None, failure=refusal)


def rename(made: Made, target: Target, verdict: Preflight) -> Made:
    """Return what was made for one target as it is for another that gets the same program, with the verdict there."""
    if made.compiled is None:
        return made
    before = made.compiled
    notes = tuple(note.for_target(target.name) for note in before.program.notes)
    _, how = chaining_enabled(target, rules())
    order = replace(before.schedule, target=target.name, notes=(how,))
    memory = replace(before.plan, target=target.name, notes=(how, *before.plan.notes[len(before.schedule.notes) :]))
    program = replace(before.program, target=target, notes=notes)
    retargeted = replace(before.retargeted, target=target.name, verdict=verdict)
    return replace(made, compiled=Compiled(retargeted, program, Later(order, memory, before.later.observed)))

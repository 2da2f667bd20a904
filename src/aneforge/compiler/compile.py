"""The front door of the compiler: a graph, compiled for one target, with all that is known of how it got there.

Everything that compiles comes through here: models, reports, predictions and checks. The verdict on the graph is asked
once; the graph after conversion is what writers write and what the program was lowered from; schedule and memory plan
are made when they are first asked for.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from aneforge.compiler.dialect import Route
from aneforge.compiler.ir.program import Note
from aneforge.compiler.ir.verifier import verify
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.reproducer import reproducible, within
from aneforge.compiler.retarget import retarget
from aneforge.compiler.splits import refusal_of, splits_of
from aneforge.compiler.validators.network import observe_program
from aneforge.errors import GraphError, IllegalGraphError, NotSupportedError
from aneforge.graph.graph import as_graph
from aneforge.records import dataclass
from aneforge.rules.operations import op_status
from aneforge.rules.preflight import Status
from aneforge.targets import TargetLike, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.memory.plan import MemoryPlan
    from aneforge.compiler.pipeline import Pipeline
    from aneforge.compiler.retarget import Retargeted
    from aneforge.compiler.schedule.schedule import Schedule
    from aneforge.compiler.validators.network import NetworkValidation, ObservedProgram
    from aneforge.graph.convert import Change, SuppliedInput
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.ops.types import Array
    from aneforge.rules.preflight import Preflight
    from aneforge.targets import Target

__all__ = ["Compiled", "Later", "build", "build_program", "compile_graph", "expect_accepted", "lowered", "route_to"]


@dataclass(slots=True)
class Later:
    """What is made of a program when it is first asked for."""

    schedule: Schedule | None = None
    plan: MemoryPlan | None = None
    observed: ObservedProgram | None = None
    validation: NetworkValidation | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler made of a graph."""

    retargeted: Retargeted
    program: Program
    later: Later = field(default_factory=Later, repr=False, compare=False)

    @property
    def graph(self) -> Graph:
        """The graph after conversion: what is written, and what the program was lowered from."""
        return self.retargeted.graph

    @property
    def verdict(self) -> Preflight:
        """The verdict on the graph as it was."""
        return self.retargeted.verdict

    @property
    def changes(self) -> tuple[Change, ...]:
        """The operations that became others, and those that were split or are only moved because they are oversize."""
        return (*self.retargeted.changes, *splits_of(self.program, self.graph, self.validation, self.verdict))

    @property
    def observed(self) -> ObservedProgram:
        """What the validators see in the program; no target changes it."""
        if self.later.observed is None:
            self.later.observed = observe_program(self.program)
        return self.later.observed

    @property
    def validation(self) -> NetworkValidation:
        """What the validators say of the program."""
        if self.later.validation is None:
            self.later.validation = self.observed.judge(self.program.target)
        return self.later.validation

    @property
    def supplied(self) -> tuple[SuppliedInput, ...]:
        """New inputs that the host feeds, such as random numbers."""
        return self.retargeted.supplied

    def feed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return values for every input of the program: the given ones, and what the host draws."""
        return {**{one.name: one.draw() for one in self.supplied}, **inputs}

    @property
    def schedule(self) -> Schedule:
        """The order of the layers on the units."""
        if self.later.schedule is None:
            from aneforge.compiler.schedule.schedule import schedule  # noqa: PLC0415 - few callers ask for it

            with self.reproducible(), within("schedule"):
                self.later.schedule = schedule(self.program)
        return self.later.schedule

    @property
    def plan(self) -> MemoryPlan:
        """Where every tensor is; it is verified as part of its making."""
        if self.later.plan is None:
            from aneforge.compiler.memory.planner import plan  # noqa: PLC0415 - as above

            with self.reproducible(), within("memory-plan"):
                self.later.plan = plan(self.program, self.schedule)
        return self.later.plan

    def reproducible(self) -> AbstractContextManager[None]:
        """Name a file in an internal error that holds what was compiled."""
        return reproducible(self.graph, self.program.target.name, self.retargeted.route)


def compile_graph(
    graph: GraphLike,
    target: TargetLike = None,
    *,
    route: str = "mil",
    pipeline: Pipeline = PIPELINE,
    run: Callable[[Program], Program] | None = None,
) -> Compiled:
    """Return a graph compiled for one target: converted, lowered, fused, made legal.

    `run` runs the passes in a different way than `pipeline` would, such as one that writes what each of them gives.

    >>> import aneforge as af
    >>> made = compile_graph((af.input((1, 8)) * 2.0 + 1.0).tanh(), af.targets.Family.A16)
    >>> len(made.program.layers), len(made.schedule.partitions), made.verdict.ok, made.changes
    (1, 1, True, ())

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there.
        InternalError: A stage of the compiler made a mistake; the error names the stage, and a file that shows it.
    """
    compiled = build(graph, target, route=route, pipeline=pipeline, run=run)
    return expect_accepted(compiled) if pipeline.passes == PIPELINE.passes else compiled


def build(
    graph: GraphLike,
    target: TargetLike = None,
    *,
    route: str = "mil",
    pipeline: Pipeline = PIPELINE,
    run: Callable[[Program], Program] | None = None,
    lower: Callable[[Graph, Target], Program] = lower,
    verdict: Preflight | None = None,
) -> Compiled:
    """Return a graph compiled for one target, as `compile_graph` does; the validators are still to be asked.

    `run`, `lower` and `verdict` are there for callers that compile for many targets, and know what some of them share.
    """
    place, whole = place_of(target), as_graph(graph)
    retargeted = retarget(whole, place.target, route, verdict=verdict)
    with reproducible(whole, place.target.name, route):
        try:
            program = (run or pipeline.run)(lowered(retargeted, place.target, lower))
        except NotSupportedError as refusal:
            raise refusal_of(refusal, retargeted.verdict, retargeted.graph) from refusal
    return Compiled(retargeted, program if place.chip is None else replace(program, chip=place.chip.key))


def expect_accepted(compiled: Compiled) -> Compiled:
    """Return what was compiled, if the validators accept it.

    Raises:
        IllegalGraphError: They do not, and neither do the rules about the graph.
        InternalError: They do not, and the rules about the graph let it pass: lowering left its own limits.
    """
    stopping = [found for found in compiled.validation.findings if found.stops]
    if not stopping:
        return compiled
    if not compiled.verdict.ok:
        raise IllegalGraphError.of(compiled.program.target.name, [str(found.finding) for found in stopping])
    with compiled.reproducible(), within("validators"):
        raise GraphError(str(stopping[0].finding))


def build_program(
    graph: GraphLike, target: TargetLike = None, *, route: str = "mil", pipeline: Pipeline = PIPELINE
) -> Program:
    """Return the program of a graph for one target: converted, lowered, fused, made legal.

    >>> import aneforge as af
    >>> program = build_program((af.input((1, 8)) * 2.0 + 1.0).tanh(), af.targets.Family.A16)
    >>> [layer.kind.name for layer in program.layers]
    ['gain_offset_control']

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there.
    """
    return compile_graph(graph, target, route=route, pipeline=pipeline).program


BELOW_MIL = (
    "{target} runs no MIL programs; this program is what a network description becomes, which reaches {target} directly"
)
"""What is said of a program that only the direct route makes."""


def route_to(target: Target) -> Route:
    """Return the route by which a target is reached."""
    return Route.MIL if target.limits.flag("mil_programs") else Route.DIRECT


def lowered(retargeted: Retargeted, target: Target, lower: Callable[[Graph, Target], Program] = lower) -> Program:
    """Return the program of a converted graph before any pass, with a note of everything that the target does not have.

    What it has, and every program has in several layers, is listed only among the changes.
    """
    decomposed = {(report.op, report.location) for report in retargeted.verdict.decompose}
    notes = [
        Note("retarget", "", f"{change.op}{f' at {change.location}' if change.location else ''} became {change.detail}")
        for change in retargeted.changes
        if op_status(change.op, target) != Status.NATIVE
        or change.why == ""
        or (change.op, change.location) in decomposed
    ]
    if not target.limits.flag("mil_programs"):
        notes.insert(0, Note.of("retarget", "", BELOW_MIL, target=target.name))
    program = lower(retargeted.graph, target)
    if notes:
        program = replace(program, notes=(*notes, *program.notes))
    with within("lower"):
        verify(program)
    return program

"""A graph compiled to the end: a legal program, its schedule, and a memory plan that was verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aneforge.compiler.memory.planner import plan
from aneforge.compiler.pipeline import PIPELINE, build_program
from aneforge.compiler.schedule.schedule import schedule

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.memory.plan import MemoryPlan
    from aneforge.compiler.pipeline import Pipeline
    from aneforge.compiler.schedule.schedule import Schedule
    from aneforge.graph.graph import GraphLike
    from aneforge.targets import TargetLike

__all__ = ["Compiled", "compile_graph"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the four phases of the compiler made of a graph."""

    program: Program
    schedule: Schedule
    plan: MemoryPlan


def compile_graph(
    graph: GraphLike, target: TargetLike = None, *, route: str = "mil", pipeline: Pipeline = PIPELINE
) -> Compiled:
    """Return a graph compiled for one target; the plan is verified as part of its making.

    >>> import aneforge as af
    >>> made = compile_graph((af.input((1, 8)) * 2.0 + 1.0).tanh(), af.targets.Family.A16)
    >>> len(made.program.layers), len(made.schedule.partitions)
    (1, 1)

    Raises:
        IllegalGraphError: An operation cannot run there.
        NotSupportedError: An operation has no form there.
    """
    program = build_program(graph, target, route=route, pipeline=pipeline)
    order = schedule(program)
    return Compiled(program, order, plan(program, order))

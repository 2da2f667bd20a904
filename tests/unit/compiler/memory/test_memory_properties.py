"""Any program, any budget: the plan verifies, a machine that runs it finds every tensor, and it is always the same."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from aneforge.compiler.ir.program import Program
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.printing import plan_from_json, plan_json
from aneforge.compiler.memory.verifier import verify_plan
from aneforge.compiler.pipeline import build_program
from aneforge.compiler.schedule.printing import schedule_from_json, schedule_json
from aneforge.compiler.schedule.rules import rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.compiler.schedule.strategies import programs
from aneforge.compiler.strategies import networks
from aneforge.graph.strategies import DrawnGraph
from aneforge.targets import Family
from unit.compiler.memory.memory_machine import Machine, least_on_chip

RULES = rules()
BUDGETS = (
    RULES,
    replace(RULES, working_set_margin=0.2, stream_share=0.05),
    replace(RULES, working_set_margin=0.02, stream_share=0.01),
    replace(RULES, working_set_margin=0.5, stream_share=0.5, readers_for_loading=1),
)


@settings(deadline=None, max_examples=60)
@given(programs(most=30))
def test_a_machine_that_runs_the_plan_finds_every_tensor(program: Program) -> None:
    for chosen in BUDGETS:
        made = schedule(program, chosen)
        planned = plan(program, made, chosen)
        verify_plan(program, made, planned)
        Machine(program, made, planned).run()


@settings(deadline=None, max_examples=40)
@given(programs(most=30, family=Family.A16))
def test_the_peak_is_no_less_than_what_one_step_needs(program: Program) -> None:
    for chosen in BUDGETS:
        made = schedule(program, chosen)
        planned = plan(program, made, chosen)
        assert least_on_chip(program, made, planned) <= planned.peak <= planned.on_chip_bytes
        assert len(planned.timeline) == len(made.steps)


@settings(deadline=None, max_examples=30)
@given(programs(most=30))
def test_plans_are_alike_and_read_back_from_json(program: Program) -> None:
    made = schedule(program)
    planned = plan(program, made)
    assert planned == plan(program, schedule(program))
    assert planned.by_value  # what is remembered of a plan is no part of its text
    assert plan_from_json(plan_json(planned)) == planned
    assert schedule_from_json(schedule_json(made)) == made


@settings(deadline=None, max_examples=40)
@given(networks())
def test_networks_as_the_passes_leave_them(network: DrawnGraph) -> None:
    program = build_program(network.graph, Family.A14)
    for chosen in (RULES, replace(RULES, working_set_margin=0.001, stream_share=0.001)):
        made = schedule(program, chosen)
        Machine(program, made, plan(program, made, chosen)).run()

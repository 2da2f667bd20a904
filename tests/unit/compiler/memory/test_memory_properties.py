"""Any program, any budget: the plan verifies, a machine that runs it finds every tensor, and it is always the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from aneforge.compiler.lower.lower import lower
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.print_plan import plan_from_json, plan_json
from aneforge.compiler.memory.verifier import verify_plan
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.schedule.print_schedule import schedule_from_json, schedule_json
from aneforge.compiler.schedule.rules import rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.targets import Family, resolve
from aneforge.testing.networks import networks
from aneforge.testing.programs import DrawnProgram, programs
from unit.compiler.memory.memory_machine import Machine, least_on_chip

if TYPE_CHECKING:
    from aneforge.testing.graphs import DrawnGraph

RULES = rules()
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
BUDGETS = (
    RULES,
    replace(RULES, working_set_margin=0.2, stream_share=0.05),
    replace(RULES, working_set_margin=0.02, stream_share=0.01),
    replace(RULES, working_set_margin=0.5, stream_share=0.5, readers_for_loading=1),
)


@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(programs(most=30))
def test_a_machine_that_runs_the_plan_finds_every_tensor(drawn: DrawnProgram) -> None:
    program = drawn.program
    for chosen in BUDGETS:
        made = schedule(program, chosen)
        planned = plan(program, made, chosen)
        verify_plan(program, made, planned)
        Machine(program, made, planned).run()


@settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(programs(most=30, family=Family.A16))
def test_the_peak_is_no_less_than_what_one_step_needs(drawn: DrawnProgram) -> None:
    program = drawn.program
    for chosen in BUDGETS:
        made = schedule(program, chosen)
        planned = plan(program, made, chosen)
        assert least_on_chip(program, made, planned) <= planned.peak <= planned.on_chip_bytes
        assert len(planned.timeline) == len(made.steps)


@settings(deadline=None, max_examples=30, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(programs(most=30))
def test_plans_are_alike_and_read_back_from_json(drawn: DrawnProgram) -> None:
    program = drawn.program
    made = schedule(program)
    planned = plan(program, made)
    assert planned == plan(program, schedule(program))
    assert planned.by_value  # what is remembered of a plan is no part of its text
    assert plan_from_json(plan_json(planned)) == planned
    assert schedule_from_json(schedule_json(made)) == made


@settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks())
def test_networks_as_the_passes_leave_them(network: DrawnGraph) -> None:
    program = PIPELINE.run(lower(network.graph, resolve(Family.A14)))
    for chosen in (RULES, replace(RULES, working_set_margin=0.001, stream_share=0.001)):
        made = schedule(program, chosen)
        Machine(program, made, plan(program, made, chosen)).run()

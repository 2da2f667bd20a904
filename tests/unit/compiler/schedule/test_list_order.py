"""The list scheduler: every tie-break decides where all before it are even, and the order is always topological."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.memory.layout import on_chip_layout
from aneforge.compiler.schedule.branches import branch_footprints, branches_from
from aneforge.compiler.schedule.flow import Flow, flow_of
from aneforge.compiler.schedule.order import Scheduler, list_order, ring_members
from aneforge.compiler.schedule.rules import Rules, rules
from aneforge.testing.programs import DrawnProgram, programs

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

RULES = rules()
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
PLAIN = replace(RULES, branch_sibling_score=0, merge_sibling_score=0)
"""Rules under which neither kind of sibling decides."""


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


def flow(program: Program) -> Flow:
    return flow_of(program, program.segments[0])


def sizes(found: Flow) -> list[int]:
    banks = on_chip(found.program.target, RULES).banks
    return [sum(on_chip_layout(one.type, banks).size for one in layer.results) for layer in found.layers]


def order(program: Program, with_rules: Rules = RULES, limit: int = 1 << 21) -> list[str]:
    found = flow(program)
    return [found.layers[number].name for number in list_order(found, sizes(found), limit, with_rules)]


def test_a_layer_of_a_ring_buffer_goes_before_all_others() -> None:
    # %a is deeper than the writer, of a lower number, and larger: all later tie-breaks would choose it.
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  input "r" = %r : fp16[1, 8, 16, 16]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %b = PE anec.relu(x = %a) : fp16[1, 8, 16, 16]
  %w = DMA anec.ring_buffer_writer(buffer = %r, x = %x) {offset = 0, axis = 1} : fp16[1, 8, 16, 16]
  %v = DMA anec.ring_buffer_reader(buffer = %w) {offset = 1, axis = 1} : fp16[1, 8, 16, 16]
  %c = PE anec.add(x = %v, y = %b) : fp16[1, 8, 16, 16]
  output "y" = %c""")
    assert order(program) == ["w", "v", "a", "b", "c"]
    assert order(program, replace(RULES, ring_kinds=frozenset())) == ["a", "b", "w", "v", "c"]
    assert ring_members(flow(program), RULES) == {2, 3}


def test_who_writes_and_who_reads_a_ring_belongs_to_it() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[1, 8]
  %w = DMA anec.ring_buffer_writer(buffer = %a, x = %x) {offset = 0, axis = 1} : fp16[1, 8]
  %b = PE anec.relu(x = %w) : fp16[1, 8]
  %c = PE anec.relu(x = %x) : fp16[1, 8]
  output "y" = %b
  output "z" = %c""")
    assert ring_members(flow(program), RULES) == {0, 1, 2}
    assert order(program)[-1] == "c"


BRANCHES = """
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %s = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %a1 = PE anec.tanh(x = %s) : fp16[1, 8, 16, 16]
  %b1 = PE anec.sigmoid(x = %s) : fp16[1, 8, 16, 16]
  %a2 = PE anec.tanh(x = %a1) : fp16[1, 8, 16, 16]
  %b2 = PE anec.sigmoid(x = %b1) : fp16[1, 8, 16, 16]
  %c = PE anec.add(x = %a2, y = %b2) : fp16[1, 8, 16, 16]
  output "y" = %c"""


def test_a_branch_that_was_begun_is_drained_before_its_sibling() -> None:
    shallow = replace(RULES, topological_order="shallowest first", merge_sibling_score=0)
    assert order(read(BRANCHES), shallow) == ["s", "a1", "a2", "b1", "b2", "c"]
    assert order(read(BRANCHES), replace(shallow, branch_sibling_score=0)) == ["s", "a1", "b1", "a2", "b2", "c"]
    assert order(read(BRANCHES), replace(shallow, branch_sibling_score=1)) == ["s", "a1", "b1", "a2", "b2", "c"]


def test_inputs_of_the_program_do_not_branch() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %a = PE anec.tanh(x = %x) : fp16[1, 8]
  %b = PE anec.sigmoid(x = %x) : fp16[1, 8]
  %c = PE anec.add(x = %a, y = %b) : fp16[1, 8]
  output "y" = %c""")
    scheduler = Scheduler(flow(program), RULES, [0, 0, 0], frozenset())
    scheduler.schedule(0)
    assert scheduler.branch_scores == [0, 0, 0]
    assert scheduler.merge_scores == [0, 1, 0]


def test_a_layer_whose_reader_already_waits_goes_first() -> None:
    # %p and %q are ready and alike; %q feeds a join that waits with %a.
    program = read("""
  input "x" = %x : fp16[1, 8]
  input "u" = %u : fp16[1, 8]
  segment 0:
  %a = PE anec.tanh(x = %x) : fp16[1, 8]
  %p = PE anec.relu(x = %u) : fp16[1, 8]
  %q = PE anec.sigmoid(x = %u) : fp16[1, 8]
  %j = PE anec.add(x = %a, y = %q) : fp16[1, 8]
  output "y" = %j
  output "z" = %p""")
    assert order(program) == ["a", "q", "j", "p"]
    assert order(program, replace(RULES, merge_sibling_score=0)) == ["a", "p", "q", "j"]


def diamond(left: int, right: int) -> Program:
    """Return a diamond whose branches are reductions over so many channels."""
    return read(f"""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %s = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %a1 = DMA anec.tile(x = %s) {{reps = [1, {left}, 1, 1]}} : fp16[1, {8 * left}, 16, 16]
  %b1 = DMA anec.tile(x = %s) {{reps = [1, {right}, 1, 1]}} : fp16[1, {8 * right}, 16, 16]
  %a2 = PE anec.reduce_sum(x = %a1) {{axes = [1], keep_dims = true}} : fp16[1, 1, 16, 16]
  %b2 = PE anec.reduce_sum(x = %b1) {{axes = [1], keep_dims = true}} : fp16[1, 1, 16, 16]
  %c = PE anec.add(x = %a2, y = %b2) : fp16[1, 1, 16, 16]
  output "y" = %c""")


def test_of_a_diamond_the_branch_of_the_larger_footprint_goes_first() -> None:
    assert order(diamond(2, 4), PLAIN) == ["s", "b1", "b2", "a1", "a2", "c"]
    assert order(diamond(4, 2), PLAIN) == ["s", "a1", "a2", "b1", "b2", "c"]


def test_a_branch_whose_peak_does_not_fit_does_not_go_first() -> None:
    # 4096 bytes branch; the right branch holds 16384 + 512 of its own, the left one 8192 + 512.
    assert order(diamond(2, 4), PLAIN, limit=4096 + 16384 + 512) == ["s", "b1", "b2", "a1", "a2", "c"]
    assert order(diamond(2, 4), PLAIN, limit=4096 + 16384 + 511) == ["s", "a1", "a2", "b1", "b2", "c"]


def test_a_diamond_whose_ends_do_not_fit_has_no_rule() -> None:
    found = flow(diamond(2, 4))
    assert branch_footprints(found, sizes(found), 4096 + 512) == [0] * 6  # the ends fit, the peaks do not
    assert branch_footprints(found, sizes(found), 1 << 21) == [0, 8704, 16896, 8704, 16896, 0]
    assert branch_footprints(found, [4096, 10, 20, 10, 20, 512], 4096 + 512 - 1) == [0, 0, 0, 0, 0, 0]


def test_a_diamond_inside_a_branch_counts_as_a_step_of_it() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %s = PE anec.relu(x = %x) : fp16[1, 8]
  %a = PE anec.tanh(x = %s) : fp16[1, 8]
  %i = PE anec.exp(x = %a) : fp16[1, 8]
  %k = PE anec.abs(x = %a) : fp16[1, 8]
  %m = PE anec.add(x = %i, y = %k) : fp16[1, 8]
  %b = PE anec.sigmoid(x = %s) : fp16[1, 8]
  %c = PE anec.add(x = %m, y = %b) : fp16[1, 8]
  output "y" = %c""")
    found = flow(program)
    branches = dict(branches_from(found, [1, 10, 100, 1000, 5, 7, 3]))
    inner = {branch.head: (branch.end, branch.footprint) for branch in branches[1]}
    outer = {branch.head: (branch.end, branch.footprint) for branch in branches[0]}
    assert inner == {2: (4, 100), 3: (4, 1000)}
    # Inside: %a and the larger inner branch, 1010; at the join %i, %k and %m, 1105.
    assert outer == {1: (6, 1105), 5: (6, 7)}


def test_branches_that_leave_or_fall_apart_meet_nowhere() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %s = PE anec.relu(x = %x) : fp16[1, 8]
  %a = PE anec.tanh(x = %s) : fp16[1, 8]
  %i = PE anec.exp(x = %a) : fp16[1, 8]
  %k = PE anec.abs(x = %a) : fp16[1, 8]
  %b = PE anec.sigmoid(x = %s) : fp16[1, 8]
  output "y" = %i
  output "z" = %k
  output "w" = %b""")
    found = flow(program)
    ends = {branch.head: branch.end for _, branches in branches_from(found, [1] * 5) for branch in branches}
    assert ends == {1: None, 2: None, 3: None, 4: None}


def test_an_input_that_branches_holds_no_memory_on_chip() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %a = PE anec.tanh(x = %x) : fp16[1, 8]
  %b = PE anec.sigmoid(x = %x) : fp16[1, 8]
  %c = PE anec.add(x = %a, y = %b) : fp16[1, 8]
  output "y" = %c""")
    assert branch_footprints(flow(program), [30, 40, 5], 45) == [30, 40, 0]


DEPTHS = """
  input "x" = %x : fp16[1, 8]
  input "u" = %u : fp16[1, 8]
  segment 0:
  %a = PE anec.tanh(x = %x) : fp16[1, 8]
  %b = PE anec.relu(x = %u) : fp16[1, 8]
  %c = PE anec.exp(x = %a) : fp16[1, 8]
  %d = PE anec.abs(x = %b) : fp16[1, 8]
  output "y" = %c
  output "z" = %d"""


def test_then_the_distance_from_the_beginning_decides() -> None:
    assert order(read(DEPTHS)) == ["a", "c", "b", "d"]
    assert order(read(DEPTHS), replace(RULES, topological_order="shallowest first")) == ["a", "b", "c", "d"]


def test_and_last_the_number() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8]
  segment 0:
  %b = PE anec.tanh(x = %x) : fp16[1, 8]
  %a = PE anec.relu(x = %x) : fp16[1, 8]
  output "y" = %a
  output "z" = %b""")
    assert order(program) == ["b", "a"]


@pytest.mark.parametrize("direction", ["deepest first", "shallowest first"])
@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(drawn=programs())
def test_the_order_is_topological_and_has_every_layer_once(direction: str, drawn: DrawnProgram) -> None:
    program = drawn.program
    chosen = replace(RULES, topological_order=direction)  # pyright: ignore[reportArgumentType] - one of the two words
    for segment in program.segments:
        found = flow_of(program, segment)
        listed = list_order(found, sizes(found), 1 << 21, chosen)
        assert sorted(listed) == list(range(len(found.layers)))
        place = {number: position for position, number in enumerate(listed)}
        edges = [(before, after) for after, earlier in enumerate(found.predecessors) for before in earlier]
        assert all(place[before] < place[after] for before, after in edges)
        assert listed == list_order(found, sizes(found), 1 << 21, chosen)

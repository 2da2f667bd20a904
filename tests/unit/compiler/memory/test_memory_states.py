"""The nine states of table 22.2, each in the smallest program that has it, with where the tensor stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.memory.plan import Allocation, AllocationState, Memory, MemoryPlan
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.scratch import Tenant, scratch_of
from aneforge.compiler.memory.streaming_windows import share_out
from aneforge.compiler.schedule.rules import Rules, rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.errors import GraphError, NotSupportedError
from aneforge.ops.types import TensorType
from aneforge.targets import resolve

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

RULES = rules()


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


def planned(body: str, with_rules: Rules = RULES) -> MemoryPlan:
    program = read(body)
    return plan(program, schedule(program, with_rules), with_rules)


def states(made: MemoryPlan) -> dict[str, int]:
    return {one.value: int(one.state) for one in made.allocations if not one.loaded}


def copies(made: MemoryPlan) -> list[Allocation]:
    return [one for one in made.allocations if one.loaded]


MIXED = """
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[8, 32]
  %b = TE anec.transpose(x = %a) {perm = [1, 0]} : fp16[32, 8]
  %c = PE anec.relu(x = %b) : fp16[32, 8]
  %d = PE anec.tanh(x = %c) : fp16[32, 8]
  output "y" = %d"""


def test_0_what_is_made_from_dram_alone_is_a_plain_resident() -> None:
    made = planned(MIXED)
    one = made.by_value["a"]
    assert (one.state, one.memory, one.offset, one.size) == (AllocationState.RESIDENT, Memory.L2, 0, 512)


def test_0_so_is_a_copy_of_an_operand_in_dram() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[8, 32]
  %b = PE anec.softmax(x = %x) {axis = 1} : fp16[8, 32]
  %c = PE anec.add(x = %a, y = %b) : fp16[8, 32]
  output "y" = %c""")
    (copy,) = copies(made)
    assert (copy.value, copy.state, copy.first, copy.last) == ("x", AllocationState.RESIDENT, 0, 1)
    assert made.by_value["x"].state is AllocationState.STREAMED
    assert [(window.layer, window.operand) for window in made.windows] == [("c", "result")]


def test_1_inputs_and_outputs_stream() -> None:
    made = planned(MIXED)
    assert [(made.by_value[name].state, made.by_value[name].home) for name in "xd"] == [
        (AllocationState.STREAMED, "input x"),
        (AllocationState.STREAMED, "output y"),
    ]
    assert [(window.layer, window.operand, window.value, window.step) for window in made.windows] == [
        ("a", "x", "x", 0),
        ("d", "result", "d", 3),
    ]


def test_1_so_does_what_lives_across_the_end_of_a_partition() -> None:
    tight = replace(RULES, working_set_margin=600 / 2097152, stream_share=0.01)
    made = planned(MIXED, tight)
    assert states(made) == {"x": 1, "a": 1, "b": 0, "c": 5, "d": 1}
    assert made.by_value["a"].home == "scratch 0"


def test_2_what_supplies_the_next_layer_is_chained() -> None:
    made = planned(MIXED)
    assert states(made) == {"x": 1, "a": 0, "b": 3, "c": 2, "d": 1}


def test_3_what_waits_for_something_on_chip_is_dependent() -> None:
    assert states(planned(MIXED))["b"] == AllocationState.DEPENDENT


def test_4_a_copy_that_is_rewritten_depends_on_no_producer() -> None:
    # %x is brought for two readers; the second one is done with it and writes its result there.
    made = planned("""
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.reduce_sum(x = %x) {axes = [0], keep_dims = true} : fp16[1, 32]
  %b = PE anec.relu(x = %x) : fp16[8, 32]
  %t = TE anec.transpose(x = %b) {perm = [1, 0]} : fp16[32, 8]
  output "y" = %t
  output "z" = %a""")
    one, (copy,) = made.by_value["b"], copies(made)
    assert (one.state, one.over) == (AllocationState.IN_PLACE, "x")
    assert (one.offset, one.size) == (copy.offset, copy.size)
    assert (copy.last, one.first) == (1, 1)


def test_5_what_a_layer_wrote_on_chip_and_another_rewrites() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  input "u" = %u : fp16[8, 32]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[32, 8]
  %b = PE anec.relu(x = %a) : fp16[32, 8]
  %t = TE anec.transpose(x = %b) {perm = [1, 0]} : fp16[8, 32]
  output "y" = %t""")
    one, old = made.by_value["b"], made.by_value["a"]
    assert (one.state, one.over, one.offset) == (AllocationState.IN_PLACE_DEPENDENT, "a", old.offset)
    assert made.peak == max(moment.total for moment in made.timeline)
    assert [moment.buffers for moment in made.timeline] == [512, 512, 512]


def test_5_not_while_a_layer_of_the_same_step_still_reads() -> None:
    # %s and %r run at the same time and both read %k; one after the other, the last may write over it.
    body = """
  input "x" = %x : fp16[64, 64]
  segment 0:
  %k = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[64, 64]
  %s = PE anec.softmax(x = %k) {axis = 0} : fp16[64, 64]
  %r = NE anec.relu(x = %k) : fp16[64, 64]
  %y = NE anec.matmul(lhs = %s, rhs = %r) {transpose_rhs = true} : fp16[64, 64]
  output "y" = %y"""
    together = read(body)
    assert [(pair.first, pair.second) for pair in schedule(together).coissued] == [("s", "r")]
    assert planned(body).by_value["r"].over is None
    apart = body.replace("  %y =", "    chosen: {engine_number = 1}\n  %y =")
    assert planned(apart).by_value["r"].over == "k"


def test_5_not_what_supplies_it_in_a_chain() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[32, 8]
  %b = PE anec.relu(x = %a) : fp16[32, 8]
  %c = PE anec.tanh(x = %b) : fp16[32, 8]
  %t = TE anec.transpose(x = %c) {perm = [1, 0]} : fp16[8, 32]
  output "y" = %t""")
    assert states(made) == {"x": 1, "a": 0, "b": 2, "c": 3, "t": 1}
    assert made.by_value["c"].over is None


RING = """
  input "x" = %x : fp16[8, 32]
  input "r" = %r : fp16[16, 32]
  segment 0:
  MADE
  %w = DMA anec.ring_buffer_writer(buffer = %r, x = %NAME) {offset = 4, axis = 0} : fp16[16, 32]
  %v = DMA anec.ring_buffer_reader(buffer = %w) {offset = 1, axis = 0} : fp16[16, 32]
  %t = TE anec.transpose(x = %v) {perm = [1, 0]} : fp16[32, 16]
  output "y" = %t"""


def test_6_a_ring_buffer_on_chip() -> None:
    made = planned(RING.replace("  MADE\n", "").replace("NAME", "x"))
    assert states(made) == {"x": 1, "r": 1, "w": 6, "v": 3, "t": 1}


def test_7_a_ring_buffer_that_waits_for_something_on_chip() -> None:
    made = planned(RING.replace("MADE", "%a = PE anec.softmax(x = %x) {axis = 0} : fp16[8, 32]").replace("NAME", "a"))
    assert states(made) == {"x": 1, "r": 1, "a": 0, "w": 7, "v": 3, "t": 1}


def test_7_a_ring_that_is_on_chip_already_is_written_in_place() -> None:
    body = RING.replace("MADE", "%s = PE anec.softmax(x = %r) {axis = 0} : fp16[16, 32]").replace("NAME", "x")
    made = planned(body.replace("buffer = %r", "buffer = %s"))
    one = made.by_value["w"]
    assert (one.state, one.over, one.offset) == (AllocationState.RING_DEPENDENT, "s", made.by_value["s"].offset)
    assert made.by_value["s"].state is AllocationState.RING


def test_8_a_state_is_rewritten_in_place() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.add(x = %s, y = %x) : fp16[8, 32]
  %b = PE anec.relu(x = %a) : fp16[8, 32]
  output "y" = %b
  write "s" = %a""")
    one = made.by_value["a"]
    assert (one.state, one.over, one.home, one.offset) == (AllocationState.IN_PLACE_DRAM, "s", "state s", 0)
    assert made.by_value["s"].home == "state s"
    assert made.notes[1:] == ()


def test_8_a_ring_that_is_a_state_stays_in_dram() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[16, 32]
  segment 0:
  %a = DMA anec.ring_buffer_writer(buffer = %s, x = %x) {offset = 4, axis = 0} : fp16[16, 32]
  %b = DMA anec.ring_buffer_reader(buffer = %a) {offset = 1, axis = 0} : fp16[16, 32]
  output "y" = %b
  write "s" = %a""")
    assert states(made) == {"x": 1, "s": 1, "a": 8, "b": 1}


def test_8_scratch_is_rewritten_too() -> None:
    # Nothing fits on chip; %b may write over %a, and %c may not, because %d still reads %b.
    body = """
  input "x" = %x : fp16[512, 1024]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[1024, 512]
  %b = PE anec.relu(x = %a) : fp16[1024, 512]
  %c = PE anec.tanh(x = %b) : fp16[1024, 512]
  %d = PE anec.add(x = %b, y = %c) : fp16[1024, 512]
  output "y" = %d"""
    made = planned(body, replace(RULES, working_set_margin=0.25))
    assert states(made) == {"x": 1, "a": 1, "b": 8, "c": 1, "d": 1}
    assert made.by_value["b"].offset == made.by_value["a"].offset == 0
    assert made.by_value["c"].offset == 1048576


# States that cannot be rewritten.


def test_a_state_that_is_read_after_it_is_written_has_a_second_buffer() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[8, 32]
  %b = PE anec.add(x = %a, y = %s) : fp16[8, 32]
  output "y" = %b
  write "s" = %a""")
    assert made.by_value["a"].home == "next s"
    assert made.notes[1:] == ("state s is not rewritten in place: %b still reads the old contents",)


def test_a_state_whose_writer_needs_all_of_it_has_a_second_buffer() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.softmax(x = %s) {axis = 0} : fp16[8, 32]
  output "y" = %x
  write "s" = %a""")
    assert made.by_value["a"].home == "next s"
    assert made.notes[1:] == (
        "state s is not rewritten in place: %a still reads the old contents",
        "output y is copied from input x when the run ends",
    )


@pytest.mark.parametrize(
    ("written", "output", "note"),
    [
        ("a", "a", "state s is an output too and is copied when the run ends"),
        ("x", "a", "state s is copied from input x when the run ends"),
        ("s", "a", None),
    ],
)
def test_other_states(written: str, output: str, note: str | None) -> None:
    made = planned(f"""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.add(x = %s, y = %x) : fp16[8, 32]
  output "y" = %{output}
  write "s" = %{written}""")
    assert made.notes[1:] == (() if note is None else (note,))
    assert made.by_value["a"].home == "output y"


def test_a_state_nobody_reads_is_still_rewritten() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[8, 32]
  output "y" = %x
  write "s" = %a""")
    assert made.by_value["a"].home == "state s"
    assert made.by_value["a"].state is AllocationState.IN_PLACE_DRAM


def test_what_one_segment_hands_to_another_has_a_space_of_its_own() -> None:
    made = planned("""
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[8, 32]
  segment 1:
  %s = PE anec.sort(x = %a) {axis = -1} : fp16[8, 32]
  output "y" = %s""")
    assert made.by_value["a"].home == "between segments a"
    assert [(space.home, space.size) for space in made.spaces] == [
        ("input x", 512),
        ("between segments a", 512),
        ("output y", 512),
    ]


# Scratch and windows.


def test_scratch_is_shared_one_after_another() -> None:
    tensor = TensorType((8, 32))
    tenants = [
        Tenant(Value("a", tensor), 0, 1, None),
        Tenant(Value("b", tensor), 1, 2, None),
        Tenant(Value("c", tensor), 2, 3, None),
        Tenant(Value("d", tensor), 3, 4, "c"),
    ]
    made = scratch_of(tenants)
    assert made.offsets == {"a": 0, "b": 512, "c": 0, "d": 0}
    assert (made.rewritten, made.size) == ({"d": "c"}, 1024)


def test_scratch_that_no_address_reaches() -> None:
    vast = TensorType((1 << 20, 1 << 20))
    tenants = [Tenant(Value(name, vast), 0, 1, None) for name in "abc"]
    with pytest.raises(NotSupportedError, match=r"no device address reaches %c .*limit 4398046511104 bytes in all"):
        scratch_of(tenants)


def test_windows_hold_two_tiles_or_what_there_is_room_for() -> None:
    made = planned("""
  input "x" = %x : fp16[1, 64, 224, 224]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[1, 64, 224, 224]
  output "y" = %a""")
    # 13 rows at a time would like 26; the two windows share 262,144 bytes, 4 rows of 28,672 each.
    assert [(window.operand, window.offset, window.size, window.rows) for window in made.windows] == [
        ("x", 1835008, 114688, 4),
        ("result", 1949696, 114688, 4),
    ]
    assert made.peak == 229376


def test_a_window_may_hold_a_part_of_a_row() -> None:
    made = planned("""
  input "x" = %x : fp16[1000, 1000]
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[1000, 1000]
  output "y" = %a""")
    assert [(window.size, window.rows) for window in made.windows] == [(131072, 0), (131072, 0)]


def test_room_is_shared_out_fairly() -> None:
    assert share_out([], 10) == []
    assert share_out([5, 5], 100) == [5, 5]
    assert share_out([100, 1, 100], 21) == [10, 1, 10]


def test_constants_of_many_numbers_stream() -> None:
    x = af.input((4, 32))
    many, few = np.ones((4, 32), np.float16), np.ones((4, 1), np.float16)
    program = lower(af.Graph({"y": (x + many) * few}), resolve("h13"))
    made = plan(program, schedule(program))
    assert [window.value for window in made.windows if window.value.startswith("@")] == ["@t1.y"]


def test_a_schedule_of_other_rules() -> None:
    program = read(MIXED)
    made = schedule(program, replace(RULES, working_set_margin=0.5))
    with pytest.raises(GraphError, match=r"the schedule was made under other rules .* give the plan the rules"):
        plan(program, made)

"""The verifier of plans, tested with plans that are broken in one place each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.memory.layout import Strides
from aneforge.compiler.memory.plan import Allocation, AllocationState, Memory, MemoryPlan, Moment
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.verifier import verify_plan
from aneforge.compiler.schedule.schedule import Pair, Schedule, schedule
from aneforge.errors import GraphError

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

BODY = """
  input "x" = %x : fp16[8, 32]
  state "s" = %s : fp16[8, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[8, 32]
  %b = PE anec.softmax(x = %x) {axis = 1} : fp16[8, 32]
  %c = DMA anec.concat(values = [%a, %b]) {axis = 0} : fp16[16, 32]
  %v = DMA anec.reshape(x = %c) {shape = [1, 16, 32]} : fp16[1, 16, 32]
  %t = TE anec.transpose(x = %v) {perm = [0, 2, 1]} : fp16[1, 32, 16]
  %r = PE anec.relu(x = %t) : fp16[1, 32, 16]
  %p = DMA anec.padding(x = %r) {pad = [1, 0, 8, 8]} : fp16[1, 33, 32]
  %q = PE anec.softmax(x = %p) {axis = 1} : fp16[1, 33, 32]
  %e = PE anec.exp(x = %q) : fp16[1, 33, 32]
  %k = PE anec.add(x = %x, y = %s) : fp16[8, 32]
  output "y" = %e
  write "s" = %k"""
PROGRAM = parse_program(f"program for h13 {{\n{BODY}\n}}\n")
SCHEDULE = schedule(PROGRAM)
PLAN = plan(PROGRAM, SCHEDULE)


def changed(value: str, **changes: object) -> MemoryPlan:
    """Return the plan with one allocation changed."""
    made = [
        replace(one, **changes) if one.value == value and not one.loaded else one  # pyright: ignore[reportArgumentType] - as the test says
        for one in PLAN.allocations
    ]
    return replace(PLAN, allocations=tuple(made))


def copy_changed(**changes: object) -> MemoryPlan:
    """Return the plan with the copy on chip changed."""
    made = [
        replace(one, **changes) if one.loaded else one  # pyright: ignore[reportArgumentType] - as the test says
        for one in PLAN.allocations
    ]
    return replace(PLAN, allocations=tuple(made))


def the(value: str) -> Allocation:
    return PLAN.by_value[value]


def refuse(broken: MemoryPlan, message: str, made: Schedule = SCHEDULE, program: Program = PROGRAM) -> None:
    with pytest.raises(GraphError, match=message):
        verify_plan(program, made, broken)


def test_the_plan_that_is_broken_below_is_whole() -> None:
    verify_plan(PROGRAM, SCHEDULE, PLAN)
    assert SCHEDULE.order == ("a", "b", "c", "v", "t", "r", "p", "q", "e", "k")
    assert {one.value: (int(one.state), one.root) for one in PLAN.by_value.values()} == {
        "x": (1, "x"),
        "s": (1, "s"),
        "a": (0, "c"),
        "b": (0, "c"),
        "c": (0, "c"),
        "v": (0, "c"),
        "t": (3, "t"),
        "r": (3, "p"),
        "p": (3, "p"),
        "q": (2, "q"),
        "e": (1, "e"),
        "k": (8, "k"),
    }
    assert [(copy.value, copy.first, copy.last) for copies in PLAN.copies.values() for copy in copies] == [("x", 0, 9)]


# Completeness.


def test_a_tensor_without_room() -> None:
    without = tuple(one for one in PLAN.allocations if one.value != "q")
    refuse(replace(PLAN, allocations=without), r"not every tensor has one allocation \(got q\)")


def test_a_tensor_with_two() -> None:
    refuse(replace(PLAN, allocations=(*PLAN.allocations, the("q"))), "a tensor with two")


def test_a_copy_of_something_on_chip() -> None:
    refuse(copy_changed(value="q"), "%q is a copy on chip of something that is not in DRAM")


# Alignment, bounds, size.


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        ("q", {"offset": 8}, r"the offset of %q is not aligned \(got 8, expected multiples of 16\)"),
        ("q", {"offset": -16}, "the offset of %q is not aligned"),
        ("x", {"offset": 16}, r"the offset of %x is not aligned \(got 16, expected multiples of 64\)"),
        ("q", {"strides": Strides(2112, 2112, 64, 72)}, "the row stride of %q is not aligned"),
        ("x", {"strides": Strides(512, 512, 80, 64)}, "the channel stride of %x is not aligned"),
        ("q", {"offset": 2097152}, r"%q reaches past the end of chip \(got 2099264, limit 2097152\)"),
        ("x", {"offset": 64}, r"%x reaches past the end of input x \(got 576, limit 512\)"),
        ("x", {"home": "attic"}, r"%x reaches past the end of attic \(got 512, limit 0\)"),
        ("q", {"strides": Strides(0, 0, 48, 48)}, r"the rows of %q overlap \(got 48, limit 64\)"),
        ("q", {"size": 2096}, r"%q does not have enough room \(got 2096, limit 2112\)"),
        ("q", {"strides": Strides(2112, 2112, 80, 64)}, r"%q does not have enough room \(got 2112, limit 2624\)"),
    ],
)
def test_where_and_how_large(value: str, changes: dict[str, object], message: str) -> None:
    refuse(changed(value, **changes), message)


# States.


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        ("x", {"state": AllocationState.RESIDENT}, "%x is in DRAM and in a state of the other memory"),
        ("t", {"state": AllocationState.STREAMED}, "%t is in L2 and in a state of the other memory"),
        ("t", {"state": AllocationState.CHAINED}, "%t is chained or in the chained state, and not both"),
        ("q", {"state": AllocationState.RESIDENT}, "%q is chained or in the chained state, and not both"),
        ("t", {"over": "c"}, "%t rewrites %c and is in a state of its own"),
        ("t", {"state": AllocationState.IN_PLACE}, "%t is in a state of rewriting and rewrites nothing"),
    ],
)
def test_states(value: str, changes: dict[str, object], message: str) -> None:
    refuse(changed(value, **changes), message)


# Time.


def test_a_read_before_the_tensor_is_there() -> None:
    refuse(changed("t", first=5), "%t is written before it has room")
    refuse(changed("t", last=4), r"%r reads %t while that is not there \(got step 5, expected steps 4 to 4\)")


def test_a_tensor_on_chip_across_the_end_of_a_partition() -> None:
    (partition,) = SCHEDULE.partitions
    halves = (
        replace(partition, layers=partition.layers[:5]),
        replace(partition, number=1, layers=partition.layers[5:]),
    )
    refuse(PLAN, "%t stays on chip across the end of a partition", replace(SCHEDULE, partitions=halves))


def test_a_copy_from_before_the_tensor_is_written() -> None:
    late = parse_program("""program for h13 {
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[8, 32]
  %b = PE anec.softmax(x = %a) {axis = 1} : fp16[8, 32]
  %c = PE anec.add(x = %a, y = %b) : fp16[8, 32]
  output "y" = %c
  output "z" = %a
}
""")
    made = schedule(late)
    planned = plan(late, made)
    (copy,) = [one for one in planned.allocations if one.loaded]
    early = tuple(replace(one, first=0) if one is copy else one for one in planned.allocations)
    refuse(replace(planned, allocations=early), "%a is copied on chip before %a is written into it", made, late)


# Rewriting.


def test_rewriting_in_another_place() -> None:
    refuse(changed("k", home="input x"), "%k rewrites %s and is not where that is")


def test_rewriting_what_is_still_read() -> None:
    program = parse_program("""program for h13 {
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[32, 8]
  %b = PE anec.relu(x = %a) : fp16[32, 8]
  %c = PE anec.add(x = %a, y = %b) : fp16[32, 8]
  output "y" = %c
}
""")
    made = schedule(program)
    planned = plan(program, made)
    old = planned.by_value["a"]
    over = tuple(
        replace(one, over="a", state=AllocationState.IN_PLACE_DEPENDENT, offset=old.offset, size=old.size)
        if one.value == "b"
        else one
        for one in planned.allocations
    )
    unchained = replace(made, chained=())
    refuse(replace(planned, allocations=over), "%b rewrites %a, and %c still reads that", unchained, program)


def test_rewriting_a_copy_that_is_still_needed() -> None:
    program = parse_program("""program for h13 {
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = PE anec.reduce_sum(x = %x) {axes = [0], keep_dims = true} : fp16[1, 32]
  %b = PE anec.relu(x = %x) : fp16[8, 32]
  %t = TE anec.transpose(x = %b) {perm = [1, 0]} : fp16[32, 8]
  output "y" = %t
  output "z" = %a
}
""")
    made = schedule(program)
    planned = plan(program, made)
    longer = tuple(replace(one, last=2) if one.loaded else one for one in planned.allocations)
    refuse(replace(planned, allocations=longer), "%b rewrites a copy of %x that is still needed", made, program)


# Inside.


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        ("b", {"home": "output y"}, "%b is inside %c, which is elsewhere or not there in time"),
        ("a", {"offset": the("a").offset + 1024}, "%a is inside %c and reaches out of it"),
        ("a", {"offset": the("a").offset + 16}, "%a is not where %c would put it inside %c"),
        ("b", {"offset": the("a").offset}, "%b is not where %c would put it inside %c"),
        ("r", {"offset": the("r").offset + 16}, "%r is not where %p would put it inside %p"),
    ],
)
def test_folds(value: str, changes: dict[str, object], message: str) -> None:
    refuse(changed(value, **changes), message)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ("a", {"layer": "v"}),
        ("b", {"layer": "p"}),
        ("r", {"layer": "c"}),
        ("v", {"layer": "t"}),
    ],
)
def test_folds_of_the_wrong_layer(value: str, changes: dict[str, str]) -> None:
    folds = tuple(replace(fold, **changes) if fold.value == value else fold for fold in PLAN.folds)
    refuse(replace(PLAN, folds=folds), f"%{value} is not where %{changes['layer']} would put it")


def test_folds_that_nobody_explains() -> None:
    refuse(replace(PLAN, folds=PLAN.folds[1:]), f"%{PLAN.folds[0].value} is inside %c, and no layer says why")


# Windows.


def test_a_window_past_the_end() -> None:
    first, *others = PLAN.windows
    broken = replace(PLAN, windows=(replace(first, offset=2097152 - 16), *others))
    refuse(broken, f"a window of %{first.layer} is not on chip")


def test_a_window_in_another_step() -> None:
    first, *others = PLAN.windows
    refuse(replace(PLAN, windows=(replace(first, step=1), *others)), f"a window of %{first.layer} is in another step")


@pytest.mark.parametrize(("operand", "name"), [("result", "e"), ("y", "s")])
def test_a_stream_without_a_window(operand: str, name: str) -> None:
    layer = {"result": "e", "y": "k"}[operand]
    without = tuple(one for one in PLAN.windows if (one.layer, one.operand) != (layer, operand))
    assert len(without) == len(PLAN.windows) - 1
    refuse(replace(PLAN, windows=without), f"%{name} streams while %{layer} runs, without a window")


# Overlap.


def test_two_buffers_that_are_live_at_once() -> None:
    refuse(changed("t", offset=the("c").offset), "%t and %c overlap in chip|%c and %t overlap in chip")


def test_a_window_over_a_buffer() -> None:
    window = PLAN.windows[-1]
    live = [one for one in PLAN.allocations if one.memory is Memory.L2 and one.first <= window.step <= one.last]
    moved = replace(window, offset=live[-1].offset)
    refuse(replace(PLAN, windows=(*PLAN.windows[:-1], moved)), "overlap in chip")


def test_buffers_that_follow_each_other_may_share() -> None:
    program = parse_program("""program for h13 {
  input "x" = %x : fp16[8, 32]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[32, 8]
  %b = TE anec.transpose(x = %a) {perm = [1, 0]} : fp16[8, 32]
  %c = TE anec.transpose(x = %b) {perm = [1, 0]} : fp16[32, 8]
  %d = TE anec.transpose(x = %c) {perm = [1, 0]} : fp16[8, 32]
  output "y" = %d
}
""")
    made = schedule(program)
    planned = plan(program, made)
    assert planned.by_value["a"].offset == planned.by_value["c"].offset
    overlapping = tuple(
        replace(one, offset=planned.by_value["a"].offset) if one.value == "b" else one for one in planned.allocations
    )
    refuse(replace(planned, allocations=overlapping), "%b and %a overlap in chip", made, program)


# Timeline.


def test_a_peak_that_is_none() -> None:
    refuse(replace(PLAN, peak=PLAN.peak + 1), "the peak is not that of the timeline")


def test_a_timeline_that_does_not_add_up() -> None:
    refuse(replace(PLAN, timeline=(Moment(0, 1, 1), *PLAN.timeline[1:])), "the timeline is wrong at step 0")


# Co-issue.


def test_a_pair_that_both_writes_to_dram() -> None:
    program = parse_program("""program for h13 {
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %b = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  output "y" = %a
  output "z" = %b
}
""")
    made = schedule(program)
    pair = replace(made, coissued=(Pair("a", "b"),), steps=(("a", "b"),))
    planned = plan(program, made)
    together = tuple(replace(one, first=0, last=0) for one in planned.allocations)
    windows = tuple(replace(window, step=0) for window in planned.windows)
    broken = replace(planned, allocations=together, windows=windows)
    refuse(broken, "%a and %b run together and both write to DRAM", pair, program)

"""Task partitions: where they close, what goes to DRAM then, and what is brought on chip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.schedule.rules import Rules, entries, rules
from aneforge.compiler.schedule.schedule import Schedule, schedule
from aneforge.compiler.schedule.verifier import verify_schedule
from aneforge.errors import DataFileError, GraphError, NoDataError
from aneforge.evidence import EvidenceKind
from aneforge.targets import database
from aneforge.targets.properties import Properties
from aneforge.testing.programs import DrawnProgram, programs

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

RULES = rules()
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
BYTES = 2097152


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


def limited(working_set: int) -> Rules:
    """Return rules under which the working set is so many bytes."""
    return replace(RULES, working_set_margin=(working_set + 0.5) / BYTES, stream_share=0.125)


CHAIN = """
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[512, 64]
  %b = PE anec.softmax(x = %a) {axis = 0} : fp16[512, 64]
  %c = TE anec.transpose(x = %b) {perm = [1, 0]} : fp16[64, 512]
  %d = PE anec.softmax(x = %c) {axis = 0} : fp16[64, 512]
  %e = TE anec.transpose(x = %d) {perm = [1, 0]} : fp16[512, 64]
  output "y" = %e"""
"""Every tensor takes 65,536 bytes; two are live at a time."""


def on_chip(made: Schedule) -> dict[str, tuple[int, int]]:
    return {one.value: (one.offset, one.size) for one in made.residents if not one.loaded}


def test_what_fits_is_one_partition() -> None:
    made = schedule(read(CHAIN), limited(2 * 65536))
    assert [(one.layers, one.peak_bytes, one.closed_by) for one in made.partitions] == [
        (("a", "b", "c", "d", "e"), 131072, "")
    ]
    assert on_chip(made) == {"a": (0, 65536), "b": (65536, 65536), "c": (0, 65536), "d": (65536, 65536)}


def test_one_byte_less_closes_partitions() -> None:
    made = schedule(read(CHAIN), limited(2 * 65536 - 1))
    assert [(one.layers, one.peak_bytes, one.closed_by, one.wanted_bytes) for one in made.partitions] == [
        (("a",), 65536, "b", 131072),
        (("b",), 65536, "c", 131072),
        (("c",), 65536, "d", 131072),
        (("d", "e"), 65536, "", 0),
    ]
    # What lives across an end is in DRAM; the last layer's result leaves the program anyway.
    assert on_chip(made) == {"d": (0, 65536)}


def test_a_tensor_that_never_fits_streams_and_closes_nothing() -> None:
    made = schedule(read(CHAIN), limited(65535))
    assert [one.closed_by for one in made.partitions] == [""]
    assert on_chip(made) == {}


def test_a_layer_of_several_results_keeps_those_that_fit() -> None:
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %v, %i = PE anec.top_k(x = %x) {k = 512, axis = 1} : fp16[64, 512], int32[64, 512]
  segment 1:
  %a = PE anec.softmax(x = %v) {axis = 0} : fp16[64, 512]
  output "y" = %a""")
    made = schedule(program, limited(65536 * 2))
    assert [(one.segment, one.layers) for one in made.partitions] == [(0, ("v",)), (1, ("a",))]
    # The indices take 131,072 bytes: they fit alone, and nobody reads them.
    assert on_chip(made) == {"i": (0, 131072)}
    assert on_chip(schedule(program, limited(131071))) == {}


def test_several_results_that_do_not_fit_together() -> None:
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %v, %i = PE anec.top_k(x = %x) {k = 512, axis = 1} : fp16[64, 512], int32[64, 512]
  output "y" = %x""")
    made = schedule(program, limited(131072))
    assert on_chip(made) == {"v": (0, 65536)}
    assert len(made.partitions) == 1


def test_no_gap_closes_a_partition_too() -> None:
    # %a ends before %d and %b after it stays: the gaps are large enough together, and neither is alone.
    program = read("""
  input "x" = %x : fp16[400, 512]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[400, 512]
  %b = DMA anec.slice(input = %a) {begin = [0, 0], size = [200, 512]} : fp16[200, 512]
  %d = DMA anec.tile(x = %b) {reps = [3, 1]} : fp16[600, 512]
  %e = PE anec.reduce_sum(x = %d) {axes = [0], keep_dims = true} : fp16[1, 512]
  %f = PE anec.add(x = %b, y = %e) : fp16[200, 512]
  output "y" = %f""")
    halves = replace(RULES, working_set_margin=0.5, stream_share=0.5)
    made = schedule(program, halves)
    assert "closed by %d: no gap that is large enough" in str(made)
    first, second = made.partitions
    assert (first.layers, first.closed_by, first.wanted_bytes) == (("a", "b"), "d", 204800 + 614400)
    assert first.wanted_bytes <= BYTES // 2
    assert second.layers == ("d", "e", "f")


def test_several_results_that_find_no_gap_together() -> None:
    # As above: the first result finds a gap, the second does not, and the first gives its gap back.
    program = read("""
  input "x" = %x : fp16[400, 512]
  input "u" = %u : fp16[220, 512]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[400, 512]
  %b = DMA anec.slice(input = %a) {begin = [0, 0], size = [200, 512]} : fp16[200, 512]
  %v, %i = PE anec.top_k(x = %u) {k = 512, axis = 1} : fp16[220, 512], int32[220, 512]
  %e = PE anec.reduce_sum(x = %v) {axes = [0], keep_dims = true} : fp16[1, 512]
  %f = PE anec.add(x = %b, y = %e) : fp16[200, 512]
  output "y" = %f""")
    first, second = schedule(program, replace(RULES, working_set_margin=0.5, stream_share=0.5)).partitions
    assert (first.closed_by, first.wanted_bytes) == ("v", 204800 + 225280 + 450560)
    assert second.layers == ("v", "e", "f")


def test_an_operand_with_two_readers_is_brought_on_chip_once() -> None:
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[64, 512]
  %b = PE anec.softmax(x = %x) {axis = 1} : fp16[64, 512]
  %c = PE anec.add(x = %a, y = %b) : fp16[64, 512]
  output "y" = %c""")
    (load,) = [one for one in schedule(program).residents if one.loaded]
    assert (load.value, load.first, load.last, load.size) == ("x", 0, 1, 65536)
    never = replace(RULES, readers_for_loading=3)
    assert [one for one in schedule(program, never).residents if one.loaded] == []


def test_a_copy_gives_way_to_results() -> None:
    # There is room for three tensors. The copy of %x would serve %a and %d; %b and %c push it out in between.
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[64, 512]
  %b = TE anec.transpose(x = %a) {perm = [1, 0]} : fp16[512, 64]
  %c = NE anec.matmul(lhs = %a, rhs = %b) : fp16[64, 64]
  %d = PE anec.mult(x = %x, y = %a) : fp16[64, 512]
  %e = NE anec.matmul(lhs = %c, rhs = %d) : fp16[64, 512]
  output "y" = %e""")
    roomy = schedule(program)
    assert [one.value for one in roomy.residents if one.loaded] == ["x"]
    tight = schedule(program, limited(150000))
    assert [one.value for one in tight.residents if one.loaded] == []
    assert len(tight.partitions) == 1


def test_a_copy_that_served_two_before_it_gave_way_is_kept_for_those() -> None:
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = PE anec.reduce_sum(x = %x) {axes = [1], keep_dims = true} : fp16[64, 1]
  %b = PE anec.reduce_max(x = %x) {axes = [1], keep_dims = true} : fp16[64, 1]
  %c = PE anec.add(x = %a, y = %b) : fp16[64, 1]
  %d = DMA anec.tile(x = %c) {reps = [1, 512]} : fp16[64, 512]
  %e = PE anec.softmax(x = %d) {axis = 0} : fp16[64, 512]
  %f = PE anec.add(x = %e, y = %x) : fp16[64, 512]
  output "y" = %f""")
    made = schedule(program, limited(3 * 65536 - 1))
    (load,) = [one for one in made.residents if one.loaded]
    assert made.order == ("a", "b", "c", "d", "e", "f")
    assert (load.first, load.last) == (0, 1)


def test_nothing_stays_on_chip_between_segments() -> None:
    program = read("""
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[64, 512]
  segment 1:
  %s = PE anec.sort(x = %a) {axis = -1} : fp16[64, 512]
  segment 2:
  %b = PE anec.softmax(x = %s) {axis = 0} : fp16[64, 512]
  %c = PE anec.add(x = %a, y = %b) : fp16[64, 512]
  output "y" = %c""")
    made = schedule(program)
    assert [(one.number, one.segment, one.layers) for one in made.partitions] == [
        (0, 0, ("a",)),
        (1, 1, ("s",)),
        (2, 2, ("b", "c")),
    ]
    assert list(on_chip(made)) == ["b"]


def test_a_program_without_layers() -> None:
    made = schedule(
        read("""
  input "x" = %x : fp16[4]
  output "y" = %x""")
    )
    assert (made.order, made.partitions, made.residents) == ((), (), ())


def test_a_target_whose_memory_nobody_knows() -> None:
    program = read(CHAIN)
    target = program.target
    without = {name: known for name, known in target.hal.table.items() if name != "max_operand_bytes"}
    unknown = {**without, "max_operand_bytes": replace(target.hal.table["max_operand_bytes"], facts={})}
    hal = Properties(target.hal.group, target.hal.target, target.hal.tier, unknown, target.hal.aliases)
    with pytest.raises(NoDataError, match="HAL field 'max_operand_bytes' is unknown here"):
        schedule(replace(program, target=replace(target, hal=hal)))


# The data file.


def test_every_rule_has_a_reason_and_says_how_it_is_known() -> None:
    decoded = {name for name, entry in entries().items() if entry.evidence().kind is EvidenceKind.DECODED}
    assert decoded == {"buffers_per_chain", "planar_tile_rows", "ring_kinds"}
    assert all(len(entry.reason) > 20 and entry.summary for entry in entries().values())


@pytest.mark.parametrize(("margin", "share"), [(1.0, 0.1), (0.0, 0.1), (0.75, 0.3), (0.75, 0.0)])
def test_shares_that_are_none_of_one_memory(margin: float, share: float) -> None:
    with pytest.raises(DataFileError, match="must be shares of one memory"):
        replace(RULES, working_set_margin=margin, stream_share=share)


def test_counts_begin_at_one() -> None:
    with pytest.raises(DataFileError, match="count from 1"):
        replace(RULES, buffers_per_chain=0)


# Any program.


@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(programs(most=30))
def test_every_partition_keeps_its_budget_and_schedules_are_alike(drawn: DrawnProgram) -> None:
    program = drawn.program
    for chosen in (RULES, limited(400_000), limited(60_000)):
        made = schedule(program, chosen)
        assert all(one.peak_bytes <= made.working_set_limit for one in made.partitions)
        assert made == schedule(program, chosen)
        assert all(one.size <= made.working_set_limit for one in made.residents)


def test_every_target_with_data_has_what_scheduling_asks_for() -> None:
    limits = {
        name: schedule(replace(read(CHAIN), target=target)).working_set_limit
        for name, target in database().targets.items()
        if target.has_data
    }
    assert {name for name, limit in limits.items() if limit != BYTES * 3 // 4} == {"m9"}
    assert limits["m9"] == BYTES * 3 // 8


# Broken schedules.


def broken(**changes: object) -> tuple[Program, Schedule]:
    program = read(CHAIN)
    made = schedule(program, limited(2 * 65536 - 1))
    return program, replace(made, **changes)


def test_a_schedule_that_forgets_a_layer() -> None:
    program, made = broken(steps=(("a",), ("b",), ("c",), ("d",)))
    with pytest.raises(GraphError, match=r"does not have every layer once \(got e\)"):
        verify_schedule(program, made)


def test_a_schedule_that_has_a_layer_twice() -> None:
    program, made = broken(steps=(("a",), ("b",), ("c",), ("d",), ("e",), ("e",)))
    with pytest.raises(GraphError, match="a layer that is scheduled twice"):
        verify_schedule(program, made)


def test_a_schedule_that_runs_a_layer_too_early() -> None:
    program, made = broken(steps=(("b",), ("a",), ("c",), ("d",), ("e",)))
    with pytest.raises(GraphError, match="%b runs before %a, which it needs"):
        verify_schedule(program, made)


def test_partitions_that_are_not_the_order() -> None:
    program, made = broken()
    with pytest.raises(GraphError, match="the partitions are not the order"):
        verify_schedule(program, replace(made, partitions=made.partitions[1:]))


def test_a_partition_of_another_segment() -> None:
    program, made = broken()
    first, *others = made.partitions
    with pytest.raises(GraphError, match="partition 0 is of several segments"):
        verify_schedule(program, replace(made, partitions=(replace(first, segment=1), *others)))


def test_a_partition_past_its_budget() -> None:
    program, made = broken(working_set_limit=1000)
    with pytest.raises(GraphError, match=r"working set of partition 0 is too large \(got 65536, limit 1000\)"):
        verify_schedule(program, made)


def test_a_step_of_two_partitions() -> None:
    program, made = broken(steps=(("a", "b"), ("c",), ("d",), ("e",)))
    with pytest.raises(GraphError, match="%a runs with a layer of another partition"):
        verify_schedule(program, made)

"""Co-issue: the pair that the guide names, and every reason that disqualifies one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.program import Port, Program
from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.chaining import Chaining
from aneforge.compiler.schedule.coissue import CoissueVerdict, Discovery, Disqualifier
from aneforge.compiler.schedule.explain import explain_coissue
from aneforge.compiler.schedule.flow import flow_of
from aneforge.compiler.schedule.rules import Rules, rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.errors import UnknownNameError
from aneforge.ops.constant import Dense
from aneforge.ops.types import TensorType
from aneforge.targets import resolve

RULES = rules()


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


ATTENTION = """
  input "x" = %x : fp16[64, 64]
  input "wq" = %wq : fp16[64, 64]
  input "wv" = %wv : fp16[64, 64]
  segment 0:
  %n = PE anec.layer_norm(x = %x) {axes = [-1]} : fp16[64, 64]
  %q = NE anec.matmul(lhs = %n, rhs = %wq) : fp16[64, 64]
  %s = NE anec.matmul(lhs = %q, rhs = %n) {transpose_rhs = true} : fp16[64, 64]
  %p = PE anec.softmax(x = %s) {axis = -1} : fp16[64, 64]
  %v = NE anec.matmul(lhs = %n, rhs = %wv) : fp16[64, 64]
  %y = NE anec.matmul(lhs = %p, rhs = %v) : fp16[64, 64]
  output "y" = %y"""


def verdict(program: Program, first: str, second: str, with_rules: Rules = RULES) -> CoissueVerdict:
    found = [
        one for one in schedule(program, with_rules).coissue_verdicts if (one.first, one.second) == (first, second)
    ]
    assert len(found) == 1, schedule(program, with_rules).coissue_verdicts
    return found[0]


def test_a_softmax_runs_with_the_product_that_makes_the_values() -> None:
    made = schedule(read(ATTENTION))
    assert [(pair.first, pair.second) for pair in made.coissued] == [("p", "v")]
    assert ("p", "v") in made.steps
    found = verdict(read(ATTENTION), "p", "v")
    assert str(found) == "%p and %v: co-issued"
    assert explain_coissue(read(ATTENTION), made, "v", "p") == found


def test_neither_of_a_pair_is_chained() -> None:
    made = schedule(read(ATTENTION))
    chained = {name for pair in made.chained for name in (pair.first, pair.second)}
    assert chained.isdisjoint({"p", "v"})


def test_movements_between_the_two_run_before_both_or_behind_both() -> None:
    # %r moves what the softmax makes; %k and %t need nothing of it.
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %q = NE anec.matmul(lhs = %x, rhs = %u) : fp16[64, 64]
  %p = PE anec.softmax(x = %q) {axis = -1} : fp16[64, 64]
  %r = TE anec.transpose(x = %p) {perm = [1, 0]} : fp16[64, 64]
  %k = TE anec.transpose(x = %u) {perm = [1, 0]} : fp16[64, 64]
  %t = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[64, 64]
  %v = NE anec.matmul(lhs = %k, rhs = %t) : fp16[64, 64]
  %y = NE anec.matmul(lhs = %r, rhs = %v) : fp16[64, 64]
  output "y" = %y""")
    assert schedule(program).steps == (("q",), ("k",), ("t",), ("p", "v"), ("r",), ("y",))


# The guide's reasons.


def test_a_layer_that_is_not_scheduled_there() -> None:
    program = read("""
  input "x" = %x : fp16[4, 8]
  segment 0:
  %p = NE anec.relu(x = %x) : fp16[4, 8]
  segment 1:
  %s = PE anec.sort(x = %x) {axis = -1} : fp16[4, 8]
  output "y" = %s
  output "z" = %p""")
    found = explain_coissue(program, schedule(program), "p", "s")
    assert str(found) == "%p and %s: not co-issued, unscheduled: %s is not scheduled in the segment of %p"


def test_a_layer_that_is_not_scheduled_yet() -> None:
    program = read(PAIR)
    flow = flow_of(program, program.segments[0])
    early = Discovery(flow, Chaining(flow, on_chip(program.target, RULES), RULES), [0], frozenset())
    assert early.disqualified(0, 1) == (Disqualifier.UNSCHEDULED, "%b is not scheduled")


@pytest.mark.parametrize("engine", ["NE", "PE"])
def test_two_layers_of_one_class(engine: str) -> None:
    program = read(f"""
  input "x" = %x : fp16[4, 8]
  segment 0:
  %a = {engine} anec.relu(x = %x) : fp16[4, 8]
  %b = {engine} anec.tanh(x = %x) : fp16[4, 8]
  output "y" = %a
  output "z" = %b""")
    found = explain_coissue(program, schedule(program), "a", "b")
    assert (found.disqualified, found.detail) == (Disqualifier.SAME_CLASS, f"{engine} and {engine}")


def test_a_movement_is_no_layer_of_either_class() -> None:
    program = read("""
  input "x" = %x : fp16[4, 8]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[4, 8]
  %b = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[8, 4]
  output "y" = %a
  output "z" = %b""")
    assert explain_coissue(program, schedule(program), "a", "b").detail == "NE and TE"


PAIR = """
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %b = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  %r = TE anec.transpose(x = %a) {perm = [1, 0]} : fp16[64, 64]
  %c = PE anec.add(x = %r, y = %b) : fp16[64, 64]
  output "y" = %c"""


def test_two_engines_of_one_chip() -> None:
    assert verdict(read(PAIR), "a", "b").disqualified is None
    moved = PAIR.replace("  %r =", "    chosen: {engine_number = 1}\n  %r =")
    assert str(verdict(read(moved), "a", "b")) == ("%a and %b: not co-issued, different engines: engine 0 and engine 1")


def test_a_producer_and_its_consumer() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %r = TE anec.transpose(x = %a) {perm = [1, 0]} : fp16[64, 64]
  %b = PE anec.softmax(x = %r) {axis = -1} : fp16[64, 64]
  %c = NE anec.tanh(x = %b) : fp16[64, 64]
  output "y" = %c""")
    found = verdict(program, "a", "b")
    assert (found.disqualified, found.detail) == (Disqualifier.DEPENDENT, "%b needs %a through %r")
    assert verdict(program, "b", "c").detail == "%c needs %b"


def test_an_input_that_is_chained() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %i = PE anec.exp(x = %x) : fp16[64, 64]
  %a = PE anec.softmax(x = %i) {axis = -1} : fp16[64, 64]
  %b = NE anec.relu(x = %u) : fp16[64, 64]
  %c = NE anec.matmul(lhs = %a, rhs = %b) : fp16[64, 64]
  output "y" = %c""")
    found = verdict(program, "a", "b")
    assert (found.disqualified, found.detail) == (Disqualifier.CHAINED_INPUT, "%i is chained into %a")


def test_an_input_that_could_be_chained() -> None:
    # %i and %a are not neighbours, so they are not chained; alone, they would be.
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %i = PE anec.exp(x = %x) : fp16[64, 64]
  %k = PE anec.tanh(x = %u) : fp16[64, 64]
  %a = PE anec.sub(x = %i, y = %k) : fp16[64, 64]
  %b = NE anec.relu(x = %u) : fp16[64, 64]
  %c = NE anec.matmul(lhs = %a, rhs = %b) : fp16[64, 64]
  output "y" = %c""")
    made = schedule(program)
    assert made.order[:3] == ("i", "k", "a")
    found = verdict(program, "a", "b")
    assert (found.disqualified, found.detail) == (Disqualifier.CHAINED_INPUT, "%i could be chained into %a")


def test_two_outputs_that_stream() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %b = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  output "y" = %a
  output "z" = %b""")
    assert str(verdict(program, "a", "b")) == "%a and %b: not co-issued, both stream: %a goes to DRAM, %b goes to DRAM"


def weighted(columns: int) -> Program:
    """Return a product %m with a constant weight of 64 rows, beside a softmax %s whose result leaves the program."""
    x, u = (Value(name, TensorType((1, 64))) for name in "xu")
    weight = Dense(np.zeros((64, columns), np.float16))
    softmax = new_layer("softmax", {"x": u}, {"axis": -1}, "s", location=None)
    product = new_layer("matmul", {"lhs": x, "rhs": weight}, None, "m", location=None)
    total = new_layer("reduce_sum", {"x": product.result}, {"axes": (1,), "keep_dims": True}, "t", location=None)
    outputs = (Port("y", total.result), Port("z", softmax.result))
    return Program(resolve("h13"), (Port("x", x), Port("u", u)), (softmax, product, total), outputs)


def test_a_resident_weight_does_not_block_its_partner_and_a_streamed_one_does() -> None:
    resident, streamed = weighted(16384), weighted(16385)
    assert verdict(resident, "s", "m").disqualified is None
    found = verdict(streamed, "s", "m")
    assert found.disqualified is Disqualifier.BOTH_STREAM
    assert found.detail == "%s goes to DRAM, 2097280 bytes of weight stream, 2097152 at most stay on chip"


def test_a_live_weight_from_dram_streams_too() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %s = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  %m = NE anec.matmul(lhs = %x, rhs = %u) : fp16[64, 64]
  %t = PE anec.reduce_sum(x = %m) {axes = [1], keep_dims = true} : fp16[64, 1]
  output "y" = %t
  output "z" = %s""")
    assert verdict(program, "s", "m").detail == "%s goes to DRAM, the weight %x comes from DRAM"


# Those that follow from running in one step.


def test_a_layer_that_runs_with_another_is_not_chained_into_the_next() -> None:
    body = """
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  %b = NE anec.relu(x = %x) : fp16[64, 64]
  %c = NE anec.tanh(x = %b) : fp16[64, 64]
  %d = NE anec.matmul(lhs = %a, rhs = %c) : fp16[64, 64]
  output "y" = %d"""
    made = schedule(read(body))
    assert [(pair.first, pair.second) for pair in made.coissued] == [("a", "b")]
    (found,) = [one for one in made.chain_verdicts if one.first == "b"]
    assert str(found) == "%b and %c: not chained, not co-issued: %b runs with a layer of the other engine"


def test_what_memory_refuses_is_chained_after_all() -> None:
    # Both outputs stream, so the two do not run together, and %b is chained into %c as if nothing had been.
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  %b = NE anec.matmul(lhs = %x, rhs = %u) : fp16[64, 64]
  %c = NE anec.tanh(x = %b) : fp16[64, 64]
  output "y" = %a
  output "z" = %c""")
    made = schedule(program)
    assert [one.disqualified for one in made.coissue_verdicts] == [Disqualifier.BOTH_STREAM]
    assert [(pair.first, pair.second) for pair in made.chained] == [("b", "c")]


def test_a_layer_that_has_a_partner() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  input "v" = %v : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %b = PE anec.softmax(x = %u) {axis = -1} : fp16[64, 64]
  %c = NE anec.tanh(x = %v) : fp16[64, 64]
  %d = DMA anec.concat(values = [%a, %b, %c]) {axis = 0} : fp16[192, 64]
  %e = TE anec.transpose(x = %d) {perm = [1, 0]} : fp16[64, 192]
  output "y" = %e""")
    assert verdict(program, "a", "b").disqualified is None
    found = verdict(program, "b", "c")
    assert (found.disqualified, found.detail) == (Disqualifier.TAKEN, "%b runs with another layer")


def heads(count: int) -> Program:
    """Return attention of independent heads, one after the other."""
    lines = [f'  input "{name}{head}" = %{name}{head} : fp16[64, 64]' for head in range(count) for name in "qkv"]
    lines.append("  segment 0:")
    for head in range(count):
        lines += [
            f"  %s{head} = NE anec.matmul(lhs = %q{head}, rhs = %k{head}) {{transpose_rhs = true}} : fp16[64, 64]",
            f"  %p{head} = PE anec.softmax(x = %s{head}) {{axis = -1}} : fp16[64, 64]",
            f"  %y{head} = NE anec.matmul(lhs = %p{head}, rhs = %v{head}) : fp16[64, 64]",
        ]
    return read("\n".join([*lines, *(f'  output "y{head}" = %y{head}' for head in range(count))]))


def test_the_softmax_of_one_head_runs_with_a_product_of_another() -> None:
    made = schedule(heads(4))
    pairs = [(pair.first, pair.second) for pair in made.coissued]
    assert len(pairs) == 4
    assert all(first[0] + second[0] in {"ps", "sp", "py", "yp"} for first, second in pairs)
    assert all(first[1:] != second[1:] for first, second in pairs)
    plan(heads(4), made)  # which verifies that nothing is read before it is written


def test_layers_with_others_between_them() -> None:
    program = read("""
  input "x" = %x : fp16[64, 64]
  input "u" = %u : fp16[64, 64]
  segment 0:
  %a = NE anec.relu(x = %x) : fp16[64, 64]
  %b = NE anec.tanh(x = %x) : fp16[64, 64]
  %c = PE anec.softmax(x = %b) {axis = -1} : fp16[64, 64]
  output "y" = %a
  output "z" = %b
  output "w" = %c""")
    found = explain_coissue(program, schedule(program), "c", "a")
    assert str(found) == "%c and %a: not co-issued, apart: 1 layers run between them"
    with pytest.raises(UnknownNameError, match="unknown layer 'd'"):
        explain_coissue(program, schedule(program), "a", "d")


SIZED = PAIR.replace("fp16[64, 64]", "fp16[512, 512]")


def test_two_layers_that_need_too_much_at_the_same_time() -> None:
    # %k ends with %a; in one step it is there beside the result of %b.
    program = read("""
  input "x" = %x : fp16[256, 512]
  input "u" = %u : fp16[256, 512]
  input "w" = %w : fp16[256, 64]
  segment 0:
  %k = TE anec.transpose(x = %x) {perm = [1, 0]} : fp16[512, 256]
  %a = NE anec.matmul(lhs = %k, rhs = %w) : fp16[512, 64]
  %b = PE anec.softmax(x = %u) {axis = -1} : fp16[256, 512]
  %y = NE anec.matmul(lhs = %b, rhs = %a) : fp16[256, 64]
  output "y" = %y""")
    assert verdict(program, "a", "b").disqualified is None
    tight = replace(RULES, working_set_margin=0.2)
    found = verdict(program, "a", "b", tight)
    assert (found.disqualified, found.detail) == (
        Disqualifier.WORKING_SET,
        "together they need more than 419430 bytes",
    )
    made = schedule(program, tight)
    assert len(made.partitions) == 1, "one after the other they fit"
    plan(program, made, tight)


def test_a_partition_that_ends_between_them() -> None:
    program = read(SIZED)
    tight = replace(RULES, working_set_margin=0.26)
    found = verdict(program, "a", "b", tight)
    assert (found.disqualified, found.detail) == (Disqualifier.PARTITION, "a partition ends between them")

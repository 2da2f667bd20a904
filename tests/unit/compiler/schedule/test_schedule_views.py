"""Text and JSON of schedules and plans, and schedules with broken pairs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.lower.lower import lower
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.print_plan import plan_from_json, plan_json, plan_text
from aneforge.compiler.schedule.print_schedule import schedule_from_json, schedule_json, schedule_text
from aneforge.compiler.schedule.rules import rules
from aneforge.compiler.schedule.schedule import Pair, Schedule, schedule
from aneforge.compiler.schedule.verifier import verify_schedule
from aneforge.errors import GraphError
from aneforge.targets import resolve

if TYPE_CHECKING:
    from golden_text import Golden

PROGRAM = parse_program("""program for h13 {
  input "x" = %x : fp16[64, 64]
  input "wq" = %wq : fp16[64, 64]
  input "wv" = %wv : fp16[64, 64]
  state "cache" = %cache : fp16[64, 64]
  segment 0:
  %n = PE anec.layer_norm(x = %x) {axes = [-1]} : fp16[64, 64]
  %q = NE anec.matmul(lhs = %n, rhs = %wq) : fp16[64, 64]
  %s = NE anec.matmul(lhs = %q, rhs = %n) {transpose_rhs = true} : fp16[64, 64]
  %p = PE anec.softmax(x = %s) {axis = -1} : fp16[64, 64]
  %v = NE anec.matmul(lhs = %n, rhs = %wv) : fp16[64, 64]
  %k = PE anec.add(x = %cache, y = %v) : fp16[64, 64]
  %o = NE anec.matmul(lhs = %p, rhs = %k) : fp16[64, 64]
  %r = DMA anec.reshape(x = %o) {shape = [1, 64, 64]} : fp16[1, 64, 64]
  %e = PE anec.exp(x = %r) : fp16[1, 64, 64]
  %f = PE anec.tanh(x = %e) : fp16[1, 64, 64]
  %c = DMA anec.concat(values = [%f, %e]) {axis = 2} : fp16[1, 64, 128]
  segment 1:
  %z = PE anec.sort(x = %c) {axis = -1} : fp16[1, 64, 128]
  output "y" = %z
  write "cache" = %k
}
""")


def test_a_schedule_in_text(golden: Golden) -> None:
    golden(schedule_text(schedule(PROGRAM)))


def test_a_plan_in_text(golden: Golden) -> None:
    made = schedule(PROGRAM)
    assert plan_text(plan(PROGRAM, made)).startswith(str(plan(PROGRAM, made)).rpartition("\n")[0])
    golden(plan_text(plan(PROGRAM, made)))


def test_a_tight_plan_in_text(golden: Golden) -> None:
    tight = replace(rules(), working_set_margin=0.0065, stream_share=0.005)
    made = schedule(PROGRAM, tight)
    golden(f"{schedule_text(made)}{plan_text(plan(PROGRAM, made, tight))}")


def test_a_plan_with_weights_in_text(golden: Golden) -> None:
    draw = np.random.default_rng(0)
    wide, deep = (draw.standard_normal(shape).astype(np.float16) for shape in ((24, 8, 1, 1), (600, 24, 9, 9)))
    x = af.input((1, 8, 200, 300), name="image")
    y = af.conv(af.conv(x, wide).relu(), deep, stride=64)
    program = lower(af.Graph({"y": y.reshape(1, 600, -1)}), resolve("h13"))
    golden(plan_text(plan(program, schedule(program))))


def test_json_reads_back() -> None:
    made = schedule(PROGRAM)
    planned = plan(PROGRAM, made)
    assert made.order
    assert planned.by_value
    assert schedule_from_json(schedule_json(made)) == made
    assert plan_from_json(plan_json(planned)) == planned
    assert '"by_value"' not in plan_json(planned)


HASHED = """
import sys
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.memory.print_plan import plan_json
from aneforge.compiler.schedule.print_schedule import schedule_json
from aneforge.compiler.schedule.schedule import schedule
program = parse_program(sys.stdin.read())
made = schedule(program)
print(schedule_json(made), plan_json(plan(program, made)))
"""


def test_no_order_depends_on_hashes(clean_environment: dict[str, str]) -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", HASHED],
            input=str(PROGRAM),
            env=clean_environment | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"target": 1}', "{" * 2000])
def test_text_that_is_none(text: str) -> None:
    with pytest.raises(GraphError, match="this is not a schedule"):
        schedule_from_json(text)
    with pytest.raises(GraphError, match="this is not a memory plan"):
        plan_from_json(text)


# Broken pairs.

WHOLE = schedule(PROGRAM)


def refuse(broken: Schedule, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify_schedule(PROGRAM, broken)


def test_the_schedule_that_is_broken_below_is_whole() -> None:
    assert WHOLE.coissued == (Pair("p", "v"),)
    assert WHOLE.chained == ()
    assert WHOLE.order == ("n", "q", "s", "p", "v", "k", "o", "r", "e", "f", "c", "z")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chained": (Pair("n", "s"),)}, "%n and %s are a pair and do not follow each other"),
        ({"chained": (Pair("c", "z"),)}, "%c and %z are a pair and in two partitions"),
        ({"coissued": (Pair("q", "s"),)}, "%q and %s run together and are not layers of two engines"),
        ({"coissued": (Pair("n", "q"),)}, "%n and %q run together and one needs the other"),
        ({"chained": (Pair("v", "k"),)}, "%v is chained or runs together with two layers"),
        ({"coissued": (Pair("p", "v"), Pair("p", "v"))}, "%p is chained or runs together with two layers"),
        (
            {"steps": tuple((name,) for name in WHOLE.order)},
            "%p and %v run together and not in one step",
        ),
    ],
)
def test_broken_pairs(changes: dict[str, object], message: str) -> None:
    refuse(replace(WHOLE, **changes), message)  # pyright: ignore[reportArgumentType] - as the table says

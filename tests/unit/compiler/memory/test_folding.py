"""Tensors that lie inside others: views, parts of concats, the inside of padding; and why some do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.program import Port, Program
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.rules import Rules, rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.ops.constant import Dense
from aneforge.ops.types import TensorType
from aneforge.targets import resolve

if TYPE_CHECKING:
    from aneforge.compiler.memory.plan import MemoryPlan

RULES = rules()


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


def planned(body: str, with_rules: Rules = RULES) -> MemoryPlan:
    program = read(body)
    return plan(program, schedule(program, with_rules), with_rules)


def inside(made: MemoryPlan) -> dict[str, tuple[str, int]]:
    """Return what lies inside what, and how many bytes after its begin."""
    return {
        one.value: (one.root, one.offset - made.by_value[one.root].offset)
        for one in made.allocations
        if one.root != one.value
    }


def refused(made: MemoryPlan) -> list[tuple[str, str]]:
    return [(one.value, one.reason) for one in made.refused_folds]


def test_a_reshape_that_moves_nothing_has_no_task() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 64]
  %b = DMA anec.reshape(x = %a) {shape = [1, 4, 8, 8]} : fp16[1, 4, 8, 8]
  %c = DMA anec.identity(x = %b) : fp16[1, 4, 8, 8]
  %t = TE anec.transpose(x = %c) {perm = [0, 2, 1, 3]} : fp16[1, 8, 4, 8]
  output "y" = %t""")
    assert inside(made) == {"b": ("a", 0), "c": ("a", 0)}
    assert made.idle == ("b", "c")
    assert [moment.buffers for moment in made.timeline] == [512, 512, 512, 512]


def test_a_reshape_of_rows_with_gaps_copies() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 36]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 36]
  %b = DMA anec.reshape(x = %a) {shape = [1, 4, 6, 6]} : fp16[1, 4, 6, 6]
  %t = TE anec.transpose(x = %b) {perm = [0, 2, 1, 3]} : fp16[1, 6, 4, 6]
  output "y" = %t""")
    assert inside(made) == {}
    assert refused(made) == [("b", "elements are in other places")]
    assert made.idle == ()


def test_rows_of_a_view_are_not_re_strided() -> None:
    body = """
  input "x" = %x : fp16[64, 512]
  segment 0:
  %a = NE anec.matmul(lhs = %x, rhs = %x) {transpose_rhs = true} : fp16[64, 64]
  LAYER
  %t = TE anec.transpose(x = %NAME) {perm = PERM} : RESULT
  output "y" = %t"""
    alone = planned(
        body.replace("  LAYER\n", "").replace("NAME", "a").replace("PERM", "[1, 0]").replace("RESULT", "fp16[64, 64]")
    )
    viewed = planned(
        body.replace("LAYER", "%b = DMA anec.reshape(x = %a) {shape = [1, 64, 64]} : fp16[1, 64, 64]")
        .replace("NAME", "b")
        .replace("PERM", "[0, 2, 1]")
        .replace("RESULT", "fp16[1, 64, 64]")
    )
    # 64 rows of 128 bytes: eight of them in each bank, or every one in its own.
    assert (alone.by_value["a"].strides.row, alone.by_value["a"].bank_requests) == (144, (8, 1))
    assert (viewed.by_value["a"].strides.row, viewed.by_value["a"].bank_requests) == (128, (8, 8))


def test_a_view_of_an_input_stays_in_its_buffer() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = DMA anec.reshape(x = %x) {shape = [1, 4, 8, 8]} : fp16[1, 4, 8, 8]
  %t = TE anec.transpose(x = %a) {perm = [0, 2, 1, 3]} : fp16[1, 8, 4, 8]
  output "y" = %t""")
    # In DRAM rows of 16 bytes stand 64 apart, so this one has to be copied; on chip it would not.
    assert refused(made) == [("a", "elements are in other places")]
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = DMA anec.reshape(x = %x) {shape = [1, 4, 1, 64]} : fp16[1, 4, 1, 64]
  %t = TE anec.transpose(x = %a) {perm = [0, 2, 1, 3]} : fp16[1, 1, 4, 64]
  output "y" = %t""")
    assert inside(made) == {"a": ("x", 0)}
    assert made.by_value["a"].home == "input x"


def test_what_becomes_an_output_is_written_there_at_once() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 64]
  %b = DMA anec.reshape(x = %a) {shape = [1, 4, 64]} : fp16[1, 4, 64]
  output "y" = %b""")
    assert inside(made) == {"a": ("b", 0)}
    assert made.by_value["a"].home == "output y"
    assert made.idle == ("b",)


def test_an_input_that_becomes_an_output_is_copied() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %b = DMA anec.reshape(x = %x) {shape = [1, 4, 64]} : fp16[1, 4, 64]
  output "y" = %b""")
    assert refused(made) == [("x", "it is not written in this segment")]


CONCAT = """
  input "x" = %x : TYPE
  input "u" = %u : TYPE
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : TYPE
  %b = PE anec.softmax(x = %u) {axis = 1} : TYPE
  %c = DMA anec.concat(values = [%a, %b]) {axis = AXIS} : RESULT
  %t = TE anec.transpose(x = %c) {perm = [1, 0]} : FLIPPED
  output "y" = %t"""


def concat(kind: str, axis: int, result: str, flipped: str, with_rules: Rules = RULES) -> MemoryPlan:
    body = CONCAT.replace("TYPE", kind).replace("AXIS", str(axis)).replace("RESULT", result)
    return planned(body.replace("FLIPPED", flipped), with_rules)


def test_parts_along_the_channels_always_lie_in_their_places() -> None:
    made = concat("fp16[4, 20]", 0, "fp16[8, 20]", "fp16[20, 8]")
    assert inside(made) == {"a": ("c", 0), "b": ("c", 4 * 48)}
    assert made.idle == ("c",)


def test_parts_along_the_width_do_where_they_begin_at_a_bank() -> None:
    made = concat("fp16[4, 24]", 1, "fp16[4, 48]", "fp16[48, 4]")
    assert inside(made) == {"a": ("c", 0), "b": ("c", 48)}
    assert made.by_value["a"].strides == made.by_value["c"].strides
    assert made.by_value["b"].size == 3 * 96 + 48


def test_parts_along_the_width_that_begin_inside_a_bank_are_copied() -> None:
    made = concat("fp16[4, 20]", 1, "fp16[4, 40]", "fp16[40, 4]")
    assert inside(made) == {"a": ("c", 0)}
    assert refused(made) == [("b", "it would begin inside a bank")]
    assert made.idle == ()


def test_in_dram_they_must_begin_at_a_line() -> None:
    tight = replace(RULES, working_set_margin=300 / 2097152, stream_share=0.01)
    made = concat("fp16[4, 24]", 1, "fp16[4, 48]", "fp16[48, 4]", tight)
    # 48 bytes are three banks and no line: the concat goes to DRAM as one tensor, and its second part is copied there.
    assert inside(made) == {"a": ("c", 0)}
    assert made.by_value["c"].home == "scratch 0"
    assert made.idle == ()


def test_outputs_have_their_parts_in_dram_too() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 32]
  input "u" = %u : fp16[4, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 32]
  %b = PE anec.softmax(x = %u) {axis = 1} : fp16[4, 32]
  %c = DMA anec.concat(values = [%a, %b]) {axis = 1} : fp16[4, 64]
  output "y" = %c""")
    assert inside(made) == {"a": ("c", 0), "b": ("c", 64)}
    assert made.by_value["b"].home == "output y"


@pytest.mark.parametrize(
    ("layers", "values", "result", "reasons"),
    [
        ("", "[%a, %a]", "fp16[8, 32]", [("a", "it is read twice"), ("a", "it is read twice")]),
        ("", "[%a, %x]", "fp16[8, 32]", [("x", "it is not written in this segment")]),
        (
            "%b = DMA anec.reshape(x = %a) {shape = [4, 32]} : fp16[4, 32]\n  ",
            "[%a, %b]",
            "fp16[8, 32]",
            [
                ("a", "it is already inside another tensor, or contains one"),
                ("b", "it is already inside another tensor, or contains one"),
            ],
        ),
        (
            "%b = DMA anec.concat(values = [%a, %x]) {axis = 0} : fp16[8, 32]\n  ",
            "[%b]",
            "fp16[8, 32]",
            [("x", "it is not written in this segment"), ("b", "it is already inside another tensor, or contains one")],
        ),
        (
            "%b = DMA anec.ring_buffer_writer(buffer = %a, x = %x) {axis = 0} : fp16[4, 32]\n  ",
            "[%a, %b]",
            "fp16[8, 32]",
            [("a", "a ring buffer has its own place"), ("b", "a ring buffer has its own place")],
        ),
    ],
)
def test_why_a_part_is_copied(layers: str, values: str, result: str, reasons: list[tuple[str, str]]) -> None:
    made = planned(f"""
  input "x" = %x : fp16[4, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {{axis = 0}} : fp16[4, 32]
  {layers}%c = DMA anec.concat(values = {values}) {{axis = 0}} : {result}
  %t = TE anec.transpose(x = %c) {{perm = [1, 0]}} : fp16[32, 8]
  output "y" = %t""")
    assert refused(made) == reasons


def test_a_part_that_leaves_is_copied() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 32]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 32]
  %c = DMA anec.concat(values = [%a, %x]) {axis = 0} : fp16[8, 32]
  output "y" = %c
  output "z" = %a""")
    assert refused(made)[0] == ("a", "it leaves the segment")


def test_parts_of_less_than_a_byte_are_copied_along_the_width() -> None:
    made = planned("""
  input "x" = %x : int4[4, 32]
  input "u" = %u : int4[4, 32]
  segment 0:
  %a = DMA anec.reverse(x = %x) {axes = [0]} : int4[4, 32]
  %b = DMA anec.reverse(x = %u) {axes = [0]} : int4[4, 32]
  %c = DMA anec.concat(values = [%a, %b]) {axis = 1} : int4[4, 64]
  %t = TE anec.transpose(x = %c) {perm = [1, 0]} : int4[64, 4]
  output "y" = %t""")
    assert inside(made) == {"a": ("c", 0)}
    assert refused(made) == [("b", "it may begin inside a byte")]


def test_a_part_that_is_viewed_is_not_moved_again() -> None:
    made = planned("""
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 64]
  %c = DMA anec.concat(values = [%a, %x]) {axis = 1} : fp16[4, 128]
  %v = DMA anec.reshape(x = %a) {shape = [1, 4, 64]} : fp16[1, 4, 64]
  %t = TE anec.transpose(x = %c) {perm = [1, 0]} : fp16[128, 4]
  %s = TE anec.transpose(x = %v) {perm = [0, 2, 1]} : fp16[1, 64, 4]
  output "y" = %t
  output "z" = %s""")
    assert inside(made) == {"a": ("c", 0)}
    assert ("v", "its operand is between others") in refused(made)


PAD = """
  input "x" = %x : fp16[1, 2, 4, 16]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 1} : fp16[1, 2, 4, 16]
  %p = DMA anec.padding(x = %a) {pad = PAIRS} : RESULT
  %t = TE anec.transpose(x = %p) {perm = [0, 1, 3, 2]} : FLIPPED
  output "y" = %t"""


def test_what_is_padded_lies_inside_where_it_begins_at_a_bank() -> None:
    body = (
        PAD.replace("PAIRS", "[1, 1, 8, 3]")
        .replace("RESULT", "fp16[1, 2, 6, 27]")
        .replace("FLIPPED", "fp16[1, 2, 27, 6]")
    )
    made = planned(body)
    # One row of 64 bytes, and eight elements.
    assert inside(made) == {"a": ("p", 64 + 16)}
    assert made.idle == (), "the border is still written"


def test_padding_by_one_element_begins_inside_a_bank() -> None:
    body = (
        PAD.replace("PAIRS", "[1, 1, 1, 1]")
        .replace("RESULT", "fp16[1, 2, 6, 18]")
        .replace("FLIPPED", "fp16[1, 2, 18, 6]")
    )
    assert refused(planned(body)) == [("a", "it would begin inside a bank")]


def test_padding_of_an_input_is_copied() -> None:
    made = planned("""
  input "x" = %x : fp16[1, 2, 4, 16]
  segment 0:
  %p = DMA anec.padding(x = %x) {pad = [1, 1, 8, 8]} : fp16[1, 2, 6, 32]
  %t = TE anec.transpose(x = %p) {perm = [0, 1, 3, 2]} : fp16[1, 2, 32, 6]
  output "y" = %t""")
    assert refused(made) == [("x", "it is not written in this segment")]


def test_a_view_that_falls_apart_in_dram() -> None:
    # On chip the reshape is free; when the end of a partition sends it to DRAM, rows of 16 bytes stand 64 apart.
    body = """
  input "x" = %x : fp16[4, 64]
  segment 0:
  %a = PE anec.softmax(x = %x) {axis = 0} : fp16[4, 64]
  %b = DMA anec.reshape(x = %a) {shape = [1, 4, 8, 8]} : fp16[1, 4, 8, 8]
  %c = DMA anec.reshape(x = %b) {shape = [1, 4, 8, 8]} : fp16[1, 4, 8, 8]
  %t = TE anec.transpose(x = %c) {perm = [0, 2, 1, 3]} : fp16[1, 8, 4, 8]
  %s = PE anec.softmax(x = %t) {axis = 1} : fp16[1, 8, 4, 8]
  %y = TE anec.transpose(x = %s) {perm = [0, 2, 1, 3]} : fp16[1, 4, 8, 8]
  output "y" = %y"""
    assert inside(planned(body)) == {"b": ("a", 0), "c": ("a", 0)}
    tight = replace(RULES, working_set_margin=600 / 2097152, stream_share=0.01)
    made = planned(body, tight)
    assert inside(made) == {"c": ("b", 0)}
    assert made.by_value["a"].home == made.by_value["b"].home == "scratch 0"
    assert made.idle == ("c",)


def test_constants_lie_nowhere() -> None:
    x, number = Value("x", TensorType((4, 32))), Dense(np.zeros((4, 32), np.float16))
    layers = [
        new_layer("reshape", {"x": number}, {"shape": (1, 4, 32)}, "r", location=None),
        new_layer("padding", {"x": number}, {"pad": (1, 1), "mode": "constant"}, "p", location=None),
        new_layer("concat", {"values": (number, x)}, {"axis": 0}, "c", location=None),
    ]
    outputs = tuple(Port(layer.name, layer.result) for layer in layers)
    program = Program(resolve("h13"), (Port("x", x),), tuple(layers), outputs)
    made = plan(program, schedule(program))
    assert inside(made) == {}
    assert refused(made) == [("x", "it is not written in this segment")]
    assert made.idle == ()

"""Chaining: a pair that meets every condition, and each condition broken alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.program import Port, Program
from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.schedule.chaining import ChainCondition, ChainVerdict, chaining_enabled, engine_number
from aneforge.compiler.schedule.explain import explain_chaining
from aneforge.compiler.schedule.rules import rules
from aneforge.compiler.schedule.schedule import schedule
from aneforge.compiler.schedule.tiles import RowWindow, row_window, tiling_of
from aneforge.errors import UnknownNameError
from aneforge.evidence import Evidence, EvidenceKind
from aneforge.ops.constant import Dense
from aneforge.ops.types import TensorType
from aneforge.targets import resolve
from aneforge.targets.properties import Fact, Properties

RULES = rules()
LARGE = "fp16[1, 64, 224, 224]"
"""6.4 million bytes: no layer takes all its rows at once."""
WINDOW = "strides = [1, 1], dilation_rates = [1, 1]"


def read(body: str) -> Program:
    return parse_program(f"program for h13 {{\n{body}\n}}\n")


def pair(first: str, second: str, result: str = "fp16[1, 8, 16, 16]") -> Program:
    """Return a program of two layers, %p and %c, the second after the first."""
    return read(
        f"""
  input "x" = %x : fp16[1, 8, 16, 16]
  input "w" = %w : fp16[8, 8, 3, 3]
  segment 0:
  %p = {first}
  %c = {second}
  output "y" = %c""".replace("RESULT", result)
    )


def verdict(program: Program, first: str = "p", second: str = "c") -> ChainVerdict:
    (found,) = [one for one in schedule(program).chain_verdicts if (one.first, one.second) == (first, second)]
    return found


CHAINED = pair("PE anec.relu(x = %x) : RESULT", "PE anec.tanh(x = %p) : RESULT")


def test_a_pair_that_meets_every_condition_is_chained() -> None:
    made = schedule(CHAINED)
    assert [(one.first, one.second) for one in made.chained] == [("p", "c")]
    assert str(verdict(CHAINED)) == "%p and %c: chained"
    assert explain_chaining(CHAINED, made, "p", "c") == verdict(CHAINED)


# Condition 1: the bit of the target.


def test_without_the_bit_nothing_is_chained() -> None:
    off = replace(RULES, chaining_where_unknown=False)
    (found,) = schedule(CHAINED, off).chain_verdicts
    assert found.failed is ChainCondition.ENABLED
    assert found.detail == "no source gives the chaining bit of h13; it counts as not set (inferred)"
    assert schedule(CHAINED, off).chained == ()


def test_a_bit_that_a_source_gives_decides() -> None:
    target = resolve("h13")
    fact = Fact(value=False, evidence=Evidence(EvidenceKind.DECODED, "guide ch. 24"))
    table = {**target.hal.table, "chaining": replace(target.hal.table["chaining"], facts={"all": fact})}
    hal = Properties(target.hal.group, target.hal.target, target.hal.tier, table, target.hal.aliases)
    known = replace(target, hal=hal)
    assert chaining_enabled(known, RULES) == (False, "the chaining bit of h13 is not set: decoded (guide ch. 24)")
    assert schedule(replace(CHAINED, target=known)).chained == ()


def test_the_schedule_says_how_the_bit_is_known() -> None:
    assert schedule(CHAINED).notes == ("no source gives the chaining bit of h13; it counts as set (inferred)",)


# Condition 2: exactly one outgoing layer.


def test_a_second_reader_breaks_it() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %c = PE anec.tanh(x = %p) : fp16[1, 8, 16, 16]
  %d = PE anec.add(x = %c, y = %p) : fp16[1, 8, 16, 16]
  output "y" = %d""")
    assert str(verdict(program)) == "%p and %c: not chained, one reader: %p is read by %c, %d"


def test_an_output_is_a_second_way_out() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %c = PE anec.tanh(x = %p) : fp16[1, 8, 16, 16]
  output "y" = %c
  output "z" = %p""")
    assert str(verdict(program)) == "%p and %c: not chained, one reader: %p also leaves the segment"


def test_a_neighbour_that_reads_something_else_is_no_consumer() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %c = PE anec.tanh(x = %x) : fp16[1, 8, 16, 16]
  output "y" = %c
  output "z" = %p""")
    assert str(verdict(program)) == "%p and %c: not chained, one reader: %p is read by no layer"


# Condition 3: one engine class, one engine.


@pytest.mark.parametrize(
    ("first", "second", "detail"),
    [
        ("NE anec.relu(x = %x)", "PE anec.tanh(x = %p)", "NE and PE"),
        ("PE anec.relu(x = %x)", "NE anec.tanh(x = %p)", "PE and NE"),
        (
            "DMA anec.identity(x = %x)",
            "DMA anec.identity(x = %p)",
            "a layer that only moves data has no tiles to pass on",
        ),
    ],
)
def test_two_classes_break_it(first: str, second: str, detail: str) -> None:
    found = verdict(pair(f"{first} : RESULT", f"{second} : RESULT"))
    assert (found.failed, found.detail) == (ChainCondition.SAME_ENGINE, detail)


def test_two_engines_of_one_class_break_it() -> None:
    program = pair("PE anec.relu(x = %x) : RESULT", "PE anec.tanh(x = %p) : RESULT\n    chosen: {engine_number = 1}")
    found = verdict(program)
    assert (found.failed, found.detail) == (ChainCondition.SAME_ENGINE, "engine 0 and engine 1")


def test_a_choice_that_is_no_number_is_the_first_engine() -> None:
    assert engine_number(CHAINED.layers[0].choosing(engine_number="second")) == 0


# Condition 4: what is emitted is what is taken.


def test_other_rows_at_a_time_break_it() -> None:
    # Too large to be on chip whole: the second makes fewer channels, so more of its rows fit.
    window = f"{{{WINDOW}, explicit_padding = [0, 0, 0, 0], kernel_sizes = [1, 1]}}"
    program = read(f"""
  input "x" = %x : {LARGE}
  input "w" = %w : fp16[48, 64, 1, 1]
  segment 0:
  %p = NE anec.relu(x = %x) : {LARGE}
  %c = NE anec.convolution(input = %p, weights = %w) {window} : fp16[1, 48, 224, 224]
  output "y" = %c""")
    found = verdict(program)
    assert found.failed is ChainCondition.GEOMETRY
    assert found.detail == "%p emits 13 rows of 64×224 (16 bits, planar), %c takes 15 rows of 64×224 (16 bits, planar)"


def test_a_transposing_producer_breaks_it() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %p = PE anec.add(x = %x, y = %x) : fp16[1, 8, 16, 16]
    transpose: anec.transpose() {perm = [0, 1, 3, 2]}
  %c = PE anec.tanh(x = %p) : fp16[1, 8, 16, 16]
  output "y" = %c""")
    found = verdict(program)
    assert found.failed is ChainCondition.GEOMETRY
    assert "16 rows of 8×16 (16 bits, through its transpose slot)" in found.detail


def test_an_operand_that_becomes_the_kernel_breaks_it() -> None:
    program = read("""
  input "x" = %x : fp16[16, 16]
  segment 0:
  %p = NE anec.relu(x = %x) : fp16[16, 16]
  %c = NE anec.matmul(lhs = %p, rhs = %x) : fp16[16, 16]
  output "y" = %c""")
    found = verdict(program)
    assert found.failed is ChainCondition.GEOMETRY
    assert found.detail.endswith("%c takes 1 rows of 16×16 (16 bits, as its kernel)")


def test_the_right_side_of_a_product_of_two_axes_is_read_as_it_lies() -> None:
    body = """
  input "x" = %x : fp16[16, 16]
  segment 0:
  %p = NE anec.relu(x = %x) : fp16[16, 16]
  %c = NE anec.matmul(lhs = %x, rhs = %p)FLAG : fp16[16, 16]
  output "y" = %c"""
    assert verdict(read(body.replace("FLAG", ""))).failed is None
    assert verdict(read(body.replace("FLAG", " {transpose_rhs = true}"))).failed is ChainCondition.GEOMETRY


def test_taking_it_twice_breaks_it() -> None:
    found = verdict(pair("PE anec.relu(x = %x) : RESULT", "PE anec.add(x = %p, y = %p) : RESULT"))
    assert (found.failed, found.detail) == (ChainCondition.GEOMETRY, "%c takes it in 2 places")


def test_a_row_that_does_not_fit_has_no_geometry() -> None:
    program = read("""
  input "x" = %x : fp16[2000, 1000]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[2000, 1000]
  %c = PE anec.tanh(x = %p) : fp16[2000, 1000]
  output "y" = %c""")
    found = verdict(program)
    assert found.failed is ChainCondition.GEOMETRY
    assert found.detail.startswith("%p emits 0 rows")


# Condition 5: nothing in between.


def test_a_layer_in_between_breaks_it() -> None:
    program = read("""
  input "x" = %x : fp16[1, 8, 16, 16]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[1, 8, 16, 16]
  %q = PE anec.exp(x = %x) : fp16[1, 8, 16, 16]
  %c = PE anec.add(x = %p, y = %q) : fp16[1, 8, 16, 16]
  output "y" = %c""")
    made = schedule(program)
    assert made.order == ("p", "q", "c")
    assert [(one.first, one.second) for one in made.chained] == [("q", "c")]
    found = explain_chaining(program, made, "p", "c")
    assert str(found) == "%p and %c: not chained, neighbours: 1 layers run between them"


# Condition 6: the first rows.


def test_rows_that_overlap_the_next_tile_break_it() -> None:
    layer = f"{{{WINDOW}, explicit_padding = [1, 1, 1, 1], kernel_sizes = [3, 3]}} : {LARGE}"
    program = read(f"""
  input "x" = %x : {LARGE}
  input "v" = %v : fp16[64, 64, 3, 3]
  input "w" = %w : fp16[64, 64, 3, 3]
  segment 0:
  %p = NE anec.convolution(input = %x, weights = %v) {layer}
  %c = NE anec.convolution(input = %p, weights = %w) {layer}
  output "y" = %c""")
    found = verdict(program)
    assert found.failed is ChainCondition.ROWS
    assert found.detail == "%c needs 12 rows for its first tile, %p emits 11"


def test_all_rows_cover_every_overlap() -> None:
    layer = f"{{{WINDOW}, explicit_padding = [1, 1, 1, 1], kernel_sizes = [3, 3]}} : RESULT"
    program = pair(
        f"NE anec.convolution(input = %x, weights = %w) {layer}",
        f"NE anec.convolution(input = %p, weights = %w) {layer}",
    )
    assert verdict(program).failed is None


# Our own: one partition.


def test_a_partition_that_ends_in_between_breaks_it() -> None:
    # The second result does not fit beside the first one and what a later layer still needs.
    program = read("""
  input "x" = %x : fp16[1, 64, 56, 56]
  segment 0:
  %k = NE anec.relu(x = %x) : fp16[1, 64, 56, 56]
  %p = NE anec.tanh(x = %k) : fp16[1, 64, 56, 56]
  %c = NE anec.exp(x = %p) : fp16[1, 64, 56, 56]
  %d = PE anec.add(x = %c, y = %k) : fp16[1, 64, 56, 56]
  output "y" = %d""")
    assert verdict(program).failed is None
    tight = replace(RULES, working_set_margin=0.45)
    found = [one for one in schedule(program, tight).chain_verdicts if one.first == "p"]
    assert str(found[0]) == "%p and %c: not chained, one partition: a partition ends between them"


def test_tiles_in_flight_that_do_not_fit_break_it() -> None:
    # Rows that stand apart for the banks' sake take more than the tiles were chosen for.
    window = f"{{{WINDOW}, explicit_padding = [0, 0, 0, 0], kernel_sizes = [1, 1]}}"
    program = read(f"""
  input "x" = %x : fp16[1, 1, 224, 224]
  input "v" = %v : fp16[96, 1, 1, 1]
  input "w" = %w : fp16[1, 96, 1, 1]
  segment 0:
  %p = NE anec.convolution(input = %x, weights = %v) {window} : fp16[1, 96, 224, 224]
  %c = NE anec.convolution(input = %p, weights = %w) {window} : fp16[1, 1, 224, 224]
  output "y" = %c""")
    found = verdict(program)
    assert str(found) == "%p and %c: not chained, one partition: the tiles in flight do not fit on chip"


def test_a_linear_layer_writes_its_result_transposed() -> None:
    x, weight = Value("x", TensorType((16, 16))), Dense(np.zeros((16, 16), np.float16))
    product = new_layer("linear", {"x": x, "weight": weight}, None, "p", location=None)
    behind = new_layer("relu", {"x": product.result}, None, "c", location=None, engine=Engine.NE)
    program = Program(resolve("h13"), (Port("x", x),), (product, behind), (Port("y", behind.result),))
    found = verdict(program)
    assert found.failed is ChainCondition.GEOMETRY
    assert found.detail.startswith("%p emits 1 rows of 16×16 (16 bits, transposed)")


# Rows and tiles.


def test_a_large_chained_tensor_is_there_two_tiles_at_a_time() -> None:
    program = read(f"""
  input "x" = %x : {LARGE}
  segment 0:
  %p = NE anec.relu(x = %x) : {LARGE}
  %c = NE anec.tanh(x = %p) : {LARGE}
  output "y" = %c""")
    made = schedule(program)
    (resident,) = made.residents
    assert (resident.value, resident.rows) == ("p", 26)
    assert resident.size == 26 * 64 * 464  # rows of 448 bytes stand 464 apart
    assert made.steps == (("p", "c"),)


def test_how_many_rows_a_layer_makes_at_a_time() -> None:
    memory = on_chip(resolve("h13"), RULES)
    planar = read(f"""
  input "x" = %x : fp16[1, 4, 100, 16]
  input "z" = %z : {LARGE}
  segment 0:
  %a = PE anec.relu(x = %x) : fp16[1, 4, 100, 16]
  %b = NE anec.relu(x = %x) : fp16[1, 4, 100, 16]
  %c = NE anec.relu(x = %z) : {LARGE}
  %d = PE anec.reduce_sum(x = %z) {{axes = [2], keep_dims = true}} : fp16[1, 64, 1, 224]
  output "y" = %c""")
    tilings = [tiling_of(layer, memory, RULES) for layer in planar.layers]
    assert [(one.rows, one.of, one.whole) for one in tilings] == [
        (32, 100, True),
        (100, 100, True),
        (13, 224, False),
        (0, 1, False),
    ]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("PE anec.relu(x = %x) : fp16[1, 8, 16, 16]", RowWindow()),
        ("PE anec.softmax(x = %x) {axis = 1} : fp16[1, 8, 16, 16]", RowWindow()),
        ("PE anec.softmax(x = %x) {axis = 2} : fp16[1, 8, 16, 16]", None),
        ("PE anec.softmax(x = %x) {axis = -1} : fp16[1, 8, 16, 16]", RowWindow()),
        ("PE anec.reduce_sum(x = %x) {axes = [1, 3], keep_dims = true} : fp16[1, 1, 16, 1]", RowWindow()),
        ("PE anec.reduce_sum(x = %x) {axes = [3], keep_dims = false} : fp16[1, 8, 16]", None),
        ("TE anec.transpose(x = %x) {perm = [0, 1, 3, 2]} : fp16[1, 8, 16, 16]", None),
        (
            (
                'PE anec.max_pool(x = %x) {kernel_sizes = [3, 2], strides = [2, 2], pad_type = "custom", '
                "pad = [1, 1, 0, 0]} : fp16[1, 8, 8, 8]"
            ),
            RowWindow(2, 3, 1),
        ),
        (
            (
                "NE anec.convolution(input = %x, weights = %w) {strides = [2, 1], dilation_rates = [2, 1], "
                "explicit_padding = [3, 2, 1, 1], kernel_sizes = [3, 3]} : fp16[1, 8, 9, 16]"
            ),
            RowWindow(2, 5, 3),
        ),
        (
            (
                "NE anec.deconvolution(input = %x, weights = %w) {strides = [2, 2], dilation_rates = [1, 1], "
                "explicit_padding = [0, 0, 0, 0], kernel_sizes = [3, 3], output_sizes = [33, 33]} : fp16[1, 8, 33, 33]"
            ),
            RowWindow(span=3, upward=2),
        ),
    ],
)
def test_which_rows_a_row_is_made_from(layer: str, expected: RowWindow | None) -> None:
    program = read(f"""
  input "x" = %x : fp16[1, 8, 16, 16]
  input "w" = %w : fp16[8, 8, 3, 3]
  segment 0:
  %y = {layer}
  output "y" = %y""")
    (made,) = program.layers
    name, value = next(iter(made.operands)), made.bottoms[0]
    assert row_window(made, name, value, RULES) == expected


def test_rows_of_volumes_and_of_tensors_without_height() -> None:
    volume = 'strides = [1, 1, 1], dilation_rates = [1, 1, 1], weights_layout = "OIDHW"'
    line = 'strides = [1], dilation_rates = [1], weights_layout = "OIW"'
    deep = f"{{{volume}, explicit_padding = [1, 1, 1, 1, 1, 1], kernel_sizes = [3, 3, 3]}}"
    flat = f"{{{volume}, explicit_padding = [0, 0, 1, 1, 1, 1], kernel_sizes = [1, 3, 3]}}"
    thin = f"{{{line}, explicit_padding = [1, 1], kernel_sizes = [3]}}"
    program = read(f"""
  input "v" = %v : fp16[1, 8, 4, 6, 6]
  input "k" = %k : fp16[8, 8, 3, 3, 3]
  input "f" = %f : fp16[8, 8, 1, 3, 3]
  input "s" = %s : fp16[1, 8, 16]
  input "u" = %u : fp16[8, 8, 3]
  segment 0:
  %a = NE anec.convolution(input = %v, weights = %k) {deep} : fp16[1, 8, 4, 6, 6]
  %b = NE anec.convolution(input = %v, weights = %f) {flat} : fp16[1, 8, 4, 6, 6]
  %c = NE anec.convolution(input = %s, weights = %u) {thin} : fp16[1, 8, 16]
  %d = PE anec.max_pool(x = %s) {{kernel_sizes = [2], strides = [2]}} : fp16[1, 8, 8]
  output "y" = %a""")
    names = ["input", "input", "input", "x"]
    found = [
        row_window(layer, name, layer.bottoms[0], RULES) for layer, name in zip(program.layers, names, strict=True)
    ]
    assert found == [None, RowWindow(1, 3, 1), RowWindow(), RowWindow()]


# Explanations.


def test_layers_of_two_segments_are_never_chained() -> None:
    program = read("""
  input "x" = %x : fp16[4, 8]
  segment 0:
  %p = PE anec.relu(x = %x) : fp16[4, 8]
  segment 1:
  %s = PE anec.sort(x = %p) {axis = -1} : fp16[4, 8]
  output "y" = %s""")
    made = schedule(program)
    found = explain_chaining(program, made, "p", "s")
    assert str(found) == "%p and %s: not chained, one reader: %p and %s are in different segments"
    with pytest.raises(UnknownNameError, match="unknown layer 'q'"):
        explain_chaining(program, made, "p", "q")

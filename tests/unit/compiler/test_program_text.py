"""The text form of programs: read back exactly for every operation; mistakes in it are named with their line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.parsing import parse_program
from aneforge.compiler.ir.printing import program_outline
from aneforge.compiler.pipeline import PIPELINE
from aneforge.errors import AneforgeError
from aneforge.ops.constant import Dense
from aneforge.testing.networks import networks
from program_tools import lowered

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.testing.graphs import DrawnGraph
    from golden_text import Golden

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def biased() -> Program:
    x = af.input((1, 3, 8, 8), name="image")
    weight = Dense((np.arange(4 * 3 * 9, dtype=np.float16) / 64).reshape(4, 3, 3, 3))
    y = af.conv(x, weight, bias=Dense(np.ones(4, np.float16)), pad=1).relu()
    return PIPELINE.until("fuse-epilogue").run(lowered({"y": y}))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks())
def test_programs_read_back_exactly(drawn: DrawnGraph) -> None:
    for program in (lowered(drawn.graph), PIPELINE.run(lowered(drawn.graph))):
        text = str(program)
        again = parse_program(text, program.constants)
        assert str(again) == text
        assert program_outline(again) == program_outline(program)


def test_states_notes_and_places_read_back() -> None:
    total = af.state("total", (1, 32))
    graph = af.Graph({"y": total.sin()}, {"total": total + 1.0})
    program = build_program(graph, "h13")
    assert any(note.stage == "retarget" for note in program.notes)
    assert program.layers[0].location is not None
    assert str(parse_program(str(program), program.constants)) == str(program)


def test_the_form(golden: Golden) -> None:
    golden(str(biased()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("program for", "programme for", "this is not a program"),
        ("h16g", "h99", "h99"),
        ("anec.convolution", "anec.konvolution", "konvolution"),
        (" NE anec", " XE anec", "there is no such unit"),
        (" NE anec", " DMA anec", "no such unit runs it"),
        ("input = %t0", "input = %t7", "used before it is defined"),
        ("strides = [1, 1]", "stride = [1, 1]", "there is no attribute 'stride'"),
        ("strides = [1, 1]", "strides = [1, 1], strides = [1, 1]", "given twice"),
        ("strides = [1, 1]", "strides = [1, 2]", "the types are not those that the layer gives"),
        ("kernel_sizes = [3, 3]", "kernel_sizes = [5, 5]", "kernel_sizes are not those of the weights"),
        ("post_activation: anec.relu()", "post_activation: anec.softmax()", "cannot fill the post_activation slot"),
        ("post_activation: anec.relu()", "pre_activation: anec.relu()", "does not come after"),
        ("gain_offset.offset)", "nothing)", "@t2.nothing is not given"),
        ("    post_activation: anec.relu()\n", "    post_activation: anec.relu() : fp16[1]\n", "this is not a program"),
        ('output "y" = %t2', 'output "y" = %t9', "used before it is defined"),
        ("}\n", "", "ends before its closing brace"),
        ("  segment 0:\n", "  segment 3:\n", "out of the order of segments"),
        ("fp16[4, 3, 3, 3] dense", "fp16[4, 3, 3, 4] dense", "is not the one of the text"),
        ("  segment 0:\n", '  segment 0:\n  input "z" = %z : fp16[1]\n', "the line does not belong here"),
        ('  output "y"', '  write "s" = %t2\n  output "y"', "is not read, or written twice"),
    ],
)
def test_mistakes_are_named(old: str, new: str, message: str) -> None:
    program = biased()
    text = str(program).replace(old, new, 1)
    assert text != str(program)
    with pytest.raises(AneforgeError, match=re.escape(message)) as caught:
        parse_program(text, program.constants)
    assert caught.value.location is not None
    assert caught.value.location.file == "program text"


def test_a_constant_that_is_missing_is_named() -> None:
    program = biased()
    with pytest.raises(AneforgeError, match=r"@t2\.weights is not given"):
        parse_program(str(program), {})


def test_a_constant_needs_its_line() -> None:
    program = biased()
    text = "\n".join(line for line in str(program).splitlines() if "constant @t2.weights" not in line)
    with pytest.raises(AneforgeError, match="has no line at the end"):
        parse_program(text, program.constants)

"""Whatever the reader is given, it reads it or raises one clear error, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.program import parse_mil
from fuzz_mil import SEPARATOR, check, corpus
from mil_cases import CASES, RELU, call, const, program

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = dict(corpus(samples=1))
HUGE = "tensor<int32, [2]>([2000000000, 2000000000])"


def test_the_corpus_is_of_every_operation_that_can_be_written() -> None:
    assert len({name.rpartition("_")[0] for name in CORPUS}) > 150


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_the_corpus_passes_the_oracle(name: str) -> None:
    check(CORPUS[name])


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}-{number}" for number, case in enumerate(CASES)])
def test_broken_programs_pass_the_oracle(case: object) -> None:
    assert isinstance(case, type(CASES[0]))
    check(case.text.encode() + SEPARATOR + (case.weights or b""))


def test_a_program_that_is_cut_off_anywhere(repository: Path) -> None:
    text = (repository / "examples/mil/gradients/model.mil").read_text()
    whole = len(text.rstrip())
    for length in range(whole):
        with pytest.raises(MilError) as caught:
            parse_mil(text[:length]).graph()
        assert caught.value.rule in ("MIL-SYNTAX-001", "MIL-SYNTAX-002", "MIL-SYNTAX-006"), length
    parse_mil(text[:whole]).graph()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_programs_with_a_few_bytes_changed(data: st.DataObject) -> None:
    text = bytearray(CORPUS[data.draw(st.sampled_from(sorted(CORPUS)))])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, 8))
        text[place : place + removed] = data.draw(st.binary(max_size=8))
    check(bytes(text))


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    check(text.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 1_000_000, id="parentheses"),
        pytest.param(program(RELU.replace("x = x", "x = " + "(" * 100_000)), id="a value"),
        pytest.param(program(const("fp16", "c", "tensor<fp16, [1]>(" + "[" * 100_000)), id="a list"),
        pytest.param(program(RELU, inputs="state<" * 20_000), id="a type"),
        pytest.param("program(1.3)" + "{" * 1_000_000, id="braces"),
        pytest.param('"' * 100_000, id="quotation marks"),
        pytest.param(program(const("int32", "c", f"int32({'9' * 1_000_000})")), id="digits"),
        pytest.param(program(const("fp16", "c", f"fp16(0x{'f' * 1_000_000}p+1)")), id="hexadecimal digits"),
        pytest.param(program(const("fp16", "c", "fp16(1e999999999999)")), id="an exponent"),
        pytest.param(program(call(f"fill(shape = {HUGE}, value = fp16(0.0))", "fp16 y")), id="a shape"),
        pytest.param("\\" * 1_000_000, id="backslashes"),
        pytest.param(program(RELU.replace("x = x", "x = x, " * 10_000)), id="parameters"),
    ],
)  # fmt: skip
def test_memory_follows_the_text(text: str) -> None:
    tracemalloc.start()
    with pytest.raises(MilError):
        parse_mil(text).graph()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120 * len(text) + 1_000_000


def test_memory_of_statements_is_that_of_one_at_a_time() -> None:
    text = program(*[RELU.replace("y", f"t{number}") for number in range(5000)], RELU)
    parse_mil(program(RELU)).graph()  # what is made once
    tracemalloc.start()
    read = parse_mil(text)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read.syntax.functions["main"].statements) == 5001
    assert peak - kept < len(text) / 2


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]), min_size=1))
def test_names_with_every_character(name: str) -> None:
    assume(name != "x")
    quoted = program(RELU.replace('string("y")', f'string("{name}")'))
    parse_mil(quoted).graph()
    bare = program(RELU.replace("> y =", f"> {name} ="), outputs=name)
    if name.isascii() and name.isidentifier():
        assert list(parse_mil(bare).graph().outputs) == [name]
    else:
        with pytest.raises(MilError):
            parse_mil(bare).graph()

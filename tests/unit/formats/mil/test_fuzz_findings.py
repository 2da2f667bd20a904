"""What fuzzing found, each as the test that would have caught it."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.program import parse_mil
from aneforge.ops.constant import Dense
from fuzz_mil import SEPARATOR, check, corpus
from mil_cases import RELU, call, program

WORD = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[A-Za-z_]\w*|[-+]?\d[\w.+-]*|\s+|.', re.DOTALL)
NUMBERS = [b"-1", b"0", b"3", b"65536", b"2147483647", b"99999999999999999", b"nan", b"inf", b"?", b"0x1p+1"]


def test_a_long_name_does_not_make_a_long_message() -> None:
    with pytest.raises(MilError) as caught:
        parse_mil(program(call(f"const{'9' * 5000}(x = x)"))).graph()
    assert caught.value.rule == "MIL-OP-001"
    assert len(str(caught.value)) < 1500
    with pytest.raises(MilError) as caught:
        parse_mil(program(RELU.replace("x = x", f"x = {'a' * 5000}"))).graph()
    assert len(str(caught.value)) < 1500


def test_weights_that_are_made_dense_overflow_in_silence() -> None:
    cast = 'constexpr_cast(source_val = tensor<fp32, [1]>([1e30]), output_dtype = string("fp16"))'
    text = program(call(cast, "tensor<fp16, [1]> w"), call("mul(x = x, y = w)"))
    with warnings.catch_warnings(action="error"):
        (constant,) = parse_mil(text).graph().constants.values()
    assert isinstance(constant, Dense)
    assert constant.values.tolist() == [np.inf]


TEXTS = [data.partition(SEPARATOR) for _, data in corpus(samples=1)]
TAKEN = sorted({word for text, _, _ in TEXTS for word in WORD.findall(text) if word.strip()})


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_programs_with_words_exchanged(seed: int) -> None:
    """Change words, not bytes, so that most programs pass the grammar and fail after it."""
    chooser = random.Random(seed)  # noqa: S311 - a choice of tests, nothing secret
    text, separator, blob = chooser.choice(TEXTS)
    words = WORD.findall(text)
    for _ in range(chooser.choice([1, 1, 2, 3])):
        place = chooser.randrange(len(words))
        is_number = words[place][:1].isdigit() or words[place][:1] == b"-"
        match chooser.randrange(4):
            case 0 | 1:
                words[place] = chooser.choice(NUMBERS if is_number else TAKEN)
            case 2:
                words.insert(place, words[chooser.randrange(len(words))])
            case _:
                words.pop(place)
    check(b"".join(words) + separator + blob)

"""Half away from zero, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.engine.rounding import decode_operand, exponents, to_eleven_bits, to_fp16, to_grid

ALL_FP16 = np.arange(65536, dtype=np.uint16).view(np.float16)


def rounded(value: Fraction, step: Fraction) -> Fraction:
    """Round to a multiple of a step, ties away from zero."""
    quotient = abs(value) / step
    whole = int(quotient + Fraction(1, 2))
    return (1 if value >= 0 else -1) * whole * step


def exact_fp16(value: float) -> float:
    exact = Fraction(value)
    exponent = max(int(np.floor(np.log2(abs(value)))) if value else -14, -14)
    result = rounded(exact, Fraction(2) ** (exponent - 10))
    return float(result) if abs(result) < 65536 else float(np.copysign(np.inf, value))


def test_every_fp16_stays_as_it_is() -> None:
    finite = ALL_FP16[np.isfinite(ALL_FP16)].astype(np.float64)
    np.testing.assert_array_equal(to_fp16(finite), finite)


@given(st.floats(-70000, 70000, allow_nan=False, width=32))
def test_rounding_to_fp16(value: float) -> None:
    assert to_fp16(np.array([value]))[0] == exact_fp16(value)


def test_ties_between_all_neighbours_go_away_from_zero() -> None:
    positive = np.sort(ALL_FP16[(ALL_FP16 >= 0) & np.isfinite(ALL_FP16)].astype(np.float64))
    lower, upper = positive[:-1], positive[1:]
    middle = (lower + upper) / 2
    distinct = lower != upper
    np.testing.assert_array_equal(to_fp16(middle)[distinct], upper[distinct])
    np.testing.assert_array_equal(to_fp16(-middle)[distinct], -upper[distinct])


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (2049.0, 2050.0),
        (2051.0, 2052.0),
        (-2049.0, -2050.0),
        (65519.0, 65504.0),
        (65520.0, np.inf),
        (2.0**-25, 2.0**-24),
        (2.0**-26, 0.0),
        (np.inf, np.inf),
        (-np.inf, -np.inf),
        (0.0, 0.0),
    ],
)
def test_known_roundings(value: float, result: float) -> None:
    assert to_fp16(np.array([value]))[0] == result


@given(st.integers(-(2**30), 2**30), st.integers(-60, 20))
def test_eleven_bits(whole: int, exponent: int) -> None:
    value = whole * 2.0**exponent
    leading = abs(whole).bit_length() - 1 + exponent if whole else 0
    expected = rounded(Fraction(value), Fraction(2) ** (leading - 10))
    assert Fraction(float(to_eleven_bits(np.array([value]))[0])) == expected


@given(st.integers(-(2**40), 2**40))
def test_the_grid(whole: int) -> None:
    value = whole * 2.0**-24
    expected = rounded(Fraction(value), Fraction(1, 2**16))
    assert Fraction(float(to_grid(np.array([value]), 2.0**-16)[0])) == expected


def test_the_multiplier_reads_every_pattern() -> None:
    values, found = decode_operand(ALL_FP16)
    finite = np.isfinite(ALL_FP16)
    np.testing.assert_array_equal(values[finite], ALL_FP16[finite].astype(np.float64))
    patterns = dict(zip(ALL_FP16.view(np.uint16).tolist(), values.tolist(), strict=True))
    found_there = [patterns[pattern] for pattern in (0x7C00, 0x7E00, 0x7FFF, 0xFC00)]
    assert found_there == [65536.0, 98304.0, 131008.0, -65536.0]
    normal = finite & (np.abs(values) >= 2.0**-14)
    np.testing.assert_array_equal(found[normal], exponents(values[normal]))
    assert set(found[~normal & finite].tolist()) == {-14}

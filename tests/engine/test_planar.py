"""The planar engine against exact fractions, and the special values that were measured."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import planar
from aneforge.engine.choices import choices
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.kernels.library import using
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
PATTERNS = st.integers(0, 0xFFFF)
INF = float("inf")


def halves(*patterns: int) -> Array:
    return np.array(patterns, np.uint16).view(np.float16)


def number(pattern: int) -> Fraction:
    """Return what a bit pattern stands for, exponent 31 read as any other."""
    sign = -1 if pattern >> 15 else 1
    field, fraction = (pattern >> 10) & 31, pattern & 1023
    exponent = field - 15 if field else -14
    return sign * Fraction(fraction + (1024 if field else 0)) * Fraction(2) ** (exponent - 10)


def rounded(value: Fraction) -> float:
    """Return the nearest fp16, ties away from zero, by integers."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = max(magnitude.numerator.bit_length() - magnitude.denominator.bit_length(), -14)
    while magnitude < Fraction(2) ** exponent and exponent > -14:
        exponent -= 1
    step = Fraction(2) ** (exponent - 10)
    result = int(magnitude / step + Fraction(1, 2)) * step
    return float(np.copysign(INF if result >= 65536 else float(result), 1 if value > 0 else -1))


PAIRS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "maximum": max,
    "minimum": min,
}


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=400)
@given(x=PATTERNS, y=PATTERNS)
def test_pairs_round_the_exact_result_once(name: str, x: int, y: int) -> None:
    result = planar.FUNCTIONS[name](halves(x), halves(y))
    assert result.tolist() == [rounded(PAIRS[name](number(x), number(y)))]


COMPARISONS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
}


@pytest.mark.parametrize("name", COMPARISONS)
@given(x=PATTERNS, y=PATTERNS)
def test_comparisons(name: str, x: int, y: int) -> None:
    for first, second in ((x, y), (x, x)):
        assert planar.FUNCTIONS[name](halves(first), halves(second)).tolist() == [
            COMPARISONS[name](number(first), number(second))
        ]


def test_zeros_of_both_signs_are_equal() -> None:
    assert planar.equal(halves(0x8000), halves(0)).all()


@pytest.mark.parametrize(
    ("name", "x", "y", "result"),
    [
        ("add", 2048.0, 1.0, 2050.0),
        ("mul", 2.0**-12, 2.0**-12, 2.0**-24),
        ("sub", INF, INF, 0.0),
        ("mul", 0.0, INF, 0.0),
        ("add", float("nan"), 0.0, INF),
        ("add", -float("nan"), 0.0, -INF),
        ("add", INF, 1.0, INF),
        ("maximum", float("nan"), 1.0, INF),
        ("real_div", 1.0, -0.0, INF),
        ("real_div", 0.0, 0.0, 0.0),
        ("real_div", 6.0, 2.0, 3.0),
        ("real_div", 5.0, INF, 0.0),
        ("floor_div", 7.0, 2.0, 3.0),
        ("floor_div", -7.0, 2.0, -4.0),
    ],
)
def test_known_values(name: str, x: float, y: float, result: float) -> None:
    assert planar.FUNCTIONS[name](np.array([x]), np.array([y])).tolist() == [result]


def test_a_whole_quotient_can_be_one_too_small() -> None:
    divisors = np.arange(1.0, 200.0)
    quotients = planar.floor_div(divisors, divisors)
    assert set(quotients.tolist()) == {0.0, 1.0}


def test_squares_overflow_from_256() -> None:
    assert planar.square(np.array([255.875, 256.0, -256.0])).tolist() == [65472.0, INF, INF]


def test_numbers_are_rounded_by_the_host_first() -> None:
    assert planar.plus(np.array([0.0]), k=2049.0).tolist() == [2048.0], "the host rounds ties to even"
    assert planar.times(np.array([1.0]), k=1e6).tolist() == [INF]
    assert planar.number(-1e6) == -65536.0


def test_choices_copy() -> None:
    condition = np.array([True, False])
    result = planar.select(condition, np.array([1.0, 2.0]), np.array([-0.5, 2.0**-24]))
    assert result.tolist() == [1.0, 2.0**-24]


def test_operands_broadcast_and_numbers_stay_numbers() -> None:
    assert planar.add(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
    assert planar.add(np.array(1.0, np.float16), np.array(2.0, np.float16)).shape == ()


@pytest.mark.parametrize("mode", ["add", "sub", "mul", "max", "min"])
def test_modes_are_the_operations(mode: str) -> None:
    x, y = np.array([2048.0, -3.0]), np.array([1.0, 5.0])
    same = {"max": "maximum", "min": "minimum"}.get(mode, mode)
    np.testing.assert_array_equal(planar.combine(x, y, mode=mode), planar.FUNCTIONS[same](x, y))


def test_a_scaled_pair_rounds_once_and_a_product_is_not_scaled() -> None:
    x, y = np.array([2048.0]), np.array([1 - 2.0**-11])
    assert planar.scaled(x, y, mode="add", scale=3.0).tolist() == [6148.0], "rounded twice it were 6144"
    assert planar.scaled(x, y, mode="max", scale=0.5).tolist() == [1024.0]
    assert planar.scaled(x, y, mode="min", scale=-2.0).tolist() == [-2 + 2.0**-10]
    assert planar.scaled(np.array([3.0]), np.array([5.0]), mode="mult", scale=0.5).tolist() == [15.0]


def test_gain_and_offset_round_twice_where_the_choice_says_so() -> None:
    assert choices().gain_offset.product_is_rounded
    result = planar.gain_offset(np.array([683.0]), 3.0, 1.0)
    assert result.tolist() == [2052.0], "2049 becomes 2050, and 2051 becomes 2052; once rounded it were 2050"


def test_gain_and_offset_by_channel() -> None:
    x = np.ones((1, 2, 3))
    result = planar.channel_gain_offset(x, np.array([2.0, 3.0]), np.array([0.5, -1.0]))
    assert result.tolist() == [[[2.5] * 3, [2.0] * 3]]
    assert planar.channel_gain_offset(x, None, np.array([1.0, 2.0])).tolist() == [[[2.0] * 3, [3.0] * 3]]
    assert planar.channel_gain_offset(x, np.array([4.0, 5.0]), None).tolist() == [[[4.0] * 3, [5.0] * 3]]


def test_batch_norm_is_one_gain_and_one_offset() -> None:
    x = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    mean, variance = np.array([1.0, 2.0]), np.array([4.0, 16.0])
    plain = planar.batch_norm(x, mean, variance, None, None, epsilon=0.0)
    assert plain.tolist() == [[[0.0, 0.5], [0.25, 0.5]]]
    scaled = planar.batch_norm(x, mean, variance, np.array([2.0, 2.0]), np.array([1.0, 0.0]), epsilon=0.0)
    assert scaled.tolist() == [[[1.0, 2.0], [0.5, 1.0]]]


@pytest.mark.parametrize("name", ["dynamic_goc", "pe_goc"])
def test_an_infinite_product_is_read_as_a_number_by_the_offset(name: str) -> None:
    # 2 · 40000 is infinite in fp16, which the addition reads as 2^16, as any operation does.
    x, gain, offset = (np.full(shape, value, np.float16) for shape, value in (((1, 1), 40000), (1, 2), (1, -36)))
    operands = {"x": x, "gain": gain, "offset": offset}
    for golden_model in (False, True):
        with using(golden=golden_model):
            (found,) = arithmetic(name, resolve("m1")).compute(operands, {})
            assert found.item() == 65504.0

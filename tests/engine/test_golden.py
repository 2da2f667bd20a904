"""The golden model against whole-number arithmetic, and at the edges that were measured on chips."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden

Array = npt.NDArray[Any]
PATTERNS = st.integers(0, 0xFFFF)


def parts(pattern: int) -> tuple[int, int, int]:
    """Return sign, exponent and significand of a bit pattern, as the multiplier reads it."""
    field, fraction = (pattern >> 10) & 31, pattern & 1023
    return (-1 if pattern >> 15 else 1), (field - 15 if field else -14), fraction + (1024 if field else 0)


def product_by_integers(x: int, w: int) -> int:
    """Return a product in units of 2^-16, by shifts of integers."""
    (x_sign, x_exponent, x_bits), (w_sign, w_exponent, w_bits) = parts(x), parts(w)
    if x_exponent + w_exponent <= -17:
        return 0
    magnitude, shift = x_bits * w_bits, x_exponent + w_exponent - 20 + 16
    magnitude = magnitude << shift if shift >= 0 else (magnitude + (1 << (-shift - 1))) >> -shift
    return x_sign * w_sign * magnitude


def dot_by_integers(xs: list[int], ws: list[int]) -> float:
    total = 0
    for x, w in zip(xs, ws, strict=True):
        total += product_by_integers(x, w)
        if abs(total) >= 1 << 31:
            return float(np.copysign(np.inf, total))
    if total == 0:
        return 0.0
    exponent = max(abs(total).bit_length() - 1 - 16, -14)
    shift = exponent - 10 + 16
    magnitude = abs(total)
    rounded = ((magnitude + (1 << (shift - 1))) >> shift) << shift if shift > 0 else magnitude
    value = rounded / 65536
    return float(np.copysign(value if value < 2**15 else np.inf, total))


def halves(patterns: list[int]) -> Array:
    return np.array(patterns, np.uint16).view(np.float16)


@settings(max_examples=500)
@given(PATTERNS, PATTERNS)
def test_single_products_of_any_bits(x: int, w: int) -> None:
    result = golden.matmul(halves([x])[None], halves([w])[:, None])[0, 0]
    assert result == dot_by_integers([x], [w])


@settings(max_examples=300)
@given(st.lists(st.tuples(PATTERNS, PATTERNS), min_size=1, max_size=12))
def test_dot_products_of_any_bits(pairs: list[tuple[int, int]]) -> None:
    xs, ws = ([pair[side] for pair in pairs] for side in (0, 1))
    result = golden.matmul(halves(xs)[None], halves(ws)[:, None])[0, 0]
    assert result == dot_by_integers(xs, ws)


@pytest.mark.parametrize("count", [4, 8, 16, 32, 64, 128])
def test_the_cliff_that_was_measured(count: int) -> None:
    ones = np.ones((count, 1), np.float16)
    for total, finite in ((32752.0, True), (32768.0, False)):
        x = np.full((1, count), total / count, np.float64)
        assert (x == x.astype(np.float16)).all()
        result = golden.matmul(x.astype(np.float16), ones)[0, 0]
        assert np.isfinite(result) == finite
        assert not finite or result == total


def test_an_infinite_sum_stays_infinite() -> None:
    x = np.array([[30000.0, 30000.0, -30000.0]], np.float16)
    ones = np.ones((3, 1), np.float16)
    assert golden.matmul(x, ones)[0, 0] == np.inf
    assert np.isfinite(golden.matmul(x[:, ::-1].copy(), ones)[0, 0]), "in another order no partial sum passes the edge"


def test_products_are_dropped_by_exponent_alone() -> None:
    almost_two = np.float16(2 - 2**-10)
    small = np.array([[almost_two * np.float16(2.0**-9)]], np.float16)
    assert golden.matmul(small, np.array([[almost_two * 2.0**-8]], np.float16))[0, 0] == 0, "exponents −9 and −8"
    assert golden.matmul(np.array([[2.0**-8]], np.float16), np.array([[2.0**-8]], np.float16))[0, 0] == 2.0**-16


def test_bias_is_the_start_of_the_sum() -> None:
    x, w = np.array([[1.0]], np.float16), np.array([[2.0**-12]], np.float16)
    with_bias = golden.matmul(x, w, bias=np.array([2048.0]))
    assert with_bias[0, 0] == 2048.0
    assert golden.matmul(x, np.array([[1.0]], np.float16), bias=np.array([2048.0]))[0, 0] == 2050.0, "2049 is a tie"
    assert golden.matmul(x, w, bias=np.array([2.0**15]))[0, 0] == np.inf
    for bias, infinite in [(np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.inf), (-np.nan, -np.inf)]:
        assert golden.matmul(x, w, bias=np.array([bias]))[0, 0] == infinite, "exponent 31 is an ordinary one"
    back = np.array([[-20000.0]], np.float16)
    assert golden.matmul(x, back, bias=np.array([40000.0]))[0, 0] == np.inf, "past the edge before the first product"


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="inner extents"):
        golden.matmul(np.zeros((2, 4), np.float16), np.zeros((3, 2), np.float16))
    with pytest.raises(ValueError, match="different channels"):
        golden.convolution(np.zeros((1, 3, 4, 4), np.float16), np.zeros((2, 1, 3, 3), np.float16))


def test_a_1x1_convolution_is_a_product() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 5, 3, 4)).astype(np.float16)
    w = generator.standard_normal((6, 5, 1, 1)).astype(np.float16)
    by_product = golden.matmul(x.transpose(0, 2, 3, 1), w[:, :, 0, 0].T).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(golden.convolution(x, w), by_product)


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 1), (2, 1), (3, 2)])
def test_whole_numbers_convolve_exactly(stride: int, pad: int) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-4, 5, (1, 3, 7, 9)).astype(np.float16)
    w = generator.integers(-3, 4, (4, 3, 3, 3)).astype(np.float16)
    around = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
    expected = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    np.testing.assert_array_equal(golden.convolution(x, w, stride=stride, pad=pad), expected)


@pytest.mark.parametrize("width", [2, 8, 9])
def test_winograd_equals_direct_where_nothing_rounds(width: int) -> None:
    generator = np.random.default_rng(2)
    x = generator.integers(-4, 5, (2, 3, 5, width)).astype(np.float16)
    w = (2 * generator.integers(-3, 4, (4, 3, 3, 3))).astype(np.float16)
    np.testing.assert_array_equal(golden.winograd_convolution(x, w), golden.convolution(x, w, pad=1))


def test_elementwise_keeps_subnormals_and_rounds_ties_away() -> None:
    assert golden.elementwise(np.array([2048.0 + 1.0, 2.0**-12 * 2.0**-12])).tolist() == [2050.0, 2.0**-24]

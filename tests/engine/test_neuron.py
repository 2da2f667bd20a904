"""Operations on one element, over every bit pattern where that tells something."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine import neuron
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.planar import read

Array = npt.NDArray[Any]
ALL_FP16 = np.arange(65536, dtype=np.uint16).view(np.float16)
NUMBERS = read(ALL_FP16)
FINITE = ALL_FP16[np.isfinite(ALL_FP16)]
INF = float("inf")


def fitting(values: Array) -> Array:
    """Return numbers that fp16 holds, or the infinity of what it does not."""
    return np.where(np.abs(values) >= 65536, np.copysign(INF, values), values)


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("relu", {}, np.maximum(NUMBERS, 0)),
        ("relu6", {}, np.clip(NUMBERS, 0, 6)),
        ("clip", {"alpha": -1.5, "beta": 3.0}, np.clip(NUMBERS, -1.5, 3)),
        ("clip", {"alpha": -INF, "beta": 3.0}, np.minimum(NUMBERS, 3)),
        ("threshold", {"alpha": -1.5}, np.maximum(NUMBERS, -1.5)),
        ("thresholded_relu", {"alpha": 1.5}, np.where(NUMBERS >= 1.5, NUMBERS, 0)),
        ("leaky_relu", {"alpha": 0.5}, np.where(NUMBERS >= 0, NUMBERS, np.sign(NUMBERS) * np.abs(NUMBERS) / 2)),
        ("sign", {}, np.sign(NUMBERS)),
        ("floor", {}, np.floor(NUMBERS)),
        ("ceil", {}, np.ceil(NUMBERS)),
    ],
)
def test_what_rounds_nothing(name: str, attributes: dict[str, float], expected: Array) -> None:
    result = neuron.FUNCTIONS[name](ALL_FP16, **attributes)
    exact = np.abs(NUMBERS) >= 2.0**-13 if name == "leaky_relu" else np.full(NUMBERS.shape, fill_value=True)
    np.testing.assert_array_equal(result[exact], fitting(expected)[exact])


def test_a_slope_rounds_once_and_keeps_subnormals() -> None:
    assert neuron.leaky_relu(np.array([-(2.0**-24)]), alpha=0.5).tolist() == [-(2.0**-24)], "a tie goes away from zero"
    assert neuron.leaky_relu(np.array([-2049.0 * 2]), alpha=0.5).tolist() == [-2048.0]
    assert neuron.clamped_relu(np.array([-4.0, 4.0]), alpha=-2.0, beta=3.0).tolist() == [3.0, 3.0]
    slopes = neuron.prelu(np.full((1, 2, 2), -1.0), np.array([0.5, 2.0]))
    assert slopes.tolist() == [[[-0.5, -0.5], [-2.0, -2.0]]]


def test_rounding_is_wrong_from_1024_to_2047_and_just_below_a_half() -> None:
    whole = np.arange(0.0, 4096.0)
    whole = whole[whole == whole.astype(np.float16)]
    wrong = whole[neuron.nearest(whole) != whole]
    assert wrong.tolist() == list(np.arange(1024.0, 2048.0))
    assert neuron.nearest(np.array([0.5 - 2.0**-12, 0.25, 0.5, 1.5, -0.5, -1.5])).tolist() == [1, 0, 1, 2, -1, -2]


def test_rounding_is_symmetric_as_it_was_measured() -> None:
    assert neuron.nearest(np.array([1024.0, 1025.0, -2047.0, -3.5])).tolist() == [1025.0, 1026.0, -2048.0, -4.0]
    finite = FINITE.astype(np.float64)
    np.testing.assert_array_equal(neuron.nearest(-finite), -neuron.nearest(finite))
    assert not np.signbit(neuron.nearest(np.array([-0.25]))).any()


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) & set(neuron.FUNCTIONS) - {"gelu", "inverse", "log", "rsqrt"}))
def test_tables_are_operations(name: str) -> None:
    np.testing.assert_array_equal(neuron.FUNCTIONS[name](FINITE), ACTIVATIONS[name](FINITE.astype(np.float64)))


def test_epsilon_is_added_in_fp16() -> None:
    x = np.array([1.0, 2.0**-12, 2048.0])
    sums = (x + float(np.float16(1e-4))).astype(np.float16).astype(np.float64)
    added = ACTIVATIONS["inverse"](sums)
    assert (sums != x).tolist() == [False, True, False]
    np.testing.assert_array_equal(neuron.FUNCTIONS["inverse"](x, epsilon=1e-4), added)
    np.testing.assert_array_equal(neuron.FUNCTIONS["rsqrt"](x, epsilon=1e-12), ACTIVATIONS["rsqrt"](x))
    assert neuron.FUNCTIONS["inverse"](np.array([-0.0]), epsilon=0.0).tolist() == [INF]


def test_gelu_has_one_table_for_two_forms() -> None:
    by_tanh = neuron.gelu(FINITE, mode="TANH_APPROXIMATION")
    np.testing.assert_array_equal(neuron.gelu(FINITE, mode="EXACT"), by_tanh)
    by_sigmoid = neuron.gelu(np.array([0.0, 1.0]), mode="SIGMOID_APPROXIMATION")
    assert by_sigmoid.tolist() == [0.0, float(np.float16(1 / (1 + np.exp(-1.702))))]


def test_softplus_falls_to_zero_where_its_exponential_overflows() -> None:
    x = FINITE[(FINITE > 1) & (FINITE < 20)].astype(np.float64)
    result = neuron.softplus(x)
    assert x[result == 0].min() == x[ACTIVATIONS["exp"](x) == INF].min()
    assert f"{x[result == 0].min():.2f}" == "11.09"
    assert (np.abs(result - np.logaddexp(0, x))[result != 0] < 0.02).all()
    assert neuron.softplus(np.array([INF])).tolist() == [0.0]


def test_softsign_at_infinity_is_zero() -> None:
    assert neuron.softsign(np.array([INF, 0.0, 1.0, -3.0])).tolist() == [0.0, 0.0, 0.5, -0.75]


def test_compositions_round_every_step() -> None:
    x = np.array([2.0, -2.0])
    assert neuron.linear_activation(np.array([683.0]), alpha=3.0, beta=1.0).tolist() == [2052.0]
    assert neuron.sigmoid_hard(np.array([-9.0, 0.0, 9.0]), alpha=0.25, beta=0.5).tolist() == [0.0, 0.5, 1.0]
    tangent = ACTIVATIONS["tanh"](x)
    assert neuron.scaled_tanh(x, alpha=2.0, beta=1.0).tolist() == (2 * tangent).tolist()
    soft = neuron.softplus_parametric(x.reshape(1, 1, 2), np.array([2.0]), np.array([1.0]))
    assert soft.ravel().tolist() == (2 * neuron.softplus(x)).tolist()


def test_sine_and_cosine() -> None:
    x = np.linspace(-8, 8, 524_288).astype(np.float16).astype(np.float64)
    assert f"{np.abs(ACTIVATIONS['sin'](x) - np.sin(x)).max():.1e}" == "6.3e-04", "the published largest error"
    np.testing.assert_array_equal(ACTIVATIONS["sin"](-x), -ACTIVATIONS["sin"](x))
    np.testing.assert_array_equal(ACTIVATIONS["cos"](-x), ACTIVATIONS["cos"](x))
    assert np.abs(ACTIVATIONS["cos"](x) - np.cos(x)).max() < 7e-4
    assert ACTIVATIONS["cos"](np.array([0.0, INF])).tolist() == [1.0, 0.0]


def test_logarithms() -> None:
    powers = 2.0 ** np.arange(-24, 16)
    np.testing.assert_array_equal(ACTIVATIONS["log2"](powers), np.arange(-24, 16))
    assert ACTIVATIONS["log2"](np.array([0.0, -1.0, INF])).tolist() == [-INF, 0.0, 0.0]
    assert ACTIVATIONS["log"](np.array([INF])).tolist() == [0.0]


def test_nothing_is_ever_nan() -> None:
    numbers = {"alpha": 0.5, "beta": 1.0}
    for name, function in neuron.FUNCTIONS.items():
        if name in ("prelu", "softplus_parametric"):
            continue
        attributes: dict[str, Any] = {"mode": "EXACT"} if name == "gelu" else {}
        if name in ("inverse", "log", "rsqrt"):
            attributes = {"epsilon": 1e-4}
        if name in ("clip", "clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard"):
            attributes = dict(numbers)
        if name in ("leaky_relu", "threshold", "thresholded_relu"):
            attributes = {"alpha": 0.5}
        result = function(ALL_FP16, **attributes)
        assert not np.isnan(result).any(), name
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result, result.astype(np.float16).astype(np.float64), err_msg=name)

"""The activation tables against every extreme that was published for a real chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.rounding import to_fp16

Array = npt.NDArray[Any]
POINTS = 524_288
EPSILON = float(np.float16(1e-4))


def half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float64)


def exact_gelu(x: Array) -> Array:
    return x * special.ndtr(x)


def exact_silu(x: Array) -> Array:
    return x * special.expit(x)


def inverse_with_epsilon(x: Array) -> Array:
    """Return what the operation computes: it adds its epsilon first."""
    return ACTIVATIONS["inverse"](to_fp16(x + EPSILON))


def error_in_steps(answer: Array, truth: Array) -> Array:
    """Return the error in units of the last place of the true value's fp16."""
    exponent = np.maximum(np.floor(np.log2(np.abs(truth) + 1e-300)), -14).astype(np.int64)
    return np.abs(answer - truth) / np.ldexp(1.0, exponent - 10)


Published = tuple[str, Callable[[Array], Array], Callable[[Array], Array], Array, str, str]
BALANCED, WIDE = np.linspace(-8, 8, POINTS), np.linspace(-12, 12, POINTS)
POSITIVE, LARGER = np.geomspace(2**-10, 1000, POINTS), np.geomspace(2**-6, 1000, POINTS)
PUBLISHED: list[Published] = [
    ("gelu", ACTIVATIONS["gelu"], exact_gelu, BALANCED, "6.159e-03", "12632.0"),
    ("silu", ACTIVATIONS["silu"], exact_silu, WIDE, "1.491e-02", "28560.0"),
    ("sigmoid", ACTIVATIONS["sigmoid"], special.expit, WIDE, "3.355e-03", "810.8"),
    ("tanh", ACTIVATIONS["tanh"], np.tanh, BALANCED, "1.613e-03", "11.0"),
    ("exp", ACTIVATIONS["exp"], np.exp, np.linspace(-12, 10, POINTS), "1.008e+02", "9.1"),
    ("log", ACTIVATIONS["log"], np.log, POSITIVE, "6.638e-03", "91.0"),
    ("sqrt", ACTIVATIONS["sqrt"], np.sqrt, POSITIVE, "1.810e-02", "1.2"),
    ("rsqrt", ACTIVATIONS["rsqrt"], lambda x: 1 / np.sqrt(x), LARGER, "8.139e-03", "2.1"),
    ("inverse", inverse_with_epsilon, lambda x: 1 / x, LARGER, "4.375e-01", "13.5"),
    ("erf", ACTIVATIONS["erf"], special.erf, np.linspace(-2, 2, POINTS)[1:-1], "8.642e-04", "3.0"),
]


@pytest.mark.parametrize("case", PUBLISHED, ids=[case[0] for case in PUBLISHED])
def test_published_extremes(case: Published) -> None:
    name, function, exact, points, largest, steps = case
    x = half(points)
    x = x[np.abs(x) < 2] if name == "erf" else x
    answer, truth = function(x), exact(x)
    assert f"{np.abs(answer - truth).max():.3e}" == largest
    assert f"{error_in_steps(answer, truth).max():.1f}" == steps


@pytest.mark.parametrize(
    ("name", "x", "result"),
    [
        ("gelu", 0.0, -0.0007538795471191406),
        ("gelu", -4.5, 0.0),
        ("gelu", 5.0, 5.0),
        ("silu", -10.203125, 0.0),
        ("sigmoid", -9.9375, 0.0),
        ("sigmoid", 8.3203125, 1.0),
        ("tanh", 4.0, 1.0),
        ("tanh", -6.0, -1.0),
        ("exp", 11.09375, np.inf),
        ("exp", 0.0, 1.0),
        ("sqrt", 4.0, 2.0),
        ("rsqrt", 0.25, 2.0),
        ("inverse", -2.0, -0.5),
        ("log", 1.0, 0.0),
        ("log", 0.0, -45440.0),
        ("log", -1.0, 0.0),
        ("sqrt", -1.0, 0.0),
        ("rsqrt", -1.0, 0.0),
        ("rsqrt", -0.0, np.inf),
        ("inverse", -0.0, np.inf),
        ("inverse", np.inf, 0.0),
        ("exp", 50000.0, np.inf),
        ("exp", -50000.0, 0.0),
        ("exp2", np.nan, np.inf),
        ("gelu", np.nan, np.inf),
        ("tanh", -np.inf, -1.0),
        ("tanh", -np.nan, -1.0),
    ],
)
def test_known_values(name: str, x: float, result: float) -> None:
    assert ACTIVATIONS[name](np.array([x]))[0] == result


@pytest.mark.parametrize("name", ["tanh", "erf", "inverse"])
def test_odd_functions_are_odd(name: str) -> None:
    x = half(np.linspace(0.01, 1.9, 4001))
    np.testing.assert_array_equal(ACTIVATIONS[name](-x), -ACTIVATIONS[name](x))


def test_results_are_fp16() -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    for name, function in ACTIVATIONS.items():
        y = function(x.astype(np.float64))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y, y.astype(np.float16).astype(np.float64), err_msg=name)

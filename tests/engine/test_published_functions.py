"""What was published of functions of one element, through compiled programs: extremes, cliffs, special values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import special

import aneforge as af
from aneforge.engine.exactness import Exactness
from published_tools import MEASURED, along_row, from_bits, halves, input_of, output_on, run_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from published_tools import Array

    Function = Callable[[af.Tensor], af.Tensor]
    Extreme = tuple[str, Function, Callable[[Array], Array], Array, str, str]
    """Name, operation, mathematics, points, largest error, largest error in units of the last place."""

POINTS = 524_288
INFINITY, QUIET_NAN = (float(one) for one in from_bits(0x7C00, 0x7E00))
LEAST = 2.0**-10

every_chip = pytest.mark.parametrize("chip", MEASURED)


def exact_gelu(x: Array) -> Array:
    return x * special.ndtr(x)


def exact_tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def exact_silu(x: Array) -> Array:
    return x * special.expit(x)


def exact_reciprocal(x: Array) -> Array:
    return 1 / x


def exact_reciprocal_root(x: Array) -> Array:
    return 1 / np.sqrt(x)


def gelu_by_tanh(x: af.Tensor) -> af.Tensor:
    return x.apply("gelu", mode="TANH_APPROXIMATION")


def inverse_of_mil(x: af.Tensor) -> af.Tensor:
    """Return the operation as MIL has it, with its default epsilon."""
    return x.inverse(eps=1e-4)


BALANCED, LARGER = np.linspace(-8, 8, POINTS), np.geomspace(2.0**-6, 1000, POINTS)
POSITIVE, WIDE = np.geomspace(LEAST, 1000, POINTS), np.linspace(-12, 12, POINTS)
EXTREMES: list[Extreme] = [
    ("gelu", af.Tensor.gelu, exact_gelu, BALANCED, "6.159e-03", "12632.0"),
    ("gelu_tanh", gelu_by_tanh, exact_tanh_gelu, BALANCED, "6.158e-03", "12632.0"),
    ("silu", af.Tensor.silu, exact_silu, WIDE, "1.491e-02", "28560.0"),
    # 810.8 steps are reached at −9.9375, so the points of sigmoid went beyond 8; within it would be 63.9.
    ("sigmoid", af.Tensor.sigmoid, special.expit, WIDE, "3.355e-03", "810.8"),
    ("tanh", af.Tensor.tanh, np.tanh, BALANCED, "1.613e-03", "11.0"),
    ("exp", af.Tensor.exp, np.exp, np.linspace(-12, 10, POINTS), "1.008e+02", "9.1"),
    ("log", af.Tensor.log, np.log, POSITIVE, "6.638e-03", "91.0"),
    ("sqrt", af.Tensor.sqrt, np.sqrt, POSITIVE, "1.810e-02", "1.2"),
    ("rsqrt", af.Tensor.rsqrt, exact_reciprocal_root, LARGER, "8.139e-03", "2.1"),
    ("inverse", inverse_of_mil, exact_reciprocal, LARGER, "4.375e-01", "13.5"),
    ("erf", af.Tensor.erf, special.erf, BALANCED, "8.642e-04", "3.0"),
]


@pytest.mark.parametrize("case", EXTREMES, ids=[case[0] for case in EXTREMES])
def test_extremes_that_were_published_for_the_m6(
    case: tuple[str, Function, Callable[[Array], Array], Array, str, str],
) -> None:
    name, function, exact, points, largest, steps = case
    x = halves(points).reshape(512, -1)
    answer = output_on("M6", function(input_of(*x.shape)), x).astype(np.float64)
    inside = np.abs(x) < 2 if name == "erf" else np.full(x.shape, fill_value=True)
    wide = x.astype(np.float64)[inside]
    truth = exact(wide)
    errors = np.abs(answer[inside] - truth)
    exponent = np.maximum(np.floor(np.log2(np.abs(truth) + 1e-300)), -14).astype(np.int64)
    in_steps = errors / np.ldexp(1.0, exponent - 10)
    assert (f"{errors.max():.3e}", f"{in_steps.max():.1f}") == (largest, steps)
    places = {"gelu_tanh": -(2.0**-16), "exp": 9.703}
    if name in places:
        assert wide[in_steps.argmax()] == pytest.approx(places[name], abs=1e-3 * abs(places[name]))


@every_chip
def test_gelu_at_its_ends_and_in_the_middle(chip: str) -> None:
    x = [0.0, -4.0, -4.00390625, 4.0, 5.0, 3.998046875]
    found = along_row(chip, af.Tensor.gelu, x)
    assert found[0] == pytest.approx(-0.00075388, abs=5e-9)
    assert found[1:5] == [0.0, 0.0, 4.0, 5.0]
    assert along_row(chip, gelu_by_tanh, x) == found
    label = run_on(chip, input_of(1, 6).gelu(), halves(x)[None]).label
    assert label.exactness is (Exactness.MODELLED if chip == "M5 Pro" else Exactness.EXACT)  # no figure is an M5 Pro's


@every_chip
def test_tails_of_silu_and_sigmoid(chip: str) -> None:
    assert along_row(chip, af.Tensor.silu, [-10.203125, -11, 8, 9]) == [0.0, 0.0, 8.0, 9.0]
    assert along_row(chip, af.Tensor.silu, [-10.1953125])[0] < 0
    assert along_row(chip, af.Tensor.sigmoid, [-9.9375, -12, 8.3203125, 12]) == [0.0, 0.0, 1.0, 1.0]
    assert along_row(chip, af.Tensor.sigmoid, [-9.9296875])[0] > 0


@every_chip
def test_exponentials_overflow_at_11_094_and_softplus_falls_to_zero_there(chip: str) -> None:
    last, first = 11.0859375, 11.09375  # neighbours in fp16
    found = along_row(chip, af.Tensor.exp, [last, first])
    assert found[0] < np.inf
    assert found[1] == np.inf
    assert along_row(chip, af.Tensor.softplus, [last, first, 12, 100]) == [last, 0.0, 0.0, 0.0]


@every_chip
@pytest.mark.parametrize("name", ["sin", "cos", "softplus", "elu"])
def test_functions_that_are_not_determined_are_modelled(chip: str, name: str) -> None:
    function = getattr(af.Tensor, name)
    assert run_on(chip, function(input_of(1, 2)), halves([[0.5, 1]])).label.exactness is Exactness.MODELLED


def test_erf_is_modelled_beyond_its_table() -> None:
    graph = input_of(1, 1).erf()
    assert run_on("M6", graph, halves([[1.5]])).label.exactness is Exactness.EXACT
    assert run_on("M6", graph, halves([[2.25]])).label.exactness is Exactness.MODELLED


@every_chip
@pytest.mark.parametrize("name", ["relu", "abs", "sign", "square"])
def test_functions_without_a_table_are_exact(chip: str, name: str) -> None:
    function = getattr(af.Tensor, name)
    assert run_on(chip, function(input_of(1, 2)), halves([[0.5, -1]])).label.exactness is Exactness.EXACT


# Pairs of elements.


@every_chip
def test_pairs_round_half_away_and_keep_subnormals(chip: str) -> None:
    x, y = input_of(1, 3), input_of(1, 3, name="y")
    pair = halves([[2048, -2048, 2.0**-12]]), halves([[1, -1, 2.0**-12]])
    assert output_on(chip, x + y, *pair).ravel().tolist()[:2] == [2050.0, -2050.0]
    assert output_on(chip, x * y, *pair).ravel()[2] == 2.0**-24
    assert output_on(chip, x - y, halves([[60000, 1, 1]]), halves([[-5000, 1, 1]])).ravel()[0] == 64992
    assert output_on(chip, x - y, halves([[60000, 1, 1]]), halves([[-6000, 1, 1]])).ravel()[0] == np.inf
    assert output_on(chip, af.maximum(x, y), *pair).ravel().tolist() == [2048.0, -1.0, 2.0**-12]


@every_chip
def test_separate_operations_round_separately(chip: str) -> None:
    x, y = input_of(1, 1), input_of(1, 1, name="y")
    # 2048 + 1 is 2050 and 1 less is 2049, a tie again: two roundings; one would give 2048.
    assert output_on(chip, (x + y) - y, halves([[2048]]), halves([[1]])).item() == 2050


# Special values, as one chip gave them.


@pytest.mark.parametrize(
    ("function", "x", "result"),
    [
        (af.Tensor.relu, QUIET_NAN, INFINITY),
        (af.Tensor.abs, QUIET_NAN, INFINITY),
        (af.Tensor.sqrt, -1.0, 0.0),
        (af.Tensor.rsqrt, -1.0, 0.0),
        (af.Tensor.log, -1.0, 0.0),
        (af.Tensor.inverse, -0.0, INFINITY),
        (af.Tensor.log, 0.0, -45440.0),
        (af.Tensor.square, 256.0, INFINITY),
        (af.Tensor.square, 255.875, 65472.0),
        (af.Tensor.softplus, INFINITY, 0.0),
        (af.Tensor.softsign, INFINITY, 0.0),
    ],
)
def test_special_values_of_functions(function: Function, x: float, result: float) -> None:
    assert along_row("M1", function, [x]) == [result]


def test_special_values_of_pairs() -> None:
    x, y = input_of(1, 1), input_of(1, 1, name="y")
    infinite, zero = np.array([[np.inf]], np.float16), np.zeros((1, 1), np.float16)
    assert output_on("M1", x - y, infinite, infinite).item() == 0.0
    assert output_on("M1", x * y, zero, infinite).item() == 0.0
    assert output_on("M1", x + y, np.full((1, 1), np.nan, np.float16), zero).item() == np.inf


@every_chip
def test_rounding_adds_a_half_in_fp16(chip: str) -> None:
    assert along_row(chip, af.Tensor.round, [1023, 1024, 1025, 2046, 2048]) == [1023.0, 1025.0, 1026.0, 2047.0, 2048.0]

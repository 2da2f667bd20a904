"""What was published of products, through compiled programs: the grid, the edge, the bias, Winograd and where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.fingerprint_recipes import read_published
from aneforge.compiler.compile import build_program
from aneforge.engine import golden
from aneforge.engine.exactness import Exactness
from aneforge.engine.rounding import decode_operand, to_fp16
from published_tools import MEASURED, dot, from_bits, halves, input_of, output_on, run_on

if TYPE_CHECKING:
    from published_tools import Array

GRID = 2.0**-16
ALMOST_TWO = 2 - 2.0**-10
WINOGRAD = ("M5", "M5 Pro", "M6")
DIRECT = ("M1", "M1 Max", "M2", "M2 Pro", "M4")

every_chip = pytest.mark.parametrize("chip", MEASURED)


def product(chip: str, x: float, w: float) -> float:
    """Return one product; a second term of zero keeps it from being a scaling of one channel."""
    return dot(chip, [x, 0], [w, 0])


@every_chip
def test_subnormals_have_exponent_minus_14_and_are_neither_normalised_nor_flushed(chip: str) -> None:
    # 2^-15 · 2^-2: with exponents −14 and −2 it stays, and half of the grid rounds up; normalised it would be dropped.
    assert product(chip, 2.0**-15, 2.0**-2) == GRID
    assert product(chip, 2.0**-24, 2.0**8) == GRID
    assert product(chip, 2.0**-15, 2.0**-3) == 0.0


@every_chip
def test_exponent_31_is_an_ordinary_exponent(chip: str) -> None:
    infinity, quiet, largest = from_bits(0x7C00, 0x7E00, 0x7FFF)
    assert product(chip, infinity, 2.0**-2) == 2.0**14
    assert product(chip, quiet, 2.0**-3) == 1.5 * 2.0**13
    assert product(chip, largest, 2.0**-3) == 131008 / 8
    assert product(chip, -infinity, 2.0**-2) == -(2.0**14)


@every_chip
def test_a_product_is_dropped_by_its_exponents_alone(chip: str) -> None:
    assert product(chip, ALMOST_TWO * 2.0**-9, ALMOST_TWO * 2.0**-8) == 0.0  # almost 2^-15
    assert product(chip, 2.0**-8, 2.0**-8) == GRID


@every_chip
@pytest.mark.parametrize(("factor", "steps"), [(1.5, 2), (-1.5, -2), (2.5, 3), (1.25, 1), (1.75, 2)])
def test_a_product_is_rounded_half_away_to_the_grid(chip: str, factor: float, steps: int) -> None:
    assert product(chip, 2.0**-8, factor * 2.0**-8) == steps * GRID


@every_chip
def test_a_sum_is_exact_in_any_order(chip: str) -> None:
    terms = np.array([16384, 2.0**-8, -16384, 2.0**-8, -4096, 4096])
    weights = np.array([1, 2.0**-8, 1, 2.0**-8, 1, 1])
    for turn in range(len(terms)):
        assert dot(chip, np.roll(terms, turn), np.roll(weights, turn)) == 2 * GRID


@every_chip
@pytest.mark.parametrize("count", [4, 8, 16, 32, 64, 128])
def test_32752_is_finite_and_32768_infinite(chip: str, count: int) -> None:
    ones = np.ones(count)
    for sign in (1, -1):
        assert dot(chip, np.full(count, sign * 32752 / count), ones) == sign * 32752
        assert dot(chip, np.full(count, sign * 32768 / count), ones) == sign * np.inf


@every_chip
@pytest.mark.parametrize("form", ["linear", "matmul", "convolution"])
def test_the_edge_is_the_same_in_every_form(chip: str, form: str) -> None:
    """The bisected cliff is 32,758.8: what rounds to 32,768, from 32,760 on, is infinite too."""
    for last, result in ((7.0, 32752.0), (7.996, 32752.0), (8.0, np.inf), (9.0, np.inf)):
        terms, ones = halves([16376, 16376, last]), halves([1, 1, 1])
        match form:
            case "linear":
                found = dot(chip, terms, ones)
            case "matmul":
                graph = input_of(1, 3) @ input_of(3, 1, name="w")
                found = output_on(chip, graph, terms[None], ones[:, None]).item()
            case _:
                graph = af.conv(input_of(1, 3, 1, 1), ones[None, :, None, None])
                found = output_on(chip, graph, terms[None, :, None, None]).item()
        assert found == result


def test_a_sum_that_passed_the_edge_stays_infinite_and_the_order_is_modelled() -> None:
    x = halves([[20000, 20000, -20000]])
    found = run_on("M4", input_of(1, 3).linear(halves([[1, 1, 1]])), x)
    assert found.outputs["y"].item() == np.inf
    assert found.label.exactness is Exactness.MODELLED


@every_chip
def test_small_results_are_kept_as_multiples_of_the_grid(chip: str) -> None:
    for count in (2, 3, 5):
        assert dot(chip, np.full(count, 2.0**-8), np.full(count, 2.0**-8)) == count * GRID


@every_chip
def test_a_bias_is_the_rounded_start_of_the_sum_and_part_of_its_range(chip: str) -> None:
    assert dot(chip, [0, 0], [1, 1], bias=2.0**-17) == GRID
    assert dot(chip, [0, 0], [1, 1], bias=-(2.0**-17)) == -GRID
    assert dot(chip, [0, 0], [1, 1], bias=2.0**-18) == 0.0
    assert dot(chip, [8, 0], [1, 1], bias=32752) == np.inf
    assert dot(chip, [-8, 0], [1, 1], bias=32752) == 32752  # 32744 is a tie between 32736 and 32752
    assert dot(chip, [2048, 0], [1, 1], bias=1) == 2050  # the sum of 2049 rounds once


@every_chip
def test_a_rectifier_takes_the_rounded_sum(chip: str) -> None:
    graph = input_of(2, 2).linear(halves([[1, 1]])).relu()
    assert output_on(chip, graph, halves([[2048, 1], [-2048, -1]])).ravel().tolist() == [2050.0, 0.0]


def test_one_channel_under_a_1x1_kernel_is_a_scaling_and_passes_60000() -> None:
    graph = af.conv(input_of(1, 1, 1, 1), halves([[[[2.0]]]]))
    found = run_on("M1", graph, halves([[[[30000]]]]))
    assert found.outputs["y"].item() == 60000
    assert found.label.exactness is Exactness.MODELLED


def test_errors_grow_faster_than_the_contraction() -> None:
    """Operands scaled by 1/√K: 0.26% at 512, and more than twice as much at twice the length."""
    figures = read_published().fingerprints
    errors = {figure.size: figure.error for figure in figures if figure.workload.endswith("linear")}
    assert errors[512] == pytest.approx(0.0026, abs=5e-5)
    assert errors[512] / errors[256] > 2
    assert errors[1024] / errors[512] > 2


def winograd_row(x: Array, kernel: Array) -> list[float]:
    """Return one row of a 3×3 convolution by Winograd, element by element, from the published steps alone."""

    def h(value: float) -> float:
        return float(to_fp16(np.asarray(value)))

    def m(a: float, b: float) -> float:
        return float(golden.product(decode_operand(halves(a)), decode_operand(halves(b))))

    padded = np.pad(x.astype(np.float64), 1)
    width = x.shape[1]
    result: list[float] = []
    for start in range(0, width, 2):
        sums = [0.0] * 4
        for row in range(3):
            d = [float(one) for one in padded[row, start : start + 4]]
            g = [float(one) for one in kernel[row].astype(np.float64)]
            data = (h(d[0] - d[2]), h(d[1] + d[2]), h(d[2] - d[1]), h(d[1] - d[3]))
            taps = (h(g[0]), h((g[0] + g[1] + g[2]) / 2), h((g[0] - g[1] + g[2]) / 2), h(g[2]))
            sums = [total + m(a, b) for total, a, b in zip(sums, data, taps, strict=True)]
        result += [h(sums[0] + sums[1] + sums[2]), h(sums[1] - sums[2] - sums[3])]
    return result


@pytest.mark.parametrize("chip", WINOGRAD)
@pytest.mark.parametrize("width", [2, 4, 8])
def test_winograd_on_the_width_even_for_one_channel(chip: str, width: int) -> None:
    generator = np.random.default_rng(width)
    x, kernel = halves(generator.standard_normal((1, width))), halves(generator.standard_normal((3, 3)) / 3)
    graph = af.conv(input_of(1, 1, 1, width), kernel[None, None], pad=1)
    found = run_on(chip, graph, x[None, None])
    assert found.outputs["y"].ravel().tolist() == winograd_row(x, kernel)
    assert found.label.exactness is Exactness.EXACT


@pytest.mark.parametrize("chip", DIRECT)
def test_the_direct_form_elsewhere(chip: str) -> None:
    generator = np.random.default_rng(3)
    x, kernel = halves(generator.standard_normal((2, 5, 6, 8))), halves(generator.standard_normal((4, 5, 3, 3)) / 6)
    found = run_on(chip, af.conv(input_of(*x.shape), kernel, pad=1), x)
    np.testing.assert_array_equal(found.outputs["y"], golden.convolution(x, kernel, pad=1))
    assert found.label.exactness is Exactness.EXACT


@pytest.mark.parametrize("chip", WINOGRAD)
@pytest.mark.parametrize(
    ("width", "kernel", "window"),
    [(8, 3, {"stride": 2}), (8, 3, {"dilation": 2}), (8, 3, {"groups": 2}), (7, 3, {}), (8, 5, {})],
)
def test_what_no_figure_tells_of_winograd_is_modelled(
    chip: str, width: int, kernel: int, window: dict[str, int]
) -> None:
    weights = halves(np.ones((2, 2 // window.get("groups", 1), kernel, kernel)))
    graph = af.conv(input_of(1, 2, 8, width), weights, pad=1, **window)
    assert run_on(chip, graph, np.ones((1, 2, 8, width))).label.exactness is Exactness.MODELLED


def test_where_winograd_is_chosen() -> None:
    graph = af.conv(input_of(1, 4, 8, 8), halves(np.ones((4, 4, 3, 3))), pad=1)
    for chip in MEASURED:
        (layer,) = build_program(graph, f"soc:{chip}").layers
        assert layer.choices["winograd"] is (chip in WINOGRAD)

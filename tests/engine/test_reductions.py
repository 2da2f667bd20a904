"""Reductions: an independent adder of single numbers, the published edges, and what rounds nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import reductions
from aneforge.engine.choices import AdderChoice, choices
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.rounding import to_fp16
from aneforge.targets import group, resolve
from op_calls import value_of

Array = npt.NDArray[Any]
ORDERS = choices().reduction.orders
EVIDENCE = ORDERS["early"].evidence
ADDERS = {
    **ORDERS,
    "pairs": AdderChoice(group=1, tree=4, window=0, evidence=EVIDENCE),
    "exact": AdderChoice(group=1, tree=1, window=0, evidence=EVIDENCE),
    "window": AdderChoice(group=4, tree=8, window=12, evidence=EVIDENCE),
}
VALUES = st.lists(st.floats(-300, 300, width=16), min_size=1, max_size=150)


def half(value: float) -> float:
    return float(to_fp16(np.array(value)))


def cut(terms: list[float], window: int) -> list[float]:
    """Return numbers cut towards zero after the window of the largest."""
    largest = max(abs(term) for term in terms)
    if not window or not largest:
        return terms
    step = 2.0 ** (max(int(np.floor(np.log2(largest))), -14) - window + 1)
    return [int(term / step) * step for term in terms]


def added_one_by_one(values: list[float], adder: AdderChoice) -> float:
    """Add numbers as the model says, with nothing but Python's own."""
    if adder.chain:
        return added_in_chains(values, adder)
    groups = [values[place : place + adder.group] for place in range(0, len(values), adder.group)]
    nodes = [half(sum(cut(one, adder.window))) for one in groups]
    total = 0.0
    for place in range(0, len(nodes), adder.tree):
        tree = nodes[place : place + adder.tree]
        tree += [0.0] * (adder.tree - len(tree))
        while len(tree) > 1:
            tree = [half(sum(cut(tree[one : one + 2], adder.window))) for one in range(0, len(tree), 2)]
        total += tree[0]
    return total


def added_in_chains(values: list[float], adder: AdderChoice) -> float:
    """Add numbers in chains of chains, every sum rounded half away from zero to some bits."""
    for _ in range(adder.times):
        sums: list[float] = []
        for place in range(0, len(values), adder.chain):
            total, *others = values[place : place + adder.chain]
            for one in others:
                total = significant(total + one, adder.bits)
            sums.append(total)
        values = sums
    return sum(values)


def significant(value: float, bits: int) -> float:
    """Round to some significant bits, ties away from zero."""
    if value == 0:
        return 0.0
    step = Fraction(2) ** (math.frexp(value)[1] - bits)
    return math.copysign(float(math.floor(abs(Fraction(value)) / step + Fraction(1, 2)) * step), value)


@pytest.mark.parametrize("name", ADDERS)
@settings(max_examples=60)
@given(values=VALUES)
def test_the_adder(name: str, values: list[float]) -> None:
    total = reductions.accumulate(np.array([values]), (1,), ADDERS[name]).item()
    assert total == added_one_by_one(values, ADDERS[name])


@pytest.mark.parametrize("target", group("all"), ids=str)
def test_whole_numbers_add_exactly_to_2048(target: Any) -> None:  # noqa: ANN401 - pytest gives a target
    total = arithmetic("reduce_sum", target)
    for want in (2047, 2048):
        rows = np.zeros((1, 8), np.float16)
        rows[0, :] = want // 8
        rows[0, 0] += want % 8
        assert total.compute({"x": rows}, {"axes": (-1,)})[0].item() == want
    rows = np.array([[256, 256, 256, 256, 256, 256, 256, 257]], np.float16)
    assert total.compute({"x": rows}, {"axes": (-1,)})[0].item() == 2050, "2049 is a tie"


def test_the_full_range_is_kept() -> None:
    x = np.array([[65504.0, 0.0], [65504.0, 16.0]])
    assert reductions.total(x, (1,), ORDERS["early"]).ravel().tolist() == [65504.0, np.inf]


@pytest.mark.parametrize("axes", [(0,), (1,), (-1,), (0, 2), None, (2, 0)])
def test_axes_are_taken_in_their_order(axes: tuple[int, ...] | None) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 70)).astype(np.float16)
    found = arithmetic("reduce_sum", resolve("m1")).compute({"x": x}, {"axes": axes, "keep_dims": True})[0]
    reduced = sorted(axis % 3 for axis in (range(3) if axes is None else axes))
    kept = [axis for axis in range(3) if axis not in reduced]
    rows = x.transpose(*kept, *reduced).reshape(*(x.shape[axis] for axis in kept), -1)
    expected = [half(added_one_by_one(row.tolist(), ORDERS["early"])) for row in rows.reshape(-1, rows.shape[-1])]
    assert found.ravel().tolist() == expected
    assert found.shape == tuple(1 if axis in reduced else extent for axis, extent in enumerate(x.shape))


def test_a_mean_is_scaled_once_in_fp32() -> None:
    x = np.full((1, 3), 2049.0 / 3).astype(np.float16)
    assert reductions.mean(x, (1,), ADDERS["exact"]).item() == half(
        float(x.astype(np.float64).sum()) * float(np.float32(1 / 3))
    )
    assert reductions.mean(np.full((1, 4), 60000.0), (1,), ADDERS["exact"]).item() == 60000.0, "the sum is not fp16"


@pytest.mark.parametrize(
    "name",
    [
        "reduce_l1_norm",
        "reduce_l2_norm",
        "reduce_log_sum",
        "reduce_log_sum_exp",
        "reduce_mean",
        "reduce_sum",
        "reduce_sum_square",
        "sq_after_reduce",
    ],
)
@pytest.mark.parametrize("target", ["m1", "m5"])
def test_reductions_come_near_to_their_meaning(name: str, target: str) -> None:
    x = np.random.default_rng(1).uniform(0.1, 2, (4, 96)).astype(np.float16)
    (found,) = arithmetic(name, resolve(target)).compute({"x": x}, {"axes": (-1,)})
    meant = value_of(name, x.astype(np.float64), axes=(-1,))
    np.testing.assert_allclose(found.astype(np.float64), meant, rtol=8e-3)


def test_what_is_made_of_a_sum_is_made_step_by_step() -> None:
    x = np.array([[3.0, 4.0]])
    adder = ADDERS["exact"]
    assert reductions.length(x, (1,), adder).item() == 5.0
    assert reductions.total_of_magnitudes(-x, (1,), adder).item() == 7.0
    assert reductions.square_of_total(np.array([[250.0, 0.25]]), (1,), adder).item() == 62624.0, "seen on three chips"
    assert reductions.log_of_total_of_powers(np.array([[9000.0, 9000.0]]), (1,), adder).item() == half(9000 + np.log(2))


def test_extremes_round_nothing() -> None:
    x = np.array([[1.0, np.inf, -2.0], [np.nan, 0.5, 3.0]])
    assert reductions.largest(x, axes=(1,), keep_dims=False).tolist() == [np.inf, np.inf]
    assert reductions.smallest(x, axes=None, keep_dims=False).tolist() == -2.0
    places = reductions.FUNCTIONS["reduce_argmax"](x, axis=1, keep_dims=True, output_dtype="int32")
    assert places.tolist() == [[1], [0]]
    assert places.dtype == np.int32


def test_what_one_chip_gave_for_sums_of_unlike_numbers() -> None:
    total = arithmetic("reduce_sum", resolve("m1"))
    ones = np.array([[4096.0] + [1.0] * 1024], np.float16)
    assert total.compute({"x": ones}, {"axes": (-1,)})[0].item() == 5116
    for large in (1000.0, 3070.0, 4090.0):
        rows = np.array([[large, -large, 1.0] * 16], np.float16)
        assert total.compute({"x": rows}, {"axes": (-1,)})[0].item() == 16


def test_a_window_cuts_what_lies_below_it() -> None:
    terms = np.array([4096.0, 1.0, 1.0, 2.0])
    assert reductions.align(terms, 12).tolist() == [4096.0, 0.0, 0.0, 2.0]
    assert reductions.align(terms, 0) is terms
    assert reductions.align(np.zeros(4), 12).tolist() == [0.0] * 4

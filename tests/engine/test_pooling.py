"""Pooling: windows, padding, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine.dispatch import arithmetic
from aneforge.targets import resolve
from op_calls import value_of

Array = npt.NDArray[Any]
WINDOW: dict[str, Any] = {"kernel_sizes": (2, 3), "strides": (2, 1), "pad_type": "custom", "pad": (1, 0, 1, 2)}


def images(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float16)


def pooled(name: str, x: Array, target: str = "m1", **attributes: object) -> Array:
    found = arithmetic(name, resolve(target))
    return found.compute({"x": x}, found.op.complete(attributes))[0]


def test_the_largest_of_a_window_is_one_of_its_values() -> None:
    x = images(2, 3, 6, 8)
    found = pooled("max_pool", x, **WINDOW)
    np.testing.assert_array_equal(found, value_of("max_pool", x.astype(np.float64), **WINDOW))
    assert pooled("max_pool", np.full((1, 1, 2), -np.inf, np.float16), kernel_sizes=(2,)).tolist() == [[[-np.inf]]]


@pytest.mark.parametrize("exclude", [False, True])
def test_an_average_is_a_sum_times_a_reciprocal(exclude: bool) -> None:  # noqa: FBT001 - a parameter of the test
    x = np.array([[[3.0, 1.0, 4.0, 1.0, 5.0]]], np.float16)
    found = pooled(
        "avg_pool", x, kernel_sizes=(3,), pad_type="custom", pad=(1, 1), exclude_padding_from_average=exclude
    )
    sums = np.array([4.0, 8.0, 6.0, 10.0, 6.0])
    counts = np.array([2, 3, 3, 3, 2]) if exclude else np.full(5, 3)
    expected = (sums * (np.float32(1) / counts.astype(np.float32))).astype(np.float16)
    np.testing.assert_array_equal(found[0, 0], expected)


def test_a_global_average_adds_in_the_order_of_the_target() -> None:
    x = np.abs(images(1, 2, 32, 32))
    by_pool = pooled("avg_pool", x, kernel_sizes=(32, 32))[:, :, 0, 0]
    (by_mean,) = arithmetic("reduce_mean", resolve("m1")).compute({"x": x}, {"axes": (2, 3)})
    np.testing.assert_array_equal(by_pool, by_mean)
    error = by_pool.astype(np.float64) / x.astype(np.float64).mean(axis=(2, 3)) - 1
    assert (error > 2e-4).all(), "ties away from zero make it too high, as it was seen to be"


@pytest.mark.parametrize("name", ["avg_pool", "l2_pool"])
def test_sums_of_windows_come_near_to_their_meaning(name: str) -> None:
    x = images(2, 3, 6, 8)
    meant = value_of(name, x.astype(np.float64), **WINDOW)
    np.testing.assert_allclose(pooled(name, x, **WINDOW).astype(np.float64), meant, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(("mode", "name"), [("average", "avg_pool"), ("max", "max_pool"), ("l2", "l2_pool")])
@pytest.mark.parametrize("unit", ["ne_pool", "pe_pool"])
def test_a_unit_pools_as_its_mode_says(unit: str, mode: str, name: str) -> None:
    x = images(1, 2, 6, 8)
    np.testing.assert_array_equal(pooled(unit, x, mode=mode, **WINDOW), pooled(name, x, **WINDOW))

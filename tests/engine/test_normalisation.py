"""Softmax and norms against their steps done one by one, and against the mathematics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aneforge.engine import normalisation
from aneforge.engine.activations import ACTIVATIONS, LOG2_E
from aneforge.engine.choices import AdderChoice, choices
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.rounding import to_fp16
from aneforge.targets import resolve
from op_calls import value_of

Array = npt.NDArray[Any]
EARLY = choices().reduction.orders["early"]
EXACT = AdderChoice(group=1, tree=1, window=0, evidence=EARLY.evidence)


def half(values: Array) -> Array:
    return to_fp16(np.asarray(values))


def rows(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float16).astype(np.float64)


def test_the_steps_of_softmax() -> None:
    x = rows(3, 7)
    t = half((x - x.max(axis=1, keepdims=True)) * 1.4423828125)
    powers = ACTIVATIONS["exp2"](t)
    expected = half(powers * ACTIVATIONS["inverse"](powers.sum(axis=1, keepdims=True)))
    np.testing.assert_array_equal(normalisation.softmax(x, 1, EXACT), expected)


def test_softmax_takes_the_largest_off_first() -> None:
    assert normalisation.softmax(np.array([[60000.0, 60000.0]]), -1, EXACT).tolist() == [[0.5, 0.5]]
    assert normalisation.softmax(np.array([[0.0, -np.inf]]), -1, EXACT).tolist() == [[1.0, 0.0]]


def test_the_sum_of_softmax_is_not_rounded_before_its_reciprocal() -> None:
    x = np.zeros((1, 2049))
    sum_as_it_is = half(ACTIVATIONS["inverse"](np.array([2049.0])))
    sum_in_fp16 = half(ACTIVATIONS["inverse"](np.array([2050.0])))
    result = normalisation.softmax(x, 1, EXACT)[0, 0]
    assert result == sum_as_it_is[0]
    assert result != sum_in_fp16[0]


def test_the_steps_of_a_layer_norm() -> None:
    x = rows(2, 12)
    mean = half(x.sum(axis=1, keepdims=True) * float(np.float32(1 / 12)))
    squares = half((x - mean) ** 2)
    variance = squares.sum(axis=1, keepdims=True) * float(np.float32(1 / 12))
    roots = ACTIVATIONS["rsqrt"](variance + float(np.float32(1e-5)))
    np.testing.assert_array_equal(normalisation.standardise(x, (1,), 1e-5, EXACT), half((x - mean) * roots))


PARAMETERS: dict[str, tuple[tuple[int, ...], list[tuple[int, ...]], dict[str, Any]]] = {
    "softmax": ((3, 40), [], {"axis": -1}),
    "layer_norm": ((3, 4, 10), [(4, 10), (4, 10)], {"axes": (1, 2), "epsilon": 1e-5}),
    "instance_norm": ((2, 3, 5, 7), [(3,), (3,)], {"epsilon": 1e-5}),
    "channel_layer_norm": ((2, 16, 1, 3), [(16,), (16,)], {"epsilon": 1e-5}),
    "group_norm": ((2, 6, 3, 4), [(6,), (6,)], {"num_groups": 3, "epsilon": 1e-5}),
    "l2_norm": ((3, 50), [], {"axes": (-1,), "epsilon": 1e-12}),
    "rms_norm": ((3, 50), [(50,)], {"epsilon": 1e-5}),
}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("target", ["m1", "m4"])
def test_norms_come_near_to_their_meaning(name: str, target: str) -> None:
    shape, parameters, attributes = PARAMETERS[name]
    arrays = [rows(*one) for one in (shape, *parameters)]
    found = arithmetic(name, resolve(target))
    names = [operand.name for operand in found.op.operands]
    halves = {one: array.astype(np.float16) for one, array in zip(names, arrays, strict=False)}
    (result,) = found.compute(halves, attributes)
    np.testing.assert_allclose(result.astype(np.float64), value_of(name, *arrays, **attributes), rtol=6e-3, atol=6e-3)


def test_parameters_may_be_left_out() -> None:
    x = rows(2, 3, 4).astype(np.float16)
    plain = arithmetic("layer_norm", resolve("m1")).compute({"x": x}, {"axes": (2,), "epsilon": 1e-5})[0]
    assert np.abs(plain.astype(np.float64).mean(axis=2)).max() < 2e-3
    np.testing.assert_array_equal(
        arithmetic("instance_norm", resolve("m1")).compute({"x": x}, {"epsilon": 1e-5})[0],
        plain,
        "both normalise the last axis of rank 3",
    )


def test_a_length_below_its_bound_is_the_bound() -> None:
    (result,) = arithmetic("l2_norm", resolve("m1")).compute({"x": np.full((1, 4), 0.5, np.float16)}, {"epsilon": 4.0})
    assert result.tolist() == [[0.25] * 4]


def test_gamma_that_overflows_with_the_root_of_the_extent_warns_of_nothing() -> None:
    found = arithmetic("rms_norm", resolve("h13"))
    operands = {"x": np.ones((3, 5), np.float16), "gamma": np.array([1, 2, 3, -30700, 0.5], np.float16)}
    (fast,) = found.compute(operands, {})
    (golden,) = found.golden_results(operands, found.op.complete({}))
    assert fast.tobytes() == golden.tobytes()


# Softmax along channels and rows: products with 1 on H13 (decoded), the planar engine elsewhere.


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("scale", [0.01, 4.0, 3000.0])
def test_softmax_along_channels_or_rows_adds_products_on_the_first_engines(axis: int, scale: float) -> None:
    x = (rows(2, 24, 7, 5) * scale).astype(np.float16)
    found = arithmetic("softmax", resolve("h13"))
    attributes = found.op.complete({"axis": axis})
    (golden,) = found.golden_results({"x": x}, attributes)
    (fast,) = found.compute({"x": x}, {"axis": axis})
    assert fast.tobytes() == golden.tobytes()
    numbers = x.astype(np.float64)
    powers = ACTIVATIONS["exp2"](to_fp16((numbers - numbers.max(axis, keepdims=True)) * LOG2_E))
    total = (np.floor(powers * 2**16 + 0.5) / 2**16).sum(axis, keepdims=True)  # 1 keeps products of every power
    by_hand = to_fp16(powers * ACTIVATIONS["inverse"](total))
    assert np.array_equal(golden.astype(np.float64), by_hand)
    (later,) = arithmetic("softmax", resolve("h14")).compute({"x": x}, {"axis": axis})
    assert scale > 1000 or not np.array_equal(fast, later)


def test_along_the_last_axis_and_the_batch_every_target_of_an_order_adds_alike() -> None:
    x = rows(3, 4, 5, 40).astype(np.float16)
    for axis in (0, 3):
        first, second = (
            arithmetic("softmax", resolve(name)).compute({"x": x}, {"axis": axis})[0] for name in ("h13", "h14")
        )
        assert first.tobytes() == second.tobytes()


def test_a_sum_of_products_that_reaches_the_edge_is_infinite_and_its_reciprocal_zero() -> None:
    x = np.zeros((1, 32768, 1, 1), np.float16)
    (result,) = arithmetic("softmax", resolve("h13")).compute({"x": x}, {"axis": 1})
    assert not result.any()
    (below,) = arithmetic("softmax", resolve("h13")).compute({"x": x[:, 1:]}, {"axis": 1})
    assert below.all()


# Epsilon: descriptors of the first engines hold it in fp16.


def test_an_epsilon_is_what_descriptors_hold_of_it() -> None:
    x = (rows(2, 64) * 2.0**-9).astype(np.float16)
    given, in_fp16 = ({"axes": (1,), "epsilon": epsilon} for epsilon in (3e-8, 2.0**-24))
    for name, same in (("h13", True), ("h15", False)):
        first, second = (arithmetic("layer_norm", resolve(name)).compute({"x": x}, one)[0] for one in (given, in_fp16))
        assert np.array_equal(first, second) == same
    assert [normalisation.find_added_epsilon(resolve(name), 1e-5) for name in ("h13", "h14", "h15")] == [
        float(np.float16(1e-5)),
        float(np.float16(1e-5)),
        float(np.float32(1e-5)),
    ]

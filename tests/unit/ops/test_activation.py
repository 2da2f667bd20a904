"""Activations at their kinks, far out, and on operands that do not fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import evaluated, value_of

if TYPE_CHECKING:
    from aneforge.ops.types import Array


def apply(name: str, x: list[float], **attributes: object) -> list[float]:
    return evaluated(name, x, **attributes)


def infer(name: str, operands: dict[str, TensorType], **attributes: object) -> TensorType:
    op = find_op(name)
    (result,) = op.types(operands, op.complete(attributes))
    return result


def by_channel(name: str, x: Array, **operands: Array) -> Array:
    (result,) = find_op(name).evaluate({"x": x, **operands}, {})
    return result


def test_kinks_belong_to_the_side_that_mil_says() -> None:
    assert apply("relu", [-1, 0, 2]) == [0, 0, 2]
    assert apply("relu6", [-1, 5.5, 6, 7]) == [0, 5.5, 6, 6]
    assert apply("thresholded_relu", [1.5, 1.499, -3], alpha=1.5) == [1.5, 0, 0], "the level itself is kept"
    assert apply("thresholded_relu", [-2, -3], alpha=-2) == [-2, 0], "below a negative level there is 0"
    assert apply("threshold", [-3, 2, 1], alpha=1) == [1, 2, 1]
    assert apply("clip", [-3, 0.5, 9], alpha=-1, beta=1) == [-1, 0.5, 1]
    assert apply("clip", [-3, 9], alpha=2, beta=2) == [2, 2], "equal bounds are allowed"


def test_clamped_relu_bounds_the_scaled_side_too() -> None:
    assert apply("clamped_relu", [-8, -1, 1, 5], alpha=0.5, beta=3) == [-4, -0.5, 1, 3]
    assert apply("clamped_relu", [-8, -1, 1], alpha=-1, beta=3) == [3, 1, 1]


def test_known_values_of_what_has_no_defaults() -> None:
    assert apply("thresholded_relu", [0.5, 1], alpha=1) == [0, 1]
    assert apply("linear_activation", [1.25], alpha=2, beta=-1) == [1.5]
    assert apply("scaled_tanh", [0.5], alpha=3, beta=2) == [3 * math.tanh(1)]


def test_defaults() -> None:
    assert apply("leaky_relu", [-100, 3]) == [-1, 3]
    assert apply("sigmoid_hard", [-2.5, 0, 1, 2.5]) == [0, 0.5, 0.7, 1]
    assert apply("elu", [-1]) == [math.expm1(-1)]
    assert apply("gelu", [1.0]) == apply("gelu", [1.0], mode="EXACT")


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("EXACT", 0.8413447460685429),
        ("TANH_APPROXIMATION", 0.8411919906082768),
        ("SIGMOID_APPROXIMATION", 0.8457957659328212),
    ],
)
def test_gelu_of_one(mode: str, value: float) -> None:
    assert apply("gelu", [1.0], mode=mode) == pytest.approx([value], rel=1e-14)


def test_gelu_keeps_its_digits_far_below_zero() -> None:
    expected = -10 * 7.619853024160527e-24  # the normal distribution at −10
    assert apply("gelu", [-10.0]) == pytest.approx([expected], rel=1e-12)


def test_nothing_overflows() -> None:
    assert apply("sigmoid", [-1e4, 1e4]) == [0, 1]
    assert apply("silu", [-1e4, 1e4]) == [0, 1e4]
    assert apply("softplus", [-1e4, 0, 1e4]) == [0, math.log(2), 1e4]
    assert apply("elu", [-1e4, 1e4]) == [-1, 1e4]
    assert apply("softmax", [1e4, 1e4, -1e4]) == [0.5, 0.5, 0]


def test_softmax_along_an_axis_of_length_one_and_of_none() -> None:
    assert apply("softmax", [7.0]) == [1]
    assert apply("softmax", []) == []


def test_prelu_scales_by_axis_one() -> None:
    x = np.full((2, 3, 1, 2), -1.0)
    result = by_channel("prelu", x, alpha=np.array([1.0, 2.0, 3.0]))
    assert result[1, :, 0, 1].tolist() == [-1, -2, -3]


def test_softplus_parametric_does_not_overflow() -> None:
    x = np.full((1, 2, 1), 1e3)
    result = by_channel("softplus_parametric", x, alpha=np.array([2.0, 2.0]), beta=np.array([3.0, -3.0]))
    assert result.ravel().tolist() == [6e3, 0]


def test_bounds_in_the_wrong_order() -> None:
    with pytest.raises(GraphError, match=r"clip: .*alpha is above .*alpha 6, beta 0.*exchange the bounds"):
        infer("clip", {"x": TensorType((2,))}, alpha=6, beta=0)
    with pytest.raises(GraphError, match="alpha is above"):
        infer("clip", {"x": TensorType((2,))}, alpha=float("nan"), beta=0)


def test_unknown_gelu_mode() -> None:
    with pytest.raises(GraphError, match=r"'mode' is not one of its choices .*'TANH'.*TANH_APPROXIMATION"):
        infer("gelu", {"x": TensorType((2,))}, mode="TANH")


def test_softmax_axis_outside() -> None:
    with pytest.raises(GraphError, match=r"softmax: axis is not an axis of .* rank 2 \(got 2, limit -2 to 1\)"):
        infer("softmax", {"x": TensorType((2, 3))}, axis=2)


@pytest.mark.parametrize("name", ["prelu", "softplus_parametric"])
def test_operands_per_channel(name: str) -> None:
    names = [operand.name for operand in find_op(name).operands[1:]]

    def call(x: TensorType, operand: TensorType) -> TensorType:
        return infer(name, {"x": x, **dict.fromkeys(names, operand)})

    assert call(TensorType((1, 3, 4)), TensorType((3,))) == TensorType((1, 3, 4))
    with pytest.raises(GraphError, match=r"too few axes \(got 2, limit 3 or more: channels on axis 1\).*expand_dims"):
        call(TensorType((1, 3)), TensorType((3,)))
    with pytest.raises(GraphError, match=r"one number for each channel of x \(got \[4\], expected \[3\]"):
        call(TensorType((1, 3, 4)), TensorType((4,)))
    with pytest.raises(GraphError, match="different element types"):
        call(TensorType((1, 3, 4)), TensorType((3,), "fp32"))
    with pytest.raises(GraphError, match="x must hold floating-point numbers"):
        call(TensorType((1, 3, 4), "int32"), TensorType((3,), "int32"))


@pytest.mark.parametrize("name", ["relu", "softmax", "clip"])
def test_whole_numbers_are_cast_first(name: str) -> None:
    attributes = {"alpha": 0, "beta": 1} if name == "clip" else {}
    with pytest.raises(GraphError, match=f"{name}: x must hold floating-point numbers .*cast it to fp16"):
        infer(name, {"x": TensorType((2,), "int32")}, **attributes)


def test_a_level_is_a_value_of_the_type() -> None:
    whole = np.array([-3, 0, 5], np.int32)
    result = value_of("threshold", whole, alpha=2)
    assert result.dtype == np.int32
    assert result.tolist() == [2, 2, 5]
    assert apply("threshold", [-3, 0.25], alpha=0.125) == [0.125, 0.25]
    with pytest.raises(GraphError, match=r"alpha is not a value of int32 \(got 0.5"):
        infer("threshold", {"x": TensorType((2,), "int32")}, alpha=0.5)
    with pytest.raises(GraphError, match="alpha is not a value of uint8"):
        infer("threshold", {"x": TensorType((2,), "uint8")}, alpha=-1)


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "threshold", "clamped_relu", "sigmoid_hard", "scaled_tanh"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_slopes_and_levels_are_finite(name: str, value: float) -> None:
    with pytest.raises(GraphError, match="attribute 'alpha' is not finite"):
        find_op(name).complete({"alpha": value})


def test_bounds_may_be_infinite_and_are_numbers() -> None:
    assert apply("clip", [-1e9, 0, 9], alpha=-math.inf, beta=3) == [-1e9, 0, 3]
    with pytest.raises(GraphError, match="the lower bound alpha is above"):
        infer("clip", {"x": TensorType((2,))}, alpha=0, beta=math.nan)


@pytest.mark.parametrize("name", ["thresholded_relu", "scaled_tanh", "linear_activation"])
def test_what_has_no_default_in_mil_must_be_given(name: str) -> None:
    with pytest.raises(GraphError, match="attribute 'alpha' is missing"):
        find_op(name).complete({})

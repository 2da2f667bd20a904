"""Functions of one element: ties, integers, known values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import evaluated


def apply(name: str, x: list[float], **attributes: object) -> list[float]:
    return evaluated(name, np.array(x, np.float64), **attributes)


def test_ties_round_to_even() -> None:
    assert apply("round", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]) == [-2, -2, 0, 0, 2, 2]
    assert apply("round", [0.49999999999999994, 1025.0]) == [0, 1025], "no half is added on the way"


def test_rounding_of_negative_numbers() -> None:
    assert apply("floor", [-1.5, -1, 1.5]) == [-2, -1, 1]
    assert apply("ceil", [-1.5, -1, 1.5]) == [-1, -1, 2]


def test_sign_of_zero_is_zero() -> None:
    assert apply("sign", [-0.25, 0, 1e-300]) == [-1, 0, 1]


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "sign"])
def test_whole_numbers_keep_their_type(name: str) -> None:
    x = np.array([-1, 0, 1, 1], np.int32)
    (result,) = find_op(name).evaluate({"x": x}, {})
    assert result.dtype == np.int32
    assert result.tolist() == x.tolist()


def test_known_values() -> None:
    assert apply("erf", [-1, 0, 1]) == pytest.approx([-0.8427007929497149, 0, 0.8427007929497149], rel=1e-15)
    assert apply("erf", []) == []
    assert apply("exp", [0, 1]) == [1, math.e]
    assert apply("exp2", [-1, 0, 10]) == [0.5, 1, 1024]
    assert apply("log", [1, 0], epsilon=0) == [0, -math.inf]
    assert apply("log", [1, 0]) == [0, math.log(1e-45)]
    assert apply("log", [0, 0.5], epsilon=0.5) == [math.log(0.5), 0], "epsilon is added, not a lower bound"


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "sign"])
def test_bool_is_no_number(name: str) -> None:
    with pytest.raises(GraphError, match=f"{name}: x must hold numbers .*bool.*cast it to int32 or fp16"):
        find_op(name).types({"x": TensorType((2,), "bool")}, {})


@pytest.mark.parametrize("name", ["erf", "exp", "exp2"])
def test_whole_numbers_are_cast_first(name: str) -> None:
    with pytest.raises(GraphError, match=f"{name}: x must hold floating-point numbers .*int32.*cast it to fp16"):
        find_op(name).types({"x": TensorType((2,), "int32")}, {})

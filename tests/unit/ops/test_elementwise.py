"""Arithmetic: zeros with a sign, whole powers, and numbers that an attribute may or may not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType, numpy_dtype
from op_calls import evaluated, type_of, value_of


@pytest.mark.parametrize("name", ["inverse", "rsqrt"])
def test_a_zero_keeps_its_sign(name: str) -> None:
    """IEEE 754 has 1 / −0 and the reciprocal root of −0 as −∞."""
    assert evaluated(name, [0.0, -0.0], epsilon=0) == [math.inf, -math.inf]


def test_epsilon_is_added_first() -> None:
    assert evaluated("inverse", [0.0, 0.25], epsilon=0.25) == [4, 2]
    assert evaluated("rsqrt", [0.0, 0.75], epsilon=0.25) == [2, 1]
    assert evaluated("inverse", [0.0]) == [1 / 1e-4]
    assert evaluated("rsqrt", [0.0]) == [pytest.approx(1e6)]


@pytest.mark.parametrize("name", ["inverse", "rsqrt", "log"])
@pytest.mark.parametrize("epsilon", [-1e-9, math.inf, math.nan, 10**400])
def test_epsilon_is_finite_and_not_negative(name: str, epsilon: float) -> None:
    with pytest.raises(GraphError, match=r"'epsilon' is (too small|not finite|too large)"):
        find_op(name).complete({"epsilon": epsilon})


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64", "int4"])
def test_whole_powers_are_whole(dtype: str) -> None:
    kind = numpy_dtype(dtype)
    result = value_of("pow", np.array([2, 3, 0, 1, 0]).astype(kind), np.array([2, 1, 0, 5, 3]).astype(kind))
    assert result.dtype == kind
    assert result.tolist() == [4, 3, 1, 1, 0]


def test_whole_powers_wrap_around() -> None:
    assert value_of("pow", np.array([2, -3], np.int8), np.array([7, 5], np.int8)).tolist() == [-128, 13]
    assert value_of("pow", np.array([3], np.int32), np.array([21], np.int32)).item() == (3**21 + 2**31) % 2**32 - 2**31
    assert value_of("pow", np.array([3], np.uint64), np.array([2**63], np.uint64)).item() == pow(3, 2**63, 2**64)


def test_a_negative_whole_power_is_a_quotient_cut_towards_zero() -> None:
    x, y = np.array([1, -1, -1, 2, -7, 0], np.int32), np.array([-3, -3, -2, -1, -1, -1], np.int32)
    assert value_of("pow", x, y).tolist() == [1, -1, 1, 0, 0, 0]


def test_powers_take_any_numbers_and_nothing_else() -> None:
    assert type_of("pow", TensorType((2, 1), "int32"), TensorType((3,), "int32")) == TensorType((2, 3), "int32")
    with pytest.raises(GraphError, match="x must hold numbers"):
        type_of("pow", TensorType((2,), "bool"), TensorType((2,), "bool"))


@pytest.mark.parametrize("name", ["muls", "adds"])
def test_a_number_that_is_multiplied_or_added_may_be_any(name: str) -> None:
    assert evaluated(name, [1.0], k=math.inf) == [math.inf]
    assert math.isnan(evaluated(name, [1.0], k=math.nan)[0])
    with pytest.raises(GraphError, match="attribute 'k' is too large for a floating-point number"):
        find_op(name).complete({"k": 10**400})

"""Comparisons at equality, truth tables, and operands of the wrong sort."""

from __future__ import annotations

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType

BOOL = TensorType((2,), "bool")
FP16 = TensorType((2,))


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("equal", [False, True, False, False]),
        ("not_equal", [True, False, True, True]),
        ("greater", [False, False, True, False]),
        ("greater_equal", [False, True, True, False]),
        ("less", [True, False, False, False]),
        ("less_equal", [True, True, False, False]),
    ],
)
def test_below_at_above_and_without_order(name: str, holds: list[bool]) -> None:
    x = np.array([1.0, 2.0, 3.0, np.nan])
    (result,) = find_op(name).evaluate({"x": x, "y": np.array([2.0])}, {})
    assert result.tolist() == holds


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("logical_and", [[False, False], [False, True]]),
        ("logical_or", [[False, True], [True, True]]),
        ("logical_xor", [[False, True], [True, False]]),
    ],
)
def test_truth_tables(name: str, table: list[list[bool]]) -> None:
    values = np.array([False, True])
    (result,) = find_op(name).evaluate({"x": values[:, None], "y": values}, {})
    assert result.tolist() == table


def test_select_broadcasts_all_three() -> None:
    operands = {"cond": np.array([[True], [False]]), "a": np.array([1.0, 2.0]), "b": np.array([np.nan])}
    (result,) = find_op("select").evaluate(operands, {})
    np.testing.assert_array_equal(result, [[1.0, 2.0], [np.nan, np.nan]])  # what is not chosen leaves no trace


def test_select_keeps_the_element_type_of_its_branches() -> None:
    whole = TensorType((3, 1), "int8")
    assert find_op("select").types({"cond": BOOL, "a": whole, "b": whole}, {}) == (TensorType((3, 2), "int8"),)


@pytest.mark.parametrize("name", ["equal", "greater", "less_equal"])
def test_comparison_of_different_element_types(name: str) -> None:
    with pytest.raises(GraphError, match=f"{name}: .*different element types .*fp16, int32.*cast one"):
        find_op(name).types({"x": FP16, "y": TensorType((2,), "int32")}, {})


@pytest.mark.parametrize("name", ["equal", "logical_or"])
def test_shapes_that_do_not_broadcast(name: str) -> None:
    with pytest.raises(GraphError, match=rf"{name}: the shapes \[2\] and \[3\] do not broadcast"):
        find_op(name).types({"x": BOOL, "y": TensorType((3,), "bool")}, {})


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_takes_bool_alone(name: str) -> None:
    with pytest.raises(GraphError, match=f"{name}: x must hold bool .*fp16.*compare it with 0"):
        find_op(name).types({"x": FP16, "y": FP16}, {})
    with pytest.raises(GraphError, match=f"{name}: .*different element types .*bool, fp16.*cast one"):
        find_op(name).types({"x": BOOL, "y": FP16}, {})


def test_logical_not_takes_bool_alone() -> None:
    with pytest.raises(GraphError, match="logical_not: x must hold bool"):
        find_op("logical_not").types({"x": FP16}, {})


def test_select_needs_a_condition_and_equal_branches() -> None:
    with pytest.raises(GraphError, match=r"select: cond must hold bool .*fp16.*not_equal"):
        find_op("select").types({"cond": FP16, "a": FP16, "b": FP16}, {})
    with pytest.raises(GraphError, match=r"select: .*different element types"):
        find_op("select").types({"cond": BOOL, "a": FP16, "b": TensorType((2,), "fp32")}, {})

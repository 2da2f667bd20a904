"""Reading and writing by indices: exact cases, indices past the axis, and one clear error for each misuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
TWO = TensorType((2,), "int32")
ROWS = [[1, 2, 3], [4, 5, 6]]


def test_gather_puts_the_axes_of_its_indices_in_place_of_the_axis() -> None:
    assert inferred("gather", X, TensorType((5, 6), "uint16"), axis=1) == "fp16[2, 5, 6, 4]"
    assert inferred("gather", X, TensorType((), "int32"), axis=-1) == "fp16[2, 3]"
    assert inferred("gather", X, TensorType((2, 7), "int32"), axis=2, batch_dims=1) == "fp16[2, 3, 7]"
    assert evaluated("gather", ROWS, [-1, 0, -1], axis=1) == [[3, 1, 3], [6, 4, 6]]
    assert evaluated("gather", ROWS, [[2, 0], [1, 1]], axis=1, batch_dims=1) == [[3, 1], [5, 5]]
    assert evaluated("gather", ROWS, 1) == [4, 5, 6]


@pytest.mark.parametrize(
    ("indices", "attributes", "message"),
    [
        (TensorType((2,)), {}, "indices must hold integers (got fp16). Remedy: cast it to int32"),
        (TWO, {"axis": 3}, "axis is not an axis of a tensor of rank 3 (got 3, limit -3 to 2)"),
        (TWO, {"batch_dims": 1}, "the axis to gather along is one of the batch (got 0, limit 1 or more)"),
        (
            TensorType((3,), "int32"),
            {"axis": 2, "batch_dims": 1},
            "x and indices do not share their first 1 axes (got [2, 3, 4] and [3])",
        ),
        (TWO, {"axis": 2, "batch_dims": 2}, "x and indices do not share their first 2 axes (got [2, 3, 4] and [2])"),
    ],
)
def test_gather_errors(indices: TensorType, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("gather", X, indices, **attributes)


def test_gather_along_axis_has_the_shape_of_its_indices() -> None:
    assert evaluated("gather_along_axis", ROWS, [[2, 2, 0, -1], [0, 1, 2, -3]], axis=1) == [[3, 3, 1, 3], [4, 5, 6, 4]]
    assert evaluated("gather_along_axis", ROWS, [[1, 0, 1]]) == [[4, 2, 6]]


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 4), (2, 3, 5)])
def test_gather_along_axis_errors(shape: tuple[int, ...]) -> None:
    message = f"indices do not have the shape of x on all axes but 0 (got {list(shape)}, expected [2, 3, 4])"
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("gather_along_axis", X, TensorType(shape, "int32"))


def test_gather_nd_takes_elements_or_slices() -> None:
    assert evaluated("gather_nd", ROWS, [[0, 2], [-1, -3]]) == [3, 4]
    assert evaluated("gather_nd", ROWS, [[1], [1]]) == [[4, 5, 6], [4, 5, 6]]
    assert evaluated("gather_nd", ROWS, [[2], [0]], batch_dims=1) == [3, 4]
    assert inferred("gather_nd", X, TensorType((2, 5, 1), "int32"), batch_dims=1) == "fp16[2, 5, 4]"
    assert inferred("gather_nd", X, TensorType((3,), "int32")) == "fp16[]"


@pytest.mark.parametrize(
    ("indices", "batch_dims", "message"),
    [
        (TensorType((5, 4), "int32"), 0, "(got [5, 4], expected a last axis of 1 to 3)"),
        (TensorType((5, 0), "int32"), 0, "the last axis of indices does not name 1 axis or more (got [5, 0]"),
        (TensorType((), "int32"), 0, "every axis of indices is one of the batch (got 0, limit -1)"),
        (TWO, 1, "every axis of indices is one of the batch (got 1, limit 0)"),
        (TensorType((3, 1), "int32"), 1, "x and indices do not share their first 1 axes"),
        (TensorType((5, 2), "bool"), 0, "indices must hold integers (got bool)"),
    ],
)
def test_gather_nd_errors(indices: TensorType, batch_dims: int, message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("gather_nd", X, indices, batch_dims=batch_dims)


def test_gather_hw_takes_rows_and_columns_of_every_channel() -> None:
    assert evaluated("gather_hw", [ROWS, [[7, 8, 9], [10, 11, 12]]], [[1, 0], [0, -1]]) == [[4, 3], [10, 9]]
    with pytest.raises(
        GraphError, match=re.escape("indices are not pairs of row and column (got [2], expected [K, 2])")
    ):
        inferred("gather_hw", X, TWO)
    with pytest.raises(GraphError, match=re.escape("[2] has too few axes (got 1, limit 2 or more: rows and columns)")):
        inferred("gather_hw", TensorType((2,)), TensorType((1, 2), "int32"))


@pytest.mark.parametrize(
    ("name", "indices", "attributes", "message"),
    [
        ("gather", [0, 3], {"axis": 1}, "an index is past the axis (got 3, limit -3 to 2)"),
        ("gather", [-3], {"axis": 0}, "an index is past the axis (got -3, limit -2 to 1)"),
        ("gather_along_axis", [[0, 0, 2]], {}, "an index is past the axis (got 2, limit -2 to 1)"),
        ("gather_nd", [[1, 3]], {}, "an index is past the axis (got 3, limit -3 to 2)"),
        ("gather_hw", [[2, 0]], {}, "an index is past the axis (got 2, limit -2 to 1)"),
    ],
)
def test_an_index_past_the_axis_is_named(
    name: str, indices: list[int], attributes: dict[str, int], message: str
) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        evaluated(name, ROWS, indices, **attributes)


@pytest.mark.parametrize(
    ("name", "indices", "attributes"),
    [
        ("gather", [0, 3], {"axis": 1}),
        ("gather_along_axis", [[0, 0, 2]], {}),
        ("gather_nd", [[1], [2]], {}),
        ("gather_nd", [[[2, 0]], [[0, 0]]], {"batch_dims": 1}),
        ("gather_hw", [[0, 4]], {}),
        ("scatter", [2], {}),
        ("scatter_along_axis", [[0, 0, 3], [0, 0, 0]], {"axis": -1}),
        ("scatter_nd", [[1, 3]], {}),
    ],
)
def test_constant_indices_past_the_axis_are_an_error_before_anything_is_judged(
    name: str, indices: list[Any], attributes: dict[str, int]
) -> None:
    shape = (2, 2, 2) if "batch_dims" in attributes else (2, 3)
    x, counted = af.input(shape), np.array(indices, np.int32)
    updates = af.input({"scatter": (1, 3), "scatter_along_axis": (2, 3), "scatter_nd": (1,)}.get(name, ()))
    operands = {"data": x, "updates": updates} if name.startswith("scatter") else {"x": x}
    with pytest.raises(GraphError, match="an index is past the axis"):
        build(name, {**operands, "indices": Dense(counted)}, attributes)
    build(name, {**operands, "indices": Dense(counted % 2)}, attributes)


def test_unsigned_indices_are_compared_as_they_are() -> None:
    with pytest.raises(GraphError, match=re.escape("got 255, limit -2 to 1")):
        evaluated("gather", ROWS, np.array([255], np.uint8))


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        ("add", [10.0, 26.0]),
        ("sub", [10.0, 14.0]),
        ("mul", [10.0, 160.0]),
        ("div", [10.0, 2.5]),
        ("update", [10.0, 4.0]),
        ("max", [10.0, 20.0]),
        ("min", [10.0, 2.0]),
    ],
)
def test_updates_of_one_place_are_combined_in_order(mode: str, result: list[float]) -> None:
    data, updates = [10.0, 20.0], [2.0, 4.0]
    assert evaluated("scatter", data, [1, -1], updates, mode=mode) == result
    assert evaluated("scatter_along_axis", data, [1, -1], updates, mode=mode) == result
    assert evaluated("scatter_nd", data, [[1], [-1]], updates, mode=mode) == result


def test_whole_numbers_divide_towards_zero() -> None:
    assert evaluated("scatter", [-7, 7, 5], [0, 1, 2], [2, -2, 0], mode="div") == [-3, -3, 0]


def test_scatter_writes_slices_and_leaves_its_operand() -> None:
    data = np.zeros((2, 3))
    assert evaluated("scatter", data, [2, 0], [[1.0, 2.0], [3.0, 4.0]], axis=1) == [[2, 0, 1], [4, 0, 3]]
    assert evaluated("scatter_nd", data, [[1]], [[1.0, 2.0, 3.0]]) == [[0, 0, 0], [1, 2, 3]]
    assert evaluated("scatter_along_axis", data, [[1, 1, 0]], [[1.0, 2.0, 3.0]]) == [[0, 0, 3], [1, 2, 0]]
    assert not data.any()


@pytest.mark.parametrize(
    ("name", "indices", "updates", "message"),
    [
        ("scatter", TWO, X, "updates does not have the shape of the places (got [2, 3, 4], expected [2, 2, 4])"),
        ("scatter", TWO, TensorType((2, 2, 4), "fp32"), "the operands have different element types (got fp16, fp32)"),
        ("scatter_along_axis", TensorType((2, 5, 4), "int32"), X, "(got [2, 3, 4], expected [2, 5, 4])"),
        ("scatter_along_axis", TWO, X, "indices do not have the shape of data on all axes but 1 (got [2]"),
    ],
)
def test_scatter_errors(name: str, indices: TensorType, updates: TensorType, message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred(name, X, indices, updates, axis=1)


def test_scatter_nd_errors() -> None:
    with pytest.raises(
        GraphError, match=re.escape("updates does not have the shape of the places (got [5], expected [5, 4])")
    ):
        inferred("scatter_nd", X, TensorType((5, 2), "int32"), TensorType((5,)))
    with pytest.raises(GraphError, match=re.escape("an index is past the axis (got 2, limit -2 to 1)")):
        evaluated("scatter_nd", ROWS, [[2, 0]], [1])


def test_bools_can_be_replaced_alone() -> None:
    data, updates = TensorType((3,), "bool"), TensorType((2,), "bool")
    assert inferred("scatter", data, TWO, updates, mode="update") == "bool[3]"
    with pytest.raises(GraphError, match=re.escape("bool cannot be scattered in mode add. Remedy: use mode update")):
        inferred("scatter", data, TWO, updates)


def test_one_hot_adds_an_axis() -> None:
    assert inferred("one_hot", TWO, one_hot_vector_size=4) == "int32[2, 4]"
    assert evaluated("one_hot", [2, 0], one_hot_vector_size=3) == [[0, 0, 1], [1, 0, 0]]
    assert evaluated("one_hot", [2, 0], one_hot_vector_size=3, axis=0, on_value=5) == [[0, 5], [0, 0], [5, 0]]
    assert inferred("one_hot", TensorType((), "int32"), one_hot_vector_size=2, axis=0, dtype="fp16") == "fp16[2]"


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_past_the_one_hot_vector_is_named(index: int) -> None:
    message = f"an index is past the one-hot vector (got {index}, limit 0 to 2)"
    with pytest.raises(GraphError, match=re.escape(message)):
        evaluated("one_hot", [0, index], one_hot_vector_size=3)


@pytest.mark.parametrize(
    ("indices", "attributes", "message"),
    [
        (TensorType((2,)), {}, "indices must hold integers (got fp16)"),
        (TWO, {"axis": 2}, "axis is not an axis of a tensor of rank 2 (got 2, limit -2 to 1)"),
        (TWO, {"on_value": 0.5}, "on_value is not a value of int32 (got 0.5"),
        (TWO, {"off_value": -1, "dtype": "uint8"}, "off_value is not a value of uint8 (got -1.0"),
    ],
)
def test_one_hot_errors(indices: TensorType, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("one_hot", indices, one_hot_vector_size=3, **attributes)


def test_non_zero_has_the_type_of_its_largest_result() -> None:
    assert inferred("non_zero", X) == "int32[24, 3]"
    (places,) = find_op("non_zero").evaluate({"x": np.array([[0.0, 2.0], [-1.0, 0.0]])}, {})
    assert places.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("name", ["gather", "gather_along_axis", "gather_nd"])
def test_an_index_past_the_axis_is_an_error_whether_or_not_it_is_looked_for(name: str) -> None:
    for validate in (True, False):
        with pytest.raises(GraphError, match="an index is past the axis"):
            evaluated(name, [1, 2], [2], validate_indices=validate)


@pytest.mark.parametrize("name", ["scatter", "scatter_along_axis", "scatter_nd"])
def test_looking_for_indices_changes_no_result(name: str) -> None:
    indices = [[1]] if name == "scatter_nd" else [1]
    for validate in (True, False):
        assert evaluated(name, [1, 2], indices, [5], validate_indices=validate) == [1, 7]

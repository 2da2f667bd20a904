"""Tensors made out of a shape and numbers: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))


def test_fill_takes_its_element_type_from_the_attribute() -> None:
    assert inferred("fill", shape=(2, 1), value=0.5) == "fp16[2, 1]"
    assert inferred("fill", shape=(), value=255, dtype="uint8") == "uint8[]"
    assert evaluated("fill", shape=(2,), value=1, dtype="bool") == [True, True]


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (0.5, "int32", "value is not a value of int32 (got 0.5, expected an integer from -2147483648 to 2147483647)"),
        (256, "uint8", "value is not a value of uint8 (got 256.0, expected an integer from 0 to 255)"),
        (8, "int4", "value is not a value of int4 (got 8.0, expected an integer from -8 to 7)"),
        (2, "bool", "value is not a value of bool (got 2.0, expected an integer from 0 to 1)"),
        (float("nan"), "int8", "value is not a value of int8 (got nan"),
        (0, "fp17", "attribute 'dtype' is not one of its choices (got 'fp17'"),
    ],
)
def test_fill_errors(value: float, dtype: str, message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("fill", shape=(2,), value=value, dtype=dtype)


def test_fill_like_has_the_element_type_of_its_reference_unless_told() -> None:
    ref = TensorType((2, 3), "int8")
    assert inferred("fill_like", ref, value=3) == "int8[2, 3]"
    assert inferred("fill_like", ref, value=0.5, dtype="fp16") == "fp16[2, 3]"
    with pytest.raises(GraphError, match="value is not a value of int8"):
        inferred("fill_like", ref, value=0.5)


def test_range_stops_before_its_end() -> None:
    assert evaluated("range_1d", start=0, end=6, step=2) == [0, 2, 4]
    assert evaluated("range_1d", start=0, end=7, step=2) == [0, 2, 4, 6]
    assert evaluated("range_1d", start=1, end=-1, step=-0.75) == [1, 0.25, -0.5]
    assert inferred("range_1d", start=3, end=3, step=1) == "fp16[0]"
    assert inferred("range_1d", start=3, end=0, step=1, dtype="int32") == "int32[0]"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"start": 0, "end": 3, "step": 0}, "the range never ends (got from 0 to 3 by 0"),
        ({"start": 0, "end": float("inf"), "step": 1}, "the range never ends (got from 0 to inf by 1"),
        (
            {"start": 0, "end": 3, "step": 0.5, "dtype": "int32"},
            "step is not an integer, as int32 needs it (got 0.5)",
        ),
        ({"start": 0.5, "end": 3, "step": 1, "dtype": "int32"}, "start is not a value of int32 (got 0.5"),
        (
            {"start": 0, "end": 301, "step": 100, "dtype": "uint8"},
            "the last number is not a value of uint8 (got 300.0",
        ),
    ],
)
def test_range_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("range_1d", **attributes)

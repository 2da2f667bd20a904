"""Circular and hyperbolic functions: known values, the ends of their domains, and where they run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.op import Below
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import TensorType


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [
        ("sin", math.pi / 6, 0.5),
        ("cos", math.pi / 3, 0.5),
        ("tan", math.pi / 4, 1.0),
        ("asin", 1.0, math.pi / 2),
        ("acos", -1.0, math.pi),
        ("atan", 1.0, math.pi / 4),
        ("sinh", math.log(2), 0.75),
        ("cosh", math.log(2), 1.25),
        ("asinh", 0.75, math.log(2)),
        ("acosh", 1.25, math.log(2)),
        ("acosh", 1.0, 0.0),
        ("atanh", 0.6, math.log(2)),
        ("atanh", 1.0, math.inf),
    ],
)
def test_known_value(name: str, x: float, value: float) -> None:
    (result,) = find_op(name).evaluate({"x": np.array([x])}, {})
    assert result.item() == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(("name", "x"), [("asin", 1.5), ("acos", -1.5), ("acosh", 0.5), ("atanh", 2.0)])
def test_outside_the_domain_there_is_no_number(name: str, x: float) -> None:
    (result,) = find_op(name).evaluate({"x": np.array([x])}, {})
    assert np.isnan(result).all()


def test_only_sine_and_cosine_are_decomposed_below_their_floor() -> None:
    group = [op for op in ops().values() if op.category == "trigonometry" and op.support.floor is not None]
    assert {op.name for op in group if op.support.below is Below.DECOMPOSE} == {"sin", "cos"}


@pytest.mark.parametrize(
    "name", ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"]
)
def test_whole_numbers_are_cast_first(name: str) -> None:
    with pytest.raises(GraphError, match=f"{name}: x must hold floating-point numbers .*int32.*cast it to fp16"):
        find_op(name).types({"x": TensorType((2,), "int32")}, {})

"""The shape and type rules that the groups share: exact answers, and the text of every error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops import shapes
from aneforge.ops.types import TensorType, value_range

if TYPE_CHECKING:
    from collections.abc import Callable

X, WHOLE, BOOL = TensorType((2, 3)), TensorType((2,), "uint4"), TensorType((2,), "bool")

ERRORS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: shapes.expect_float(WHOLE),
        "x must hold floating-point numbers (got uint4). Remedy: cast it to fp16",
    ),
    (
        lambda: shapes.expect_integer(X, "indices"),
        "indices must hold integers (got fp16). Remedy: cast",
    ),
    (lambda: shapes.expect_number(BOOL), "x must hold numbers (got bool). Remedy: cast it to int32 or fp16"),
    (lambda: shapes.expect_bool(X, "cond"), "cond must hold bool (got fp16). Remedy: compare it with 0 by not_"),
    (
        lambda: shapes.expect_kind(X, ("int8", "bool")),
        "x must hold integers or bool (got fp16)",
    ),
    (lambda: shapes.common_dtype(X, None, BOOL), "different element types (got fp16, bool). Remedy: cast one of them"),
    (
        lambda: shapes.expect_representable("value", 256, "uint8"),
        "value is not a value of uint8 (got 256",
    ),
    (lambda: shapes.expect_representable("value", 0.5, "int8"), "got 0.5, expected an integer from -128 to 127"),
    (lambda: shapes.broadcast(X, TensorType((2,))), "the shapes [2, 3] and [2] do not broadcast. Remedy: axes must be"),
    (lambda: shapes.expect_rank(X, 3), "x of shape [2, 3] has the wrong rank (got 2, limit 3)"),
    (lambda: shapes.expect_rank(X, 3, 4, what="w"), "w of shape [2, 3] has the wrong rank (got 2, limit 3 or 4)"),
    (lambda: shapes.expect_rank(X, 3, 4, 5, 6), "(got 2, limit 3 to 6)"),
    (
        lambda: shapes.expect_least_rank(X, 3),
        "[2, 3] has too few axes (got 2, limit 3 or more). Remedy: add",
    ),
    (lambda: shapes.expect_least_rank(X, 3, "[C, H, W]"), "(got 2, limit 3 or more: [C, H, W])"),
    (lambda: shapes.expect_shape(X, [3], "y", "x"), "x does not have the shape of y (got [2, 3], expected [3])"),
    (
        lambda: shapes.expect_one_each(X, 3, "channel", "bias"),
        "bias must hold one number for each channel (got [2, 3], expected [3])",
    ),
    (
        lambda: shapes.expect_elements(TensorType((2, 0)), (-1,), "reduced"),
        "an axis without elements cannot be reduced (got [2, 0])",
    ),
    (lambda: shapes.normalise_axis(2, 2), "axis is not an axis of a tensor of rank 2 (got 2, limit -2 to 1)"),
    (lambda: shapes.normalise_axes((0, -2), 2, "perm"), "perm names one axis twice (got [0, 0])"),
    (
        lambda: shapes.expect_entries("reps", (1,), 2, "axis"),
        "reps does not have one entry for each axis (got 1",
    ),
    (lambda: shapes.divisible("the height", 5, 2), "the height is not divisible (got 5, expected a multiple of 2)"),
    (lambda: shapes.divisible("the height", 5, 0), "the height is not divisible (got 5, expected a multiple of 0)"),
    (lambda: shapes.expect_within(np.array([0, 7, -1]), 0, 6, "it is past"), "it is past (got 7, limit 0 to 6)"),
    (lambda: shapes.sliding_extent(3, 3, 1, (0, 0), 2, ceil=False), "longer than the padded axis (got 5, limit 3)"),
    (
        lambda: shapes.sliding_extent(4, 1, 4, (0, 0), 1, ceil=True),
        "in ceil mode the last window begins after the axis and sees nothing (got a window of 1 every 4 along",
    ),
    (
        lambda: shapes.expect_countable(65537, "uint16"),
        "the axis is too long for places in uint16 (got 65537, limit 65536). Remedy: use int32",
    ),
]


@pytest.mark.parametrize(("rule", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_errors(rule: Callable[[], object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        rule()


def test_what_fits_passes() -> None:
    shapes.expect_kind(WHOLE, ("fp16", "int32"))
    shapes.expect_representable("value", 0.5, "fp16")
    shapes.expect_shape(None, [3], "y")
    shapes.expect_one_each(None, 3, "channel")
    shapes.expect_within(np.array([], np.int32), 0, -1, "it is past")
    shapes.expect_elements(TensorType((2, 0)), (0,), "reduced")
    assert shapes.common_dtype(None, X, None) == "fp16"
    assert shapes.own_type(X) is X
    assert shapes.reduced_axes(2, None) == (0, 1)
    assert shapes.reduced_axes(2, (-1,)) == (1,)


@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [("bool", 0, 1), ("int4", -8, 7), ("uint4", 0, 15), ("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)],
)
def test_the_ranges_of_whole_numbers(dtype: str, least: int, most: int) -> None:
    assert value_range(dtype) == (least, most)

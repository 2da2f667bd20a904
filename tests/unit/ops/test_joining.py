"""Joining, parting and repeating: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
MATRIX = [[1, 2], [3, 4], [5, 6]]
OTHER = [[7, 8], [9, 10], [11, 12]]


def test_tile() -> None:
    assert evaluated("tile", [[1, 2]], reps=(2, 2)) == [[1, 2, 1, 2], [1, 2, 1, 2]]
    with pytest.raises(GraphError, match=re.escape("reps does not have one entry for each axis (got 1, limit 3)")):
        inferred("tile", X, reps=(2,))
    with pytest.raises(GraphError, match=re.escape("attribute 'reps' is too small (got 0, expected at least 1)")):
        inferred("tile", X, reps=(1, 1, 0))


def test_concat_interleaves_entries_along_the_axis() -> None:
    rows = [[1, 2], [7, 8], [3, 4], [9, 10], [5, 6], [11, 12]]
    columns = [[1, 7, 2, 8], [3, 9, 4, 10], [5, 11, 6, 12]]
    assert evaluated("concat", (MATRIX, OTHER), axis=0, interleave=True) == rows
    assert evaluated("concat", (MATRIX, OTHER), axis=-1, interleave=True) == columns
    assert evaluated("concat", (MATRIX, OTHER), axis=0) == MATRIX + OTHER


@pytest.mark.parametrize(
    ("values", "interleave", "message"),
    [
        ((), False, "there is nothing to join (got no tensors, expected one or more)"),
        ((X, TensorType((2, 3))), False, "the tensors have different ranks (got [2, 3, 4], [2, 3])"),
        ((X, X.with_dtype("fp32")), False, "the operands have different element types (got fp16, fp32)"),
        ((X, TensorType((2, 1, 5))), False, "the tensors differ along a different axis than 1"),
        (
            (X, TensorType((2, 1, 4))),
            True,
            "interleaved tensors have different shapes (got [2, 1, 4], expected [2, 3, 4])",
        ),
    ],
)
def test_concat_errors(values: tuple[TensorType, ...], message: str, *, interleave: bool) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("concat", values, axis=1, interleave=interleave)


def test_concat_needs_an_axis_that_is_there() -> None:
    with pytest.raises(GraphError, match=re.escape("axis is not an axis of a tensor of rank 3 (got 3, limit -3 to 2)")):
        inferred("concat", (X, X), axis=3)


def test_stack_adds_an_axis() -> None:
    assert inferred("stack", (X, X), axis=3) == "fp16[2, 3, 4, 2]"
    assert inferred("stack", (X, X), axis=-4) == "fp16[2, 2, 3, 4]"
    assert evaluated("stack", ([1, 2], [3, 4]), axis=1) == [[1, 3], [2, 4]]
    assert evaluated("stack", (5, 6), axis=0) == [5, 6]
    with pytest.raises(
        GraphError, match=re.escape("stacked tensors have different shapes (got [2, 3], expected [3, 2])")
    ):
        inferred("stack", (TensorType((3, 2)), TensorType((2, 3))), axis=0)
    with pytest.raises(GraphError, match=re.escape("axis is not an axis of a tensor of rank 4 (got 4, limit -4 to 3)")):
        inferred("stack", (X,), axis=4)


def test_split_gives_several_results() -> None:
    assert inferred("split", X, num_splits=2, axis=-1) == "fp16[2, 3, 2], fp16[2, 3, 2]"
    assert inferred("split", X, split_sizes=(1, 3), axis=2) == "fp16[2, 3, 1], fp16[2, 3, 3]"
    assert evaluated("split", [1, 2, 3, 4, 5], split_sizes=(1, 0, 4), axis=0) == [[1], [], [2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "neither num_splits nor split_sizes is given. Remedy: give num_splits or split_sizes"),
        ({"num_splits": 3}, "the axis to split is not divisible (got 4, expected a multiple of 3)"),
        ({"split_sizes": (1, 2)}, "split_sizes do not make up the axis (got 3, limit 4)"),
        ({"split_sizes": (2, 2), "num_splits": 4}, "num_splits is not the number of split_sizes (got 4, limit 2)"),
    ],
)
def test_split_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("split", X, axis=2, **attributes)

"""Tensors turned round: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))


def test_reverse_errors() -> None:
    with pytest.raises(GraphError, match=re.escape("axes is not an axis of a tensor of rank 3 (got 3, limit -3 to 2)")):
        inferred("reverse", X, axes=(3,))
    with pytest.raises(GraphError, match=re.escape("axes names one axis twice (got [2, 2])")):
        inferred("reverse", X, axes=(2, -1))


def test_reverse_sequence_leaves_the_rest_as_it_is() -> None:
    x = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert evaluated("reverse_sequence", x, [0, 3, 4], seq_axis=1) == [[1, 2, 3, 4], [7, 6, 5, 8], [12, 11, 10, 9]]


def test_sequences_run_along_the_first_axis_by_default() -> None:
    x = [[1, 2], [3, 4], [5, 6]]
    assert evaluated("reverse_sequence", x, [3, 2], batch_axis=1) == [[5, 4], [3, 2], [1, 6]]


@pytest.mark.parametrize(
    ("lengths", "axes", "message"),
    [
        (TensorType((2,), "int32"), (0, 0), "seq_axis and batch_axis are one axis (got 0)"),
        (TensorType((3,), "int32"), (1, 0), "lengths must hold one number for each sequence (got [3], expected [2])"),
        (TensorType((2,), "fp16"), (1, 0), "lengths must hold integers (got fp16). Remedy: cast it to int32"),
    ],
)
def test_reverse_sequence_errors(lengths: TensorType, axes: tuple[int, int], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("reverse_sequence", X, lengths, seq_axis=axes[0], batch_axis=axes[1])


def test_a_sequence_longer_than_the_axis_is_an_error() -> None:
    with pytest.raises(GraphError, match=re.escape("a sequence does not fit the axis (got 3, limit 0 to 2)")):
        evaluated("reverse_sequence", [[1, 2]], [3], seq_axis=1)

"""Changes of shape: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
MATRIX = [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((24,), "fp16[24]"),
        ((-1,), "fp16[24]"),
        ((0, -1), "fp16[3, 8]"),
        ((-1, 0), "fp16[6, 4]"),
        ((0, 0, 0), "fp16[2, 3, 4]"),
        ((0, 0, 3, 4), "fp16[1, 2, 3, 4]"),
        ((0, 0, 2, 3, 0), "fp16[1, 1, 2, 3, 4]"),
        ((4, 1, -1), "fp16[4, 1, 6]"),
    ],
)
def test_reshape_copies_and_computes_axes(shape: tuple[int, ...], result: str) -> None:
    """A 0 copies the axis that is as far from the end; before the first axis it is 1."""
    assert inferred("reshape", X, shape=shape) == result


def test_reshape_of_no_elements_and_to_a_scalar() -> None:
    assert inferred("reshape", TensorType((0, 3)), shape=(3, -1)) == "fp16[3, 0]"
    assert inferred("reshape", TensorType((3, 0)), shape=(3, 0)) == "fp16[3, 0]"
    assert inferred("reshape", TensorType((1,)), shape=(0, 0, 0)) == "fp16[1, 1, 1]"
    assert inferred("reshape", TensorType(()), shape=(0,)) == "fp16[1]"
    with pytest.raises(GraphError, match=re.escape("leaves no length for the -1 of the shape [0, -1]")):
        inferred("reshape", TensorType((0, 3)), shape=(0, -1))
    assert inferred("reshape", TensorType((1, 1)), shape=()) == "fp16[]"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 5), "a tensor of 24 elements cannot take the shape [5, 5] of 25 elements"),
        (
            (5, -1),
            "a tensor of 24 elements leaves no length for the -1 of the shape [5, -1] (got 5 elements along",
        ),
        ((-1, -1), "the shape leaves more than one axis open (got [-1, -1], expected one -1)"),
        ((2, 3, 4, 0), "a tensor of 24 elements cannot take the shape [2, 3, 4, 0] of 96 elements"),
        ((-2, 12), "attribute 'shape' is too small (got -2, expected at least -1)"),
    ],
)
def test_reshape_errors(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("reshape", X, shape=shape)


def test_reshape_like_joins_the_axes_of_its_references() -> None:
    refs = (TensorType((2, 5, 6), "bool"), TensorType((7, 12)))
    attributes = {"begins": (0, -1), "ends": (1, 0), "end_masks": (0, 1)}
    assert inferred("reshape_like", X, refs, **attributes) == "fp16[2, 12]"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"begins": (0,), "ends": (2,), "end_masks": (0,)},
            "a tensor of 24 elements cannot take the shape [2, 5] of 10",
        ),
        (
            {"begins": (0, 1), "ends": (2,), "end_masks": (0,)},
            "begins does not have one entry for each reference tensor",
        ),
        (
            {"begins": (0,), "ends": (2,), "end_masks": ()},
            "end_masks does not have one entry for each reference tensor",
        ),
        ({"begins": (3,), "ends": (2,), "end_masks": (0,)}, "begins is not within [2, 5] (got 3, limit -2 to 2)"),
        ({"begins": (0,), "ends": (-3,), "end_masks": (0,)}, "ends is not within [2, 5] (got -3, limit -2 to 2)"),
        (
            {"begins": (0,), "ends": (2,), "end_masks": (2,)},
            "attribute 'end_masks' is not a list of flags (got 2)",
        ),
    ],
)
def test_reshape_like_errors(attributes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("reshape_like", X, (TensorType((2, 5)),), **attributes)


def test_flatten2d_parts_the_axes_anywhere() -> None:
    shapes = [inferred("flatten2d", X, axis=axis) for axis in (-3, -1, 0, 1, 2, 3)]
    assert shapes == ["fp16[1, 24]", "fp16[6, 4]", "fp16[1, 24]", "fp16[2, 12]", "fp16[6, 4]", "fp16[24, 1]"]
    assert inferred("flatten2d", X) == "fp16[2, 12]"
    with pytest.raises(GraphError, match=r"out of range for a tensor of rank 3 \(got 4, limit -3 to 3\)"):
        inferred("flatten2d", X, axis=4)


def test_flatten_lays_out_one_image_channel_after_channel() -> None:
    assert evaluated("flatten", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(GraphError, match=re.escape("x of shape [2, 3] has the wrong rank (got 2, limit 3)")):
        inferred("flatten", TensorType((2, 3)))


def test_expand_dims_counts_axes_of_the_result() -> None:
    assert inferred("expand_dims", X, axes=(0, 2)) == "fp16[1, 2, 1, 3, 4]"
    assert inferred("expand_dims", X, axes=(-1, 0)) == "fp16[1, 2, 3, 4, 1]"
    assert inferred("expand_dims", TensorType(()), axes=(0,)) == "fp16[1]"


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((4,), "axes is not an axis of a tensor of rank 4 (got 4, limit -4 to 3)"),
        ((0, -5), "axes names one axis twice (got [0, 0])"),
    ],
)
def test_expand_dims_errors(axes: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("expand_dims", X, axes=axes)


def test_squeeze_drops_all_axes_of_length_1_or_the_given_ones() -> None:
    tensor = TensorType((1, 3, 1))
    assert inferred("squeeze", tensor) == "fp16[3]"
    assert inferred("squeeze", tensor, axes=(-1,)) == "fp16[1, 3]"
    assert inferred("squeeze", tensor, axes=()) == "fp16[1, 3, 1]"
    assert inferred("squeeze", TensorType((1, 1))) == "fp16[]"
    with pytest.raises(GraphError, match=re.escape("axis 1 of shape [1, 3, 1] cannot be squeezed (got 3, limit 1)")):
        inferred("squeeze", tensor, axes=(0, 1))


def test_transpose_reads_axes_from_the_permutation() -> None:
    assert inferred("transpose", X, perm=(2, 0, 1)) == "fp16[4, 2, 3]"
    assert inferred("transpose", X, perm=(-1, 0, -2)) == "fp16[4, 2, 3]"
    assert evaluated("transpose", MATRIX, perm=(1, 0)) == [[1, 3, 5], [2, 4, 6]]


@pytest.mark.parametrize(
    ("perm", "message"),
    [
        ((0, 1), "perm does not have one entry for each axis (got 2, limit 3)"),
        ((0, 1, 3), "perm is not an axis of a tensor of rank 3 (got 3, limit -3 to 2)"),
        ((0, 1, -2), "perm names one axis twice (got [0, 1, 1])"),
    ],
)
def test_transpose_errors(perm: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("transpose", X, perm=perm)


def test_shape_is_a_vector_of_whole_numbers() -> None:
    assert evaluated("shape", np.zeros((2, 1, 5))) == [2, 1, 5]
    assert inferred("shape", TensorType(())) == "int32[0]"

"""Shape changes, joining and making: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
MATRIX = [[1, 2], [3, 4], [5, 6]]
OTHER = [[7, 8], [9, 10], [11, 12]]


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((24,), "fp16[24]"),
        ((-1,), "fp16[24]"),
        ((0, -1), "fp16[2, 12]"),
        ((0, 0, 2, 2), "fp16[2, 3, 2, 2]"),
        ((-1, 0), "fp16[8, 3]"),
        ((4, 1, -1), "fp16[4, 1, 6]"),
    ],
)
def test_reshape_copies_and_computes_axes(shape: tuple[int, ...], result: str) -> None:
    assert inferred("reshape", X, shape=shape) == result


def test_reshape_of_no_elements_and_to_a_scalar() -> None:
    assert inferred("reshape", TensorType((0, 3)), shape=(3, -1)) == "fp16[3, 0]"
    with pytest.raises(GraphError, match=re.escape("leaves no length for the -1 of the shape [0, -1]")):
        inferred("reshape", TensorType((0, 3)), shape=(0, -1))
    assert inferred("reshape", TensorType((1, 1)), shape=()) == "fp16[]"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 5), "a tensor of 24 elements cannot take the shape [5, 5] of 25 elements"),
        (
            (5, -1),
            "a tensor of 24 elements leaves no length for the -1 of the shape [5, -1] (seen 5 elements beside it",
        ),
        ((-1, -1), "the shape leaves more than one axis open (seen [-1, -1], limit one -1)"),
        ((2, 3, 4, 0), "a 0 of the shape has no axis to copy (seen [2, 3, 4, 0], limit the axes of [2, 3, 4])"),
        ((-2, 12), "attribute 'shape' is too small (seen -2, limit at least -1)"),
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
        ({"begins": (3,), "ends": (2,), "end_masks": (0,)}, "begins is not within [2, 5] (seen 3, limit -2 to 2)"),
        ({"begins": (0,), "ends": (-3,), "end_masks": (0,)}, "ends is not within [2, 5] (seen -3, limit -2 to 2)"),
        (
            {"begins": (0,), "ends": (2,), "end_masks": (2,)},
            "attribute 'end_masks' is too large (seen 2, limit at most 1)",
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
    with pytest.raises(GraphError, match=re.escape("axis does not part a tensor of rank 3 (seen 4, limit -3 to 3)")):
        inferred("flatten2d", X, axis=4)


def test_flatten_lays_out_one_image_channel_after_channel() -> None:
    assert evaluated("flatten", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(GraphError, match=re.escape("x of shape [2, 3] has the wrong rank (seen 2, limit 3)")):
        inferred("flatten", TensorType((2, 3)))


def test_expand_dims_counts_axes_of_the_result() -> None:
    assert inferred("expand_dims", X, axes=(0, 2)) == "fp16[1, 2, 1, 3, 4]"
    assert inferred("expand_dims", X, axes=(-1, 0)) == "fp16[1, 2, 3, 4, 1]"
    assert inferred("expand_dims", TensorType(()), axes=(0,)) == "fp16[1]"


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((4,), "axes is not an axis of a tensor of rank 4 (seen 4, limit -4 to 3)"),
        ((0, -5), "axes names one axis twice (seen [0, 0])"),
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
    with pytest.raises(GraphError, match=re.escape("axis 1 of shape [1, 3, 1] cannot be squeezed (seen 3, limit 1)")):
        inferred("squeeze", tensor, axes=(0, 1))


def test_transpose_reads_axes_from_the_permutation() -> None:
    assert inferred("transpose", X, perm=(2, 0, 1)) == "fp16[4, 2, 3]"
    assert inferred("transpose", X, perm=(-1, 0, -2)) == "fp16[4, 2, 3]"
    assert evaluated("transpose", MATRIX, perm=(1, 0)) == [[1, 3, 5], [2, 4, 6]]


@pytest.mark.parametrize(
    ("perm", "message"),
    [
        ((0, 1), "perm does not have one entry for each axis (seen 2, limit 3)"),
        ((0, 1, 3), "perm is not an axis of a tensor of rank 3 (seen 3, limit -3 to 2)"),
        ((0, 1, -2), "perm names one axis twice (seen [0, 1, 1])"),
    ],
)
def test_transpose_errors(perm: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("transpose", X, perm=perm)


def test_tile() -> None:
    assert evaluated("tile", [[1, 2]], reps=(2, 2)) == [[1, 2, 1, 2], [1, 2, 1, 2]]
    with pytest.raises(GraphError, match=re.escape("reps does not have one entry for each axis (seen 1, limit 3)")):
        inferred("tile", X, reps=(2,))
    with pytest.raises(GraphError, match=re.escape("attribute 'reps' is too small (seen 0, limit at least 1)")):
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
        ((), False, "there is nothing to join (seen no tensors, limit one or more)"),
        ((X, TensorType((2, 3))), False, "the tensors have different ranks (seen [2, 3, 4], [2, 3])"),
        ((X, X.with_dtype("fp32")), False, "the operands have different element types (seen fp16, fp32)"),
        ((X, TensorType((2, 1, 5))), False, "the tensors differ along another axis than 1"),
        (
            (X, TensorType((2, 1, 4))),
            True,
            "interleaved tensors have different shapes (seen [2, 1, 4], limit [2, 3, 4])",
        ),
    ],
)
def test_concat_errors(values: tuple[TensorType, ...], message: str, *, interleave: bool) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("concat", values, axis=1, interleave=interleave)


def test_concat_needs_an_axis_that_is_there() -> None:
    with pytest.raises(
        GraphError, match=re.escape("axis is not an axis of a tensor of rank 3 (seen 3, limit -3 to 2)")
    ):
        inferred("concat", (X, X), axis=3)


def test_stack_adds_an_axis() -> None:
    assert inferred("stack", (X, X), axis=3) == "fp16[2, 3, 4, 2]"
    assert inferred("stack", (X, X), axis=-4) == "fp16[2, 2, 3, 4]"
    assert evaluated("stack", ([1, 2], [3, 4]), axis=1) == [[1, 3], [2, 4]]
    assert evaluated("stack", (5, 6), axis=0) == [5, 6]
    with pytest.raises(
        GraphError, match=re.escape("stacked tensors have different shapes (seen [2, 3], limit [3, 2])")
    ):
        inferred("stack", (TensorType((3, 2)), TensorType((2, 3))), axis=0)
    with pytest.raises(
        GraphError, match=re.escape("axis is not an axis of a tensor of rank 4 (seen 4, limit -4 to 3)")
    ):
        inferred("stack", (X,), axis=4)


def test_split_gives_several_results() -> None:
    assert inferred("split", X, num_splits=2, axis=-1) == "fp16[2, 3, 2], fp16[2, 3, 2]"
    assert inferred("split", X, split_sizes=(1, 3), axis=2) == "fp16[2, 3, 1], fp16[2, 3, 3]"
    assert evaluated("split", [1, 2, 3, 4, 5], split_sizes=(1, 0, 4), axis=0) == [[1], [], [2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "nothing says how to split. Remedy: give num_splits or split_sizes"),
        ({"num_splits": 3}, "the axis to split is not divisible (seen 4, limit a multiple of 3)"),
        ({"split_sizes": (1, 2)}, "split_sizes do not make up the axis (seen 3, limit 4)"),
        ({"split_sizes": (2, 2), "num_splits": 4}, "num_splits is not the number of split_sizes (seen 4, limit 2)"),
    ],
)
def test_split_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("split", X, axis=2, **attributes)


def test_fill_takes_its_element_type_from_the_attribute() -> None:
    assert inferred("fill", shape=(2, 1), value=0.5) == "fp16[2, 1]"
    assert inferred("fill", shape=(), value=255, dtype="uint8") == "uint8[]"
    assert evaluated("fill", shape=(2,), value=1, dtype="bool") == [True, True]


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (0.5, "int32", "value is not a value of int32 (seen 0.5, limit a whole number from -2147483648 to 2147483647)"),
        (256, "uint8", "value is not a value of uint8 (seen 256.0, limit a whole number from 0 to 255)"),
        (8, "int4", "value is not a value of int4 (seen 8.0, limit a whole number from -8 to 7)"),
        (2, "bool", "value is not a value of bool (seen 2.0, limit a whole number from 0 to 1)"),
        (float("nan"), "int8", "value is not a value of int8 (seen nan"),
        (0, "fp17", "attribute 'dtype' is not one of its choices (seen 'fp17'"),
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
        ({"start": 0, "end": 3, "step": 0}, "the range never ends (seen from 0 to 3 by 0"),
        ({"start": 0, "end": float("inf"), "step": 1}, "the range never ends (seen from 0 to inf by 1"),
        (
            {"start": 0, "end": 3, "step": 0.5, "dtype": "int32"},
            "step is not a whole number, as int32 needs it (seen 0.5)",
        ),
        ({"start": 0.5, "end": 3, "step": 1, "dtype": "int32"}, "start is not a value of int32 (seen 0.5"),
        (
            {"start": 0, "end": 301, "step": 100, "dtype": "uint8"},
            "the last number is not a value of uint8 (seen 300.0",
        ),
    ],
)
def test_range_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("range_1d", **attributes)


def test_shape_is_a_vector_of_whole_numbers() -> None:
    assert evaluated("shape", np.zeros((2, 1, 5))) == [2, 1, 5]
    assert inferred("shape", TensorType(())) == "int32[0]"

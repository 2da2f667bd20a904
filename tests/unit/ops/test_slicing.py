"""Slices, padding and views: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
IMAGE = TensorType((1, 2, 4, 5))
SIX = [0, 1, 2, 3, 4, 5]


def test_slice_by_size_goes_to_the_end() -> None:
    assert inferred("slice_by_size", X, begin=(0, 1, 2), size=(2, 1, -1)) == "fp16[2, 1, 2]"
    assert inferred("slice_by_size", X, begin=(0, 3, 4), size=(0, 0, -1)) == "fp16[0, 0, 0]"
    assert evaluated("slice_by_size", SIX, begin=(4,), size=(-1,)) == [4, 5]


@pytest.mark.parametrize(
    ("begin", "size", "message"),
    [
        ((0, 0), (1, 1, 1), "begin does not have one entry for each axis (seen 2, limit 3)"),
        ((0, 0, 0), (1, 1), "size does not have one entry for each axis (seen 2, limit 3)"),
        ((0, 1, 0), (2, 3, 4), "the slice passes the end of axis 1 (seen 4, limit 3)"),
        ((0, 0, 5), (2, 3, -1), "the slice passes the end of axis 2 (seen 5, limit 4)"),
        ((-1, 0, 0), (1, 1, 1), "attribute 'begin' is too small (seen -1, limit at least 0)"),
    ],
)
def test_slice_by_size_errors(begin: tuple[int, ...], size: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("slice_by_size", X, begin=begin, size=size)


@pytest.mark.parametrize(
    ("attributes", "result"),
    [
        ({"begin": (1,), "end": (4,)}, [1, 2, 3]),
        ({"begin": (-3,), "end": (-1,)}, [3, 4]),
        ({"begin": (1,), "end": (100,), "stride": (2,)}, [1, 3, 5]),
        ({"begin": (4,), "end": (1,), "stride": (-1,)}, [4, 3, 2]),
        ({"begin": (-1,), "end": (-7,), "stride": (-2,)}, [5, 3, 1]),
        ({"begin": (0,), "end": (0,), "stride": (-1,), "begin_mask": (1,), "end_mask": (1,)}, [5, 4, 3, 2, 1, 0]),
        ({"begin": (9,), "end": (2,), "begin_mask": (1,)}, [0, 1]),
        ({"begin": (4,), "end": (0,), "end_mask": (1,)}, [4, 5]),
        ({"begin": (3,), "end": (3,)}, []),
        ({"begin": (-2,), "end": (0,), "squeeze_mask": (1,)}, 4),
        ({"begin": (3,), "end": (0,), "begin_mask": (1,), "squeeze_mask": (1,)}, 0),
    ],
)
def test_slice_by_index(attributes: dict[str, object], result: Any) -> None:  # noqa: ANN401 - a number or a list
    assert evaluated("slice_by_index", SIX, **attributes) == result


def test_a_squeezed_axis_is_gone() -> None:
    region = {"begin": (0, -1, 0), "end": (2, 0, 4), "stride": (1, 1, 3), "squeeze_mask": (0, 1, 0)}
    assert inferred("slice_by_index", X, **region) == "fp16[2, 2]"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"begin": (0, 0)}, "begin does not have one entry for each axis (seen 2, limit 1)"),
        ({"stride": ()}, "stride does not have one entry for each axis (seen 0, limit 1)"),
        ({"squeeze_mask": (0, 1)}, "squeeze_mask does not have one entry for each axis (seen 2, limit 1)"),
        ({"stride": (0,)}, "a stride of 0 never moves on (seen [0], limit any other whole number)"),
        (
            {"begin": (6,), "squeeze_mask": (1,)},
            "begin names no element of the squeezed axis 0 (seen 6, limit -6 to 5)",
        ),
        ({"begin_mask": (2,)}, "attribute 'begin_mask' is too large (seen 2, limit at most 1)"),
    ],
)
def test_slice_by_index_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("slice_by_index", TensorType((6,)), **{"begin": (0,), "end": (6,), **attributes})


def test_slice_update_writes_a_region_and_leaves_its_operand() -> None:
    x = np.zeros(6)
    region = {"begin": (4,), "end": (0,), "stride": (-2,)}
    assert evaluated("slice_update", x, [7.0, 8.0], **region) == [0, 0, 8, 0, 7, 0]
    assert not x.any()
    single = {"begin": (1, 0), "end": (0, 2), "squeeze_mask": (1, 0)}
    assert evaluated("slice_update", np.zeros((2, 2)), [1.0, 2.0], **single) == [[0, 0], [1, 2]]


def test_slice_update_errors() -> None:
    region = {"begin": (1,), "end": (4,)}
    with pytest.raises(
        GraphError, match=re.escape("update does not have the shape of the region (seen [2], limit [3])")
    ):
        inferred("slice_update", TensorType((6,)), TensorType((2,)), **region)
    with pytest.raises(GraphError, match="different element types"):
        inferred("slice_update", TensorType((6,)), TensorType((3,), "int32"), **region)


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        ("constant", [9, 9, 1, 2, 3, 9]),
        ("reflect", [3, 2, 1, 2, 3, 2]),
        ("replicate", [1, 1, 1, 2, 3, 3]),
        ("symmetric", [2, 1, 1, 2, 3, 3]),
    ],
)
def test_padding_modes(mode: str, result: list[int]) -> None:
    assert evaluated("pad", [1, 2, 3], pad=(2, 1), mode=mode, constant_val=9) == result


def test_padding_is_of_the_last_axes() -> None:
    assert inferred("pad", X, pad=(1, 2)) == "fp16[2, 3, 7]"
    assert inferred("pad", X, pad=(1, 0, 0, 2)) == "fp16[2, 4, 6]"
    assert inferred("pad", X, pad=()) == "fp16[2, 3, 4]"
    assert inferred("pad", TensorType((0, 2)), pad=(1, 0, 0, 0)) == "fp16[1, 2]"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"pad": (1, 1, 1)}, "pad is not a list of pairs, before and after, for the last axes (seen 3"),
        ({"pad": (0,) * 8}, "(seen 8, limit an even number up to 6)"),
        ({"pad": (0, 4), "mode": "reflect"}, "axis 2 is too short to pad in mode reflect (seen 4, limit 3)"),
        ({"pad": (0, 5), "mode": "symmetric"}, "axis 2 is too short to pad in mode symmetric (seen 5, limit 4)"),
        ({"pad": (0, 1), "constant_val": 0.5}, "constant_val is not a value of int32 (seen 0.5"),
        ({"pad": (0, -1)}, "attribute 'pad' is too small (seen -1, limit at least 0)"),
        ({"pad": (0, 1), "mode": "wrap"}, "attribute 'mode' is not one of its choices (seen 'wrap'"),
    ],
)
def test_pad_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("pad", X.with_dtype("int32"), **attributes)


def test_there_is_no_border_to_replicate_without_elements() -> None:
    with pytest.raises(GraphError, match=re.escape("too short to pad in mode replicate (seen 1, limit 0)")):
        inferred("pad", TensorType((0,)), pad=(1, 0), mode="replicate")


def test_crop_cuts_both_sides() -> None:
    assert inferred("crop", IMAGE, crop_height=(1, 2), crop_width=(0, 4)) == "fp16[1, 2, 1, 1]"


@pytest.mark.parametrize(
    ("tensor", "height", "width", "message"),
    [
        (X, (0, 0), (0, 0), "x of shape [2, 3, 4] has the wrong rank (seen 3, limit 4)"),
        (IMAGE, (2, 2), (0, 0), "crop_height leaves nothing of the image (seen 4, limit less than 4)"),
        (IMAGE, (0, 0), (9, 0), "crop_width leaves nothing of the image (seen 9, limit less than 5)"),
        (IMAGE, (1,), (0, 0), "crop_height does not have one entry for each side (seen 1, limit 2)"),
    ],
)
def test_crop_errors(tensor: TensorType, height: tuple[int, ...], width: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("crop", tensor, crop_height=height, crop_width=width)


def test_reverse_errors() -> None:
    with pytest.raises(
        GraphError, match=re.escape("axes is not an axis of a tensor of rank 3 (seen 3, limit -3 to 2)")
    ):
        inferred("reverse", X, axes=(3,))
    with pytest.raises(GraphError, match=re.escape("axes names one axis twice (seen [2, 2])")):
        inferred("reverse", X, axes=(2, -1))


def test_reverse_sequence_leaves_the_rest_as_it_is() -> None:
    x = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert evaluated("reverse_sequence", x, [0, 3, 4], seq_axis=1) == [[1, 2, 3, 4], [7, 6, 5, 8], [12, 11, 10, 9]]


@pytest.mark.parametrize(
    ("lengths", "axes", "message"),
    [
        (TensorType((2,), "int32"), (0, 0), "seq_axis and batch_axis are one axis (seen 0)"),
        (TensorType((3,), "int32"), (1, 0), "lengths has not one entry for each sequence (seen [3], limit [2])"),
        (TensorType((2,), "fp16"), (1, 0), "lengths does not hold whole numbers (seen fp16). Remedy: cast it to int32"),
    ],
)
def test_reverse_sequence_errors(lengths: TensorType, axes: tuple[int, int], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("reverse_sequence", X, lengths, seq_axis=axes[0], batch_axis=axes[1])


def test_a_sequence_longer_than_the_axis_is_an_error() -> None:
    with pytest.raises(GraphError, match=re.escape("a sequence does not fit the axis (seen 3, limit 0 to 2)")):
        evaluated("reverse_sequence", [[1, 2]], [3], seq_axis=1)


def test_sliding_windows_leave_out_what_does_not_fill_one() -> None:
    assert evaluated("sliding_windows", SIX, axis=0, size=3, stride=2) == [[0, 1, 2], [2, 3, 4]]
    assert inferred("sliding_windows", X, axis=-2, size=2) == "fp16[2, 2, 2, 4]"
    with pytest.raises(GraphError, match=re.escape("the window is longer than the axis (seen 4, limit 3)")):
        inferred("sliding_windows", X, axis=1, size=4)


@pytest.mark.parametrize(
    ("lower", "upper", "result"),
    [
        (-1, -1, [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (0, 0, [[1, 0, 0], [0, 5, 0], [0, 0, 9]]),
        (-1, 0, [[1, 0, 0], [4, 5, 0], [7, 8, 9]]),
        (1, -1, [[1, 2, 3], [4, 5, 6], [0, 8, 9]]),
    ],
)
def test_band_part(lower: int, upper: int, result: list[list[int]]) -> None:
    assert evaluated("band_part", [[1, 2, 3], [4, 5, 6], [7, 8, 9]], lower=lower, upper=upper) == result


def test_band_part_needs_a_matrix() -> None:
    with pytest.raises(GraphError, match=re.escape("x of shape [3] is not a matrix (seen 1, limit rank 2 or more)")):
        inferred("band_part", TensorType((3,)))


def test_input_view_takes_steps() -> None:
    assert evaluated("input_view", SIX, offset=1, size=3, step=2) == [1, 3, 5]
    assert inferred("input_view", X, axis=1, offset=2, size=1) == "fp16[2, 1, 4]"
    with pytest.raises(GraphError, match=re.escape("the view passes the end of the axis (seen 4, limit 3)")):
        inferred("input_view", X, offset=2, size=2, step=2)


@pytest.mark.parametrize(("begin", "result"), [(0, [1, 2]), (2, [3, 4]), (3, [4, 9]), (4, [9, 9]), (-1, [9, 1])])
def test_dynamic_slice_reads_the_background_outside(begin: int, result: list[int]) -> None:
    assert evaluated("dynamic_slice", [1, 2, 3, 4], begin, size=2, background_value=9) == result


@pytest.mark.parametrize(
    ("x", "begin", "attributes", "message"),
    [
        (X, TensorType((2,), "int32"), {}, "begin is not a single index (seen [2], limit one element)"),
        (X, TensorType((), "fp16"), {}, "begin does not hold whole numbers (seen fp16)"),
        (X, TensorType((), "uint16"), {"size": 5}, "the slice is longer than the axis (seen 5, limit 4)"),
        (TensorType(()), TensorType((), "uint16"), {}, "x has no axis to slice (seen 0, limit rank 1 or more)"),
        (
            X.with_dtype("bool"),
            TensorType((), "uint16"),
            {"background_value": 2},
            "background_value is not a value of bool (seen 2.0",
        ),
    ],
)
def test_dynamic_slice_errors(x: TensorType, begin: TensorType, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("dynamic_slice", x, begin, **{"size": 2, **attributes})

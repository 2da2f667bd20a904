"""Padding, cropping and bands: exact cases, and one clear error for each misuse."""

from __future__ import annotations

import re

import pytest

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred

X = TensorType((2, 3, 4))
IMAGE = TensorType((1, 2, 4, 5))


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
        ({"pad": (1, 1, 1)}, "pad is not a list of pairs, before and after, for the last axes (got 3"),
        ({"pad": (0,) * 8}, "(got 8, expected an even number up to 6)"),
        ({"pad": (0, 4), "mode": "reflect"}, "axis 2 is too short to pad in mode reflect (got 4, limit 3)"),
        ({"pad": (0, 5), "mode": "symmetric"}, "axis 2 is too short to pad in mode symmetric (got 5, limit 4)"),
        ({"pad": (0, 1), "constant_val": 0.5}, "constant_val is not a value of int32 (got 0.5"),
        ({"pad": (0, -1)}, "attribute 'pad' is too small (got -1, expected at least 0)"),
        ({"pad": (0, 1), "mode": "wrap"}, "attribute 'mode' is not one of its choices (got 'wrap'"),
    ],
)
def test_pad_errors(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("pad", X.with_dtype("int32"), **attributes)


def test_there_is_no_border_to_replicate_without_elements() -> None:
    with pytest.raises(GraphError, match=re.escape("too short to pad in mode replicate (got 1, limit 0)")):
        inferred("pad", TensorType((0,)), pad=(1, 0), mode="replicate")


def test_crop_cuts_both_sides() -> None:
    assert inferred("crop", IMAGE, crop_height=(1, 2), crop_width=(0, 4)) == "fp16[1, 2, 1, 1]"


@pytest.mark.parametrize(
    ("tensor", "height", "width", "message"),
    [
        (X, (0, 0), (0, 0), "x of shape [2, 3, 4] has the wrong rank (got 3, limit 4)"),
        (IMAGE, (2, 2), (0, 0), "crop_height leaves nothing of the image (got 4, expected less than 4)"),
        (IMAGE, (0, 0), (9, 0), "crop_width leaves nothing of the image (got 9, expected less than 5)"),
        (IMAGE, (1,), (0, 0), "crop_height does not have one entry for each side (got 1, limit 2)"),
    ],
)
def test_crop_errors(tensor: TensorType, height: tuple[int, ...], width: tuple[int, ...], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        inferred("crop", tensor, crop_height=height, crop_width=width)


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
    with pytest.raises(GraphError, match=re.escape("[3] has too few axes (got 1, limit 2 or more: matrices)")):
        inferred("band_part", TensorType((3,)))

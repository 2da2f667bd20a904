"""Boxes, coordinates and affine transforms: worked cases, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups import warp
from aneforge.ops.types import Array, TensorType

ROW = np.array([[[[0.0, 10.0, 20.0, 30.0]]]])
SQUARE = np.arange(16.0).reshape(1, 1, 4, 4)
IMAGES = TensorType((2, 3, 4, 5))


def cropped(x: Array, box: list[float], **attributes: object) -> list[object]:
    size = {"target_height": 2, "target_width": 2, "sampling_mode": "ALIGN_CORNERS"}
    given = warp.CROP_RESIZE.complete(size | attributes)
    return warp.CROP_RESIZE.evaluate({"x": x, "boxes": np.array([box])}, given)[0][0, 0].tolist()


def resampled(columns: list[float], **attributes: object) -> list[float]:
    defaults = {
        "sampling_mode": "bilinear",
        "padding_mode": "constant",
        "coordinates_mode": "unnormalized",
        "align_corners": False,
    }
    coordinates = np.array([[[[column, 0.0] for column in columns]]])
    if str(attributes.get("coordinates_mode", "")).startswith("normalized"):
        coordinates[..., 1] = 0.5 if attributes["coordinates_mode"] == "normalized_zero_to_one" else 0
    given = warp.RESAMPLE.complete(defaults | attributes)
    return warp.RESAMPLE.evaluate({"x": ROW, "coordinates": coordinates}, given)[0].ravel().tolist()


def transformed(x: Array, matrix: list[float], height: int, width: int, **attributes: object) -> list[object]:
    given = warp.AFFINE.complete({"output_height": height, "output_width": width, "align_corners": True} | attributes)
    return warp.AFFINE.evaluate({"x": x, "transform_matrix": np.array([matrix])}, given)[0][0, 0].tolist()


def crop_type(boxes: TensorType, indices: TensorType | None = None, x: TensorType = IMAGES) -> TensorType:
    attributes = warp.CROP_RESIZE.complete({"target_height": 7, "target_width": 8})
    return warp.CROP_RESIZE.types({"x": x, "boxes": boxes, "box_indices": indices}, attributes)[0]


def resample_type(coordinates: TensorType) -> TensorType:
    attributes = warp.RESAMPLE.complete(
        {
            "sampling_mode": "nearest",
            "padding_mode": "border",
            "coordinates_mode": "unnormalized",
            "align_corners": True,
        }
    )
    return warp.RESAMPLE.types({"x": IMAGES, "coordinates": coordinates}, attributes)[0]


def affine_type(matrix: TensorType, x: TensorType = IMAGES) -> TensorType:
    attributes = warp.AFFINE.complete({"output_height": 7, "output_width": 8, "align_corners": True})
    return warp.AFFINE.types({"x": x, "transform_matrix": matrix}, attributes)[0]


def test_one_box_in_four_notations() -> None:
    expected = [[5, 7], [9, 11]]
    assert cropped(SQUARE, [1, 1, 2, 3], box_coordinate_mode="CORNERS_HEIGHT_FIRST") == expected
    assert cropped(SQUARE, [1, 1, 3, 2], box_coordinate_mode="CORNERS_WIDTH_FIRST") == expected
    assert cropped(SQUARE, [1.5, 2, 1, 2], box_coordinate_mode="CENTER_SIZE_HEIGHT_FIRST") == expected
    assert cropped(SQUARE, [2, 1.5, 2, 1], box_coordinate_mode="CENTER_SIZE_WIDTH_FIRST") == expected


def test_normalised_boxes_reach_to_the_last_elements() -> None:
    assert cropped(SQUARE, [0, 0, 1, 1], normalized_coordinates=True) == [[0, 3], [12, 15]]


def test_boxes_are_scaled() -> None:
    assert cropped(SQUARE, [2, 2, 4, 6], spatial_scale=0.5) == [[5, 7], [9, 11]]


def test_beyond_the_image_is_the_pad_value() -> None:
    assert cropped(SQUARE, [-1, 0, 0, 1], pad_value=7) == [[7, 7], [0, 1]]
    assert cropped(SQUARE, [-0.5, 0, 0, 1], pad_value=8) == [[8, 8], [0, 1]]


def test_sampling_modes_of_a_box() -> None:
    box = [0.0, 1.0, 0.0, 2.0]  # holds columns 1 and 2
    one_row = {"target_height": 1, "target_width": 4}
    assert cropped(ROW, box, **one_row, sampling_mode="DEFAULT") == [[10, 15, 20, 20]]
    assert cropped(ROW, box, **one_row, sampling_mode="UNALIGN_CORNERS") == [[10, 12.5, 17.5, 20]]
    assert cropped(ROW, box, **one_row, sampling_mode="OFFSET_CORNERS") == [[11.25, 13.75, 16.25, 18.75]]


def test_a_box_of_one_place_and_one_result_of_a_box() -> None:
    assert cropped(SQUARE, [1, 2, 1, 2]) == [[6, 6], [6, 6]]
    one = {"target_height": 1, "target_width": 1}
    assert cropped(SQUARE, [0, 0, 3, 3], **one) == [[7.5]]
    assert cropped(SQUARE, [0, 0, 3, 3], **one, sampling_mode="STRICT_ALIGN_CORNERS") == [[0]]


def test_boxes_name_their_images() -> None:
    x = np.stack([SQUARE[0], SQUARE[0] + 100])
    boxes = np.zeros((2, 4))
    attributes = warp.CROP_RESIZE.complete({})
    crossed = warp.CROP_RESIZE.evaluate({"x": x, "boxes": boxes, "box_indices": np.array([1, 0])}, attributes)[0]
    assert crossed.ravel().tolist() == [100, 0]
    own = warp.CROP_RESIZE.evaluate({"x": x, "boxes": boxes}, attributes)[0]
    assert own.ravel().tolist() == [0, 100]
    only = warp.CROP_RESIZE.evaluate({"x": SQUARE, "boxes": boxes}, attributes)[0]
    assert only.ravel().tolist() == [0, 0]
    first = warp.CROP_RESIZE.evaluate({"x": x, "boxes": boxes[:1]}, attributes)[0]
    assert first.ravel().tolist() == [0], "fewer boxes are cut from the first images"


@pytest.mark.parametrize("index", [-1, 2])
def test_a_box_names_an_image_that_is_there(index: int) -> None:
    x = np.stack([SQUARE[0], SQUARE[0]])
    operands = {"x": x, "boxes": np.zeros((1, 4)), "box_indices": np.array([index])}
    with pytest.raises(GraphError, match=r"a box names an image that is not there .*limit 0 to 1"):
        warp.CROP_RESIZE.evaluate(operands, warp.CROP_RESIZE.complete({}))


@pytest.mark.parametrize(
    ("padding_mode", "expected"),
    [
        ("constant", [-1, -0.5, 0, 30, 14.5, -1]),
        ("border", [0, 0, 0, 30, 30, 30]),
        ("reflection", [20, 5, 0, 30, 25, 10]),
        ("symmetric", [10, 0, 0, 30, 30, 20]),
    ],
)
def test_padding_modes(padding_mode: str, expected: list[float]) -> None:
    assert resampled([-2, -0.5, 0, 3, 3.5, 5], padding_mode=padding_mode, padding_value=-1) == expected


def test_an_infinite_neighbour_of_no_weight_leaves_no_trace() -> None:
    x = np.array([[[[1.0, np.inf], [np.inf, np.inf]]]])
    assert transformed(x, [1, 0, 0, 0, 1, 0], 2, 2) == x[0, 0].tolist()


def test_a_single_element_reflects_to_itself() -> None:
    attributes = warp.RESAMPLE.complete(
        {
            "sampling_mode": "bilinear",
            "padding_mode": "reflection",
            "coordinates_mode": "unnormalized",
            "align_corners": False,
        }
    )
    coordinates = np.array([[[[-3.5, 2.25]]]])
    assert warp.RESAMPLE.evaluate({"x": ROW[..., 1:2], "coordinates": coordinates}, attributes)[0].item() == 10


def test_normalised_coordinates_reach_middles_or_edges() -> None:
    both = {"coordinates_mode": "normalized_minus_one_to_one", "padding_mode": "border"}
    assert resampled([-1, 0, 1], **both, align_corners=True) == [0, 15, 30]
    assert resampled([-0.75, 0, 0.75], **both, align_corners=False) == [0, 15, 30]
    positive = {"coordinates_mode": "normalized_zero_to_one", "padding_mode": "border"}
    assert resampled([0, 0.5, 1], **positive, align_corners=True) == [0, 15, 30]
    assert resampled([0.125, 0.5, 0.875], **positive, align_corners=False) == [0, 15, 30]


def test_the_nearest_on_a_tie_is_the_even_one() -> None:
    assert resampled([0.5, 1.5, 2.5, 0.51], sampling_mode="nearest") == [0, 20, 20, 10]
    assert resampled([-0.5, -0.51, 3.49, 3.5], sampling_mode="nearest", padding_value=-1) == [0, -1, 30, -1]


@pytest.mark.parametrize(
    ("padding_mode", "expected"),
    [("symmetric", [0, 0, 20, 30, 20, 0, 20]), ("reflection", [0, 20, 20, 20, 20, 0, 0])],
)
def test_a_place_beyond_the_image_is_mirrored_before_the_nearest_is_taken(
    padding_mode: str, expected: list[float]
) -> None:
    places = [-0.5, -1.5, -2.5, 3.5, 4.5, 6.5, -6.5]
    assert resampled(places, sampling_mode="nearest", padding_mode=padding_mode) == expected


def test_a_place_beyond_the_image_is_not_mixed_with_its_edge() -> None:
    x = np.arange(1.0, 17).reshape(1, 1, 4, 4)
    boxes = np.array([[0.1, 0.3, 1.3, 1.0], [0.5, 1.8, 1.0, 0.3], [0.0, 0.4, 0.6, 0.7]])
    given = {"target_height": 2, "target_width": 2, "normalized_coordinates": True, "pad_value": 10.0}
    attributes = warp.CROP_RESIZE.complete({**given, "sampling_mode": "ALIGN_CORNERS"})
    found = warp.CROP_RESIZE.evaluate({"x": x, "boxes": boxes, "box_indices": np.zeros(3, np.int32)}, attributes)[0]
    # The numbers are those of TestCropResize among the operator tests that coremltools ships.
    expected = [3.1, 5.2, 10.0, 10.0, 10.0, 7.9, 10.0, 13.9, 2.2, 3.1, 9.4, 10.3]
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-12)


def test_the_last_end_of_a_box_is_inside_however_it_is_rounded() -> None:
    attributes = warp.CROP_RESIZE.complete({"target_width": 2, "sampling_mode": "ALIGN_CORNERS", "pad_value": -1.0})
    for first in (0.03, *np.linspace(0, 2.9, 100)):
        for last in (0.0, 3.0):  # the one is read backwards
            boxes = np.array([[0.0, first, 0.0, last]])
            found = warp.CROP_RESIZE.evaluate({"x": SQUARE, "boxes": boxes}, attributes)[0]
            np.testing.assert_allclose(found.ravel(), [first, last], atol=1e-8)


def test_whole_coordinates_may_be_whole_numbers() -> None:
    attributes = warp.RESAMPLE.complete(
        {
            "sampling_mode": "bilinear",
            "padding_mode": "border",
            "coordinates_mode": "unnormalized",
            "align_corners": True,
        }
    )
    coordinates = np.array([[[[3, 0], [1, 0]]]], np.int32)
    result = warp.RESAMPLE.evaluate({"x": ROW, "coordinates": coordinates}, attributes)[0]
    assert result.dtype == np.float64
    assert result.ravel().tolist() == [30, 10]


@pytest.mark.parametrize("align_corners", [True, False])
def test_known_transforms(*, align_corners: bool) -> None:
    given = {"align_corners": align_corners}
    assert transformed(SQUARE, [1, 0, 0, 0, 1, 0], 4, 4, **given) == SQUARE[0, 0].tolist()
    assert transformed(SQUARE, [-1, 0, 0, 0, 1, 0], 4, 4, **given) == SQUARE[0, 0, :, ::-1].tolist()
    assert transformed(SQUARE, [0, 1, 0, 1, 0, 0], 4, 4, **given) == SQUARE[0, 0].T.tolist()
    assert transformed(SQUARE, [0, 0, 9, 0, 0, 0], 1, 2, **given, padding_value=5) == [[5, 5]]


def test_a_transform_to_one_element_reads_the_middle() -> None:
    assert transformed(SQUARE, [1, 0, 0, 0, 1, 0], 1, 1) == [[7.5]]


def test_the_shapes_of_warps() -> None:
    assert crop_type(TensorType((2, 4))).shape == (2, 3, 7, 8)
    assert crop_type(TensorType((1, 4))).shape == (1, 3, 7, 8)
    assert crop_type(TensorType((5, 4)), TensorType((5,), "int32")).shape == (5, 3, 7, 8)
    assert crop_type(TensorType((5, 4)), x=TensorType((1, 3, 4, 5))).shape == (5, 3, 7, 8)
    assert resample_type(TensorType((2, 6, 7, 2), "int32")) == TensorType((2, 3, 6, 7))
    assert affine_type(TensorType((1, 6))).shape == affine_type(TensorType((2, 6))).shape == (2, 3, 7, 8)


def test_boxes_have_four_coordinates() -> None:
    with pytest.raises(GraphError, match=r"boxes do not have four coordinates each .*expected \[boxes, 4\]"):
        crop_type(TensorType((2, 5)))


def test_boxes_without_names_need_as_many_images() -> None:
    with pytest.raises(GraphError, match=r"which of 2 images each of 3 boxes is cut from .*give box_indices"):
        crop_type(TensorType((3, 4)))


def test_every_box_names_one_image_by_its_number() -> None:
    with pytest.raises(GraphError, match=r"box_indices must hold one number for each box .*expected \[3\]"):
        crop_type(TensorType((3, 4)), TensorType((2,), "int32"))
    with pytest.raises(GraphError, match="box_indices must hold integers"):
        crop_type(TensorType((3, 4)), TensorType((3,)))


def test_warps_take_images_of_four_axes() -> None:
    with pytest.raises(GraphError, match=r"x of shape \[3, 4, 5\] has the wrong rank"):
        crop_type(TensorType((1, 4)), x=TensorType((3, 4, 5)))
    with pytest.raises(GraphError, match="an axis without elements cannot be sampled"):
        affine_type(TensorType((1, 6)), x=TensorType((1, 3, 0, 5)))
    with pytest.raises(GraphError, match="x must hold floating-point numbers"):
        affine_type(TensorType((1, 6)), x=TensorType((1, 3, 4, 5), "int32"))


@pytest.mark.parametrize("shape", [(1, 6, 7, 2), (2, 6, 7, 3), (2, 6, 2)])
def test_coordinates_give_a_column_and_a_row(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        GraphError, match=r"coordinates do not give a column and a row .*expected \[2, height, width, 2\]"
    ):
        resample_type(TensorType(shape))


def test_coordinates_are_numbers() -> None:
    with pytest.raises(GraphError, match="coordinates must hold numbers"):
        resample_type(TensorType((2, 6, 7, 2), "bool"))


def test_a_transform_has_six_numbers() -> None:
    with pytest.raises(GraphError, match=r"six numbers .*got \[2, 2, 3\], expected \[1, 6\] or \[2, 6\]"):
        affine_type(TensorType((2, 2, 3)))


def test_affine_has_one_way_to_sample() -> None:
    with pytest.raises(GraphError, match="'padding_mode' is not one of its choices"):
        warp.AFFINE.complete({"output_height": 1, "output_width": 1, "align_corners": True, "padding_mode": "border"})

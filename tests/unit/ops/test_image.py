"""Resizing, transfer functions and pixel buffers: worked cases, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups import image
from aneforge.ops.interpolation import SAMPLING_MODES, grid_points, nearest_indices, upsampling_points
from aneforge.ops.types import TensorType
from op_calls import type_of, value_of

PICTURE = np.array([[[1.0, 9.0, 3.0], [3.0, 0.0, 2.0], [2.0, 7.0, 5.0]]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DEFAULT", [0, 0.75, 1.5, 2]),
        ("STRICT_ALIGN_CORNERS", [0, 2 / 3, 4 / 3, 2]),
        ("ALIGN_CORNERS", [0, 2 / 3, 4 / 3, 2]),
        ("UNALIGN_CORNERS", [0, 0.625, 1.375, 2]),
        ("OFFSET_CORNERS", [0.25, 0.75, 1.25, 1.75]),
    ],
)
def test_three_elements_read_four_times(mode: str, expected: list[float]) -> None:
    np.testing.assert_allclose(grid_points(3, 4, mode), expected)


def test_three_elements_read_once() -> None:
    assert [float(grid_points(3, 1, mode)[0]) for mode in SAMPLING_MODES] == [0, 0, 1, 1, 1]


def test_one_element_is_read_wherever_it_is_asked() -> None:
    assert all(np.array_equal(grid_points(1, 3, mode), [0, 0, 0]) for mode in SAMPLING_MODES)


def test_upsampling_two_elements_to_six() -> None:
    aligned = upsampling_points(2, 6, align_corners=True, half_pixel_centers=None)
    np.testing.assert_allclose(aligned, [0, 0.2, 0.4, 0.6, 0.8, 1])
    centered = upsampling_points(2, 6, align_corners=False, half_pixel_centers=None)
    np.testing.assert_allclose(centered, [0, 0, 1 / 3, 2 / 3, 1, 1])
    neither = upsampling_points(2, 6, align_corners=False, half_pixel_centers=False)
    np.testing.assert_allclose(neither, [0, 1 / 3, 2 / 3, 1, 1, 1])
    both = upsampling_points(2, 6, align_corners=True, half_pixel_centers=True)
    np.testing.assert_allclose(both, [0, 0, 0, 0.2, 0.4, 0.6], atol=1e-15)


@pytest.mark.parametrize("mode", ["ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"])
def test_aligned_corners_as_core_ml_was_seen_to_do_it(mode: str) -> None:
    """The picture and its result are from apple/coremltools issue 644."""
    resized = value_of(image.RESIZE_BILINEAR, PICTURE, target_size_height=5, target_size_width=5, sampling_mode=mode)
    expected = [
        [1, 5, 9, 6, 3],
        [2, 3.25, 4.5, 3.5, 2.5],
        [3, 1.5, 0, 1, 2],
        [2.5, 3, 3.5, 3.5, 3.5],
        [2, 4.5, 7, 6, 5],
    ]
    assert resized[0].tolist() == expected


def test_one_aligned_result_is_the_middle_and_strictly_aligned_the_corner() -> None:
    size = {"target_size_height": 1, "target_size_width": 1}
    assert value_of(image.RESIZE_BILINEAR, PICTURE, **size, sampling_mode="ALIGN_CORNERS").item() == 0
    assert value_of(image.RESIZE_BILINEAR, PICTURE, **size, sampling_mode="STRICT_ALIGN_CORNERS").item() == 1


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DEFAULT", [0, 0, 1, 1]),
        ("UNALIGN_CORNERS", [0, 0, 1, 1]),
        ("ALIGN_CORNERS", [0, 0, 1, 1]),
        ("OFFSET_CORNERS", [0, 0, 1, 1]),
    ],
)
def test_doubling_by_the_nearest_repeats_elements(mode: str, expected: list[int]) -> None:
    assert nearest_indices(2, 4, mode).tolist() == expected


def test_a_tie_between_neighbours_goes_to_the_later() -> None:
    assert nearest_indices(2, 3, "ALIGN_CORNERS").tolist() == [0, 1, 1]
    assert nearest_indices(4, 2, "UNALIGN_CORNERS").tolist() == [1, 3]


def test_nearest_keeps_whole_numbers_exact() -> None:
    large = np.array([[[2**31 - 1, -(2**31)]]], np.int32)
    resized = value_of(image.RESIZE_NEAREST_NEIGHBOR, large, target_size_height=1, target_size_width=4)
    assert resized.dtype == np.int32
    assert resized.tolist() == [[[2**31 - 1, 2**31 - 1, -(2**31), -(2**31)]]]


@pytest.mark.parametrize(("source", "result"), [(6, 10), (3, 7), (49, 7), (5, 15), (7, 3)])
def test_the_nearest_of_whole_ratios_is_exact(source: int, result: int) -> None:
    assert nearest_indices(source, result, "DEFAULT").tolist() == [i * source // result for i in range(result)]


def test_an_infinite_neighbour_of_no_weight_leaves_no_trace() -> None:
    x = np.array([[[1.0, np.inf]]])
    resized = value_of(image.RESIZE_BILINEAR, x, target_size_height=1, target_size_width=4)
    assert resized.tolist() == [[[1, np.inf, np.inf, np.inf]]]


def test_upsample_repeats_and_takes_twice_by_default() -> None:
    assert value_of(image.UPSAMPLE, np.array([[[1.0, 2.0]]])).tolist() == [[[1, 1, 2, 2], [1, 1, 2, 2]]]


def test_fractional_factors_round_the_size_down() -> None:
    x = TensorType((1, 2, 5, 3))
    upsampled = type_of(image.UPSAMPLE_BILINEAR, x, scale_factor_height=1.5, scale_factor_width=0.5)
    assert upsampled.shape == (1, 2, 7, 1)
    nearest = type_of(image.UPSAMPLE_NEAREST_NEIGHBOR, x, scale_factor_height=1.5)
    assert nearest.shape == (1, 2, 7, 3)


def test_transfer_functions_undo_one_another_and_know_srgb() -> None:
    coded = np.linspace(-0.1, 1.5, 97)
    light = value_of(image.DEGAMMA, coded)
    np.testing.assert_allclose(value_of(image.GAMMA, light), coded, atol=3e-8)
    np.testing.assert_allclose(value_of(image.DEGAMMA, np.array([0, 0.5, 1])), [0, 0.21404114048223, 1], rtol=1e-12)
    np.testing.assert_allclose(value_of(image.GAMMA, np.array([0.18])), [0.46135612950044], rtol=1e-12)


def test_pixel_buffers_keep_bytes_as_they_are() -> None:
    x = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    there = value_of(image.PIXEL_BUFFER_TO_TENSOR, x)
    assert np.array_equal(value_of(image.TENSOR_TO_PIXEL_BUFFER, there), x)
    assert type_of(image.PIXEL_BUFFER_TO_TENSOR, TensorType((1, 3, 2, 2), "uint8")).dtype == "fp16"


def test_numbers_become_bytes_by_rounding_a_half_up_and_clipping() -> None:
    just_below = np.nextafter(0.5, 0)
    x = np.array([0.5, 1.5, 2.5, just_below, -0.5, -7, 254.5, 255.5, np.inf, -np.inf, np.nan])
    buffer = value_of(image.TENSOR_TO_PIXEL_BUFFER, x.reshape(1, 1, 1, -1))
    assert buffer.ravel().tolist() == [1, 2, 3, 0, 0, 0, 255, 255, 255, 0, 0]


def test_an_image_needs_a_channel_axis() -> None:
    with pytest.raises(GraphError, match=r"x of shape \[4, 4\] has too few axes .*3 or more: .*width\].*expand_dims"):
        type_of(image.RESIZE_BILINEAR, TensorType((4, 4)), target_size_height=2, target_size_width=2)


def test_an_empty_image_has_nothing_to_read() -> None:
    with pytest.raises(GraphError, match="an axis without elements cannot be sampled"):
        type_of(image.UPSAMPLE, TensorType((1, 0, 4)))


def test_between_whole_numbers_there_is_nothing() -> None:
    x = TensorType((1, 4, 4), "int32")
    with pytest.raises(GraphError, match="resize: x must hold floating-point numbers"):
        type_of(image.RESIZE_OP, x, shape=[2, 2], resized_dims=2)
    nearest = {"shape": [2, 2], "resized_dims": 2, "interpolation_mode": "NEAREST_NEIGHBOR"}
    assert type_of(image.RESIZE_OP, x, **nearest) == TensorType((1, 2, 2), "int32")


@pytest.mark.parametrize(
    ("shape", "resized_dims", "result"),
    [
        ([7], 1, (2, 3, 4, 7)),
        ([6, 7], 2, (2, 3, 6, 7)),
        ([9, 9, 6, 7], 2, (2, 3, 6, 7)),
        ([9, 0], 2, (2, 3, 9, 5)),
        ([0, 0, 0, 0], 4, (2, 3, 4, 5)),
        ([8, 0, 7], 3, (2, 8, 4, 7)),
    ],
)
def test_the_last_axes_take_the_last_lengths(shape: list[int], resized_dims: int, result: tuple[int, ...]) -> None:
    x = TensorType((2, 3, 4, 5))
    assert type_of(image.RESIZE_OP, x, shape=shape, resized_dims=resized_dims).shape == result


def test_two_resized_axes_are_an_image() -> None:
    sampling = {"sampling_mode": "ALIGN_CORNERS"}
    resized = value_of(image.RESIZE_OP, PICTURE, shape=[0, 5, 5], resized_dims=2, **sampling)
    bilinear = value_of(image.RESIZE_BILINEAR, PICTURE, target_size_height=5, target_size_width=5, **sampling)
    assert resized.tolist() == bilinear.tolist()
    assert value_of(image.RESIZE_OP, np.array([0.0, 4.0]), shape=[4], resized_dims=1).tolist() == [0, 2, 4, 4]


def test_an_image_becomes_one_element_unless_a_size_is_given() -> None:
    assert type_of(image.RESIZE_BILINEAR, TensorType((1, 2, 4, 4))).shape == (1, 2, 1, 1)
    with pytest.raises(GraphError, match="'target_size_height' is missing"):
        type_of(image.RESIZE_NEAREST_NEIGHBOR, TensorType((1, 2, 4, 4)))


@pytest.mark.parametrize(
    ("shape", "resized_dims", "message"),
    [
        ([2, 2, 2], 3, r"x has fewer axes than must be resized \(got 3, limit 2\)"),
        ([2], 2, r"shape has fewer lengths than axes to resize \(got 1, limit 2\)"),
        ([2, 2], 0, "'resized_dims' is too small"),
        ([2, -1], 2, "'shape' is too small"),
    ],
)
def test_lengths_that_do_not_fit(shape: list[int], resized_dims: int, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        type_of(image.RESIZE_OP, TensorType((4, 4)), shape=shape, resized_dims=resized_dims)


def test_a_size_is_multiplied_in_single_precision() -> None:
    for extent, factor, single, double in ((25, 1.16, 29, 28), (25, 2.12, 52, 53), (30, 2.1, 62, 63)):
        assert math.floor(extent * factor) == double, "in double precision it may be another"
        x = TensorType((1, extent, 1))
        assert type_of(image.UPSAMPLE_BILINEAR, x, scale_factor_height=factor).shape == (1, single, 1)
        assert type_of(image.UPSAMPLE_NEAREST_NEIGHBOR, x, scale_factor_height=factor).shape == (1, single, 1)
        line = np.arange(float(extent)).reshape(1, extent, 1)
        assert value_of(image.UPSAMPLE_BILINEAR, line, scale_factor_height=factor).shape == (1, single, 1)
        assert value_of(image.UPSAMPLE_NEAREST_NEIGHBOR, line, scale_factor_height=factor).shape == (1, single, 1)


def test_repetition_stays_exact_where_single_precision_is_not() -> None:
    extent = 2**24 + 1
    assert type_of(image.UPSAMPLE, TensorType((1, 1, extent)), scale=1).shape == (1, 1, extent)


def test_a_factor_beyond_all_sizes() -> None:
    with pytest.raises(GraphError, match="the scale factor makes the height too large"):
        type_of(image.UPSAMPLE_BILINEAR, TensorType((1, 5, 5)), scale_factor_height=1e39)
    with pytest.raises(GraphError, match="'scale_factor_width' is not finite"):
        type_of(image.UPSAMPLE_BILINEAR, TensorType((1, 5, 5)), scale_factor_width=float("nan"))


@pytest.mark.parametrize("factor", [0.1, 0.0, -2.0])
def test_a_factor_that_leaves_nothing(factor: float) -> None:
    with pytest.raises(
        GraphError, match=r"the scale factor leaves no width .*limit 5 times it is 1 or more in single precision"
    ):
        type_of(image.UPSAMPLE_NEAREST_NEIGHBOR, TensorType((1, 5, 5)), scale_factor_width=factor)


def test_sizes_and_modes_have_domains() -> None:
    with pytest.raises(GraphError, match="'target_size_height' is too small"):
        image.RESIZE_BILINEAR.complete({"target_size_height": 0, "target_size_width": 1})
    with pytest.raises(GraphError, match="'sampling_mode' is not one of its choices"):
        image.RESIZE_BILINEAR.complete({"target_size_height": 1, "target_size_width": 1, "sampling_mode": "CORNERS"})


def test_pixel_buffers_hold_bytes_in_four_axes() -> None:
    with pytest.raises(GraphError, match=r"a pixel buffer holds bytes .*got fp16, expected uint8"):
        type_of(image.PIXEL_BUFFER_TO_TENSOR, TensorType((1, 3, 2, 2)))
    with pytest.raises(GraphError, match="has the wrong rank"):
        type_of(image.PIXEL_BUFFER_TO_TENSOR, TensorType((3, 2, 2), "uint8"))
    with pytest.raises(GraphError, match="must hold floating-point numbers"):
        type_of(image.TENSOR_TO_PIXEL_BUFFER, TensorType((1, 3, 2, 2), "int32"))

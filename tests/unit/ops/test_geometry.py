"""Vectors, points and rows: worked cases, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups import geometry
from aneforge.ops.types import TensorType
from op_calls import evaluated, type_of


def test_the_axes_cross_to_one_another() -> None:
    x, y, z = np.eye(3)
    assert evaluated(geometry.CROSS_PRODUCT, x, y) == z.tolist()
    assert evaluated(geometry.CROSS_PRODUCT, y, x) == (-z).tolist()
    axes = np.eye(3)
    assert evaluated(geometry.CROSS_PRODUCT, axes, np.roll(axes, 1, axis=0)) == np.roll(axes, 2, axis=0).tolist()


def test_the_template_is_not_turned_round() -> None:
    x = np.zeros((3, 3))
    x[1, 1] = 1
    template = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert evaluated(geometry.CROSS_CORRELATION, x, template) == [[4, 3], [2, 1]]
    assert evaluated(geometry.CROSS_CORRELATION, template, template) == [[30]]


def test_the_work_of_a_correlation() -> None:
    types = {"x": TensorType((5, 6)), "template": TensorType((2, 3))}
    assert geometry.CROSS_CORRELATION.work(types, {}).macs == (4 * 4) * (2 * 3)


def test_costs_of_every_disparity() -> None:
    aux, ref = np.array([1.0, 5.0]), np.array([1.0, 2.0, 5.0, 9.0, 100.0])
    assert evaluated(geometry.COST_VOLUME, aux, ref, disparity_range=2) == [[0, 3], [1, 0], [4, 4]]


def test_a_disparity_range_of_none_compares_in_place() -> None:
    row = np.array([1.0, -2.0])
    assert evaluated(geometry.COST_VOLUME, row, row, disparity_range=0) == [[0, 0]]


def test_farthest_points_start_with_the_first() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [10, 0, 0], [0, 6, 0]])
    assert evaluated(geometry.FPS, points, k=3) == [[0, 0, 0], [10, 0, 0], [0, 6, 0]]
    assert evaluated(geometry.FPS, points, k=1) == [[0, 0, 0]]
    assert evaluated(geometry.FPS, points, k=4)[-1] == [1, 0, 0]


def test_of_equally_far_points_the_first_is_chosen() -> None:
    points = np.array([[0.0, 0, 0], [0, 2, 0], [2, 0, 0], [0, 0, 2]])
    assert evaluated(geometry.FPS, points, k=2)[1] == [0, 2, 0]


def test_where_all_points_are_one_it_is_chosen_again() -> None:
    assert evaluated(geometry.FPS, np.ones((3, 3)), k=3) == np.ones((3, 3)).tolist()


def test_the_boundary_of_a_radius_counts() -> None:
    points = np.array([[3.0, 4.0, 0.0], [3.0, 4.0, 0.1], [0.0, 0.0, 0.0]])
    centroids = np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    assert evaluated(geometry.RADIUS_SEARCH, points, centroids, radius=5) == [[1, 1], [0, 1], [1, 1]]
    assert evaluated(geometry.RADIUS_SEARCH, points, centroids, radius=0) == [[0, 1], [0, 0], [1, 0]]


def test_a_decomposition_has_shapes_and_no_meaning() -> None:
    assert type_of(geometry.MATRIX_DECOMPOSITION, TensorType((9, 5))).shape == (4, 5)
    kind = "CrossProductOrthoNormalization"
    assert type_of(geometry.MATRIX_DECOMPOSITION, TensorType((6,)), type=kind).shape == (3,)
    with pytest.raises(GraphError, match="no source gives the mathematics"):
        evaluated(geometry.MATRIX_DECOMPOSITION, np.zeros(9))


def test_a_decomposition_takes_its_own_number_of_channels() -> None:
    with pytest.raises(GraphError, match=r"NonQRGivens does not take .*\[6, 2\].*9 along the first axis"):
        type_of(geometry.MATRIX_DECOMPOSITION, TensorType((6, 2)))


def test_vectors_have_three_numbers() -> None:
    with pytest.raises(GraphError, match=r"b must hold vectors of three numbers .*expected \[3\] or \[3, \.\.\.\]"):
        type_of(geometry.CROSS_PRODUCT, TensorType((3, 2)), TensorType((2, 3)))


def test_vectors_pair_up() -> None:
    with pytest.raises(GraphError, match=r"equally many vectors .*\[3, 2\] and \[3, 4\]"):
        type_of(geometry.CROSS_PRODUCT, TensorType((3, 2)), TensorType((3, 4)))
    with pytest.raises(GraphError, match="the operands have different element types"):
        type_of(geometry.CROSS_PRODUCT, TensorType((3,)), TensorType((3,), "fp32"))


@pytest.mark.parametrize("template", [(4, 1), (1, 6), (0, 1)])
def test_a_template_fits_into_its_image(template: tuple[int, int]) -> None:
    with pytest.raises(GraphError, match=r"the template does not fit into x .*at most \[3, 5\]"):
        type_of(geometry.CROSS_CORRELATION, TensorType((3, 5)), TensorType(template))


def test_ref_is_longer_than_aux_by_the_disparity_range() -> None:
    with pytest.raises(GraphError, match=r"ref is too short to move aux of 4 by 3 .*got 6, expected at least 7"):
        type_of(geometry.COST_VOLUME, TensorType((4,)), TensorType((6,)), disparity_range=3)


def test_no_more_points_are_chosen_than_there_are() -> None:
    with pytest.raises(GraphError, match=r"fewer points than must be chosen .*got 5, expected at most 4"):
        type_of(geometry.FPS, TensorType((4, 3)), k=5)


def test_points_have_three_coordinates() -> None:
    with pytest.raises(GraphError, match=r"centroids do not have three coordinates each .*expected \[points, 3\]"):
        type_of(geometry.RADIUS_SEARCH, TensorType((4, 3)), TensorType((2, 4)), radius=1)
    with pytest.raises(GraphError, match="points must hold floating-point numbers"):
        type_of(geometry.FPS, TensorType((4, 3), "int32"), k=1)

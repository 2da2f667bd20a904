"""Order and choice: their errors, ties, and boxes worked out by hand."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.ranking import ARGSORT, NON_MAXIMUM_SUPPRESSION, SORT, TOPK
from aneforge.ops.op import Op
from aneforge.ops.types import TensorType

TIES = np.array([1, 3, 3, 0, 1], np.int32)
THRESHOLDS = {"iou_threshold": 0.3, "max_boxes": 4}


def test_the_largest_come_first_and_ties_by_place() -> None:
    values, places = TOPK.evaluate({"x": TIES}, TOPK.complete({"k": 3}))
    assert values.tolist() == [3, 3, 1]
    assert places.tolist() == [1, 2, 0]


def test_the_smallest_come_first_and_ties_by_place() -> None:
    values, places = TOPK.evaluate({"x": TIES}, TOPK.complete({"k": 3, "ascending": True}))
    assert values.tolist() == [0, 1, 1]
    assert places.tolist() == [3, 0, 4]


def test_one_element_is_chosen_by_default() -> None:
    assert TOPK.types({"x": TensorType((2, 5))}, TOPK.complete({})) == (
        TensorType((2, 1)),
        TensorType((2, 1), "int32"),
    )


def test_places_are_given_only_if_they_are_asked_for() -> None:
    alone = TOPK.complete({"k": 3, "return_indices": False})
    assert TOPK.types({"x": TensorType((5,), "int32")}, alone) == (TensorType((3,), "int32"),)
    assert [values.tolist() for values in TOPK.evaluate({"x": TIES}, alone)] == [[3, 3, 1]]


def test_places_of_sixteen_bits() -> None:
    short = TOPK.complete({"k": 3, "output_indices_dtype": "uint16"})
    assert TOPK.types({"x": TensorType((5,))}, short)[1] == TensorType((3,), "uint16")
    assert TOPK.evaluate({"x": TIES}, short)[1].dtype == np.uint16
    assert TOPK.types({"x": TensorType((65536,))}, short)[1].shape == (3,)
    with pytest.raises(GraphError, match=r"too long for places in uint16 \(got 65537, limit 65536\)"):
        TOPK.types({"x": TensorType((65537,))}, short)


def test_no_more_can_be_chosen_than_there_are() -> None:
    with pytest.raises(GraphError, match=r"axis 1 has fewer elements than k \(got 6, limit 5\)"):
        TOPK.types({"x": TensorType((2, 5))}, TOPK.complete({"k": 6}))


def test_nothing_cannot_be_chosen() -> None:
    with pytest.raises(GraphError, match="'k' is too small"):
        TOPK.complete({"k": 0})


@pytest.mark.parametrize("op", [TOPK, ARGSORT, SORT], ids=lambda op: op.name)
def test_an_axis_that_is_not_there(op: Op) -> None:
    with pytest.raises(GraphError, match="axis is not an axis of a tensor of rank 2"):
        op.types({"x": TensorType((2, 5))}, op.complete({"axis": 2}))


def test_descending_places_keep_ties_in_order() -> None:
    assert ARGSORT.evaluate({"x": TIES}, ARGSORT.complete({}))[0].tolist() == [1, 2, 0, 4, 3]


def test_ascending_places_keep_ties_in_order() -> None:
    assert ARGSORT.evaluate({"x": TIES}, ARGSORT.complete({"ascending": True}))[0].tolist() == [3, 0, 4, 1, 2]


def test_the_least_whole_number_sorts_last_of_all_descending() -> None:
    x = np.array([-128, 127, 0], np.int8)
    assert ARGSORT.evaluate({"x": x}, ARGSORT.complete({}))[0].tolist() == [1, 2, 0]


def test_sorting_is_ascending_by_default() -> None:
    assert SORT.evaluate({"x": TIES}, SORT.complete({}))[0].tolist() == [0, 1, 1, 3, 3]


def suppressed(*, per_class: bool) -> list[int]:
    boxes = np.array([[[1.0, 1, 2, 2], [1.0, 1, 2, 2], [9.0, 9, 2, 2]]]).transpose(0, 2, 1)
    scores = np.array([[[0.9, 0.1, 0.5], [0.0, 0.8, 0.4]]])
    attributes = NON_MAXIMUM_SUPPRESSION.complete({**THRESHOLDS, "per_class_suppression": per_class})
    coordinates, confidences, places = NON_MAXIMUM_SUPPRESSION.evaluate({"boxes": boxes, "scores": scores}, attributes)
    assert coordinates.shape == (1, 4, 4)
    assert confidences.shape == (1, 2, 4)
    assert coordinates[0, :, 0].tolist() == [1, 1, 2, 2]
    assert confidences[0, :, 0].tolist() == [0.9, 0]
    assert coordinates[0, :, -1].tolist() == [0, 0, 0, 0]
    assert confidences[0, :, -1].tolist() == [0, 0]
    return places[0].tolist()


def test_an_equal_box_of_a_lower_score_is_suppressed() -> None:
    assert suppressed(per_class=False) == [0, 2, -1, -1]


def test_per_class_it_is_kept_for_another_class() -> None:
    assert suppressed(per_class=True) == [0, 1, 2, -1]


def test_boxes_without_area_do_not_overlap() -> None:
    attributes = NON_MAXIMUM_SUPPRESSION.complete({**THRESHOLDS, "iou_threshold": 0.0})
    operands = {"boxes": np.zeros((1, 4, 2)), "scores": np.ones((1, 1, 2))}
    assert NON_MAXIMUM_SUPPRESSION.evaluate(operands, attributes)[2].tolist() == [[0, 1, -1, -1]]


def test_a_low_score_does_not_suppress_by_itself() -> None:
    attributes = NON_MAXIMUM_SUPPRESSION.complete(THRESHOLDS)
    operands = {"boxes": np.array([[[1.0], [1], [2], [2]]]), "scores": np.array([[[-3.0]]])}
    assert NON_MAXIMUM_SUPPRESSION.evaluate(operands, attributes)[2].tolist() == [[0, -1, -1, -1]]


def test_the_three_results_of_suppression() -> None:
    operands = {"boxes": TensorType((2, 4, 9)), "scores": TensorType((2, 3, 9))}
    assert NON_MAXIMUM_SUPPRESSION.types(operands, NON_MAXIMUM_SUPPRESSION.complete(THRESHOLDS)) == (
        TensorType((2, 4, 4)),
        TensorType((2, 3, 4)),
        TensorType((2, 4), "int32"),
    )


@pytest.mark.parametrize(
    ("boxes", "scores", "text"),
    [
        ((4, 2), (1, 3, 2), "boxes of shape .* has the wrong rank"),
        ((1, 5, 2), (1, 3, 2), "a box is not four numbers"),
        ((1, 2, 4), (1, 2, 3), r"a box is not four numbers .*centre x, centre y, width, height\), boxes"),
        ((1, 4, 2), (1, 3, 3), r"scores and boxes do not match .*expected \[1, classes, 2\]"),
        ((1, 4, 2), (2, 3, 2), "scores and boxes do not match"),
        ((1, 4, 2), (1, 0, 2), "scores name no class"),
    ],
)
def test_boxes_and_scores_that_do_not_fit(boxes: tuple[int, ...], scores: tuple[int, ...], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        NON_MAXIMUM_SUPPRESSION.types(
            {"boxes": TensorType(boxes), "scores": TensorType(scores)}, NON_MAXIMUM_SUPPRESSION.complete(THRESHOLDS)
        )

"""Operators whose results are as long as the data makes them: done while the model is read, where the data is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.ops.types import Array

WORK_MOST = 10**8
"""Pairs of boxes that one node compares while the model is read; a few seconds."""
BOX_WORK = 1000
"""What choosing a box costs in addition to its comparisons, counted in them."""


@operator("Unique", takes_all=True)
def unique(call: Call) -> tuple[Value, ...]:
    """Convert the different elements, or slices along an axis, of a tensor that is known: sorted, or as they come."""
    expect_known(call, "how many different elements there are depends on the data")
    x, emit = call.expect_known(0, "the tensor"), call.emit
    dtype = call.value(0).type.dtype
    expect_room(call, x.nbytes + 3 * 8 * x.size, x.nbytes)
    axis = normalise_axis(call.integer("axis"), x.ndim) if call.has("axis") else None
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    if not call.flag("sorted"):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    listed = (emit.constant(one.reshape(-1), "int64") for one in (first, inverse, counts))
    return emit.constant(values, dtype), *listed


@operator("NonMaxSuppression")
def suppression(call: Call) -> Value:
    """Convert the choice of boxes with the best scores that do not overlap one chosen before, all of them known."""
    expect_known(call, "how many boxes are left depends on their scores")
    boxes, scores = call.expect_known(0, "the list of boxes"), call.expect_known(1, "the list of scores")
    most = max(call.known_integer(2, "the number of boxes"), 0) if call.optional(2) is not None else 0
    overlap = call.known_number(3, "the overlap") if call.optional(3) is not None else 0.0
    least = call.known_number(4, "the least score") if call.optional(4) is not None else None
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise GraphError(
            "boxes and scores are not [N, B, 4] and [N, C, B]", seen=f"{list(boxes.shape)} and {list(scores.shape)}"
        )
    if not 0 <= overlap <= 1:
        raise GraphError("the overlap from which boxes are left out is out of range", seen=overlap, limit="0 to 1")
    batch, classes, count = scores.shape
    chosen = batch * classes * min(most, count)
    if chosen * (count + BOX_WORK) > WORK_MOST:
        raise too_much(f"{chosen} times {count} boxes are compared")
    expect_room(call, 3 * 8 * chosen, boxes.nbytes + scores.nbytes)
    corners = corners_of(boxes, centred=call.flag("center_point_box"))
    rows = [
        (image, kind, place)
        for image in range(batch if chosen else 0)
        for kind in range(classes)
        for place in best_boxes(corners[image], scores[image, kind], most, np.float32(overlap), least)
    ]
    return call.emit.constant(np.array(rows, np.int64).reshape(-1, 3), "int64")


def expect_known(call: Call, reason: str) -> None:
    """Check that all inputs are known.

    Raises:
        UnsupportedNodeError: One is computed, or no tensor.
    """
    if all(one is None or isinstance(one, Constant) for one in call.inputs):
        call.emit.budget.take_nodes()
        return
    raise UnsupportedNodeError(
        Reason.DATA_SHAPE, reason, workaround="end the model before it and do the rest on the host"
    )


def expect_room(call: Call, size: int, operands: int) -> None:
    """Check that results of so many bytes may be made while the model is read.

    Raises:
        UnsupportedNodeError: They are too large.
    """
    if not call.emit.budget.may_fold(size, operands):
        raise too_much(f"its results take up to {size} bytes")


def too_much(what: str) -> UnsupportedNodeError:
    """Return the error of a node that does too much to be done while the model is read."""
    return UnsupportedNodeError(
        Reason.LIMIT,
        f"it is known when the model is read and does too much then: {what}",
        workaround="store its result in the model instead",
    )


def corners_of(boxes: Array, *, centred: bool) -> Array:
    """Return boxes as their least and greatest corners, the two coordinates of each one after the other."""
    one, other = boxes[..., :2], boxes[..., 2:]
    if centred:  # a middle, and a width and a height
        half = other / np.float32(2)
        return np.concatenate([one - half, one + half], axis=-1)
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=-1)


def best_boxes(corners: Array, scores: Array, most: int, overlap: np.float32, least: float | None) -> list[int]:
    """Return the places of boxes, best first: each one not over the part that it may share with a better one."""
    waiting = np.argsort(-scores, kind="stable")
    if least is not None:
        waiting = waiting[scores[waiting] > np.float32(least)]
    chosen: list[int] = []
    while waiting.size and len(chosen) < most:
        best, waiting = int(waiting[0]), waiting[1:]
        chosen.append(best)
        waiting = waiting[~(compute_shared_parts(corners[best], corners[waiting]) > overlap)]
    return chosen


def compute_shared_parts(one: Array, others: Array) -> Array:
    """Return how much a box shares with others, as a part of what both cover; without an area it is nothing."""
    sides = np.minimum(one[2:], others[:, 2:]) - np.maximum(one[:2], others[:, :2])
    shared = np.where((sides > 0).all(axis=1), sides.prod(axis=1), 0)
    area, areas = (one[2:] - one[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
    covered = area + areas - shared
    usable = (area > 0) & (areas > 0) & (covered > 0)
    return np.where(usable, shared, 0) / np.where(usable, covered, 1)

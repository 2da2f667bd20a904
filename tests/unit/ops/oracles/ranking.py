"""Independent implementations of order and choice: Python's sort of (value, place) pairs, and plain loops for boxes."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor


def along(x: Array, axis: int, function: Callable[[Sequence[float]], list[float]]) -> Array:
    """Apply a function of a list to every line of an array."""
    moved = np.moveaxis(x, axis, -1)
    lines = [function([value.item() for value in line]) for line in moved.reshape(-1, moved.shape[-1])]
    return np.moveaxis(np.array(lines).reshape(*moved.shape[:-1], -1), -1, axis)


def places(line: Sequence[float], *, ascending: bool) -> list[int]:
    sign = 1 if ascending else -1
    return [place for _, place in sorted((sign * value, place) for place, value in enumerate(line))]


def topk(x: Array, *, k: int, axis: int, ascending: bool, return_indices: bool, **_: object) -> tuple[Array, ...]:
    def chosen(line: Sequence[float]) -> list[float]:
        return [line[place] for place in places(line, ascending=ascending)[:k]]

    def where(line: Sequence[float]) -> list[float]:
        return [float(place) for place in places(line, ascending=ascending)[:k]]

    values = along(x, axis, chosen)
    return (values, along(x, axis, where)) if return_indices else (values,)


def argsort(x: Array, *, axis: int, ascending: bool) -> Array:
    def where(line: Sequence[float]) -> list[float]:
        return [float(place) for place in places(line, ascending=ascending)]

    return along(x, axis, where)


def sort(x: Array, *, axis: int, descending: bool) -> Array:
    return array(torch.sort(tensor(x), dim=axis, descending=descending).values)


def intersection_over_union(first: Sequence[float], second: Sequence[float]) -> float:
    sides = [
        min(first[axis] + first[axis + 2] / 2, second[axis] + second[axis + 2] / 2)
        - max(first[axis] - first[axis + 2] / 2, second[axis] - second[axis + 2] / 2)
        for axis in (0, 1)
    ]
    common = sides[0] * sides[1] if min(sides) > 0 else 0.0
    return common / (first[2] * first[3] + second[2] * second[3] - common)


def kept(boxes: list[list[float]], scores: list[list[float]], iou: float, *, per_class: bool) -> list[int]:
    chosen: list[int] = []
    for place in sorted(range(len(boxes)), key=lambda one: (-max(scores[one]), one)):
        of_class = scores[place].index(max(scores[place]))
        rivals = [one for one in chosen if not per_class or scores[one].index(max(scores[one])) == of_class]
        hidden = any(intersection_over_union(boxes[place], boxes[one]) > iou for one in rivals)
        if not hidden:
            chosen.append(place)
    return chosen


def non_maximum_suppression(
    boxes: Array,
    scores: Array,
    *,
    iou_threshold: float,
    max_boxes: int,
    per_class_suppression: bool,
) -> tuple[Array, Array, Array]:
    chosen = [
        kept(b.T.tolist(), s.T.tolist(), iou_threshold, per_class=per_class_suppression)[:max_boxes]
        for b, s in zip(boxes, scores, strict=True)
    ]
    filled = [one + [-1] * (max_boxes - len(one)) for one in chosen]
    return picked(boxes, filled), picked(scores, filled), np.array(filled)


def picked(values: Array, filled: list[list[int]]) -> Array:
    """Take columns of every image, and 0 where there is none."""
    images = zip(values.tolist(), filled, strict=True)
    return np.array([[[row[i] if i >= 0 else 0.0 for i in places] for row in image] for image, places in images])


ORACLES: dict[str, Oracle] = {
    "topk": topk,
    "argsort": argsort,
    "sort": sort,
    "non_maximum_suppression": non_maximum_suppression,
}

"""The nearest elements that MIL's `resize` takes, in text and in packages, which are others than those of the op table.

In the sampling mode DEFAULT, result i of `count` is at i · extent / count. The op table takes the element at or
before that place. MIL takes the nearest: of 2 elements brought to 3, the operator tests that coremltools ships, whose
expected numbers were run on Core ML, have 0, 1, 1 (`TestResize`), and no other case of theirs shows more. Text is what
Core ML compiles a package to (`model.mil` in an .mlmodelc), so one operation has one meaning in both: that is inferred,
no source gives numbers for text alone. On a tie, of which no source speaks, the lower is taken here: doubling repeats
every element, as in `resize_nearest_neighbor`, of which the documentation of `resize` calls it a superset. What is
written leaves no tie, and no place where the two rules differ, to the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.interpolation import nearest_indices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.types import Array

__all__ = ["as_read", "gather", "is_nearest_default", "nearest_places", "own_places", "resized_axes"]


def nearest_places(extent: int, count: int, *, upper: bool = False) -> Array:
    """Return the element that each result takes in the mode DEFAULT of MIL; on a tie the lower, or the upper.

    >>> nearest_places(2, 3).tolist(), nearest_places(2, 4).tolist(), nearest_places(2, 4, upper=True).tolist()
    ([0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1])
    """
    doubled = 2 * np.arange(count, dtype=np.int64) * extent
    rounded = (doubled + count) // (2 * count) if upper else -((count - doubled) // (2 * count))
    return np.minimum(rounded, extent - 1)


def own_places(extent: int, count: int) -> Array:
    """Return the elements that the op table takes."""
    return nearest_indices(extent, count, "DEFAULT")


def as_read(resized: Tensor) -> Tensor:
    """Return what a resize that was read gives: the elements that MIL takes are gathered where the table's differ."""
    node = resized.node
    if not is_nearest_default(node):
        return resized
    axes = resized_axes(node)
    places = {axis: nearest_places(*lengths) for axis, lengths in axes.items()}
    if all(np.array_equal(places[axis], own_places(*lengths)) for axis, lengths in axes.items()):
        return resized
    return gather(node, cast("Value", node.operands["x"]), places)


def is_nearest_default(node: Node) -> bool:
    """Return whether a node is a resize whose nearest elements may differ between MIL and the op table."""
    given = node.attributes
    nearest = node.op.name == "resize" and given["interpolation_mode"] == "NEAREST_NEIGHBOR"
    return nearest and given["sampling_mode"] == "DEFAULT"


def resized_axes(node: Node) -> dict[int, tuple[int, int]]:
    """Return the lengths of the axes that a resize changes, before and after."""
    before, after = cast("Value", node.operands["x"]).type.shape, node.types[0].shape
    pairs = enumerate(zip(before, after, strict=True))
    return {axis: (extent, count) for axis, (extent, count) in pairs if extent != count}


def gather(node: Node, x: Value, places: Mapping[int, Array]) -> Tensor:
    """Return a tensor with the elements at given places of its axes, in the place of a node; one axis is given."""
    result = x
    for axis, indices in places.items():
        taken: dict[str, Argument | None] = {"x": result, "indices": Dense.owning(indices.astype(np.int32))}
        result = Tensor(build("gather", taken, {"axis": axis}, node.location))
    return cast("Tensor", result)

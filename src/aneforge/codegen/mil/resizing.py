"""`resize` to the nearest elements in a form that leaves none to the reader which it may choose otherwise.

The op table and MIL take other elements in the sampling mode DEFAULT (`importers.mil.resizing` has the evidence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.importers.mil.resizing import gathered, is_nearest_default, nearest_places, own_places, resized_axes
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument, Node, Value

__all__ = ["resized"]


def resized(node: Node, operands: Mapping[str, Argument]) -> list[Tensor] | None:
    """Rebuild a resize whose elements MIL takes otherwise, or whose ties no source decides; None keeps the node."""
    if not is_nearest_default(node):
        return None
    axes = resized_axes(node)
    own = {axis: own_places(*lengths) for axis, lengths in axes.items()}
    if all(
        np.array_equal(own[axis], nearest_places(*lengths, upper=upper))
        for axis, lengths in axes.items()
        for upper in (False, True)
    ):
        return None
    x = cast("Value", operands["x"])
    repeated = upsampled(node, x)
    return [gathered(node, x, own) if repeated is None else repeated]


def upsampled(node: Node, x: Value) -> Tensor | None:
    """Return an image whose elements are repeated along height and width; None for any other resizing."""
    before, after = x.type.shape, node.types[0].shape
    if x.type.rank < 3 or before[:-2] != after[:-2] or not is_float(x.type.dtype):
        return None
    factors = [divmod(count, extent) for extent, count in zip(before[-2:], after[-2:], strict=True)]
    if any(rest for _, rest in factors):
        return None
    names = ("scale_factor_height", "scale_factor_width")
    scales = {name: float(factor) for name, (factor, _) in zip(names, factors, strict=True)}
    return Tensor(build("upsample_nearest_neighbor", {"x": x}, scales, node.location))

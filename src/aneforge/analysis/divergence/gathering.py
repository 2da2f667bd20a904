"""Layers that only bring elements of a value to other places, whatever they are made of.

A target without a texture engine resizes by products: every result is one element times one, all others times zero. A
later target reads the element itself. Both gather the same elements; what elements pass on the way is another matter
(`passages`), and often nothing that they can hold is changed by it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.analysis.divergence.functions import split_slots
from aneforge.analysis.divergence.passages import Passage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.engine.execution.run_products import PRODUCT_KINDS, convolution_form, encodes_activations
from aneforge.ops.constant import Dense
from aneforge.ops.interpolation import grid_points, nearest_indices
from aneforge.ops.table import find_op
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.ops.attributed import Attributed
    from aneforge.ops.signature import AttributeValue
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Places = npt.NDArray[np.int32]
    Attributes = Mapping[str, AttributeValue]

__all__ = ["Gather", "gather_of", "list_resized_places"]

MOST_ELEMENTS = 1 << 22
"""Maximum number of elements of a result and of its source; larger ones are not examined."""
COPIES = ("broadcast", "tile")
"""Copies that no other form describes."""
FIRST_WEIGHTS = 256
"""Number of weights that are checked before all of them: hardly any product has only ones and zeros among them."""


@dataclass(frozen=True, slots=True)
class Gather:
    """A layer whose results, before the slots after it, are elements of one value."""

    source: Value
    places: Places
    """The place in the source of every result, both in rows."""
    passage: Passage


def gather_of(layer: Layer, target: Target, *, weights: bool = True) -> Gather | None:
    """Return a layer as a gathering of elements; None where it is none, or `weights` that decide it may not be read."""
    source = layer.bottoms[0] if len(layer.bottoms) == 1 else None
    if source is None or source.type.dtype != "fp16" or len(layer.results) > 1:
        return None
    if max(source.type.size, layer.core_types[0].size) > MOST_ELEMENTS or not source.type.size:
        return None
    if layer.kind.name == "resize":
        places = list_resized_places(layer, source.shape)
        return None if places is None else Gather(source, places, Passage.COMPUTED)
    call = call_of_layer(layer)
    if layer.kind.name in COPIES and call is not None and len(layer.operands) == 1:
        operands = call.renamed({name: number_places(source) for name in layer.operands})
        (copied,) = find_op(call.op).evaluate(cast("dict[str, Any]", operands), call.attributes)
        return Gather(source, copied.astype(np.int32).reshape(-1) - 1, Passage.COPY)
    if call is None or not weights or layer.kind.name not in PRODUCT_KINDS:
        return None
    passage = passage_of_product(layer, call, target)
    places = None if passage is None else find_chosen_places(layer, call, source)
    return None if passage is None or places is None else Gather(source, places, passage)


def number_places(source: Value) -> Array:
    """Return a tensor whose elements are their own places, counted from one."""
    return np.arange(1.0, source.type.size + 1).reshape(source.shape)


# Resizes.


def list_resized_places(resize: Attributed, shape: tuple[int, ...]) -> Places | None:
    """Return the places that a resize reads; None where it reads between elements."""
    size = resize.integers("size")
    lead = shape[: len(shape) - len(size)]
    places = np.arange(math.prod(lead)).reshape(*lead, *[1] * len(size))
    for axis, count in enumerate(size, len(lead)):
        along = places_along(shape[axis], count, resize.text("mode"), resize.text("sampling"))
        if along is None:
            return None
        places = places * shape[axis] + along.reshape([-1 if one == axis else 1 for one in range(len(shape))])
    return places.astype(np.int32).reshape(-1)


def places_along(extent: int, count: int, mode: str, sampling: str) -> Array | None:
    """Return the places that a resize reads along an axis.

    >>> places_along(2, 4, "NEAREST", "DEFAULT").tolist(), places_along(3, 3, "LINEAR", "UNALIGN_CORNERS").tolist()
    ([0, 0, 1, 1], [0, 1, 2])
    >>> places_along(2, 4, "LINEAR", "DEFAULT") is None
    True
    """
    if sampling == ALIGNED_HALF_PIXELS:
        return None
    if mode == "NEAREST":
        return nearest_indices(extent, count, sampling)
    points = grid_points(extent, count, sampling)
    return points.astype(np.intp) if np.array_equal(points, np.trunc(points)) else None


# Products of which every result is one element.


def passage_of_product(layer: Layer, call: Call, target: Target) -> Passage | None:
    """Return what elements pass in a product whose weights choose them; None where more is done to them."""
    joined, _ = split_slots(layer)
    if joined or len(layer.operands) != len(("weight", "other")) or encodes_activations(layer, target):
        return None
    if call.op != "conv":
        return Passage.SUM
    return {"direct": Passage.SUM, "scaling": Passage.COMPUTED}.get(convolution_form(layer, call, target))


def find_chosen_places(layer: Layer, call: Call, source: Value) -> Places | None:
    """Return the element that every result of a product is; None where a weight is neither 0 nor 1, or not one is."""
    names = layer.kind.product
    weight = None if names is None else layer.weight(names.weight)
    if names is None or not isinstance(weight, Dense):
        return None
    held = weight.dense()
    if not (of_zeros_and_ones(held.reshape(-1)[:FIRST_WEIGHTS]) and of_zeros_and_ones(held)):
        return None

    def product(values: Array) -> Array:
        operands = call.renamed({names.data: values, names.weight: held.astype(np.float64)})
        (result,) = find_op(call.op).evaluate(cast("dict[str, Any]", operands), call.attributes)
        return result

    if not np.array_equal(product(np.ones(source.shape)), np.ones(layer.core_types[0].shape)):
        return None
    return (product(number_places(source)) - 1).astype(np.int32).reshape(-1)


def of_zeros_and_ones(weights: Array) -> bool:
    """Return whether weights are only zeros and ones."""
    return bool(((weights == 0) | (weights == 1)).all())

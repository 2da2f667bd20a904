"""Layers on fewer axes: which neighbouring axes of a layer may become one, and what the layer is then.

A tensor keeps its elements in their order when neighbouring axes become one, so a layer that treats two neighbours
alike gives the same on the merged axis. Axes of length 1 on which a layer does nothing are left out first.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from aneforge.compiler.passes.cuts import is_reduction, list_reduced_axes
from aneforge.compiler.passes.layer_maker import merge_first_axes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.ops.signature import AttributeValue

__all__ = ["Merged", "merge_layer_axes"]

Group = tuple[int, ...]
"""Neighbouring axes that become one."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A layer on merged axes."""

    shapes: tuple[tuple[int, ...] | None, ...]
    """The shapes of its operands, lists taken apart; None for one that stays as it is."""
    attributes: Mapping[str, AttributeValue]


def grouped(axes: Sequence[int], most: int, together: Callable[[int, int], bool]) -> list[Group] | None:
    """Return axes in so many groups or fewer; `together` says whether an axis and the one after it may be one.

    >>> grouped([0, 1, 2, 3], 3, lambda before, after: before > 0)
    [(0,), (1, 2), (3,)]
    """
    groups: list[Group] = [(axis,) for axis in axes]
    place = 1
    while len(groups) > most and place < len(groups):
        if together(groups[place - 1][-1], groups[place][0]):
            groups[place - 1 : place + 1] = [groups[place - 1] + groups[place]]
        else:
            place += 1
    return groups if len(groups) <= most else None


def merged_shape(shape: Sequence[int], groups: Sequence[Group]) -> tuple[int, ...]:
    """Return a shape with its groups of axes merged; axes of no group are left out."""
    return tuple(math.prod(shape[axis] for axis in group) for group in groups)


def place_of(axis: int, groups: Sequence[Group]) -> int:
    """Return which group an axis is in."""
    return next(place for place, group in enumerate(groups) if axis in group)


def longer_than_one(shape: Sequence[int], needed: Sequence[int] = ()) -> list[int]:
    """Return the axes that are longer than 1 or needed; the first, if there is none."""
    return [axis for axis, extent in enumerate(shape) if extent != 1 or axis in needed] or [0]


def align(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a shape with axes of length 1 in front, up to a rank."""
    return (1,) * (rank - len(shape)) + shape


def alike(shape: tuple[int, ...], operands: Sequence[tuple[int, ...]]) -> Callable[[int, int], bool]:
    """Return the test that every operand has two axes of a shape whole, or neither: then they may be one."""

    def together(before: int, after: int) -> bool:
        pair = (shape[before], shape[after])
        return all((own[before], own[after]) in (pair, (1, 1)) for own in operands)

    return together


def elementwise(layer: Layer, most: int) -> Merged | None:
    """Merge axes that every operand has whole, or does not have at all."""
    shape = layer.core_types[0].shape
    operands = [align(ref.type.shape, len(shape)) for _, ref in layer.refs()]
    groups = grouped(longer_than_one(shape), most, alike(shape, operands))
    if groups is None:
        return None
    return Merged(tuple(merged_shape(own, groups) for own in operands), layer.attributes)


def reduction(layer: Layer, most: int) -> Merged | None:
    """Merge axes that are reduced together or stay together."""
    shape, gone = layer.operand("x").type.shape, list_reduced_axes(layer)
    groups = grouped(longer_than_one(shape, gone), most, lambda before, after: (before in gone) == (after in gone))
    if groups is None:
        return None
    axes = tuple(place for place, group in enumerate(groups) if group[0] in gone)
    return Merged((merged_shape(shape, groups),), {**layer.attributes, "axes": axes})


def along_one_axis(layer: Layer, most: int) -> Merged | None:
    """Merge the axes on both sides of the one along which a layer works."""
    shape = layer.operand(layer.kind.flowing).type.shape
    axis = layer.integer("axis") % len(shape)
    groups = grouped(longer_than_one(shape, (axis,)), most, lambda before, after: axis not in (before, after))
    if groups is None:
        return None
    others = (None,) * (len(tuple(layer.refs())) - 1)
    attributes = {**layer.attributes, "axis": place_of(axis, groups)}
    return Merged((merged_shape(shape, groups), *others), attributes)


def transpose(layer: Layer, most: int) -> Merged | None:
    """Merge axes that stay neighbours."""
    shape = layer.operand("x").type.shape
    kept = longer_than_one(shape)
    order = [axis for axis in (place % len(shape) for place in layer.integers("perm")) if axis in kept]
    after = dict(pairwise(order))
    groups = grouped(kept, most, lambda first, second: after.get(first) == second)
    if groups is None:
        return None
    firsts = [group[0] for group in groups]
    perm = tuple(firsts.index(axis) for axis in order if axis in firsts)
    return Merged((merged_shape(shape, groups),), {"perm": perm})


def concat(layer: Layer, most: int) -> Merged | None:
    """Merge the axes on both sides of the one along which tensors are joined."""
    shape = layer.core_types[0].shape
    axis = layer.integer("axis") % len(shape)
    groups = grouped(range(len(shape)), most, lambda before, after: axis not in (before, after))
    if groups is None or layer.flag("interleave"):
        return None
    shapes = tuple(merged_shape(ref.type.shape, groups) for _, ref in layer.refs())
    return Merged(shapes, {**layer.attributes, "axis": place_of(axis, groups)})


def part(layer: Layer, most: int) -> Merged | None:
    """Merge neighbours of which a slice takes all."""
    shape, size = layer.operand("input").type.shape, layer.integers("size")
    begin = layer.integers("begin")
    whole = [taken == extent for taken, extent in zip(size, shape, strict=True)]
    groups = grouped(longer_than_one(shape), most, lambda before, after: whole[before] and whole[after])
    if groups is None:
        return None
    begins = tuple(begin[group[0]] for group in groups)
    return Merged((merged_shape(shape, groups),), {"begin": begins, "size": merged_shape(size, groups)})


def matmul(layer: Layer, most: int) -> Merged | None:
    """Merge batch axes of a product that both operands have whole, or one does not have at all."""
    shapes = [ref.type.shape for _, ref in layer.refs()]
    batch = layer.core_types[0].shape[:-2]
    if min(map(len, shapes)) < 2:
        return None
    batches = [align(own[:-2], len(batch)) for own in shapes]
    groups = grouped(longer_than_one(batch), most - 2, alike(batch, batches))
    if groups is None:
        return None
    merged_batches = (() if math.prod(own) == 1 else merged_shape(own, groups) for own in batches)
    pairs = zip(merged_batches, shapes, strict=True)
    return Merged(tuple((*own, *shape[-2:]) for own, shape in pairs), layer.attributes)


def linear(layer: Layer, most: int) -> Merged | None:
    """Merge the first axes of a linear layer's input, whose rows are independent."""
    others = (None,) * (len(layer.operands) - 1)
    return Merged((merge_first_axes(layer.operand("x").type.shape, most), *others), layer.attributes)


def reshape(layer: Layer, most: int) -> Merged | None:
    """Take the shapes of a reshape as the tensors are held."""
    return Merged(
        (merge_first_axes(layer.operand("x").type.shape, most),),
        {"shape": merge_first_axes(layer.core_types[0].shape, most)},
    )


def merge_layer_axes(layer: Layer, most: int) -> Merged | None:
    """Return a layer without epilogue on so many axes or fewer; None where that cannot be."""
    if layer.kind.is_elementwise or layer.kind.name == "identity":
        return elementwise(layer, most)
    if is_reduction(layer.kind):
        return reduction(layer, most)
    found = FORMS.get(layer.kind.name)
    return found(layer, most) if found else None


FORMS: Mapping[str, Callable[[Layer, int], Merged | None]] = {
    "reshape": reshape,
    "transpose": transpose,
    "concat": concat,
    "slice": part,
    **dict.fromkeys(("softmax", "cumulative_sum", "gain_offset_control"), along_one_axis),
    "matmul": matmul,
    "linear": linear,
}

"""Checks that a tensor that is inside another one is where the layer between them would have copied it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.axes import Axis, roles
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.folding import FoldKind
from aneforge.compiler.memory.layout import Layout, extents_of, same_places
from aneforge.errors import GraphError
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.memory.plan import Allocation, MemoryPlan

__all__ = ["check_folds"]

Begin = tuple[tuple[Axis, int], ...]
VIEWS = ("reshape", "identity")


def check_folds(program: Program, plan: MemoryPlan) -> None:
    """Check every tensor that is inside another one.

    Raises:
        GraphError: It is not where it should be, or not while the other one is there.
    """
    folds = {fold.value: fold for fold in plan.folds}
    layers = {layer.name: layer for layer in program.layers}
    types = {value.name: value for layer in program.layers for value in (*layer.bottoms, *layer.results)}
    begins: dict[str, dict[str, Begin]] = {}
    for one in plan.by_value.values():
        if one.root == one.value:
            continue
        fold = folds.get(one.value)
        if fold is None or fold.layer not in layers:
            raise GraphError(f"%{one.value} is inside %{one.root}, and no layer says why")
        outer, root = plan.by_value[fold.inside], plan.by_value[one.root]
        if (one.memory, one.home) != (root.memory, root.home) or not root.first <= one.first <= one.last <= root.last:
            raise GraphError(f"%{one.value} is inside %{one.root}, which is elsewhere or not there in time")
        if one.offset < root.offset or one.offset + one.size > root.offset + root.size:
            raise GraphError(f"%{one.value} is inside %{one.root} and reaches out of it")
        layer = layers[fold.layer]
        if fold.kind is FoldKind.VIEW:
            fits = views_it(layer, one, outer, types)
        else:
            if layer.name not in begins:
                begins[layer.name] = begins_of(layer)
            fits = fold.inside == layer.name and is_part(begins[layer.name].get(one.value), one, outer, types)
        if not fits:
            raise GraphError(f"%{one.value} is not where %{fold.layer} would put it inside %{fold.inside}")


def views_it(layer: Layer, one: Allocation, outer: Allocation, types: Mapping[str, Value]) -> bool:
    """Return whether a layer gives the bytes of one tensor another shape, and both are those bytes."""
    alike = same_places(layout_of(one, types), layout_of(outer, types))
    names = {*(value.name for value in layer.bottoms), layer.name}
    return layer.kind.name in VIEWS and alike and one.offset == outer.offset and names == {one.value, outer.value}


def is_part(begin: Begin | None, one: Allocation, outer: Allocation, types: Mapping[str, Value]) -> bool:
    """Return whether a part is at the place of a tensor where it begins."""
    if begin is None:
        return False
    along = layout_of(outer, types)
    offset = sum(place * along.stride_of(axis) for axis, place in begin)
    return one.strides == outer.strides and one.offset == outer.offset + offset


def begins_of(layer: Layer) -> dict[str, Begin]:
    """Return where the parts of what a layer joins or pads begin; one that is there twice is not a part."""
    if layer.kind.name == "padding":
        before = layer.integers("pad")[::2]
        begin = tuple(zip(roles(layer.result.rank)[-len(before) :], before, strict=True))
        return {value.name: begin for value in layer.bottoms}
    if layer.kind.name != "concat":
        return {}
    axis, first = layer.integer("axis"), 0
    along = roles(layer.result.rank)[axis]
    found: dict[str, Begin] = {}
    twice: set[str] = set()
    for _, ref in layer.refs():
        if isinstance(ref, Value):
            twice.update({ref.name} & found.keys())
            found[ref.name] = ((along, first),)
        first += ref.type.shape[axis]
    return {name: begin for name, begin in found.items() if name not in twice}


def layout_of(one: Allocation, types: Mapping[str, Value]) -> Layout:
    """Return the layout that an allocation gives a tensor."""
    value = types[one.value]
    return Layout(extents_of(value.shape), one.strides, bits(value.type.dtype), one.size)

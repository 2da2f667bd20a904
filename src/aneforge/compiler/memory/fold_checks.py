"""Checks that a tensor that lies inside another one is where the layer between them would have copied it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

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
    from aneforge.compiler.memory.folding import Fold
    from aneforge.compiler.memory.plan import Allocation, MemoryPlan

__all__ = ["check_folds"]


def check_folds(program: Program, plan: MemoryPlan) -> None:
    """Check every tensor that lies inside another one.

    Raises:
        GraphError: It is not where it should be, or not while the other one is there.
    """
    folds = {fold.value: fold for fold in plan.folds}
    layers = {layer.name: layer for layer in program.layers}
    types = {value.name: value for layer in program.layers for value in (*layer.bottoms, *layer.results)}
    for one in plan.by_value.values():
        if one.root == one.value:
            continue
        fold = folds.get(one.value)
        if fold is None or fold.layer not in layers:
            raise GraphError(f"%{one.value} lies inside %{one.root}, and no layer says why")
        outer, root = plan.by_value[fold.inside], plan.by_value[one.root]
        if (one.memory, one.home) != (root.memory, root.home) or not root.first <= one.first <= one.last <= root.last:
            raise GraphError(f"%{one.value} lies inside %{one.root}, which is elsewhere or not there in time")
        if one.offset < root.offset or one.offset + one.size > root.offset + root.size:
            raise GraphError(f"%{one.value} lies inside %{one.root} and reaches out of it")
        if not is_in_place(fold, layers[fold.layer], one, outer, types):
            raise GraphError(f"%{one.value} is not where %{fold.layer} would put it inside %{fold.inside}")


def is_in_place(fold: Fold, layer: Layer, one: Allocation, outer: Allocation, types: Mapping[str, Value]) -> bool:
    """Tell whether a tensor is at the place of another one that a layer gives it."""
    live = [value.name for value in layer.bottoms]
    if fold.kind is FoldKind.VIEW:
        alike = same_places(layout_of(one, types), layout_of(outer, types))
        return alike and one.offset == outer.offset and {fold.value, fold.inside} == {live[0], layer.name}
    begin = concat_begin(layer, fold.value) if fold.kind is FoldKind.CONCAT else padding_begin(layer)
    if fold.inside != layer.name or live.count(fold.value) != 1 or begin is None:
        return False
    along = layout_of(outer, types)
    offset = sum(place * along.stride_of(axis) for axis, place in begin)
    return one.strides == outer.strides and one.offset == outer.offset + offset


def layout_of(one: Allocation, types: Mapping[str, Value]) -> Layout:
    """Return the layout that an allocation gives a tensor."""
    value = types[one.value]
    return Layout(extents_of(value.shape), one.strides, bits(value.type.dtype), one.size)


def concat_begin(layer: Layer, name: str) -> list[tuple[Axis, int]] | None:
    """Return where a part begins in what a layer joins."""
    if layer.kind.name != "concat":
        return None
    axis, first = cast("int", layer.attributes["axis"]), 0
    for _, ref in layer.refs():
        if isinstance(ref, Value) and ref.name == name:
            return [(roles(layer.result.rank)[axis], first)]
        first += ref.type.shape[axis]
    return None


def padding_begin(layer: Layer) -> list[tuple[Axis, int]] | None:
    """Return where what a layer pads begins in the padded tensor."""
    if layer.kind.name != "padding":
        return None
    before = cast("tuple[int, ...]", layer.attributes["pad"])[::2]
    return list(zip(roles(layer.result.rank)[-len(before) :], before, strict=True))

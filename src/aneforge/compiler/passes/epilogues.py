"""Epilogues cut and unfused: the part that belongs to a part of a layer, and the layers that replace an epilogue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Epilogue, Layer, Stage, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.ops.types import TensorType

__all__ = ["POINTWISE", "UNDONE", "axis_after_epilogue", "epilogue_part", "fusion_undone", "unfuse"]

CORE = "core"
"""The step that makes a layer without its epilogue."""
UNDONE = "a fusion is undone: stages of its epilogue became layers"
POINTWISE = frozenset({Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION})
"""Slots that leave every element in its place and the shape as it is."""


def axis_after_epilogue(layer: Layer, axis: int) -> int | None:
    """Return where an axis of what a layer's operation gives is in its result; None where the layer has no parts there.

    A texture remap mixes its axes, and a broadcast makes one place many.
    """
    flowing = layer.core_types[0]
    for slot, stage in layer.epilogue:
        after = stage.type_of(flowing)
        moved = moved_axis(slot, stage, axis, flowing, after)
        if moved is None:
            return None
        axis, flowing = moved, after
    return axis


def moved_axis(slot: Slot, stage: Stage, axis: int, before: TensorType, after: TensorType) -> int | None:
    """Return where an axis is after one slot."""
    match slot:
        case Slot.TEXTURE:
            mixed = len(stage.integers("size"))
            return None if axis >= before.rank - mixed else axis
        case Slot.BROADCAST:
            place = axis + after.rank - before.rank
            return place if after.shape[place] == before.shape[axis] else None
        case Slot.TRANSPOSE:
            perm = stage.integers("perm")
            return [place % before.rank for place in perm].index(axis)
        case _:
            return axis


def epilogue_part(layer: Layer, axis: int, begin: int, size: int) -> Epilogue:
    """Return the epilogue of a part of a layer along an axis that `axis_after_epilogue` finds again.

    Gains, offsets, scales and zero points that differ along the axis are cut with it; so is the shape of a broadcast.
    """
    flowing, epilogue = layer.core_types[0], layer.epilogue
    for slot, stage in layer.epilogue:
        after = stage.type_of(flowing)
        moved = moved_axis(slot, stage, axis, flowing, after)
        assert moved is not None, "the axis was found after the epilogue"  # noqa: S101 - asked for above
        epilogue = epilogue.filled(slot, stage_part(slot, stage, axis, moved, (begin, size), after))
        axis, flowing = moved, after
    return epilogue


def stage_part(slot: Slot, stage: Stage, axis: int, moved: int, part: tuple[int, int], after: TensorType) -> Stage:
    """Return what fills a slot after a part of a layer; `axis` is cut before it and `moved` after it."""
    if slot is Slot.BROADCAST:
        shape = tuple(part[1] if place == moved else extent for place, extent in enumerate(after.shape))
        return replace(stage, attributes={**stage.attributes, "shape": shape})
    along = stage.attributes.get("axis")
    if along is None or cast("int", along) % after.rank != axis:
        return stage
    from aneforge.compiler.passes.constant_parts import constant_part  # noqa: PLC0415 - few layers are cut

    held = {
        name: constant_part(constant, 0, *part) if constant.type.rank else constant
        for name, constant in stage.operands.items()
    }
    return replace(stage, operands=held)


def unfuse(layer: Layer, slots: Iterable[Slot] = tuple(Slot)) -> list[Layer]:
    """Return a layer without some slots of its epilogue and those after them, which become layers of their own.

    The last of the layers has the name of the old one.
    """
    places = [slot.place for slot in slots if layer.epilogue[slot] is not None]
    if not places:
        return [layer]
    first = min(places)
    taken = [(slot, stage) for slot, stage in layer.epilogue if slot.place >= first]
    kept = layer.epilogue
    for slot, _ in taken:
        kept = kept.filled(slot, None)
    flowing = layer.core_types[0]
    for _, stage in kept:
        flowing = stage.type_of(flowing)
    value = Value(f"{layer.name}.{CORE}", flowing)
    made = [layer.followed_by(kept, (value,))]
    for slot, stage in taken:
        flowing = stage.type_of(flowing)
        name = layer.name if slot is taken[-1][0] else f"{layer.name}.{slot}"
        operands = {stage.kind.flowing: value, **stage.operands}
        value = Value(name, flowing)
        made.append(
            Layer(
                kind=stage.kind,
                operands=operands,
                attributes=stage.attributes,
                results=(value,),
                engine=stage.kind.engines[0],
                segment=layer.segment,
                location=layer.location,
            )
        )
    return made


def fusion_undone(layer: Layer, pieces: Iterable[Layer]) -> bool:
    """Return whether stages of a layer's epilogue are layers among the pieces that stand for it."""
    return any(CORE in piece.name.removeprefix(layer.name).split(".") for piece in pieces)

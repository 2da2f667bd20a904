"""Tensors that are inside others: a reshape that moves nothing, the parts of a concat, the inside of a padded tensor.

The layer that writes such a tensor writes straight into the other one, and the layer between them has nothing to copy.
Offsets of tensors are whole banks on chip and whole lines in DRAM, so a part along the width can be folded only where
it begins at one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.axes import Axis, roles
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import DRAM_ALIGNMENT, dram_layout, on_chip_layout, same_places
from aneforge.compiler.schedule.flow import ring_values
from aneforge.ops.types import bits
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.layout import Banks
    from aneforge.compiler.schedule.flow import Flow
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.ops.types import TensorType

__all__ = ["Fold", "FoldKind", "Folds", "Refusal", "copies_nothing", "folds_of", "lies_there"]


class FoldKind(StrEnum):
    """Why a tensor is inside another."""

    VIEW = "view"
    """The same bytes under another shape."""
    CONCAT = "concat"
    """One of the parts that a layer joins."""
    PAD = "pad"
    """What a layer pads."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A tensor that is inside another one."""

    kind: FoldKind
    layer: str
    """The layer that has nothing to copy for it."""
    value: str
    inside: str
    begin: tuple[tuple[Axis, int], ...]
    """At which place of the other tensor it begins, along the axes where that is not the first."""
    in_dram: bool
    """It also holds when both are in DRAM, where lines are longer than banks."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tensor that is not inside another one and nearly could."""

    kind: FoldKind
    layer: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folds:
    """What is folded in a segment, and what is not."""

    inside: Mapping[str, Fold]
    """By the name of the tensor that is inside another."""
    roots: Mapping[str, str]
    """The tensor in which one is in the end; one that is in none is not there."""
    refused: tuple[Refusal, ...]


def offset_inside(fold: Fold, tensor: TensorType, banks: Banks | None) -> int:
    """Return at which byte of the other tensor a tensor begins: in DRAM, or on chip where banks are given."""
    layout = dram_layout(tensor) if banks is None else on_chip_layout(tensor, banks)
    return sum(place * layout.stride_of(axis) for axis, place in fold.begin)


def lies_there(folds: Mapping[str, Fold], layer: Layer, name: str) -> bool:
    """Return whether a tensor already is where a layer that reads it would copy it."""
    itself = layer.name
    fold, own = folds.get(name), folds.get(itself)
    return (fold is not None and fold.layer == itself) or (own is not None and own.layer == itself)


def copies_nothing(folds: Mapping[str, Fold], layer: Layer, rules: Rules) -> bool:
    """Return whether a layer has nothing to do, because what it reads is where its result must."""
    if layer.kind.name != "concat" and layer.kind.name not in rules.free_kinds:
        return False
    return all(isinstance(ref, Value) and lies_there(folds, layer, ref.name) for _, ref in layer.refs())


@dataclass(eq=False)
class Folder:
    """Looks at the layers of a segment in their order and holds what was folded so far."""

    flow: Flow
    rules: Rules
    banks: Banks
    rings: frozenset[str]
    inside: dict[str, Fold] = field(default_factory=dict[str, Fold])
    roots: dict[str, str] = field(default_factory=dict[str, str])
    holding: set[str] = field(default_factory=set[str])
    """Tensors in which others are."""
    refused: list[Refusal] = field(default_factory=list[Refusal])

    def look_at(self, layer: Layer) -> None:
        """Fold what a layer reads and writes, if it is one of the three kinds."""
        if layer.epilogue:
            return
        if layer.kind.name in self.rules.free_kinds:
            self.look_at_view(layer)
        elif layer.kind.name == "concat" and not layer.flag("interleave"):
            self.look_at_concat(layer)
        elif layer.kind.name == "padding" and layer.attributes["mode"] == "constant":
            self.look_at_padding(layer)

    def look_at_view(self, layer: Layer) -> None:
        """Fold the result of a reshape into its operand, or the operand into a result that leaves the segment."""
        source = layer.operand(layer.kind.operands[0].name)
        if not isinstance(source, Value):
            return
        result, forward = layer.result, layer.name not in self.flow.leaving
        value, other = (result, source) if forward else (source, result)
        fixed = self.in_dram_for_certain(other.name)
        chip = same_places(*(on_chip_layout(one.type, self.banks) for one in (source, result)))
        dram = same_places(*(dram_layout(one.type) for one in (source, result)))
        reason = self.unmovable(value) if not forward else ""
        held = self.inside.get(source.name)
        if not reason and held is not None and held.kind is not FoldKind.VIEW:
            reason = "its operand is between others"
        if not reason and (not chip or (fixed and not dram)):
            reason = "elements are in other places"
        if not reason and self.rings & {source.name, result.name}:
            reason = "a ring buffer has its own place"
        if reason:
            self.refused.append(Refusal(FoldKind.VIEW, layer.name, value.name, reason))
            return
        self.fold(Fold(FoldKind.VIEW, layer.name, value.name, other.name, (), dram))

    def look_at_concat(self, layer: Layer) -> None:
        """Fold the parts of a concat into its result."""
        axis = layer.integer("axis")
        along, first = roles(layer.result.rank)[axis], 0
        parts = [ref for name, ref in layer.refs() if name == "values"]
        often = Counter(part.name for part in parts if isinstance(part, Value))
        for part in parts:
            if isinstance(part, Value):
                reason = "it is read twice" if often[part.name] > 1 else ""
                self.fold_part(FoldKind.CONCAT, layer, part, ((along, first),) if first else (), reason)
            first += part.type.shape[axis]

    def look_at_padding(self, layer: Layer) -> None:
        """Fold what is padded into the padded tensor."""
        source = layer.operand("x")
        if not isinstance(source, Value):
            return
        given = layer.integers("pad")
        before = given[::2]
        axes = roles(layer.result.rank)[layer.result.rank - len(before) :]
        begin = tuple((axis, place) for axis, place in zip(axes, before, strict=True) if place)
        self.fold_part(FoldKind.PAD, layer, source, begin, "")

    def fold_part(
        self, kind: FoldKind, layer: Layer, part: Value, begin: tuple[tuple[Axis, int], ...], reason: str
    ) -> None:
        """Fold a part into a layer's result, or say why it is copied."""
        fold = Fold(kind, layer.name, part.name, layer.name, begin, in_dram=True)
        dram = offset_inside(fold, layer.result.type, None) % DRAM_ALIGNMENT == 0
        chip = offset_inside(fold, layer.result.type, self.banks) % self.banks.width == 0
        reason = reason or self.unmovable(part)
        if not reason and self.rings & {part.name, layer.name}:
            reason = "a ring buffer has its own place"
        if not reason and bits(part.type.dtype) < 8 and any(axis is Axis.WIDTH for axis, _ in begin):
            reason = "it may begin inside a byte"
        if not reason and (not chip or (self.in_dram_for_certain(layer.name) and not dram)):
            reason = f"it would begin inside a {'line' if chip else 'bank'}"
        if reason:
            self.refused.append(Refusal(kind, layer.name, part.name, reason))
            return
        self.fold(Fold(kind, layer.name, part.name, layer.name, begin, dram))

    def fold(self, fold: Fold) -> None:
        """Note a fold."""
        self.inside[fold.value] = fold
        self.roots[fold.value] = self.roots.get(fold.inside, fold.inside)
        self.holding.add(fold.inside)

    def unmovable(self, value: Value) -> str:
        """Return why a tensor cannot be written into another one; nothing where it can."""
        if value.name not in self.flow.writers:
            return "it is not written in this segment"
        if value.name in self.flow.leaving:
            return "it leaves the segment"
        if value.name in self.inside or value.name in self.holding:
            return "it is already inside another tensor, or contains one"
        return ""

    def in_dram_for_certain(self, value: str) -> bool:
        """Return whether a tensor is in DRAM whatever the schedule."""
        root = self.roots.get(value, value)
        return root not in self.flow.writers or root in self.flow.leaving


def folds_of(flow: Flow, banks: Banks, rules: Rules) -> Folds:
    """Return what is inside what in a segment."""
    folder = Folder(flow, rules, banks, ring_values(flow.layers, rules))
    for layer in flow.layers:
        folder.look_at(layer)
    return Folds(folder.inside, folder.roots, tuple(folder.refused))

"""Joins chains of transposes and reshapes, cancels pairs, and lets layouts sink below single-element layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer
from aneforge.compiler.axes import unit_axis
from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.attributed import axis_order
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program

__all__ = ["CollapseLayout"]

LAYOUTS = {"transpose", "reshape"}


def transpose_of(layer: Layer, source: Value, perm: tuple[int, ...]) -> Layer:
    """Return a layer's result as a transpose of a source."""
    kind = find_kind("transpose")
    return replace(
        layer, kind=kind, operands={"x": source}, attributes=kind.complete({"perm": perm}), engine=kind.engines[0]
    )


def reshape_of(layer: Layer, source: Value) -> Layer:
    """Return a layer's result as a reshape of a source."""
    kind = find_kind("reshape")
    attributes = kind.complete({"shape": layer.result.shape})
    return replace(layer, kind=kind, operands={"x": source}, attributes=attributes, engine=kind.engines[0])


def plain(layer: Layer) -> Layer:
    """Return a transpose that only moves axes of length 1 as the reshape that it is."""
    if layer.kind.name != "transpose":
        return layer
    (source,) = layer.bottoms
    moved = [axis for axis in axis_order(layer) if source.shape[axis] != 1]
    return reshape_of(layer, source) if moved == sorted(moved) else layer


def join(first: Layer, second: Layer) -> Layer | None:
    """Return one layout for two, the second reading the first; None where they do not join."""
    (source,) = first.bottoms
    match first.kind.name, second.kind.name:
        case "transpose", "transpose":
            inner = axis_order(first)
            return transpose_of(second, source, tuple(inner[axis] for axis in axis_order(second)))
        case "reshape", "reshape":
            return reshape_of(second, source)
        case _:
            return None


def sunk(layout: Layer, layer: Layer) -> tuple[Layer, Layer] | None:
    """Return a single-element layer before a layout instead of after it, and the layout; None where that cannot be."""
    (source,) = layout.bottoms
    attributes = dict(layer.attributes)
    if layer.kind.name == GAIN_OFFSET and affine_of_layer(layer).vector:
        axis = affine_of_layer(layer).axis
        if layout.kind.name == "transpose":
            attributes["axis"] = axis_order(layout)[axis]
        else:
            moved = unit_axis(axis, source.shape, layout.result.shape)
            if moved is None:
                return None
            attributes["axis"] = moved
    inner = Value(f"{layer.name}.under", source.type.with_dtype(layer.result.type.dtype))
    operands = {**layer.operands, layer.kind.flowing: source}
    above = replace(layer, operands=operands, attributes=attributes, results=(inner,))
    below = replace(layout, operands={"x": inner}, results=layer.results, location=layout.location)
    return above, below


def single_element(layer: Layer) -> bool:
    """Return whether a layer computes every element from one element, and could fill a slot before the layout's."""
    fills = {Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION}
    return len(layer.bottoms) == 1 and not layer.epilogue and bool(fills.intersection(layer.kind.fills))


def reads_of(program: Program) -> Counter[str]:
    """Return how often each value is read, by layers and by whatever it leaves the program for."""
    return Counter(program.kept) + Counter(value.name for layer in program.layers for value in layer.bottoms)


class Collapsing:
    """One walk over the layers of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.layers: dict[str, Layer] = {}
        """The new layers in order, by name."""
        self.now: dict[str, Value] = {}
        """Values that stand for ones that are gone."""
        self.reads = reads_of(program)
        """How often each value is read in the program as it is by now, layers that are still to come included."""
        self.changed = False

    def run(self) -> Program:
        """Return the new program."""
        for old in self.program.layers:
            layer = old.reading(lambda value: self.now.get(value.name, value))
            if layer.kind.name in LAYOUTS and layer.bottoms and not layer.epilogue:
                self.add_layout(layer)
            elif single_element(layer):
                self.add_single(layer)
            else:
                self.layers[layer.name] = layer
        if not self.changed:
            return self.program
        return self.program.with_layers(self.layers.values(), now=self.now)

    def add_layout(self, layer: Layer) -> None:
        """Join a layout with the one that it reads, and leave it out if nothing remains."""
        made = plain(layer)
        while (first := self.layout_before(made)) is not None and (one := join(first, made)) is not None:
            made = plain(one)
            self.reads[first.bottoms[0].name] += 1
            self.stop_reading(first)
        self.changed = self.changed or made is not layer
        (source,) = made.bottoms
        nothing = source.type == made.result.type and (
            made.kind.name == "reshape" or axis_order(made) == tuple(range(source.rank))
        )
        if nothing and not (layer.name in self.program.kept and source.name not in self.layers):
            self.now[layer.name] = source
            self.changed = True
            self.reads[source.name] += self.reads[layer.name] - 1  # layers that read the layout read its source now
        else:
            self.layers[layer.name] = made

    def add_single(self, layer: Layer) -> None:
        """Let the layouts before a single-element layer sink below it, while something above could absorb it."""
        below: list[Layer] = []
        while (layout := self.sinking(layer)) is not None and (pair := sunk(layout, layer)) is not None:
            layer, lower = pair
            del self.layers[layout.name]
            self.reads[layer.name] = 1  # the layout below it, which gives what the layer gave
            below.insert(0, lower)
            self.changed = True
        self.layers[layer.name] = layer
        for lower in below:
            self.layers[lower.name] = lower

    def stop_reading(self, layout: Layer) -> None:
        """Note that one layer less reads a layout; leave it out where that was the last."""
        self.reads[layout.name] -= 1
        if self.reads[layout.name]:
            return
        del self.layers[layout.name]
        (source,) = layout.bottoms
        self.reads[source.name] -= 1

    def layout_before(self, layer: Layer) -> Layer | None:
        """Return the layout that a layer reads, if it reads one."""
        found = self.layers.get(layer.bottoms[0].name)
        return found if found is not None and found.kind.name in LAYOUTS and not found.epilogue else None

    def sinking(self, layer: Layer) -> Layer | None:
        """Return the layout before a layer that should sink below it: one that nobody else reads, after a host."""
        layout = self.layout_before(layer)
        if layout is None or not layout.bottoms:
            return None
        if self.reads[layout.name] > 1:
            return None
        above: Layer | None = layout
        while above is not None and above.kind.name in LAYOUTS and above.bottoms:
            above = self.layers.get(above.bottoms[0].name)
        return layout if above is not None and above.kind.hosts else None


@dataclass(frozen=True)
class CollapseLayout(Pass):
    """Collapse transposes and reshapes.

    Before:
        %t1 = TE anec.transpose(x = %t0) {perm = [0, 2, 1]} : fp16[1, 8, 4]
        %t2 = TE anec.transpose(x = %t1) {perm = [0, 2, 1]} : fp16[1, 4, 8]
        %t3 = PE anec.relu(x = %t2) : fp16[1, 4, 8]

    After:
        %t3 = PE anec.relu(x = %t0) : fp16[1, 4, 8]

    Chains become one layer, symmetric pairs none, and a transpose that only moves axes of length 1 a reshape. A layout
    after a layer with slots sinks below activations, gains and offsets, so that these reach their slots and the
    transpose the one after them.
    """

    name: ClassVar[str] = "collapse-layout"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Walk once, from the inputs to the outputs."""
        return Collapsing(program).run()

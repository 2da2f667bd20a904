"""Takes dequantisation into the weights, cancels pairs, and joins equal ones across a concat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from aneforge.arrays import np
from aneforge.compiler.ir.edit import new_layer, without_dead_layers
from aneforge.compiler.ir.layer import Layer, Ref, Value
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.constant import Constant, Int8Affine
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Argument
    from aneforge.compiler.ir.program import Program

__all__ = ["FoldDequantise"]


def encode(layer: Layer) -> Constant | None:
    """Return the weight that a dequantisation of a constant stands for, if int8 with a scale for every row holds it."""
    if layer.kind.name != "dequant" or layer.epilogue:
        return None
    data, scale, zero = (layer.weight(name) for name in ("input", "scale", "zero_point"))
    if data is None or scale is None or data.type.dtype != "int8" or data.type.rank == 0:
        return None
    given = layer.attributes["axis"]
    axis = 0 if given is None else int(cast("int", given)) % data.type.rank
    rows = data.type.shape[axis]
    if scale.type.size not in (1, rows) or (zero is not None and zero.type.size not in (1, rows)):
        return None
    scales = np.broadcast_to(scale.dense().reshape(-1), (rows,))
    zeros = None if zero is None else np.ascontiguousarray(np.broadcast_to(zero.dense().reshape(-1), (rows,)))
    weight = Int8Affine(data.dense(), np.ascontiguousarray(scales), zeros, axis)
    return weight if weight.type == layer.result.type else None


def parameters(layer: Layer) -> tuple[object, ...]:
    """Return what distinguishes two quantisations: scale, zero point and axis."""
    return (
        layer.operands.get("scale"),
        layer.operands.get("zero_point"),
        layer.attributes["axis"] if cast("Constant", layer.operands["scale"]).type.rank else None,
    )


class Folding:
    """One walk over the layers of a program."""

    def __init__(self, program: Program, stage: str) -> None:
        self.program = program
        self.stage = stage
        self.weights: dict[str, Constant] = {}
        self.now: dict[str, Value] = {}
        self.notes: list[Note] = []

    def run(self) -> Program:
        """Return the new program."""
        layers: list[Layer] = []
        changed = False
        for old in self.program.layers:
            layer = with_constants(old, self.weights)
            weight = encode(layer)
            if weight is not None and layer.name not in self.program.kept:
                self.weights[layer.name] = weight
                self.notes.append(Note(self.stage, layer.name, "dequantised in the weight path"))
                continue
            if (source := self.cancelled(layer)) is not None:
                self.now[layer.name] = source
                continue
            made = self.joined(layer)
            layers += [layer] if made is None else made
            changed = changed or made is not None or layer is not old
        if not changed and not self.weights and not self.now:
            return self.program
        return without_dead_layers(self.program.with_layers(layers, self.notes, self.now))

    def cancelled(self, layer: Layer) -> Value | None:
        """Return what a quantisation gives that undoes the dequantisation before it, bit for bit."""
        if layer.kind.name != "quant" or layer.epilogue or not layer.bottoms or layer.name in self.program.kept:
            return None
        before = self.program.producers.get(layer.bottoms[0].name)
        if before is None or before.kind.name != "dequant" or before.epilogue or not before.bottoms:
            return None
        (source,) = before.bottoms
        return source if source.type == layer.result.type and parameters(before) == parameters(layer) else None

    def joined(self, layer: Layer) -> list[Layer] | None:
        """Return one dequantisation after a concat, where there were equal ones before it."""
        if layer.kind.name != "concat" or layer.epilogue or layer.flag("interleave"):
            return None
        refs = cast("tuple[Ref, ...]", layer.operands["values"])
        before = [self.standalone(ref, layer) for ref in refs]
        first = before[0]
        if first is None or any(one is None or not alike(one, first) for one in before):
            return None
        values = tuple(cast("Layer", one).bottoms[0] for one in before)
        name = f"{layer.name}.stored"
        together = new_layer("concat", {"values": values}, layer.attributes, name, location=layer.location)
        text = "{count} equal dequantisations became one after the concat"
        self.notes.append(Note.of(self.stage, layer.name, text, count=len(values)))
        return [together, replace(first, operands={**first.operands, "input": together.result}, results=layer.results)]

    def standalone(self, ref: Ref, reader: Layer) -> Layer | None:
        """Return the dequantisation of a live tensor, by one scale, that only one layer reads."""
        found = self.program.producers.get(ref.name) if isinstance(ref, Value) else None
        if found is None or found.kind.name != "dequant" or found.epilogue or not found.bottoms:
            return None
        one_scale = cast("Constant", found.operands["scale"]).type.rank == 0
        return found if one_scale and self.program.only_reader(found.result) is reader else None


def alike(one: Layer, other: Layer) -> bool:
    """Return whether two dequantisations have the same parameters and read the same element type."""
    return parameters(one) == parameters(other) and one.bottoms[0].type.dtype == other.bottoms[0].type.dtype


def with_constants(layer: Layer, weights: Mapping[str, Constant]) -> Layer:
    """Return a layer that reads values that are weights now as weights."""
    if not weights or all(value.name not in weights for value in layer.bottoms):
        return layer

    def ref_now(ref: Ref) -> Ref:
        return weights.get(ref.name, ref) if isinstance(ref, Value) else ref

    operands: dict[str, Argument] = {
        name: tuple(map(ref_now, argument)) if isinstance(argument, tuple) else ref_now(argument)
        for name, argument in layer.operands.items()
    }
    return replace(layer, operands=operands)


@dataclass(frozen=True)
class FoldDequantise(Pass):
    """Fold dequantisations.

    Before:
        %t1 = PE anec.dequant(input = @t1.input, scale = @t1.scale) {axis = 0} : fp16[4, 3, 3, 3]
        %t2 = NE anec.convolution(input = %t0, weights = %t1) {…} : fp16[1, 4, 8, 8]

    After:
        %t2 = NE anec.convolution(input = %t0, weights = @t2.weights) {…} : fp16[1, 4, 8, 8]
        constant @t2.weights : fp16[4, 3, 3, 3] int8 sha256:…

    A quantisation that undoes the dequantisation before it goes with it; equal dequantisations of all parts of a concat
    become one after it.
    """

    name: ClassVar[str] = "fold-dequantise"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Walk once, from the inputs to the outputs."""
        return Folding(program, self.name).run()

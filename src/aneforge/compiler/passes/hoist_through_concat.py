"""Moves activations, gains and offsets from after a fusable concat to the layers that it joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from aneforge.arrays import np
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import Affine, affine_of_layer
from aneforge.compiler.channels import channel_axes
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.collapse_layout import single_element
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array

__all__ = ["HoistThroughConcat", "fusable_concat"]


def fusable_concat(layer: Layer, program: Program, channels: Mapping[str, int | None]) -> bool:
    """Return whether the parts of a concat can be written where the whole is, so that it moves nothing.

    The compiler has such a test (IsFusableConcat); what it tests is in no source. Taken here: the parts are along the
    channels, each is written by a layer with slots, and nothing but the concat reads it.
    """
    if layer.kind.name != "concat" or layer.epilogue or layer.flag("interleave"):
        return False
    parts = cast("tuple[object, ...]", layer.operands["values"])
    axis = layer.integer("axis") % layer.result.rank
    names = [part.name for part in parts if isinstance(part, Value)]
    if len(set(names)) < len(parts):
        return False
    producers = [program.producers.get(name) for name in names]
    return all(
        producer is not None
        and bool(producer.kind.hosts)
        and channels[producer.name] == axis
        and program.only_reader(producer.result) is layer
        for producer in producers
    )


def parts_of(affine: Affine, axis: int, extents: list[int]) -> list[Affine]:
    """Return gain and offset of every part; along the axis of the concat each part has its own stretch."""
    if not affine.vector or affine.axis != axis:
        return [affine] * len(extents)
    ends = [int(end) for end in np.cumsum(extents)]
    stretches = [(end - extent, end) for extent, end in zip(extents, ends, strict=True)]
    return [
        Affine(stretch(affine.gain, *part), stretch(affine.offset, *part), axis, affine.unknown) for part in stretches
    ]


def stretch(row: Array | None, first: int, end: int) -> Array | None:
    """Return a part of a row; one number stays one."""
    return row if row is None or row.ndim == 0 else row[first:end]


def hoist(concat: Layer, layer: Layer) -> list[Layer]:
    """Return the layer before every part of the concat, and the concat after them."""
    values = cast("tuple[Value, ...]", concat.operands["values"])
    axis = concat.integer("axis") % concat.result.rank
    affines = (
        parts_of(affine_of_layer(layer), axis, [value.shape[axis] for value in values])
        if layer.kind.name == GAIN_OFFSET
        else [None] * len(values)
    )
    parts: list[Layer] = []
    for number, (value, affine) in enumerate(zip(values, affines, strict=True)):
        held = layer.operands if affine is None else affine.constants()
        operands = {**held, layer.kind.flowing: value}
        result = Value(f"{layer.name}.part{number}", value.type.with_dtype(layer.result.type.dtype))
        parts.append(replace(layer, operands=operands, results=(result,)))
    whole = replace(concat, operands={"values": tuple(part.result for part in parts)}, results=layer.results)
    return [*parts, whole]


@dataclass(frozen=True)
class HoistThroughConcat(Pass):
    """Hoist single-element layers above fusable concats.

    Before:
        %t3 = DMA anec.concat(values = [%t1, %t2]) {axis = 1} : fp16[1, 8, 4, 4]
        %t4 = PE anec.relu(x = %t3) : fp16[1, 8, 4, 4]

    After:
        %t4.part0 = PE anec.relu(x = %t1) : fp16[1, 4, 4, 4]
        %t4.part1 = PE anec.relu(x = %t2) : fp16[1, 4, 4, 4]
        %t4 = DMA anec.concat(values = [%t4.part0, %t4.part1]) {axis = 1} : fp16[1, 8, 4, 4]

    A concat that is not fusable is a barrier: what is after it stays there.
    """

    name: ClassVar[str] = "hoist-through-concat"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Hoist chains of layers, the first first."""
        channels = channel_axes(program)
        concats = {layer.name: layer for layer in program.layers if fusable_concat(layer, program, channels)}
        if not concats:
            return program
        layers: dict[str, Layer] = {}
        changed = False
        for layer in program.layers:
            concat = concats.get(layer.bottoms[0].name) if single_element(layer) else None
            if concat is None or program.only_reader(concat.result) is not layer:
                layers[layer.name] = layer
                continue
            del layers[concat.name]
            made = hoist(concat, layer)
            layers |= {one.name: one for one in made}
            concats[layer.name] = made[-1]
            changed = True
        return program.with_layers(layers.values()) if changed else program

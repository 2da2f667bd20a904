"""Removes layers that give what they were given, and layers that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.arrays import np
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer
from aneforge.compiler.ir.edit import without_dead_layers
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.attributed import axis_order
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

__all__ = ["EliminateCopies"]


def find_copied(layer: Layer) -> Value | None:
    """Return the value of which a layer's result is a copy, if it is one."""
    source = layer.bottoms[0] if layer.bottoms else None
    if source is None or layer.epilogue or source.type != layer.result.type or len(layer.results) > 1:
        return None
    match layer.kind.name:
        case "identity" | "reshape" | "cast" | "padding":
            copies = True
        case "slice" | "tile" | "broadcast" | "concat":  # the whole of it, once
            copies = len(layer.bottoms) == 1
        case "transpose":
            copies = axis_order(layer) == tuple(range(source.rank))
        case name if name == GAIN_OFFSET:
            affine = affine_of_layer(layer)
            copies = affine.offset is None and affine.gain is not None and bool(np.all(affine.gain == 1))
        case _:
            copies = False
    return source if copies else None


@dataclass(frozen=True)
class EliminateCopies(Pass):
    """Remove copies and dead layers.

    Before:
        %t1 = DMA anec.identity(x = %t0) : fp16[1, 4]
        %t2 = PE anec.relu(x = %t1) : fp16[1, 4]

    After:
        %t2 = PE anec.relu(x = %t0) : fp16[1, 4]

    A copy is an identity; a reshape, cast, slice, tile, broadcast, padding or concat that changes nothing; a transpose
    that moves no axis; a gain of 1 without an offset. An offset of 0 stays: −0 + 0 is +0. A copy of an input or a state
    that leaves the program stays too: what leaves is written by a layer.
    """

    name: ClassVar[str] = "eliminate-copies"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Remove copies, then what nobody reads."""
        given = {value.name for value in (*(port.value for port in program.inputs), *(s.read for s in program.states))}
        now: dict[str, Value] = {}
        layers: list[Layer] = []
        for layer in program.layers:
            source = find_copied(layer)
            while source is not None and source.name in now:
                source = now[source.name]
            if source is None or (layer.name in program.kept and source.name in given):
                layers.append(layer)
            else:
                now[layer.name] = source
        return without_dead_layers(program.with_layers(layers, now=now) if now else program)

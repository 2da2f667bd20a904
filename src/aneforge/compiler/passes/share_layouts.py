"""Makes one of several layers that move the same value in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

__all__ = ["ShareLayouts"]

MOVED = {"reshape", "transpose"}


def likeness(layer: Layer) -> tuple[object, ...] | None:
    """Return what two layouts have in common that do the same; None for other layers."""
    if layer.kind.name not in MOVED or layer.epilogue or layer.engine not in (Engine.DMA, Engine.TE):
        return None
    return layer.kind.name, *layer.operands.items(), *layer.attributes.items()


@dataclass(frozen=True)
class ShareLayouts(Pass):
    """Share transposes and reshapes of one value.

    Before:
        %t1 = TE anec.transpose(x = %t0) {perm = [0, 2, 1]} : fp16[1, 8, 4]
        %t2 = TE anec.transpose(x = %t0) {perm = [0, 2, 1]} : fp16[1, 8, 4]
        %t3 = PE anec.add(x = %t1, y = %t2) : fp16[1, 8, 4]

    After:
        %t1 = TE anec.transpose(x = %t0) {perm = [0, 2, 1]} : fp16[1, 8, 4]
        %t3 = PE anec.add(x = %t1, y = %t1) : fp16[1, 8, 4]

    Products of one tensor (query, key and value of an attention) each bring it into the layout of a convolution.
    """

    name: ClassVar[str] = "share-layouts"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Keep the first of those alike."""
        first: dict[tuple[object, ...], Layer] = {}
        now: dict[str, Value] = {}
        kept: list[Layer] = []
        for old in program.layers:
            layer = old.reading(lambda value: now.get(value.name, value))
            key = likeness(layer)
            same = layer if key is None else first.setdefault(key, layer)
            if same is layer:
                kept.append(layer)
            else:
                now[layer.name] = same.result
        return program.with_layers(kept, now=now) if now else program

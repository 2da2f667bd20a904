"""Joins a sum and the square of it where the hardware squares after its reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

__all__ = ["FuseSquare"]


@dataclass(frozen=True)
class FuseSquare(Pass):
    """Fuse a square into the sum before it, on targets whose field 0x494 says that they can.

    Before:
        %t1 = PE anec.reduce_sum(x = %t0) {axes = [-1], keep_dims = true} : fp16[1, 4, 1]
        %t2 = PE anec.sqr(x = %t1) : fp16[1, 4, 1]

    After:
        %t2 = PE anec.square_after_reduction(x = %t0) {axes = [-1], keep_dims = true} : fp16[1, 4, 1]
    """

    name: ClassVar[str] = "fuse-square"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Fuse where only the square reads the sum."""
        if program.target.hal.get("square_after_reduction") is not True:
            return program
        gone: set[str] = set()
        fused: dict[str, Layer] = {}
        for layer in program.layers:
            reader = program.only_reader(layer.result) if layer.kind.name == "reduce_sum" else None
            if reader is not None and reader.kind.name == "sqr":
                kind = find_kind("square_after_reduction")
                gone.add(layer.name)
                fused[reader.name] = replace(layer, kind=kind, engine=kind.engines[0], results=reader.results)
        if not fused:
            return program
        return program.with_layers(fused.get(layer.name, layer) for layer in program.layers if layer.name not in gone)

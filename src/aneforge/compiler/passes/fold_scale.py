"""Takes gains that are powers of two out of their slot and into the weights, where a decision says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.arrays import np
from aneforge.compiler.affine import Affine, affine_of_stage
from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.constant import Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array

__all__ = ["FoldScale"]

POWERS_OF_TWO = "powers of two"


def scale(weights: Array, gain: Array) -> Array | None:
    """Return weights times gains of output channels; None if a gain is not a power of two or a weight would round."""
    if not np.all(np.isfinite(gain)) or np.any(np.abs(np.frexp(gain)[0]) != 0.5):
        return None
    along = gain.reshape(-1, *(1,) * (weights.ndim - 1)) if gain.ndim else gain
    with np.errstate(over="ignore"):
        exact = weights.astype(np.float64) * along
        stored = exact.astype(weights.dtype)
    return stored if np.array_equal(stored.astype(np.float64), exact) else None


@dataclass(frozen=True)
class FoldScale(Pass):
    """Fold gains into the weights of convolutions.

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…} : fp16[1, 4, 8, 8]
          gain_offset: anec.gain_offset_control(gain = @t1.gain_offset.gain, offset = @t1.gain_offset.offset)

    After:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…} : fp16[1, 4, 8, 8]
          gain_offset: anec.gain_offset_control(offset = @t1.gain_offset.offset)

    The compiler does either; which rule decides is in no source, so it is data: the decision `scale_folding`. What is
    folded must not round: powers of two, and only where every weight keeps its bits.
    """

    rule: str | None = None
    """`never` or `powers of two`; None for the decision."""

    name: ClassVar[str] = "fold-scale"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Fold where the rule allows it."""
        if (self.rule or decision("scale_folding").text()) != POWERS_OF_TWO:
            return program

        def folded(layer: Layer) -> list[Layer] | None:
            stage, weights = layer.epilogue.gain_offset, layer.operands.get("weights")
            if layer.kind.name != "convolution" or stage is None or not isinstance(weights, Dense):
                return None
            affine = affine_of_stage(stage, layer.core_types[0].rank)
            if affine.gain is None or layer.epilogue.pre_activation is not None:
                return None
            values = scale(weights.dense(), affine.gain)
            if values is None:
                return None
            rest = Affine(None, affine.offset, affine.axis, affine.unknown)
            epilogue = layer.epilogue.filled(Slot.GAIN_OFFSET, None if rest.offset is None else rest.stage())
            return [replace(layer, operands={**layer.operands, "weights": Dense(values)}, epilogue=epilogue)]

        return replace_layers(program, folded)

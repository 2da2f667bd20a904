"""Chooses between the direct and the Winograd form of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

__all__ = ["ChooseWinograd"]

TAPS = 3
"""The kernel of the form that was measured has this side."""


def may_be_winograd(layer: Layer) -> bool:
    """Return whether the compiler's own rule allows it: a side of 3, the others short, every place seen.

    Dilation and groups are not named by the rule.
    """
    sizes = layer.integers("kernel_sizes")
    weights = layer.operand("weights")
    longest = decision("winograd_other_side").integer()
    sparse = isinstance(weights, Constant) and weights.encoding == "sparse"
    return TAPS in sizes and max(sizes) <= longest and set(layer.integers("strides")) == {1} and not sparse


def is_measured(layer: Layer) -> bool:
    """Return whether a convolution is of the form that figures of chips confirm."""
    plain = layer.integers("kernel_sizes") == (TAPS, TAPS) and set(layer.integers("dilation_rates")) == {1}
    even = layer.core_types[0].shape[-1] % 2 == 0
    return plain and even and layer.integer("groups") == 1 and isinstance(layer.operand("weights"), Constant)


def winograd(layer: Layer, on_width: object) -> bool | str:
    """Return whether a convolution runs as Winograd; `unknown` where it is not measured."""
    if not may_be_winograd(layer) or on_width is False:
        return False
    return True if on_width is True and is_measured(layer) else "unknown"


@dataclass(frozen=True)
class ChooseWinograd(Pass):
    """Say which convolutions run as Winograd along the width.

    On a target that has it:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, kernel_sizes = [3, 3]} : fp16[1, 4, 8, 8]

    After:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, kernel_sizes = [3, 3]} : fp16[1, 4, 8, 8]
          chosen: {winograd = true}

    Measured are 3×3 kernels of stride 1, one group, no dilation and an even width. What else the compiler's rule lets
    through is `unknown` on such a target, and on one for which no source says it; all other convolutions are direct.
    """

    name: ClassVar[str] = "choose-winograd"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose for every convolution."""
        on_width = program.target.datapath.get("winograd_on_width")

        def chosen(layer: Layer) -> list[Layer] | None:
            if layer.kind.name != "convolution" or "winograd" in layer.choices:
                return None
            return [layer.choosing(winograd=winograd(layer, on_width))]

        return replace_layers(program, chosen)

"""Chooses the route of reductions by the length of the axis that they reduce."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.cuts import is_reduction, list_reduced_axes
from aneforge.compiler.passes.tiling import full_parts
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Value

__all__ = ["ChooseReductionRoute"]


def route(extent: int, threshold: Value | None) -> str:
    """Return the route of a reduction over an axis.

    >>> route(191, 192), route(192, 192), route(192, "none"), route(192, None)
    ('direct', 'transpose', 'direct', 'unknown')
    """
    if threshold is None:
        return "unknown"
    return "transpose" if isinstance(threshold, int) and extent >= threshold else "direct"


def choose(layer: Layer, threshold: Value | None) -> Layer:
    """Return a reduction with its route; one over only the last axis also with the rows that become channels."""
    shape, gone = layer.operand("x").type.shape, list_reduced_axes(layer)
    made = layer.choosing(route=route(max((shape[axis] for axis in gone), default=0), threshold))
    if gone != (len(shape) - 1,) or not isinstance(threshold, int):
        return made
    rows = layer.core_types[0].size
    parts = [part.size for part in full_parts(rows, threshold)]
    return made.choosing(rows=rows, row_parts=len(parts), last_rows=parts[-1])


@dataclass(frozen=True)
class ChooseReductionRoute(Pass):
    """Choose the direct route or the one through a transpose for reductions.

    Where the threshold is 192, and an axis of 512 is reduced:

    Before:
        %t1 = PE anec.reduce_sum(x = %t0) {axes = [-1], keep_dims = true} : fp16[256, 1]

    After:
        %t1 = PE anec.reduce_sum(x = %t0) {axes = [-1], keep_dims = true} : fp16[256, 1]
          chosen: {route = "transpose", rows = 256, row_parts = 2, last_rows = 64}

    An axis of the threshold's length or more goes through the transpose, which reorders the sum. The rows of a
    reduction over the last axis become channels, in parts of the threshold: 256 rows are 192 and 64. Where no source
    gives the threshold the route is `unknown`.
    """

    name: ClassVar[str] = "choose-reduction-route"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose for every reduction."""
        threshold = program.target.hal.get("reduction_transpose_extent")

        def routed(layer: Layer) -> list[Layer] | None:
            if not is_reduction(layer.kind) or "route" in layer.choices:
                return None
            return [choose(layer, threshold)]

        return replace_layers(program, routed)

"""Takes grouped convolutions apart whose groups are larger than the target runs together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.cuts import cut_along
from aneforge.compiler.passes.epilogues import UNDONE, axis_after_epilogue, unfuse
from aneforge.compiler.passes.tiling import cut_layer, even_parts
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

__all__ = ["SplitGroups"]

CHANNEL_AXIS = 1
GROUPS = "its {groups} groups became convolutions of their own"


@dataclass(frozen=True)
class SplitGroups(Pass):
    """Make one convolution of every group where the kernels of a group have more weights than the target's limit.

    Where a kernel of a grouped convolution has at most 2,048 weights, and a group 256 channels:

    Before:
        %t1 = NE anec.convolution(input = %t0, weights = @t1.weights) {…, groups = 2, kernel_sizes = [3, 3]}
            : fp16[1, 8, 8, 8]

    After:
        %t1.group0.input = DMA anec.slice(input = %t0) {begin = [0, 0, 0, 0], size = [1, 256, 8, 8]}
            : fp16[1, 256, 8, 8]
        %t1.group0 = NE anec.convolution(input = %t1.group0.input, weights = @t1.group0.weights)
            {…, kernel_sizes = [3, 3]} : fp16[1, 4, 8, 8]
          chosen: {rebuilt = "group"}
        %t1.group1.input = DMA anec.slice(input = %t0) {begin = [0, 256, 0, 0], size = [1, 256, 8, 8]}
            : fp16[1, 256, 8, 8]
        %t1.group1 = NE anec.convolution(input = %t1.group1.input, weights = @t1.group1.weights)
            {…, kernel_sizes = [3, 3]} : fp16[1, 4, 8, 8]
          chosen: {rebuilt = "group"}
        %t1 = DMA anec.concat(values = [%t1.group0, %t1.group1]) {axis = 1} : fp16[1, 8, 8, 8]
          chosen: {in_place = true}

    Where no source gives the limit, the choice of the layer is `unknown`.
    """

    name: ClassVar[str] = "split-groups"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Take large groups apart."""
        target = program.target
        most = target.limits.known_integer("group_conv_decompose")
        notes: list[Note] = []

        def apart(layer: Layer) -> list[Layer] | None:
            if layer.kind.name != "convolution" or layer.integer("groups") == 1:
                return None
            if most is None:
                return None if "groups" in layer.choices else [layer.choosing(groups="unknown")]
            weights, groups = layer.operand("weights"), layer.integer("groups")
            counted = groups if decision("group_channels").text() == "of all groups" else 1
            if counted * math.prod(weights.type.shape[1:]) <= most:
                return None
            first, *rest = [layer] if axis_after_epilogue(layer, CHANNEL_AXIS) is not None else unfuse(layer)
            cut = cut_along(first, CHANNEL_AXIS)
            assert cut is not None, "a convolution is cut along its groups"  # noqa: S101 - said by `cuts`
            notes.append(Note.of(self.name, layer.name, GROUPS, groups=groups))
            notes.extend([Note(self.name, layer.name, UNDONE)] if rest else [])
            parts = even_parts(first.core_types[0].shape[CHANNEL_AXIS], groups)
            return [*cut_layer(first.choosing(rebuilt="group"), cut, parts, "group", target), *rest]

        return replace_layers(program, apart, notes)

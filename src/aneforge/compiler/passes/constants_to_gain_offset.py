"""Turns elementwise layers with one constant operand into gain and offset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.arrays import np
from aneforge.compiler.affine import KIND, Affine, numbers_of
from aneforge.compiler.channels import channel_axes
from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared
from aneforge.ops.types import is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array

__all__ = ["ConstantsToGainOffset"]


def channel_row(constant: Constant, value: Value, axis: int | None) -> Array | None:
    """Return a constant as one number or a row along the channel axis; None where it differs along other axes too."""
    shape = (1,) * (value.rank - constant.type.rank) + constant.type.shape
    varying = [place for place, extent in enumerate(shape) if extent != 1]
    if varying and varying != [axis]:
        return None
    return numbers_of(constant).reshape(-1 if varying else ())


def as_affine(layer: Layer, channels: Mapping[str, int | None]) -> tuple[Value, Affine] | None:
    """Return what an elementwise layer does to its live operand, if that is gain and offset with constants.

    The compiler's own guard: two inputs, of which exactly one is constant.
    """
    if layer.kind.name not in ("add", "sub", "mult") or layer.epilogue:
        return None
    x, y = layer.operand("x"), layer.operand("y")
    live, constant = (x, y) if isinstance(x, Value) else (y, x)
    if not isinstance(live, Value) or not isinstance(constant, Constant):
        return None
    axis = channels[live.name]
    row = channel_row(constant, live, axis) if live.type == layer.result.type else None
    if row is None or not is_float(live.type.dtype):
        return None
    affine = affine_by(layer.kind.name, row, axis or 0, constant_first=live is y)
    if isinstance(constant, Declared):
        affine = replace(affine, unknown=frozenset({"gain" if layer.kind.name == "mult" else "offset"}))
    return live, affine


def affine_by(kind: str, row: Array, axis: int, *, constant_first: bool) -> Affine:
    """Return gain and offset of a sum, difference or product with a constant."""
    match kind:
        case "mult":
            return Affine(row, None, axis)
        case "add":
            return Affine(None, row, axis)
        case _ if constant_first:
            return Affine(np.array(-1.0), row, axis)
        case _:
            return Affine(None, -row, axis)


@dataclass(frozen=True)
class ConstantsToGainOffset(Pass):
    """Make gain and offset of additions, subtractions and products with one constant.

    Before:
        %t2 = PE anec.add(x = %t1, y = @t2.y) : fp16[1, 4, 8, 8]

    After:
        %t2 = PE anec.gain_offset_control(input = %t1, offset = @t2.offset) : fp16[1, 4, 8, 8]

    The constant is one number or one for every channel. With two live operands the layer stays: a fusion barrier.
    """

    name: ClassVar[str] = "constants-to-gain-offset"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Exchange the layers."""
        channels = channel_axes(program)

        def exchanged(layer: Layer) -> list[Layer] | None:
            found = as_affine(layer, channels)
            if found is None:
                return None
            live, affine = found
            kind = find_kind(KIND)
            return [
                replace(
                    layer,
                    kind=kind,
                    operands={"input": live, **affine.constants()},
                    attributes=affine.attributes(),
                    engine=kind.engines[0],
                )
            ]

        return replace_layers(program, exchanged)

"""Rewrites products with constant matrices to convolutions whose weights stay on the chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.edit import new_layer, replace_layers
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.split_extents import CHANNEL_AXIS, Extents
from aneforge.compiler.weights import matrix_transposed, with_unit_axes
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program

__all__ = ["MatmulToConvolution"]

LAYOUTS = {3: "OIW", 4: "OIHW"}


def product(layer: Layer) -> tuple[Value, Constant, bool] | None:
    """Return the live operand of a product, its weight as [output, input], and whether the operand comes transposed."""
    match layer.kind.name:
        case "linear":
            x, weight, transposed = layer.operand("x"), layer.operand("weight"), False
        case "matmul":
            x, weight, transposed = layer.operand("lhs"), layer.operand("rhs"), layer.flag("transpose_lhs")
        case _:
            return None
    if not isinstance(x, Value) or not isinstance(weight, Constant) or weight.type.rank != 2 or layer.epilogue:
        return None
    if not 1 <= x.rank <= max(LAYOUTS):
        return None
    outputs_last = layer.kind.name == "matmul" and not layer.flag("transpose_rhs")
    return x, matrix_transposed(weight) if outputs_last else weight, transposed and x.rank > 1


def convolution(layer: Layer, x: Value, weight: Constant, *, transposed: bool) -> list[Layer]:
    """Return a product as a convolution: the contracted axis becomes the channels, the rows the width."""
    name, place = layer.name, layer.location
    layers: list[Layer] = []

    def add(kind: str, source: Value, attributes: Mapping[str, object], step: str, operand: str = "x") -> Value:
        held = {operand: source} if operand == "x" else {operand: source, "weights": kernel}
        layers.append(new_layer(kind, held, attributes, f"{name}.{step}" if step else name, location=place))
        return layers[-1].result

    rank = max(x.rank, 3)
    source = x
    if x.rank < rank:
        source = add("reshape", x, {"shape": (*(1,) * (rank - x.rank), *x.shape)}, "rows")
    if not transposed:
        source = add("transpose", source, {"perm": (0, rank - 1, *range(1, rank - 1))}, "channels")
    elif rank > 3:
        source = add("transpose", source, {"perm": (0, rank - 2, *range(1, rank - 2), rank - 1)}, "channels")
    spatial = rank - 2
    kernel = with_unit_axes(weight, spatial)
    window: dict[str, object] = {
        "strides": (1,) * spatial,
        "dilation_rates": (1,) * spatial,
        "explicit_padding": (0, 0) * spatial,
        "kernel_sizes": (1,) * spatial,
        "weights_layout": LAYOUTS[rank],
    }
    result = add("convolution", source, window, "conv", operand="input")
    back = {"perm": (0, *range(2, rank), 1)}
    if layer.result.rank == rank:
        add("transpose", result, back, "")
    else:
        add("reshape", add("transpose", result, back, "columns"), {"shape": layer.result.shape}, "")
    return layers


@dataclass(frozen=True)
class MatmulToConvolution(Pass):
    """Make convolutions of products with a constant matrix that the on-chip memory holds.

    Before:
        %t1 = NE anec.linear(x = %t0, weight = @t1.weight) : fp16[1, 4, 8]

    After:
        %t1.channels = TE anec.transpose(x = %t0) {perm = [0, 2, 1]} : fp16[1, 16, 4]
        %t1.conv = NE anec.convolution(input = %t1.channels, weights = @t1.conv.weights) {…} : fp16[1, 8, 4]
        %t1 = TE anec.transpose(x = %t1.conv) {perm = [0, 2, 1]} : fp16[1, 4, 8]

    The threshold is the target's field 0x1b8; `threshold` overrides it. A larger weight stays a product that is tiled,
    and so does one that contracts more than a convolution has channels.
    """

    threshold: int | None = None
    """Bytes of weight up to which a product becomes a convolution; None for the target's own."""

    name: ClassVar[str] = "matmul-to-convolution"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Exchange the products."""
        known = program.target.hal.get("max_operand_bytes") if self.threshold is None else self.threshold
        extents = Extents.of(program.target)
        notes: list[Note] = []

        def exchanged(layer: Layer) -> list[Layer] | None:
            found = product(layer)
            if found is None:
                return None
            x, weight, transposed = found
            channels, rank = weight.type.shape[1], max(x.rank, 3)
            most = extents.bound(rank, CHANNEL_AXIS)
            if most is not None and channels > most:
                text = f"stays a product, which can be split: {channels} channels, {most} at most in a convolution"
                notes.append(Note(self.name, layer.name, text))
                return None
            if not isinstance(known, int) or weight.nbytes > known:
                notes.append(self.stays(layer, weight.nbytes, known if isinstance(known, int) else None))
                return None
            return convolution(layer, x, weight, transposed=transposed)

        result = replace_layers(program, exchanged, notes)
        return program.with_layers(program.layers, notes) if result is program and notes else result

    def stays(self, layer: Layer, weight_bytes: int, limit: int | None) -> Note:
        """Return why a product stays one."""
        if limit is None:
            return Note(self.name, layer.name, "stays a tiled product: the threshold is unknown here")
        text = "stays a tiled product: {seen} bytes of weight, {limit} at most stay on the chip"
        return Note.of(self.name, layer.name, text, seen=weight_bytes, limit=limit)

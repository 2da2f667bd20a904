"""Splits matrix products that are larger than the target's largest tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.cuts import cut_along
from aneforge.compiler.passes.epilogues import UNDONE, axis_after_epilogue, fusion_undone, unfuse
from aneforge.compiler.passes.layer_maker import cost_text
from aneforge.compiler.passes.tiling import Along, Cut, cut_layer, even_parts, sum_parts
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["SplitMatmul", "contraction"]

PRODUCTS = frozenset({"linear", "matmul"})
ROUNDED = "a sum of {count} products over parts of the contraction in {cost}, each rounded to the type of the result"


def row_axis(layer: Layer) -> int | None:
    """Return the axis of a product's rows; None for a vector on the left."""
    if layer.operand("lhs").type.rank < 2:
        return None
    return layer.core_types[0].rank - (2 if layer.operand("rhs").type.rank > 1 else 1)


def contraction(layer: Layer) -> Cut:
    """Return the cut along what both operands are summed over."""
    if layer.kind.name == "linear":
        return Cut(-1, {"x": Along(layer.operand("x").type.rank - 1), "weight": Along(1)})
    lhs, rhs = layer.operand("lhs").type.rank, layer.operand("rhs").type.rank
    left = lhs - 2 if layer.flag("transpose_lhs") and lhs > 1 else lhs - 1
    right = rhs - 1 if layer.flag("transpose_rhs") or rhs == 1 else rhs - 2
    return Cut(-1, {"lhs": Along(left), "rhs": Along(right)})


def split_rows_of_product(layer: Layer, most: int | None, target: Target) -> list[Layer] | None:
    """Return a product in parts of so many rows; None where it has no more."""
    axis = row_axis(layer)
    if axis is None or most is None or layer.core_types[0].shape[axis] <= most:
        return None
    first, *rest = [layer] if axis_after_epilogue(layer, axis) is not None else unfuse(layer)
    cut = cut_along(first, axis)
    assert cut is not None, "a product is cut along its rows"  # noqa: S101 - said by `cuts`
    rows = first.core_types[0].shape[axis]
    return [*cut_layer(first, cut, even_parts(rows, -(-rows // most)), "rows", target), *rest]


def split_contraction(layer: Layer, most: int | None, target: Target) -> list[Layer] | None:
    """Return a product as a sum of products over parts of the contraction; None where it is short enough."""
    cut = contraction(layer)
    name, along = next(iter(cut.operands.items()))
    extent = layer.operand(name).type.shape[along.axis]
    if most is None or extent <= most:
        return None
    return sum_parts(layer, cut, even_parts(extent, -(-extent // most)), "inner", target)


@dataclass(frozen=True)
class SplitMatmul(Pass):
    """Split products along their height by the largest tensor of the target, and along a contraction that is longer.

    Linear layers are products with constant weights; their height is left to the splitting of extents.

    Where a tensor is at most 16,384 high:

    Before:
        %t2 = NE anec.matmul(lhs = %t0, rhs = %t1) : fp16[20000, 8]

    After:
        %t2.rows0.lhs = DMA anec.slice(input = %t0) {begin = [0, 0], size = [10000, 4]} : fp16[10000, 4]
        %t2.rows0 = NE anec.matmul(lhs = %t2.rows0.lhs, rhs = %t1) : fp16[10000, 8]
        %t2.rows1.lhs = DMA anec.slice(input = %t0) {begin = [10000, 0], size = [10000, 4]} : fp16[10000, 4]
        %t2.rows1 = NE anec.matmul(lhs = %t2.rows1.lhs, rhs = %t1) : fp16[10000, 8]
        %t2 = DMA anec.concat(values = [%t2.rows0, %t2.rows1]) {axis = 0} : fp16[20000, 8]
          chosen: {in_place = true}

    Every part keeps the epilogue. Parts of a contraction are added, the epilogue moves after the sum, and a note says
    so: each part is rounded.
    """

    name: ClassVar[str] = "split-matmul"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Split what is too large."""
        target = program.target
        height, longest = target.limits.known_integer("tensor_height"), target.limits.known_integer("max_tensor_dim")
        notes: list[Note] = []

        def split(layer: Layer) -> list[Layer] | None:
            if layer.kind.name not in PRODUCTS:
                return None
            rows = split_rows_of_product(layer, height, target) if layer.kind.name == "matmul" else None
            if rows is not None:
                count = sum(piece.kind.name == "matmul" for piece in rows)
                notes.append(Note(self.name, layer.name, f"became {count} parts along its rows in {cost_text(rows)}"))
                notes.extend([Note(self.name, layer.name, UNDONE)] if fusion_undone(layer, rows) else [])
                return [made for piece in rows for made in (split(piece) or [piece])]
            parts = split_contraction(layer, longest, target)
            if parts is not None:
                count = sum(piece.kind is layer.kind for piece in parts)
                moved = "; the epilogue moved after the sum" if layer.epilogue else ""
                notes.append(Note.of(self.name, layer.name, ROUNDED + moved, count=count, cost=cost_text(parts)))
            return parts

        return replace_layers(program, split, notes)

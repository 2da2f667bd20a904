"""Gain and offset: the affine unit after an engine operation, one pair for all elements or one for every channel.

Gain and offset that fusion computed (a batch normalisation's, a product of two gains) are held in fp64, so that fusing
does not round; the number that the hardware holds is the engine's and the writers' matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import LayerForm
from aneforge.errors import GraphError
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.shapes import expect_float, normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind

if TYPE_CHECKING:
    from aneforge.ops.types import Array, TensorType

__all__ = ["FORMS"]


def affine_type(x: TensorType, gain: TensorType | None, offset: TensorType | None, *, axis: int) -> TensorType:
    """Return the type, which is that of what flows through."""
    expect_float(x)
    for what, operand in (("gain", gain), ("offset", offset)):
        if operand is None or operand.rank == 0:
            continue
        extent = x.shape[normalise_axis(axis, x.rank)]
        if operand.shape != (extent,):
            raise GraphError(
                f"the {what} is neither one number nor one for every channel",
                seen=list(operand.shape),
                limit=f"[] or [{extent}] along axis {axis}",
            )
    if gain is None and offset is None:
        raise GraphError("neither gain nor offset is given", remedy="leave the layer out")
    return x


def affine(x: Array, gain: Array | None, offset: Array | None, *, axis: int) -> Array:
    """Multiply by the gain, then add the offset."""
    result = x
    if gain is not None:
        result = result * along(gain, x.ndim, axis)
    if offset is not None:
        result = result + along(offset, x.ndim, axis)
    return result


def along(values: Array, rank: int, axis: int) -> Array:
    """Return one number, or a row of them along an axis."""
    return values if values.ndim == 0 else reshape_along(values, rank, axis % rank)


FORMS = {
    "gain_offset_control": LayerForm(
        operands=(
            Operand("input"),
            Operand("gain", OperandKind.CONSTANT, optional=True),
            Operand("offset", OperandKind.CONSTANT, optional=True),
        ),
        attributes=(Attribute("axis", AttributeKind.INTEGER, 1),),
        infer=affine_type,
        meaning=affine,
    )
}

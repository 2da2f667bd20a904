"""Gradients of quantisation: straight through, as if nothing were rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.shifting import keep_where, level
from aneforge.ops.types import value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite, Passed


def along_axis(to: GradientSite, values: Term, like: Term, axis: int | None, dtype: str) -> Term:
    """Return one number, or one for each place of an axis, as a constant that broadcasts to a tensor."""
    assert values.known is not None  # noqa: S101 - the op table takes only constants
    shape = [1] * len(like.shape)
    if axis is not None and values.known.ndim:
        shape[axis] = values.known.size
    known = values.known.astype(np.float64)
    return to.constant(known.reshape(shape if known.ndim else ()), dtype, "scale")


def quantised(
    to: GradientSite, g: Term, x: Term, scale: Term, zero_point: Term | None, *, output_dtype: str, axis: int | None
) -> Sequence[Passed]:
    """Return g / scale where the result is within the type, 0 where it was cut off."""
    divisor = along_axis(to, scale, x, axis, x.dtype)
    steps = x / divisor
    if zero_point is not None:
        steps = steps + along_axis(to, zero_point, x, axis, x.dtype)
    low, high = value_range(output_dtype)
    share = g / divisor
    kept = keep_where(to, steps.less_equal(level(to, high + 0.5, x)), share)
    return keep_where(to, steps.greater_equal(level(to, low - 0.5, x)), kept), None, None


def dequantised(
    to: GradientSite, g: Term, x: Term, scale: Term, _: Term | None, *, axis: int | None
) -> Sequence[Passed]:
    """Return g · scale."""
    return g * along_axis(to, scale, x, axis, g.dtype), None, None


QUANTISED = Gradient("g / scale within the type's range, as if nothing were rounded", quantised, straight=True)
DEQUANTISED = Gradient("g · scale", dequantised)

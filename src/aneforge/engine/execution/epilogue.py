"""The seven slots behind an engine operation: what each does to the value that flows through, and where it rounds.

The operation hands over its result in two forms: rounded to fp16, and, where it is known, before that rounding (the sum
of a product, the exact result of an elementwise operation). A gain and offset that is the first thing behind it works
on the second and rounds once. Everything else works on fp16 and rounds by itself.

An offset alone behind a product is no slot but the start of the sum (measured); `layers` sees to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.planar import gain_offset, host_fp16, read
from aneforge.engine.rounding import to_fp16
from aneforge.ops.arithmetic import laid_along

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.layer import Stage
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["Flowing", "along", "gained", "through"]

ONE_ROUNDING = "gain and offset behind an operation are taken to round once, with it; no figure tells"
TWO_ROUNDINGS = "gain and offset together round as the tails of the activation tables do; no figure tells"
ONE_FACTOR = "one rounding of the exact product or sum, as any elementwise operation"


@dataclass(frozen=True, slots=True)
class Flowing:
    """A value between two slots."""

    rounded: Array
    """In fp16, or in its own type."""
    exact: Array | None
    """Before that rounding, in float64; None where it is not known or was rounded already."""
    labels: tuple[Label, ...] = ()


def through(flowing: Flowing, stage: Stage, target: Target) -> Flowing:
    """Return what leaves a slot."""
    if stage.kind.name == GAIN_OFFSET:
        return gained(flowing, affine_of_stage(stage, flowing.rounded.ndim))
    call = call_of_kind(stage.kind, stage.attributes, flowing.rounded.shape)
    assert call is not None, "only gain and offset is no call"  # noqa: S101 - handled above
    found = arithmetic(call.op, target)
    held = {name: constant.dense() for name, constant in stage.operands.items()}
    operands = call.renamed({stage.kind.flowing: flowing.rounded, **held})
    (result,) = found.compute(cast("Any", operands), call.attributes)
    return Flowing(result, None, (*flowing.labels, found.label))


def gained(flowing: Flowing, affine: Affine) -> Flowing:
    """Return gain · x + offset; the constants are fp16, rounded by the host that compiled them."""
    gain, offset = (along(values, flowing.rounded.ndim, affine.axis) for values in (affine.gain, affine.offset))
    if flowing.exact is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            total = flowing.exact * (1.0 if gain is None else gain) + (0.0 if offset is None else offset)
        result = to_fp16(np.where(np.isnan(total), 0.0, total))
        label = Label(Exactness.MODELLED, ONE_ROUNDING)
    elif gain is None:
        result = to_fp16(read(flowing.rounded) + cast("Array", offset))
        label = Label(Exactness.EXACT, ONE_FACTOR)
    else:
        result = gain_offset(flowing.rounded, gain, offset)
        label = Label(Exactness.EXACT, ONE_FACTOR) if offset is None else Label(Exactness.MODELLED, TWO_ROUNDINGS)
    return Flowing(host_fp16(result), None, (*flowing.labels, label))


def along(values: Array | None, rank: int, axis: int) -> Array | None:
    """Return constants as the program holds them, ready to meet a tensor."""
    if values is None:
        return None
    held = host_fp16(values).astype(np.float64)
    return held if held.ndim == 0 else laid_along(held, rank, axis)

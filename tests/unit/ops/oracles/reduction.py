"""Independent implementations of reductions: torch, and plain loops for places and running sums."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def same(x: torch.Tensor) -> torch.Tensor:
    return x


def by_torch(
    function: Callable[..., torch.Tensor],
    *,
    before: Callable[[torch.Tensor], torch.Tensor] = same,
    after: Callable[[torch.Tensor], torch.Tensor] = same,
) -> Oracle:
    """Return the oracle of a reduction of torch, with a function of every element before and one after it."""

    def oracle(x: Array, *, axes: tuple[int, ...] | None, keep_dims: bool) -> Array:
        dim = list(range(x.ndim)) if axes is None else list(axes)
        return array(after(function(before(tensor(x)), dim=dim, keepdim=keep_dims)).to(tensor(x).dtype))

    return oracle


def one_after_another(x: torch.Tensor, *, dim: list[int], keepdim: bool) -> torch.Tensor:
    """Multiply along the last axis first, since torch multiplies along one axis alone."""
    for axis in sorted((axis % x.dim() for axis in dim), reverse=True):
        x = torch.prod(x, dim=axis, keepdim=keepdim)
    return x


def first_place(row: list[float], *, largest: bool) -> int:
    return row.index(max(row) if largest else min(row))


def rows_along(x: Array, axis: int) -> list[list[float]]:
    return np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]).tolist()


def places(x: Array, axis: int, *, largest: bool) -> Array:
    """Search row by row; the axis is left with length 1."""
    found = [first_place(row, largest=largest) for row in rows_along(x, axis)]
    return np.array(found).reshape([1 if place == axis % x.ndim else n for place, n in enumerate(x.shape)])


def arg_reduction(*, largest: bool) -> Oracle:
    def oracle(x: Array, *, axis: int, keep_dims: bool, output_dtype: str) -> Array:
        assert output_dtype in ("int32", "uint16")
        kept = places(x, axis, largest=largest)
        return kept if keep_dims else kept.squeeze(axis)

    return oracle


def argmax(x: Array, *, axis: int) -> Array:
    return places(x, axis, largest=True)


def global_place(x: Array, *, mode: str) -> Array:
    return np.array(first_place(x.ravel().tolist(), largest=mode == "max"))


def running_sums(row: list[float], *, exclusive: bool, reverse: bool) -> list[float]:
    ordered = row[::-1] if reverse else row
    sums = list(accumulate(ordered, initial=0))
    chosen = sums[:-1] if exclusive else sums[1:]
    return chosen[::-1] if reverse else chosen


def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    sums = [running_sums(row, exclusive=exclusive, reverse=reverse) for row in rows_along(x, axis)]
    return np.moveaxis(np.array(sums).reshape(np.moveaxis(x, axis, -1).shape), -1, axis)


ORACLES: dict[str, Oracle] = {
    "reduce_sum": by_torch(torch.sum),
    "reduce_sum_square": by_torch(torch.sum, before=torch.square),
    "reduce_l1_norm": by_torch(torch.sum, before=torch.abs),
    "reduce_l2_norm": by_torch(torch.sum, before=torch.square, after=torch.sqrt),
    "reduce_mean": by_torch(torch.mean),
    "reduce_max": by_torch(torch.amax),
    "reduce_min": by_torch(torch.amin),
    "reduce_prod": by_torch(one_after_another),
    "reduce_log_sum": by_torch(torch.sum, after=torch.log),
    "reduce_log_sum_exp": by_torch(torch.logsumexp),
    "sq_after_reduce": by_torch(torch.sum, after=torch.square),
    "reduce_argmax": arg_reduction(largest=True),
    "reduce_argmin": arg_reduction(largest=False),
    "argmax": argmax,
    "global_arg_min_max": global_place,
    "cumsum": cumsum,
}

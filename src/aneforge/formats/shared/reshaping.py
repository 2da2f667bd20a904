"""Tensors in other shapes: with a length worked out, split, repeated, or with a value around them."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = ["EXACT_MOST", "pad_axes", "parts", "repeat_axes", "resolve_shape", "without_negative"]

EXACT_MOST = 2**53
"""Integers up to here are exact as floats, which attributes of the op table are."""


def resolve_shape(old: Sequence[int], wished: Sequence[int]) -> tuple[int, ...]:
    """Return a wished shape with −1 computed.

    Raises:
        GraphError: It leaves no length for −1.
    """
    if -1 not in wished:
        return tuple(wished)
    others = math.prod(extent for extent in wished if extent != -1)
    if not others or math.prod(old) % others:
        raise GraphError("the shape leaves no length for its -1", seen=list(wished), limit=list(old))
    return tuple(math.prod(old) // others if extent == -1 else extent for extent in wished)


def parts(emit: Emitter, x: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Return the parts of a tensor along an axis; their lengths make up the axis."""
    if len(sizes) == 1:
        return (x,)
    if isinstance(x, Dense) or 0 in x.type.shape or 0 in sizes:
        return tuple(emit.part(x, axis, begin, end) for begin, end in pairwise(accumulate(sizes, initial=0)))
    return emit.apply_all("split", {"x": x}, split_sizes=tuple(sizes), axis=axis)


def repeat_axes(emit: Emitter, x: Value, repeats: Sequence[int]) -> Value:
    """Return a tensor repeated along every axis."""
    shape = [one * extent for one, extent in zip(repeats, x.type.shape, strict=True)]
    if 0 in shape:
        return emit.empty(shape, x.type.dtype)
    return x if set(repeats) <= {1} else emit.apply("tile", {"x": x}, reps=tuple(repeats))


def pad_axes(emit: Emitter, x: Value, widths: Sequence[tuple[int, int]], value: Value) -> Value:
    """Return a tensor with a value around it, which a mask chooses where it is computed; a negative width cuts."""
    inner = without_negative(emit, x, widths)
    wide = [(max(before, 0), max(after, 0)) for before, after in widths]
    if not np.any(wide):
        return inner
    if 0 in inner.type.shape:
        return emit.spread(value, [extent + sum(pair) for extent, pair in zip(inner.type.shape, wide, strict=True)])
    flat = [width for pair in wide for width in pair]
    if isinstance(value, Constant) and (is_float(x.type.dtype) or abs(int(value.dense().item())) <= EXACT_MOST):
        return emit.apply("pad", {"x": inner}, pad=flat, mode="constant", constant_val=float(value.dense().item()))
    zeros = emit.apply("pad", {"x": inner}, pad=flat, mode="constant", constant_val=0.0)
    emit.room(zeros.type.size)
    inside = np.pad(np.ones(inner.type.shape, np.bool_), wide)
    return emit.select(emit.constant(inside, "bool"), zeros, value)


def without_negative(emit: Emitter, x: Value, widths: Sequence[tuple[int, int]]) -> Value:
    """Return a tensor cut where a width of padding is negative."""
    cuts = {
        axis: range(max(-before, 0), extent - max(-after, 0))
        for axis, ((before, after), extent) in enumerate(zip(widths, x.type.shape, strict=True))
    }
    return emit.region(x, cuts)

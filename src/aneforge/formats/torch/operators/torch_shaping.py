"""Operators that change the shape of a tensor, join tensors or part them, and keep their elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.shared.reshaping import parts, repeat_axes, resolve_shape
from aneforge.formats.torch.registry import operator
from aneforge.ops.shapes import normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


@operator("view", "_unsafe_view", "reshape", "view_copy", "_reshape_alias")
def reshape(call: Call) -> Value:
    """Convert another shape; −1 is computed."""
    x = call.value("self")
    return call.emit.reshape(x, resolve_shape(x.type.shape, call.integers("size") or call.integers("shape") or ()))


@operator("permute", "permute_copy")
def permute(call: Call) -> Value:
    """Convert axes in another order."""
    x = call.value("self")
    return call.emit.transpose(x, [normalise_axis(axis, x.type.rank) for axis in call.integers("dims") or ()])


@operator("transpose", "t")
def transpose(call: Call) -> Value:
    """Convert two axes swapped; the two of a matrix by default."""
    x = call.value("self")
    rank = x.type.rank
    if rank < 2:
        return x
    first, second = (call.axis("dim0", rank), call.axis("dim1", rank)) if call.operator == "transpose" else (0, 1)
    order = list(range(rank))
    order[first], order[second] = second, first
    return call.emit.transpose(x, order)


@operator("expand", "expand_copy", "broadcast_to")
def expand(call: Call) -> Value:
    """Convert a tensor repeated to a shape; −1 keeps an axis."""
    x = call.value("self")
    wished = call.integers("size") or ()
    lead = len(wished) - x.type.rank
    return call.emit.spread(
        x, [x.type.shape[axis - lead] if extent == -1 else extent for axis, extent in enumerate(wished)]
    )


@operator("squeeze", "squeeze_copy")
def squeeze(call: Call) -> Value:
    """Convert the tensor without axes of length 1: all of them, or those that are named and have it."""
    x = call.value("self")
    named = call.axes("dim", x.type.rank) if call.has("dim") else tuple(range(x.type.rank))
    if call.has("dim") and not call.integers("dim"):
        named = ()
    return call.emit.reshape(
        x, [extent for axis, extent in enumerate(x.type.shape) if axis not in named or extent != 1]
    )


@operator("unsqueeze", "unsqueeze_copy")
def unsqueeze(call: Call) -> Value:
    """Convert the tensor with one further axis of length 1."""
    x = call.value("self")
    return call.emit.expand(x, normalise_axis(call.integer("dim"), x.type.rank + 1))


@operator("cat", "concat")
def concatenate(call: Call) -> Value:
    """Convert tensors one after another; an empty one of one axis joins any others."""
    emit, dtype = call.emit, call.dtype()
    values = [emit.cast(value, dtype) for value in call.values("tensors")]
    joined = [value for value in values if value.type.shape != (0,)] or values[:1]
    axis = call.axis("dim", joined[0].type.rank)
    filled = [value for value in joined if value.type.size]
    if not filled:
        shape = list(joined[0].type.shape)
        shape[axis] = sum(value.type.shape[axis] for value in joined)
        return emit.empty(shape, dtype)
    return emit.concat(filled, axis)


@operator("stack")
def stack(call: Call) -> Value:
    """Convert tensors side by side along a new axis."""
    emit, dtype = call.emit, call.dtype()
    values = [emit.cast(value, dtype) for value in call.values("tensors")]
    axis = normalise_axis(call.integer("dim"), values[0].type.rank + 1)
    if not values[0].type.size:
        return emit.concat([emit.expand(value, axis) for value in values], axis)
    return emit.apply("stack", {"values": tuple(values)}, axis=axis)


@operator("split", "split_with_sizes", "split_copy", "split_with_sizes_copy")
def split(call: Call) -> tuple[Value, ...]:
    """Convert the parts of a tensor along an axis, of one length or of several."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    extent = x.type.shape[axis]
    sizes = call.integers("split_sizes") or call.integers("split_size") or (extent,)
    if "split_size" in call.arguments and len(sizes) == 1:
        each = max(sizes[0], 1)
        call.emit.budget.take_nodes(-(-extent // each))
        sizes = tuple(min(each, extent - begin) for begin in range(0, extent, each)) or (0,)
    return parts(call.emit, x, axis, sizes)


@operator("unbind", "unbind_copy")
def unbind(call: Call) -> tuple[Value, ...]:
    """Convert the slices of a tensor along an axis."""
    x, emit = call.value("self"), call.emit
    axis = call.axis("dim", x.type.rank)
    kept = [extent for one, extent in enumerate(x.type.shape) if one != axis]
    emit.budget.take_nodes(x.type.shape[axis])
    pieces = parts(emit, x, axis, (1,) * x.type.shape[axis]) if x.type.shape[axis] else ()
    return tuple(emit.reshape(piece, kept) for piece in pieces)


@operator("flip")
def flip(call: Call) -> Value:
    """Convert a tensor backwards along axes."""
    x = call.value("self")
    axes = call.axes("dims", x.type.rank) if call.integers("dims") else ()
    return call.emit.unary("reverse", x, axes=axes) if axes and x.type.rank else x


@operator("roll")
def roll(call: Call) -> Value:
    """Convert elements moved round along axes, or in a row."""
    x, emit = call.value("self"), call.emit
    shifts, axes = call.integers("shifts") or (), call.integers("dims") or ()
    if not x.type.size:
        return x
    if not axes:
        flat = emit.reshape(x, (x.type.size,))
        return emit.reshape(rolled(emit, flat, shifts[0] if shifts else 0, 0), x.type.shape)
    result = x
    for shift, axis in zip(shifts, axes, strict=True):
        result = rolled(emit, result, shift, normalise_axis(axis, max(x.type.rank, 1))) if x.type.rank else result
    return result


def rolled(emit: Emitter, x: Value, shift: int, axis: int) -> Value:
    """Return elements moved round along an axis."""
    extent = x.type.shape[axis]
    cut = -shift % extent
    return x if not cut else emit.concat([emit.part(x, axis, cut, extent), emit.part(x, axis, 0, cut)], axis)


@operator("repeat")
def repeat(call: Call) -> Value:
    """Convert a tensor repeated along every axis, further ones in front."""
    x, emit = call.value("self"), call.emit
    repeats = call.integers("repeats") or ()
    full = emit.reshape(x, (1,) * (len(repeats) - x.type.rank) + x.type.shape)
    return repeat_axes(emit, full, repeats)


@operator("pixel_shuffle")
def pixel_shuffle(call: Call) -> Value:
    """Convert channels made blocks of places."""
    return images(call, "pixel_shuffle", upscale_factor=call.integer("upscale_factor"))


@operator("pixel_unshuffle")
def pixel_unshuffle(call: Call) -> Value:
    """Convert blocks of places made channels."""
    return images(call, "pixel_unshuffle", downscale_factor=call.integer("downscale_factor"))


def images(call: Call, op: str, **attributes: object) -> Value:
    """Return an operation on images [N, C, H, W], all axes before the last three taken as N."""
    x, emit = call.value("self"), call.emit
    if not x.type.size:
        return emit.empty(call.shape() or (), x.type.dtype)
    lead = x.type.shape[:-3]
    result = emit.apply(op, {"x": emit.reshape(x, (math.prod(lead), *x.type.shape[-3:]))}, **attributes)
    return emit.reshape(result, (*lead, *result.type.shape[1:]))

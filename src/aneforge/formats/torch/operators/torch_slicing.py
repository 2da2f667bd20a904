"""Operators that take a part of a tensor by places that are known, or replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.torch.registry import operator
from aneforge.ops.shapes import normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


def find_sliced_range(call: Call, extent: int) -> range:
    """Return the places of a slice along an axis of some length."""
    start, end = (call.integer(name) if call.has(name) else None for name in ("start", "end"))
    return range(extent)[start : end : call.integer("step") if call.has("step") else 1]


@operator("slice", "slice_copy")
def slice_along(call: Call) -> Value:
    """Convert the elements from one place to before another along an axis, a step apart."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    return call.emit.region(x, {axis: find_sliced_range(call, x.type.shape[axis])})


@operator("narrow", "narrow_copy")
def narrow(call: Call) -> Value:
    """Convert a number of elements along an axis."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    start = call.integer("start") % max(x.type.shape[axis], 1) if call.integer("start") < 0 else call.integer("start")
    return call.emit.region(x, {axis: range(start, start + call.integer("length"))})


@operator("select", "select_copy")
def select(call: Call) -> Value:
    """Convert one slice of an axis, without the axis."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    return call.emit.at(x, axis, normalise_axis(call.integer("index"), x.type.shape[axis], "index"))


@operator("slice_scatter")
def slice_scatter(call: Call) -> Value:
    """Convert a tensor with a slice of it replaced."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    return replace(call, x, axis, find_sliced_range(call, x.type.shape[axis]), call.operand("src", x.type.dtype))


@operator("select_scatter")
def select_scatter(call: Call) -> Value:
    """Convert a tensor with one slice of an axis replaced."""
    x = call.value("self")
    axis = call.axis("dim", x.type.rank)
    place = normalise_axis(call.integer("index"), x.type.shape[axis], "index")
    return replace(call, x, axis, range(place, place + 1), call.emit.expand(call.operand("src", x.type.dtype), axis))


def replace(call: Call, x: Value, axis: int, places: range, update: Value) -> Value:
    """Return a tensor with the places of an axis replaced."""
    emit = call.emit
    if not len(places) or not x.type.size:
        return x
    wanted = [len(places) if one == axis else extent for one, extent in enumerate(x.type.shape)]
    full = emit.spread(update, wanted)
    if len(places) == x.type.shape[axis]:
        return full
    bounds = [places if one == axis else range(extent) for one, extent in enumerate(x.type.shape)]
    begins, ends, steps = ([getattr(one, part) for one in bounds] for part in ("start", "stop", "step"))
    return emit.apply("slice_update", {"x": x, "update": full}, begin=begins, end=ends, stride=steps)


@operator("as_strided", "as_strided_copy")
def as_strided(call: Call) -> Value:
    """Convert a view of a tensor's memory, taken as contiguous: the elements at the places that steps reach."""
    x, emit = call.value("self"), call.emit
    size, steps = call.integers("size") or (), call.integers("stride") or ()
    offset = call.integer("storage_offset") if call.has("storage_offset") else 0
    emit.room(*size)
    places = np.full(size, offset, np.int64)
    for axis, (extent, step) in enumerate(zip(size, steps, strict=True)):
        places += (np.arange(extent) * step).reshape([-1 if one == axis else 1 for one in range(len(size))])
    return take(emit, emit.reshape(x, (x.type.size,)), places)


def take(emit: Emitter, flat: Value, places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Value:
    """Return the elements of a row at places that are known.

    Raises:
        GraphError: One is after the end.
    """
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < flat.type.size:
        raise GraphError("it reads outside of the tensor", seen=int(places.max()), limit=flat.type.size)
    return (
        emit.reshape(emit.take(flat, places.reshape(-1), 0), places.shape)
        if places.size
        else emit.empty(places.shape, flat.type.dtype)
    )


@operator("diagonal", "diagonal_copy")
def diagonal(call: Call) -> Value:
    """Convert a diagonal of two axes, as the last axis."""
    x, emit = call.value("self"), call.emit
    rows, columns, offset = diagonal_places(call, x)
    first, second = call.axis("dim1", x.type.rank), call.axis("dim2", x.type.rank)
    order = [axis for axis in range(x.type.rank) if axis not in (first, second)]
    turned = emit.transpose(x, (*order, first, second))
    lead = turned.type.shape[:-2]
    flat = emit.reshape(turned, (*lead, turned.type.shape[-2] * turned.type.shape[-1]))
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(offset, 0) + max(-offset, 0) * columns
    return (
        emit.take(flat, start + np.arange(count) * (columns + 1), len(lead))
        if count and flat.type.size
        else (emit.empty((*lead, count), x.type.dtype))
    )


def diagonal_places(call: Call, x: Value) -> tuple[int, int, int]:
    """Return the lengths of the two axes of a diagonal, and how far it is from the main one."""
    first, second = call.axis("dim1", x.type.rank), call.axis("dim2", x.type.rank)
    return x.type.shape[first], x.type.shape[second], call.integer("offset")


@operator("diagonal_scatter")
def diagonal_scatter(call: Call) -> Value:
    """Convert a tensor with a diagonal of two axes replaced."""
    x, update, emit = call.value("self"), call.value("src"), call.emit
    rows, columns, offset = diagonal_places(call, x)
    first, second = call.axis("dim1", x.type.rank), call.axis("dim2", x.type.rank)
    order = [*(axis for axis in range(x.type.rank) if axis not in (first, second)), first, second]
    turned = emit.transpose(x, order)
    count = update.type.shape[-1]
    if not count or not update.type.size:
        return x
    emit.room(rows, columns)
    on = np.eye(rows, columns, offset, dtype=np.bool_)
    # A row of the matrix reads its place on the diagonal; what is off the diagonal reads any.
    place = np.clip(np.arange(rows) + min(offset, 0), 0, count - 1)
    spread = emit.expand(emit.take(update, place, update.type.rank - 1), -1)
    result = emit.select(emit.constant(on, "bool"), emit.cast(spread, x.type.dtype), turned)
    return emit.transpose(result, [order.index(axis) for axis in range(x.type.rank)])


@operator("unfold", "unfold_copy")
def unfold(call: Call) -> Value:
    """Convert all windows of some elements along an axis, as a further last axis."""
    x, emit = call.value("self"), call.emit
    size, step = call.integer("size"), call.integer("step")
    if not x.type.rank:
        return emit.reshape(x, (1,) * size)
    axis = call.axis("dimension", x.type.rank)
    count = (x.type.shape[axis] - size) // step + 1
    emit.room(count, size)
    places = np.arange(count)[:, None] * step + np.arange(size)
    if not places.size:
        shape = [count if one == axis else extent for one, extent in enumerate(x.type.shape)]
        return emit.empty((*shape, size), x.type.dtype)
    taken = emit.part(x, axis, 0, count * size) if size == step else emit.take(x, places.ravel(), axis)
    split = emit.reshape(taken, (*x.type.shape[:axis], count, size, *x.type.shape[axis + 1 :]))
    return emit.moved(split, axis + 1, -1)

"""Operators that put elements in order, or count where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.reducing import sort_extremes
from aneforge.formats.shared.writing import broadcast_places
from aneforge.formats.torch.registry import operator

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


@operator("sort", "argsort")
def sort(call: Call) -> Value | tuple[Value, Value]:
    """Convert elements in order along an axis and their places, equal ones by place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank or not x.type.size:
        places = emit.filled(x.type.shape, 0, "int64")
        return places if call.operator == "argsort" else (x, places)
    axis = call.axis("dim", x.type.rank)
    values, places = order(emit, x, axis, ascending=not call.flag("descending"))
    return places if call.operator == "argsort" else (values, places)


def order(emit: Emitter, x: Value, axis: int, *, ascending: bool) -> tuple[Value, Value]:
    """Return elements in order along an axis, and their places."""
    numbers = emit.cast(x, "uint8") if x.type.dtype == "bool" else x
    places = emit.apply("argsort", {"x": numbers}, axis=axis, ascending=ascending)
    values = emit.apply("gather_along_axis", {"x": x, "indices": places}, axis=axis)
    return values, emit.cast(places, "int64")


@operator("topk")
def top(call: Call) -> tuple[Value, Value]:
    """Convert the k largest or smallest along an axis and their places."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis = call.axis("dim", x.type.rank)
    return sort_extremes(emit, x, call.integer("k"), axis, largest=call.flag("largest"))


@operator("kthvalue")
def kth_value(call: Call) -> tuple[Value, Value]:
    """Convert the k-th smallest along an axis and its place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis, place = call.axis("dim", x.type.rank), call.integer("k") - 1
    values, places = order(emit, x, axis, ascending=True)
    return pick(call, values, axis, place), pick(call, places, axis, place)


def pick(call: Call, x: Value, axis: int, place: int) -> Value:
    """Return one slice of an axis, with the axis or without."""
    return call.emit.part(x, axis, place, place + 1) if call.flag("keepdim") else call.emit.at(x, axis, place)


@operator("median.dim")
def median_along(call: Call) -> tuple[Value, Value]:
    """Convert the lower one of the middle elements along an axis, and its place; what is not a number comes first."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis = call.axis("dim", x.type.rank)
    values, places = order(emit, x, axis, ascending=True)
    middle = (x.type.shape[axis] - 1) // 2
    return pick(call, values, axis, middle), pick(call, places, axis, middle)


@operator("median")
def median(call: Call) -> Value:
    """Convert the lower one of the middle elements of all."""
    x, emit = call.value("self"), call.emit
    if not x.type.size:
        raise GraphError("the median of no elements is not defined here")
    flat = emit.reshape(x, (x.type.size,))
    values = order(emit, flat, 0, ascending=True)[0]
    middle = (x.type.size - 1) // 2
    return emit.reshape(emit.part(values, 0, middle, middle + 1), ())


@operator("searchsorted", "bucketize")
def search(call: Call) -> Value:
    """Convert the place at which a value would go into a row in order: how many elements are before it."""
    emit = call.emit
    row_name, value_name = ("sorted_sequence", "self") if call.operator == "searchsorted" else ("boundaries", "self")
    rows = call.value(row_name)
    if call.has("sorter"):
        rows = emit.apply("gather_along_axis", {"x": rows, "indices": call.operand("sorter", "int32")}, axis=-1)
    dtype = call.promoted(row_name, value_name)
    rows, values = emit.cast(rows, dtype), call.operand(value_name, dtype)
    right = call.flag("right") or call.text("side") == "right"
    if rows.type.rank > 1:
        rows = emit.expand(rows, -2)
    before = emit.binary("less_equal" if right else "less", rows, emit.expand(values, -1))
    if not before.type.size:
        return emit.cast(emit.filled(before.type.shape[:-1], 0, "int64"), call.dtype())
    return emit.cast(emit.reduce("reduce_sum", emit.cast(before, "int32"), (-1,), keep=False), call.dtype())


@operator("histc")
def histogram(call: Call) -> Value:
    """Refuse a histogram between the extremes of the data; with given ones count what is in each part."""
    x, emit = call.value("self"), call.emit
    low, high, bins = float(call.number("min")), float(call.number("max")), call.integer("bins")
    if low >= high:
        raise UnsupportedNodeError(Reason.FORM, "the bins depend on the extremes of the data")
    emit.room(bins)
    step = (high - low) / bins
    row = emit.reshape(x, (x.type.size,))
    place = emit.unary("floor", emit.div(emit.sub(emit.cast(row, "fp64"), low), step))
    place = emit.select(emit.binary("equal", emit.cast(row, "fp64"), high), emit.constant(bins - 1.0, "fp64"), place)
    hits = emit.binary("equal", emit.expand(place, 0), emit.constant(broadcast_places(bins, 0, 2), "fp64"))
    if not hits.type.size:
        return emit.filled((bins,), 0, x.type.dtype)
    return emit.reduce("reduce_sum", emit.cast(hits, x.type.dtype), (-1,), keep=False)

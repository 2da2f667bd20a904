"""Operators that read or write elements by their places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.graph.node import Output
from aneforge.importers.findings import Reason, UnsupportedNodeError
from aneforge.importers.torch_export.operators.shaping import region
from aneforge.importers.torch_export.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.torch_export.call import Call

MODES = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "": "update"}
"""How updates are combined with what is there, by PyTorch's names."""


def counted_back(emit: Emitter, indices: Value, extent: int) -> Value:
    """Return places counted from the front: a negative one counts from the end."""
    if isinstance(indices, Constant):
        found = indices.dense()
        return emit.constant(np.where(found < 0, found + extent, found), "int32")
    whole = emit.cast(indices, "int32")
    return emit.select(emit.binary("less", whole, 0), emit.binary("add", whole, extent), whole)


def laid(extent: int, axis: int, rank: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the places along one axis, in a shape that broadcasts along it."""
    return np.arange(extent, dtype=np.int64).reshape([extent if one == axis else 1 for one in range(rank)])


@operator("index_select", "index_select_copy")
def index_select(call: Call) -> Value:
    """Convert slices along an axis by their places."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x
    return gathered(
        emit, x, emit.reshape(call.value("index"), (call.value("index").type.size,)), call.axis("dim", x.type.rank)
    )


def gathered(emit: Emitter, x: Value, indices: Value, axis: int) -> Value:
    """Return slices along an axis by their places."""
    shape = (*x.type.shape[:axis], *indices.type.shape, *x.type.shape[axis + 1 :])
    if 0 in shape:
        return emit.empty(shape, x.type.dtype)
    places = counted_back(emit, indices, x.type.shape[axis])
    return emit.apply("gather", {"x": x, "indices": places}, axis=axis)


@operator("embedding")
def embedding(call: Call) -> Value:
    """Convert rows of a table by their places."""
    return gathered(call.emit, call.value("weight"), call.value("indices"), 0)


@operator("take")
def take(call: Call) -> Value:
    """Convert elements in a row by their places."""
    x = call.value("self")
    return gathered(call.emit, call.emit.reshape(x, (x.type.size,)), call.value("index"), 0)


@operator("gather")
def gather(call: Call) -> Value:
    """Convert elements along an axis, in every row by its own places; other axes may be shorter than the tensor's."""
    x, indices, emit = call.value("self"), call.value("index"), call.emit
    if not x.type.rank or not indices.type.rank:
        flat = gathered(emit, emit.reshape(x, (x.type.size,)), emit.reshape(indices, (indices.type.size,)), 0)
        return emit.reshape(flat, indices.type.shape)
    axis = call.axis("dim", x.type.rank)
    if not indices.type.size:
        return emit.empty(indices.type.shape, x.type.dtype)
    bounds = {one: range(extent) for one, extent in enumerate(indices.type.shape) if one != axis}
    places = counted_back(emit, indices, x.type.shape[axis])
    return emit.apply("gather_along_axis", {"x": region(emit, x, bounds), "indices": places}, axis=axis)


def coordinates(emit: Emitter, indices: Value, axis: int) -> Value:
    """Return the coordinates of elements that are written along an axis: the other axes keep their places."""
    shape = indices.type.shape
    emit.room(len(shape), *shape)
    own = [
        emit.constant(np.broadcast_to(laid(extent, one, len(shape)), shape), "int32") if one != axis else indices
        for one, extent in enumerate(shape)
    ]
    return emit.apply("stack", {"values": tuple(own)}, axis=-1)


@operator("scatter", "scatter_add", "scatter_reduce")
def scatter(call: Call) -> Value:
    """Convert a tensor with elements written, or combined, along an axis."""
    x, indices, emit = call.value("self"), call.value("index"), call.emit
    if not indices.type.size:
        return x
    if not x.type.rank:
        x, indices = emit.reshape(x, (1,)), emit.reshape(indices, (indices.type.size,))
    axis = call.axis("dim", x.type.rank)
    places = counted_back(emit, indices, x.type.shape[axis])
    dtype, shape = x.type.dtype, indices.type.shape
    if call.has("src"):
        source = call.operand("src", dtype)
        source = emit.reshape(source, (source.type.size,)) if not source.type.rank else source
        updates = region(emit, source, {one: range(extent) for one, extent in enumerate(shape)})
    else:
        updates = emit.spread(call.operand("value", dtype), shape)
    mode = "add" if call.operator == "scatter_add" else MODES.get(call.text("reduce"), "mean")
    at = coordinates(emit, places, axis)
    result = combined(emit, x, at, updates, mode, included=not call.has("include_self") or call.flag("include_self"))
    return emit.reshape(result, call.value("self").type.shape)


def combined(emit: Emitter, x: Value, at: Value, updates: Value, mode: str, *, included: bool) -> Value:
    """Return a tensor with updates written or combined at coordinates; what was there counts or not."""
    if x.type.dtype == "bool" and mode != "update":
        numbers, changes = emit.cast(x, "uint8"), emit.cast(updates, "uint8")
        return emit.cast(combined(emit, numbers, at, changes, mode, included=included), "bool")
    base = x
    if not included:
        neutral = neutral_value(x.type.dtype, mode)
        start = emit.spread(emit.constant(neutral, x.type.dtype), updates.type.shape)
        base = written(emit, x, at, start, "update")
    result = written(emit, base, at, updates, "add" if mode == "mean" else mode)
    if mode != "mean":
        return result
    ones = emit.spread(emit.constant(1, "int32"), updates.type.shape)
    zeros = emit.spread(emit.constant(0, "int32"), x.type.shape)
    counts = written(emit, zeros, at, ones, "add")
    counts = emit.add(counts, 1) if included else emit.binary("maximum", counts, 1)
    divisor = emit.cast(counts, x.type.dtype)
    return emit.div(result, divisor) if is_float(x.type.dtype) else emit.binary("floor_div", result, divisor)


def neutral_value(dtype: str, mode: str) -> float:
    """Return what changes nothing when it is combined."""
    low, high = (-math.inf, math.inf) if is_float(dtype) else value_range(dtype)
    return {"add": 0, "mean": 0, "mul": 1, "max": low, "min": high, "update": 0}[mode]


def written(emit: Emitter, x: Value, at: Value, updates: Value, mode: str) -> Value:
    """Return a tensor with updates written or combined at coordinates."""
    return emit.apply("scatter_nd", {"data": x, "indices": at, "updates": updates}, mode=mode)


# Indexing by several tensors.


def listed_indices(call: Call) -> list[Value | None]:
    """Return the tensors that index the first axes; None for an axis that is kept whole."""
    found = call.arguments.get("indices")
    return [one if isinstance(one, Output | Constant) else None for one in (found if isinstance(found, tuple) else ())]


def whole_indices(emit: Emitter, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Return indices with every mask made places, which its numbers must be known for.

    Raises:
        UnsupportedNodeError: A mask is computed at run time: how many elements it picks is not known.
    """
    found: list[Value | None] = []
    for one in indices:
        if one is None or one.type.dtype not in ("bool", "uint8"):
            found.append(None if one is None else counted_back(emit, one, x.type.shape[len(found)]))
            continue
        if not isinstance(one, Constant):
            raise UnsupportedNodeError(
                Reason.DATA_SHAPE,
                "how many elements a mask picks depends on the data",
                workaround="keep all elements and choose with torch.where",
            )
        found.extend(emit.constant(places, "int32") for places in np.nonzero(one.dense()))
    return found


@operator("index", "_unsafe_index")
def index(call: Call) -> Value:
    """Convert indexing by tensors: those that are given broadcast together, and their axes become theirs."""
    x, emit = call.value("self"), call.emit
    indices = whole_indices(emit, x, listed_indices(call))
    given = [axis for axis, one in enumerate(indices) if one is not None]
    if not given:
        return x
    places, shape = joined(emit, indices)
    lead = [axis for axis in range(x.type.rank) if axis not in given]
    turned = emit.transpose(x, (*given, *lead))
    rest = turned.type.shape[len(given) :]
    if 0 in (*shape, *rest):
        result = emit.empty((*shape, *rest), x.type.dtype)
    else:
        result = emit.apply("gather_nd", {"x": turned, "indices": places})
        result = emit.reshape(result, (*shape, *rest))
    return emit.transpose(result, placed_order(given, len(shape), len(rest)))


def joined(emit: Emitter, indices: Sequence[Value | None]) -> tuple[Value, tuple[int, ...]]:
    """Return the coordinates of indexing tensors along a last axis, and the shape to which they broadcast."""
    given = [one for one in indices if one is not None]
    shape = np.broadcast_shapes(*(one.type.shape for one in given))
    spread = [emit.spread(emit.cast(one, "int32"), shape) for one in given]
    if 0 in shape:
        return emit.empty((*shape, len(given)), "int32"), shape
    return emit.apply("stack", {"values": tuple(spread)}, axis=-1), shape


def placed_order(given: Sequence[int], count: int, rest: int) -> list[int]:
    """Return the order that puts the axes of the indices where PyTorch has them.

    They stand in place of the indexed axes where those are neighbours, else in front.
    """
    neighbours = list(given) == list(range(given[0], given[0] + len(given)))
    before = given[0] if neighbours else 0
    kept = list(range(count, count + rest))
    return [*kept[:before], *range(count), *kept[before:]]


@operator("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(call: Call) -> Value:
    """Convert a tensor with elements written, or added, at places that tensors give."""
    x, emit = call.value("self"), call.emit
    given = listed_indices(call)
    dtype = x.type.dtype
    add = call.flag("accumulate")
    if (
        len(given) == 1
        and given[0] is not None
        and given[0].type.dtype == "bool"
        and not isinstance(given[0], Constant)
    ):
        return masked_put(call, x, given[0], add=add)
    indices = whole_indices(emit, x, given)
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    if not axes:
        update = emit.spread(call.operand("values", dtype), x.type.shape)
        return emit.add(x, update) if add else update
    places, shape = joined(emit, indices)
    lead = [axis for axis in range(x.type.rank) if axis not in axes]
    order = [*axes, *lead]
    turned = emit.transpose(x, order)
    rest = turned.type.shape[len(axes) :]
    if 0 in (*shape, *rest):
        return x
    own = placed_order(axes, len(shape), len(rest))
    full = [(*shape, *rest)[axis] for axis in own]
    updates = emit.transpose(emit.spread(call.operand("values", dtype), full), np.argsort(own).tolist())
    result = combined(emit, turned, places, updates, "add" if add else "update", included=True)
    return emit.transpose(result, [order.index(axis) for axis in range(x.type.rank)])


def masked_put(call: Call, x: Value, mask: Value, *, add: bool) -> Value:
    """Return a tensor with one value written where a mask holds; several would be as many as the data say.

    Raises:
        UnsupportedNodeError: There are several.
    """
    emit, update = call.emit, call.operand("values", x.type.dtype)
    if update.type.size != 1:
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE,
            "which elements are written where depends on the data",
            workaround="choose with torch.where",
        )
    wide = emit.reshape(mask, (*mask.type.shape, *[1] * (x.type.rank - mask.type.rank)))
    value = emit.reshape(update, ())
    return emit.select(wide, emit.add(x, value) if add else emit.spread(value, x.type.shape), x)


@operator("masked_scatter")
def masked_scatter(call: Call) -> Value:
    """Convert a tensor whose elements where a mask holds are those of another in order: the mask's sums are places."""
    x, source, emit = call.value("self"), call.value("source"), call.emit
    shape = np.broadcast_shapes(x.type.shape, call.value("mask").type.shape)
    if 0 in shape:
        return emit.spread(x, shape)
    mask = emit.spread(call.operand("mask", "bool"), shape)
    size = math.prod(shape)
    flat = emit.reshape(mask, (size,))
    places = emit.sub(emit.unary("cumsum", emit.cast(flat, "int32"), axis=0), emit.constant(1, "int32"))
    most = max(source.type.size - 1, 0)
    inside = emit.binary("minimum", emit.binary("maximum", places, 0), most)
    row = emit.reshape(source, (source.type.size,))
    if not source.type.size:
        return emit.spread(x, shape)
    values = emit.reshape(emit.apply("gather", {"x": row, "indices": inside}, axis=0), shape)
    return emit.select(mask, values, emit.spread(x, shape))


@operator("index_add", "index_copy", "index_reduce")
def index_update(call: Call) -> Value:
    """Convert a tensor with slices along an axis written or combined by their places."""
    x, emit = call.value("self"), call.emit
    dtype = x.type.dtype
    scalar = not x.type.rank
    base = emit.reshape(x, (1,)) if scalar else x
    axis = call.axis("dim", base.type.rank)
    indices = emit.reshape(call.value("index"), (call.value("index").type.size,))
    if not indices.type.size or not x.type.size:
        return x
    updates = call.operand("source", dtype)
    updates = emit.reshape(updates, (1,)) if not updates.type.rank else updates
    mode = {"index_add": "add", "index_copy": "update"}.get(call.operator) or MODES.get(call.text("reduce"), "mean")
    if call.operator == "index_add" and call.number("alpha") != 1:
        factor = emit.constant(call.number("alpha"), dtype)
        updates = emit.binary("logical_and" if dtype == "bool" else "mul", updates, factor)
    included = call.operator != "index_reduce" or call.flag("include_self")
    turned, changed = emit.moved(base, axis, 0), emit.moved(updates, axis, 0)
    places = emit.expand(counted_back(emit, indices, base.type.shape[axis]), -1)
    result = emit.moved(combined(emit, turned, places, changed, mode, included=included), 0, axis)
    return emit.reshape(result, x.type.shape)


@operator("index_fill")
def index_fill(call: Call) -> Value:
    """Convert a tensor with slices along an axis set to one value."""
    x, emit = call.value("self"), call.emit
    base = emit.reshape(x, (1,)) if not x.type.rank else x
    axis = call.axis("dim", base.type.rank)
    indices = emit.reshape(call.value("index"), (call.value("index").type.size,))
    if not indices.type.size or not x.type.size:
        return x
    turned = emit.moved(base, axis, 0)
    updates = emit.spread(call.operand("value", x.type.dtype), (indices.type.size, *turned.type.shape[1:]))
    places = emit.expand(counted_back(emit, indices, base.type.shape[axis]), -1)
    return emit.reshape(emit.moved(written(emit, turned, places, updates, "update"), 0, axis), x.type.shape)


@operator("put")
def put(call: Call) -> Value:
    """Convert a tensor with elements in a row written, or added, by their places."""
    x, emit = call.value("self"), call.emit
    indices = call.value("index")
    if not indices.type.size:
        return x
    flat = emit.reshape(x, (x.type.size,))
    places = counted_back(emit, emit.reshape(indices, (indices.type.size, 1)), x.type.size)
    updates = emit.reshape(call.operand("source", x.type.dtype), (indices.type.size,))
    mode = "add" if call.flag("accumulate") else "update"
    return emit.reshape(combined(emit, flat, places, updates, mode, included=True), x.type.shape)


@operator("masked_fill")
def masked_fill(call: Call) -> Value:
    """Convert a tensor with one value where a mask holds."""
    x = call.value("self")
    return call.emit.select(call.operand("mask", "bool"), call.operand("value", x.type.dtype), x)


# Order.


@operator("sort", "argsort")
def sort(call: Call) -> Value | tuple[Value, Value]:
    """Convert elements in order along an axis and their places, equal ones by place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank or not x.type.size:
        places = emit.filled(x.type.shape, 0, "int64")
        return places if call.operator == "argsort" else (x, places)
    axis = call.axis("dim", x.type.rank)
    values, places = ordered(emit, x, axis, ascending=not call.flag("descending"))
    return places if call.operator == "argsort" else (values, places)


def ordered(emit: Emitter, x: Value, axis: int, *, ascending: bool) -> tuple[Value, Value]:
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
    axis, count = call.axis("dim", x.type.rank), call.integer("k")
    shape = [count if one == axis else extent for one, extent in enumerate(x.type.shape)]
    if 0 in shape:
        return emit.empty(shape, x.type.dtype), emit.empty(shape, "int64")
    attributes = {"k": count, "axis": axis, "ascending": not call.flag("largest"), "output_indices_dtype": "int32"}
    values, places = emit.apply_all("topk", {"x": x}, **attributes)
    return values, emit.cast(places, "int64")


@operator("kthvalue")
def kth_value(call: Call) -> tuple[Value, Value]:
    """Convert the k-th smallest along an axis and its place."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis, place = call.axis("dim", x.type.rank), call.integer("k") - 1
    values, places = ordered(emit, x, axis, ascending=True)
    return picked(call, values, axis, place), picked(call, places, axis, place)


def picked(call: Call, x: Value, axis: int, place: int) -> Value:
    """Return one slice of an axis, with the axis or without."""
    part = call.emit.part(x, axis, place, place + 1)
    if call.flag("keepdim"):
        return part
    return call.emit.reshape(part, [extent for one, extent in enumerate(x.type.shape) if one != axis])


@operator("median.dim")
def median_along(call: Call) -> tuple[Value, Value]:
    """Convert the lower one of the middle elements along an axis, and its place; what is no number comes first."""
    x, emit = call.value("self"), call.emit
    if not x.type.rank:
        return x, emit.constant(0, "int64")
    axis = call.axis("dim", x.type.rank)
    values, places = ordered(emit, x, axis, ascending=True)
    middle = (x.type.shape[axis] - 1) // 2
    return picked(call, values, axis, middle), picked(call, places, axis, middle)


@operator("median")
def median(call: Call) -> Value:
    """Convert the lower one of the middle elements of all."""
    x, emit = call.value("self"), call.emit
    if not x.type.size:
        raise GraphError("the median of no elements is no number here")
    flat = emit.reshape(x, (x.type.size,))
    values = ordered(emit, flat, 0, ascending=True)[0]
    middle = (x.type.size - 1) // 2
    return emit.reshape(emit.part(values, 0, middle, middle + 1), ())


@operator("searchsorted", "bucketize")
def search(call: Call) -> Value:
    """Convert the place at which a value would go into a row in order: how many elements lie before it."""
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


@operator("nonzero")
def nonzero(call: Call) -> Value:
    """Convert the coordinates of elements that are not 0, of a tensor that is known; else their number is open."""
    found = call.known("self", "how many elements are not 0")
    return call.emit.constant(np.argwhere(found), "int64")


@operator("_local_scalar_dense", "item")
def single(call: Call) -> bool | int | float:
    """Convert a tensor of one number to a plain number, which must be known."""
    return cast("bool | int | float", call.known("self", "a number that the program reads").reshape(()).item())


@operator("histc")
def histogram(call: Call) -> Value:
    """Refuse a histogram between the extremes of the data; with given ones count what lies in each part."""
    x, emit = call.value("self"), call.emit
    low, high, bins = float(call.number("min")), float(call.number("max")), call.integer("bins")
    if low >= high:
        raise UnsupportedNodeError(Reason.FORM, "the parts lie between the extremes of the data")
    step = (high - low) / bins
    row = emit.reshape(x, (x.type.size,))
    place = emit.unary("floor", emit.div(emit.sub(emit.cast(row, "fp64"), low), step))
    place = emit.select(emit.binary("equal", emit.cast(row, "fp64"), high), emit.constant(bins - 1.0, "fp64"), place)
    hits = emit.binary("equal", emit.expand(place, 0), emit.constant(laid(bins, 0, 2), "fp64"))
    if not hits.type.size:
        return emit.filled((bins,), 0, x.type.dtype)
    return emit.reduce("reduce_sum", emit.cast(hits, x.type.dtype), (-1,), keep=False)

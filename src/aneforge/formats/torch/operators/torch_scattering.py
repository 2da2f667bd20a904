"""Operators that write elements by their places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.writing import write_along, write_updates
from aneforge.formats.torch.operators.torch_indexing import (
    count_back,
    find_placed_order,
    join,
    list_indices,
    whole_indices,
)
from aneforge.formats.torch.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

Write = Callable[["Value", "Value", str], "Value"]
"""Writes updates into a tensor, in a mode."""
MODES = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "": "update"}
"""How updates are combined with what is there, by PyTorch's names."""


@operator("scatter", "scatter_add", "scatter_reduce")
def scatter(call: Call) -> Value:
    """Convert a tensor with elements written, or combined, along an axis."""
    x, indices, emit = call.value("self"), call.value("index"), call.emit
    if not indices.type.size:
        return x
    if not x.type.rank:
        x, indices = emit.reshape(x, (1,)), emit.reshape(indices, (indices.type.size,))
    axis = call.axis("dim", x.type.rank)
    places = count_back(emit, indices, x.type.shape[axis])
    dtype, shape = x.type.dtype, indices.type.shape
    if call.has("src"):
        source = call.operand("src", dtype)
        source = emit.reshape(source, (source.type.size,)) if not source.type.rank else source
        updates = emit.region(source, {one: range(extent) for one, extent in enumerate(shape)})
    else:
        updates = emit.spread(call.operand("value", dtype), shape)
    mode = "add" if call.operator == "scatter_add" else MODES.get(call.text("reduce"), "mean")
    included = not call.has("include_self") or call.flag("include_self")

    def write(to: Value, values: Value, how: str) -> Value:
        return write_along(emit, to, places, values, axis, how)

    result = combine(emit, x, write, updates, mode, included=included)
    return emit.reshape(result, call.value("self").type.shape)


def by_coordinates(emit: Emitter, at: Value) -> Write:
    """Return what writes by coordinates."""

    def write(to: Value, values: Value, how: str) -> Value:
        return write_updates(emit, to, at, values, how)

    return write


def combine(emit: Emitter, x: Value, write: Write, updates: Value, mode: str, *, included: bool) -> Value:
    """Return a tensor with updates written or combined at their places; what was there counts or not."""
    if x.type.dtype == "bool" and mode != "update":
        numbers, changes = emit.cast(x, "uint8"), emit.cast(updates, "uint8")
        return emit.cast(combine(emit, numbers, write, changes, mode, included=included), "bool")
    base = x
    if not included:
        neutral = neutral_value(x.type.dtype, mode)
        start = emit.spread(emit.constant(neutral, x.type.dtype), updates.type.shape)
        base = write(x, start, "update")
    result = write(base, updates, "add" if mode == "mean" else mode)
    if mode != "mean":
        return result
    ones = emit.spread(emit.constant(1, "int32"), updates.type.shape)
    zeros = emit.spread(emit.constant(0, "int32"), x.type.shape)
    counts = write(zeros, ones, "add")
    counts = emit.add(counts, 1) if included else emit.binary("maximum", counts, 1)
    divisor = emit.cast(counts, x.type.dtype)
    return emit.div(result, divisor) if is_float(x.type.dtype) else emit.binary("floor_div", result, divisor)


def neutral_value(dtype: str, mode: str) -> float:
    """Return what changes nothing when it is combined."""
    low, high = (-math.inf, math.inf) if is_float(dtype) else value_range(dtype)
    return {"add": 0, "mean": 0, "mul": 1, "max": low, "min": high, "update": 0}[mode]


@operator("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(call: Call) -> Value:
    """Convert a tensor with elements written, or added, at places that tensors give."""
    x, emit = call.value("self"), call.emit
    given = list_indices(call)
    dtype = x.type.dtype
    add = call.flag("accumulate")
    if (
        len(given) == 1
        and given[0] is not None
        and given[0].type.dtype == "bool"
        and not isinstance(given[0], Constant)
    ):
        return put_masked(call, x, given[0], add=add)
    indices = whole_indices(emit, x, given)
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    if not axes:
        update = emit.spread(call.operand("values", dtype), x.type.shape)
        return emit.add(x, update) if add else update
    places, shape = join(emit, indices)
    lead = [axis for axis in range(x.type.rank) if axis not in axes]
    order = [*axes, *lead]
    turned = emit.transpose(x, order)
    rest = turned.type.shape[len(axes) :]
    if 0 in (*shape, *rest):
        return x
    own = find_placed_order(axes, len(shape), len(rest))
    full = [(*shape, *rest)[axis] for axis in own]
    updates = emit.transpose(emit.spread(call.operand("values", dtype), full), np.argsort(own).tolist())
    result = combine(emit, turned, by_coordinates(emit, places), updates, "add" if add else "update", included=True)
    return emit.transpose(result, [order.index(axis) for axis in range(x.type.rank)])


def put_masked(call: Call, x: Value, mask: Value, *, add: bool) -> Value:
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
    places = emit.expand(count_back(emit, indices, base.type.shape[axis]), -1)
    result = emit.moved(combine(emit, turned, by_coordinates(emit, places), changed, mode, included=included), 0, axis)
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
    places = emit.expand(count_back(emit, indices, base.type.shape[axis]), -1)
    return emit.reshape(emit.moved(write_updates(emit, turned, places, updates, "update"), 0, axis), x.type.shape)


@operator("put")
def put(call: Call) -> Value:
    """Convert a tensor with elements in a row written, or added, by their places."""
    x, emit = call.value("self"), call.emit
    indices = call.value("index")
    if not indices.type.size:
        return x
    flat = emit.reshape(x, (x.type.size,))
    places = count_back(emit, emit.reshape(indices, (indices.type.size, 1)), x.type.size)
    updates = emit.reshape(call.operand("source", x.type.dtype), (indices.type.size,))
    mode = "add" if call.flag("accumulate") else "update"
    return emit.reshape(combine(emit, flat, by_coordinates(emit, places), updates, mode, included=True), x.type.shape)


@operator("masked_fill")
def masked_fill(call: Call) -> Value:
    """Convert a tensor with one value where a mask holds."""
    x = call.value("self")
    return call.emit.select(call.operand("mask", "bool"), call.operand("value", x.type.dtype), x)

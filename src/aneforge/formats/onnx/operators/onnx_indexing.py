"""Operators that read or write elements by their places: slices, gathers, scatters, padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared import reducing
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.reshaping import pad_axes, without_negative
from aneforge.formats.shared.writing import broadcast_places, write_along, write_updates
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalise_axes, normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value

PAD_MODES: dict[str, Literal["reflect", "edge", "wrap"]] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
RANK_PLAIN = 5
"""Engines take results of no more axes; slices are then taken in a row, and only their shape has more."""
SCATTER_MODES = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@operator("Slice", until=9)
def slice_by_attributes(call: Call) -> Value:
    """Convert a region whose bounds are attributes."""
    starts, ends = call.integers("starts") or (), call.integers("ends") or ()
    return region(call, starts, ends, call.integers("axes"), None)


@operator("Slice", since=10)
def slice_by_inputs(call: Call) -> Value:
    """Convert a region whose bounds are inputs."""
    names = ("list of starts", "list of ends", "list of axes", "list of steps")
    starts, ends, axes, steps = (call.known_integers(place + 1, f"the {name}") for place, name in enumerate(names))
    return region(call, starts or (), ends or (), axes, steps)


def region(
    call: Call,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
) -> Value:
    """Return a region of the first input."""
    x = call.value(0)
    named = normalise_axes(range(len(starts)) if axes is None else axes, x.type.rank)
    by = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(named) == len(by) or 0 in by:
        raise GraphError("starts, ends, axes and steps do not match", seen=f"{starts}, {ends}, {axes}, {steps}"[:200])
    bounds = {
        axis: bounded(start, end, step, x.type.shape[axis])
        for axis, start, end, step in zip(named, starts, ends, by, strict=True)
    }
    return call.emit.region(x, bounds)


def bounded(start: int, end: int, step: int, extent: int) -> range:
    """Return the places of a slice, its bounds cut to the axis.

    As ONNX says it, and unlike Python, a start before the first element is the first also where the slice goes back.
    """
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (one + extent if one < 0 else one for one in (start, end))
    return range(min(max(first, 0), max(high, 0)), min(max(last, low), high), step) if extent else range(0)


@operator("Gather")
def gather(call: Call) -> Value:
    """Convert slices along an axis by their places."""
    x, indices, emit = call.value(0), call.value(1), call.emit
    axis = call.axis(x.type.rank)
    if isinstance(indices, Constant) and indices.type.rank == 0:
        place = normalise_axis(int(indices.dense().item()), x.type.shape[axis], "the index")
        return emit.at(x, axis, place)
    shape = (*x.type.shape[:axis], *indices.type.shape, *x.type.shape[axis + 1 :])
    if len(shape) <= RANK_PLAIN or not x.type.size or not indices.type.size:
        return emit.apply("gather", {"x": x, "indices": indices}, axis=axis)
    row = emit.reshape(indices, (indices.type.size,))
    return emit.reshape(emit.apply("gather", {"x": x, "indices": row}, axis=axis), shape)


@operator("GatherElements")
def gather_elements(call: Call) -> Value:
    """Convert elements along an axis, in every row by its own places; other axes may be shorter than the tensor's."""
    x, indices, emit = call.value(0), call.value(1), call.emit
    axis = call.axis(x.type.rank)
    expect_rank_of(x, indices)
    bounds = {one: range(extent) for one, extent in enumerate(indices.type.shape) if one != axis}
    if any(len(bound) > x.type.shape[one] for one, bound in bounds.items()):
        raise GraphError(
            "the indices are larger than the tensor", seen=list(indices.type.shape), limit=list(x.type.shape)
        )
    return emit.apply("gather_along_axis", {"x": call.emit.region(x, bounds), "indices": indices}, axis=axis)


def expect_rank_of(x: Value, indices: Value) -> None:
    """Check that indices have as many axes as the tensor.

    Raises:
        GraphError: They do not.
    """
    if indices.type.rank != x.type.rank:
        raise GraphError("the indices have a different rank than the tensor", seen=indices.type.rank, limit=x.type.rank)


@operator("GatherND")
def gather_nd(call: Call) -> Value:
    """Convert parts of a tensor by coordinates."""
    batch = call.integer("batch_dims") if "batch_dims" in call.rules.attributes else 0
    return call.emit.apply("gather_nd", {"x": call.value(0), "indices": call.value(1)}, batch_dims=batch)


@operator("ScatterND")
def scatter_nd(call: Call) -> Value:
    """Convert a tensor with parts written by coordinates."""
    x, indices, updates = (call.value(place) for place in range(3))
    return write_updates(call.emit, x, indices, updates, scatter_mode(call))


@operator("Scatter", "ScatterElements")
def scatter_elements(call: Call) -> Value:
    """Convert a tensor with elements written along an axis."""
    x, indices, updates, emit = call.value(0), call.value(1), call.value(2), call.emit
    axis = call.axis(x.type.rank)
    expect_rank_of(x, indices)
    if not indices.type.size:
        return x
    return write_along(emit, x, emit.cast(indices, "int32"), updates, axis, scatter_mode(call))


def scatter_mode(call: Call) -> str:
    """Return how updates are combined with what is there."""
    if "reduction" not in call.rules.attributes:
        return "update"
    return SCATTER_MODES[call.choice("reduction", *SCATTER_MODES)]


@operator("TensorScatter")
def tensor_scatter(call: Call) -> Value:
    """Convert a cache with new rows written from a place on, one for every sequence of the batch."""
    cache, update, emit = call.value(0), call.value(1), call.emit
    if update.type.rank != cache.type.rank or cache.type.rank < 2:
        raise GraphError("cache and update must have the same axes", seen=f"{cache.type} and {update.type}")
    axis = call.axis(cache.type.rank)
    circular = call.choice("mode", "linear", "circular") == "circular"
    shape, extent = update.type.shape, cache.type.shape[axis]
    starts = call.optional(2)
    emit.room(len(shape), *shape)
    begin = emit.constant(np.zeros(shape[0]), "int32") if starts is None else emit.cast(starts, "int32")
    places = emit.add(
        emit.reshape(begin, (shape[0], *[1] * (len(shape) - 1))),
        emit.constant(broadcast_places(shape[axis], axis, len(shape)), "int32"),
    )
    if circular:
        places = emit.binary("mod", places, extent)
    return write_along(emit, cache, emit.spread(places, shape), update, axis, "update")


@operator("Compress")
def compress(call: Call) -> Value:
    """Convert the slices where a condition that is known holds, of the elements in a row or along an axis."""
    x, emit = call.value(0), call.emit
    condition = np.ravel(call.expect_known(1, "the condition"))
    rows = emit.reshape(x, (x.type.size,)) if not call.has("axis") else x
    axis = call.axis(x.type.rank) if call.has("axis") else 0
    chosen = np.flatnonzero(condition)
    if chosen.size and chosen[-1] >= rows.type.shape[axis]:
        raise GraphError("the condition is longer than the axis", seen=len(condition), limit=rows.type.shape[axis])
    return emit.take(rows, chosen, axis)


@operator("Pad", until=10)
def pad_by_attributes(call: Call) -> Value:
    """Convert padding whose widths are attributes."""
    x = call.value(0)
    widths = call.integers("pads" if "pads" in call.rules.attributes else "paddings") or ()
    return surround(call, x, widths, tuple(range(x.type.rank)), call.emit.number(call.number("value"), x))


@operator("Pad", since=11)
def pad(call: Call) -> Value:
    """Convert padding whose widths are inputs."""
    x = call.value(0)
    widths = call.known_integers(1, "the list of widths") or ()
    axes = call.known_integers(3, "the list of axes")
    named = tuple(range(x.type.rank)) if axes is None else normalise_axes(axes, x.type.rank)
    value = call.optional(2)
    return surround(call, x, widths, named, call.emit.number(0, x) if value is None else call.emit.reshape(value, ()))


def surround(call: Call, x: Value, widths: tuple[int, ...], axes: tuple[int, ...], value: Value) -> Value:
    """Return a tensor with further elements around it; a negative width cuts."""
    if len(widths) != 2 * len(axes):
        raise GraphError("there must be two widths for each axis", seen=len(widths), limit=2 * len(axes))
    mode = call.choice("mode", "constant", *PAD_MODES)
    both = [(0, 0)] * x.type.rank
    for place, axis in enumerate(axes):
        both[axis] = widths[place], widths[place + len(axes)]
    check_extents("the padded tensor", (sum(pair) + extent for pair, extent in zip(both, x.type.shape, strict=True)))
    if mode == "constant":
        return pad_axes(call.emit, x, both, value)
    inner = without_negative(call.emit, x, both)
    return by_places(call, inner, [(max(before, 0), max(after, 0)) for before, after in both], PAD_MODES[mode])


def by_places(call: Call, x: Value, widths: list[tuple[int, int]], mode: Literal["reflect", "edge", "wrap"]) -> Value:
    """Return a tensor with its own elements around it, taken by their places along each axis."""
    emit = call.emit
    result = x
    for axis, pair in enumerate(widths):
        if any(pair):
            if not x.type.shape[axis]:
                raise GraphError(f"axis {axis} has no elements to pad with", seen=list(x.type.shape))
            emit.room(x.type.shape[axis] + sum(pair))
            result = emit.take(result, np.pad(np.arange(x.type.shape[axis]), pair, mode=mode), axis)
    return result


@operator("ReverseSequence")
def reverse_sequence(call: Call) -> Value:
    """Convert sequences whose first elements are turned round, as many as each is long."""
    operands = {"x": call.value(0), "lengths": call.value(1)}
    seq_axis, batch_axis = call.integer("time_axis"), call.integer("batch_axis")
    return call.emit.apply("reverse_sequence", operands, seq_axis=seq_axis, batch_axis=batch_axis)


@operator("OneHot")
def one_hot(call: Call) -> Value:
    """Convert vectors with one element on; an index outside of the vector turns none on."""
    indices, emit = call.value(0), call.emit
    depth = call.known_integer(1, "the depth")
    if call.value(2).type.shape != (2,):
        raise GraphError("the values are not two", seen=list(call.value(2).type.shape))
    check_extents("the one-hot vectors", (depth,))
    emit.room(depth)
    axis = normalise_axis(call.integer("axis"), indices.type.rank + 1)
    whole = emit.cast(indices, "int64")
    counted = emit.select(emit.binary("less", whole, 0), emit.add(whole, depth), whole)
    places = emit.constant(broadcast_places(depth, axis, indices.type.rank + 1), "int64")
    off, on = (emit.reshape(emit.part(call.value(2), 0, place, place + 1), ()) for place in (0, 1))
    return emit.select(emit.binary("equal", emit.expand(counted, axis), places), on, off)


@operator("Trilu")
def triangle(call: Call) -> Value:
    """Convert matrices with 0 below, or above, a diagonal."""
    x, emit = call.value(0), call.emit
    if x.type.rank < 2:
        raise GraphError("its input holds no matrices", seen=list(x.type.shape))
    diagonal = 0 if call.optional(1) is None else call.known_integer(1, "the diagonal")
    rows, columns = x.type.shape[-2:]
    kept = reducing.triangle(emit, rows, columns, diagonal, upper=call.flag("upper"))
    return emit.select(emit.constant(kept, "bool"), x, emit.number(0, x))


@operator("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    """Convert the k largest or smallest along an axis and their places."""
    x = call.value(0)
    count = call.integer("k") if "k" in call.rules.attributes else call.known_integer(1, "the number of elements")
    largest = "largest" not in call.rules.attributes or call.flag("largest")
    return reducing.sort_extremes(call.emit, x, count, call.axis(x.type.rank), largest=largest)


@operator("NonZero")
def non_zero(call: Call) -> Value:
    """Convert the coordinates of the elements that are not 0, of a tensor that is known; else their number is open."""
    x = call.value(0)
    if not isinstance(x, Constant):
        raise UnsupportedNodeError(
            Reason.DATA_SHAPE,
            "how many elements are not 0 depends on the data",
            workaround="end the model before it and do the rest on the host",
        )
    return call.emit.constant(np.argwhere(x.dense()).T, "int64")

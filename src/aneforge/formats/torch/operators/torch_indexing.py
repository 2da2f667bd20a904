"""Operators that read elements by their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.registry import operator
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


def count_back(emit: Emitter, indices: Value, extent: int) -> Value:
    """Return places counted from the front: a negative one counts from the end."""
    if isinstance(indices, Constant):
        found = indices.dense()
        return emit.constant(np.where(found < 0, found + extent, found), "int32")
    whole = emit.cast(indices, "int32")
    return emit.select(emit.binary("less", whole, 0), emit.binary("add", whole, extent), whole)


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
    places = count_back(emit, indices, x.type.shape[axis])
    return emit.apply("gather", {"x": x, "indices": places}, axis=axis)


@operator("embedding")
def embedding(call: Call) -> Value:
    """Convert rows of a table by their places, none of which counts from the end."""
    table, indices, emit = call.value("weight"), call.value("indices"), call.emit
    shape = (*indices.type.shape, table.type.shape[1])
    if 0 in shape:
        return emit.empty(shape, table.type.dtype)
    return emit.apply("gather", {"x": table, "indices": emit.cast(indices, "int32")}, axis=0)


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
    places = count_back(emit, indices, x.type.shape[axis])
    return emit.apply("gather_along_axis", {"x": emit.region(x, bounds), "indices": places}, axis=axis)


def list_indices(call: Call) -> list[Value | None]:
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
            found.append(None if one is None else count_back(emit, one, x.type.shape[len(found)]))
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
    indices = whole_indices(emit, x, list_indices(call))
    given = [axis for axis, one in enumerate(indices) if one is not None]
    if not given:
        return x
    places, shape = join(emit, indices)
    lead = [axis for axis in range(x.type.rank) if axis not in given]
    turned = emit.transpose(x, (*given, *lead))
    rest = turned.type.shape[len(given) :]
    if 0 in (*shape, *rest):
        result = emit.empty((*shape, *rest), x.type.dtype)
    else:
        result = emit.apply("gather_nd", {"x": turned, "indices": places})
        result = emit.reshape(result, (*shape, *rest))
    return emit.transpose(result, find_placed_order(given, len(shape), len(rest)))


def join(emit: Emitter, indices: Sequence[Value | None]) -> tuple[Value, tuple[int, ...]]:
    """Return the coordinates of indexing tensors along a last axis, and the shape to which they broadcast."""
    given = [one for one in indices if one is not None]
    shape = np.broadcast_shapes(*(one.type.shape for one in given))
    spread = [emit.spread(emit.cast(one, "int32"), shape) for one in given]
    if 0 in shape:
        return emit.empty((*shape, len(given)), "int32"), shape
    return emit.apply("stack", {"values": tuple(spread)}, axis=-1), shape


def find_placed_order(given: Sequence[int], count: int, rest: int) -> list[int]:
    """Return the order that puts the axes of the indices where PyTorch has them.

    They take the place of the indexed axes where those are neighbours, else in front.
    """
    neighbours = list(given) == list(range(given[0], given[0] + len(given)))
    before = given[0] if neighbours else 0
    kept = list(range(count, count + rest))
    return [*kept[:before], *range(count), *kept[before:]]


@operator("nonzero")
def nonzero(call: Call) -> Value:
    """Convert the coordinates of elements that are not 0, of a tensor that is known; else their number is open."""
    found = call.expect_known("self", "how many elements are not 0")
    return call.emit.constant(np.argwhere(found), "int64")


@operator("_local_scalar_dense", "item")
def single(call: Call) -> bool | int | float:
    """Convert a tensor of one number to a plain number, which must be known."""
    return cast("bool | int | float", call.expect_known("self", "a number that the program reads").reshape(()).item())

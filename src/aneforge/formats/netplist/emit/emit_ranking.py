"""Order and choice: sort, topk, and where an extreme element is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.netplist.emit.emit_movement import axis_along, emit_view
from aneforge.formats.netplist.netplist_values import FLOAT, Held, Placed, Places
from aneforge.formats.netplist.schema import Dim

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.document import Parameter
    from aneforge.formats.netplist.emitter import Emitter
    from aneforge.formats.netplist.patterns import Columns

__all__ = ["RANKING", "columns"]

MOST_ROWS = 1024
"""Rows that are ordered one by one; each is two units."""
MOST_WINDOW = 2048
"""Elements that an ArgMinMax unit compares."""
ROW = (Dim.CHANNEL, Dim.WIDTH)


# Sort and topk


def ordering(
    *, ascending: bool, count: int | None, lane: int = 0, indices: bool = False
) -> tuple[str, dict[str, Parameter]]:
    """Return the layer type and parameters of an order of columns; `count` is how many are kept, None for all."""
    params: dict[str, Parameter] = {
        "SortDimension": Dim.WIDTH.spelling,
        "VectorDimension": Dim.CHANNEL.spelling,
        "SortIndices": (lane,),
        "Indices": indices,
    }
    if count is None:
        return "Sort", {"Direction": "Ascending" if ascending else "Descending", **params}
    return "TopK", {"Type": "Min" if ascending else "Max", "K": count, **params}


def by_rows(to: Emitter, x: Held, axis: int, size: int, write: Callable[[Placed], Placed]) -> Placed:
    """Write a layer for every row along an axis, of which it keeps `size` elements, and join what they give.

    Raises:
        NotSupportedError: There are too many rows.
    """
    placed = to.floats(x)
    rank, extent = len(placed.shape), placed.shape[axis]
    order = [one for one in range(rank) if one != axis] + [axis]
    moved = placed.transposed(order)
    others = moved.shape[:-1]
    rows = math.prod(others)
    if rows > MOST_ROWS:
        raise to.refuse(
            "a layer orders columns by one row, so rows are ordered one by one",
            seen=f"{rows} rows",
            limit=MOST_ROWS,
            nearest="fewer rows in one description",
        )
    matrix = to.place(moved.reshaped((rows, extent)), ROW)
    parts = [write(to.place(emit_view(to, matrix, 0, row, 1), ROW)) for row in range(rows)]
    like = to.result((rows, size), ROW, parts[0].dtype, parts[0].stored)
    joined = parts[0] if rows == 1 else to.unit("Concat", parts, {"Dimension": Dim.CHANNEL.spelling}, like)
    return to.settle(joined.reshaped((*others, size))).transposed([order.index(one) for one in range(rank)])


def ordered(
    call: Call, *, ascending: bool, count: int | None = None, stored: str = FLOAT, indices: bool = False
) -> Placed:
    """Write the order of every row along an axis."""
    to, axis = call.to, call.axis()
    size = call.x.shape[axis] if count is None else count
    kind, params = ordering(ascending=ascending, count=count, indices=indices)
    like = to.result((1, size), ROW, stored=stored)
    return by_rows(to, call.x, axis, size, lambda row: to.unit(kind, [row], params, like))


def sort(call: Call) -> Held:
    """Write the elements in order."""
    return ordered(call, ascending=not call.node.flag("descending"))


def argsort(call: Call) -> Held:
    """Write the places of the elements in order, when they are asked for."""
    ascending = call.node.flag("ascending")
    return Places(lambda stored: ordered(call, ascending=ascending, stored=stored, indices=True), call.shape, "int32")


def topk(call: Call) -> tuple[Held, ...]:
    """Write the largest or smallest elements, and their places when they are asked for."""
    ascending, count = call.node.flag("ascending"), call.node.integer("k")
    values = ordered(call, ascending=ascending, count=count)
    if len(call.node.types) == 1:
        return (values,)

    def places(stored: str) -> Placed:
        return ordered(call, ascending=ascending, count=count, stored=stored, indices=True)

    return values, Places(places, call.shape, call.node.types[1].dtype)


def columns(to: Emitter, pattern: Columns, x: Held, shape: tuple[int, ...]) -> Held:
    """Write the columns of all channels in the order of one."""
    axes = (Dim.BATCH, Dim.CHANNEL, Dim.HEIGHT, Dim.WIDTH)
    placed = to.place(to.floats(x), axes)
    kind, params = ordering(ascending=pattern.ascending, count=pattern.count, lane=pattern.lane)
    return to.unit(kind, [placed], params, to.result(shape, axes))


# Places of extreme elements


def extreme(call: Call, axis: int, *, largest: bool, dtype: str) -> Places:
    """Write where the largest or smallest element along an axis is, when it is asked for."""

    def source(stored: str) -> Placed:
        return search(call.to, call.x, axis, largest=largest, stored=stored)

    return Places(source, call.shape, dtype)


def search(to: Emitter, x: Held, axis: int, *, largest: bool, stored: str) -> Placed:
    """Write a layer that finds the extreme element along an axis, which stays with length 1."""
    placed = to.floats(x)
    dim = placed.axes[axis]
    if dim is None or dim in (Dim.BATCH, Dim.DEPTH):
        placed = to.place(placed, axis_along(placed.shape, axis, Dim.WIDTH))
        dim = Dim.WIDTH
    kind = "Max" if largest else "Min"
    shape = [1 if one == axis else extent for one, extent in enumerate(placed.shape)]
    like = to.result(shape, placed.axes, stored=stored)
    height, width, extent = placed.dims.height, placed.dims.width, placed.shape[axis]
    spatial = dim is not Dim.CHANNEL and height * width == extent and placed.dims.depth == 1
    if extent <= MOST_WINDOW and (dim is Dim.CHANNEL or spatial) and placed.dims.depth == 1:
        window = (1, 1) if dim is Dim.CHANNEL else (height, width)
        mode = f"{'Channel' if dim is Dim.CHANNEL else 'Spatial'}Arg{kind}"
        params = {"Mode": mode, "KernelHeight": window[0], "KernelWidth": window[1]}
        return to.unit("ArgMinMax", [placed], params, like)
    return to.unit("GlobalArgMinMax", [placed], {"Type": kind, "Dimension": dim.spelling}, like)


def reduce_argmax(call: Call) -> Held:
    """Write the place of the largest element along an axis."""
    return extreme(call, call.axis(), largest=True, dtype=call.node.types[0].dtype)


def reduce_argmin(call: Call) -> Held:
    """Write the place of the smallest element along an axis."""
    return extreme(call, call.axis(), largest=False, dtype=call.node.types[0].dtype)


def argmax(call: Call) -> Held:
    """Write the place of the largest element along an axis of a matrix, as a number."""
    return search(call.to, call.x, call.axis(), largest=True, stored=FLOAT)


def global_arg(call: Call) -> Held:
    """Write the place of the extreme element of a whole tensor, laid out in one row."""
    to, x, largest = call.to, call.x, call.node.text("mode") == "max"

    def source(stored: str) -> Placed:
        row = to.place(to.floats(x).reshaped((math.prod(x.shape),)), (Dim.WIDTH,))
        like = to.result((1,), (None,), stored=stored)
        kind = "Max" if largest else "Min"
        return to.unit("GlobalArgMinMax", [row], {"Type": kind, "Dimension": Dim.WIDTH.spelling}, like)

    return Places(source, (), "int32")


RANKING: dict[str, Writer] = {
    "argmax": argmax,
    "argsort": argsort,
    "global_arg_min_max": global_arg,
    "reduce_argmax": reduce_argmax,
    "reduce_argmin": reduce_argmin,
    "sort": sort,
    "topk": topk,
}

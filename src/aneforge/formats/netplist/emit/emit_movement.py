"""Operations that move elements or repeat them. What only renames axes writes no unit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import NotSupportedError
from aneforge.formats.netplist.netplist_values import IMAGE, Held, Known, Placed, Places, Truncated, canonical
from aneforge.formats.netplist.parameters import records_of
from aneforge.formats.netplist.rows import rows
from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.units.rearrangement_units import REARRANGEMENTS
from aneforge.ops.attributed import axis_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.document import Parameter
    from aneforge.formats.netplist.emitter import Emitter

__all__ = ["MOVEMENT", "axis_along", "emit_rearrangement", "emit_view"]

(VIEW,) = (row for row in rows() if row.op == "input_view")
MOST_INDEX = 0xFFFF
MOST_EXACT = 2048
"""Up to this, every integer is one of fp16."""


# Shapes


def reshape(call: Call) -> Held:
    """Take the elements in another shape."""
    return call.x.reshaped(call.shape)


def transpose(call: Call) -> Held:
    """Take the axes in another order."""
    x, perm = call.x, axis_order(call.node)
    held = x if isinstance(x, Known) else call.to.settle(x)
    return held.transposed(perm)


def alias(call: Call) -> Held:
    """Take the tensor itself."""
    return call.x


# Parts and wholes


def concat(call: Call) -> Held:
    """Write tensors one after another.

    Raises:
        NotSupportedError: They are to be interleaved.
    """
    to, parts = call.to, call.several("values")
    if call.node.flag("interleave"):
        raise to.refuse(
            "a Concat unit does not interleave", nearest="stack along a new axis after, transposed and reshaped"
        )
    if len(parts) == 1:
        return parts[0]
    axis = call.node.integer("axis") % len(call.shape)
    axes = to.common_axes(call.shape, *parts)
    along = cast("Dim", axes[axis])  # of two parts together the axis is longer than 1
    bottoms = [to.place(part, axes) for part in parts]
    like = to.result(call.shape, axes, bottoms[0].dtype, bottoms[0].stored)
    return to.unit("Concat", bottoms, {"Dimension": along.spelling}, like)


def emit_view(to: Emitter, x: Held, axis: int, offset: int, size: int, step: int = 1) -> Held:
    """Write a view of a part along one axis."""
    if isinstance(x, Known):
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(offset, offset + (size - 1) * step + 1, step)
        return Known(x.values[tuple(index)], x.dtype)
    if size == x.shape[axis]:
        return x
    placed = to.settle(x)
    dim = cast("Dim", placed.axes[axis])  # a part of an axis of length 1 is all of it
    shape = (*placed.shape[:axis], size, *placed.shape[axis + 1 :])
    like = to.result(shape, placed.axes, placed.dtype, placed.stored)
    params = VIEW.params_of({"offset": offset, "size": size, "step": step}, to.number, [dim])
    return to.unit(VIEW.kind, [placed], params, like)


def input_view(call: Call) -> Held:
    """Write a view of a part along one axis."""
    return emit_view(
        call.to, call.x, call.axis(), call.node.integer("offset"), call.node.integer("size"), call.node.integer("step")
    )


def broadcast(call: Call) -> Held:
    """Write a tensor repeated to a shape, its axes where they are."""
    return call.to.spread(call.x, call.shape, call.to.common_axes(call.shape, call.x))


# Places


def axis_along(shape: Sequence[int], axis: int, dim: Dim) -> list[Dim]:
    """Return the default dimensions of axes, but with a given dimension for one; the axis that had it is moved.

    Raises:
        NotSupportedError: There is no dimension left for the axis that had it.
    """
    axes = list(canonical(shape))
    old, axes[axis] = axes[axis], dim
    long = [other for other, extent in enumerate(shape) if extent != 1 and other != axis]
    taken = {axes[other] for other in long} | {dim}
    for other in long:
        if axes[other] is dim:
            free = next((place for place in (old, *Dim) if place not in taken), None)
            if free is None:
                raise NotSupportedError(
                    "a tensor of a description has five dimensions",
                    seen=list(shape),
                    limit=5,
                    remedy="nearest form: reshape, so that an axis of length 1 is dropped",
                )
            axes[other] = free
    return axes


def gather(call: Call) -> Held:
    """Write the elements along one axis, laid along the width, that constant indices name.

    Raises:
        NotSupportedError: The indices are computed at run time, or every batch has its own.
    """
    to, x, indices = call.to, call.x, call.operand("indices")
    if not isinstance(indices, Known) or call.node.integer("batch_dims"):
        raise to.refuse(
            "a Gather unit takes one row of constant indices",
            seen="indices of every batch" if call.node.integer("batch_dims") else "indices computed at run time",
            nearest="gather with constant indices",
        )
    axis = call.axis()
    extent = x.shape[axis]
    counted = np.where(indices.values < 0, indices.values.astype(np.int64) + extent, indices.values.astype(np.int64))
    if counted.min() < 0 or counted.max() >= extent:
        raise to.refuse(
            "an index is past the axis", seen=int(counted.max()), limit=extent - 1, nearest="indices within the axis"
        )
    if counted.max() > MOST_INDEX:
        raise to.refuse(
            "an index does not fit into UInt16", seen=int(counted.max()), limit=MOST_INDEX, nearest="views and a concat"
        )
    row = to.place(Known(counted.reshape(-1).astype(np.uint16), "uint16"), (Dim.WIDTH,))
    placed = to.place(to.settle(x), axis_along(x.shape, axis, Dim.WIDTH))
    shape = (*x.shape[:axis], counted.size, *x.shape[axis + 1 :])
    like = to.result(shape, axis_along(x.shape, axis, Dim.WIDTH), placed.dtype, placed.stored)
    taken = to.unit("Gather", [placed, row], {"GatherNDAxes": (Dim.WIDTH.spelling,)}, like)
    return taken.reshaped(call.shape)


def dynamic_slice(call: Call) -> Held:
    """Write a part of the last axis whose begin an index gives."""
    to, begin = call.to, call.operand("begin")
    x = to.floats(call.x)
    x = to.place(x, canonical(x.shape))
    index = to.settle(index_of(begin).reshaped((1,)))
    infos: dict[str, Parameter] = {
        "CoordinateInfo": "NonNormalized",
        "DynamicSliceInfo": call.node.integer("size"),
        "PaddingInfo": "Background",
    }
    params: dict[str, Parameter] = {
        "BackgroundValue": call.node.number("background_value"),
        "CoordinateMode": "NonNormalized",
        "DynamicSliceAxisOrder": (Dim.WIDTH.spelling,),
        **{name: records_of("DynamicSlice", name, [(Dim.WIDTH, value)]) for name, value in infos.items()},
    }
    return to.unit("DynamicSlice", [x, index], params, to.result(call.shape, canonical(call.shape)))


def index_of(begin: Held) -> Held:
    """Return an index as a layer takes it: as UInt16, or as Float16, which also holds places before the begin."""
    if isinstance(begin, Truncated):
        return begin.source
    if isinstance(begin, Known) and -MOST_EXACT <= begin.values.min() < 0:
        return Known(begin.values.astype(np.float16), "fp16")
    return replace(begin, dtype="uint16") if isinstance(begin, Places) else begin


# Blocks


def emit_rearrangement(to: Emitter, kind: str, x: Held, factors: tuple[int, int], shape: tuple[int, ...]) -> Placed:
    """Write a layer that moves blocks; the factors are those of height and width."""
    placed = to.place(to.floats(x), IMAGE)
    params = {"FactorX": factors[1], "FactorY": factors[0]}
    return to.unit(kind, [placed], params, to.result(shape, IMAGE))


def exchange(kind: str) -> Writer:
    """Return a function that writes a layer that moves square blocks; borders of a batch's were taken off before."""

    def write(call: Call) -> Held:
        factors = REARRANGEMENTS[kind].factors(call.node)
        return emit_rearrangement(call.to, kind, call.x, factors, call.shape)

    return write


MOVEMENT: dict[str, Writer] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "flatten2d"), reshape),
    **dict.fromkeys(("identity", "ne_bypass"), alias),
    **{table.square: exchange(kind) for kind, table in REARRANGEMENTS.items()},
    "broadcast": broadcast,
    "concat": concat,
    "depth_to_space": exchange("ChannelToSpace"),
    "dynamic_slice": dynamic_slice,
    "gather": gather,
    "input_view": input_view,
    "space_to_depth": exchange("SpaceToChannel"),
    "transpose": transpose,
}

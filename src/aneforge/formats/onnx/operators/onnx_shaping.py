"""Operators that change the shape of a tensor, join tensors or part them, and keep their elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.reshaping import parts, repeat_axes, resolve_shape
from aneforge.ops.shapes import divisible, normalise_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value


@operator("Identity", takes_all=True)
def identity(call: Call) -> Held:
    """Convert nothing: the result is the input."""
    found = call.held_at(0)
    return call.value(0) if found is None else found


@operator("Reshape")
def reshape(call: Call) -> Value:
    """Convert another shape: −1 is computed, and 0 copies the axis at its place unless it is allowed to be 0."""
    x = call.value(0)
    wished = call.integers("shape") if "shape" in call.rules.attributes else call.known_integers(1, "the shape")
    literal = "allowzero" in call.rules.attributes and call.flag("allowzero")
    return call.emit.reshape(x, resolve_shape(x.type.shape, filled_shape(x.type.shape, wished or (), literal=literal)))


def filled_shape(old: tuple[int, ...], wished: Sequence[int], *, literal: bool) -> list[int]:
    """Return a wished shape with every 0 copied, unless it is meant.

    Raises:
        GraphError: It copies an axis that is not there, or has several −1.
    """
    if min(wished, default=0) < -1 or list(wished).count(-1) > 1:
        raise GraphError("the shape is not one of lengths and at most one -1", seen=list(wished))
    if not literal and any(extent == 0 and axis >= len(old) for axis, extent in enumerate(wished)):
        raise GraphError("the shape copies an axis that the input does not have", seen=list(wished), limit=list(old))
    return [old[axis] if extent == 0 and not literal else extent for axis, extent in enumerate(wished)]


@operator("Flatten")
def flatten(call: Call) -> Value:
    """Convert a matrix of the axes before one, and from it on."""
    x, axis = call.value(0), call.integer("axis")
    rank = x.type.rank
    if not -rank <= axis <= rank:
        raise GraphError("axis is out of range for the tensor", seen=axis, limit=f"{-rank} to {rank}")
    cut = axis + rank if axis < 0 else axis
    return call.emit.reshape(x, (math.prod(x.type.shape[:cut]), math.prod(x.type.shape[cut:])))


@operator("Squeeze")
def squeeze(call: Call) -> Value:
    """Convert the tensor without axes of length 1."""
    x = call.value(0)
    axes = axes_of(call)
    if axes is None:
        dropped = {axis for axis, extent in enumerate(x.type.shape) if extent == 1}
    else:
        dropped = set(normalise_axes(axes, x.type.rank))
    for axis in dropped:
        if x.type.shape[axis] != 1:
            raise GraphError(f"axis {axis} cannot be squeezed", seen=list(x.type.shape), limit="a length of 1")
    return call.emit.reshape(x, [extent for axis, extent in enumerate(x.type.shape) if axis not in dropped])


@operator("Unsqueeze")
def unsqueeze(call: Call) -> Value:
    """Convert the tensor with further axes of length 1, counted in the result."""
    x, axes = call.value(0), axes_of(call) or ()
    return call.emit.expand(x, *normalise_axes(axes, x.type.rank + len(axes)))


def axes_of(call: Call) -> tuple[int, ...] | None:
    """Return axes that are an attribute before version 13 and an input from it on."""
    if "axes" in call.rules.attributes:
        return call.integers("axes")
    return call.known_integers(1, "the list of axes")


@operator("Transpose")
def transpose(call: Call) -> Value:
    """Convert axes in another order, by default backwards."""
    x = call.value(0)
    order = call.integers("perm")
    if order is None:
        order = tuple(range(x.type.rank))[::-1]
    if sorted(order) != list(range(x.type.rank)):
        raise GraphError("perm is not an order of the axes", seen=list(order), limit=f"0 to {x.type.rank - 1}")
    return call.emit.transpose(x, order)


@operator("Concat")
def concat(call: Call) -> Value:
    """Convert tensors one after another."""
    values = call.values()
    return call.emit.concat(values, call.axis(values[0].type.rank))


@operator("Split")
def split(call: Call) -> tuple[Value, ...]:
    """Convert the parts of a tensor along an axis: of given lengths, or as equal as can be."""
    x = call.value(0)
    axis = call.axis(x.type.rank)
    extent = x.type.shape[axis]
    sizes = (
        call.integers("split") if "split" in call.rules.attributes else call.known_integers(1, "the list of lengths")
    )
    if sizes is None:
        sizes = equal_parts(call, extent)
    if sum(sizes) != extent or min(sizes, default=0) < 0 or len(sizes) != call.outputs:
        raise GraphError(
            "the lengths do not make up the axis, one for each output",
            seen=list(sizes),
            limit=f"{extent} in {call.outputs} parts",
        )
    return parts(call.emit, x, axis, sizes)


def equal_parts(call: Call, extent: int) -> tuple[int, ...]:
    """Return the lengths of equal parts; since version 18 the last may be shorter."""
    count = call.outputs
    if call.rules.since < 18:
        return (divisible("the axis to split", extent, count),) * count
    if call.has("num_outputs") and call.integer("num_outputs") != count:
        raise GraphError("num_outputs is not the number of outputs", seen=call.integer("num_outputs"), limit=count)
    each = -(-extent // count)
    return (*[each] * (count - 1), extent - each * (count - 1))


@operator("Expand")
def expand(call: Call) -> Value:
    """Convert a tensor repeated to a shape, either of which may be the longer."""
    x = call.value(0)
    wished = check_extents("the shape", call.known_integers(1, "the shape") or ())
    try:
        shape = np.broadcast_shapes(x.type.shape, wished)
    except ValueError:
        raise GraphError(
            "the tensor does not broadcast to the shape", seen=list(x.type.shape), limit=list(wished)
        ) from None
    return call.emit.spread(x, shape)


@operator("Tile", since=6)
def tile(call: Call) -> Value:
    """Convert a tensor repeated along every axis."""
    x = call.value(0)
    repeats = call.known_integers(1, "the list of repeats") or ()
    if len(repeats) != x.type.rank or min(repeats, default=0) < 0:
        raise GraphError("there must be one repeat for each axis", seen=list(repeats), limit=x.type.rank)
    return repeat_axes(call.emit, x, repeats)


@operator("DepthToSpace")
def depth_to_space(call: Call) -> Value:
    """Convert channels made blocks of places, the block's own place first (DCR) or the channel (CRD)."""
    x, block = call.value(0), call.integer("blocksize")
    blocks_first = "mode" not in call.rules.attributes or call.choice("mode", "DCR", "CRD") == "DCR"
    if blocks_first:
        return call.emit.apply("depth_to_space", {"x": x}, block_size=block)
    return call.emit.apply("pixel_shuffle", {"x": x}, upscale_factor=block)


@operator("SpaceToDepth")
def space_to_depth(call: Call) -> Value:
    """Convert blocks of places made channels."""
    x, block = call.value(0), call.integer("blocksize")
    blocks_first = "mode" not in call.rules.attributes or call.choice("mode", "DCR", "CRD") == "DCR"
    if blocks_first:
        return call.emit.apply("space_to_depth", {"x": x}, block_size=block)
    return call.emit.apply("pixel_unshuffle", {"x": x}, downscale_factor=block)


@operator("Dropout")
def dropout(call: Call) -> tuple[Value, ...]:
    """Convert nothing, and a mask that keeps all: an import is for inference."""
    x, emit = call.value(0), call.emit
    if "is_test" in call.rules.attributes and not call.flag("is_test"):
        raise training(call)
    if (
        call.optional(2) is not None
        and bool(call.known_number(2, "whether it is training"))
        and not drops_nothing(call)
    ):
        raise training(call)
    mask_dtype = "bool" if call.rules.since >= 10 else x.type.dtype
    return (x, emit.filled(x.type.shape, 1, mask_dtype)) if call.wants(1) else (x,)


def drops_nothing(call: Call) -> bool:
    """Return whether the ratio of a dropout in training is 0."""
    return call.optional(1) is not None and call.known_number(1, "the ratio") == 0


def training(call: Call) -> UnsupportedNodeError:
    """Return the error of a node that works otherwise in training."""
    return UnsupportedNodeError(
        Reason.TRAINING, f"{call.operator} in training draws at random", workaround="export the model for inference"
    )

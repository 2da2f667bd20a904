"""Slices, joins, borders and constants that have no layer, from views and concatenations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from aneforge.codegen.netplist.compose import Composition
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.codegen.netplist.compose import Compose
    from aneforge.graph.node import Value

__all__ = ["MOVEMENT"]


def view(to: Compose, x: Value, axis: int, part: range) -> Value:
    """Return the elements of a range along an axis, in rising order."""
    if part == range(x.type.shape[axis]):
        return x
    return to.op("input_view", x, axis=axis, offset=part.start, size=len(part), step=part.step)


def views(to: Compose, parts: Sequence[range]) -> Tensor:
    """Return the elements of a range along every axis.

    Raises:
        NotSupportedError: A range runs backwards, or is empty.
    """
    result = to.x
    for axis, part in enumerate(parts):
        if not part or part.step < 0:
            raise to.refuse(
                "an InputView unit goes forwards and has elements",
                seen=f"{part.start} to {part.stop} by {part.step}",
                nearest="a slice with a positive stride",
            )
        # A range of one element has no step of its own.
        result = view(to, result, axis, part if len(part) > 1 else range(part.start, part.start + 1))
    return as_tensor(to, result)


def as_tensor(to: Compose, value: Value) -> Tensor:
    """Return a value as a tensor: a constant, or what changed nothing, through an identity."""
    return value if isinstance(value, Tensor) and value is not to.x else to.op("identity", value)


def slice_by_size(to: Compose) -> Tensor:
    """Return views from begin on, of a size along every axis."""
    begin, size = to.wholes("begin") or (), to.wholes("size") or ()
    pairs = zip(to.shape, begin, size, strict=True)
    return views(to, [range(first, extent if count == -1 else first + count) for extent, first, count in pairs])


def slice_by_index(to: Compose) -> Tensor:
    """Return views from begin to end by stride along every axis; axes that go, go by a reshape."""
    rank = len(to.shape)

    def entries(name: str, default: int) -> tuple[int, ...]:
        return to.wholes(name) or (default,) * rank

    begin, end, stride = entries("begin", 0), entries("end", 0), entries("stride", 1)
    masks = [entries(name, 0) for name in ("begin_mask", "end_mask", "squeeze_mask")]
    parts: list[range] = []
    for axis, extent in enumerate(to.shape):
        first = None if masks[0][axis] else begin[axis]
        if masks[2][axis]:
            place = (first or 0) % extent
            parts.append(range(place, place + 1))
        else:
            parts.append(range(extent)[first : None if masks[1][axis] else end[axis] : stride[axis]])
    return to.op("reshape", views(to, parts), shape=to.result)


def crop(to: Compose) -> Tensor:
    """Return views without the borders."""
    (top, bottom), (left, right) = to.wholes("crop_height") or (0, 0), to.wholes("crop_width") or (0, 0)
    batch, channels, height, width = to.shape
    return views(to, [range(batch), range(channels), range(top, height - bottom), range(left, width - right)])


def split(to: Compose) -> list[Tensor]:
    """Return a view for every part."""
    axis = to.whole("axis") % len(to.shape)
    sizes = [kind.shape[axis] for kind in to.node.types]
    starts = itertools.accumulate([0, *sizes])
    return [
        as_tensor(to, view(to, to.x, axis, range(start, start + size)))
        for start, size in zip(starts, sizes, strict=False)
    ]


def stack(to: Compose) -> Tensor:
    """Return a concatenation along a new axis."""
    axis = to.whole("axis") % len(to.result)
    parts = tuple(to.op("expand_dims", value, axes=(axis,)) for value in to.several("values"))
    return parts[0] if len(parts) == 1 else to.op("concat", parts, axis=axis)


def tile(to: Compose) -> Tensor:
    """Return a concatenation of copies along every axis; an axis of length 1 is repeated."""
    result = to.x
    for axis, count in enumerate(to.wholes("reps") or ()):
        if count == 1:
            continue
        shape = list(result.type.shape)
        if shape[axis] == 1:
            shape[axis] = count
            result = to.op("broadcast", result, shape=shape)
        else:
            result = to.op("concat", (result,) * count, axis=axis)
    return as_tensor(to, result)


def pad(to: Compose) -> Tensor:
    """Return a concatenation with constants along every axis.

    Raises:
        NotSupportedError: What is put around it is taken from the tensor.
    """
    if to.text("mode") != "constant":
        raise to.refuse(
            "no source gives the parameters of the layer that pads",
            seen=f"mode {to.text('mode')}",
            nearest="mode=constant",
        )
    given = to.wholes("pad") or ()
    rank = len(to.shape)
    pairs = [(0, 0)] * (rank - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))
    result = to.x
    value = np.array(to.number("constant_val")).astype(numpy_dtype(to.x.type.dtype))
    for axis, (before, behind) in enumerate(pairs):
        shape = list(result.type.shape)
        parts: list[Value] = [result]
        if before:
            parts.insert(0, bordered(to, value, shape, axis, before))
        if behind:
            parts.append(bordered(to, value, shape, axis, behind))
        result = result if len(parts) == 1 else to.op("concat", tuple(parts), axis=axis)
    return as_tensor(to, result)


def bordered(to: Compose, value: object, shape: Sequence[int], axis: int, count: int) -> Value:
    """Return a border of one value: one number that is repeated."""
    extents = [count if one == axis else extent for one, extent in enumerate(shape)]
    return to.op("broadcast", Dense(np.asarray(value).reshape((1,) * len(extents))), shape=extents)


def space_to_batch(to: Compose) -> Tensor | None:
    """Return the operation on a tensor that was padded before."""
    paddings = to.wholes("paddings") or ()
    if not any(paddings):
        return None
    around = to.op("pad", to.x, pad=paddings, mode="constant", constant_val=0.0)
    return to.op("space_to_batch", around, block_shape=to.wholes("block_shape"))


def batch_to_space(to: Compose) -> Tensor | None:
    """Return the operation, with its borders cut off behind it."""
    crops = to.wholes("crops") or ()
    if not any(crops):
        return None
    whole = to.op("batch_to_space", to.x, block_shape=to.wholes("block_shape"))
    return to.op("crop", whole, crop_height=crops[:2], crop_width=crops[2:])


def upsample(to: Compose) -> Tensor:
    """Return the upsampling by two factors that are one."""
    scale = float(to.whole("scale"))
    return to.op("upsample_nearest_neighbor", to.x, scale_factor_height=scale, scale_factor_width=scale)


def reshape_like(to: Compose) -> Tensor:
    """Return a reshape to the shape, which is known."""
    return to.op("reshape", to.x, shape=to.result)


def folded(to: Compose) -> list[Tensor] | None:
    """Return the constant that an operation on constants alone is; None where an operand is computed at run time."""
    values = [value for _, value in to.node.values()]
    if not all(isinstance(value, Constant) for value in values):
        return None
    known = {name: value.dense() for name, value in to.node.values() if isinstance(value, Constant)}
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in known.items()}
    results = to.node.op.evaluate(wide, to.node.attributes)
    to.notes.append("computed beforehand")
    return [
        to.op("identity", Dense(result.astype(numpy_dtype(kind.dtype))))
        for result, kind in zip(results, to.node.types, strict=True)
    ]


def fill_like(to: Compose) -> Tensor:
    """Return one number repeated to the shape."""
    kind = to.node.types[0]
    value = np.full((1,) * kind.rank, to.number("value")).astype(numpy_dtype(kind.dtype))
    return to.op("broadcast", Dense(value), shape=kind.shape)


CONSTANT = (
    "constexpr_affine_dequantize",
    "constexpr_blockwise_shift_scale",
    "constexpr_cast",
    "constexpr_lut_to_dense",
    "constexpr_lut_to_sparse",
    "constexpr_sparse_blockwise_shift_scale",
    "constexpr_sparse_to_dense",
    "range_1d",
)
MOVEMENT: dict[str, Composition] = {
    **dict.fromkeys(CONSTANT, Composition("a constant", folded)),
    "batch_to_space": Composition("the operation, then views without the borders", batch_to_space),
    "crop": Composition("views without the borders", crop),
    "dequantize": Composition("a constant", folded),
    "fill": Composition("one number, repeated", fill_like),
    "fill_like": Composition("one number, repeated", fill_like),
    "pad": Composition("a concatenation with constants", pad),
    "reshape_like": Composition("a reshape", reshape_like),
    "slice_by_index": Composition("views along the axes", slice_by_index),
    "slice_by_size": Composition("views along the axes", slice_by_size),
    "space_to_batch": Composition("a concatenation with zeros, then the operation", space_to_batch),
    "split": Composition("a view for every part", split),
    "stack": Composition("a concatenation along a new axis", stack),
    "tile": Composition("concatenations along the axes", tile),
    "upsample": Composition("an upsampling by two equal factors", upsample),
}

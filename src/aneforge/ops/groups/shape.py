"""Operations that change the shape of a tensor, join and part tensors, or make one out of a shape."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Op, Support, Surface, meaning_dtype
from aneforge.ops.sampling import Chooser, Fill, Sample
from aneforge.ops.sampling import shape as draw_shape
from aneforge.ops.shapes import common_dtype, divisible, expect_rank, normalised_axes, normalised_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.structural import (
    CATEGORY,
    F0,
    LIKELY_F0,
    LIKELY_F2,
    NATIVE_LAYER_F0,
    NOWHERE,
    any_tensor,
    expect_entries,
    expect_representable,
)
from aneforge.ops.types import DTYPES, Array, TensorType, is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

X = (Operand("x"),)
VALUES = (Operand("values", variadic=True),)
ELEMENT_TYPES = tuple(DTYPES)


# reshape, reshape_like, flatten2d, flatten


def resolved_shape(old: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a wished shape with every 0 copied from the old shape and −1 computed.

    >>> resolved_shape((2, 3, 4), (0, -1))
    (2, 12)

    Raises:
        GraphError: The shape has several −1, a 0 without an axis to copy, or another number of elements.
    """
    if shape.count(-1) > 1:
        raise GraphError("the shape leaves more than one axis open", seen=list(shape), limit="one -1")
    if 0 in shape[len(old) :]:
        raise GraphError("a 0 of the shape has no axis to copy", seen=list(shape), limit=f"the axes of {list(old)}")
    filled = [old[axis] if extent == 0 else extent for axis, extent in enumerate(shape)]
    size = math.prod(old)
    if -1 in filled:
        others = math.prod(extent for extent in filled if extent != -1)
        if others == 0 or size % others:
            raise GraphError(
                f"a tensor of {size} elements leaves no length for the -1 of the shape {list(shape)}",
                seen=f"{others} elements beside it",
                limit=f"a divisor of {size}",
            )
        filled[filled.index(-1)] = size // others
    if math.prod(filled) != size:
        raise GraphError(
            f"a tensor of {size} elements cannot take the shape {list(shape)} of {math.prod(filled)} elements",
            remedy="give a shape with the same number of elements, or -1 for one axis",
        )
    return tuple(filled)


def infer_reshape(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    """Return the type of a reshaped tensor."""
    return x.with_shape(*resolved_shape(x.shape, shape))


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return the elements, in order, in another shape."""
    return x.reshape(resolved_shape(x.shape, shape))


def sample_reshape(chooser: Chooser) -> Sample:
    """Draw a reshape: neighbouring axes merged, an axis of length 1 added, 0 and −1 in the shape."""
    old = draw_shape(chooser, 2)
    cut = chooser.integer(0, len(old) - 1)
    merged = (*old[:cut], math.prod(old[cut:]))
    wished = chooser.choose([merged, (*merged, 1), (-1,), (0, -1), (1, -1, old[-1]), old[::-1]])
    return Sample({"x": any_tensor(chooser, old)}, {"shape": wished})


def shape_like(
    refs: Sequence[tuple[int, ...]], begins: tuple[int, ...], ends: tuple[int, ...], end_masks: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the axes begins[i] to ends[i] of every reference, one after another.

    Raises:
        GraphError: The lists differ in length, or an entry is not an axis.
    """
    for name, given in (("begins", begins), ("ends", ends), ("end_masks", end_masks)):
        expect_entries(name, given, len(refs), "reference tensor")
    wished: list[int] = []
    for ref, begin, end, to_the_end in zip(refs, begins, ends, end_masks, strict=True):
        rank = len(ref)
        for name, place in (("begins", begin), ("ends", 0 if to_the_end else end)):
            if not -rank <= place <= rank:
                raise GraphError(f"{name} is not within {list(ref)}", seen=place, limit=f"{-rank} to {rank}")
        wished += ref[begin : None if to_the_end else end]
    return tuple(wished)


def infer_reshape_like(x: TensorType, ref_tensors: tuple[TensorType, ...], **axes: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor reshaped to axes of others."""
    wished = shape_like([ref.shape for ref in ref_tensors], **axes)
    if math.prod(wished) != x.size:
        raise GraphError(
            f"a tensor of {x.size} elements cannot take the shape {list(wished)} of {math.prod(wished)} elements"
        )
    return x.with_shape(*wished)


def reshape_like(x: Array, ref_tensors: tuple[Array, ...], **axes: tuple[int, ...]) -> Array:
    """Return the elements, in order, in a shape made of axes of others."""
    return x.reshape(shape_like([ref.shape for ref in ref_tensors], **axes))


def sample_reshape_like(chooser: Chooser) -> Sample:
    """Draw a reshape to the axes of one or two references, counted from the front or the end."""
    refs = [draw_shape(chooser, 1, 3) for _ in range(chooser.integer(1, 2))]
    begins = tuple(chooser.integer(-len(ref), len(ref) - 1) for ref in refs)
    ends = tuple(chooser.integer(begin % len(ref) + 1, len(ref)) for begin, ref in zip(begins, refs, strict=True))
    masks = tuple(chooser.integer(0, 1) for _ in refs)
    wished = shape_like(refs, begins, ends, masks)
    tensors = tuple(any_tensor(chooser, ref) for ref in refs)
    return Sample(
        {"x": any_tensor(chooser, wished[::-1]), "ref_tensors": tensors},
        {"begins": begins, "ends": ends, "end_masks": masks},
    )


def matrix_shape(old: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Return the lengths of the axes before an axis, and from it on, multiplied.

    Raises:
        GraphError: There is no such place among the axes.
    """
    rank = len(old)
    if not -rank <= axis <= rank:
        raise GraphError(f"axis does not part a tensor of rank {rank}", seen=axis, limit=f"{-rank} to {rank}")
    cut = axis + rank if axis < 0 else axis
    return math.prod(old[:cut]), math.prod(old[cut:])


def infer_flatten2d(x: TensorType, *, axis: int) -> TensorType:
    """Return the type of a tensor made a matrix."""
    return x.with_shape(*matrix_shape(x.shape, axis))


def flatten2d(x: Array, *, axis: int) -> Array:
    """Return the elements, in order, as a matrix."""
    return x.reshape(matrix_shape(x.shape, axis))


def sample_flatten2d(chooser: Chooser) -> Sample:
    """Draw a matrix form."""
    old = draw_shape(chooser)
    return Sample({"x": any_tensor(chooser, old)}, {"axis": chooser.integer(-len(old), len(old))})


def infer_flatten(x: TensorType) -> TensorType:
    """Return the type of an image laid out in one axis."""
    expect_rank("x", x, 3)
    return x.with_shape(x.size)


def sample_flatten(chooser: Chooser) -> Sample:
    """Draw an image."""
    return Sample({"x": any_tensor(chooser, draw_shape(chooser, 3, 3))})


RESHAPE = Op(
    name="reshape",
    category=CATEGORY,
    summary="the elements of x, in order, in another shape; 0 copies an axis, −1 is computed",
    operands=X,
    attributes=(Attribute("shape", AttributeKind.INTEGERS, least=-1),),
    infer=infer_reshape,
    meaning=reshape,
    sample=sample_reshape,
    surface=Surface.FUSED,
    support=F0,
)
RESHAPE_LIKE = Op(
    name="reshape_like",
    category=CATEGORY,
    summary="x in the shape that the axes begins[i] to ends[i] of the references make; end_masks[i] opens the end",
    operands=(Operand("x"), Operand("ref_tensors", variadic=True)),
    attributes=(
        Attribute("begins", AttributeKind.INTEGERS),
        Attribute("ends", AttributeKind.INTEGERS),
        Attribute("end_masks", AttributeKind.INTEGERS, least=0, most=1),
    ),
    infer=infer_reshape_like,
    meaning=reshape_like,
    sample=sample_reshape_like,
    opset="ios16",
    support=LIKELY_F0,
)
FLATTEN2D = Op(
    name="flatten2d",
    category=CATEGORY,
    summary="x as a matrix: the axes before `axis` are its rows, the others its columns",
    operands=X,
    attributes=(Attribute("axis", AttributeKind.INTEGER, 1),),
    infer=infer_flatten2d,
    meaning=flatten2d,
    sample=sample_flatten2d,
    surface=Surface.FUSED,
    support=F0,
)
FLATTEN = Op(
    name="flatten",
    category=CATEGORY,
    summary="an image [C, H, W] in one axis [C·H·W]",
    operands=X,
    infer=infer_flatten,
    meaning=np.ravel,
    sample=sample_flatten,
    surface=Surface.NATIVE_LAYER,
    support=NATIVE_LAYER_F0,
    catalogued=False,
)


# expand_dims, squeeze, transpose, identity, tile


def infer_expand_dims(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor with further axes of length 1; `axes` are those of the result."""
    added = normalised_axes(axes, x.rank + len(axes))
    old = iter(x.shape)
    return x.with_shape(*(1 if axis in added else next(old) for axis in range(x.rank + len(axes))))


def expand_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Return a tensor with further axes of length 1."""
    return np.expand_dims(x, axes)


def sample_expand_dims(chooser: Chooser) -> Sample:
    """Draw one or two further axes."""
    old = draw_shape(chooser, 1, 3)
    axes = chooser.choose([(0,), (-1,), (len(old),), (0, 1), (0, -1), (-1, 1)])
    return Sample({"x": any_tensor(chooser, old)}, {"axes": axes})


def squeezed_axes(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes to drop; None is every axis of length 1.

    Raises:
        GraphError: One of them is longer than 1.
    """
    if axes is None:
        return tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    found = normalised_axes(axes, len(shape))
    for axis in found:
        if shape[axis] != 1:
            raise GraphError(f"axis {axis} of shape {list(shape)} cannot be squeezed", seen=shape[axis], limit=1)
    return found


def infer_squeeze(x: TensorType, *, axes: tuple[int, ...] | None) -> TensorType:
    """Return the type of a tensor without some axes of length 1."""
    dropped = squeezed_axes(x.shape, axes)
    return x.with_shape(*(extent for axis, extent in enumerate(x.shape) if axis not in dropped))


def squeeze(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    """Return a tensor without some axes of length 1."""
    return np.squeeze(x, squeezed_axes(x.shape, axes))


def sample_squeeze(chooser: Chooser) -> Sample:
    """Draw a tensor with axes of length 1 and drop all of them, or one counted from either side."""
    old = tuple(chooser.choose([1, 2, 3]) for _ in range(chooser.integer(0, 3)))
    axes = chooser.choose([None, (0,), (-len(old) - 1,)])
    return Sample({"x": any_tensor(chooser, (1, *old))}, {"axes": axes})


def infer_transpose(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor with its axes in another order."""
    expect_entries("perm", perm, x.rank, "axis")
    return x.with_shape(*(x.shape[axis] for axis in normalised_axes(perm, x.rank, "perm")))


def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    """Return a tensor with its axes in another order."""
    return np.transpose(x, perm)


def sample_transpose(chooser: Chooser) -> Sample:
    """Draw an order of the axes, some counted from the end."""
    old = draw_shape(chooser)
    left = list(range(len(old)))
    perm = [left.pop(chooser.integer(0, len(left) - 1)) for _ in old]
    return Sample(
        {"x": any_tensor(chooser, old)}, {"perm": tuple(axis - chooser.choose([0, len(old)]) for axis in perm)}
    )


def infer_identity(x: TensorType) -> TensorType:
    """Return the same type."""
    return x


def identity(x: Array) -> Array:
    """Return the same values."""
    return x.copy()


def sample_any(chooser: Chooser) -> Sample:
    """Draw any tensor."""
    return Sample({"x": any_tensor(chooser, draw_shape(chooser))})


def infer_tile(x: TensorType, *, reps: tuple[int, ...]) -> TensorType:
    """Return the type of a repeated tensor."""
    expect_entries("reps", reps, x.rank, "axis")
    return x.with_shape(*(extent * times for extent, times in zip(x.shape, reps, strict=True)))


def tile(x: Array, *, reps: tuple[int, ...]) -> Array:
    """Return a tensor repeated along every axis."""
    return np.tile(x, reps)


def sample_tile(chooser: Chooser) -> Sample:
    """Draw a repetition."""
    old = draw_shape(chooser, longest=3)
    return Sample({"x": any_tensor(chooser, old)}, {"reps": tuple(chooser.integer(1, 3) for _ in old)})


EXPAND_DIMS = Op(
    name="expand_dims",
    category=CATEGORY,
    summary="x with further axes of length 1; `axes` are their places in the result",
    operands=X,
    attributes=(Attribute("axes", AttributeKind.INTEGERS),),
    infer=infer_expand_dims,
    meaning=expand_dims,
    sample=sample_expand_dims,
    surface=Surface.FUSED,
    support=F0,
)
SQUEEZE = Op(
    name="squeeze",
    category=CATEGORY,
    summary="x without the given axes of length 1, or without all of them",
    operands=X,
    attributes=(Attribute("axes", AttributeKind.INTEGERS, None),),
    infer=infer_squeeze,
    meaning=squeeze,
    sample=sample_squeeze,
    surface=Surface.FUSED,
    support=F0,
)
TRANSPOSE = Op(
    name="transpose",
    category=CATEGORY,
    summary="x with its axes in another order: axis i of the result is axis perm[i] of x",
    operands=X,
    attributes=(Attribute("perm", AttributeKind.INTEGERS),),
    infer=infer_transpose,
    meaning=transpose,
    sample=sample_transpose,
    surface=Surface.FUSED,
    support=F0,
)
IDENTITY = Op(
    name="identity",
    category=CATEGORY,
    summary="x",
    operands=X,
    infer=infer_identity,
    meaning=identity,
    sample=sample_any,
    support=LIKELY_F2,
)
TILE = Op(
    name="tile",
    category=CATEGORY,
    summary="x repeated reps[i] times along axis i",
    operands=X,
    attributes=(Attribute("reps", AttributeKind.INTEGERS, least=1),),
    infer=infer_tile,
    meaning=tile,
    sample=sample_tile,
    surface=Surface.FUSED,
    support=Support(floor=2),
)


# concat, stack, split


def joined_rank(values: Sequence[TensorType]) -> int:
    """Return the rank that all tensors of a list share.

    Raises:
        GraphError: The list is empty, or the tensors have several ranks or element types.
    """
    if not values:
        raise GraphError("there is nothing to join", seen="no tensors", limit="one or more")
    common_dtype(*values)
    ranks = {value.rank for value in values}
    if len(ranks) > 1:
        raise GraphError("the tensors have different ranks", seen=", ".join(str(list(value.shape)) for value in values))
    return values[0].rank


def infer_concat(values: tuple[TensorType, ...], *, axis: int, interleave: bool) -> TensorType:
    """Return the type of tensors joined along an axis that they have."""
    along = normalised_axis(axis, joined_rank(values))
    first = values[0].shape
    for value in values[1:]:
        differing = [place for place, (a, b) in enumerate(zip(first, value.shape, strict=True)) if a != b]
        if interleave and differing:
            raise GraphError("interleaved tensors have different shapes", seen=list(value.shape), limit=list(first))
        if any(place != along for place in differing):
            raise GraphError(
                f"the tensors differ along another axis than {along}, on which they are joined",
                seen=f"{list(first)} and {list(value.shape)}",
            )
    total = sum(value.shape[along] for value in values)
    return values[0].with_shape(*first[:along], total, *first[along + 1 :])


def concat(values: tuple[Array, ...], *, axis: int, interleave: bool) -> Array:
    """Join along an axis; interleaved, take one entry of every tensor in turn."""
    if not interleave:
        return np.concatenate(values, axis)
    along = axis % values[0].ndim
    shape = list(values[0].shape)
    shape[along] *= len(values)
    return np.stack(values, along + 1).reshape(shape)


def sample_concat(chooser: Chooser) -> Sample:
    """Draw one to three tensors that differ along the axis, or are alike for interleaving."""
    first = any_tensor(chooser, draw_shape(chooser)).type
    axis = chooser.integer(-first.rank, first.rank - 1)
    interleave = chooser.choose([False, True])
    extents = [first.shape[axis]] + [chooser.integer(1, 4) for _ in range(chooser.integer(0, 2))]
    along = axis % first.rank
    values = tuple(
        Fill(first if interleave else first.with_shape(*first.shape[:along], extent, *first.shape[along + 1 :]))
        for extent in extents
    )
    return Sample({"values": values}, {"axis": axis, "interleave": interleave})


def infer_stack(values: tuple[TensorType, ...], *, axis: int) -> TensorType:
    """Return the type of tensors joined along a new axis."""
    along = normalised_axis(axis, joined_rank(values) + 1)
    first = values[0].shape
    for value in values:
        if value.shape != first:
            raise GraphError("stacked tensors have different shapes", seen=list(value.shape), limit=list(first))
    return values[0].with_shape(*first[:along], len(values), *first[along:])


def stack(values: tuple[Array, ...], *, axis: int) -> Array:
    """Join along a new axis."""
    return np.stack(values, axis)


def sample_stack(chooser: Chooser) -> Sample:
    """Draw one to three tensors of one type."""
    one = any_tensor(chooser, draw_shape(chooser, 1, 3))
    values = (one,) * chooser.integer(1, 3)
    return Sample({"values": values}, {"axis": chooser.integer(-one.type.rank - 1, one.type.rank)})


def part_sizes(extent: int, num_splits: int | None, split_sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the lengths of the parts of an axis.

    Raises:
        GraphError: Nothing says how to part, two things say different, or the parts do not make up the axis.
    """
    if split_sizes is None:
        if num_splits is None:
            raise GraphError("nothing says how to split", remedy="give num_splits or split_sizes")
        return (divisible("the axis to split", extent, num_splits),) * num_splits
    if num_splits not in (None, len(split_sizes)):
        raise GraphError("num_splits is not the number of split_sizes", seen=num_splits, limit=len(split_sizes))
    if sum(split_sizes) != extent:
        raise GraphError("split_sizes do not make up the axis", seen=sum(split_sizes), limit=extent)
    return split_sizes


def infer_split(
    x: TensorType, *, num_splits: int | None, split_sizes: tuple[int, ...] | None, axis: int
) -> tuple[TensorType, ...]:
    """Return the types of the parts."""
    along = normalised_axis(axis, x.rank)
    sizes = part_sizes(x.shape[along], num_splits, split_sizes)
    return tuple(x.with_shape(*x.shape[:along], size, *x.shape[along + 1 :]) for size in sizes)


def split(x: Array, *, num_splits: int | None, split_sizes: tuple[int, ...] | None, axis: int) -> tuple[Array, ...]:
    """Return the parts of a tensor along an axis."""
    sizes = part_sizes(x.shape[axis], num_splits, split_sizes)
    bounds = accumulate(sizes, initial=0)
    return tuple(np.take(x, range(begin, end), axis) for begin, end in pairwise(bounds))


def sample_split(chooser: Chooser) -> Sample:
    """Draw equal parts, or sizes of one to three parts."""
    shape = list(draw_shape(chooser))
    axis = chooser.integer(-len(shape), len(shape) - 1)
    sizes = tuple(chooser.integer(1, 3) for _ in range(chooser.integer(1, 3)))
    if chooser.choose([True, False]):
        shape[axis] = sizes[0] * len(sizes)
        return Sample({"x": any_tensor(chooser, shape)}, {"num_splits": len(sizes), "axis": axis})
    shape[axis] = sum(sizes)
    count = chooser.choose([None, len(sizes)])
    return Sample({"x": any_tensor(chooser, shape)}, {"num_splits": count, "split_sizes": sizes, "axis": axis})


CONCAT = Op(
    name="concat",
    category=CATEGORY,
    summary="the tensors one after another along an axis; interleaved, one entry of each in turn",
    operands=VALUES,
    attributes=(
        Attribute("axis", AttributeKind.INTEGER),
        Attribute("interleave", AttributeKind.FLAG, default=False),
    ),
    infer=infer_concat,
    meaning=concat,
    sample=sample_concat,
    surface=Surface.FUSED,
    support=Support(floor=0, basis=Basis.SYMBOL),
)
STACK = Op(
    name="stack",
    category=CATEGORY,
    summary="the tensors side by side along a new axis",
    operands=VALUES,
    attributes=(Attribute("axis", AttributeKind.INTEGER),),
    infer=infer_stack,
    meaning=stack,
    sample=sample_stack,
    surface=Surface.FUSED,
    support=F0,
)
SPLIT = Op(
    name="split",
    category=CATEGORY,
    summary="the parts of x along an axis: num_splits equal ones, or of the lengths split_sizes",
    operands=X,
    attributes=(
        Attribute("num_splits", AttributeKind.INTEGER, None, least=1),
        Attribute("split_sizes", AttributeKind.INTEGERS, None, least=0),
        Attribute("axis", AttributeKind.INTEGER),
    ),
    infer=infer_split,
    meaning=split,
    sample=sample_split,
    surface=Surface.FUSED,
    support=F0,
)


# fill, fill_like, range_1d, shape


def infer_fill(*, shape: tuple[int, ...], value: float, dtype: str) -> TensorType:
    """Return the type of a tensor of one value."""
    expect_representable("value", value, dtype)
    return TensorType(shape, dtype)


def fill(*, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    """Return a tensor of one value."""
    return np.full(shape, value, meaning_dtype(dtype))


def sample_fill(chooser: Chooser) -> Sample:
    """Draw a shape, a value and an element type that has it."""
    value, dtype = chooser.choose([(0.0, "fp16"), (-2.5, "fp32"), (7.0, "int32"), (200.0, "uint8"), (1.0, "bool")])
    return Sample({}, {"shape": draw_shape(chooser), "value": value, "dtype": dtype})


def infer_fill_like(ref_tensor: TensorType, *, value: float, dtype: str | None) -> TensorType:
    """Return the type of a tensor of one value in another's shape."""
    return infer_fill(shape=ref_tensor.shape, value=value, dtype=dtype or ref_tensor.dtype)


def fill_like(ref_tensor: Array, *, value: float, dtype: str | None) -> Array:
    """Return a tensor of one value in another's shape."""
    return np.full(ref_tensor.shape, value, meaning_dtype(dtype) if dtype else ref_tensor.dtype)


def sample_fill_like(chooser: Chooser) -> Sample:
    """Draw a reference, a value and an element type that has it."""
    ref = any_tensor(chooser, draw_shape(chooser))
    value, dtype = chooser.choose([(1.0, None), (0.0, None), (-2.5, "fp16"), (7.0, "int32")])
    return Sample({"ref_tensor": ref}, {"value": value, "dtype": dtype})


def range_length(start: float, end: float, step: float) -> int:
    """Return how many numbers lie between two, the end not included.

    >>> range_length(0, 7, 3), range_length(0, 7, -1)
    (3, 0)

    Raises:
        GraphError: The range has no end.
    """
    if step == 0 or not all(map(math.isfinite, (start, end, step))):
        raise GraphError(
            "the range never ends",
            seen=f"from {start:g} to {end:g} by {step:g}",
            limit="finite, by a step other than 0",
        )
    return max(0, math.ceil((end - start) / step))


def infer_range(*, start: float, end: float, step: float, dtype: str) -> TensorType:
    """Return the type of a range of numbers."""
    length = range_length(start, end, step)
    if not is_float(dtype) and not step.is_integer():
        raise GraphError(f"step is not a whole number, as {dtype} needs it", seen=step, remedy="give a floating dtype")
    for name, value in (("start", start), ("the last number", start + max(0, length - 1) * step)):
        expect_representable(name, value, dtype)
    return TensorType((length,), dtype)


def number_range(*, start: float, end: float, step: float, dtype: str) -> Array:
    """Return the numbers from start to end, the end not included."""
    return (start + np.arange(range_length(start, end, step)) * step).astype(meaning_dtype(dtype))


def sample_range(chooser: Chooser) -> Sample:
    """Draw a range up or down, with an end that the steps meet or pass."""
    dtype = chooser.choose(["fp16", "fp32", "int32"])
    step = chooser.choose([1.0, 2.0, 3.0] if dtype == "int32" else [0.25, 0.5, 1.0, 1.5]) * chooser.choose([1, -1])
    start = float(chooser.integer(-5, 5))
    over = chooser.choose([0.0, 0.5]) if dtype != "int32" else 0.0
    end = start + chooser.integer(1, 6) * step - over * step
    return Sample({}, {"start": start, "end": end, "step": step, "dtype": dtype})


def infer_shape(x: TensorType) -> TensorType:
    """Return the type of a list of extents."""
    return TensorType((x.rank,), "int32")


def extents(x: Array) -> Array:
    """Return the lengths of the axes."""
    return np.array(x.shape, np.int32)


FILL = Op(
    name="fill",
    category=CATEGORY,
    summary="a tensor of one value",
    operands=(),
    attributes=(
        Attribute("shape", AttributeKind.INTEGERS, least=0),
        Attribute("value", AttributeKind.NUMBER, 0.0),
        Attribute("dtype", AttributeKind.TEXT, "fp16", choices=ELEMENT_TYPES),
    ),
    infer=infer_fill,
    meaning=fill,
    sample=sample_fill,
    support=LIKELY_F2,
)
FILL_LIKE = Op(
    name="fill_like",
    category=CATEGORY,
    summary="a tensor of one value in the shape of another, and in its element type unless `dtype` says another",
    operands=(Operand("ref_tensor"),),
    attributes=(
        Attribute("value", AttributeKind.NUMBER, 0.0),
        Attribute("dtype", AttributeKind.TEXT, None, choices=ELEMENT_TYPES),
    ),
    infer=infer_fill_like,
    meaning=fill_like,
    sample=sample_fill_like,
    opset="ios16",
    support=LIKELY_F2,
)
RANGE_1D = Op(
    name="range_1d",
    category=CATEGORY,
    summary="start, start + step, start + 2·step, … before end",
    operands=(),
    attributes=(
        Attribute("start", AttributeKind.NUMBER),
        Attribute("end", AttributeKind.NUMBER),
        Attribute("step", AttributeKind.NUMBER),
        Attribute("dtype", AttributeKind.TEXT, "fp16", choices=ELEMENT_TYPES),
    ),
    infer=infer_range,
    meaning=number_range,
    sample=sample_range,
    support=Support(floor=2, basis=Basis.LIKELY, mil_since=3, mil_otherwise=MilStatus.BRIDGE),
)
SHAPE = Op(
    name="shape",
    category=CATEGORY,
    summary="the lengths of the axes of x",
    operands=X,
    infer=infer_shape,
    meaning=extents,
    sample=sample_any,
    support=NOWHERE,
)

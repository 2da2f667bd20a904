"""Operations that change the shape of a tensor and keep its elements, or return it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.arrays import np, numpy_function
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import AXES, BRIDGE_F0, LIKELY_F0, LIKELY_F2, NOWHERE, axis_attribute
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import FROM_ZERO, Movement
from aneforge.ops.sampling import Chooser, Sample, draw_any, draw_axis, draw_shape
from aneforge.ops.shapes import expect_entries, expect_rank, normalise_axes, own_type
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

CATEGORY = Category.STRUCTURAL


# reshape, reshape_like, flatten2d, flatten


def resolved_shape(old: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a wished shape with every 0 copied from the old shape and −1 computed.

    The two shapes are aligned at their ends, as MIL does it from ios17 on: a 0 copies the axis that is as far from the
    end as itself, and is 1 where the old shape has no such axis.

    >>> resolved_shape((2, 3, 4), (-1, 0)), resolved_shape((2, 3), (0, 0, 3))
    ((6, 4), (1, 2, 3))

    Raises:
        GraphError: The shape has several −1, or another number of elements.
    """
    if shape.count(-1) > 1:
        raise GraphError("the shape leaves more than one axis open", seen=list(shape), limit="one -1")
    aligned = (1,) * (len(shape) - len(old)) + old[max(len(old) - len(shape), 0) :]
    filled = [extent or copied for extent, copied in zip(shape, aligned, strict=True)]
    size = math.prod(old)
    if -1 in filled:
        others = math.prod(extent for extent in filled if extent != -1)
        if others == 0 or size % others:
            raise GraphError(
                f"a tensor of {size} elements leaves no length for the -1 of the shape {list(shape)}",
                seen=f"{others} elements along the other axes",
                limit=f"a divisor of {size}",
            )
        filled[filled.index(-1)] = size // others
    if math.prod(filled) != size:
        raise GraphError(
            f"a tensor of {size} elements cannot take the shape {list(shape)} of {math.prod(filled)} elements",
            remedy="give a shape with the same number of elements, or -1 for one axis",
        )
    return tuple(filled)


def reshape_type(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
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
    wished = chooser.choose([merged, (*merged, 1), (-1,), (-1, 0), (0,) * len(old), (0, 0, *old), (1, -1, old[-1])])
    return Sample({"x": draw_any(chooser, old)}, {"shape": wished})


def shape_like(
    refs: Sequence[tuple[int, ...]], *, begins: tuple[int, ...], ends: tuple[int, ...], end_masks: tuple[bool, ...]
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


class References(TypedDict):
    """The attributes that name axes of reference tensors."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    end_masks: tuple[bool, ...]


def reshape_like_type(x: TensorType, ref_tensors: tuple[TensorType, ...], **axes: Unpack[References]) -> TensorType:
    """Return the type of a tensor reshaped to axes of others."""
    wished = shape_like([ref.shape for ref in ref_tensors], **axes)
    if math.prod(wished) != x.size:
        raise GraphError(
            f"a tensor of {x.size} elements cannot take the shape {list(wished)} of {math.prod(wished)} elements"
        )
    return x.with_shape(*wished)


def reshape_like(x: Array, ref_tensors: tuple[Array, ...], **axes: Unpack[References]) -> Array:
    """Return the elements, in order, in a shape made of axes of others."""
    return x.reshape(shape_like([ref.shape for ref in ref_tensors], **axes))


def sample_reshape_like(chooser: Chooser) -> Sample:
    """Draw a reshape to the axes of one or two references, counted from the front or the end."""
    refs = [draw_shape(chooser, 1, 3) for _ in range(chooser.integer(1, 2))]
    begins = tuple(draw_axis(chooser, len(ref)) for ref in refs)
    ends = tuple(chooser.integer(begin % len(ref) + 1, len(ref)) for begin, ref in zip(begins, refs, strict=True))
    masks = tuple(chooser.choose([False, True]) for _ in refs)
    wished = shape_like(refs, begins=begins, ends=ends, end_masks=masks)
    tensors = tuple(draw_any(chooser, ref) for ref in refs)
    return Sample(
        {"x": draw_any(chooser, wished[::-1]), "ref_tensors": tensors},
        {"begins": begins, "ends": ends, "end_masks": masks},
    )


def matrix_shape(old: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Return the lengths of the axes before an axis, and from it on, multiplied.

    Raises:
        GraphError: There is no such place among the axes.
    """
    rank = len(old)
    if not -rank <= axis <= rank:
        raise GraphError(f"axis is out of range for a tensor of rank {rank}", seen=axis, limit=f"{-rank} to {rank}")
    cut = axis + rank if axis < 0 else axis
    return math.prod(old[:cut]), math.prod(old[cut:])


def flatten2d_type(x: TensorType, *, axis: int) -> TensorType:
    """Return the type of a tensor made a matrix."""
    return x.with_shape(*matrix_shape(x.shape, axis))


def flatten2d(x: Array, *, axis: int) -> Array:
    """Return the elements, in order, as a matrix."""
    return x.reshape(matrix_shape(x.shape, axis))


def sample_flatten2d(chooser: Chooser) -> Sample:
    """Draw a matrix form."""
    old = draw_shape(chooser)
    return Sample({"x": draw_any(chooser, old)}, {"axis": chooser.integer(-len(old), len(old))})


def flatten_type(x: TensorType) -> TensorType:
    """Return the type of an image laid out in one axis."""
    expect_rank(x, 3)
    return x.with_shape(x.size)


def sample_flatten(chooser: Chooser) -> Sample:
    """Draw an image."""
    return Sample({"x": draw_any(chooser, draw_shape(chooser, 3, 3))})


RESHAPE = Op(
    name="reshape",
    category=CATEGORY,
    summary="the elements of x, in order, in another shape; 0 copies the axis as far from the end, −1 is computed",
    operands=(Operand("x"),),
    attributes=(Attribute("shape", AttributeKind.INTEGERS, least=-1),),
    infer=reshape_type,
    meaning=reshape,
    sample=sample_reshape,
    movement=Movement(),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.moving.RESHAPED,
)
RESHAPE_LIKE = Op(
    name="reshape_like",
    category=CATEGORY,
    summary="x in the shape that the axes begins[i] to ends[i] of the references make; end_masks[i] opens the end",
    operands=(Operand("x"), Operand("ref_tensors", variadic=True)),
    attributes=(
        Attribute("begins", AttributeKind.INTEGERS),
        Attribute("ends", AttributeKind.INTEGERS),
        Attribute("end_masks", AttributeKind.FLAGS),
    ),
    infer=reshape_like_type,
    meaning=reshape_like,
    sample=sample_reshape_like,
    movement=Movement(),
    opset="ios16",
    support=LIKELY_F0,
    decompositions=lambda: (decompositions.movement.RESHAPED,),
    in_mil=True,
    gradient=lambda: gradients.moving.RESHAPED_LIKE,
)
FLATTEN2D = Op(
    name="flatten2d",
    category=CATEGORY,
    summary="x as a matrix: the axes before `axis` are its rows, the others its columns",
    operands=(Operand("x"),),
    attributes=(axis_attribute(1),),
    infer=flatten2d_type,
    meaning=flatten2d,
    sample=sample_flatten2d,
    movement=Movement(),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.RESHAPED,),
    in_mil=True,
    gradient=lambda: gradients.moving.RESHAPED,
)
FLATTEN = Op(
    name="flatten",
    category=CATEGORY,
    summary="an image [C, H, W] in one axis [C·H·W]",
    operands=(Operand("x"),),
    infer=flatten_type,
    meaning=numpy_function("ravel"),
    sample=sample_flatten,
    movement=Movement(),
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.moving.RESHAPED,
)


# expand_dims, squeeze, transpose, identity, shape


def expand_dims_type(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor with further axes of length 1; `axes` are those of the result."""
    added = normalise_axes(axes, x.rank + len(axes))
    old = iter(x.shape)
    return x.with_shape(*(1 if axis in added else next(old) for axis in range(x.rank + len(axes))))


def expand_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Return a tensor with further axes of length 1."""
    return np.expand_dims(x, axes)


def sample_expand_dims(chooser: Chooser) -> Sample:
    """Draw one or two further axes."""
    old = draw_shape(chooser, 1, 3)
    axes = chooser.choose([(0,), (-1,), (len(old),), (0, 1), (0, -1), (-1, 1)])
    return Sample({"x": draw_any(chooser, old)}, {"axes": axes})


def squeezed_axes(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes to drop; None is every axis of length 1.

    Raises:
        GraphError: One of them is longer than 1.
    """
    if axes is None:
        return tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    found = normalise_axes(axes, len(shape))
    for axis in found:
        if shape[axis] != 1:
            raise GraphError(f"axis {axis} of shape {list(shape)} cannot be squeezed", seen=shape[axis], limit=1)
    return found


def squeeze_type(x: TensorType, *, axes: tuple[int, ...] | None) -> TensorType:
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
    return Sample({"x": draw_any(chooser, (1, *old))}, {"axes": axes})


def transpose_type(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    """Return the type of a tensor with its axes in another order."""
    expect_entries("perm", perm, x.rank, "axis")
    return x.with_shape(*(x.shape[axis] for axis in normalise_axes(perm, x.rank, "perm")))


def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    """Return a tensor with its axes in another order."""
    return np.transpose(x, perm)


def sample_transpose(chooser: Chooser) -> Sample:
    """Draw an order of the axes, some counted from the end."""
    old = draw_shape(chooser)
    left = list(range(len(old)))
    perm = [left.pop(chooser.integer(0, len(left) - 1)) for _ in old]
    return Sample({"x": draw_any(chooser, old)}, {"perm": tuple(axis - chooser.choose([0, len(old)]) for axis in perm)})


def identity(x: Array) -> Array:
    """Return the same values."""
    return x.copy()


def shape_type(x: TensorType) -> TensorType:
    """Return the type of a list of extents."""
    return TensorType((x.rank,), "int32")


def extents(x: Array) -> Array:
    """Return the lengths of the axes."""
    return np.array(x.shape, np.int32)


def sample_any(chooser: Chooser) -> Sample:
    """Draw any tensor."""
    return Sample({"x": draw_any(chooser, draw_shape(chooser))})


EXPAND_DIMS = Op(
    name="expand_dims",
    category=CATEGORY,
    summary="x with further axes of length 1; `axes` are their places in the result",
    operands=(Operand("x"),),
    attributes=(Attribute("axes", AttributeKind.INTEGERS),),
    infer=expand_dims_type,
    meaning=expand_dims,
    sample=sample_expand_dims,
    movement=Movement(),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.RESHAPED,),
    in_mil=True,
    gradient=lambda: gradients.moving.RESHAPED,
)
SQUEEZE = Op(
    name="squeeze",
    category=CATEGORY,
    summary="x without the given axes of length 1, or without all of them",
    operands=(Operand("x"),),
    attributes=(AXES,),
    infer=squeeze_type,
    meaning=squeeze,
    sample=sample_squeeze,
    movement=Movement(),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.RESHAPED,),
    in_mil=True,
    gradient=lambda: gradients.moving.RESHAPED,
)
TRANSPOSE = Op(
    name="transpose",
    category=CATEGORY,
    summary="x with its axes in another order: axis i of the result is axis perm[i] of x",
    operands=(Operand("x"),),
    attributes=(Attribute("perm", AttributeKind.INTEGERS),),
    infer=transpose_type,
    meaning=transpose,
    sample=sample_transpose,
    movement=Movement(),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.moving.TRANSPOSED,
)
IDENTITY = Op(
    name="identity",
    category=CATEGORY,
    summary="x",
    operands=(Operand("x"),),
    infer=own_type,
    meaning=identity,
    sample=sample_any,
    movement=Movement(),
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
)
SHAPE = Op(
    name="shape",
    category=CATEGORY,
    summary="the lengths of the axes of x",
    operands=(Operand("x"),),
    infer=shape_type,
    meaning=extents,
    traits=frozenset({Trait.COMPARING}),
    codomain=FROM_ZERO,
    sample=sample_any,
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)

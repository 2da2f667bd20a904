"""Operations that take a region of a tensor or write one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import BRIDGE_F0, LIKELY_F2, NOWHERE, axis_attribute
from aneforge.ops.op import Category, MilStatus, Op, Support, Surface, Trait
from aneforge.ops.results import Movement
from aneforge.ops.sampling import Chooser, Fill, Sample, draw_any, draw_axis, draw_shape
from aneforge.ops.shapes import (
    common_dtype,
    expect_entries,
    expect_integer,
    expect_least_rank,
    expect_representable,
    expect_shape,
    normalise_axis,
)
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

CATEGORY = Category.STRUCTURAL
RARELY = (False, False, True)

T = TypeVar("T")


# slice_by_size, slice_by_index, slice_update


def block(shape: tuple[int, ...], begin: tuple[int, ...], size: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the region of `size` elements from `begin` on; a size of −1 goes to the end.

    Raises:
        GraphError: The region is not within the shape.
    """
    expect_entries("begin", begin, len(shape), "axis")
    expect_entries("size", size, len(shape), "axis")
    region: list[slice] = []
    for axis, (extent, first, count) in enumerate(zip(shape, begin, size, strict=True)):
        end = extent if count == -1 else first + count
        if first > extent or end > extent:
            raise GraphError(f"the slice passes the end of axis {axis}", seen=max(first, end), limit=extent)
        region.append(slice(first, end))
    return tuple(region)


def slice_by_size_type(x: TensorType, *, begin: tuple[int, ...], size: tuple[int, ...]) -> TensorType:
    """Return the type of a block of a tensor."""
    return x.with_shape(*region_shape(x.shape, block(x.shape, begin, size)))


def slice_by_size(x: Array, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Array:
    """Return a block of a tensor."""
    return x[block(x.shape, begin, size)]


def sample_slice_by_size(chooser: Chooser) -> Sample:
    """Draw a block, some of its axes to the end."""
    shape = draw_shape(chooser)
    begin = tuple(chooser.integer(0, extent - 1) for extent in shape)
    size = tuple(
        chooser.choose([-1, chooser.integer(1, extent - first)]) for extent, first in zip(shape, begin, strict=True)
    )
    return Sample({"x": draw_any(chooser, shape)}, {"begin": begin, "size": size})


class Region(TypedDict):
    """The attributes that name a region: from begin to end by stride on every axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    stride: tuple[int, ...] | None
    begin_mask: tuple[bool, ...] | None
    end_mask: tuple[bool, ...] | None
    squeeze_mask: tuple[bool, ...] | None


REGION = (
    Attribute("begin", AttributeKind.INTEGERS),
    Attribute("end", AttributeKind.INTEGERS),
    Attribute("stride", AttributeKind.INTEGERS, None),
    Attribute("begin_mask", AttributeKind.FLAGS, None),
    Attribute("end_mask", AttributeKind.FLAGS, None),
    Attribute("squeeze_mask", AttributeKind.FLAGS, None),
)


def region_index(shape: tuple[int, ...], region: Region) -> tuple[slice | int, ...]:
    """Return the index of a region as NumPy has it: a slice for an axis that stays, a number for one that goes.

    Raises:
        GraphError: A list does not fit the rank, a stride is 0, or a squeezed axis has no such element.
    """
    rank = len(shape)
    begin = axis_entries("begin", region["begin"], 0, rank)
    end = axis_entries("end", region["end"], 0, rank)
    stride = axis_entries("stride", region["stride"], 1, rank)
    from_first, to_last, squeezed = (
        axis_entries(name, region[name], default=False, rank=rank)
        for name in ("begin_mask", "end_mask", "squeeze_mask")
    )
    if 0 in stride:
        raise GraphError("a stride of 0 never moves on", seen=list(stride), limit="any other integer")
    index: list[slice | int] = []
    for axis, extent in enumerate(shape):
        if squeezed[axis]:
            index.append(0 if from_first[axis] else element(axis, extent, begin[axis]))
        else:
            first, last = None if from_first[axis] else begin[axis], None if to_last[axis] else end[axis]
            index.append(slice(first, last, stride[axis]))
    return tuple(index)


def axis_entries(name: str, given: tuple[T, ...] | None, default: T, rank: int) -> tuple[T, ...]:
    """Return a list with an entry for each axis; one that was left out has the default for all.

    Raises:
        GraphError: The list does not fit the rank.
    """
    if given is None:
        return (default,) * rank
    expect_entries(name, given, rank, "axis")
    return given


def element(axis: int, extent: int, place: int) -> int:
    """Return the place of an element that must be on an axis.

    Raises:
        GraphError: The axis is too short.
    """
    if not -extent <= place < extent:
        raise GraphError(
            f"begin names no element of the squeezed axis {axis}", seen=place, limit=f"{-extent} to {extent - 1}"
        )
    return place


def region_shape(shape: Sequence[int], index: Sequence[slice | int]) -> tuple[int, ...]:
    """Return the shape of a region."""
    return tuple(len(range(extent)[one]) for extent, one in zip(shape, index, strict=True) if isinstance(one, slice))


def slice_by_index_type(x: TensorType, **region: Unpack[Region]) -> TensorType:
    """Return the type of a region of a tensor."""
    return x.with_shape(*region_shape(x.shape, region_index(x.shape, region)))


def slice_by_index(x: Array, **region: Unpack[Region]) -> Array:
    """Return a region of a tensor."""
    return np.asarray(x[region_index(x.shape, region)])


def slice_update_type(x: TensorType, update: TensorType, **region: Unpack[Region]) -> TensorType:
    """Return the type of a tensor with a region written."""
    common_dtype(x, update)
    expect_shape(update, region_shape(x.shape, region_index(x.shape, region)), "the region", "update")
    return x


def slice_update(x: Array, update: Array, **region: Unpack[Region]) -> Array:
    """Return a tensor with a region written."""
    result = x.copy()
    result[region_index(x.shape, region)] = update
    return result


def draw_region(chooser: Chooser, shape: tuple[int, ...]) -> Region:
    """Draw a region of one element or more: both directions, both ways to count, ends past the axis, all masks."""
    stride = tuple(chooser.choose([1, 1, 2, 3, -1, -2]) for _ in shape)
    squeeze = tuple(chooser.choose(RARELY) for _ in shape)
    begin = [chooser.integer(-extent, extent - 1) for extent in shape]
    end = [chooser.integer(-extent - 2, extent + 2) for extent in shape]
    begin_mask = [chooser.choose(RARELY) for _ in shape]
    end_mask = [chooser.choose(RARELY) for _ in shape]
    for axis, extent in enumerate(shape):
        first, last = None if begin_mask[axis] else begin[axis], None if end_mask[axis] else end[axis]
        if not len(range(extent)[first : last : stride[axis]]):
            end_mask[axis] = True
    return Region(
        begin=tuple(begin),
        end=tuple(end),
        stride=chooser.choose([stride, None]) if all(one == 1 for one in stride) else stride,
        begin_mask=tuple(begin_mask) if any(begin_mask) else None,
        end_mask=tuple(end_mask) if any(end_mask) else None,
        squeeze_mask=tuple(squeeze) if any(squeeze) else None,
    )


def attributes_of(region: Region) -> dict[str, AttributeValue]:
    """Return a region as attributes."""
    return {
        "begin": region["begin"],
        "end": region["end"],
        "stride": region["stride"],
        "begin_mask": region["begin_mask"],
        "end_mask": region["end_mask"],
        "squeeze_mask": region["squeeze_mask"],
    }


def sample_slice_by_index(chooser: Chooser) -> Sample:
    """Draw a region."""
    shape = draw_shape(chooser)
    return Sample({"x": draw_any(chooser, shape)}, attributes_of(draw_region(chooser, shape)))


def sample_slice_update(chooser: Chooser) -> Sample:
    """Draw a region and what is written there."""
    x = draw_any(chooser, draw_shape(chooser))
    region = draw_region(chooser, x.type.shape)
    update = Fill(x.type.with_shape(*region_shape(x.type.shape, region_index(x.type.shape, region))))
    return Sample({"x": x, "update": update}, attributes_of(region))


SLICE_BY_SIZE = Op(
    name="slice_by_size",
    category=CATEGORY,
    summary="the block of x of size[i] elements from begin[i] on along axis i; a size of −1 goes to the end",
    operands=(Operand("x"),),
    attributes=(
        Attribute("begin", AttributeKind.INTEGERS, least=0),
        Attribute("size", AttributeKind.INTEGERS, least=-1),
    ),
    infer=slice_by_size_type,
    meaning=slice_by_size,
    sample=sample_slice_by_size,
    movement=Movement(),
    traits=frozenset({Trait.SLICING}),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.SLICE_OF_SIZE_BY_VIEWS,),
    in_mil=True,
    gradient=lambda: gradients.moving.BLOCK,
)
SLICE_BY_INDEX = Op(
    name="slice_by_index",
    category=CATEGORY,
    summary="x[begin[i] : end[i] : stride[i]] along axis i; a mask leaves begin or end open, or drops the axis",
    operands=(Operand("x"),),
    attributes=REGION,
    infer=slice_by_index_type,
    meaning=slice_by_index,
    sample=sample_slice_by_index,
    movement=Movement(),
    traits=frozenset({Trait.SLICING}),
    support=Support(floor=0, mil_since=3, mil_otherwise=MilStatus.BRIDGE),
    decompositions=lambda: (decompositions.movement.SLICE_BY_VIEWS,),
    in_mil=True,
    gradient=lambda: gradients.moving.REGION,
)
SLICE_UPDATE = Op(
    name="slice_update",
    category=CATEGORY,
    summary="x with the region that slice_by_index would take replaced by `update`",
    operands=(Operand("x"), Operand("update")),
    attributes=REGION,
    infer=slice_update_type,
    meaning=slice_update,
    sample=sample_slice_update,
    movement=Movement(("x", "update")),
    opset="ios18",
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.moving.WRITTEN_REGION,
)


# sliding_windows, input_view, dynamic_slice


def sliding_windows_type(x: TensorType, *, axis: int, size: int, stride: int) -> TensorType:
    """Return the type of all windows along an axis."""
    along = normalise_axis(axis, x.rank)
    if size > x.shape[along]:
        raise GraphError("the window is longer than the axis", seen=size, limit=x.shape[along])
    windows = (x.shape[along] - size) // stride + 1
    return x.with_shape(*x.shape[:along], windows, size, *x.shape[along + 1 :])


def sliding_windows(x: Array, *, axis: int, size: int, stride: int) -> Array:
    """Return all windows along an axis; the axis counts windows, a further one after it their elements."""
    along = axis % x.ndim
    extent: int = x.shape[along]
    first = np.arange(0, extent - size + 1, stride)
    return np.take(x, first[:, None] + np.arange(size), along)


def sample_sliding_windows(chooser: Chooser) -> Sample:
    """Draw windows that meet the end of the axis or do not."""
    shape = draw_shape(chooser, longest=7)
    axis = draw_axis(chooser, len(shape))
    attributes = {"axis": axis, "size": chooser.integer(1, shape[axis]), "stride": chooser.integer(1, 3)}
    return Sample({"x": draw_any(chooser, shape)}, attributes)


def viewed(extent: int, offset: int, size: int, step: int) -> slice:
    """Return the elements of a view.

    Raises:
        GraphError: The view passes the end of the axis.
    """
    last = offset + (size - 1) * step
    if last >= extent:
        raise GraphError("the view passes the end of the axis", seen=last, limit=extent - 1)
    return slice(offset, last + 1, step)


def input_view_type(x: TensorType, *, axis: int, offset: int, size: int, step: int) -> TensorType:
    """Return the type of a view along one axis."""
    along = normalise_axis(axis, x.rank)
    viewed(x.shape[along], offset, size, step)
    return x.with_shape(*x.shape[:along], size, *x.shape[along + 1 :])


def input_view(x: Array, *, axis: int, offset: int, size: int, step: int) -> Array:
    """Return a view along one axis."""
    along = axis % x.ndim
    return x[(slice(None),) * along + (viewed(x.shape[along], offset, size, step),)]


def sample_input_view(chooser: Chooser) -> Sample:
    """Draw a view."""
    shape = draw_shape(chooser, longest=8)
    axis = draw_axis(chooser, len(shape))
    offset = chooser.integer(0, shape[axis] - 1)
    step = chooser.integer(1, 3)
    size = chooser.integer(1, (shape[axis] - 1 - offset) // step + 1)
    return Sample({"x": draw_any(chooser, shape)}, {"axis": axis, "offset": offset, "size": size, "step": step})


def dynamic_slice_type(x: TensorType, begin: TensorType, *, size: int, background_value: float) -> TensorType:
    """Return the type of a slice of the last axis."""
    expect_least_rank(x, 1)
    expect_integer(begin, "begin")
    if begin.size != 1:
        raise GraphError("begin is not a single index", seen=list(begin.shape), limit="one element")
    if size > x.shape[-1]:
        raise GraphError("the slice is longer than the axis", seen=size, limit=x.shape[-1])
    expect_representable("background_value", background_value, x.dtype)
    return x.with_shape(*x.shape[:-1], size)


def dynamic_slice(x: Array, begin: Array, *, size: int, background_value: float) -> Array:
    """Return a slice of the last axis from a computed place on; what is outside of x is the background."""
    places = int(begin.item()) + np.arange(size)
    inside = (places >= 0) & (places < x.shape[-1])
    taken = x[..., np.where(inside, places, 0)]
    return np.where(inside, taken, x.dtype.type(background_value))


def sample_dynamic_slice(chooser: Chooser) -> Sample:
    """Draw a slice within the axis or past its end."""
    x = draw_any(chooser, draw_shape(chooser, longest=6))
    extent = x.type.shape[-1]
    dtype = chooser.choose(["int32", "uint16"])
    begin = Fill(TensorType(chooser.choose([(), (1,)]), dtype), -2 if dtype == "int32" else 0, extent)
    attributes = {"size": chooser.integer(1, extent), "background_value": chooser.choose([0.0, 1.0])}
    return Sample({"x": x, "begin": begin}, attributes)


SLIDING_WINDOWS = Op(
    name="sliding_windows",
    category=CATEGORY,
    summary="all windows of `size` elements along an axis, `stride` apart, in a further axis after it",
    operands=(Operand("x"),),
    attributes=(
        axis_attribute(),
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("stride", AttributeKind.INTEGER, 1, least=1),
    ),
    infer=sliding_windows_type,
    meaning=sliding_windows,
    sample=sample_sliding_windows,
    movement=Movement(),
    support=NOWHERE,
    in_mil=True,
    gradient=lambda: gradients.moving.WINDOWS,
)
INPUT_VIEW = Op(
    name="input_view",
    category=CATEGORY,
    summary="`size` elements of x along one axis, from `offset` on, `step` apart",
    operands=(Operand("x"),),
    attributes=(
        axis_attribute(-1),
        Attribute("offset", AttributeKind.INTEGER, least=0),
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("step", AttributeKind.INTEGER, 1, least=1),
    ),
    infer=input_view_type,
    meaning=input_view,
    sample=sample_input_view,
    movement=Movement(),
    traits=frozenset({Trait.SLICING}),
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=BRIDGE_F0,
    catalogued=False,
    gradient=lambda: gradients.moving.VIEW,
)
DYNAMIC_SLICE = Op(
    name="dynamic_slice",
    category=CATEGORY,
    summary="`size` elements of the last axis from a computed place on; outside of x, the background value",
    operands=(Operand("x"), Operand("begin")),
    attributes=(
        Attribute("size", AttributeKind.INTEGER, least=1),
        Attribute("background_value", AttributeKind.NUMBER, 0.0),
    ),
    infer=dynamic_slice_type,
    meaning=dynamic_slice,
    sample=sample_dynamic_slice,
    movement=Movement(adds=("background_value",)),
    surface=Surface.NATIVE_LAYER,
    in_mil=False,
    support=Support(floor=3, mil_since=None, mil_otherwise=MilStatus.BRIDGE),
    catalogued=False,
    traits=frozenset({Trait.INDICES}),
    gradient=lambda: gradients.looking_up.SLICED_FROM,
)
